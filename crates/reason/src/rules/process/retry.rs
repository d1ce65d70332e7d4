//! process.retry: a call is refused again and again, with sleeps in between, until somebody makes it possible.
//!
//! Mostly connections to a server that is not there (ECONNREFUSED); also writes to a file system without room. Locks and limits
//! have rules of their own before this one. The two facts are the refusals and the sleeps between them, of two interfaces.
//! Must not: name whoever should listen there; nobody is there to be seen.

use super::refusal_words;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::refusals::Tries;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::waits::WaitClass;

/// The rule.
pub static RULE: Rule = Rule {
    code: "process.retry",
    title: "A refused call is tried again and again",
    theory: "Where nobody listens, connect returns ECONNREFUSED at once; where a file system is full, write returns ENOSPC. \
             Programs and scripts that expect this to pass sleep and try again. Nobody tells them when it has passed, so they \
             lose the rest of their sleep too, and with sleeps that grow most of it.",
    needs: &[
        "the same call was refused for the same address, path or file system again and again",
        "a sleep stands between the tries, and takes most of the time between them",
    ],
    refuted_by: &[
        Refutation::new(
            "it was refused once, and not tried again",
            "a_connection_that_was_refused_once_is_not_tried_again",
        ),
        Refutation::new(
            "the program that was refused ended well: it found what it needed at another address",
            "a_client_that_ended_well_found_another_address",
        ),
        Refutation::new(
            "an IPv6 address was refused, after which an IPv4 one is tried",
            "an_ipv6_address_may_not_be_the_last_that_was_tried",
        ),
    ],
    remedies: &[
        "see whether the server runs, and at which address it listens",
        "let it start before its clients, or hand it its socket (socket activation)",
        "make room on the file system",
    ],
    stories: &[],
    thresholds: &[&refusal_words::SLEPT_MIN],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    if !matches!(end.class, WaitClass::RefusedConnection | WaitClass::RefusedLimit) {
        return None;
    }
    let tries = refusal_words::tries(measures, end)?;
    let name = measures.model.name_of(&end.object).name;
    let by = match end.class {
        WaitClass::RefusedConnection => Culprit::peer(name.clone(), name),
        _ => Culprit { name, ..Culprit::default() },
    };
    let proof = if tries.reported > 1 { Proof::TwoWitnesses } else { Proof::OneWitness };
    Some(Match::new(by, proof, move |loss| explain(measures, end, &tries, loss)))
}

fn explain(measures: &Measures<'_>, end: &End, tries: &Tries<'_>, loss: &Loss<'_>) -> Wording {
    let name = measures.model.name_of(&end.object).name;
    let (victim, by) = (&loss.victim, words::who(&tries.last.thread));
    let slept = refusal_words::between(tries, loss.seconds, loss.wall_seconds);
    let (title, text, remedy) = match (&end.object, end.class) {
        (Object::Address(address), _) => (
            format!("{victim} waits for somebody to listen on {name}: its connections are refused"),
            format!(
                "{slept} {by} was the last to try. Nobody listens there, so the host of that address refuses at once."
            ),
            ("see who listens on that port", format!("ss -ltnp 'sport = :{}'", address.port())),
        ),
        (_, WaitClass::RefusedConnection) => (
            format!("{victim} waits for somebody to listen on {name}: its connections are refused"),
            format!(
                "{slept} The socket is there, and nobody listens on it: whoever made it has ended, or has not begun."
            ),
            ("see who has the socket", format!("ss -lxp src {}", words::shell(&name))),
        ),
        (Object::FileSystem(_), _) => (
            format!("{victim} waits for room on {name}: its writes are refused"),
            format!("{slept} The file system has no room, or the quota of the writer is used up."),
            ("see how much room there is", format!("df -h {}", words::shell(&name))),
        ),
        _ => (
            format!("{victim} is refused {name} again and again, and sleeps in between"),
            format!("{slept} {by} was the last to try."),
            ("see what the kernel says of it", "dmesg | tail -n 20".to_string()),
        ),
    };
    let (doing, command) = remedy;
    Wording {
        title,
        text,
        evidence: refusal_words::evidence(tries, loss.seconds),
        remedy: vec![Remedy { text: doing.into(), command, ..Remedy::default() }],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Report;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;
    const ECONNREFUSED: i32 = 111;
    const ENOSPC: i32 = 28;

    fn connect(address: &str) -> Denied {
        let address = Some(address.parse().expect("an address"));
        Denied { errno: ECONNREFUSED, address, ..refusal(10, "client", "connect") }
    }

    /// A client that is refused so often, and sleeps for a second each time.
    fn client(refusal: &Denied, times: u64) -> Report {
        let mut facts = host();
        facts.push(of_process(10, "client"));
        for at in 1..=times {
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refusal.clone()) });
            facts.push(slept(10, "client", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        explain(facts)
    }

    #[test]
    fn where_nobody_listens_the_address_is_what_is_waited_for() {
        let report = client(&connect("10.0.0.7:5432"), 3);
        let found = &report.findings[0];
        assert_eq!((&*found.code, &*found.object.name), ("process.retry", "10.0.0.7:5432"));
        assert_eq!(found.culprit.address.as_deref(), Some("10.0.0.7:5432"));
        assert_eq!(found.remedy[0].command, "ss -ltnp 'sport = :5432'");
        assert_eq!(report.answer.ends[0].end, EndKind::Remote);
    }

    #[test]
    fn a_full_file_system_is_waited_for_too() {
        let file = FileRef { dev: DeviceNumber { major: 8, minor: 1 }, ..FileRef::default() };
        let object = Some(ObjectRef::File(file));
        let report = client(&Denied { errno: ENOSPC, object, ..refusal(10, "client", "write") }, 3);
        assert_eq!(report.findings[0].code, "process.retry");
        assert_eq!(report.answer.ends[0].end, EndKind::Limit);
    }

    #[test]
    fn a_connection_that_was_refused_once_is_not_tried_again() {
        assert_eq!(client(&connect("10.0.0.7:5432"), 1).findings, []);
    }

    #[test]
    fn an_ipv6_address_may_not_be_the_last_that_was_tried() {
        assert_eq!(client(&connect("[::1]:5432"), 3).findings, []);
    }

    fn script(code: u32) -> Report {
        explain(script_whose_children_are_refused(&connect("127.0.0.1:80"), code))
    }

    #[test]
    fn a_script_waits_for_what_its_children_are_refused() {
        let report = script(256);
        assert_eq!(report.findings[0].code, "process.retry");
        let last = report.findings[0].chain.last().map(|link| link.waits_on.name.as_str());
        assert_eq!(last, Some("127.0.0.1:80"));
    }

    #[test]
    fn a_client_that_ended_well_found_another_address() {
        assert_eq!(script(0).findings, []);
    }
}
