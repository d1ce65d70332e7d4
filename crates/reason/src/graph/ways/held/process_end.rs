//! A process whose end is waited for by asking again and again whether it lives: that process, until it has ended.
//!
//! What is left of the sleep in which it ended is the time between two looks at it. One that is asked after later, and still said to live, is a
//! zombie, and its parent is waited for. Must not: blame him for a sleep in which nobody asked. Edit together: waits/retries.rs (who asks).

use crate::facts::{Denied, Ns, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::model::object::Object;
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, retries};

/// The way.
pub(super) static WAY: Way = Way {
    name: "process asked after",
    because: "it was asked again and again whether that process lives, and it did",
    of: &[WaitClass::ProcessEnd],
    thresholds: &[],
    follow: |at| {
        let process = asked_after(at.index, at.wait).filter(|it| it.pid != at.wait.thread.pid)?;
        let has_ended = ended_ns(at.index, at.wait).is_some_and(|ns| ns <= at.within.0);
        (!has_ended).then_some(Next::Thread(process))
    },
};

fn asked_after(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let Object::Process(pid) = wait.object else { return None };
    Some(index.model.threads.thread_ref_at(pid, wait.begin_ns))
}

/// When the process that is asked after ended, if that was in this wait and nobody asked again.
pub(in crate::graph) fn ended_ns(index: &Index<'_>, wait: &WaitSpan) -> Option<Ns> {
    if wait.class != WaitClass::ProcessEnd {
        return None;
    }
    let process = asked_after(index, wait)?;
    let model = index.model;
    let ended_ns = index.families.died_ns(model.threads.key(&process))?;
    let is_in = (wait.begin_ns..wait.end_ns).contains(&ended_ns);
    let mut later = model.threads.denied.iter().filter(|(at_ns, _)| *at_ns > ended_ns);
    let asks = |(_, it): &(Ns, Denied)| {
        retries::refused(model, it).is_some_and(|(_, object)| object == wait.object)
    };
    (is_in && !later.any(asks)).then_some(ended_ns)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::chains::Chains;
    use crate::graph::ways::scenes::{child, led};
    use crate::rules::scenes::{LOOK_NS, host, refusal, slept, thread};
    use crate::waits::WaitClass;
    use crate::waits::timeline::Observed;

    const SECOND: Ns = 1_000_000_000;

    #[test]
    fn who_asks_whether_a_process_lives_is_led_to_it() {
        let asks = |at_ns| {
            let args = [20, 0, 0, 0, 0, 0];
            let body = Body::Denied(Denied { errno: 0, args, ..refusal(10, "app", "kill") });
            Fact { at_ns, body }
        };
        let rest = slept(10, "app", SECOND + 1, 2 * SECOND - 1);
        let facts = vec![child(20, 1), asks(SECOND), rest, asks(2 * SECOND)];
        assert_eq!(led(facts), ("process asked after", Some(20)));
    }

    /// Process 10 asks after 20, which ends in the middle of the second of its rests, and is not reaped: tenths of seconds that it waits
    /// for a zombie.
    fn zombie_tenths(asked: &[Ns]) -> Ns {
        let asks = |at_ns: &Ns| {
            let args = [20, 0, 0, 0, 0, 0];
            let body = Body::Denied(Denied { errno: 0, args, ..refusal(10, "app", "kill") });
            Fact { at_ns: *at_ns, body }
        };
        let rest = |at: Ns| slept(10, "app", at * SECOND + 1, (at + 1) * SECOND - 1);
        let one = ThreadRef { start_ns: 1, ..thread(20, "job") };
        let exit_ns = SECOND * 5 / 2;
        let exit = Body::Exit(Exit { thread: one.clone(), last: true, code: Some(0) });
        let place = Place { state: WaitState::Ended, ..Place::default() };
        let zombie = Blocked { thread: one, since_ns: exit_ns, place, ..Blocked::default() };
        let mut facts = vec![
            child(20, 1),
            slept(20, "job", 0, exit_ns),
            Fact { at_ns: exit_ns, body: exit },
            Fact { at_ns: LOOK_NS, body: Body::Blocked(zombie) },
        ];
        facts.extend(asked.iter().map(asks));
        facts.extend((1..4).map(rest));
        let Observed { model, timelines } = Observed::new([host(), facts].concat());
        let chains = Chains::new(&model, &timelines);
        let leaves = chains.follow(&thread(10, "app"), SECOND, 4 * SECOND);
        let zombie = leaves.iter().filter(|leaf| leaf.root().class == WaitClass::Zombie);
        zombie.map(|leaf| leaf.end_ns - leaf.begin_ns).sum::<Ns>() / (SECOND / 10)
    }

    #[test]
    fn what_is_left_of_the_sleep_in_which_it_ended_is_nobodys() {
        assert_eq!(zombie_tenths(&[SECOND, 2 * SECOND]), 0);
        assert_eq!(zombie_tenths(&[SECOND, 2 * SECOND, 3 * SECOND]), 14, "to whoever asks again");
    }
}
