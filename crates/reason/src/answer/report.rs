//! Findings and the report: the contract of `--json`, version 1 (docs/json.md, design section 4).
//!
//! This module owns the shape of an answer. It must not hold rules (they are in `rules/`) nor
//! wording for terminals (that is the report crate). Fields are only ever added. Numbers here are
//! for machines: seconds as floating point, everything else in the unit that the field names.
//!
//! Edit together: docs/json.md, `report/src/text.rs`.

pub use super::bounds::LeftOut;
pub use super::container_card::*;
pub use super::container_start::{ContainerStart, StartPhase};
pub use crate::graph::end::EndKind;
pub use crate::model::containers::Workload;
pub use crate::model::names::ObjectName;
pub use crate::programs::lock_kind::LockKind;
pub use crate::rules::action::{ActedOn, Action, ActionKind, ActionTarget, Question};
pub use crate::rules::wording::{
    Culprit, CulpritKind, Evidence, Impact, ImpactMoment, Remedy, Severity,
};

use crate::facts::{Cost, OwnScheduling, TargetKind, ThreadRef};
use crate::rules::wait_words::AWAITS_TIMEOUT;
use serde::{Deserialize, Serialize};

/// Version of the JSON contract.
pub const SCHEMA: u32 = 1;

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Who answers.
    pub tool: Tool,
    /// Where it was looked.
    #[serde(default)]
    pub host: ReportHost,
    /// What was looked at.
    pub target: ReportTarget,
    /// When, and how long.
    pub window: Window,
    /// Where the time went; the parts add up to the wall.
    pub accounting: Accounting,
    /// The answer in short: the verdict, and who loses how much to what.
    #[serde(default)]
    pub answer: Answer,
    /// What holds it up, worst first; empty if nothing does.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::FINDINGS_MAX)))]
    pub findings: Vec<Finding>,
    /// Of a container that was looked at: what it used, beside its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Card>,
    /// Of a command that started a container: what its start took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_start: Option<ContainerStart>,
    /// Lines of the kernel's log in the window that belong to no finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::LOG_LINES_MAX)))]
    pub kernel_log: Vec<LogLine>,
    /// A fault of the kernel in a program that holdup itself had loaded into it: the host may be harmed by the look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_fault: Option<OwnFault>,
    /// What was left out of lists that are longer than their bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::LEFT_OUT_MAX)))]
    pub left_out: Vec<LeftOut>,
    /// What limits this answer.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::CAVEATS_MAX)))]
    pub caveats: Vec<Caveat>,
    /// What it cost to look.
    pub cost: ReportCost,
}

impl Report {
    /// What was left out of a list, by its JSON Pointer.
    pub fn left_out_of(&self, list: &str) -> Option<&LeftOut> {
        self.left_out.iter().find(|cut| cut.list == list)
    }
}

/// A fault that the kernel met in a kernel program of holdup's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnFault {
    /// The function of the program.
    pub program: String,
    /// The kernel's release.
    pub kernel: String,
    /// The line of the kernel's log that says where.
    pub log: String,
}

/// Name and version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// `holdup`.
    pub name: String,
    /// Version of the binary that observed.
    pub version: String,
}

/// The host that was looked at: where an answer is read that has left it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ReportHost {
    /// `uname -n`.
    pub name: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// Another each time that the host starts; absent if it was not read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// The same at each start, and of no other host: a hash of its machine id; absent if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine_id_hash: String,
    /// Addresses by which others reach it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::ADDRESSES_MAX)))]
    pub addresses: Vec<String>,
    /// Ports at which it answers, in its own network namespace; absent where open descriptors were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::LISTENING_MAX)))]
    pub listening: Option<Vec<Listening>>,
    /// CPUs online.
    pub cpus: u32,
}

/// A port at which a program of the host answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Listening {
    /// Number of the port.
    pub port: u16,
    /// `tcp`, `mptcp` (its listeners take TCP as well), `udp`.
    pub protocol: String,
    /// The address that it is bound to; `0.0.0.0` or `::` is any of the host.
    pub address: String,
    /// Name of the process whose socket it is; of several that share it the first.
    pub program: String,
    /// Its process id.
    pub pid: u32,
}

/// What was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportTarget {
    /// Kind.
    pub kind: TargetKind,
    /// Host name, container, comm, or the command's words.
    pub name: String,
    /// Process, for processes and commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Exit status of the command, for `run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
}

/// When, and how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// Nanoseconds since 1970.
    pub begin_unix_ns: u64,
    /// Length.
    pub seconds: f64,
}

/// Conserved time. For a command, `wall_seconds` is its wall time and the parts are its critical
/// path. For a process, a container or the host it is thread-seconds: the length of the window
/// times the threads that lived in it, idle ones included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accounting {
    /// What the parts add up to.
    pub wall_seconds: f64,
    /// The parts, greatest first.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::PARTS_MAX)))]
    pub parts: Vec<Part>,
    /// `wall_seconds` minus the parts.
    pub residual_seconds: f64,
}

