//! Ways out for whoever goes on by itself: a stopped process that was continued within the look.
//!
//! SIGCONT does nothing to a process that runs, and its undo, SIGSTOP, would stop it. So each rule may say "continue it", and
//! here it is looked at whether the process still stood when the look ended. Must not: judge who has ended (lasting.rs), or
//! word a cause.
//!
//! Rejected: asking in each rule that continues somebody (seven do, and the eighth would forget it). Edit together: engine.rs,
//! remedy.rs (`go_on`).

use super::action::{Action, ActionKind};
use super::wording::Remedy;
use crate::facts::ThreadRef;
use crate::measure::Measures;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The ways out, with another in place of one that continues who was continued.
pub fn while_stopped(measures: &Measures<'_>, ways: Vec<Remedy>) -> Vec<Remedy> {
    ways.into_iter().map(|way| continued(measures, &way).unwrap_or(way)).collect()
}

fn continued(measures: &Measures<'_>, way: &Remedy) -> Option<Remedy> {
    let action = way.action.as_ref().filter(|action| continues(action))?;
    let [process] = &action.target.processes[..] else { return None };
    let who = process.thread();
    goes_on(measures, &who).then(|| {
        let text = format!(
            "{} goes on again; if it happens again, see meanwhile who stops it",
            measures.model.threads.who(&who)
        );
        Remedy::to(text).look(&who)
    })
}

fn continues(action: &Action) -> bool {
    action.kind == ActionKind::Signal && action.value.as_deref() == Some("CONT")
}

/// Whether a process was seen to be stopped, and was not any more as the look ended.
fn goes_on(measures: &Measures<'_>, process: &ThreadRef) -> bool {
    let is_its =
        |wait: &&WaitSpan| wait.class == WaitClass::Stopped && wait.thread.pid == process.pid;
    let mut stops = measures.waits().filter(is_its).peekable();
    stops.peek().is_some() && stops.all(|wait| !wait.standing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    fn of_shell() -> ThreadRef {
        thread(5, "bash")
    }

    /// The way out for a job that stands still, or did until then.
    fn way_out(goes_on_ns: Option<Ns>) -> Remedy {
        let mut facts = host();
        let stopped = blocked(20, "job", WaitState::Stopped, "");
        facts.push(match goes_on_ns {
            None => stopped,
            Some(end_ns) => {
                let Body::Blocked(Blocked { thread, place, .. }) = stopped.body else {
                    unreachable!()
                };
                let (context, by) = (WakeContext::Task, of_shell());
                let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
                let ended = Wait { thread, end_ns, place, wake, ..Wait::default() };
                Fact { at_ns: end_ns, body: Body::Wait(ended) }
            }
        });
        let observed = Observed::new(facts);
        let measures = Measures::of_observed(&observed);
        let ways = vec![Remedy::to("continue it").go_on(&thread(20, "job"))];
        while_stopped(&measures, ways).remove(0)
    }

    #[test]
    fn who_was_continued_is_not_continued_again() {
        assert_eq!(way_out(None).command, "kill -CONT 20");
        let later = way_out(Some(LOOK_NS / 2));
        assert_eq!((&*later.command, &*later.undo), ("holdup pid 20", ""));
        assert!(later.text.starts_with("job 20 goes on again"), "{}", later.text);
    }

    #[test]
    fn another_signal_is_sent_whatever_the_process_does() {
        let observed = Observed::new(host());
        let end = Remedy::to("end it").end(&thread(20, "job"));
        let ways = while_stopped(&Measures::of_observed(&observed), vec![end]);
        assert_eq!(ways[0].command, "kill 20");
    }
}
