//! net.small_datagrams: a program spends its CPU time on calls that send or receive one small message each.
//!
//! Two witnesses: the CPU clock hits it in those calls, and in the functions of UDP or TCP; the kernel programs count its calls, their bytes, and how
//! many of them found the next message ready. Only the latter could have been joined: who answers question by question, or waits for each message, has
//! no more to give. Of TCP only what is sent counts: how much a receiver asked for is not counted, so a larger buffer may change nothing.
//! Must not: speak of read and write (process.small_io), or of unix sockets. Rejected: packets of an interface (joined ones are one there, and they are
//! everybody's).

use crate::facts::{MessageCalls, Work};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cpu_profile::Spent;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::own_time::{COST_MIN, Cost, PART_MIN, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;

static SHARE_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "of a program's samples, those in the calls that send, or in those that receive; with less, it is slow by something else",
    "chosen: most of its time",
);
static NETWORK_MIN: Threshold = Threshold::new(
    0.2,
    "1",
    "of the samples in those calls, the part seen in functions of UDP or TCP; deep stacks are cut, and in the rest a call is entered or left",
    "chosen: as of files in process.small_io",
);
static CALLS_MIN: Threshold = Threshold::new(
    10_000.0,
    "1/s",
    "calls that send, or that receive; fewer cost no noticeable part of a CPU",
    "reference machine: a microsecond or more a call",
);
static BYTES_MAX: Threshold = Threshold::new(
    512.0,
    "bytes",
    "of a call on average; to copy so many takes less than a tenth of what the rest of the call takes",
    "chosen: three of them would go into one frame of 1500 bytes",
);
static JOINED_MAX: Threshold = Threshold::new(
    0.1,
    "1",
    "part of the messages that are sent (received) by calls of several; above it the program joins them where it can",
    "chosen: a tenth",
);
static READY_MIN: Threshold = Threshold::new(
    0.75,
    "1",
    "part of the calls that follow another on the same socket without a sleep in between: so many could have been one call with it",
    "chosen: four messages a call on average",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.small_datagrams",
    title: "A program sends or receives one small message a call",
    theory: "A call of a socket costs a microsecond or more before the first byte moves: entering the kernel, the socket's lock, the route, \
             and of a datagram the whole way through the interface. The bytes themselves cost next to nothing. A program that has many small \
             messages at hand, and passes them one by one, pays the fixed part for each.",
    needs: &[
        "half or more of its CPU samples are in sendto and sendmsg, or in recvfrom and recvmsg",
        "a fifth of those or more are seen in functions of UDP, or, of what is sent, of TCP",
        "10,000 of those calls a second or more were counted, of 512 bytes or less on average",
        "three quarters of them follow another on the same socket, and the thread did not sleep in between",
    ],
    refuted_by: &[
        Refutation::new(
            "each call moves much, as with UDP_SEGMENT and UDP_GRO, which join datagrams",
            "joined_datagrams_are_healthy",
        ),
        Refutation::new(
            "it uses sendmmsg or recvmmsg already",
            "who_passes_many_a_call_is_healthy",
        ),
        Refutation::new(
            "it waits for each message, or goes from socket to socket",
            "messages_that_are_waited_for_are_healthy",
        ),
        Refutation::new(
            "most of its time goes elsewhere",
            "a_program_that_mostly_computes_is_healthy",
        ),
        Refutation::new("the sockets are not of the network", "sockets_of_this_host_are_left_out"),
        Refutation::new(
            "a stream is received: the sender may give it piece by piece",
            "a_stream_that_comes_in_pieces_is_left_out",
        ),
    ],
    remedies: &[
        "several datagrams by one call: sendmmsg, recvmmsg",
        "datagrams that the kernel cuts or joins: UDP_SEGMENT, UDP_GRO",
        "larger messages",
        "of TCP: write what belongs together at once (a buffer, writev, MSG_MORE)",
    ],
    stories: &["S2.9"],
    thresholds: &[
        &SHARE_MIN,
        &NETWORK_MIN,
        &CALLS_MIN,
        &BYTES_MAX,
        &JOINED_MAX,
        &READY_MIN,
        &COST_MIN,
        &PART_MIN,
    ],
    finds: Finds::End(find),
};

