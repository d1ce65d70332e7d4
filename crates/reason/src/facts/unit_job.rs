//! Jobs of managers: of units (a start, a stop), and of devices (an event for which rules run programs).
//!
//! A manager does them for whoever asks it, or waits until they are done, and the kernel sees it wait for events. What each job waits for the
//! manager says itself. Names of units, devices and processes alone. Must not: carry what a unit logs, or its settings beyond those of time.

use super::Ns;
use super::thread_ref::ThreadRef;
use serde::{Deserialize, Serialize};

/// The jobs that one manager had at one instant; none once it has no more. Source: of units its private socket, as `systemctl list-jobs` asks it
/// (org.freedesktop.systemd1(5)); of devices a child of a worker, by its environment (/proc/PID/environ).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitJobs {
    /// The manager's process, as the kernel says who listens there; of devices the worker.
    pub manager_pid: u32,
    /// Its jobs, as many as were read.
    pub jobs: Vec<UnitJob>,
}

/// One job, and what it is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitJob {
    /// Its number.
    pub id: u32,
    /// The names of the unit, its own first; of a device its node (`/dev/sdb`), else its path in /sys.
    pub names: Vec<String>,
    /// `start`, `stop`, `restart`, `reload` and the like; `event` of a device.
    pub kind: String,
    /// It is being done. Else it waits for other jobs.
    pub is_running: bool,
    /// The numbers of the jobs that it waits for, as far as the manager says that.
    pub after: Vec<u32>,
    /// State of the unit, in general and by its kind: `activating/start-pre`; of a device what happened to it: `add`. Empty if it was not asked for.
    pub state: String,
    /// Since when that is so; none if unknown.
    pub since_ns: Option<Ns>,
    /// Of a service, what counts as its start (`Type=`); empty of other units.
    pub service_type: String,
    /// Its processes, as they were seen alive then: that of the command that the manager runs for it now (ExecStartPre=, ExecStop=, mount), and the
    /// main one.
    pub processes: Vec<ThreadRef>,
    /// What the state that it is in may take by its settings; the greatest number: for ever. None if unknown.
    pub timeout_ns: Option<Ns>,
}

impl UnitJob {
    /// What it is for.
    pub fn unit(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// The state by the kind of its unit: `start-pre`.
    pub fn sub_state(&self) -> &str {
        self.state.split_once('/').map_or("", |(_, sub_state)| sub_state)
    }

    /// Whether the unit goes by this name, with or without the ending of a service.
    pub fn is_of(&self, name: &str) -> bool {
        self.names.iter().any(|unit| unit == name || unit.strip_suffix(".service") == Some(name))
    }
}
