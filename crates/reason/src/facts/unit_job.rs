//! Jobs of service managers, and the programs that rules of the device manager run.
//!
//! A manager does one thing after another for whoever asks it (a start, a stop), and the kernel sees it wait for events. What each job waits
//! for the manager says itself. Names of units and processes alone. Must not: carry what a unit logs, or its settings beyond those of time.

use super::Ns;
use super::thread_ref::ThreadRef;
use serde::{Deserialize, Serialize};

/// The jobs that one manager had at one instant; empty once it has none any more. Source: its private socket, as `systemctl list-jobs`
/// asks it (org.freedesktop.systemd1(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitJobs {
    /// The manager's process, as the kernel says who listens there.
    pub manager_pid: u32,
    /// It is the manager of one user's session, and not of the whole system.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_user: bool,
    /// Its jobs, as many as were read.
    pub jobs: Vec<UnitJob>,
    /// Jobs that it had besides.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u32,
}

/// One job, and the unit that it is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitJob {
    /// Its number.
    pub id: u32,
    /// The unit.
    pub unit: String,
    /// Other names of the unit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// `start`, `stop`, `restart`, `reload` and the like.
    pub kind: String,
    /// It is being done. Else it waits for other jobs.
    pub is_running: bool,
    /// The numbers of the jobs that it waits for, as far as the manager says that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
    /// State of the unit: `activating`; empty if it was not asked for.
    pub state: String,
    /// The same in detail, by the kind of the unit: `start-pre`.
    pub sub_state: String,
    /// Since when that is its state; none if unknown.
    pub since_ns: Option<Ns>,
    /// Of a service, what counts as its start (`Type=`); empty of other units.
    pub service_type: String,
    /// The main process of the unit, as it was seen alive then.
    pub main: Option<ThreadRef>,
    /// The process of the command that the manager runs for it now (ExecStartPre=, ExecStop=, mount), as it was seen alive then.
    pub control: Option<ThreadRef>,
    /// What a start of it may take; the greatest number: for ever. None if unknown.
    pub start_timeout_ns: Option<Ns>,
    /// What a stop of it may take, likewise.
    pub stop_timeout_ns: Option<Ns>,
    /// What the job may take while it is done, whatever it does, likewise.
    pub job_timeout_ns: Option<Ns>,
}

impl UnitJob {
    /// The processes of its unit; whom the job waits for comes first.
    pub fn processes(&self) -> impl Iterator<Item = &ThreadRef> {
        self.control.iter().chain(&self.main)
    }

    /// Whether the unit goes by this name, with or without the ending of a service.
    pub fn is_of(&self, name: &str) -> bool {
        const SERVICE: &str = ".service";
        let is = |unit: &String| unit == name || unit.strip_suffix(SERVICE) == Some(name);
        is(&self.unit) || self.aliases.iter().any(is)
    }
}

/// A program that a worker of the device manager had run for an event of a device, at one instant. Source: its environment,
/// /proc/PID/environ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceEvent {
    /// The worker.
    pub worker_pid: u32,
    /// The program that it began and waits for.
    pub program: ThreadRef,
    /// The device's node (`/dev/sdb`), else its path in /sys.
    pub device: String,
    /// What happened to it: `add`, `change`, `remove`.
    pub action: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
