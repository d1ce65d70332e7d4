//! net.dns_timeout: a name server does not answer, or answers late, and somebody waits for it.
//!
//! A resolver waits in poll or recv like anybody who waits for work; what makes it a demand wait is the question
//! that the same thread sent just before (timeline.rs). The second fact is the answer: missing, or late. Chains
//! lead here from whoever waits for the resolver (a daemon that looks up its client's name under a lock).
//! Must not fire for many quick answers: asking often is the asker's business.

use crate::answer::report::{Culprit, Evidence, Finding, ObjectName, Remedy};
use crate::facts::*;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::old::{Rule, Verdict, net, words};
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A question that is younger than this when the look ends may still be answered. The shortest timeout that
/// resolv.conf can express is one second.
const YOUNG_NS: Ns = 1_000_000_000;
/// A mean answer later than this is late: caches answer within a millisecond, the far side of the world in 300 ms,
/// but a resolver in between asks it once and remembers.
const LATE_SECONDS: f64 = 0.05;
/// The type of question that turns an address into a name.
const POINTER: u16 = 12;
use crate::rules::Refutation;

/// The case.
pub static RULE: Rule = Rule {
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
        Refutation::new("the questions are answered quickly", ""),
        Refutation::new("nobody waits for the answers", ""),
    ],
    remedies: &[
        "mend or replace the name server",
        "name a server that answers first in resolv.conf",
        "shorten timeout and attempts in resolv.conf",
        "turn off name lookups where only an address is needed",
    ],
    stories: &["S4.3"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// What one server was asked and answered.
#[derive(Default)]
struct Answers<'a> {
    asked: usize,
    unanswered: Vec<&'a DnsQuery>,
    failed: usize,
    seconds: Vec<f64>,
}

impl Answers<'_> {
    fn mean(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len().max(1) as f64
    }
}

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let mut servers: BTreeMap<String, Vec<&End>> = BTreeMap::new();
    for end in measures.class(WaitClass::Dns) {
        servers.entry(measures.model.name_of(&end.object).name).or_default().push(end);
    }
    let findings = servers.into_iter().filter_map(|(server, of_names)| {
        let end = End::merged(of_names.iter().copied())?;
        finding(measures, &server, &end)
    });
    findings.collect()
}

fn answers<'a>(measures: &'a Measures<'_>, server: &str) -> Answers<'a> {
    let model = measures.model;
    let mut answers = Answers::default();
    for (at, query) in &model.dns_queries {
        if query.server.to_string() != server || *at > model.end_ns {
            continue;
        }
        let reply = model
            .dns_replies
            .iter()
            .filter(|(replied, reply)| {
                replied >= at
                    && reply.id == query.id
                    && reply.server == query.server
                    && reply.local.port() == query.local.port()
            })
            .min_by_key(|(replied, _)| *replied);
        match reply {
            Some((replied, reply)) => {
                answers.asked += 1;
                answers.failed += usize::from(matches!(reply.rcode, 2 | 5));
                answers.seconds.push((replied - at) as f64 / 1e9);
            }
            None if model.end_ns - at >= YOUNG_NS => {
                answers.asked += 1;
                answers.unanswered.push(query);
            }
            None => {}
        }
    }
    answers
}

/// The process on this host that serves the address, if one does.
fn local_server(model: &crate::model::Model, server: &str) -> Option<ThreadRef> {
    let serves = |endpoint: &&Endpoint| match &endpoint.object {
        ObjectRef::Inet(socket) => socket.protocol == "udp" && socket.local.to_string() == server,
        _ => false,
    };
    model.endpoints.iter().find(serves).map(|endpoint| endpoint.process.clone())
}

