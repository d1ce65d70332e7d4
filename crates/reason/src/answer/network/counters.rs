//! Counters that moved and mean trouble, as rows with what each means.
//!
//! The kernel has some four hundred; those that grow wherever all is well are not here, and nstat shows them. Of a pair that counts one
//! thing twice the plainer is. Those of IPv6 stand under the same names with a 6. Must not: say that a counter stood still that was read
//! once, or judge.
//!
//! Edit together: net_counters.rs of the probe (what is read).

use super::contract::Counter;
use super::namespaces::namespace;
use crate::facts::{NetCounters, Ns};
use crate::model::Model;

/// By their names with their tables; of CPUs without the CPU.
static MEANINGS: [(&str, &str); 53] = [
    ("Icmp.InDestUnreachs", "others say that what was sent cannot arrive"),
    ("Icmp.InTimeExcds", "others say that what was sent went around too long"),
    ("Icmp.OutDestUnreachs", "others were sent word that what they sent cannot arrive here"),
    ("Ip.FragFails", "packets were too long for their link and may not be cut (MTU)"),
    ("Ip.InAddrErrors", "packets came in for an address that is not here"),
    ("Ip.InCsumErrors", "packets came in with a wrong checksum"),
    ("Ip.InDiscards", "packets that came in were dropped for want of room"),
    ("Ip.InHdrErrors", "packets came in with a header that makes no sense"),
    ("Ip.InNoRoutes", "packets came in for which there is no route"),
    ("Ip.InTooBigErrors", "packets were too long for the link that they were to be forwarded to"),
    ("Ip.InTruncatedPkts", "packets came in that are shorter than they say"),
    ("Ip.InUnknownProtos", "packets came in of a protocol that nothing here speaks"),
    ("Ip.OutDiscards", "packets were dropped on the way out for want of room"),
    ("Ip.OutNoRoutes", "packets were to be sent to where no route leads"),
    ("Ip.ReasmFails", "packets that came in pieces could not be put together"),
    ("IpExt.InCsumErrors", "packets came in with a wrong checksum"),
    ("IpExt.InNoRoutes", "packets came in for which there is no route"),
    ("IpExt.InTruncatedPkts", "packets came in that are shorter than they say"),
    ("Tcp.AttemptFails", "connections that were asked for did not come about"),
    ("Tcp.EstabResets", "connections that stood were reset"),
    ("Tcp.InCsumErrors", "segments came in with a wrong checksum"),
    ("Tcp.InErrs", "segments came in with an error"),
    ("Tcp.RetransSegs", "segments were sent again"),
    (
        "TcpExt.IPReversePathFilter",
        "packets came in by another interface than the way back (rp_filter)",
    ),
    ("TcpExt.ListenDrops", "connections were dropped by a listener"),
    ("TcpExt.ListenOverflows", "connections found the accept queue full"),
    ("TcpExt.OfoPruned", "segments out of order were thrown away for want of room"),
    ("TcpExt.PruneCalled", "a receive buffer was full and had to be tidied up"),
    ("TcpExt.RcvPruned", "segments were thrown away because the receive buffer was full"),
    ("TcpExt.SyncookiesFailed", "cookies came back that were none of this host's"),
    (
        "TcpExt.SyncookiesSent",
        "connections were answered with a cookie: a listener's queue was full",
    ),
    ("TcpExt.TCPAbortOnMemory", "connections were broken off for want of memory"),
    ("TcpExt.TCPAbortOnTimeout", "connections were given up because nobody answered"),
    ("TcpExt.TCPBacklogDrop", "segments were dropped because their socket was busy"),
    ("TcpExt.TCPMemoryPressures", "the memory of TCP became short (tcp_mem)"),
    ("TcpExt.TCPOFODrop", "segments out of order were dropped for want of room"),
    ("TcpExt.TCPRcvQDrop", "segments were dropped because the receive buffer was full"),
    (
        "TcpExt.TCPReqQFullDrop",
        "connections were dropped because a listener's queue of requests was full",
    ),
    ("TcpExt.TCPRetransFail", "segments could not be sent again"),
    ("TcpExt.TCPTimeWaitOverflow", "there was no room for one more connection in TIME-WAIT"),
    ("TcpExt.TCPTimeouts", "an acknowledgement did not come in time"),
    ("TcpExt.TCPToZeroWindowAdv", "a receive window was closed: a program does not read"),
    ("TcpExt.TCPZeroWindowDrop", "segments came while the receive window was closed"),
    ("Udp.InCsumErrors", "datagrams came in with a wrong checksum"),
    ("Udp.MemErrors", "datagrams were dropped for want of the memory of UDP (udp_mem)"),
    ("Udp.NoPorts", "datagrams came in for a port at which nobody listens"),
    ("Udp.RcvbufErrors", "datagrams were dropped because the receive buffer was full"),
    ("Udp.SndbufErrors", "datagrams could not be sent because the send buffer was full"),
    (
        "nf_conntrack.drop",
        "packets were dropped: the table of connections was full, or two of one flow raced to be entered",
    ),
    ("nf_conntrack.early_drop", "connections were thrown out of the table to make room"),
    ("nf_conntrack.insert_failed", "connections could not be entered into the table"),
    ("softnet.dropped", "packets found the backlog of this CPU full (netdev_max_backlog)"),
    ("softnet.time_squeeze", "this CPU had packets left when its turn was over (netdev_budget)"),
];

/// Rows, most first; none if counters were not read.
pub(super) fn counters(model: &Model) -> Option<Vec<Counter>> {
    if model.net.counters.is_empty() {
        return None;
    }
    let all = model.net.counters.iter();
    let mut rows: Vec<Counter> =
        all.flat_map(|(netns, series)| grown(model, *netns, series)).collect();
    rows.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.counter.cmp(&b.counter)));
    Some(rows)
}

fn grown(model: &Model, netns: u32, series: &[(Ns, NetCounters)]) -> Vec<Counter> {
    let [(begin, first), .., (end, last)] = series else { return Vec::new() };
    let seconds = (end.saturating_sub(*begin) as f64 / 1e9).max(1e-9);
    let row = |(name, value): (&String, &u64)| {
        let meaning = meaning(name)?;
        let count = value.checked_sub(*first.counters.get(name)?).filter(|count| *count > 0)?;
        Some(Counter {
            at: namespace(model, netns),
            counter: name.clone(),
            count,
            per_second: count as f64 / seconds,
            meaning: meaning.into(),
        })
    };
    last.counters.iter().filter_map(row).collect()
}

/// What a counter means; none of one that is not looked at. The sums of all CPUs are in those of each.
fn meaning(name: &str) -> Option<&'static str> {
    let of_cpu = name.split_once(".cpu");
    let known = |wanted: &str| MEANINGS.iter().find(|(name, _)| *name == wanted);
    match (of_cpu, name.split_once("6.")) {
        (Some((name, _)), _) => known(name),
        (None, Some((table, counter))) => known(&format!("{table}.{counter}")),
        (None, None) if name.starts_with("softnet.") => None,
        (None, None) => known(name),
    }
    .map(|(_, meaning)| *meaning)
}
