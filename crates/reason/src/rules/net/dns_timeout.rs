//! net.dns_timeout: a name server does not answer, or answers late, and somebody waits for it.
//!
//! A resolver waits in poll or recv like anybody who waits for work; what makes it a demand wait is the question
//! that the same thread sent just before (timeline.rs). The second fact is the answer: missing, or late. Chains
//! lead here from whoever waits for the resolver: a daemon that looks up its client's name under a lock, a local server
//! that asks another one. The last of them is named as what they wait through, and the server that he asks is to blame.
//!
//! Must not: fire for many quick answers, for asking often is the asker's business. Rejected: failures as a reason (a
//! quick SERVFAIL costs no time).

use super::dns_answered::{Answers, LATE, LATE_ONCE, YOUNG, asked_name};
use super::dns_remedies::{Asker, remedies};
use crate::facts::{Endpoint, InetRef, ObjectRef, ThreadRef};
use crate::graph::end::End;
use crate::measure::{Measures, moment};
use crate::model::object::Object;
use crate::model::{Model, words};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.dns_timeout",
    title: "A name server does not answer, or answers late",
    theory: "A resolver sends a question and waits; with no answer it asks again after its timeout (5 s unless \
             resolv.conf says otherwise), the next server, then fails. Whoever needed the name waits all that time, \
             and so does everybody who waits for him: a daemon that looks up its client's name while it holds a \
             lock stops all clients.",
    needs: &[
        "a thread sent a DNS question and waits, or waits on a socket connected to port 53",
        "the question was not answered, or the answers take 50 ms or more on average",
    ],
    refuted_by: &[
        Refutation::new("the questions are answered quickly", "a_quick_name_server_is_not_said"),
        Refutation::new(
            "nobody waits for the answers",
            "questions_that_nobody_waits_for_are_nothing",
        ),
        Refutation::new(
            "the question was asked just before the look ended",
            "a_young_question_may_still_be_answered",
        ),
    ],
    remedies: &[
        "repair or replace the name server",
        "name a server that answers first in resolv.conf",
        "shorten timeout and attempts in resolv.conf",
        "turn off name lookups where only an address is needed",
    ],
    stories: &["S4.3"],
    thresholds: &[&YOUNG, &LATE, &LATE_ONCE, &super::dns_remedies::LEAST_TIMEOUT],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut servers: BTreeMap<Option<SocketAddr>, Vec<usize>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        if let Object::DnsServer(server, _) = &end.object
            && end.class == WaitClass::Dns
            && !end.victims.is_empty()
        {
            servers.entry(*server).or_default().push(at);
        }
    }
    let matches = servers.into_iter().filter_map(|(server, own)| {
        let end = End::merged(own.iter().map(|at| &ends[*at]))?;
        let matched = matched(measures, server, &end)?;
        Some(own.into_iter().fold(matched, |matched, at| matched.claiming(at, None)))
    });
    matches.collect()
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    server: Option<SocketAddr>,
    end: &End,
) -> Option<Match<'m>> {
    let answers = Answers::of(measures, server);
    let unseen = answers.asked == 0 && end.longest_seconds >= YOUNG.value;
    let is_late_once =
        || answers.slowest() >= LATE_ONCE.value && moment::of(measures, end).is_some();
    let is_late = answers.mean() >= LATE.value || is_late_once();
    if answers.unanswered.is_empty() && !unseen && !is_late {
        return None;
    }
    let address = server.map_or_else(|| "not known".to_string(), |server| server.to_string());
    let mut by = match server.and_then(|server| local_server(measures.model, server, end)) {
        Some(process) => culprit(measures.model, process),
        None => Culprit::peer(format!("DNS server {address}"), address.clone()),
    };
    by.address = Some(address);
    let proof = if unseen { Proof::OneWitness } else { Proof::TwoWitnesses };
    let wording = wording(measures, server, end, &answers);
    let object = Object::DnsServer(server, "".into());
    Some(Match::new(by, proof, move |_| wording.clone()).on(object))
}