// LONG FUNCTION: the sentences of one verdict, in the order in which they are read.
fn finding(measures: &Measures<'_>, server: &str, end: &End) -> Option<Finding> {
    let answers = answers(measures, server);
    let silent = answers.unanswered.len();
    let mean = answers.mean();
    let unseen = answers.asked == 0 && end.longest_seconds >= 1.0;
    if silent == 0 && !unseen && mean < LATE_SECONDS {
        return None;
    }
    let victim = measures.process_name(end.first_victim());
    let who = &end.links[end.named].who;
    let names = names(&answers, end);
    let for_whom = if who.pid == end.first_victim().pid {
        String::new()
    } else {
        format!(" through {}", words::who(who))
    };
    let how = match (silent, answers.seconds.len()) {
        (0, 0) => "has not answered yet".to_string(),
        (_, 0) => "does not answer".to_string(),
        (0, _) => format!("takes {} to answer", words::seconds(mean)),
        _ => format!("leaves {silent} of {} questions unanswered", answers.asked),
    };
    let mut text = format!(
        "{} pass in waits for answers to {names} ({} the longest).",
        words::of_window(end.seconds.max(longest_loss(end)), measures.wall_seconds()),
        words::seconds(end.longest_seconds),
    );
    if silent > 0 {
        text += &format!(
            " {silent} of {} questions got no answer: each costs the asker its timeout.",
            answers.asked
        );
    }
    if answers.failed > 0 {
        text += &format!(" {} answers were failures (SERVFAIL or REFUSED).", answers.failed);
    }
    let mut culprit = match local_server(measures.model, server) {
        Some(process) => crate::rules::old::culprit(measures, &process),
        None => Culprit::peer(format!("DNS server {server}"), server),
    };
    culprit.address = Some(server.to_string());
    let verdict = Verdict {
        title: format!("{victim} waits{for_whom} for DNS server {server}, which {how}"),
        text,
        confidence: if unseen { 0.8 } else { 0.96 },
        culprit,
        evidence: evidence(&answers, end, mean),
        remedy: remedy(measures, &answers, end, server),
    };
    let mut finding = RULE.finding(measures, end, verdict);
    finding.object = ObjectName::new("DNS server", server);
    Some(finding)
}

/// The name that was asked for, as far as the end knows.
fn asked_name(end: &End) -> &str {
    match &end.object {
        Object::DnsServer(_, name) => name,
        _ => "",
    }
}

/// For waits that count only through others the cause's own seconds are zero: the longest loss tells.
fn longest_loss(end: &End) -> f64 {
    end.victims.values().map(|(_, seconds)| *seconds).fold(0.0, f64::max)
}

