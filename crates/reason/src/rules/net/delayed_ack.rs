//! net.delayed_ack: a question leaves in two pieces, and the second waits for an acknowledgement that is put off.
//!
//! The kernel's own dates say it: the last small segment left tens of milliseconds after its thread had begun to wait for the
//! answer, while nobody of the process ran (waits/nagle.rs). The second witness is the count of delayed acknowledgements in the
//! network namespaces that are seen; where the other end is on another host, it counts there.
//!
//! Must not: blame the peer, which has not got the question. Rejected: round trips of 40 ms as such (many a path has them).

use crate::facts::{InetRef, ObjectRef, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::measure::tcp_stream::other_end;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out::command_in;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Part of the look that is lost.
static LOST_MIN: Threshold = Threshold::new(
    0.05,
    "1",
    "seconds lost for each second of the look: less is not worth a sentence",
    "chosen: a twentieth is below what a person notices",
);
/// Time lost altogether.
static NOTICED: Threshold = Threshold::new(
    0.1,
    "s",
    "seconds lost: a question or two that took 40 ms more are nobody's trouble",
    "Nielsen 1993: a tenth of a second is felt as at once",
);
/// Part of the waits that the other end must have put off an acknowledgement for.
static COUNTED_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "delayed acknowledgements counted in the other end's network namespace for each wait: with fewer something else holds the \
     segment",
    "one for each wait in the trials of the lab; others of the namespace only add to it",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.delayed_ack",
    title: "Small writes wait for acknowledgements that are put off",
    theory: "Nagle's algorithm sends a small segment only when all before it is acknowledged. A program that writes a question \
             in two pieces and then waits for the answer sends the first, and the second stays in its buffer; the other end \
             has but half a question, nothing to answer, and puts its acknowledgement off for 40 ms and more in the hope of \
             data to send it with. Neither does anything wrong by itself, and each question takes 40 ms.",
    needs: &[
        "the last segment of a question was a small one, and left 25 to 250 ms after its thread had begun to wait for the \
         answer, with Nagle's algorithm on",
        "no other thread of the process was awake when it left; and where the other end is seen, its network namespace counts \
         delayed acknowledgements",
    ],
    refuted_by: &[
        Refutation::new("the path's own round trip is as long", "on_a_long_way_it_is_the_way"),
        Refutation::new(
            "the other end's network namespace counts no delayed acknowledgement",
            "without_delayed_acknowledgements_it_is_not_said",
        ),
    ],
    remedies: &[
        "write a question in one call (writev, a buffer), or between TCP_CORK on and off",
        "set TCP_NODELAY on the connection",
        "have the other end acknowledge at once (TCP_QUICKACK, or `quickack 1` on its route)",
    ],
    stories: &[],
    thresholds: &[&LOST_MIN, &NOTICED, &COUNTED_MIN],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut peers: BTreeMap<SocketAddr, Vec<usize>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        if end.class == WaitClass::Nagle
            && !end.victims.is_empty()
            && let Some(socket) = socket_of(measures, end)
        {
            peers.entry(socket.remote).or_default().push(at);
        }
    }
    let matches = peers.into_iter().filter_map(|(peer, own)| matched(measures, ends, peer, own));
    matches.collect()
}

fn socket_of<'m>(measures: &'m Measures<'_>, end: &End) -> Option<&'m InetRef> {
    let Object::Inet(ino) = end.object else { return None };
    measures.model.called.socket(ino)
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    peer: SocketAddr,
    own: Vec<usize>,
) -> Option<Match<'m>> {
    let end = End::merged(own.iter().map(|at| &ends[*at]))?;
    if end.seconds < NOTICED.value.max(LOST_MIN.value * measures.wall_seconds()) {
        return None;
    }
    let held = Held::of(measures, peer, &end);
    if held.counted.is_some_and(|counted| (counted as f64) < COUNTED_MIN.value * held.times as f64)
    {
        return None;
    }
    let proof = if held.counted.is_some() { Proof::TwoWitnesses } else { Proof::OneWitness };
    let by = culprit(measures.model, &writer(measures, &end));
    let wording = wording(measures, &end, peer, &held);
    let matched = Match::new(by, proof, move |_| wording.clone());
    Some(own.into_iter().fold(matched, |matched, at| matched.claiming(at, None)))
}

/// Who wrote in small pieces: whoever waits on that connection.
fn writer(measures: &Measures<'_>, end: &End) -> ThreadRef {
    measures.model.threads.thread_ref(end.links[end.named].who.pid)
}

/// How often a segment was held back on the way to a peer, and what the other end counts.
struct Held {
    times: usize,
    mean_seconds: f64,
    counted: Option<u64>,
}

impl Held {
    fn of(measures: &Measures<'_>, peer: SocketAddr, end: &End) -> Self {
        let (mut times, mut seconds) = (0, 0.0);
        for wait in measures.waits().filter(|wait| wait.class == WaitClass::Nagle) {
            let Object::Inet(ino) = wait.object else { continue };
            if measures.model.called.socket(ino).is_some_and(|socket| socket.remote == peer) {
                times += 1;
                seconds += wait.end_ns.saturating_sub(wait.begin_ns) as f64 / 1e9;
            }
        }
        let far = socket_of(measures, end).and_then(|socket| far_netns(measures, socket));
        let counted = far.and_then(|far| growth(measures.model, far, "TcpExt.DelayedACKs"));
        Self { times, mean_seconds: seconds / times.max(1) as f64, counted }
    }
}