/// What an answer comes down to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// By a named cause, above a note.
    Held,
    /// For an end of somebody else's making that no rule names.
    Waits,
    /// The time is its own work.
    Works,
    /// Nobody is owed anything.
    #[default]
    Idle,
}

/// The answer in short. Of a command the ends add up to its wall time, else to the demand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Answer {
    /// What it comes down to.
    pub verdict: Verdict,
    /// One sentence.
    pub title: String,
    /// A paragraph with the numbers; may be empty.
    pub text: String,
    /// Index into `ends` of the one that the title is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<usize>,
    /// What the ends add up to.
    pub demand_seconds: f64,
    /// The ends, greatest first.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::ENDS_MAX)))]
    pub ends: Vec<AnswerEnd>,
}

impl Answer {
    /// The end that the title is about.
    pub fn largest(&self) -> Option<&AnswerEnd> {
        self.ends.get(self.first?)
    }
}

/// Where following waits stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerEnd {
    /// What kind of thing it is.
    pub end: EndKind,
    /// The object.
    pub object: ObjectName,
    /// What kind of lock it is, if the program's own functions tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_kind: Option<LockKind>,
    /// Who would have to act, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// Seconds lost to it.
    pub seconds: f64,
    /// Of all, 0 to 1.
    pub share: f64,
    /// The longest single wait, its time before the look included, seconds.
    #[serde(default)]
    pub longest_seconds: f64,
    /// Of a command: how much shorter it would be without the end.
    #[serde(flatten)]
    pub without_it: WithoutIt,
    /// Who loses, longest first.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::VICTIMS_MAX)))]
    pub victims: Vec<Victim>,
    /// The longest chain, from victim to end.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::LINKS_MAX)))]
    pub chain: Vec<Link>,
    /// Index into `findings` if a rule named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<usize>,
    /// The command that asks the program itself, where nothing more can be seen from outside; empty if it is not needed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ask: String,
    /// The same, typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_action: Option<Action>,
    /// Of an open end: why it goes no further, one clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_open: Option<String>,
    /// Of a sleep: it was a wait for something else, for events or a condition, and its own timeout ended it. Whether time was to
    /// pass, or what it waited for did not come, is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_timeout: bool,
    /// Of a wait on a socket: it is connected to nobody, so it is not known that anybody owes it an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconnected: bool,
    /// Of a wait on a socket: it is for the connection itself, before which nobody owes an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connecting: bool,
    /// Of a wait on a connection: its other end has had the last word, so it is not known that it owes an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unasked: bool,
}

impl AnswerEnd {
    /// What somebody does that sleeps: `sleeps`, or no more than was seen.
    pub(crate) fn sleeps(&self) -> &'static str {
        if self.by_timeout { AWAITS_TIMEOUT } else { "sleeps" }
    }
}

/// How much shorter a command would be at most without something. Empty where that is not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WithoutIt {
    /// At most so much, seconds: what the longest other path through the same recording leaves. A bound, no forecast.
    #[serde(rename = "without_it_seconds_max", skip_serializing_if = "Option::is_none")]
    pub seconds_max: Option<f64>,
    /// The same without the part of the process that is named alone, where several of one program do it side by side.
    #[serde(rename = "without_who_seconds_max", skip_serializing_if = "Option::is_none")]
    pub who_seconds_max: Option<f64>,
    /// Why it is so much, one clause.
    #[serde(rename = "without_it_why", skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// One part of the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Class of wait (`WaitClass::word`), or `running`.
    pub class: String,
    /// What was waited for, or who ran.
    pub object: ObjectName,
    /// How long.
    pub seconds: f64,
}

/// Somebody who waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Victim {
    /// Process.
    pub pid: u32,
    /// The same process in its own PID namespace, if that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
    /// Its name.
    pub comm: String,
    /// Its container, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Whose it is.
    #[serde(flatten)]
    pub workload: Workload,
    /// Demand wait on this object within the window, summed over its threads.
    pub wait_seconds: f64,
}

