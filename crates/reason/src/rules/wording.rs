//! What a rule says: culprit, sentence, evidence, way out, and how bad a loss is.
//!
//! Parts of the JSON contract that rules fill (docs/json.md): fields are only ever added. Numbers are for machines: seconds
//! as floating point, everything else in the unit that the field names. Must not hold what the engine computes for all rules
//! alike (who loses how much is [`Impact`]'s input, not a rule's).
//!
//! Edit together: answer/report.rs, docs/json.md.

pub use super::remedy::Remedy;

use crate::facts::ThreadRef;
use crate::model::containers::Workload;
use serde::{Deserialize, Serialize};

/// A finding in words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wording {
    /// The verdict: one sentence without a full stop's worth of doubt in it.
    pub title: String,
    /// One short paragraph with the numbers, for people.
    pub text: String,
    /// What was checked.
    pub evidence: Vec<Evidence>,
    /// The ways out, best first.
    pub remedy: Vec<Remedy>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nobody is known to wait for it now.
    Note,
    /// Somebody is slower for it.
    Warning,
    /// Somebody makes no progress, or loses most of its time.
    Critical,
}

impl Severity {
    /// Of a wait: somebody must lose a noticeable part of its time, and not just a moment of it. A sixth of the time is
    /// where work takes a fifth longer than it would; what costs less is worth a note.
    pub fn of(impact: &Impact) -> Self {
        let rate = impact.wait_seconds_per_second;
        if rate >= 0.25 && impact.share >= 0.5 {
            Self::Critical
        } else if rate >= 0.05 && impact.share >= 1.0 / 6.0 {
            Self::Warning
        } else {
            Self::Note
        }
    }
}

/// Who holds it up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CulpritKind {
    /// A process.
    Process,
    /// A container or cgroup.
    Container,
    /// The kernel itself.
    Kernel,
    /// The other end of a connection.
    Peer,
    /// A device.
    Device,
    /// A setting.
    Setting,
    /// Nobody, or not known.
    #[default]
    None,
}

/// Who holds it up. Fields that do not apply are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Culprit {
    /// Kind.
    pub kind: CulpritKind,
    /// Comm, container, device, host: the short name.
    pub name: String,
    /// Of a thread with a name of its own, the name of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The same process in its own PID namespace, if that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
    /// Thread, where it is not the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Container of the process, or the culprit's cgroup path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Whose the process or the group is.
    #[serde(flatten)]
    pub workload: Workload,
    /// The setting's file or key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// Network address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl Culprit {
    /// A process (its thread reported if it is not the main one).
    pub fn process(thread: &ThreadRef) -> Self {
        Self {
            kind: CulpritKind::Process,
            name: thread.comm.clone(),
            pid: Some(thread.pid),
            tid: (thread.tid != thread.pid).then_some(thread.tid),
            ..Self::default()
        }
    }

    /// A setting, by the file or key that holds it, with a short name of what it limits.
    pub fn setting(name: impl Into<String>, setting: impl Into<String>) -> Self {
        Self {
            kind: CulpritKind::Setting,
            name: name.into(),
            setting: Some(setting.into()),
            ..Self::default()
        }
    }

    /// The other end of a connection, by its address; `name` is what a person calls it.
    pub fn peer(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            kind: CulpritKind::Peer,
            name: name.into(),
            address: Some(address.into()),
            ..Self::default()
        }
    }

    /// A device.
    pub fn device(name: impl Into<String>) -> Self {
        Self { kind: CulpritKind::Device, name: name.into(), ..Self::default() }
    }
}

/// How much it matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Impact {
    /// Demand-wait seconds per second on the object.
    pub wait_seconds_per_second: f64,
    /// Of a command: share of its critical path. Else: share of the victims' demand time
    /// (time not idle; of a process that was asked about, with what it waits for others), 0 to 1.
    pub share: f64,
    /// Of a window longer than 6 s: the moment that makes it count, where its share of the window would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<ImpactMoment>,
}

/// The second of a window in which one victim lost most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImpactMoment {
    /// When it began, nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// Who lost.
    pub pid: u32,
    /// How much, seconds: within one second from then on.
    pub seconds: f64,
    /// Of the victim's time within that second that was not idle, 0 to 1.
    pub share: f64,
}

/// One checked fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// What was found, a clause that reads with the value left out.
    pub fact: String,
    /// Its value.
    pub value: f64,
    /// Unit of the value: `s`, `ms`, `1/s`, `bytes`, `%`, `1` for counts.
    pub unit: String,
    /// Where it was read.
    pub source: String,
}

impl Evidence {
    /// One checked fact.
    pub fn new(fact: impl Into<String>, value: f64, unit: &str, source: impl Into<String>) -> Self {
        Self { fact: fact.into(), value, unit: unit.into(), source: source.into() }
    }
}
