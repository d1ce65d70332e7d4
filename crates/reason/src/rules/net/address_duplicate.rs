//! net.address_duplicate: an address of this host cannot be used, because another answered for it when the kernel asked.
//!
//! The kernel's own mark on the address (IFA_F_DADFAILED) says it. Who waits for it is refused it (EADDRNOTAVAIL); where nobody is seen to
//! wait it is a note, since the address stays unusable for ever. Must not: fire on an address that is still being asked about (tentative).
//! Rejected: the line in the kernel's log (it is printed once, and scrolls away). Of IPv4 the kernel asks nobody: address_twice.rs.

use crate::facts::{ThreadRef, UnusableAddress};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::net::address_twice;
use crate::rules::net::dropped_packets::{LOST_ONE, NOTICED};
use crate::rules::net::losses::of_measure;
use crate::rules::net::ways_out::command_in;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule};
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.address_duplicate",
    title: "An address of this host is taken by another, and cannot be used",
    theory: "Before it uses an address of IPv6 the kernel asks the link whether somebody has it (duplicate address detection). If an \
             answer comes, or its own question comes back by a bridge that sends frames back where they came from, the address is marked as failed and never used: programs \
             that want to listen on it get EADDRNOTAVAIL until somebody takes the address off and gives it again.",
    needs: &[
        "the kernel marked the address as a duplicate (dadfailed)",
        "it is a note, unless somebody is refused it again and again, or a command that names it sleeps between its looks",
        "or: somebody waits for an address that two network namespaces of this host have, on interfaces with two hardware addresses, to \
         both of which frames come from where it is asked for (over no bridge that may part VLANs), while a connection is made or segments are \
         sent again",
    ],
    refuted_by: &[
        Refutation::new(
            "the address is still being asked about",
            "an_address_that_is_still_asked_about_is_no_duplicate",
        ),
        Refutation::new(
            "of the interfaces that have the address one alone is reached, or they have one hardware address (a router of several places)",
            "an_address_that_only_one_of_the_link_has_is_no_duplicate",
        ),
        Refutation::new(
            "it is another address that is waited for",
            "who_waits_for_another_address_loses_nothing_to_it",
        ),
    ],
    remedies: &["find who has the address", "give it again once nobody else has it"],
    stories: &["S2.11"],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let failed = measures.model.net.unusable.iter().filter(|it| it.duplicate);
    let marked = failed.filter_map(|failed| matched(measures, ends, failed));
    marked.chain(address_twice::found(measures, ends)).collect()
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    failed: &'m UnusableAddress,
) -> Option<Match<'m>> {
    let waits_for_it = |end: &End| match &end.object {
        _ if end.victims.is_empty() => false,
        Object::Address(address) if end.class == WaitClass::NoAddress => {
            address.ip() == failed.address
        }
        _ => is_looked_for(measures, end, failed),
    };
    let claims: Vec<usize> = (0..ends.len()).filter(|at| waits_for_it(&ends[*at])).collect();
    let by = Culprit::peer(failed.address.to_string(), failed.address.to_string());
    let is_refused = |at: &usize| ends[*at].class == WaitClass::NoAddress;
    let proof = if claims.iter().all(is_refused) { Proof::Read } else { Proof::Inferred };
    let new = Match::new(by, proof, move |loss| wording(measures, failed, loss));
    if !claims.is_empty() {
        return Some(claims.into_iter().fold(new, |matched, at| matched.claiming(at, None)));
    }
    if !is_there(measures, failed) {
        return None;
    }
    let object = Object::PacketQueue {
        netns: failed.netns,
        interface: failed.interface.as_str().into(),
        handle: "".into(),
    };
    let mut matched = of_measure(measures, new, object, Losses::new(), None);
    matched.severity_max = Severity::Note;
    Some(matched)
}

/// A script that looks again and again whether the address works, and sleeps in between: its words name the address.
fn is_looked_for(measures: &Measures<'_>, end: &End, failed: &UnusableAddress) -> bool {
    let is_sleep = matches!(end.class, WaitClass::Timer | WaitClass::FailedProgram);
    let address = failed.address.to_string();
    let words = measures.model.look.target.as_ref().map_or(&[][..], |target| &target.words);
    is_sleep && measures.is_command() && words.iter().any(|word| names(word, &address))
}

