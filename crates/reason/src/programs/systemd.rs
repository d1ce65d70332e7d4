//! systemd: the manager of units, the command that asks it, the buses that such questions go over, and its manager of devices.
//!
//! What a command waits for stands in its words; what a job waits for, in the detailed state of its unit, by the names of org.freedesktop.systemd1(5)
//! and of the sources (basic/unit-def.c), read of 252. Must not: choose among jobs (waits/unit_job.rs). Edit together: facts/unit_job.rs.

use super::command_line::command;
use super::program::Program;
use crate::facts::{Ns, UnitJob};
use crate::model::words;

/// See the head of the file.
pub(super) static SYSTEMD: Program = Program {
    names: &["systemd"],
    question: Some(|_, _| format!("{ASKS} list-jobs --after")),
    ..Program::UNKNOWN
};

/// The command that asks a manager.
const ASKS: &str = "systemctl";

/// Its verbs that wait for jobs of the units behind them.
const OF_UNITS: &[&str] = &[
    "condrestart",
    "disable",
    "enable",
    "force-reload",
    "isolate",
    "mask",
    "reenable",
    "reload",
    "reload-or-restart",
    "restart",
    "start",
    "stop",
    "try-reload-or-restart",
    "try-restart",
];
/// Its verbs that wait for whatever jobs there are, or for those of a unit that they do not name.
const OF_ANY: &[&str] = &[
    "default",
    "emergency",
    "exit",
    "halt",
    "is-system-running",
    "kexec",
    "poweroff",
    "reboot",
    "rescue",
    "soft-reboot",
];

/// What a command waits for.
#[derive(Debug, PartialEq, Eq)]
pub enum AsksFor<'w> {
    /// Jobs of these units.
    Units(Vec<&'w str>),
    /// The job of one unit, which it does not name.
    Unnamed,
    /// Any job.
    Any,
}

/// What a process of these words waits for, if it is the command that asks a manager; of options and their values nothing is taken.
pub fn asks_for<'w>(words: &[&'w str]) -> Option<AsksFor<'w>> {
    let (first, rest) = words.split_first()?;
    match command(first) {
        ASKS => {}
        // The unit is made by it.
        "systemd-run" => return Some(AsksFor::Unnamed),
        _ => return None,
    }
    let at = rest.iter().position(|word| OF_UNITS.contains(word) || OF_ANY.contains(word))?;
    let named = rest.iter().skip(at + 1).copied().filter(|word| !word.starts_with('-'));
    let units: Vec<&str> = named.collect();
    // A pattern, or a path of which the unit has another name.
    let is_other = |unit: &&str| unit.contains(['*', '?', '[', '/']);
    let any = OF_ANY.contains(&rest[at]) || units.is_empty() || units.iter().any(is_other);
    Some(if any { AsksFor::Any } else { AsksFor::Units(units) })
}

/// Whether a process of this name hands messages on between others.
pub fn is_bus(process: &str) -> bool {
    matches!(process, "dbus-daemon" | "dbus-broker")
}

/// Whether a process of these words waits until the manager of devices has nothing more to do.
pub fn settles(words: &[&str]) -> bool {
    words.first().is_some_and(|first| command(first) == "udevadm") && words.contains(&"settle")
}

/// What the job of a unit is called.
pub fn job(job: &UnitJob) -> String {
    let kind = if job.kind == "verify-active" { "start" } else { &job.kind };
    format!("the {kind} of {}", job.unit)
}

/// What the process has not done that a running job waits for.
pub fn owes(job: &UnitJob) -> &'static str {
    match (job.sub_state.as_str(), job.service_type.as_str()) {
        ("condition", _) => "is its ExecCondition= and has not ended",
        ("start-pre", _) => "is its ExecStartPre= and has not ended",
        ("start", "notify" | "notify-reload") => "has not said READY=1 (Type=notify)",
        ("start", "forking") => "has not gone to the background (Type=forking)",
        ("start", "oneshot") => "has not ended (Type=oneshot)",
        ("start", "dbus") => "has not taken its name on the bus (Type=dbus)",
        ("start-post", _) => "is its ExecStartPost= and has not ended",
        ("reload", _) => "is its ExecReload= and has not ended",
        ("reload-signal" | "reload-notify", _) => "has not said READY=1 after its reload",
        ("stop", _) => "is its ExecStop= and has not ended",
        ("stop-post", _) => "is its ExecStopPost= and has not ended",
        (state, _) if state.ends_with("sigterm") => "was asked to end by SIGTERM and has not",
        (state, _) if state.ends_with("sigkill") => "was killed and has not ended",
        (state, _) if state.ends_with("watchdog") => "was aborted and has not ended",
        _ => "has not ended",
    }
}