const SENDING: [&str; 2] = ["sendto", "sendmsg"];
const RECEIVING: [&str; 2] = ["recvfrom", "recvmsg"];
const OF_DATAGRAMS: [&str; 4] = ["udp_sendmsg", "udpv6_sendmsg", "udp_recvmsg", "udpv6_recvmsg"];
const OF_SENT_STREAMS: [&str; 2] = ["tcp_sendmsg", "tcp_sendmsg_locked"];

/// What a program does with its calls in one direction.
struct Calls {
    spent: Spent,
    /// Samples in them.
    samples: u64,
    sends: bool,
    datagrams: bool,
    /// Calls of one message.
    single: MessageCalls,
    /// The one that was sampled most.
    syscall: String,
}

impl Calls {
    /// Of a program that passes little at a time.
    fn of(measures: &Measures<'_>, pid: u32) -> Option<Self> {
        let spent = measures.profile.spent(pid)?;
        let hit = |names: &[&str]| {
            let work = measures.profile.work(pid).iter().copied();
            work.filter(|it| names.contains(&&*it.syscall)).collect::<Vec<&Work>>()
        };
        let samples = |hit: &[&Work]| hit.iter().map(|it| it.count).sum::<u64>();
        let (sending, receiving) = (hit(&SENDING), hit(&RECEIVING));
        let sends = samples(&sending) >= samples(&receiving);
        let hit = if sends { sending } else { receiving };
        let samples = samples(&hit);
        if spent.share(samples) < SHARE_MIN.value {
            return None;
        }
        let datagrams = Self::are_datagrams(measures, pid, samples, sends)?;
        let single = Self::counted(measures, pid, sends)?;
        let syscall = hit.iter().max_by_key(|it| it.count)?.syscall.clone();
        Some(Self { spent, samples, sends, datagrams, single, syscall })
    }

    /// Whether the network that was seen in the calls is UDP; none if too little of it was.
    fn are_datagrams(measures: &Measures<'_>, pid: u32, samples: u64, sends: bool) -> Option<bool> {
        let seen = |names: &[&str]| measures.profile.in_kernel(pid, |frame| names.contains(&frame));
        let datagrams = seen(&OF_DATAGRAMS);
        let streams = if sends { seen(&OF_SENT_STREAMS) } else { 0 };
        let enough = datagrams.max(streams) as f64 >= NETWORK_MIN.value * samples as f64;
        enough.then_some(datagrams >= streams)
    }

    /// Its calls of one message, if they are many, small, and could have been joined.
    fn counted(measures: &Measures<'_>, pid: u32, sends: bool) -> Option<MessageCalls> {
        let (mut single, mut joined) = (MessageCalls::default(), MessageCalls::default());
        for of in measures.model.cpu.messages.iter().filter(|it| it.thread.pid == pid) {
            let (one, many) = match sends {
                true => (of.sent, of.sent_joined),
                false => (of.received, of.received_joined),
            };
            single += one;
            joined += many;
        }
        let all = (single.messages + joined.messages) as f64;
        let each = single.bytes as f64 / single.calls.max(1) as f64;
        let per_second = single.calls as f64 / measures.wall_seconds().max(1e-9);
        let is_so = per_second >= CALLS_MIN.value
            && each <= BYTES_MAX.value
            && (joined.messages as f64) <= JOINED_MAX.value * all
            && single.ready_calls as f64 >= READY_MIN.value * single.calls as f64;
        is_so.then_some(single)
    }

