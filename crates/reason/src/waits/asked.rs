//! Something that was asked for and not had: what refused calls, failing programs and ended sessions have in common.
//!
//! Must not: say what is refused (retries.rs, failing.rs, turned_away.rs).

use super::WaitClass;
use crate::facts::{Ns, ThreadRef};
use crate::model::object::Object;

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

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::scenes::{host, identity, refusal, slept, thread};
    use crate::waits::WaitClass;
    use crate::waits::timeline::Observed;

    const SECOND: Ns = 1_000_000_000;

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
