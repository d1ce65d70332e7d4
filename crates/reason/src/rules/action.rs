//! What a way out does, typed: for whoever does not read shell.
//!
//! Part of the JSON contract (docs/json.md): fields are only ever added. An action names its target by what stays the same: a process by its number
//! and start, a file by its path, an interface with its network namespace. Must not: decide when a way out fits, or whether somebody is there.
//!
//! Rejected: reading the target back from the command (a number in it may be a port, a CPU or a priority).
//!
//! Edit together: remedy.rs (the commands), lasting.rs (what is said instead), docs/json.md.

use crate::facts::{Ns, ThreadRef};
use serde::{Deserialize, Serialize};

/// Where the kernel's settings are files.
const SYSCTLS: &str = "/proc/sys/";
/// Processes of one action that an answer names (answer/bounded.rs cuts them, and counts what it cuts).
pub const PROCESSES_MAX: usize = 64;
/// Where cgroups are.
const CGROUPS: &str = "/sys/fs/cgroup/";

/// What kind of thing a way out does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Looks, and changes nothing.
    #[default]
    Ask,
    /// Writes a value into a file.
    WriteFile,
    /// Sets a setting of the kernel.
    Sysctl,
    /// Sets a key of a cgroup.
    CgroupKey,
    /// Sets the nice value of all threads of a process, or of a session.
    Nice,
    /// Sets the scheduling policy of all threads of a process.
    Policy,
    /// Sets the I/O class of all threads of a process.
    IoClass,
    /// Sets the CPUs that all threads of a process may use.
    Affinity,
    /// Sets a limit of a process.
    ResourceLimit,
    /// Changes the queue of an interface.
    Tc,
    /// Sets something of an interface's driver.
    Ethtool,
    /// Sends a signal.
    Signal,
}

/// How something is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Its system calls, by a filter.
    Calls,
    /// Its functions on a CPU.
    Profile,
    /// Where its threads stand.
    Stacks,
    /// The program itself is asked.
    Program,
    /// What the kernel lists of it.
    State,
    /// A look of holdup's at it.
    Look,
}

/// A process that an action is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActedOn {
    /// Its number, in the initial PID namespace.
    pub pid: u32,
    /// A thread of it, where the action is for that alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// When that thread, or its main one, began (CLOCK_MONOTONIC); 0 if unknown.
    pub start_ns: Ns,
    /// Its name.
    pub name: String,
}

impl ActedOn {
    /// As the facts name it.
    pub fn thread(&self) -> ThreadRef {
        ThreadRef {
            tid: self.tid.unwrap_or(self.pid),
            pid: self.pid,
            start_ns: self.start_ns,
            comm: self.name.clone(),
        }
    }
}

/// What an action is for. Fields that do not apply are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ActionTarget {
    /// Processes; of a file, whose view of the file system it is in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = PROCESSES_MAX)))]
    pub processes: Vec<ActedOn>,
    /// A file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The key of a setting, a cgroup or a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A cgroup's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// A network interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Inode of its network namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns: Option<u32>,
}

/// What a way out does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Action {
    /// What kind of thing it does.
    pub kind: ActionKind,
    /// To whom, or to what.
    pub target: ActionTarget,
    /// Of `ask`, how it is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// What is set, written or sent; of `calls` the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value that takes it back; none if it cannot be, or need not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

impl Action {
    /// On processes.
    pub fn on(kind: ActionKind, whom: &[ThreadRef]) -> Self {
        let acted_on = |thread: &ThreadRef| ActedOn {
            pid: thread.pid,
            tid: (thread.tid != thread.pid).then_some(thread.tid),
            start_ns: thread.start_ns,
            name: thread.comm.clone(),
        };
        let processes = whom.iter().map(acted_on).collect();
        Self {
            kind,
            target: ActionTarget { processes, ..ActionTarget::default() },
            ..Self::default()
        }
    }

    /// Looks at a process.
    pub fn ask(question: Question, whom: &ThreadRef) -> Self {
        Self { question: Some(question), ..Self::on(ActionKind::Ask, std::slice::from_ref(whom)) }
    }

    /// Looks at something that is no process.
    pub fn look(question: Question) -> Self {
        Self { question: Some(question), ..Self::default() }
    }

