//! A process that sleeps, is refused a connection, an address or a lock, and sleeps again, of which one try alone fell into the look: the sentence of a
//! look that would else say that it sleeps on purpose.
//!
//! Two refusals of one thing make a wait for it (waits/retries.rs); one may be by chance, so nothing is concluded here but what was seen, and in which
//! order. Must not: say that it will try again, or follow whoever refused it. Rejected: a refusal with no sleep before it (who gives up and then
//! rests), or of a process that has another connection (it tries several addresses, and one has taken it).

use crate::facts::{Denied, Ns, TargetKind};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::waits::WaitClass;
use crate::waits::retries::refused;
use crate::waits::timeline::WaitSpan;

/// From a sleep to the call, and from its refusal to the next sleep: what a script does around it.
const AT_ONCE_NS: Ns = 100_000_000;
/// Switches and refusals are dated by two clocks, which differ by less.
const SKEW_NS: Ns = 100_000;
const ECONNREFUSED: i32 = 111;

/// Title and paragraph, if the main thread of the process that was asked about sleeps so as the look ends.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?;
    let main = model.threads.thread_ref(asked.pid);
    let waits = measures.graph.waits_of(&main);
    let sleeps = |wait: &&WaitSpan| wait.class == WaitClass::Timer;
    let last = waits.last().filter(sleeps).filter(|wait| wait.standing)?;
    let is_last = |at_ns: Ns| {
        (at_ns..=at_ns.saturating_add(AT_ONCE_NS)).contains(&last.begin_ns.saturating_add(SKEW_NS))
    };
    let own = model.threads.denied.iter().filter(|(_, it)| it.thread.tid == main.tid);
    let (at_ns, denied) =
        own.filter(|(at_ns, _)| is_last(*at_ns)).max_by_key(|(at_ns, _)| *at_ns)?;
    let slept_before = waits.iter().filter(sleeps).any(|wait| {
        let until_ns = at_ns.saturating_add(SKEW_NS);
        wait.end_ns <= until_ns && until_ns - wait.end_ns <= AT_ONCE_NS
    });
    let (class, object) = refused(model, denied).filter(|_| slept_before)?;
    let what = what(measures, denied, class, &object)?;
    let lasts = words::seconds(model.look.end_ns.saturating_sub(*at_ns) as f64 / 1e9);
    Some((
        format!("{} sleeps, and was refused {what} before it.", model.threads.who(&main)),
        format!(
            "One try was seen, {lasts} before the look ended, after one sleep and before the next. A look that lasts longer than its sleep shows whether it tries again."
        ),
    ))
}

/// What was refused, as a noun; none of what many a program can do without.
fn what(
    measures: &Measures<'_>,
    denied: &Denied,
    class: WaitClass,
    object: &Object,
) -> Option<String> {
    let name = measures.model.name_of(object).name;
    let call = denied.syscall.as_str();
    match class {
        WaitClass::RefusedConnection if denied.errno == ECONNREFUSED => {
            let has_another = measures.model.held.has_connection(denied.thread.pid);
            (!has_another).then(|| format!("a connection to {name}"))
        }
        WaitClass::TakenAddress => Some(format!("the address {name}, which is taken")),
        WaitClass::PolledLock if matches!(call, "fcntl" | "flock") => {
            Some(format!("a lock on {name}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;

    /// Title about process 10, which sleeps before and after these moments, at one of which it was refused this.
    fn title((until, from): (Ns, Ns), refused_ns: Ns, denied: Denied, more: Vec<Fact>) -> String {
        let mut sleeps = blocked(10, "app", WaitState::Sleep, "clock_nanosleep");
        if let Body::Blocked(sleeps) = &mut sleeps.body {
            sleeps.since_ns = from;
        }
        let facts = vec![
            of_process(10, "app"),
            slept(10, "app", 1_000, until),
            Fact { at_ns: refused_ns, body: Body::Denied(denied) },
            sleeps,
        ];
        explain([host(), facts, more].concat()).answer.title
    }

    fn connects(errno: i32) -> Denied {
        let address = Some("127.0.0.1:5432".parse().expect("an address"));
        Denied { errno, address, ..refusal(10, "app", "connect") }
    }

    #[test]
    fn who_was_refused_between_two_sleeps_does_not_only_sleep_on_purpose() {
        let between = (3 * SECOND, 3 * SECOND + 20_000_000);
        let at_ns = 3 * SECOND + 10_000_000;
        let said = title(between, at_ns, connects(111), Vec::new());
        assert_eq!(
            said,
            "app 10 sleeps, and was refused a connection to 127.0.0.1:5432 before it."
        );
        let file =
            ObjectRef::File(FileRef { ino: 7, path: Some("/srv/db".into()), ..FileRef::default() });
        let lock = Denied { errno: 11, object: Some(file), ..refusal(10, "app", "flock") };
        let said = title(between, at_ns, lock, Vec::new());
        assert!(said.contains("was refused a lock on "), "{said}");
    }

    #[test]
    fn a_refusal_that_is_no_try_between_sleeps_says_nothing() {
        let at_ns = 3 * SECOND + 10_000_000;
        let idle = "app 10 is idle: it sleeps on purpose";
        // It gave up long ago, or did something else before it slept.
        for around in [(SECOND, at_ns + 10_000_000), (3 * SECOND, 4 * SECOND)] {
            let said = title(around, at_ns, connects(111), Vec::new());
            assert!(said.starts_with(idle), "{said}");
        }
        let between = (3 * SECOND, at_ns + 10_000_000);
        let path = Some("/var/lib/app".to_string());
        let made = Denied { errno: 17, path, ..refusal(10, "app", "mkdir") };
        let said = title(between, at_ns, made, Vec::new());
        assert!(said.starts_with(idle), "a folder that is there: {said}");
        let has = endpoint(10, "app", inet("tcp", 7, "127.0.0.1:4000", "127.0.0.1:5433", 1));
        let said = title(between, at_ns, connects(111), vec![has]);
        assert!(!said.contains("was refused"), "another has taken it: {said}");
    }
}
