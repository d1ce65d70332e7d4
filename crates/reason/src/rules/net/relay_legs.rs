//! The two legs of a relay: its connection to the far side, and the one by which somebody of this host has it ask there; or the connection
//! of a tunnel's program.
//!
//! A proxy, a port forwarding or a tunnel's program of this host has one connection inwards and one outwards. Who waits behind it sees one
//! answer, late; which leg is slow only the two sockets say, each with a round trip and a count of segments sent again of its own. Must
//! not: find who is to blame, or speak of a process that asks for itself. Rejected: the figures of one leg alone (a long
//! round trip is a far peer's as well as a full path's; beside a short inner one it tells where the time passes).
//!
//! Edit together: graph/relayed.rs (which connection a relay used), slow_peer.rs, writers.rs.

use crate::facts::*;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::tcp_stream::{SocketChanges, other_end};
use crate::measure::tunnels::carrier_of;
use crate::model::Model;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::Match;
use crate::rules::engine::Loss;
use crate::rules::net::retransmits::LEAST_AGAIN;
use crate::rules::wording::Evidence;
use crate::threshold::Threshold;
use std::net::SocketAddr;

/// A way that is felt.
pub(super) static FAR: Threshold = Threshold::new(
    0.1,
    "s",
    "smoothed round trip of a relay's outer connection, from which each answer through it feels late although its peer is quick",
    "Nielsen 1993: up to a tenth of a second feels immediate",
);
/// How much longer than the inner one it is.
pub(super) static LONGER: Threshold = Threshold::new(
    10.0,
    "1",
    "smoothed round trip of the outer connection for each of the inner one: then what is waited for passes beyond the relay",
    "chosen: the inner leg is less than a tenth of it",
);

/// One connection of a relay.
#[derive(Debug, Clone, Copy)]
struct Leg {
    /// Smoothed round trip, seconds.
    rtt_seconds: f64,
    /// Segments sent again within the look.
    again: u32,
    /// Segments delivered within the look.
    delivered: u32,
}

impl Leg {
    fn of(changes: &SocketChanges<'_>, endpoint: &Endpoint) -> Option<Self> {
        let (now, change): (&SocketState, SocketState) = changes.of_endpoint(endpoint)?;
        (now.rtt_us > 0).then(|| Self {
            rtt_seconds: f64::from(now.rtt_us) / 1e6,
            again: change.retransmits,
            delivered: change.delivered,
        })
    }

    /// Part of its segments that were sent again, if not by accident.
    fn lost(&self) -> Option<f64> {
        let all = f64::from(self.again.saturating_add(self.delivered).max(1));
        (f64::from(self.again) >= LEAST_AGAIN.value).then(|| f64::from(self.again) / all)
    }
}

/// A relay at the end of a chain, or the program of the tunnel that its packets go into.
#[derive(Debug, Clone)]
pub(super) struct Legs {
    relay: String,
    far: SocketAddr,
    outer: Leg,
    /// Who asks it over a connection, and that connection; none of a tunnel, which is asked by packets.
    inner: Option<(String, Leg)>,
}

impl Legs {
    /// Of the process whose connection an end is, if another process of this host reached it over a connection; else of the tunnel that it
    /// goes through.
    pub(super) fn of(measures: &Measures<'_>, end: &End) -> Option<Self> {
        let model = measures.model;
        let Object::Inet(ino) = end.object else { return None };
        let socket = model.called.socket(ino)?;
        let relay = &end.links[end.named].who;
        let changes = SocketChanges::of(model);
        let mut before = end.links[..end.named].iter().rev();
        let asks = before.find_map(|link| match link.object {
            Object::Inet(ino) if link.who.pid != relay.pid => Some((&link.who, ino)),
            _ => None,
        });
        let Some((client, inner_ino)) = asks else { return of_tunnel(model, &changes, socket) };
        // A server that sends an answer waits on the very connection by which it was asked.
        other_end(model, model.called.socket(inner_ino)?)
            .filter(|far| far.process.pid == relay.pid && far.object_ino() != ino)?;
        let leg = |pid: u32, ino: u64| {
            let mut ends = model.held.endpoints.iter();
            let end = ends.find(|end| end.process.pid == pid && end.object_ino() == ino)?;
            Leg::of(&changes, end)
        };
        Some(Self {
            relay: words::who(relay),
            far: socket.remote,
            outer: leg(relay.pid, ino)?,
            inner: Some((words::who(client), leg(client.pid, inner_ino)?)),
        })
    }

