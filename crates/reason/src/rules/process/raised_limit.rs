//! The way out that gives a process more of what RLIMIT_* limits: twice as much, and back.
//!
//! The soft limit may not pass the hard one (setrlimit(2)): programs of Go and Java raise theirs to it as they begin, and units are given both alike.
//! So the hard one goes up with it where it is lower. Of descriptors neither may pass fs.nr_open, for root too, which goes up first. A command
//! is gone when its answer is there: it is started again with more. Must not: say whether more of it is the cure. Rejected: ulimit in the shell
//! that starts it (its limits are the shell's from then on, and what it had before is not known).
//!
//! Edit together: bpf/refused.bpf.c (which reads both), readers/host.rs of the probe (which reads fs.nr_open).

use crate::facts::{DeniedLimit, LimitKind, ThreadRef};
use crate::measure::Measures;
use crate::rules::action::{Action, ActionKind};
use crate::rules::lasting::command_again;
use crate::rules::wording::Remedy;

/// What no limit of descriptors may pass.
const NR_OPEN: &str = "/proc/sys/fs/nr_open";

/// `--nofile` and RLIMIT_NOFILE, for a process that met it.
pub(super) fn twice(
    measures: &Measures<'_>,
    text: &str,
    who: &ThreadRef,
    (option, name): (&str, &str),
    met: &DeniedLimit,
) -> Remedy {
    let (pid, limit, twice) = (who.pid, met.limit, met.limit.saturating_mul(2));
    // A recording of before says no hard one.
    let (hard, back) = match met.hard {
        hard if hard == 0 || hard >= twice => (String::new(), String::new()),
        hard => (twice.to_string(), hard.to_string()),
    };
    let most = ceiling(measures, met.kind).filter(|most| twice.max(met.hard) > *most);
    if measures.is_command() && measures.concerns(who) {
        let as_root = if hard.is_empty() { "" } else { ", as root: the hard limit is lower" };
        let text = format!("{text} (start it again so{as_root})");
        let command = format!("prlimit {option}={twice}:{hard} {}", command_again(measures.model));
        // The limits end with it: only what goes up for the whole host is put back.
        let Some(most) = most else { return Remedy::to(text).command(command) };
        let before = Remedy::default().write(NR_OPEN, twice.max(met.hard), most);
        let command = format!("{} && {command}", before.command);
        return Remedy { text, command, undo: before.undo, action: None };
    }
    let mut action = Action::set(ActionKind::ResourceLimit, who, twice, limit);
    action.target.key = Some(name.into());
    let way = Remedy::to(text).set(
        action,
        format!("prlimit --pid {pid} {option}={twice}:{hard}"),
        format!("prlimit --pid {pid} {option}={limit}:{back}"),
    );
    match most {
        Some(most) => way.after_write(NR_OPEN, twice.max(met.hard), most),
        None => way,
    }
}

/// What no limit of this kind may pass.
fn ceiling(measures: &Measures<'_>, kind: LimitKind) -> Option<u64> {
    let setting = || measures.model.net.sysctls.get("fs.nr_open")?.parse().ok();
    (kind == LimitKind::Descriptors).then(setting).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, Sysctl, Target, TargetKind};
    use crate::rules::scenes::{fact, host, of_process, thread};
    use crate::waits::timeline::Observed;

    fn raised(limit: u64, hard: u64, before: &[Fact]) -> (String, String) {
        let kind = LimitKind::Descriptors;
        let met = DeniedLimit { kind, limit, hard, used: 0, cgroup_id: 0 };
        let of = ("--nofile", "RLIMIT_NOFILE");
        let facts = host().into_iter().chain([of_process(10, "httpd")]).chain(before.to_vec());
        let observed = Observed::new(facts.collect());
        let measures = Measures::of_observed(&observed);
        let remedy = twice(&measures, "let it have more", &thread(10, "httpd"), of, &met);
        (remedy.command, remedy.undo)
    }

    fn of(limit: &str) -> String {
        format!("prlimit --pid 10 --nofile={limit}")
    }

    #[test]
    fn the_hard_limit_goes_up_with_the_soft_one_where_it_is_lower() {
        let both = |set: &str, back: &str| (of(set), of(back));
        assert_eq!(raised(1_024, 524_288, &[]), both("2048:", "1024:"));
        assert_eq!(raised(1_024, 1_024, &[]), both("2048:2048", "1024:1024"));
        assert_eq!(raised(1_024, 0, &[]), both("2048:", "1024:"), "not read");
    }

    #[test]
    fn what_no_limit_may_pass_goes_up_first_where_it_is_lower() {
        let most = |value: &str| {
            let (name, value) = ("fs.nr_open".into(), value.into());
            [fact(Body::Sysctl(Sysctl { name, value }))]
        };
        let (command, undo) = raised(1_024, 1_024, &most("1500"));
        assert_eq!(command, format!("echo 2048 > /proc/sys/fs/nr_open && {}", of("2048:2048")));
        assert_eq!(undo, format!("{} && echo 1500 > /proc/sys/fs/nr_open", of("1024:1024")));
        assert_eq!(raised(1_024, 1_024, &most("2048")).0, of("2048:2048"));
    }

    /// Of a command with these words.
    fn command(words: &[&str]) -> Fact {
        fact(Body::Target(Target {
            kind: TargetKind::Command,
            name: words.join(" "),
            pid: 10,
            cgroups: Vec::new(),
            words: words.iter().map(ToString::to_string).collect(),
        }))
    }

    #[test]
    fn a_command_is_started_again_with_more_and_nothing_is_put_back() {
        let again = |limit: &str| (format!("prlimit --nofile={limit} httpd 'a b'"), String::new());
        let own = [command(&["httpd", "a b"])];
        assert_eq!(raised(1_024, 524_288, &own), again("2048:"));
        assert_eq!(raised(1_024, 1_024, &own), again("2048:2048"));
        assert_eq!(raised(1_024, 0, &own), again("2048:"), "not read");
        let unknown = raised(1_024, 524_288, &[command(&[])]);
        assert_eq!(unknown.0, "prlimit --nofile=2048: COMMAND");
    }

    #[test]
    fn what_goes_up_for_the_whole_host_is_put_back_after_a_command_too() {
        let (name, value) = ("fs.nr_open".into(), "1500".into());
        let facts = [command(&["httpd"]), fact(Body::Sysctl(Sysctl { name, value }))];
        let (command, undo) = raised(1_024, 1_024, &facts);
        let way = "echo 2048 > /proc/sys/fs/nr_open && prlimit --nofile=2048:2048 httpd";
        assert_eq!((&*command, &*undo), (way, "echo 1500 > /proc/sys/fs/nr_open"));
    }
}