    /// Sets something of a process, and takes it back.
    pub fn set(
        kind: ActionKind,
        whom: &ThreadRef,
        value: impl ToString,
        undo: impl ToString,
    ) -> Self {
        Self {
            value: Some(value.to_string()),
            undo: Some(undo.to_string()),
            ..Self::on(kind, std::slice::from_ref(whom))
        }
    }

    /// Writes a file: a setting of the kernel's or a key of a cgroup's, by where it is.
    pub fn write(path: &str, value: impl ToString, undo: impl ToString) -> Self {
        let mut target = ActionTarget { path: Some(path.into()), ..ActionTarget::default() };
        let kind = match (path.strip_prefix(SYSCTLS), path.rsplit_once('/')) {
            (Some(key), _) => {
                target.key = Some(key.replace('/', "."));
                ActionKind::Sysctl
            }
            (None, Some((group, key))) if path.starts_with(CGROUPS) => {
                (target.cgroup, target.key) = (Some(group.into()), Some(key.into()));
                ActionKind::CgroupKey
            }
            _ => ActionKind::WriteFile,
        };
        let (value, undo) = (Some(value.to_string()), Some(undo.to_string()));
        Self { kind, target, value, undo, question: None }
    }

    /// Sets a setting of the kernel, in a network namespace if it has one of its own.
    pub fn sysctl(key: &str, value: impl ToString, undo: impl ToString) -> Self {
        Self::write(&format!("{SYSCTLS}{}", key.replace('.', "/")), value, undo)
    }

    /// Changes the queue of an interface: by what is given to tc.
    pub fn tc(netns: u32, interface: &str, value: &str, undo: &str) -> Self {
        Self::of_interface(ActionKind::Tc, netns, interface, value, undo)
    }

    /// Sets something of an interface's driver: by what is given to ethtool.
    pub fn ethtool(netns: u32, interface: &str, value: &str, undo: &str) -> Self {
        Self::of_interface(ActionKind::Ethtool, netns, interface, value, undo)
    }

    fn of_interface(
        kind: ActionKind,
        netns: u32,
        interface: &str,
        value: &str,
        undo: &str,
    ) -> Self {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_string());
        let target = ActionTarget {
            interface: Some(interface.into()),
            netns: (netns != 0).then_some(netns),
            ..ActionTarget::default()
        };
        Self { kind, target, value: text(value), undo: text(undo), question: None }
    }

    /// The same by way of a process: whose namespace it is, whose view of the files.
    pub fn through(mut self, process: Option<&ThreadRef>) -> Self {
        let by = process.map(|it| Self::on(self.kind, std::slice::from_ref(it)).target.processes);
        self.target.processes.extend(by.into_iter().flatten());
        self
    }

    /// The command that sends its signal to whom it names; empty if it is another action.
    pub fn signal_command(&self) -> String {
        if self.kind != ActionKind::Signal {
            return String::new();
        }
        signal_command(self.value.as_deref(), &self.target.processes)
    }

    /// The command that takes its signal back.
    pub fn signal_undo(&self) -> String {
        let undo = self.undo.as_deref().filter(|_| self.kind == ActionKind::Signal);
        undo.map_or_else(String::new, |undo| signal_command(Some(undo), &self.target.processes))
    }
}

/// `kill` without a name asks for the end.
fn signal_command(signal: Option<&str>, processes: &[ActedOn]) -> String {
    let how = match signal {
        None | Some("TERM") => "kill".to_string(),
        Some(signal) => format!("kill -{signal}"),
    };
    let pids = processes.iter().map(|process| process.pid.to_string());
    [how].into_iter().chain(pids).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_by_its_place_what_it_sets() {
        let kind_and_key = |path| {
            let action = Action::write(path, 2, 1);
            (action.kind, action.target.key, action.target.cgroup)
        };
        let of_group = kind_and_key("/sys/fs/cgroup/a/cpu.max");
        let key = |key: &str| Some(key.to_string());
        assert_eq!(of_group, (ActionKind::CgroupKey, key("cpu.max"), key("/sys/fs/cgroup/a")));
        let of_kernel = kind_and_key("/proc/sys/vm/dirty_ratio");
        assert_eq!(of_kernel, (ActionKind::Sysctl, key("vm.dirty_ratio"), None));
        assert_eq!(kind_and_key("/proc/7/autogroup").0, ActionKind::WriteFile);
    }
}
