//! systemd: the manager of units, the command that asks it, the buses that such questions go over, and its manager of devices.
//!
//! What a command waits for stands in its words; what a job waits for, in the detailed state of its unit, by the names of org.freedesktop.systemd1(5)
//! and of the sources (basic/unit-def.c), read of 252. Must not: choose among jobs (waits/unit_job.rs). Edit together: facts/unit_job.rs.

use super::command_line::command;
use super::program::Program;
use crate::facts::UnitJob;
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

/// Of these, those that begin a job with --now alone.
const WITH_NOW: &[&str] = &["disable", "enable", "mask", "reenable"];
/// Begins of options with which it waits for no job of this manager.
const ELSEWHERE: &[&str] = &["--no-block", "-H", "--host", "-M", "--machine", "--root", "--image"];

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
        "systemd-run" => {
            let named = rest.iter().find_map(|word| word.strip_prefix("--unit="));
            return Some(named.map_or(AsksFor::Unnamed, |unit| AsksFor::Units(vec![unit])));
        }
        _ => return None,
    }
    // It waits for nothing, or another manager does it.
    let is_away = |word: &&str| ELSEWHERE.iter().any(|begin| word.starts_with(begin));
    if rest.iter().any(is_away) {
        return None;
    }
    let at = rest.iter().position(|word| OF_UNITS.contains(word) || OF_ANY.contains(word))?;
    let named = rest.iter().skip(at + 1).copied().filter(|word| !word.starts_with('-'));
    let units: Vec<&str> = named.collect();
    // A pattern, or a path of which the unit has another name.
    let is_other = |unit: &&str| unit.contains(['*', '?', '[', '/']);
    let is_known = !units.is_empty() && !units.iter().any(is_other);
    let waits = !WITH_NOW.contains(&rest[at]) || rest.contains(&"--now");
    match OF_ANY.contains(&rest[at]) {
        true => {
            (rest[at] != "is-system-running" || rest.contains(&"--wait")).then_some(AsksFor::Any)
        }
        false => (is_known && waits).then_some(AsksFor::Units(units)),
    }
}

/// Whether a process of this name hands messages on between others.
pub fn is_bus(process: &str) -> bool {
    matches!(process, "dbus-daemon" | "dbus-broker")
}

/// Whether a process of these words waits until the manager of devices has nothing more to do.
pub fn settles(words: &[&str]) -> bool {
    words.first().is_some_and(|first| command(first) == "udevadm") && words.contains(&"settle")
}

/// The kind of a job that is an event of a device.
pub const EVENT: &str = "event";

/// What a job is called.
pub fn job(job: &UnitJob) -> String {
    match job.kind.as_str() {
        EVENT => format!("the event ({}) of {}", job.state, job.unit()),
        "verify-active" => format!("the start of {}", job.unit()),
        kind => format!("the {kind} of {}", job.unit()),
    }
}

/// What the process has not done that a running job waits for; without a process, what else it waits for.
pub fn owes(job: &UnitJob) -> &'static str {
    let stops = |state: &str| state.ends_with("sigterm");
    match (job.sub_state(), job.service_type.as_str()) {
        _ if job.processes.is_empty() && job.unit().ends_with(".device") => {
            "the device has not appeared"
        }
        (state, _) if state.starts_with("auto-restart") => {
            "it is to be started again, after its RestartSec="
        }
        _ if job.processes.is_empty() => "no process of it is known that it waits for",
        ("start", "notify" | "notify-reload") => "has not said READY=1 (Type=notify)",
        ("start", "forking") => "has not gone to the background (Type=forking)",
        ("start", "dbus") => "has not taken its name on the bus (Type=dbus)",
        ("start", "oneshot") => "has not ended (Type=oneshot)",
        ("condition", _) => "is its ExecCondition= and has not ended",
        ("start-pre", _) => "is its ExecStartPre= and has not ended",
        ("start-post", _) => "is its ExecStartPost= and has not ended",
        ("reload", _) => "is its ExecReload= and has not ended",
        ("reload-signal" | "reload-notify", _) => "has not said READY=1 after its reload",
        ("stop", _) => "is its ExecStop= and has not ended",
        ("stop-post", _) => "is its ExecStopPost= and has not ended",
        (state, _) if stops(state) => "was asked to end by SIGTERM and has not",
        _ => "has not ended",
    }
}

/// The setting that ends the state that a job is in.
pub fn timeout(job: &UnitJob) -> &'static str {
    match job.unit().ends_with(".service") {
        true if is_stopping(job.sub_state()) => "TimeoutStopSec=",
        true => "TimeoutStartSec=",
        false if job.unit().ends_with(".device") => "JobRunningTimeoutSec=",
        false => "TimeoutSec=",
    }
}

fn is_stopping(sub_state: &str) -> bool {
    sub_state.starts_with("stop") || sub_state.starts_with("final")
}

/// Which manager is asked, and by whom.
pub enum AsksManager {
    /// The system's.
    OfSystem,
    /// A user's, by that user.
    OwnUsers,
    /// A user's, by root: it answers its own user alone.
    OfUser(u32),
}

