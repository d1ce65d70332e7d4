//! Which waits are for the lock of an interpreter: the one that a thread must have to run the program.
//!
//! CPython and Ruby let one thread of a process run at a time. The lock has several words (who wants it asks again each few
//! milliseconds, and waits in turn on one of two), and none looks like a lock. So where the words are is read of the process
//! itself; else a stack that was read says it. All such waits are for one object. Must not: say who has it (graph/holders.rs).

use super::WaitClass;
use super::span::WaitSpan;
use super::user_stack;
use crate::model::Model;
use crate::model::object::Object;
use crate::programs::lock_kind::LockKind;

/// Names the wait, if it is one for an interpreter's lock.
pub(super) fn reclassify(model: &Model, wait: &mut WaitSpan) {
    if !matches!(wait.class, WaitClass::FutexLock | WaitClass::FutexWait) || wait.kernel {
        return;
    }
    let [address, ..] = wait.place.args;
    let said = || {
        let (from, to) = (wait.begin_ns, wait.end_ns);
        user_stack::lock_kind_of(model, &wait.thread, from, to) == Some(LockKind::InterpreterLock)
    };
    if is_word_of_it(model, wait.thread.pid, address) || said() {
        wait.class = WaitClass::FutexLock;
        wait.object = Object::InterpreterLock(wait.thread.pid);
    }
}

/// Whether a word belongs to the lock of that process's interpreter.
fn is_word_of_it(model: &Model, pid: u32, address: u64) -> bool {
    let read = model.stacks.interpreter_locks.get(&pid).and_then(|all| all.last());
    read.is_some_and(|(_, lock)| (lock.begin..lock.end).contains(&address))
}
