//! lock.lease: an open waits because another process holds a lease on the file and does not give it up.
//!
//! Leases (fcntl F_SETLEASE: Samba, NFS servers, backup tools) are broken by whoever opens: the kernel sends the
//! holder a signal and makes the opener wait until it answers, for up to /proc/sys/fs/lease-break-time. The lock
//! table has the lease that is being broken, and its holder. A holder that gave it up, late, is said to have: it is not to be ended any
//! more, and the wait may be of many pieces, as the kernel looks again and again. Rejected: the stack of the opener alone (it names no holder).

use super::file_words::Holders;
use crate::facts::FileLock;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::action::Action;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::rules::{holder_doing, wait_words};
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.lease",
    title: "An open waits for a lease that its holder does not give up",
    theory: "A lease promises its holder a signal before anybody else opens the file. Until the holder answers by \
             unlocking or downgrading, open(2) and truncate(2) of the others sleep, for up to lease-break-time \
             (45 s). A holder that ignores the signal holds everybody up for all of it.",
    needs: &[
        "a thread waits for a lease to break (__break_lease)",
        "the lock table has a lease on that file, with its holder",
    ],
    refuted_by: &[
        Refutation::new(
            "the lock on the file is a flock or POSIX lock",
            "a_flock_on_the_file_is_no_lease",
        ),
        Refutation::new("no lease is being broken", "a_lease_that_nobody_breaks_is_not_blamed"),
    ],
    remedies: &[
        "make the holder answer its signal (SIGIO)",
        "end the holder",
        "shorten fs.lease-break-time",
    ],
    stories: &["S3.14"],
    thresholds: &[],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    if end.class != WaitClass::FileLock {
        return None;
    }
    let holders = Holders::of(measures, end);
    let lease = holders.lock.filter(|lock| lock.kind == "LEASE")?;
    let holder = holders.main.as_ref();
    let is_read = holder.is_some() && lease.breaking;
    let proof = if is_read { Proof::Read } else { Proof::OneWitness };
    let by = holder.map_or_else(Culprit::default, |holder| culprit(measures.model, holder));
    Some(Match::new(by, proof, move |loss| explain(measures, end, (lease, &holders), loss)))
}