/// What can be asked about a job, and the commands that do.
pub fn questions(job: &UnitJob, by: &AsksManager) -> Vec<(&'static str, String)> {
    let unit = words::shell(job.unit());
    if job.kind == EVENT {
        let by = if job.unit().starts_with("/dev/") { "-n" } else { "-p" };
        let program = job.processes.first().map_or("RUN", |it| &it.comm);
        let rules = format!(
            "grep -rn {} /etc/udev/rules.d /run/udev/rules.d /usr/lib/udev/rules.d",
            words::shell(program)
        );
        return vec![
            ("see which rule runs it", rules),
            ("see what is known of the device", format!("udevadm info -q all {by} {unit}")),
        ];
    }
    let log = match by {
        AsksManager::OfSystem => format!("journalctl -b -n 50 --no-pager -u {unit}"),
        AsksManager::OwnUsers => format!("journalctl --user -b -n 50 --no-pager -u {unit}"),
        // `--user-unit=` means the units of whoever asks.
        AsksManager::OfUser(uid) => {
            let of = |field: &str| words::shell(&format!("{field}={}", job.unit()));
            format!(
                "journalctl -b -n 50 --no-pager _UID={uid} {} + _UID={uid} {}",
                of("_SYSTEMD_USER_UNIT"),
                of("USER_UNIT")
            )
        }
    };
    let asks = match by {
        AsksManager::OfSystem => ASKS.to_string(),
        AsksManager::OwnUsers => format!("{ASKS} --user"),
        // `-M USER@` knows it since 248 alone.
        AsksManager::OfUser(uid) => format!(
            "runuser -u \"$(id -nu {uid})\" -- env XDG_RUNTIME_DIR=/run/user/{uid} {ASKS} --user"
        ),
    };
    let mut all = vec![
        ("see what it has logged", log),
        ("see its state and its processes", format!("{asks} status --no-pager {unit}")),
    ];
    if job.sub_state() == "start" {
        let text = "see what counts as its start (Type=), and have the service do that";
        all.push((text, format!("{asks} cat --no-pager {unit}")));
    }
    all
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
        assert_eq!(asked("systemctl stop web*"), None, "nobody knows which");
        assert_eq!(asked("systemctl start /mnt/x"), None);
        assert_eq!(asked("systemctl is-system-running --wait"), Some(AsksFor::Any));
        assert_eq!(asked("systemctl is-system-running"), None);
        assert_eq!(asked("systemctl --no-block start web"), None);
        assert_eq!(asked("systemctl -M box start web"), None);
        assert_eq!(asked("systemctl enable web"), None);
        assert_eq!(asked("systemctl enable --now web"), units(&["web"]));
        assert_eq!(asked("systemd-run --unit=job --wait ls"), units(&["job"]));
        assert_eq!(asked("systemctl status web"), None, "it waits for no job");
        assert_eq!(asked("systemd-run --wait ls"), Some(AsksFor::Unnamed));
        assert_eq!(asked("less start web"), None);
        assert_eq!(asks_for(&[]), None);
    }

    fn of(unit: &str, state: &str, service_type: &str) -> UnitJob {
        UnitJob {
            names: vec![unit.into()],
            state: state.into(),
            service_type: service_type.into(),
            processes: vec![Default::default()],
            ..UnitJob::default()
        }
    }

    #[test]
    fn the_state_of_a_unit_says_what_its_process_owes_and_what_ends_that() {
        let service = |state, kind| of("a.service", state, kind);
        let start = service("activating/start", "notify");
        assert_eq!(owes(&start), "has not said READY=1 (Type=notify)");
        assert_eq!(timeout(&start), "TimeoutStartSec=");
        let before = service("activating/start-pre", "notify");
        assert_eq!(owes(&before), "is its ExecStartPre= and has not ended");
        let last = service("deactivating/final-sigterm", "simple");
        assert_eq!(owes(&last), "was asked to end by SIGTERM and has not");
        assert_eq!(timeout(&last), "TimeoutStopSec=");
        let device = UnitJob { processes: Vec::new(), ..of("dev-sdz.device", "inactive/dead", "") };
        assert_eq!(owes(&device), "the device has not appeared");
        assert_eq!(timeout(&device), "JobRunningTimeoutSec=");
    }

    #[test]
    fn a_hostile_name_of_a_unit_stays_one_word_of_a_command() {
        let unit = of("a;reboot.service", "activating/start", "");
        let asked = |by: AsksManager| {
            let asked = questions(&unit, &by).into_iter();
            asked.map(|(_, command)| command).collect::<Vec<_>>()
        };
        let own = asked(AsksManager::OwnUsers);
        assert_eq!(own.len(), 3);
        assert_eq!(own[1], "systemctl --user status --no-pager 'a;reboot.service'");
        let by_root = asked(AsksManager::OfUser(1000));
        let log = "journalctl -b -n 50 --no-pager _UID=1000 '_SYSTEMD_USER_UNIT=a;reboot.service' + _UID=1000 'USER_UNIT=a;reboot.service'";
        assert_eq!(by_root[0], log);
        let whose = "runuser -u \"$(id -nu 1000)\" -- env XDG_RUNTIME_DIR=/run/user/1000";
        let status = "systemctl --user status --no-pager 'a;reboot.service'";
        assert_eq!(by_root[1], format!("{whose} {status}"));
        let event = UnitJob { kind: EVENT.into(), ..of("/dev/a b", "add", "") };
        assert_eq!(job(&event), "the event (add) of /dev/a b");
        let asked = questions(&event, &AsksManager::OfSystem);
        assert_eq!(asked[1].1, "udevadm info -q all -n '/dev/a b'");
    }
}