fn names(answers: &Answers<'_>, end: &End) -> String {
    let mut names: Vec<&str> = answers.unanswered.iter().map(|q| &*q.name).collect();
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

fn evidence(answers: &Answers<'_>, end: &End, mean: f64) -> Vec<Evidence> {
    let mut evidence = vec![Evidence::new(
        "longest wait for an answer",
        end.longest_seconds,
        "s",
        "sched_switch and the task iterator",
    )];
    let sent = "net_dev_queue, netif_receive_skb: UDP port 53";
    if answers.asked > 0 {
        evidence.push(Evidence::new("questions asked", answers.asked as f64, "1", sent));
        let silent = answers.unanswered.len() as f64;
        evidence.push(Evidence::new("questions without an answer", silent, "1", sent));
    } else {
        let socket = "the waiting thread's socket is connected to port 53";
        evidence.push(Evidence::new(socket, 1.0, "1", "descriptors"));
    }
    if !answers.seconds.is_empty() {
        evidence.push(Evidence::new("mean time to an answer", mean * 1e3, "ms", sent));
    }
    if answers.failed > 0 {
        evidence.push(Evidence::new("answers that are failures", answers.failed as f64, "1", sent));
    }
    evidence
}

/// The address that a question for a name was asked of: `7.8.9.10.in-addr.arpa` is 10.9.8.7.
fn asked_address(name: &str) -> Option<Ipv4Addr> {
    let reversed: Ipv4Addr =
        name.trim_end_matches('.').strip_suffix(".in-addr.arpa")?.parse().ok()?;
    let mut octets = reversed.octets();
    octets.reverse();
    Some(octets.into())
}

/// The least that resolv.conf can make a question without an answer cost, and a bit.
const LEAST_TIMEOUT_SECONDS: f64 = 1.5;

fn remedy(measures: &Measures<'_>, answers: &Answers<'_>, end: &End, server: &str) -> Vec<Remedy> {
    let address = server.rsplit_once(':').map_or(server, |(ip, _)| ip).trim_matches(['[', ']']);
    let name = match asked_name(end) {
        "" => ".",
        name => name,
    };
    let mut remedy = vec![Remedy {
        text: "ask the server yourself, then mend it or name another in resolv.conf".into(),
        // Behind -q a name that begins like an option is a name: what is asked for may come from anywhere.
        command: format!("dig @{address} -q {} +time=1 +tries=1", words::shell(name)),
        ..Remedy::default()
    }];
    let asker = &end.links[end.named].who;
    if has_own_resolver(measures, asker) {
        remedy.push(Remedy {
            text: format!(
                "{} asks with a resolver of its own (it waits in recv, where the C library's waits in poll), which most \
                 likely reads neither resolv.conf nor hosts: name another server or a shorter timeout where it is \
                 configured",
                words::who(asker)
            ),
            ..Remedy::default()
        });
    } else {
        remedy.extend(in_its_files(measures, answers, end, server));
    }
    if answers.unanswered.iter().any(|query| query.question_type == POINTER) {
        remedy.push(Remedy {
            text: "the question turns an address into a name: turn that lookup off in the asker if only logs need it"
                .into(),
            ..Remedy::default()
        });
    }
    remedy
}

/// What its resolv.conf and hosts can do, what helps most first: another server, no question, a shorter wait.
fn in_its_files(
    measures: &Measures<'_>,
    answers: &Answers<'_>,
    end: &End,
    server: &str,
) -> Vec<Remedy> {
    let asker = &end.links[end.named].who;
    let file = words::shell(&net::file_of(measures.model, asker, "/etc/resolv.conf"));
    let mut ways = Vec::new();
    if let Some((other, mean)) = answers_instead(measures, asker, server) {
        ways.push(Remedy {
            text: format!(
                "ask {other} first: it answers the same program in {} on average",
                words::seconds(mean)
            ),
            // In place: in a container the file is a mount, which sed -i could not put another one over.
            command: format!("printf '%s\\n' 'nameserver {other}' \"$(cat {file})\" > {file}"),
            undo: format!(
                "printf '%s\\n' \"$(sed '1{{/^nameserver {other}$/d}}' {file})\" > {file}"
            ),
        });
    }
    let asked: BTreeSet<&str> = answers.unanswered.iter().map(|query| &*query.name).collect();
    if let [name] = Vec::from_iter(asked)[..]
        && let Some(address) = asked_address(name)
    {
        let hosts = words::shell(&net::file_of(measures.model, asker, "/etc/hosts"));
        ways.push(Remedy {
            text: format!("give {address} a name of its own where no server is asked"),
            command: format!("echo '{address} host-{address}' >> {hosts}"),
            undo: format!(
                "printf '%s\\n' \"$(sed '${{/^{address} host-{address}$/d}}' {hosts})\" > {hosts}"
            ),
        });
    }
    if end.longest_seconds >= LEAST_TIMEOUT_SECONDS && !answers.unanswered.is_empty()
        || asks_again(answers)
    {
        ways.push(Remedy {
            text: "until then, lose no more than a second per question; there is still no answer"
                .into(),
            command: format!("echo 'options timeout:1 attempts:1' >> {file}"),
            // Only the last line: the same may have stood there before.
            undo: format!(
                "printf '%s\\n' \"$(sed '${{/^options timeout:1 attempts:1$/d}}' {file})\" > {file}"
            ),
        });
    }
    ways
}

/// Another server that the same process asks, and that answers what it is asked, with its mean time: resolvers
/// ask the next one when the first has let its time pass.
fn answers_instead(
    measures: &Measures<'_>,
    asker: &ThreadRef,
    server: &str,
) -> Option<(IpAddr, f64)> {
    let asked = measures.model.dns_queries.iter().map(|(_, query)| query);
    let others: BTreeSet<SocketAddr> = asked
        .filter(|query| query.thread.pid == asker.pid && query.server.port() == 53)
        .filter(|query| query.server.to_string() != server)
        .map(|query| query.server)
        .collect();
    let good = others.into_iter().filter_map(|other| {
        let of_it = answers(measures, &other.to_string());
        let answers_all = of_it.unanswered.is_empty() && of_it.failed == 0;
        let quick = !of_it.seconds.is_empty() && of_it.mean() < LATE_SECONDS;
        (answers_all && quick).then(|| (other.ip(), of_it.mean()))
    });
    good.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The same question was sent again by the same thread.
fn asks_again(answers: &Answers<'_>) -> bool {
    let mut seen = BTreeSet::new();
    answers.unanswered.iter().any(|q| !seen.insert((q.thread.tid, q.id, &q.name)))
}

/// The C libraries wait for an answer in poll. Who waits in the receiving itself has a resolver of its own.
fn has_own_resolver(measures: &Measures<'_>, asker: &ThreadRef) -> bool {
    let waits = measures.waits();
    let mut waits = waits
        .filter(|wait| wait.class == WaitClass::Dns && wait.thread.pid == asker.pid)
        .map(|wait| wait.place.syscall.as_str())
        .peekable();
    waits.peek().is_some()
        && waits.all(|call| matches!(call, "recvfrom" | "recvmsg" | "recvmmsg" | "read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_a_name_was_asked_for() {
        assert_eq!(asked_address("7.8.9.10.in-addr.arpa"), Some(Ipv4Addr::new(10, 9, 8, 7)));
        for other in ["8.9.10.in-addr.arpa", "x'y.8.9.10.in-addr.arpa", "example.org", ""] {
            assert_eq!(asked_address(other), None, "{other}");
        }
    }
}