    /// The way beyond the relay is what takes the time.
    pub(super) fn is_far(&self) -> bool {
        let Some((_, inner)) = &self.inner else { return false };
        let outer = self.outer.rtt_seconds;
        outer >= FAR.value && outer >= LONGER.value * inner.rtt_seconds
    }

    fn sentence(&self) -> String {
        let again = self.outer.lost().map_or_else(String::new, |part| {
            format!(", and {} of its segments had to be sent again", words::percent(part))
        });
        let rtt = words::seconds(self.outer.rtt_seconds);
        let (relay, far) = (&self.relay, self.far);
        match &self.inner {
            Some((client, inner)) => format!(
                " The connection of {relay} to {far} has a round trip of {rtt}{again}; the one from {client} to it {}.",
                words::seconds(inner.rtt_seconds),
            ),
            None => format!(
                " It goes through the tunnel of {relay}, whose connection to {far} has a round trip of {rtt}{again}."
            ),
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        let source = "tcp_sock (srtt_us)";
        let ms = |fact: &str, leg: &Leg| Evidence::new(fact, leg.rtt_seconds * 1e3, "ms", source);
        let again = f64::from(self.outer.again);
        let outer = [
            ms("round trip of the relay's connection outwards", &self.outer),
            Evidence::new("segments sent again on it", again, "1", "tcp_sock.total_retrans"),
        ];
        let inner = self.inner.iter();
        let inner = inner.map(|(_, leg)| ms("round trip of the connection to the relay", leg));
        outer.into_iter().chain(inner).collect()
    }
}

/// The tunnel that a socket's packets go into, where its program has the one TCP connection that they can go out on.
fn of_tunnel(model: &Model, changes: &SocketChanges<'_>, socket: &InetRef) -> Option<Legs> {
    let by = carrier_of(model, socket)?;
    // A program that has a socket for datagrams as well may carry the packets by that.
    let is_datagram = |object: &ObjectRef| matches!(object, ObjectRef::Inet(own) if !own.is_tcp() && !own.local.ip().is_loopback());
    let mut own = model.held.endpoints.iter().filter(|end| end.process.pid == by.pid);
    if own.any(|end| is_datagram(&end.object)) {
        return None;
    }
    let mut outwards = model.held.endpoints.iter().filter_map(|end| match &end.object {
        ObjectRef::Inet(own) if end.process.pid == by.pid && own.is_tcp() => {
            let is_outer = own.remote.port() != 0 && !own.remote.ip().is_loopback();
            is_outer.then_some((end, own.remote))
        }
        _ => None,
    });
    let (end, far) = outwards.next().filter(|_| outwards.next().is_none())?;
    let outer = Leg::of(changes, end)?;
    Some(Legs { relay: words::who(by), far, outer, inner: None })
}

/// Says of a match whose end a relay's connection is, how its two legs compare.
pub(super) fn said<'m>(measures: &Measures<'_>, end: &End, matched: Match<'m>) -> Match<'m> {
    let Some(legs) = Legs::of(measures, end) else { return matched };
    let explain = matched.explain;
    let explain = move |loss: &Loss<'_>| {
        let mut wording = explain(loss);
        wording.text.push_str(&legs.sentence());
        wording.evidence.extend(legs.evidence());
        wording
    };
    Match { explain: Box::new(explain), ..matched }
}

#[cfg(test)]
mod tests {
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::endpoint;

    const RELAY: u32 = 20;

    fn state(rtt_us: u32) -> SocketState {
        SocketState { rtt_us, rtt_us_min: rtt_us, delivered: 950, ..SocketState::default() }
    }

    fn inner() -> [ObjectRef; 2] {
        let (client, relay) = ("127.0.0.1:5000", "127.0.0.1:80");
        [inet("tcp", 50, client, relay, 1), inet("tcp", 51, relay, client, 1)]
    }