/// The process on this host that serves the address, if one does.
fn local_server<'m>(model: &'m Model, server: SocketAddr, end: &End) -> Option<&'m ThreadRef> {
    // What an address of the asker's own network namespace is sent stays there: each has a loopback of its own.
    let asker = &end.links[end.named].who;
    let netns = model.threads.identity(asker).map_or(0, |known| known.netns);
    let is_own = model.called.has_address(netns, server.ip());
    let is_there = |socket: &InetRef| !is_own || netns == 0 || socket.netns == netns;
    let has_all = |socket: &InetRef| {
        let takes_family = socket.local.is_ipv6() || server.is_ipv4();
        is_own && takes_family && socket.local.ip().is_unspecified() && socket.remote.port() == 0
    };
    let serves = |endpoint: &&Endpoint, all: bool| match &endpoint.object {
        ObjectRef::Inet(socket) => {
            let is_at = if all { has_all(socket) } else { socket.local.ip() == server.ip() };
            let is_port = socket.local.port() == server.port();
            socket.protocol == "udp" && is_port && is_at && is_there(socket)
        }
        _ => false,
    };
    // What is bound to the address itself gets what comes there, before what is bound to all.
    let mut serves_by = [false, true].into_iter();
    let found = serves_by.find_map(|all| model.held.endpoints.iter().find(|it| serves(it, all)));
    found.map(|endpoint| &endpoint.process)
}

fn wording(
    measures: &Measures<'_>,
    server: Option<SocketAddr>,
    end: &End,
    answers: &Answers<'_>,
) -> Wording {
    let asker = Asker::of(measures, end);
    let through = match asker.thread.pid == end.first_victim().pid {
        true => String::new(),
        false => format!(" through {}", measures.model.threads.who(asker.thread)),
    };
    let silent = answers.unanswered.len();
    let how = match (silent, answers.seconds.len()) {
        (0, 0) => "has not answered yet".to_string(),
        (_, 0) => "does not answer".to_string(),
        (0, _) if answers.mean() < LATE.value && answers.slowest() >= LATE_ONCE.value => {
            format!("takes up to {} to answer", words::seconds(answers.slowest()))
        }
        (0, _) => format!("takes {} to answer", words::seconds(answers.mean())),
        _ => format!("leaves {silent} of {} questions unanswered", answers.asked),
    };
    let address = server.map_or_else(|| "not known".to_string(), |server| server.to_string());
    let victim = measures.process_name(end.first_victim());
    Wording {
        title: format!("{victim} waits{through} for DNS server {address}, which {how}"),
        text: text(measures, end, answers, &asker),
        evidence: evidence(answers, end),
        remedy: remedies(measures, answers, end, server, &asker),
    }
}

fn text(measures: &Measures<'_>, end: &End, answers: &Answers<'_>, asker: &Asker<'_>) -> String {
    // For waits that count only through others the end's own seconds are zero: the longest loss stands for them.
    let longest = end.victims.values().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let mut text = format!(
        "{} pass in waits for answers to {} ({} the longest).",
        words::of_window(end.seconds.max(longest), measures.wall_seconds()),
        names(answers, end),
        words::seconds(end.longest_seconds),
    );
    if asker.forwards {
        let resolver = measures.model.threads.who(asker.thread);
        text += &format!(" {resolver} is asked on this host, and waits for that server itself.");
    }
    if !answers.unanswered.is_empty() {
        text += &format!(
            " {} of {} questions got no answer: each costs the asker its timeout.",
            answers.unanswered.len(),
            answers.asked
        );
    }
    if answers.failed > 0 {
        text += &format!(" {} answers were failures (SERVFAIL or REFUSED).", answers.failed);
    }
    text
}

fn names(answers: &Answers<'_>, end: &End) -> String {
    let mut names: Vec<&str> = answers.unanswered.iter().map(|q| &*q.query.name).collect();
    names.push(asked_name(end));
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    match names[..] {
        [] => "its questions".into(),
        [one] => one.to_string(),
        [one, ..] => format!("{one} and {} more", names.len() - 1),
    }
}

