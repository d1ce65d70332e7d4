//! net.slow_peer: a peer on another host takes its time to answer, or does not let itself be connected to.
//!
//! Nothing of the other host can be seen. A connect that does not come about is a demand wait. A wait for data is
//! not told: a subscriber that waits for news looks the same as a client that waits for its answer. A peer on this host is followed further by chains.rs and never comes here.

use super::net;
use super::{Case, Verdict, words};
use crate::causes::{Cause, Causes};
use crate::facts::*;
use crate::findings::{Culprit, Evidence, Finding, Remedy, Severity};
use crate::waits::WaitClass;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Below this mean time a peer is not slow: it is a long way off.
const SLOW_SECONDS: f64 = 0.3;

/// The case.
pub static CASE: Case = Case {
    code: "net.slow_peer",
    title: "A peer on another host does not answer soon",
    theory: "A program that asks another host waits for the network and for that host's own work. If the local \
             queues are empty and nothing is lost, the time passes beyond this host.",
    needs: &[
        "a thread waits to be connected to an address that no socket of this host has",
        "the wait is 0.3 s or more: a round trip around the world, and not yet the first retry",
    ],
    refuted_by: &[
        "the peer is a process of this host",
        "its accept queue is full, or a queue here stands",
    ],
    remedies: &["look at the peer", "check the route and firewalls on the way", "use a timeout"],
    stories: &["S4.3"],
    find,
};

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    let scene = causes.scene;
    let mut peers: BTreeMap<SocketAddr, Vec<&Cause>> = BTreeMap::new();
    for cause in causes.class(WaitClass::SocketConnect) {
        let Some(address) = cause.object.name.split(' ').next_back() else { continue };
        let Ok(address) = address.parse::<SocketAddr>() else { continue };
        let here = scene.endpoints.iter().any(|end| match &end.object {
            ObjectRef::Inet(socket) => {
                socket.state == 10
                    && socket.local.port() == address.port()
                    && (socket.local.ip() == address.ip() || socket.local.ip().is_unspecified())
            }
            _ => false,
        });
        if !here {
            peers.entry(address).or_default().push(cause);
        }
    }
    let findings = peers.iter().filter_map(|(address, of)| {
        let cause = Cause::merged(of.iter().copied())?;
        (cause.longest_seconds >= SLOW_SECONDS).then(|| finding(causes, *address, &cause))
    });
    findings.filter(|f| f.severity > Severity::Note).collect()
}

fn finding(causes: &Causes<'_>, address: SocketAddr, cause: &Cause) -> Finding {
    let victim = causes.process_name(cause.first_victim());
    let again: u64 = causes
        .scene
        .net_counters
        .keys()
        .filter_map(|netns| net::counter_growth(causes.scene, *netns, "TcpExt.TCPSynRetrans"))
        .sum();
    let verdict = Verdict {
        title: format!("{victim} waits for a connection to {address}, which does not answer"),
        text: format!(
            "{} of {} pass in waits to be connected, {} the longest; {again} attempts were repeated.",
            words::seconds(cause.seconds),
            words::seconds(causes.wall_seconds()),
            words::seconds(cause.longest_seconds),
        ),
        confidence: if again > 0 { 0.9 } else { 0.75 },
        culprit: Culprit::peer(address.ip().to_string(), address.to_string()),
        evidence: vec![
            Evidence::new(
                "longest wait to be connected",
                cause.longest_seconds,
                "s",
                "sched_switch",
            ),
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
    CASE.finding(causes, cause, verdict)
}