fn explain(
    measures: &Measures<'_>,
    end: &End,
    (lease, holders): (&FileLock, &Holders<'_>),
    loss: &Loss<'_>,
) -> Wording {
    let by = holders.name_or("a holder that was not seen");
    let alive = holders.alive(measures);
    let path = measures.model.name_of(&end.object).or("a file that was not seen");
    let gave_up = holders.gave_up(measures, end);
    let longest = wait_words::longest(measures, end);
    let mut evidence =
        wait_words::wait_evidence(loss.seconds, end.count as usize, &longest, "the lease");
    evidence.push(Evidence::new(
        format!("LEASE {} held by {by}, being broken", lease.access),
        f64::from(u8::from(lease.breaking)),
        "1",
        "/proc/locks",
    ));
    let waiter = wait_words::waiter(measures, end);
    let time = words::of_window(loss.seconds, loss.wall_seconds);
    let (title, text) = match gave_up {
        true => (
            format!("{waiter} waited to open {path}, until {by} gave up its lease"),
            format!(
                "{time} passed in open. The kernel had asked {by} for the lease, and it gave it up after that time."
            ),
        ),
        false => (
            format!("{waiter} waits to open {path}, on which {by} holds a lease"),
            format!(
                "{time} pass in open, until {by} gives up its lease. The kernel has asked it to. {}",
                holders.sentences(measures, end)
            ),
        ),
    };
    let answer = match gave_up {
        true => Remedy::to(format!("let {by} give up a lease at once when it is asked to (SIGIO)")),
        false => {
            let text =
                format!("make {by} give up the lease when it is asked to (SIGIO), or end it");
            match alive.is_empty() {
                true => Remedy::to(text),
                false => holder_doing::end_all(measures.model, &text, &alive),
            }
        }
    };
    Wording {
        title,
        text,
        evidence,
        remedy: [answer].into_iter().chain(sooner(measures)).collect(),
    }
}

/// Seconds after which a lease is taken back: enough for who is there to answer.
const SOON: u64 = 5;

/// A wait that stands has its time already, and where the time is known to be short nothing is gained.
fn sooner(measures: &Measures<'_>) -> Option<Remedy> {
    let now = measures.model.net.sysctls.get("fs.lease-break-time")?.trim().parse().ok()?;
    let set = |seconds: u64| format!("sysctl fs.lease-break-time={seconds}");
    let text = "let the kernel take leases back sooner, from the next time on";
    let action = Action::sysctl("fs.lease-break-time", SOON, now);
    (now > SOON).then(|| Remedy::to(text).set(action, set(SOON), set(now)))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn opener(kind: &str, breaking: bool) -> Vec<Fact> {
        let frames = ["schedule_timeout", "__break_lease", "do_dentry_open"];
        let frames = frames.iter().map(|f| (*f).to_string()).collect();
        let lease = FileLock {
            id: 1,
            kind: kind.into(),
            access: "WRITE".into(),
            pid: 20,
            comm: "backup".into(),
            dev: DeviceNumber { major: 8, minor: 1 },
            ino: 99,
            start: 0,
            end: u64::MAX,
            blocked: false,
            breaking,
            taker: None,
            holders: Vec::new(),
            open_in: Vec::new(),
            path: Some("/srv/data".into()),
        };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "openat".into(),
            stack: 1,
            ..Place::default()
        };
        let mut facts = host();
        facts.push(fact(Body::Stack(Stack { id: 1, frames })));
        facts.push(Fact { at_ns: LOOK_NS, body: Body::FileLock(lease) });
        facts.push(at_place(10, "editor", place));
        facts.push(blocked(20, "backup", WaitState::Sleep, "nanosleep"));
        facts
    }

    #[test]
    fn the_holder_of_a_lease_that_is_being_broken_is_named() {
        let report = explain(opener("LEASE", true));
        let finding = &report.findings[0];
        assert_eq!(finding.code, "lock.lease");
        assert_eq!((&*finding.object.name, finding.culprit.pid), ("/srv/data", Some(20)));
        assert_eq!(report.findings.len(), 1);
    }

    #[test]
    fn a_lease_that_was_given_up_is_not_to_be_given_up_again() {
        let mut facts = opener("LEASE", true);
        let wake = |at_ns, context| {
            let by = thread(20, "backup");
            Some(Wake { at_ns, context, by, ..Wake::default() })
        };
        let mut place = Place::default();
        facts.retain(|fact| match &fact.body {
            Body::Blocked(blocked) if blocked.thread.pid == 10 => {
                place = blocked.place.clone();
                false
            }
            _ => true,
        });
        // The kernel looks again after a while, by a timer.
        let file =
            FileRef { dev: DeviceNumber { major: 8, minor: 1 }, ino: 99, ..FileRef::default() };
        place.object = Some(ObjectRef::File(file));
        let half = LOOK_NS / 2;
        for (begin_ns, end_ns, context) in
            [(1, half, WakeContext::SoftInterrupt), (half + 1, LOOK_NS, WakeContext::Task)]
        {
            let (thread, place) = (thread(10, "editor"), place.clone());
            let wake = wake(end_ns, context);
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
        }
        let report = explain(facts);
        let finding = report.findings.iter().find(|it| it.code == "lock.lease");
        let finding = finding.expect("the lease");
        assert!(finding.title.ends_with("until backup 20 gave up its lease"), "{}", finding.title);
        assert_eq!(finding.remedy[0].command, "");
    }

    #[test]
    fn a_lease_whose_holder_was_not_seen_is_less_sure() {
        let mut facts = opener("LEASE", true);
        for Fact { body, .. } in &mut facts {
            if let Body::FileLock(lease) = body {
                (lease.pid, lease.comm) = (0, String::new());
            }
        }
        let (unseen, seen) = (explain(facts), explain(opener("LEASE", true)));
        let finding = &unseen.findings[0];
        assert_eq!((&*finding.code, finding.culprit.pid), ("lock.lease", None));
        assert!(finding.confidence < seen.findings[0].confidence, "{}", finding.confidence);
    }

    #[test]
    fn a_flock_on_the_file_is_no_lease() {
        let report = explain(opener("FLOCK", true));
        assert!(report.findings.iter().all(|f| f.code != "lock.lease"));
    }

    #[test]
    fn a_lease_that_nobody_breaks_is_not_blamed() {
        let report = explain(opener("LEASE", false));
        assert!(report.findings.iter().all(|f| f.code != "lock.lease"));
    }
}