fn evidence(answers: &Answers<'_>, end: &End) -> Vec<Evidence> {
    let mut evidence = vec![Evidence::new(
        "longest wait for an answer",
        end.longest_seconds,
        "s",
        "sched_switch and the task iterator",
    )];
    let sent = "net_dev_queue, netif_receive_skb: UDP";
    if answers.asked > 0 {
        let silent = answers.unanswered.len() as f64;
        evidence.push(Evidence::new("questions asked", answers.asked as f64, "1", sent));
        evidence.push(Evidence::new("questions without an answer", silent, "1", sent));
    } else {
        let socket = "the waiting thread's socket is connected to port 53";
        evidence.push(Evidence::new(socket, 1.0, "1", "descriptors"));
    }
    if !answers.seconds.is_empty() {
        let mean = answers.mean() * 1e3;
        evidence.push(Evidence::new("mean time to an answer", mean, "ms", sent));
        if answers.mean() < LATE.value && answers.slowest() >= LATE_ONCE.value {
            let slowest = answers.slowest() * 1e3;
            evidence.push(Evidence::new("slowest answer", slowest, "ms", sent));
        }
    }
    if answers.failed > 0 {
        evidence.push(Evidence::new("answers that are failures", answers.failed as f64, "1", sent));
    }
    evidence
}

