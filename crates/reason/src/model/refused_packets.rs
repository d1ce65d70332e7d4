//! Connections that are refused without a refused call: by their packets.
//!
//! Who connects without waiting (an event loop, a proxy) hears of a refusal later, and no call says it; nor is it said of processes that nobody asked
//! about. But its packet is dropped where nobody listens, or by a rule that rejects. Whose it was, its times say: a thread that the clock woke just
//! before each of several such packets to one address, and that waited again just after it. Done once, before anything is concluded, and marked as seen
//! by packets alone. Must not: do so for fewer packets, for an address that somebody listens on, or where two threads may be meant.
//!
//! Edit together: waits/retries.rs (which sleeps are between refusals), rules/refusal_words.rs (what is said of them).

use super::held::Held;
use super::net::Net;
use super::threads::Threads;
use super::waits::RawWaits;
use crate::facts::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

/// Of more addresses that refuse the others are left out: a scan of ports has thousands.
const ADDRESSES_MAX: usize = 16;
/// So many packets to one address, of as many connections.
const TRIES_MIN: usize = 3;
/// From the end of the wait before a packet, and to the begin of the one after it.
const AT_ONCE_NS: Ns = 20_000_000;
/// include/uapi/asm-generic/errno.h
const ECONNREFUSED: i32 = 111;
/// The kernel's reasons: nobody listens; a rule of the packet filter.
const NOBODY: &str = "NO_SOCKET";
const FILTER: &str = "NETFILTER_DROP";

/// What is asked for it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'m> {
    pub net: &'m Net,
    pub held: &'m Held,
    pub threads: &'m Threads,
    pub waits: &'m RawWaits,
    pub target: Option<&'m Target>,
}

/// A packet that was refused: when, and between whom.
#[derive(Clone, Copy)]
struct Refused {
    at_ns: Ns,
    from: SocketAddr,
    /// The namespace where it was dropped.
    netns: u32,
    /// By a rule, and not because nobody listens.
    by_rule: bool,
}

/// The waits of a thread about a packet.
#[derive(Clone, Copy, Default)]
struct About {
    /// When the last one before it ended, and whether the clock ended it.
    before: Option<(Ns, bool)>,
    after_ns: Option<Ns>,
    is_within: bool,
}

/// Refusals that no call was seen to have.
pub(super) fn all(seen: Seen<'_>) -> Vec<(Ns, Denied)> {
    let mut found = Vec::new();
    for (to, packets) in by_address(seen).into_iter().take(ADDRESSES_MAX) {
        let Some(thread) = sender(seen, &packets) else { continue };
        found.extend(packets.iter().map(|packet| {
            let denied = Denied {
                thread: thread.clone(),
                syscall: "connect".into(),
                // Stands for any refusal: which error it is no packet says.
                errno: ECONNREFUSED,
                by_packet: true,
                address: Some(to),
                ..Denied::default()
            };
            (packet.at_ns, denied)
        }));
    }
    found
}

/// The packets to each address, in order of time, where they are enough and no call is known to have been refused.
fn by_address(seen: Seen<'_>) -> BTreeMap<SocketAddr, Vec<Refused>> {
    let mut all: BTreeMap<SocketAddr, Vec<Refused>> = BTreeMap::new();
    for drops in seen.net.drops.iter().filter(|it| it.reason == NOBODY || it.reason == FILTER) {
        // One packet, with a port of its own: what is sent again was not answered.
        for flow in drops.flows.iter().filter(|it| it.protocol == "tcp" && it.packets == 1) {
            let by_rule = drops.reason == FILTER;
            if !by_rule || rejects(seen, drops.netns, flow.to) {
                let (at_ns, from, netns) = (flow.first_ns, flow.from, drops.netns);
                all.entry(flow.to).or_default().push(Refused { at_ns, from, netns, by_rule });
            }
        }
    }
    let known: HashSet<SocketAddr> =
        seen.threads.denied.iter().filter_map(|(_, denied)| denied.address).collect();
    all.retain(|to, packets| {
        let is_enough = packets.len() >= TRIES_MIN && !known.contains(to);
        is_enough && (packets.iter().all(|it| it.by_rule) || !listens(seen, *to))
    });
    all.values_mut().for_each(|packets| packets.sort_by_key(|it| it.at_ns));
    all
}

/// Whether anybody takes connections at an address: then a packet that was dropped there is of an old one.
fn listens(seen: Seen<'_>, at: SocketAddr) -> bool {
    seen.held.endpoints.iter().any(|end| match &end.object {
        ObjectRef::Inet(own) => {
            let is_any = own.local.ip().is_unspecified();
            own.remote.port() == 0
                && own.local.port() == at.port()
                && (is_any || own.local.ip().to_canonical() == at.ip().to_canonical())
        }
        _ => false,
    })
}