/// Whether an address stands in a text, and is no part of a longer one.
fn names(text: &str, address: &str) -> bool {
    let is_part = |it: Option<char>| it.is_some_and(|it| it.is_ascii_hexdigit() || it == ':');
    let mut found = text.match_indices(address);
    found.any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + address.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

/// In a namespace of who is looked at: a host has all.
fn is_there(measures: &Measures<'_>, failed: &UnusableAddress) -> bool {
    let mut known = measures.model.threads.by_id.values();
    measures.concerns(&ThreadRef::default())
        || known.any(|it| it.netns == failed.netns && measures.concerns(&it.thread))
}

fn wording(measures: &Measures<'_>, failed: &UnusableAddress, loss: &Loss<'_>) -> Wording {
    let (address, interface) = (failed.address, &failed.interface);
    let title = match loss.end {
        Some(_) => format!(
            "{} waits for {address}, which {interface} cannot use: its link says that it is taken",
            loss.victim
        ),
        None => {
            format!("{interface} cannot use its address {address}: its link says that it is taken")
        }
    };
    let spent = match loss.end {
        Some(_) => format!("{} pass so. ", words::of_window(loss.seconds, loss.wall_seconds)),
        None => String::new(),
    };
    let ip = command_in(measures.model, failed.netns, "ip");
    let device = words::shell(interface);
    let prefix = failed.prefix;
    Wording {
        title,
        text: format!(
            "{spent}When the kernel asked the link for {address}, an answer came, so it marked the address as a duplicate (dadfailed) and does \
             not use it. It stays so until the address is taken off and given again; a bridge that sends frames back where they came from \
             (hairpin) makes the same of an address that nobody else has.",
        ),
        evidence: vec![Evidence::new(
            format!("{address} on {interface} is marked as a duplicate"),
            1.0,
            "1",
            "rtnetlink RTM_GETADDR IFA_F_DADFAILED",
        )],
        remedy: vec![
            Remedy {
                text: "see the mark".into(),
                command: format!("{ip} addr show dev {device} dadfailed"),
                action: Some(Action::look(Question::State).through(ip.through.as_ref())),
                ..Remedy::default()
            },
            Remedy::to(format!(
                "once nobody else has it, give it again: {ip} addr del {address}/{prefix} dev {device}, then the same with add"
            )),
        ],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::rules::wording::Severity;

    const CODE: &str = "net.address_duplicate";
    const SECOND: Ns = 1_000_000_000;

    fn unusable(duplicate: bool) -> Fact {
        fact(Body::UnusableAddress(UnusableAddress {
            netns: 1,
            interface: "eth0".into(),
            index: 2,
            address: "fd00::9".parse().expect("an address"),
            prefix: 64,
            duplicate,
        }))
    }

    /// A server that wants to listen on an address, three times.
    fn binds(address: &str, duplicate: bool) -> Vec<Fact> {
        let mut facts = host();
        facts.push(of_process(10, "server"));
        let address = Some(address.parse().expect("an address"));
        let refusal = Denied { errno: 99, address, ..refusal(10, "server", "bind") };
        for at in 1..=3 {
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refusal.clone()) });
            facts.push(slept(10, "server", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        facts.push(unusable(duplicate));
        facts
    }

    #[test]
    fn an_address_that_another_has_is_what_is_waited_for() {
        let found = explain(binds("[fd00::9]:80", true)).findings;
        assert_eq!((&*found[0].code, found.len()), (CODE, 1));
        assert_eq!(
            found[0].title,
            "server waits for fd00::9, which eth0 cannot use: its link says that it is taken"
        );
    }

    #[test]
    fn a_script_whose_words_name_the_address_waits_for_it() {
        let script = |words: &str| {
            let mut facts = host();
            facts.push(of_process(10, "sh"));
            facts.push(slept(10, "sh", SECOND / 10, 4 * SECOND));
            facts.push(unusable(true));
            facts.push(fact(Body::Target(Target {
                kind: TargetKind::Command,
                name: "sh".into(),
                pid: 10,
                cgroups: Vec::new(),
                words: vec!["sh".into(), words.into()],
            })));
            let found = explain(facts).findings;
            found.into_iter().filter(|it| it.code == CODE && !it.victims.is_empty()).count()
        };
        assert_eq!(script("until ping -c1 fd00::9; do sleep 1; done"), 1);
        assert_eq!(script("until ping -c1 fd00::8; do sleep 1; done"), 0);
    }

    #[test]
    fn where_nobody_waits_it_is_a_note() {
        let mut facts = host();
        facts.push(unusable(true));
        let found = explain(facts).findings;
        assert_eq!((&*found[0].code, found[0].severity), (CODE, Severity::Note));
    }

    #[test]
    fn an_address_that_is_still_asked_about_is_no_duplicate() {
        let found = explain(binds("[fd00::9]:80", false)).findings;
        assert!(found.iter().all(|it| it.code != CODE), "{found:?}");
    }

    #[test]
    fn who_waits_for_another_address_loses_nothing_to_it() {
        let found = explain(binds("[fd00::8]:80", true)).findings;
        assert!(found.iter().all(|it| it.code != CODE || it.victims.is_empty()), "{found:?}");
    }
}