/// The network namespace of a connection's other end, if that is on this host: by its descriptor, or by the waits of whoever had it.
fn far_netns(measures: &Measures<'_>, socket: &InetRef) -> Option<u32> {
    let pair = measures.model.called.translations.other_end(socket);
    let netns = |object: &ObjectRef| match object {
        ObjectRef::Inet(far) if (far.local, far.remote) == pair => Some(far.netns),
        _ => None,
    };
    let open = other_end(measures.model, socket).and_then(|end| netns(&end.object));
    open.or_else(|| measures.waits().find_map(|wait| netns(wait.place.object.as_ref()?)))
}

fn wording(measures: &Measures<'_>, end: &End, peer: SocketAddr, held: &Held) -> Wording {
    let by = measures.model.threads.who(&writer(measures, end));
    let netns = socket_of(measures, end).map_or(0, |socket| socket.netns);
    let ss = command_in(measures.model, netns, "ss");
    let mut evidence = vec![
        Evidence::new("segments held back", held.times as f64, "1", "tcp_sock.first_tx_mstamp"),
        Evidence::new("for how long, on average", held.mean_seconds * 1e3, "ms", "tcp_sock"),
    ];
    if let Some(counted) = held.counted {
        evidence.push(Evidence::new(
            "acknowledgements that the other end put off",
            counted as f64,
            "1",
            "/proc/net/netstat TcpExt.DelayedACKs",
        ));
    }
    Wording {
        title: format!(
            "{by} writes to {peer} in small pieces, and the last waits for an acknowledgement"
        ),
        text: format!(
            "{} pass while a piece stands in the send buffer, {} times for {} each: Nagle's algorithm holds it until the piece \
             before it is acknowledged, which {} puts off because it has but half a question to answer.",
            words::of_window(end.seconds, measures.wall_seconds()),
            held.times,
            words::seconds(held.mean_seconds),
            peer.ip(),
        ),
        evidence,
        remedy: vec![
            Remedy {
                text: format!("have {by} write each question in one call, or set TCP_NODELAY"),
                ..Remedy::default()
            },
            Remedy {
                text: "see what stands unsent meanwhile (notsent)".into(),
                command: format!("{ss} -tnoi dst {}", words::shell(&peer.to_string())),
                action: Some(Action::look(Question::State).through(ss.through.as_ref())),
                ..Remedy::default()
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;

    const MS: Ns = 1_000_000;

    /// A client that asks every 50 ms and whose last segment leaves after 40 ms, on a path of a round trip; and the delayed
    /// acknowledgements that the server's namespace counts.
    fn asks(round_trip_ms: Ns, counted: u64) -> Vec<Fact> {
        let near = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 1);
        let far = inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
        let mut facts = vec![
            with_state(10, "client", near.clone(), SocketState::default()),
            with_state(20, "server", far, SocketState::default()),
        ];
        for at in 0..90 {
            let Fact { at_ns, body } = wait(10, "client", "recvfrom", near.clone(), 0, 1);
            let Body::Wait(waited) = body else { panic!("a wait, {at_ns}") };
            let (begin_ns, end_ns) = (at * 50 * MS, at * 50 * MS + 42 * MS);
            let nagle = Nagle {
                sent_ns: begin_ns + 40 * MS,
                round_trip_ns_min: round_trip_ms * MS,
                ..Nagle::default()
            };
            let place = Place { nagle: Some(nagle), ..waited.place };
            let wake = Some(Wake {
                at_ns: end_ns,
                context: WakeContext::SoftInterrupt,
                ..Wake::default()
            });
            let waited = Wait { begin_ns, end_ns, place, wake, ..waited };
            facts.push(Fact { at_ns: end_ns, body: Body::Wait(waited) });
        }
        facts.extend(counters(&[("TcpExt.DelayedACKs", 7, 7 + counted)]));
        facts
    }

    #[test]
    fn the_piece_that_waits_is_named_and_its_writer() {
        let found = findings(asks(0, 90)).remove(0);
        assert_eq!((&*found.code, found.culprit.pid), ("net.delayed_ack", Some(10)));
        assert_eq!(found.evidence[0].value, 90.0);
    }

    #[test]
    fn on_a_long_way_it_is_the_way() {
        assert!(!codes(asks(30, 90)).contains(&"net.delayed_ack".to_string()));
    }

    #[test]
    fn without_delayed_acknowledgements_it_is_not_said() {
        assert!(!codes(asks(0, 3)).contains(&"net.delayed_ack".to_string()));
    }

    #[test]
    fn who_waits_for_a_slow_peer_besides_is_not_held_back_by_an_acknowledgement() {
        let mut facts = asks(0, 90);
        let other = inet("tcp", 300, "10.0.0.1:40001", "10.0.0.3:80", 1);
        facts.push(wait(11, "other", "recvfrom", other, 0, 48));
        let found = findings(facts);
        let held: Vec<_> = found.iter().filter(|it| it.code == "net.delayed_ack").collect();
        assert_eq!((held.len(), held[0].victims.len(), held[0].victims[0].pid), (1, 1, 10));
    }
}