/// Whether a rule of a namespace rejects what goes to a port.
fn rejects(seen: Seen<'_>, netns: u32, to: SocketAddr) -> bool {
    seen.net.drop_causes.filter_rules.iter().any(|rule| {
        rule.netns == netns
            && rule.rejects
            && rule.protocol.as_deref().is_none_or(|it| it == "tcp")
            && rule.destination_port.is_none_or(|port| port == to.port())
    })
}

/// The only thread whose waits fit all packets.
fn sender<'m>(seen: Seen<'m>, packets: &[Refused]) -> Option<&'m ThreadRef> {
    let mut about: HashMap<(u32, Ns), (&ThreadRef, Vec<About>)> = HashMap::new();
    for wait in seen.waits.waits.iter().filter(|wait| !wait.kernel) {
        let by_clock = wait
            .wake
            .as_ref()
            .is_some_and(|wake| wake.context == WakeContext::HardInterrupt && wake.disk.is_none());
        let within = (wait.begin_ns, wait.end_ns);
        take(&mut about, packets, &wait.thread, within, Some(by_clock));
    }
    for (seen_ns, blocked) in seen.waits.blocked.iter().filter(|(_, blocked)| !blocked.kernel) {
        take(&mut about, packets, &blocked.thread, (blocked.since_ns, *seen_ns), None);
    }
    let is_it = |(thread, all): &(&ThreadRef, Vec<About>)| {
        let fits = |(at, (packet, about)): (usize, (&Refused, &About))| {
            let before = about.before.filter(|(end_ns, _)| packet.at_ns - end_ns <= AT_ONCE_NS);
            let is_soon = about.after_ns.is_some_and(|it| it - packet.at_ns <= AT_ONCE_NS);
            // What made it connect at first may have been a question, or its own begin.
            let goes_on = at == 0 || before.is_some_and(|(_, by_clock)| by_clock);
            // After the last try it may do something else.
            goes_on && !about.is_within && (is_soon || at + 1 == packets.len())
        };
        packets.iter().zip(all).enumerate().all(fits) && may_send(seen, thread, &packets[0])
    };
    let mut found = about.into_values().filter(is_it).map(|(thread, _)| thread);
    found.next().filter(|_| found.next().is_none())
}

/// Takes in a wait of a thread, from when to when, and whether the clock ended it; of one that stands, until when that is known.
fn take<'m>(
    about: &mut HashMap<(u32, Ns), (&'m ThreadRef, Vec<About>)>,
    packets: &[Refused],
    thread: &'m ThreadRef,
    (begin_ns, end_ns): (Ns, Ns),
    by_clock: Option<bool>,
) {
    let until_ns = end_ns.saturating_add(AT_ONCE_NS);
    let first = packets.partition_point(|it| it.at_ns + AT_ONCE_NS < begin_ns);
    for (at, packet) in packets.iter().enumerate().skip(first) {
        let at_ns = packet.at_ns;
        if at_ns > until_ns {
            break;
        }
        let new = || (thread, vec![About::default(); packets.len()]);
        let of = &mut about.entry((thread.tid, thread.start_ns)).or_insert_with(new).1[at];
        if begin_ns > at_ns {
            of.after_ns = Some(of.after_ns.map_or(begin_ns, |it| it.min(begin_ns)));
        } else if end_ns > at_ns {
            of.is_within = true;
        } else if let Some(by_clock) = by_clock {
            of.before = of.before.max(Some((end_ns, by_clock)));
        }
    }
}

/// From a process of a command up to the command's first one, at most.
const GENERATIONS_MAX: usize = 8;

/// Whether a thread is of the process or the command that was asked about.
fn is_asked_about(seen: Seen<'_>, thread: &ThreadRef) -> bool {
    let Some(target) = seen.target.filter(|it| it.pid != 0) else { return false };
    let parent = |pid: &u32| {
        let process = seen.threads.names.get(pid)?;
        seen.threads.identity(process).map(|known| known.parent_pid).filter(|pid| *pid != 0)
    };
    let generations = if target.kind == TargetKind::Command { GENERATIONS_MAX } else { 1 };
    std::iter::successors(Some(thread.pid), parent).take(generations).any(|pid| pid == target.pid)
}

