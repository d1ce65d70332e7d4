//! The way out that gives a process more of what RLIMIT_* limits: twice as much, and back.
//!
//! The soft limit may not pass the hard one (setrlimit(2)): programs of Go and Java raise theirs to it as they begin, and units are given both alike.
//! So the hard one goes up with it where it is lower. Must not: say whether more of it is the cure.
//!
//! Edit together: bpf/refused.bpf.c (which reads both).

use crate::facts::{DeniedLimit, ThreadRef};
use crate::rules::action::{Action, ActionKind};
use crate::rules::wording::Remedy;

/// `--nofile` and RLIMIT_NOFILE, for a process that met it.
pub(super) fn twice(
    text: &str,
    who: &ThreadRef,
    (option, name): (&str, &str),
    met: &DeniedLimit,
) -> Remedy {
    let (pid, limit, twice) = (who.pid, met.limit, met.limit.saturating_mul(2));
    let mut action = Action::set(ActionKind::ResourceLimit, who, twice, limit);
    action.target.key = Some(name.into());
    // A recording of before says no hard one.
    let (hard, back) = match met.hard {
        hard if hard == 0 || hard >= twice => (String::new(), String::new()),
        hard => (twice.to_string(), hard.to_string()),
    };
    Remedy::to(text).set(
        action,
        format!("prlimit --pid {pid} {option}={twice}:{hard}"),
        format!("prlimit --pid {pid} {option}={limit}:{back}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::LimitKind;
    use crate::rules::scenes::thread;

    fn raised(hard: u64) -> (String, String) {
        let kind = LimitKind::Descriptors;
        let met = DeniedLimit { kind, limit: 1_024, hard, used: 0, cgroup_id: 0 };
        let of = ("--nofile", "RLIMIT_NOFILE");
        let remedy = twice("let it have more", &thread(10, "httpd"), of, &met);
        (remedy.command, remedy.undo)
    }

    #[test]
    fn the_hard_limit_goes_up_with_the_soft_one_where_it_is_lower() {
        let both = |set: &str, back: &str| {
            let of = |limit| format!("prlimit --pid 10 --nofile={limit}");
            (of(set), of(back))
        };
        assert_eq!(raised(524_288), both("2048:", "1024:"));
        assert_eq!(raised(1_024), both("2048:2048", "1024:1024"));
        assert_eq!(raised(0), both("2048:", "1024:"), "not read");
    }
}