/// The same where the job waits for no process.
pub fn waits_for(job: &UnitJob) -> &'static str {
    match job.unit.ends_with(".device") {
        true => "the device has not appeared",
        false if job.sub_state.starts_with("auto-restart") => {
            "it is to be started again, after its RestartSec="
        }
        false => "no process of it is known that it waits for",
    }
}

/// The setting that ends a running job, and after how long; the greatest number: never. None if it is not known.
pub fn timeout(job: &UnitJob) -> Option<(&'static str, Ns)> {
    let ends = ["stop", "final", "unmounting", "deactivating"];
    let stops = ends.iter().any(|state| job.sub_state.starts_with(state));
    let (name, ns) = match stops {
        true => ("TimeoutStopSec=", job.stop_timeout_ns),
        false => ("TimeoutStartSec=", job.start_timeout_ns),
    };
    match (ns, job.job_timeout_ns) {
        (Some(ns), _) => Some((name, ns)),
        (None, Some(ns)) => Some(("JobRunningTimeoutSec=", ns)),
        (None, None) => None,
    }
}

fn of_user(of_user: bool) -> &'static str {
    if of_user { " --user" } else { "" }
}

/// The command that shows what a unit has logged.
pub fn log(unit: &str, user: bool) -> String {
    format!("journalctl{} -b -n 50 --no-pager -u {}", of_user(user), words::shell(unit))
}

/// The command that shows the state of a unit, with its processes.
pub fn status(unit: &str, user: bool) -> String {
    format!("{ASKS}{} status {}", of_user(user), words::shell(unit))
}

/// The command that shows the lines of a unit that say when it counts as started.
pub fn file(unit: &str, user: bool) -> String {
    format!("{ASKS}{} cat {}", of_user(user), words::shell(unit))
}

/// The command that shows what the manager of devices knows of a device.
pub fn device(device: &str) -> String {
    let by = if device.starts_with("/dev/") { "-n" } else { "-p" };
    format!("udevadm info -q all {by} {}", words::shell(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Option<AsksFor<'_>> {
        asks_for(&line.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn a_command_waits_for_the_units_that_it_names() {
        let units = |units: &[&'static str]| Some(AsksFor::Units(units.to_vec()));
        assert_eq!(asked("systemctl start web"), units(&["web"]));
        assert_eq!(
            asked("/usr/bin/systemctl --no-ask-password -q restart a.service b.timer"),
            units(&["a.service", "b.timer"])
        );
        assert_eq!(
            asked("systemctl --job-mode fail isolate rescue.target"),
            units(&["rescue.target"])
        );
        assert_eq!(asked("systemctl stop web*"), Some(AsksFor::Any));
        assert_eq!(asked("systemctl start /mnt/x"), Some(AsksFor::Any));
        assert_eq!(asked("systemctl is-system-running --wait"), Some(AsksFor::Any));
        assert_eq!(asked("systemctl status web"), None, "it waits for no job");
        assert_eq!(asked("systemd-run --wait ls"), Some(AsksFor::Unnamed));
        assert_eq!(asked("less start web"), None);
        assert_eq!(asks_for(&[]), None);
    }

    #[test]
    fn the_state_of_a_unit_says_what_its_process_owes_and_until_when() {
        let of = |sub_state: &str, service_type: &str| UnitJob {
            sub_state: sub_state.into(),
            service_type: service_type.into(),
            start_timeout_ns: Some(90),
            stop_timeout_ns: Some(Ns::MAX),
            ..UnitJob::default()
        };
        assert_eq!(owes(&of("start", "notify")), "has not said READY=1 (Type=notify)");
        assert_eq!(owes(&of("start-pre", "notify")), "is its ExecStartPre= and has not ended");
        assert_eq!(owes(&of("final-sigterm", "simple")), "was asked to end by SIGTERM and has not");
        assert_eq!(timeout(&of("start", "notify")), Some(("TimeoutStartSec=", 90)));
        assert_eq!(timeout(&of("stop-sigterm", "")), Some(("TimeoutStopSec=", Ns::MAX)));
        let device = UnitJob {
            unit: "dev-sdz.device".into(),
            job_timeout_ns: Some(7),
            ..UnitJob::default()
        };
        assert_eq!(timeout(&device), Some(("JobRunningTimeoutSec=", 7)));
        assert_eq!(waits_for(&device), "the device has not appeared");
    }

    #[test]
    fn a_hostile_name_of_a_unit_stays_one_word_of_a_command() {
        assert!(
            log("a;reboot.service", true)
                .ends_with("--user -b -n 50 --no-pager -u 'a;reboot.service'")
        );
    }
}