    fn explain(&self, wall: f64) -> Wording {
        let who = words::who(&self.spent.process);
        let (share, seconds) = (self.spent.share(self.samples), self.spent.seconds(self.samples));
        let calls = self.single.calls as f64;
        let (per_second, each) = (calls / wall.max(1e-9), self.single.bytes as f64 / calls);
        let ready = self.single.ready_calls as f64 / calls;
        let does = if self.sends { "sends" } else { "receives" };
        let message = if self.datagrams { "one datagram each" } else { "one piece each" };
        let (often, bytes) = (words::thousands(per_second), words::bytes(each));
        let counted = "sys_exit";
        Wording {
            title: format!("{who} {does} {bytes} a call, {often} times a second"),
            text: format!(
                "{} of its CPU time ({}) is spent in {}: {often} calls a second, {message}, of {bytes} on average. {} of them follow another on \
                 the same socket, without a sleep in between, and could have been one call with it.",
                words::percent(share),
                words::of_window(seconds, wall),
                self.syscall,
                words::percent(ready),
            ),
            evidence: vec![
                Evidence::new(
                    format!("share of its CPU time in {}", self.syscall),
                    share,
                    "1",
                    "cpu-clock samples",
                ),
                Evidence::new("calls of one message", per_second, "1/s", counted),
                Evidence::new("bytes of a call", each, "bytes", counted),
                Evidence::new("part that found the next message ready", ready, "1", counted),
            ],
            remedy: vec![self.way_out()],
        }
    }

    fn way_out(&self) -> Remedy {
        let join = match (self.sends, self.datagrams) {
            (true, true) => {
                "send several datagrams by one call (sendmmsg), those of one size to one peer as one buffer (UDP_SEGMENT), or put more into each"
            }
            (true, false) => {
                "write what belongs together by one call: a buffer, writev, or MSG_MORE for all but the last piece"
            }
            (false, _) => {
                "take several datagrams by one call (recvmmsg), or let the kernel join those of one flow (UDP_GRO)"
            }
        };
        let (process, syscall) = (&self.spent.process, &self.syscall);
        let action =
            Action { value: Some(syscall.clone()), ..Action::ask(Question::Calls, process) };
        let pid = process.pid;
        Remedy::to(format!("{join}; see which socket it is"))
            .command(format!("strace -f -y -p {pid} -e trace={syscall} 2>&1 | head -3"))
            .acting(action)
    }
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let pid = worker(measures, end)?;
    let calls = Calls::of(measures, pid)?;
    let process = &calls.spent.process;
    let cost = Cost::of_one(measures, process, calls.spent.seconds(calls.samples), end);
    if !cost.counts(measures, &PART_MIN) {
        return None;
    }
    let by = culprit(measures.model, process);
    let does = ("system call", calls.syscall.clone());
    let matched = Match::new(by, Proof::TwoWitnesses, move |loss| calls.explain(loss.wall_seconds));
    Some(cost.charge(matched.on(Object::Process(pid)), does))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::measure::cpu_profile_tests::*;

    const CODE: &str = "net.small_datagrams";
    /// Calls within the five seconds of the look: 200,000 a second.
    const CALLS: u64 = 1_000_000;

    /// A program that spends 3 s in a call, which passes a function of the kernel, and 1.5 s in its own code.
    fn busy(syscall: &str, function: &str, messages: Messages) -> Vec<Fact> {
        let mut facts = sampled(&[(&[function, "__sys_sendto"], 600), (&[], 300)]);
        facts.push(in_call(syscall, "", 600, 0));
        facts.push(moved(messages));
        facts
    }

    fn moved(messages: Messages) -> Fact {
        fact(Body::Messages(Messages { thread: thread(10, "app"), ..messages }))
    }

    /// So many bytes a call, and the next message always ready.
    fn of(bytes: u64) -> MessageCalls {
        MessageCalls {
            calls: CALLS,
            messages: CALLS,
            bytes: CALLS * bytes,
            ready_calls: CALLS - CALLS / 100,
        }
    }

    fn sent(bytes: u64) -> Messages {
        Messages { sent: of(bytes), ..Messages::default() }
    }