/// One link: who waits on what. The first link is the victim, the last the root.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Link {
    /// Who waits.
    pub who: Who,
    /// On what.
    pub waits_on: ObjectName,
    /// How long, within the window.
    pub seconds: f64,
    /// What kind of lock it is, if the program's own functions tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_kind: Option<LockKind>,
    /// The functions of the program that led to the wait, the innermost first, each with its file; empty if they were not
    /// read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::STACK_MAX)))]
    pub stack: Vec<String>,
    /// Why the chain goes on from here to who is next, and to nobody else: `the kernel's table of file locks says that it has the lock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// One participant of a chain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Who {
    /// `process`, `kernel`, `device`, `peer`.
    pub kind: String,
    /// Its name; of a thread with a name of its own, that one.
    pub name: String,
    /// Of such a thread the name of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// What it runs, where its name does not say that: a subcommand, a script, a module or a class (`pack-objects` of git,
    /// `worker.py` of python3). Whoever started it chose the words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<String>,
    /// Process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Where several processes of that program have slept for it, one after another or side by side: how many. The number is that of the one which did
    /// so for longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_its_name: Option<usize>,
    /// The same process in its own PID namespace, if that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
    /// Thread, where it is not the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Its container, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Whose it is.
    #[serde(flatten)]
    pub workload: Workload,
    /// Of who works, where it spends its time: a system call, or the file of its code, with its share of the samples. In
    /// a chain, the function of the program in which it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Of that function in a chain, its file and line (`shop.py:41`), where the language tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Who {
    /// A thread of a process.
    pub fn thread(thread: &ThreadRef) -> Self {
        Self {
            kind: "process".into(),
            name: thread.comm.clone(),
            pid: Some(thread.pid),
            tid: (thread.tid != thread.pid).then_some(thread.tid),
            ..Self::default()
        }
    }

    /// Its name, or its program's, with what runs under it: `git pack-objects`.
    pub fn called(&self) -> String {
        let name = self.program.as_ref().unwrap_or(&self.name);
        match &self.runs {
            Some(runs) => format!("{name} {runs}"),
            None => name.clone(),
        }
    }

    /// The name of its own that a thread has beside its program's.
    pub fn thread_name(&self) -> Option<&str> {
        self.program.as_ref().map(|_| self.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// A named cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// `area.cause`, stable for ever.
    pub code: String,
    /// The same in every look at the same trouble: code, object and culprit without the numbers of one look.
    #[serde(default)]
    pub key: String,
    /// The verdict: one sentence without a full stop's worth of doubt in it.
    pub title: String,
    /// One short paragraph that tells the numbers, for people.
    #[serde(default)]
    pub text: String,
    /// How bad.
    pub severity: Severity,
    /// 0 to 1: how well the evidence excludes the other causes.
    pub confidence: f64,
    /// What is waited for.
    pub object: ObjectName,
    /// Who holds it up.
    pub culprit: Culprit,
    /// Who waits, longest first.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::VICTIMS_MAX)))]
    pub victims: Vec<Victim>,
    /// How much it matters.
    pub impact: Impact,
    /// Of a command: how much shorter it would be without it.
    #[serde(flatten)]
    pub without_it: WithoutIt,
    /// The longest chain from a victim to the root.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::LINKS_MAX)))]
    pub chain: Vec<Link>,
    /// What was checked.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::EVIDENCE_MAX)))]
    pub evidence: Vec<Evidence>,
    /// Lines of the kernel's log in the window that name what it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::LOG_LINES_MAX)))]
    pub kernel_log: Vec<LogLine>,
    /// The ways out, best first.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::REMEDIES_MAX)))]
    pub remedy: Vec<Remedy>,
    /// Stories of the field that this finding answers.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::STORIES_MAX)))]
    pub stories: Vec<String>,
}

/// A line of the kernel's log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LogLine {
    /// When, seconds after the begin of the window, by the log's own clock.
    pub seconds: f64,
    /// Its severity in words, from `emergency` to `debug`.
    pub level: String,
    /// The line, cut at 240 bytes; names in it belong to anybody.
    pub text: String,
    /// Lines like it that came after it and were only counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What limits an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Caveat {
    /// A stable word: `events_lost`, `no_bpf`, `residual`, `ended_early`, ...
    pub code: String,
    /// For people.
    pub text: String,
}

/// What it cost to look.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportCost {
    /// CPU time of holdup itself.
    pub cpu_seconds: f64,
    /// CPU time of its kernel programs; null if it was not measured.
    pub bpf_seconds: Option<f64>,
    /// Peak resident set.
    pub rss_bytes: u64,
    /// Kernel events received.
    pub events: u64,
    /// Kernel events lost.
    pub events_lost: u64,
    /// What the scheduler granted holdup's own threads when the look ended; null if a recording does not tell.
    #[serde(default)]
    pub scheduling: Option<OwnScheduling>,
    /// Whether its memory was locked; null if a recording does not tell.
    #[serde(default)]
    pub memory_locked: Option<bool>,
    /// What reading user stacks took of it; absent if none were to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_stacks: Option<UserStacksCost>,
}

/// What it cost to read user stacks: at most a two-hundredth of a CPU while the look lasts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserStacksCost {
    /// Stacks that were read.
    pub read: u64,
    /// Stacks that were dropped, because their thread had moved meanwhile.
    pub moved: u64,
    /// Threads whose stack was not read, because there was no time for it.
    pub left_out: u64,
    /// CPU time, part of holdup's own.
    pub cpu_seconds: f64,
}

impl From<&Cost> for ReportCost {
    fn from(cost: &Cost) -> Self {
        Self {
            cpu_seconds: cost.cpu_seconds,
            bpf_seconds: cost.bpf_seconds,
            rss_bytes: cost.rss_bytes,
            events: cost.events,
            events_lost: 0,
            scheduling: cost.scheduling,
            memory_locked: cost.memory_locked,
            user_stacks: UserStacksCost::of(cost),
        }
    }
}

impl UserStacksCost {
    fn of(cost: &Cost) -> Option<Self> {
        let of = Self {
            read: cost.user_stacks,
            moved: cost.user_stacks_torn,
            left_out: cost.user_stacks_left_out,
            cpu_seconds: cost.user_stacks_seconds,
        };
        (of != Self::default()).then_some(of)
    }
}