/// Whether a thread may send from an address: the filter of its own namespace dropped it, or a socket there has it; who was asked about and has closed
/// its sockets may, if nobody elsewhere has it.
fn may_send(seen: Seen<'_>, thread: &ThreadRef, packet: &Refused) -> bool {
    let Some(netns) = seen.threads.identity(thread).map(|it| it.netns) else { return false };
    let from = packet.from.ip().to_canonical();
    // Several namespaces may have one address, as of loopback.
    let has_it = |here: bool| {
        seen.held.endpoints.iter().any(|end| match &end.object {
            ObjectRef::Inet(own) => {
                own.local.ip().to_canonical() == from && (own.netns == netns) == here
            }
            _ => false,
        })
    };
    netns == packet.netns || has_it(true) || !has_it(false) && is_asked_about(seen, thread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::rules::net::scenes::{dropped, inet};
    use crate::rules::scenes::{endpoint, fact, of_process, slept, thread};

    const SECOND: Ns = 1_000_000_000;

    /// Thread 10 sleeps between packets to one address, one a second.
    fn tries(reason: &str, times: u64, more: Vec<Fact>) -> Vec<(Ns, Denied)> {
        let me = Thread { thread: thread(10, "proxy"), netns: 1, ..Thread::default() };
        let mut facts = vec![fact(Body::Thread(me))];
        for at in 0..=times {
            facts.push(slept(10, "proxy", at * SECOND + 1_000_000, (at + 1) * SECOND));
        }
        for at in 1..=times {
            let from = format!("10.0.0.1:{}", 40_000 + at);
            let mut drops = dropped(reason, "tcp", &from, "10.0.0.2:80", 1);
            if let Body::PacketDrops(drops) = &mut drops.body {
                drops.flows[0].first_ns = at * SECOND + 500_000;
                drops.flows[0].last_ns = at * SECOND + 500_000;
            }
            facts.push(drops);
        }
        facts.extend(more);
        Model::new(facts).threads.denied
    }

    #[test]
    fn who_sleeps_between_packets_that_nobody_takes_is_refused() {
        let found = tries(NOBODY, 3, Vec::new());
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|(_, it)| it.thread.tid == 10 && it.by_packet));
        assert_eq!(tries(NOBODY, 2, Vec::new()), [], "two are too few");
    }

    #[test]
    fn who_was_asked_about_and_is_refused_in_another_namespace_is_known_by_his_sleeps() {
        let elsewhere = Thread { thread: thread(10, "proxy"), netns: 2, ..Thread::default() };
        let is_found = |more: Vec<Fact>| {
            let more = [vec![fact(Body::Thread(elsewhere.clone()))], more].concat();
            tries(NOBODY, 3, more).len() == 3
        };
        assert!(!is_found(Vec::new()), "it may be anybody's");
        assert!(is_found(vec![of_process(10, "proxy")]));
        assert!(!is_found(vec![of_process(30, "other")]));
        let has = endpoint(20, "client", inet("tcp", 7, "10.0.0.1:50000", "10.0.0.3:81", 1));
        assert!(!is_found(vec![of_process(10, "proxy"), has.clone()]), "another has that address");
        let mut own = endpoint(10, "proxy", inet("tcp", 8, "10.0.0.1:50001", "10.0.0.3:81", 1));
        if let Body::Endpoint(Endpoint { object: ObjectRef::Inet(socket), .. }) = &mut own.body {
            socket.netns = 2;
        }
        assert!(is_found(vec![has, own]), "so does another namespace");
    }

    #[test]
    fn a_packet_that_is_dropped_where_somebody_listens_is_no_refusal() {
        let listens = endpoint(20, "server", inet("tcp", 7, "0.0.0.0:80", "0.0.0.0:0", 10));
        assert_eq!(tries(NOBODY, 3, vec![listens]), []);
    }

    #[test]
    fn a_rule_refuses_only_if_it_rejects() {
        let rule = |rejects| {
            let rule = FilterRule { netns: 1, rejects, ..FilterRule::default() };
            tries(FILTER, 3, vec![fact(Body::FilterRule(rule))]).len()
        };
        assert_eq!((rule(true), rule(false)), (3, 0));
    }

    #[test]
    fn of_two_threads_that_fit_neither_is_meant() {
        let mut other = vec![fact(Body::Thread(Thread {
            thread: thread(11, "other"),
            netns: 1,
            ..Thread::default()
        }))];
        let sleep = |at| slept(11, "other", at * SECOND + 1_000_000, (at + 1) * SECOND);
        other.extend((0..=3).map(sleep));
        assert_eq!(tries(NOBODY, 3, other), []);
    }
}