    fn received(bytes: u64) -> Messages {
        Messages { received: of(bytes), ..Messages::default() }
    }

    fn codes(facts: Vec<Fact>) -> Vec<String> {
        explain(facts).findings.into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn one_small_datagram_a_call_is_reported_with_the_call_that_takes_many() {
        let found = explain(busy("sendto", "udp_sendmsg", sent(64))).findings.remove(0);
        assert_eq!(
            (&*found.code, &*found.title),
            (CODE, "app 10 sends 64 bytes a call, 200,000 times a second")
        );
        assert!(found.text.starts_with("67 % of its CPU time (3 s of 5 s)"), "{}", found.text);
        assert!(found.text.contains("99 % of them follow another"), "{}", found.text);
        assert!(found.remedy[0].text.contains("sendmmsg"), "{:?}", found.remedy);
        assert!(found.remedy[0].command.contains("-p 10 -e trace=sendto"));
    }

    #[test]
    fn datagrams_that_stand_ready_and_are_taken_one_by_one_are_reported() {
        let found = explain(busy("recvfrom", "udp_recvmsg", received(300))).findings.remove(0);
        assert_eq!(found.code, CODE);
        assert!(found.title.contains("receives 300 bytes a call"), "{}", found.title);
        assert!(found.remedy[0].text.contains("recvmmsg"), "{:?}", found.remedy);
    }

    #[test]
    fn a_stream_that_is_written_piece_by_piece_is_to_be_buffered() {
        let found = explain(busy("sendto", "tcp_sendmsg", sent(8))).findings.remove(0);
        assert_eq!(found.code, CODE);
        assert!(found.text.contains("one piece each"), "{}", found.text);
        assert!(found.remedy[0].text.contains("writev"), "{:?}", found.remedy);
    }

    #[test]
    fn joined_datagrams_are_healthy() {
        assert!(codes(busy("sendmsg", "udp_sendmsg", sent(65_000))).is_empty());
        assert!(codes(busy("recvmsg", "udp_recvmsg", received(1_400))).is_empty());
    }

    #[test]
    fn who_passes_many_a_call_is_healthy() {
        let messages = CALLS / 5;
        let sent_joined = MessageCalls { calls: messages / 32, messages, ..of(64) };
        let joins = Messages { sent_joined, ..sent(64) };
        assert!(codes(busy("sendto", "udp_sendmsg", joins)).is_empty());
    }

    #[test]
    fn messages_that_are_waited_for_are_healthy() {
        let waits = MessageCalls { ready_calls: CALLS / 2, ..of(64) };
        let received = Messages { received: waits, ..Messages::default() };
        assert!(codes(busy("recvfrom", "udp_recvmsg", received)).is_empty());
    }

    #[test]
    fn a_program_that_mostly_computes_is_healthy() {
        let mut facts = sampled(&[(&["udp_sendmsg"], 400), (&[], 500)]);
        facts.push(in_call("sendto", "", 400, 0));
        facts.push(moved(sent(64)));
        assert!(codes(facts).is_empty());
    }

    #[test]
    fn sockets_of_this_host_are_left_out() {
        assert!(codes(busy("sendto", "unix_dgram_sendmsg", sent(64))).is_empty());
    }

    #[test]
    fn a_stream_that_comes_in_pieces_is_left_out() {
        assert!(codes(busy("recvfrom", "tcp_recvmsg", received(64))).is_empty());
    }

    #[test]
    fn what_was_not_counted_is_not_said() {
        let mut facts = busy("sendto", "udp_sendmsg", sent(64));
        facts.retain(|fact| !matches!(fact.body, Body::Messages(_)));
        assert!(codes(facts).is_empty());
        let few = MessageCalls {
            calls: 40_000,
            messages: 40_000,
            bytes: 64 * 40_000,
            ready_calls: 40_000,
        };
        let few = Messages { sent: few, ..Messages::default() };
        assert!(codes(busy("sendto", "udp_sendmsg", few)).is_empty());
    }
}