    /// A client waits for a relay, which waits for whom it asked in turn, each time for so many tenths of a second; the outer connection
    /// has this state.
    fn through(call: &str, tenths: u64, outer: SocketState) -> Vec<Fact> {
        let far = inet("tcp", 60, "10.0.0.1:40000", "203.0.113.9:1194", 1);
        let [near, served] = inner();
        let mut facts = vec![
            look_at(TargetKind::Process, 10),
            with_state(10, "client", near.clone(), state(200)),
            with_state(RELAY, "relay", served, state(200)),
            with_state(RELAY, "relay", far.clone(), outer),
        ];
        for turn in 0..48 / tenths {
            let (from, to) = (turn * tenths, (turn + 1) * tenths);
            let asks =
                |pid, comm, object: &ObjectRef| wait(pid, comm, call, object.clone(), from, to);
            facts.extend([asks(RELAY, "relay", &far), {
                let mut fact = asks(10, "client", &near);
                if let Body::Wait(wait) = &mut fact.body {
                    let (context, by) =
                        (WakeContext::Task, crate::rules::scenes::thread(RELAY, "relay"));
                    wait.wake = Some(Wake { at_ns: wait.end_ns, context, by, ..Wake::default() });
                }
                fact
            }]);
        }
        facts
    }

    fn of(code: &str, facts: Vec<Fact>) -> Option<Finding> {
        findings(facts).into_iter().find(|finding| finding.code == code)
    }

    #[test]
    fn where_a_relays_outer_leg_is_slow_both_legs_are_said() {
        let outer = SocketState { retransmits: 20, ..state(181_000) };
        let found = of("net.slow_peer", through("recvfrom", 2, outer)).expect("it is far");
        let said = "The connection of relay 20 to 203.0.113.9:1194 has a round trip of 181 ms, and 2.1 % of its segments had to be \
                    sent again; the one from client 10 to it 200 us.";
        assert!(found.text.contains(said), "{}", found.text);
    }

    #[test]
    fn a_relay_whose_outer_leg_is_short_is_not_slow() {
        assert!(of("net.slow_peer", through("recvfrom", 2, state(40_000))).is_none());
    }

    #[test]
    fn who_asks_for_itself_is_no_relay() {
        let mut facts = through("recvfrom", 2, state(181_000));
        facts.retain(|fact| !matches!(&fact.body, Body::Wait(wait) if wait.thread.pid == 10));
        facts.push(look_at(TargetKind::Process, RELAY));
        facts.push(endpoint(RELAY, "relay", inner()[1].clone()));
        assert!(of("net.slow_peer", facts).is_none(), "its peer is a long way off");
    }

    #[test]
    fn of_what_goes_into_a_tunnel_the_tunnels_own_connection_is_said() {
        let inside = inet("tcp", 70, "10.8.0.1:40000", "10.8.0.2:80", 1);
        let outer = inet("tcp", 71, "10.0.0.1:40001", "203.0.113.9:1194", 1);
        let process = crate::rules::scenes::thread(RELAY, "vpn");
        let reader = TapReader { netns: 1, interface: "tun0".into(), process };
        let facts = vec![
            look_at(TargetKind::Process, 10),
            wait(10, "client", "recvfrom", inside, 0, 48),
            with_state(RELAY, "vpn", outer, state(181_000)),
            next_hop("10.8.0.2", ("tun0", "tun", 5), 0),
            crate::rules::scenes::fact(Body::TapReader(reader)),
        ];
        let found = of("net.slow_peer", facts).expect("it is slow");
        let said = "It goes through the tunnel of vpn 20, whose connection to 203.0.113.9:1194 has a round trip of 181 ms.";
        assert!(found.text.contains(said), "{}", found.text);
    }

    #[test]
    fn a_queue_beyond_a_relay_is_named_with_both_legs() {
        let outer = SocketState {
            busy_us: 4_900_000,
            rtt_us_min: 10_000,
            unsent_bytes: 200_000,
            send_queued_bytes: 390_000,
            send_limit_bytes: 400_000,
            ..state(200_000)
        };
        let found = of("net.remote_queue", through("sendto", 48, outer)).expect("a queue");
        assert!(found.text.contains("the one from client 10 to it 200 us."), "{}", found.text);
    }

    #[test]
    fn a_server_that_sends_its_answer_is_no_relay() {
        let [near, served] = inner();
        let grown = SocketState {
            busy_us: 4_900_000,
            rtt_us_min: 10_000,
            unsent_bytes: 200_000,
            send_queued_bytes: 390_000,
            send_limit_bytes: 400_000,
            ..state(200_000)
        };
        let facts = vec![
            look_at(TargetKind::Process, 10),
            with_state(10, "client", near.clone(), state(200)),
            with_state(RELAY, "server", served.clone(), grown),
            wait(RELAY, "server", "sendto", served, 0, 48),
            wait(10, "client", "recvfrom", near, 0, 48),
        ];
        let found = of("net.remote_queue", facts).expect("a queue");
        assert!(!found.text.contains("The connection of"), "{}", found.text);
    }
}