#[cfg(test)]
mod tests {
    use crate::answer::report::CulpritKind;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, endpoint, fact, thread};
    use crate::rules::wording::Severity;

    #[test]
    fn a_mute_name_server_is_named_with_the_name_asked() {
        let found = findings(dns(None));
        assert_eq!(found[0].code, "net.dns_timeout");
        assert_eq!(found[0].object.name, "10.0.0.53:53");
        assert_eq!(found[0].culprit.kind, CulpritKind::Peer);
        assert_eq!(found[0].culprit.address.as_deref(), Some("10.0.0.53:53"));
        assert!(found[0].text.contains("db.internal"), "{}", found[0].text);
        assert!(found[0].title.ends_with("does not answer"), "{}", found[0].title);
    }

    #[test]
    fn a_name_server_on_another_namespace_s_loopback_is_not_asked() {
        let by = |netns: u32| {
            let server: std::net::SocketAddr = address("127.0.0.1:53");
            let mut facts = dns(None);
            for fact in &mut facts {
                if let Body::DnsQuery(query) = &mut fact.body {
                    query.server = server;
                }
            }
            let known = Thread { thread: thread(10, "client"), netns: 1, ..Thread::default() };
            facts.push(fact(Body::Thread(known)));
            let mut bound = inet("udp", 6, "127.0.0.1:53", "0.0.0.0:0", 7);
            if let ObjectRef::Inet(socket) = &mut bound {
                socket.netns = netns;
            }
            facts.push(endpoint(20, "dnsmasq", bound));
            findings(facts)[0].culprit.pid
        };
        assert_eq!(by(1), Some(20));
        assert_eq!(by(2), None);
    }

    /// In a window of ten seconds one answer of many is late by so much.
    fn late_once(late_ms: u64) -> Option<crate::answer::report::Finding> {
        let late_ns = late_ms * 1_000_000;
        let mut facts = dns(Some(1));
        // As many again, half a second later each.
        for mut fact in dns(Some(1)) {
            fact.at_ns += 500_000_000;
            if let Body::Wait(wait) = &mut fact.body {
                wait.begin_ns += 500_000_000;
                wait.end_ns = fact.at_ns;
                wait.wake = Some(Wake { at_ns: wait.end_ns, ..Wake::default() });
            }
            facts.push(fact);
        }
        for fact in facts.iter_mut().filter(|fact| fact.at_ns / 500_000_000 == 6) {
            match &mut fact.body {
                Body::DnsReply(_) => fact.at_ns += late_ns,
                Body::Wait(wait) => {
                    wait.end_ns += late_ns;
                    fact.at_ns = wait.end_ns;
                    wait.wake = Some(Wake { at_ns: wait.end_ns, ..Wake::default() });
                }
                _ => {}
            }
        }
        facts.push(fact(Body::WindowBegin(WindowBegin { unix_ns: 1 })));
        let end = Body::WindowEnd(WindowEnd::default());
        facts.push(Fact { at_ns: 2 * LOOK_NS, body: end });
        let found = crate::answer::explain(facts).findings;
        found.into_iter().find(|it| it.code == "net.dns_timeout")
    }

    #[test]
    fn one_late_answer_of_many_is_named_if_somebody_lost_a_moment_to_it() {
        let found = late_once(300).expect("a finding");
        assert!(found.severity > Severity::Note);
        assert!(found.title.ends_with("takes up to 301 ms to answer"), "{}", found.title);
        assert!(found.impact.moment.is_some());
        assert_eq!(late_once(120), None);
    }

    #[test]
    fn names_of_one_server_are_one_answer() {
        let mut facts = dns(None);
        for fact in &mut facts {
            if let Body::DnsQuery(query) = &mut fact.body {
                query.name = format!("db{}.internal", query.id);
            }
        }
        let found = findings(facts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].text.contains("db0.internal and"), "{}", found[0].text);
    }

    #[test]
    fn waits_of_several_askers_are_not_reported_as_more_time_than_there_was() {
        assert!(findings(dns(None))[0].text.starts_with("4.95 s of 5 s pass in waits"));
        let mut facts = dns(None);
        for mut other in dns(None) {
            match &mut other.body {
                Body::DnsQuery(query) => query.thread = thread(11, "client"),
                Body::Wait(wait) => wait.thread = thread(11, "client"),
                _ => {}
            }
            facts.push(other);
        }
        let text = &findings(facts)[0].text;
        let both = "9.90 s (2.0 threads at a time in 5 s) pass in waits";
        assert!(text.starts_with(both), "{text}");
    }

    #[test]
    fn a_late_name_server_is_named() {
        assert_eq!(codes(dns(Some(400))), ["net.dns_timeout"]);
    }

    #[test]
    fn a_quick_name_server_is_not_said() {
        assert!(codes(dns(Some(20))).is_empty());
    }

    #[test]
    fn questions_that_nobody_waits_for_are_nothing() {
        let mut facts = dns(None);
        facts.retain(|fact| !matches!(fact.body, Body::Wait(_)));
        assert!(codes(facts).is_empty());
    }

    #[test]
    fn a_young_question_may_still_be_answered() {
        let mut facts = dns(None);
        facts.retain(|fact| fact.at_ns > 4_000_000_000);
        assert_eq!(facts.len(), 2, "the last question and its wait");
        assert!(codes(facts).is_empty());
    }

    #[test]
    fn a_local_server_on_the_way_is_named_and_the_server_behind_it_is_to_blame() {
        let local = inet("udp", 300, "127.0.0.1:53", "0.0.0.0:0", 0);
        let mut facts = vec![endpoint(812, "dnsmasq", local)];
        for mut fact in dns(None) {
            // The client asks dnsmasq, and that asks the same of the server that is mute.
            let mut asks = fact.clone();
            match &mut fact.body {
                Body::DnsQuery(query) => query.server = address("127.0.0.1:53"),
                Body::Wait(_) => {}
                _ => continue,
            }
            match &mut asks.body {
                Body::DnsQuery(query) => query.thread = thread(812, "dnsmasq"),
                Body::Wait(wait) => wait.thread = thread(812, "dnsmasq"),
                _ => {}
            }
            facts.extend([fact, asks]);
        }
        let found = findings(facts);
        assert_eq!(found.len(), 1, "{found:?}");
        let found = &found[0];
        let title =
            "client waits through dnsmasq 812 for DNS server 10.0.0.53:53, which does not answer";
        assert_eq!(found.title, title);
        assert!(found.text.contains("dnsmasq 812 is asked on this host"), "{}", found.text);
        assert_eq!(found.object.name, "10.0.0.53:53");
        assert_eq!((found.culprit.kind, found.culprit.pid), (CulpritKind::Peer, None));
        assert_eq!(found.culprit.address.as_deref(), Some("10.0.0.53:53"));
        let ways: Vec<&str> = found.remedy.iter().map(|way| &*way.command).collect();
        assert_eq!(ways, ["dig @10.0.0.53 -q db.internal +time=1 +tries=1", ""]);
        assert!(found.remedy[1].text.contains("dnsmasq 812"), "{}", found.remedy[1].text);
    }

    #[test]
    fn a_name_server_at_a_port_of_its_own_is_asked_there_and_resolv_conf_is_not_its_place() {
        let at = address("10.0.0.53:5353");
        let mut facts = dns(None);
        for fact in &mut facts {
            if let Body::DnsQuery(query) = &mut fact.body {
                query.server = at;
            }
        }
        let found = findings(facts);
        assert_eq!(
            (&*found[0].code, &*found[0].object.name),
            ("net.dns_timeout", "10.0.0.53:5353")
        );
        let ways = &found[0].remedy;
        assert_eq!(ways[0].command, "dig @10.0.0.53 -p 5353 -q db.internal +time=1 +tries=1");
        assert!(ways.iter().all(|way| !way.text.contains("resolv.conf")), "{ways:?}");
    }
}
