//! Something that was asked for and not had: what refused calls, failing programs and ended sessions have in common.
//!
//! For whom a program asks that is begun for one question is known by how it ends. A child that was refused and ended well did not
//! need what it asked for (`mkdir -p`), and one that went on after a folder was there already, and failed for another reason, only
//! wanted to have it (umount makes /run/mount, and hears afterwards that the mount is in use).
//!
//! Must not: say what is refused (retries.rs, failing.rs, turned_away.rs).

use super::WaitClass;
use super::families::Families;
use crate::facts::{Denied, Ns, ThreadRef};
use crate::model::Model;
use crate::model::object::Object;
use std::collections::HashMap;

/// Between tries for a right there is no more than this but sleep, and as little before a program ends that was refused it.
pub(super) const RIGHT_WORK_NS: Ns = 20_000_000;
/// Who was begun to make a folder, and finds it there, ends at once.
const AT_ONCE_NS: Ns = 100_000_000;

const EEXIST: i32 = 17;

/// Something that was asked for and not had.
pub(super) struct Asked {
    pub(super) at_ns: Ns,
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) what: (WaitClass, Object),
    /// Who may have asked for it, the nearest first.
    pub(super) line: Vec<u32>,
    /// Once is enough: nobody makes the call for another reason.
    pub(super) one_is_enough: bool,
}

impl Asked {
    /// What once may have another reason.
    pub(super) fn in_vain(
        at_ns: Ns,
        thread: &ThreadRef,
        what: (WaitClass, Object),
        line: Vec<u32>,
    ) -> Self {
        Self { at_ns, tid: thread.tid, pid: thread.pid, what, line, one_is_enough: false }
    }
}

/// Who asks through whom.
pub(super) struct Askers<'m> {
    families: &'m Families,
    /// By process when the last call was refused.
    last_ns: HashMap<u32, Ns>,
}

impl<'m> Askers<'m> {
    pub(super) fn of(model: &Model, families: &'m Families) -> Self {
        let mut last_ns: HashMap<u32, Ns> = HashMap::new();
        for (at_ns, denied) in &model.threads.denied {
            let last = last_ns.entry(denied.thread.pid).or_default();
            *last = (*at_ns).max(*last);
        }
        Self { families, last_ns }
    }

    /// Who may have asked: the process that was refused, and if it ended for it, those above it.
    pub(super) fn line(&self, at_ns: Ns, denied: &Denied, is_right: bool) -> Vec<u32> {
        let (families, pid) = (self.families, denied.thread.pid);
        let mut line = families.line(pid);
        if line.len() == 1 && denied.parent_pid > 1 && denied.parent_pid != families.own_pid {
            line.extend(families.line(denied.parent_pid));
        }
        let makes_folder =
            denied.errno == EEXIST && matches!(denied.syscall.as_str(), "mkdir" | "mkdirat");
        let code = families.code(pid, at_ns).filter(|_| denied.asked_after().is_none());
        match (code, makes_folder) {
            (Some(0), false) => line.truncate(1),
            (Some(0) | None, true) => line.clear(),
            (Some(_), true) if self.goes_on(pid, at_ns) => line.clear(),
            (Some(_), true) => {
                line.remove(0);
            }
            _ => {}
        }
        // Of a program that was begun for it the right counts if that is what it ended for; else it is the process's own wish.
        let ends_for_it = || {
            let is_bad = families.code(pid, at_ns).is_some_and(|code| code != 0);
            is_bad && families.ends_within(pid, at_ns, RIGHT_WORK_NS)
        };
        if is_right && !ends_for_it() {
            line.truncate(1);
        }
        line
    }

    /// It did more than to end after that.
    fn goes_on(&self, pid: u32, at_ns: Ns) -> bool {
        self.last_ns.get(&pid).is_some_and(|last_ns| *last_ns > at_ns)
            || !self.families.ends_within(pid, at_ns, AT_ONCE_NS)
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::scenes::{host, identity, refusal, slept, thread};
    use crate::waits::WaitClass;
    use crate::waits::timeline::Observed;

    const SECOND: Ns = 1_000_000_000;

    /// What the sleeps of a script are for whose program is refused a folder, and this as well if it is another, and ends badly so long after.
    fn between_programs(then: Option<(i32, &str)>, ended_ns: Ns) -> Vec<WaitClass> {
        let mut facts = host();
        for at in 1..=3 {
            let pid = 20 + at as u32;
            let program = ThreadRef { start_ns: at * SECOND - 1, ..thread(pid, "program") };
            let named = Thread { thread: program.clone(), parent_pid: 10, ..Thread::default() };
            facts.push(identity(named));
            let mut refused = |at_ns, errno, call: &str, path: &str| {
                let path = Some(path.to_string());
                let denied = Denied { errno, path, ..refusal(pid, "program", call) };
                facts.push(Fact { at_ns, body: Body::Denied(denied) });
            };
            refused(at * SECOND, 17, "mkdir", "/run/mount");
            if let Some((errno, call)) = then {
                refused(at * SECOND + 1_000, errno, call, "/mnt");
            }
            let exit = Exit { thread: program, last: true, code: Some(32 << 8) };
            facts.push(Fact { at_ns: at * SECOND + ended_ns, body: Body::Exit(exit) });
            facts.push(slept(10, "sh", at * SECOND + ended_ns + 1_000, (at + 1) * SECOND - 10));
        }
        let Observed { timelines, .. } = Observed::new(facts);
        timelines.waits().filter(|wait| wait.thread.pid == 10).map(|wait| wait.class).collect()
    }

    #[test]
    fn a_folder_that_a_program_only_wanted_to_have_is_no_lock() {
        let lock = between_programs(None, 2_000);
        assert_eq!(lock[0], WaitClass::PolledLock, "{lock:?}");
        let busy = between_programs(Some((16, "umount2")), 2_000);
        assert_eq!(busy[0], WaitClass::RefusedRight, "{busy:?}");
        let worked = between_programs(None, 300_000_000);
        assert!(!worked.contains(&WaitClass::PolledLock), "{worked:?}");
    }

    #[test]
    fn a_child_that_is_asked_after_sleeps_for_itself() {
        let asked = |at_ns: Ns| {
            let args = [20, 0, 0, 0, 0, 0];
            let body = Body::Denied(Denied { errno: 0, args, ..refusal(10, "sh", "kill") });
            Fact { at_ns, body }
        };
        let child = ThreadRef { start_ns: SECOND, ..thread(20, "job") };
        let mut own = slept(20, "job", SECOND + 2, 4 * SECOND);
        if let Body::Wait(wait) = &mut own.body {
            wait.thread = child.clone();
        }
        let between = |at: Ns| slept(10, "sh", at * SECOND + 1, (at + 1) * SECOND - 1);
        let named = identity(Thread { thread: child, parent_pid: 10, ..Thread::default() });
        let asks = [1, 2, 3].map(|at| asked(at * SECOND)).to_vec();
        let facts = [host(), vec![named], asks, vec![between(1), between(2), own]].concat();
        let Observed { timelines, .. } = Observed::new(facts);
        let class = |pid: u32| {
            let its = timelines.waits().filter(move |wait| wait.thread.pid == pid);
            its.map(|wait| wait.class).collect::<Vec<_>>()
        };
        assert_eq!(class(10), [WaitClass::ProcessEnd; 2]);
        assert_eq!(class(20), [WaitClass::Timer]);
    }
}
