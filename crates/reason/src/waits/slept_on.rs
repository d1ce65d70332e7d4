//! Timed waits on a futex word that the same thread sleeps on at another time.
//!
//! A thread of a virtual machine sleeps on a word of its own, with a timeout (Java's Thread.sleep). Its stack is read now and
//! then only, and not always to the end; the word says the same of its other waits. Must not: take a wait that another thread
//! ended for a sleep, or a word of which no stack says so. Edit together: timeline.rs, which reads the stacks.

use super::WaitClass;
use super::span::WaitSpan;
use crate::facts::WakeContext;
use crate::model::object::Object;
use std::collections::HashSet;

/// What a sleep of a virtual machine is called.
pub(super) const THREAD_SLEEP: &str = "Thread.sleep";

/// Makes sleeps of the waits of one thread on words that it is seen to sleep on.
pub(super) fn reclassify(waits: &mut [WaitSpan]) {
    let words: HashSet<u64> =
        waits.iter().filter(|wait| is_sleep(wait)).filter_map(WaitSpan::timed_word).collect();
    if words.is_empty() {
        return;
    }
    for wait in waits.iter_mut() {
        let is_word = matches!(wait.class, WaitClass::FutexLock | WaitClass::FutexWait);
        let by_clock =
            wait.wake.as_ref().is_none_or(|wake| wake.context == WakeContext::HardInterrupt);
        if is_word && by_clock && wait.timed_word().is_some_and(|word| words.contains(&word)) {
            (wait.class, wait.object) = (WaitClass::Timer, Object::Timer(THREAD_SLEEP.into()));
        }
    }
}

fn is_sleep(wait: &WaitSpan) -> bool {
    wait.class == WaitClass::Timer
        && matches!(&wait.object, Object::Timer(name) if &**name == THREAD_SLEEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    /// A wait of thread 10 on a word, ended by the clock or by a thread.
    fn wait(begin_ms: Ns, word: u64, by: Option<ThreadRef>) -> Fact {
        let (begin_ns, end_ns) = (begin_ms * 1_000_000, (begin_ms + 300) * 1_000_000);
        let context = if by.is_some() { WakeContext::Task } else { WakeContext::HardInterrupt };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [word, 137, 0, 77, 0, 0],
            ..Place::default()
        };
        let wake =
            Some(Wake { at_ns: end_ns, context, by: by.unwrap_or_default(), ..Wake::default() });
        let thread = thread(10, "java");
        let body = Body::Wait(Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() });
        Fact { at_ns: end_ns, body }
    }

    #[test]
    fn a_word_that_is_slept_on_once_is_slept_on() {
        let frame = |function: &str, module: &str| UserFrame {
            function: function.into(),
            module: module.into(),
            ..UserFrame::default()
        };
        let frames = vec![
            frame("pthread_cond_timedwait", "libc.so.6"),
            frame("Thread.sleep", "jdk/Thread.java"),
            frame("Shop.pause", "Shop.java"),
        ];
        let thread = thread(10, "java");
        let stack = UserStack { thread, since_ns: 1_000_000_000, frames, complete: true };
        let facts = vec![
            wait(100, 0x7f00_0028, None),
            wait(1_000, 0x7f00_002c, None),
            Fact { at_ns: 1_200_000_000, body: Body::UserStack(stack) },
            wait(2_000, 0x7f00_0028, Some(crate::rules::scenes::thread(11, "other"))),
            wait(3_000, 0x7f00_0058, None),
        ];
        let observed = Observed::new([host(), facts].concat());
        let slept: Vec<bool> = observed.timelines.waits().map(is_sleep).collect();
        assert_eq!(slept, [true, true, false, false]);
    }
}
