//! net.slow_peer: a peer on another host takes its time to answer, or does not let itself be connected to.
//!
//! Nothing of the other host can be seen. A connect that does not come about is a demand wait. A wait for data is
//! one only if a command is explained: it has nothing else to do. On a host a subscriber that waits for news looks
//! the same as a client that waits for its answer, so it is not told. A peer on this host is followed further by
//! chains.rs and never comes here.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy, Severity};
use crate::facts::*;
use crate::graph::chains::Leaf;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::old::net;
use crate::rules::old::{Rule, Verdict, words};
use crate::waits::WaitClass;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Below this mean time a peer is not slow: it is a long way off.
const SLOW_SECONDS: f64 = 0.3;
use crate::rules::Refutation;

/// The case.
pub static RULE: Rule = Rule {
    code: "net.slow_peer",
    title: "A peer on another host does not answer soon",
    theory: "A program that asks another host waits for the network and for that host's own work. If the local \
             queues are empty and nothing is lost, the time passes beyond this host.",
    needs: &[
        "a thread waits to be connected to an address that no socket of this host has, or a command that is \
         explained waits for data from one",
        "the wait is 0.3 s or more: a round trip around the world, and not yet the first retry",
    ],
    refuted_by: &[
        Refutation::new("the peer is a process of this host", ""),
        Refutation::new("its accept queue is full, or a queue here stands", ""),
    ],
    remedies: &["look at the peer", "check the route and firewalls on the way", "use a timeout"],
    stories: &["S4.3"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let mut connects: BTreeMap<SocketAddr, Vec<&End>> = BTreeMap::new();
    for end in measures.class(WaitClass::SocketConnect) {
        if let Some(address) = elsewhere(measures, &end.object) {
            connects.entry(address).or_default().push(end);
        }
    }
    let connects = connects
        .into_iter()
        .filter_map(|(address, of)| Some(connecting(measures, address, &End::merged(of)?)));
    let mut answers: BTreeMap<SocketAddr, Vec<(Leaf, usize)>> = BTreeMap::new();
    for leaf in measures.graph.path.iter().filter(|leaf| leaf.root().class == WaitClass::SocketRead)
    {
        if let Some(address) = elsewhere(measures, &leaf.root().object) {
            answers.entry(address).or_default().push((leaf.clone(), leaf.links.len() - 1));
        }
    }
    let answers = answers.into_iter().filter_map(|(address, leaves)| {
        let object = leaves[0].0.root().object.clone();
        let end = End::gathered(WaitClass::SocketRead, object, &leaves)?;
        Some(answering(measures, address, &end))
    });
    connects.chain(answers).flatten().filter(|f| f.severity > Severity::Note).collect()
}

/// The address of a socket's name, if nobody on this host listens there.
fn elsewhere(measures: &Measures<'_>, object: &Object) -> Option<SocketAddr> {
    let Object::Inet(ino) = object else { return None };
    let address = measures.model.socket(*ino)?.remote;
    let here = measures.model.endpoints.iter().any(|end| match &end.object {
        ObjectRef::Inet(socket) => {
            socket.state == 10
                && socket.local.port() == address.port()
                && (socket.local.ip() == address.ip() || socket.local.ip().is_unspecified())
        }
        _ => false,
    });
    (!here).then_some(address)
}

fn grown(measures: &Measures<'_>, counter: &str) -> u64 {
    let namespaces = measures.model.net_counters.keys();
    namespaces.filter_map(|netns| net::counter_growth(measures.model, *netns, counter)).sum()
}

/// A command waits for what a peer elsewhere has to say.
fn answering(measures: &Measures<'_>, address: SocketAddr, end: &End) -> Option<Finding> {
    if end.longest_seconds < SLOW_SECONDS {
        return None;
    }
    let victim = measures.process_name(end.first_victim());
    let again = grown(measures, "Tcp.RetransSegs");
    let verdict = Verdict {
        title: format!("{victim} waits for {address}, which takes its time to answer"),
        text: format!(
            "{} pass in waits for what it sends, {} the longest. {}",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::seconds(end.longest_seconds),
            match again {
                0 => "This host sent nothing twice meanwhile: the time passes at the peer or on the way from it."
                    .to_string(),
                n => format!(
                    "This host sent {} again meanwhile: the way may lose packets.",
                    words::count(n as usize, "segment", "segments")
                ),
            },
        ),
        confidence: if again == 0 { 0.8 } else { 0.65 },
        culprit: Culprit::peer(address.ip().to_string(), address.to_string()),
        evidence: vec![
            Evidence::new("time waited for data", end.seconds, "s", "sched_switch"),
            Evidence::new("longest wait for data", end.longest_seconds, "s", "sched_switch"),
            Evidence::new("segments sent again", again as f64, "1", "/proc/net/snmp Tcp.RetransSegs"),
        ],
        remedy: vec![Remedy {
            text: "see how far away it is, and what it does".into(),
            command: format!("mtr -n --tcp --port {} {}", address.port(), address.ip()),
            ..Remedy::default()
        }],
    };
    Some(RULE.finding(measures, end, verdict))
}

fn connecting(measures: &Measures<'_>, address: SocketAddr, end: &End) -> Option<Finding> {
    if end.longest_seconds < SLOW_SECONDS {
        return None;
    }
    let victim = measures.process_name(end.first_victim());
    let again = grown(measures, "TcpExt.TCPSynRetrans");
    let verdict = Verdict {
        title: format!("{victim} waits for a connection to {address}, which does not answer"),
        text: format!(
            "{} pass in waits to be connected, {} the longest; {again} attempts were repeated.",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::seconds(end.longest_seconds),
        ),
        confidence: if again > 0 { 0.9 } else { 0.75 },
        culprit: Culprit::peer(address.ip().to_string(), address.to_string()),
        evidence: vec![
            Evidence::new("longest wait to be connected", end.longest_seconds, "s", "sched_switch"),
            Evidence::new(
                "attempts to connect that were repeated",
                again as f64,
                "1",
                "/proc/net/netstat TcpExt.TCPSynRetrans",
            ),
        ],
        remedy: vec![Remedy {
            text: "see whether it can be reached at all".into(),
            command: format!("mtr -n --tcp --port {} {}", address.port(), address.ip()),
            ..Remedy::default()
        }],
    };
    Some(RULE.finding(measures, end, verdict))
}
