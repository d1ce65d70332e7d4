//! Datagrams to a port of this host at which nobody listens.
//!
//! The kernel answers them with an ICMP error, of which a socket that is not connected never hears, so its client waits on until its own clock
//! ends that. Owns whether that is so of a wait, and its words. Two witnesses: the kernel dropped datagrams of that very socket for want of one
//! at their port while it waited, and none that is there now has that port. Must not: say so of TCP, which is refused at once, or of a port
//! that somebody took meanwhile. Rejected: to go by the sockets alone (one of another namespace, or behind a translation, may have been meant).
//!
//! Edit together: slow_peer.rs.

use super::dropped_packets::{LOST_ONE, of_namespace};
use super::ways_out::command_in;
use super::who_waits::who_waits;
use crate::facts::*;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::packet_drops::of_socket;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::wording::{Evidence, Remedy, Wording};
use std::net::SocketAddr;

/// The kernel's reason for what no socket is there for.
const NO_SOCKET: &str = "NO_SOCKET";

/// Datagrams that found nobody.
#[derive(Clone, Copy)]
pub(super) struct Unheard {
    /// Where they came to.
    to: SocketAddr,
    /// Of which namespace that is.
    netns: u32,
    /// How many.
    packets: u64,
}

/// What an end's socket sent, and nobody listened for, while it waited.
pub(super) fn unheard(measures: &Measures<'_>, end: &End) -> Option<Unheard> {
    let Object::Inet(ino) = end.object else { return None };
    let socket = measures.model.called.socket(ino).filter(|it| it.protocol == "udp")?;
    let link = &end.links[end.named];
    let before_ns = link.since_ns.saturating_sub((LOST_ONE.value * 1e9) as u64);
    let dropped = of_socket(measures.model, NO_SOCKET, socket);
    let mut own = dropped.iter().filter(|it| {
        it.is_outgoing && it.flow.last_ns >= before_ns && it.flow.first_ns <= link.end_ns
    });
    let first = own.next()?;
    let (to, netns) = (first.flow.to, first.kind.netns);
    let packets = first.flow.packets + own.map(|it| it.flow.packets).sum::<u64>();
    (!is_bound(measures, netns, to)).then_some(Unheard { to, netns, packets })
}

/// Whether somebody has the port by now.
fn is_bound(measures: &Measures<'_>, netns: u32, to: SocketAddr) -> bool {
    measures.model.held.endpoints.iter().any(|it| match &it.object {
        ObjectRef::Inet(own) => {
            let ip = own.local.ip();
            let is_at = ip.is_unspecified() || ip.to_canonical() == to.ip().to_canonical();
            own.protocol == "udp" && own.netns == netns && own.local.port() == to.port() && is_at
        }
        _ => false,
    })
}

/// In words.
pub(super) fn wording(measures: &Measures<'_>, end: &End, unheard: Unheard) -> Wording {
    let Unheard { to, netns, packets } = unheard;
    let there = of_namespace(measures.model, netns);
    let ss = command_in(measures.model, netns, "ss");
    let datagrams = words::count(packets as usize, "datagram", "datagrams");
    Wording {
        title: format!(
            "{} for {to}, but nobody listens at UDP port {} there",
            who_waits(measures, end),
            to.port()
        ),
        text: format!(
            "{} pass so, {} the longest. {datagrams} came to {to} on this host{there}, and no socket was there for {}: the kernel says so to who \
             asks (ICMP), and a socket that is not connected hears nothing of it.",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::seconds(end.longest_seconds),
            if packets == 1 { "it" } else { "them" },
        ),
        evidence: vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("datagrams to {to} that found nobody: {NO_SOCKET}"),
                packets as f64,
                "1",
                "kfree_skb",
            ),
        ],
        remedy: vec![Remedy {
            text: "start who is to listen there, or ask where it does listen".into(),
            command: format!("{ss} -ulnp 'sport = :{}'", to.port()),
            action: Some(Action::look(Question::State).through(ss.through.as_ref())),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::endpoint;

    /// A command waits for an answer to datagrams, of which some found nobody.
    fn asks(protocol: &str, to: &str) -> Vec<Fact> {
        let object = inet("udp", 100, "127.0.0.1:40000", "127.0.0.1:1812", 1);
        vec![
            look_at(TargetKind::Command, 10),
            wait(10, "client", "recvfrom", object, 0, 48),
            dropped("NO_SOCKET", protocol, "127.0.0.1:40000", to, 3),
        ]
    }

    fn title(facts: Vec<Fact>) -> String {
        findings(facts).remove(0).title
    }

    #[test]
    fn a_port_at_which_nobody_listens_is_said() {
        let found = findings(asks("udp", "127.0.0.1:1812")).remove(0);
        assert_eq!(
            found.title,
            "client waits for 127.0.0.1:1812, but nobody listens at UDP port 1812 there"
        );
        assert!(found.text.contains("3 datagrams came to 127.0.0.1:1812"), "{}", found.text);
        assert_eq!(found.remedy[0].command, "ss -ulnp 'sport = :1812'");
    }

    #[test]
    fn what_another_flow_lost_or_somebody_took_meanwhile_is_not_it() {
        let slow = "client waits for 127.0.0.1:1812, which takes its time to answer";
        assert_eq!(title(asks("udp", "127.0.0.1:1813")), slow);
        assert_eq!(title(asks("tcp", "127.0.0.1:1812")), slow);
        let mut facts = asks("udp", "127.0.0.1:1812");
        let server = inet("udp", 200, "0.0.0.0:1812", "0.0.0.0:0", 7);
        facts.push(endpoint(20, "server", server));
        assert!(findings(facts).iter().all(|it| !it.title.contains("nobody listens")));
    }
}
