//! net.filter_reject: a connection is refused at once because a rule of this host's packet filter rejects it (REJECT).
//!
//! Two witnesses: the calls that were refused, or the runs of a program that failed, and packets to that very address that netfilter dropped meanwhile;
//! which rule it was is read from the rules, as for net.filter_drop, and it must be one that rejects. Stands before net.no_route and process.retry, for
//! which the errors look the same (ECONNREFUSED, EHOSTUNREACH, EACCES, EPERM). Must not: speak of an address that nobody listens on, to which nothing is dropped;
//! or of a filter of another host, whose rules nobody here knows. Rejected: the rules alone (a rule may stand behind one that accepts).
//!
//! Edit together: filter_drop.rs (what is dropped without a word), filter_words.rs.

use crate::facts::{FilterRule, Ns, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::filter_rules::suspects;
use crate::measure::packet_drops::{Dropped, of_address, of_reason};
use crate::measure::refusals::Tries;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::net::dropped_packets::of_namespace;
use crate::rules::net::filter_drop::REASON;
use crate::rules::net::filter_words::{place, ways_out, what};
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, Evidence, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// From a packet that was rejected to the error of its call.
static HEARD_AFTER: Threshold = Threshold::new(
    1.0,
    "s",
    "from a packet that was rejected to the error of its call: an answer by ICMP that comes within the call is heard of with the second packet",
    "TCP_TIMEOUT_INIT (include/net/tcp.h), tcp_v4_err",
);

/// include/uapi/asm-generic/errno-base.h
const EPERM: i32 = 1;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.filter_reject",
    title: "The packet filter of this host refuses a connection",
    theory: "A rule of nftables or iptables that rejects (REJECT) drops the packet and answers for whoever it was for: with a reset, or by ICMP. The program \
             is told that nobody listens there, that the host cannot be reached, or that it may not, within a millisecond or a second, and what expects that to \
             pass tries again for as long as the rule stands. The server is asked for nothing.",
    needs: &[
        "calls for one address were refused again and again, or a program that was run again and again failed each time, with sleeps in between",
        "the packet filter of a network namespace of this host dropped packets to that address meanwhile: of a program's runs, in each that began within \
         the look and at no other time",
        "one rule there that rejects fits them, or where datagrams leave one that drops, and has counted some if it counts",
    ],
    refuted_by: &[
        Refutation::new(
            "the filter dropped nothing to that address: nobody listens there",
            "an_address_that_nothing_is_dropped_to_has_no_listener",
        ),
        Refutation::new(
            "the rule that fits drops without a word, which refuses nothing",
            "a_rule_that_drops_without_a_word_refuses_nothing",
        ),
        Refutation::new(
            "it is the filter of another namespace, for others",
            "an_address_of_its_own_in_another_namespace_is_another",
        ),
        Refutation::new(
            "a run failed without a packet that was rejected",
            "a_program_that_fails_also_without_a_packet_fails_for_something_else",
        ),
    ],
    remedies: &["see the rules of that chain", "let these packets pass"],
    stories: &[],
    thresholds: &[&refusal_words::SLEPT_MIN, &HEARD_AFTER],
    finds: Finds::End(find),
};

/// What was rejected.
struct Rejected<'m> {
    rule: &'m FilterRule,
    address: SocketAddr,
    /// A flow of them.
    first: Dropped<'m>,
    packets: u64,
    by: By<'m>,
}

/// Who was seen to be refused.
enum By<'m> {
    /// Calls.
    Calls(Tries<'m>),
    /// Runs of a program that failed, so many.
    Runs(&'m str, usize),
}

impl By<'_> {
    /// A datagram that the filter drops on its way out is refused to its sender with EPERM (nf_hook_slow, net/netfilter/core.c), whether the rule
    /// answers or not. TCP sends again without a word.
    fn is_refused_as_it_leaves(&self) -> bool {
        let Self::Calls(tries) = self else { return false };
        tries.last.errno == EPERM && tries.last.syscall != "connect"
    }
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    use WaitClass::{FailedProgram, NoRoute, RefusedConnection, RefusedRight};
    let rejected = match (end.class, &end.object) {
        (RefusedConnection | NoRoute | RefusedRight, Object::Address(address)) => {
            of_calls(measures, end, *address)?
        }
        (FailedProgram, Object::Processes(program)) => of_runs(measures, end, program)?,
        _ => return None,
    };
    let by = Culprit::setting(what(rejected.rule), place(rejected.rule));
    // A run that failed may have failed for something else beside the packet that was rejected in it.
    let proof = match rejected.by {
        By::Calls(_) => Proof::TwoWitnesses,
        By::Runs(..) => Proof::Inferred,
    };
    Some(Match::new(by, proof, move |loss| explain(measures, &rejected, loss)))
}

/// The network namespace of who is refused, who may be gone: else that of whoever waits for it; 0 if neither is known.
fn namespace(measures: &Measures<'_>, end: &End, refused: Option<&ThreadRef>) -> u32 {
    let of = |thread: &ThreadRef| measures.model.threads.identity(thread).map(|it| it.netns);
    let all = [refused.and_then(of), of(end.first_victim())];
    all.into_iter().flatten().find(|netns| *netns != 0).unwrap_or(0)
}

/// Of calls that were refused for an address.
fn of_calls<'m>(
    measures: &'m Measures<'m>,
    end: &End,
    address: SocketAddr,
) -> Option<Rejected<'m>> {
    let tries = refusal_words::tries(measures, end)?;
    let own = namespace(measures, end, Some(&tries.last.thread));
    let since_ns = tries.first_ns.saturating_sub((HEARD_AFTER.value * 1e9) as Ns);
    let is_meanwhile = |it: &Dropped<'_>| {
        it.is_outgoing && it.flow.last_ns >= since_ns && it.flow.first_ns <= tries.last_ns
    };
    // A connection is refused for a packet of its own, and not for a datagram to the same address.
    let is_kind = |it: &Dropped<'_>| tries.last.syscall != "connect" || it.flow.protocol == "tcp";
    let dropped: Vec<Dropped<'m>> = of_address(measures.model, REASON, address)
        .into_iter()
        .filter(|it| is_meanwhile(it) && is_kind(it) && may_be_of(measures, it, own))
        .collect();
    let packets: u64 = dropped.iter().map(|it| it.flow.packets).sum();
    // One packet explains one refusal.
    if packets * 2 < tries.times {
        return None;
    }
    rejected(measures, own, &dropped, By::Calls(tries))
}

/// Of runs of a program that failed: a packet to one address was rejected in each of them, and none at another time.
fn of_runs<'m>(measures: &'m Measures<'m>, end: &End, program: &'m str) -> Option<Rejected<'m>> {
    if end.seconds < refusal_words::SLEPT_MIN.value * measures.wall_seconds() {
        return None;
    }
    let own = namespace(measures, end, None);
    let runs = runs(measures, end, program);
    let last_ns = runs.iter().filter_map(|run| run.failed_ns).max()?;
    let mut by_address: BTreeMap<SocketAddr, Vec<Dropped<'m>>> = BTreeMap::new();
    for kind in of_reason(measures.model, REASON) {
        // What came after the last failure is of a run that is not known to fail.
        for flow in kind.flows.iter().filter(|flow| flow.first_ns <= last_ns) {
            let dropped = Dropped { kind, flow, is_outgoing: true };
            if may_be_of(measures, &dropped, own) {
                by_address.entry(flow.to).or_default().push(dropped);
            }
        }
    }
    let is_within = |it: &Dropped<'_>, run: &Run| {
        it.flow.first_ns >= run.begin_ns && it.flow.last_ns <= run.failed_ns.unwrap_or(Ns::MAX)
    };
    // Of a run that is older than the look the packet may be older too.
    let begin_ns = measures.model.look.begin_ns;
    let whole: Vec<&Run> =
        runs.iter().filter(|run| run.failed_ns.is_some() && run.begin_ns >= begin_ns).collect();
    let explains = |all: &[Dropped<'_>]| {
        whole.iter().all(|run| all.iter().any(|it| is_within(it, run)))
            && all.iter().all(|it| runs.iter().any(|run| is_within(it, run)))
    };
    let all = by_address.into_values().find(|all| whole.len() > 1 && explains(all))?;
    rejected(measures, own, &all, By::Runs(program, whole.len()))
}

/// A run of a program: from when on, and when it failed; none of one that is still there.
struct Run {
    begin_ns: Ns,
    failed_ns: Option<Ns>,
}

/// The runs of a program that those began who wait at an end, and not others of the same name.
fn runs(measures: &Measures<'_>, end: &End, program: &str) -> Vec<Run> {
    let threads = &measures.model.threads;
    let waiters = end.victims.keys().copied().chain(end.links.iter().map(|link| link.who.pid));
    let began: BTreeSet<u32> = waiters.flat_map(|pid| measures.ancestry.line(pid)).collect();
    // A run that is older than the look has no fork in it.
    let parent = |pid: u32| threads.by_id.get(&pid).map(|known| known.parent_pid);
    let is_own = |pid: u32| {
        let mut above = measures.ancestry.line(pid).skip(1);
        above.any(|pid| began.contains(&pid)) || parent(pid).is_some_and(|pid| began.contains(&pid))
    };
    let is_it = |thread: &ThreadRef| {
        thread.tid == thread.pid && thread.comm == program && is_own(thread.pid)
    };
    let ended = threads.exits.iter().filter(|(_, exit)| is_it(&exit.thread));
    let failed = ended.filter(|(_, exit)| exit.code.is_some_and(|code| code != 0));
    let failed =
        failed.map(|(at_ns, exit)| Run { begin_ns: exit.thread.start_ns, failed_ns: Some(*at_ns) });
    let has_ended = |pid: u32| threads.exits.iter().any(|(_, exit)| exit.thread.pid == pid);
    let there = threads.by_id.values().map(|known| &known.thread);
    let there = there.filter(|thread| is_it(thread) && !has_ended(thread.pid));
    let there = there.map(|thread| Run { begin_ns: thread.start_ns, failed_ns: None });
    failed.chain(there).collect()
}

/// Whether what was dropped may have been sent by somebody of a namespace: there, or on its way through another.
fn may_be_of(measures: &Measures<'_>, dropped: &Dropped<'_>, own: u32) -> bool {
    let sender = dropped.flow.sender.as_ref();
    let sender = sender.and_then(|by| measures.model.threads.identity(by)).map(|it| it.netns);
    match sender.filter(|netns| *netns != 0) {
        Some(netns) => netns == own,
        // Each namespace has a loopback of its own.
        None => dropped.kind.netns == own || !dropped.flow.to.ip().is_loopback(),
    }
}

/// What rejected them, if that is one rule.
fn rejected<'m>(
    measures: &'m Measures<'m>,
    own: u32,
    dropped: &[Dropped<'m>],
    by: By<'m>,
) -> Option<Rejected<'m>> {
    let first = *dropped.iter().max_by_key(|it| it.flow.packets)?;
    // To oneself a packet goes out and comes in by one namespace.
    let sides: &[bool] = if first.kind.netns == own { &[true, false] } else { &[false] };
    let found = |is_own: &bool| Some((*is_own, suspects(measures.model, &first, *is_own).rule?));
    let (is_own, rule) = sides.iter().find_map(found)?;
    // What a process of a namespace sends is not forwarded there.
    if first.kind.netns == own && rule.hook == "forward" {
        return None;
    }
    let packets = dropped.iter().map(|it| it.flow.packets).sum();
    let refuses = rule.rejects || is_own && by.is_refused_as_it_leaves();
    refuses.then_some(Rejected { rule, address: first.flow.to, first, packets, by })
}

fn explain(measures: &Measures<'_>, rejected: &Rejected<'_>, loss: &Loss<'_>) -> Wording {
    let Rejected { rule, address, packets, .. } = rejected;
    let victim = &loss.victim;
    let by = format!("the rule \"{}\" of {}", what(rule), place(rule));
    let asked = match &*rejected.first.flow.protocol {
        "tcp" => "waits for a connection",
        _ => "tries again and again to send",
    };
    let (title, passed, mut evidence) = match &rejected.by {
        By::Calls(tries) => (
            format!("{victim} {asked} to {address}: {by}, refuses it"),
            refusal_words::between(tries, loss.seconds, loss.wall_seconds),
            refusal_words::evidence(tries, loss.seconds),
        ),
        By::Runs(program, runs) => (
            format!(
                "{victim} runs {program} again and again, and it fails: {by}, refuses its connections to {address}"
            ),
            format!(
                "{} pass in sleeps between {} of {program}, all of which failed.",
                words::of_window(loss.seconds, loss.wall_seconds),
                words::count(*runs, "run", "runs"),
            ),
            vec![
                Evidence::new(
                    format!("runs of {program} that failed, each with a packet that was rejected"),
                    *runs as f64,
                    "1",
                    "sched_process_exit",
                ),
                Evidence::new("time slept between them", loss.seconds, "s", "sched_switch"),
            ],
        ),
    };
    evidence.push(Evidence::new(
        format!("packets to {address} that the packet filter dropped: {REASON}"),
        *packets as f64,
        "1",
        "kfree_skb",
    ));
    if let Some(counted) = rule.packets {
        let fact = format!("packets that {} has rejected since it was made", place(rule));
        evidence.push(Evidence::new(fact, counted as f64, "1", "nfnetlink NFT_MSG_GETRULE"));
    }
    let netns = rejected.first.kind.netns;
    let (how, said) = match rule.rejects {
        true => ("rejected", "answers that nobody is to be reached there"),
        false => ("dropped", "the kernel reports to the sender as EPERM"),
    };
    Wording {
        title,
        text: format!(
            "{passed} {} to {address} {} {how} by the packet filter{}, which {said}.",
            words::count(*packets as usize, "packet", "packets"),
            if *packets == 1 { "was" } else { "were" },
            of_namespace(measures.model, netns),
        ),
        evidence,
        remedy: ways_out(measures.model, netns, Some(rule), &rejected.first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::{codes, dropped, findings};
    use crate::rules::scenes::*;

    const CODE: &str = "net.filter_reject";
    const SECOND: Ns = 1_000_000_000;

    fn rule() -> FilterRule {
        FilterRule {
            netns: 1,
            family: "ip".into(),
            table: "filter".into(),
            chain: "OUTPUT".into(),
            hook: "output".into(),
            handle: 4,
            packets: Some(7),
            rejects: true,
            protocol: Some("tcp".into()),
            destination_port: Some(80),
            ..FilterRule::default()
        }
    }

    /// A client of namespace 1 that is refused a connection each second, and sleeps; with what the filter of a namespace dropped to an address.
    fn refused(to: &str, filter: Option<(u32, &str)>, rule: FilterRule) -> Vec<Fact> {
        let mut facts = vec![of_process(10, "client")];
        let thread = thread(10, "client");
        facts.push(fact(Body::Thread(Thread { thread, netns: 1, ..Thread::default() })));
        for at in 1..=3 {
            let address = Some(to.parse().expect("an address"));
            let denied = Denied { errno: 111, address, ..refusal(10, "client", "connect") };
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(denied) });
            facts.push(slept(10, "client", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        facts.extend(filter.map(|(netns, to)| {
            let mut fact = dropped(REASON, "tcp", "10.0.0.1:40000", to, 3);
            if let Body::PacketDrops(drops) = &mut fact.body {
                drops.netns = netns;
            }
            fact
        }));
        facts.push(fact(Body::FilterRule(rule)));
        facts
    }

    #[test]
    fn the_rule_that_refuses_a_connection_is_named() {
        let found = findings(refused("10.0.0.7:80", Some((1, "10.0.0.7:80")), rule()));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "tcp dport 80 reject"));
        assert_eq!(
            found[0].title,
            "client waits for a connection to 10.0.0.7:80: the rule \"tcp dport 80 reject\" of chain ip filter OUTPUT, handle 4, refuses it"
        );
        let ways = &found[0].remedy;
        assert_eq!(ways[0].command, "iptables -I OUTPUT -p tcp -d 10.0.0.7 --dport 80 -j ACCEPT");
        assert!(ways[1].text.contains("nft delete rule ip filter OUTPUT handle 4"));
        assert_eq!(ways[1].command, "nft -a list chain ip filter OUTPUT");
    }

    #[test]
    fn a_rule_where_it_comes_in_is_named_too() {
        let comes_in = |netns| FilterRule { netns, hook: "input".into(), ..rule() };
        for (netns, to) in [(1, "127.0.0.1:80"), (2, "10.0.0.7:80")] {
            let found = findings(refused(to, Some((netns, to)), comes_in(netns)));
            assert_eq!(found[0].code, CODE, "{to}");
        }
    }

    #[test]
    fn an_address_that_nothing_is_dropped_to_has_no_listener() {
        let found = |filter| codes(refused("10.0.0.7:80", filter, rule()));
        assert_eq!(found(None), ["process.retry"]);
        assert_eq!(found(Some((1, "10.0.0.8:80"))), ["process.retry"]);
    }

    #[test]
    fn a_rule_that_drops_without_a_word_refuses_nothing() {
        let silent = FilterRule { rejects: false, ..rule() };
        let filter = Some((1, "10.0.0.7:80"));
        assert_eq!(codes(refused("10.0.0.7:80", filter, silent)), ["process.retry"]);
        let stood_still = FilterRule { packets: Some(0), ..rule() };
        assert_eq!(codes(refused("10.0.0.7:80", filter, stood_still)), ["process.retry"]);
    }

    /// The same with datagrams, each of which is refused with EPERM, and a rule that drops them.
    fn datagrams(syscall: &str, rule: FilterRule) -> Vec<Fact> {
        let rule = FilterRule { protocol: Some("udp".into()), rejects: false, ..rule };
        let mut facts = refused("10.0.0.7:80", Some((1, "10.0.0.7:80")), rule);
        for fact in &mut facts {
            match &mut fact.body {
                Body::Denied(denied) => (denied.errno, denied.syscall) = (EPERM, syscall.into()),
                Body::PacketDrops(drops) => {
                    drops.flows.iter_mut().for_each(|it| it.protocol = "udp".into());
                }
                _ => {}
            }
        }
        facts
    }

    #[test]
    fn a_datagram_that_is_dropped_as_it_leaves_is_refused_to_its_sender() {
        let found = findings(datagrams("sendto", rule()));
        assert_eq!(found[0].code, CODE);
        let begin = "client tries again and again to send to 10.0.0.7:80: the rule ";
        assert!(found[0].title.starts_with(begin), "{}", found[0].title);
        assert!(found[0].text.ends_with("reports to the sender as EPERM."), "{}", found[0].text);
        let comes_in = FilterRule { hook: "input".into(), ..rule() };
        assert_ne!(codes(datagrams("sendto", comes_in)), [CODE], "its sender hears nothing");
        assert_ne!(codes(datagrams("connect", rule())), [CODE]);
    }

    #[test]
    fn what_is_forwarded_or_is_another_protocol_or_too_few_refuses_no_connection_of_a_process() {
        let filter = Some((1, "10.0.0.7:80"));
        let forwards = FilterRule { hook: "forward".into(), chain: "FORWARD".into(), ..rule() };
        assert_eq!(codes(refused("10.0.0.7:80", filter, forwards)), ["process.retry"]);
        let with = |change: fn(&mut DroppedFlow)| {
            let mut facts = refused("10.0.0.7:80", filter, rule());
            for fact in &mut facts {
                if let Body::PacketDrops(drops) = &mut fact.body {
                    drops.flows.iter_mut().for_each(change);
                }
            }
            codes(facts)
        };
        assert_eq!(with(|_| ()), [CODE]);
        assert_eq!(with(|flow| flow.protocol = "udp".into()), ["process.retry"]);
        assert_eq!(with(|flow| flow.packets = 1), ["process.retry"]);
    }

    #[test]
    fn an_address_of_its_own_in_another_namespace_is_another() {
        let other = FilterRule { netns: 2, hook: "input".into(), ..rule() };
        let found = codes(refused("127.0.0.1:80", Some((2, "127.0.0.1:80")), other));
        assert_eq!(found, ["process.retry"]);
    }

    /// A script whose program fails each second, with a packet that was rejected in some of its runs.
    fn runs(rejected: &[usize]) -> Vec<Fact> {
        // Refused where nobody looks: an IPv6 address.
        let address = Some("[::1]:80".parse().expect("an address"));
        let denied = Denied { errno: 111, address, ..refusal(11, "client", "connect") };
        let mut facts = script_whose_children_are_refused(&denied, 7 * 256);
        let ends: Vec<(Ns, Ns)> = facts
            .iter()
            .filter_map(|fact| match &fact.body {
                Body::Exit(exit) if exit.thread.comm == "client" => {
                    Some((exit.thread.start_ns, fact.at_ns))
                }
                _ => None,
            })
            .collect();
        for (at, (begin_ns, end_ns)) in ends.into_iter().enumerate() {
            if rejected.contains(&at) {
                let from = format!("10.0.0.1:{}", 40_000 + at);
                let mut fact = dropped(REASON, "tcp", &from, "10.0.0.7:80", 1);
                if let Body::PacketDrops(drops) = &mut fact.body {
                    (drops.flows[0].first_ns, drops.flows[0].last_ns) = (begin_ns, end_ns);
                }
                facts.push(fact);
            }
        }
        facts.push(fact(Body::FilterRule(rule())));
        let thread = thread(10, "sh");
        facts.push(fact(Body::Thread(Thread { thread, netns: 1, ..Thread::default() })));
        facts
    }

    #[test]
    fn a_program_that_is_refused_in_each_run_is_led_to_the_rule() {
        let found = crate::answer::explain(runs(&[0, 1, 2])).findings;
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "tcp dport 80 reject"));
        assert!(found[0].title.contains("runs client again and again"), "{}", found[0].title);
    }

    /// How a run of a program of that name ended, that another began.
    fn run_of_another(pid: u32, parent_pid: u32, begin_ns: Ns, end_ns: Option<Ns>) -> Vec<Fact> {
        let thread = ThreadRef { start_ns: begin_ns, ..thread(pid, "client") };
        let known = Thread { thread: thread.clone(), parent_pid, netns: 1, ..Thread::default() };
        let mut facts = vec![fact(Body::Thread(known))];
        facts.extend(end_ns.map(|at_ns| {
            let exit = Exit { thread, last: true, code: Some(256) };
            Fact { at_ns, body: Body::Exit(exit) }
        }));
        facts
    }

    #[test]
    fn runs_of_others_that_have_the_same_name_say_nothing_of_its_own() {
        let mut facts = runs(&[0, 1, 2]);
        facts.extend(run_of_another(70, 60, SECOND * 7 / 2, Some(SECOND * 15 / 4)));
        let found = crate::answer::explain(facts).findings;
        assert_eq!(found[0].code, CODE);
        let mut facts = runs(&[0, 1, 2]);
        facts.extend(run_of_another(70, 10, SECOND * 7 / 2, Some(SECOND * 15 / 4)));
        let found = crate::answer::explain(facts).findings;
        assert_eq!(found[0].code, "process.retry", "it began this one too, which was not refused");
    }

    #[test]
    fn a_run_that_is_older_than_the_look_or_still_there_takes_nothing_from_the_others() {
        let mut facts = runs(&[0, 1, 2]);
        let begin_ns = SECOND / 2;
        for fact in &mut facts {
            // The first run began before.
            match &mut fact.body {
                Body::WindowBegin(_) => fact.at_ns = begin_ns,
                Body::Exit(exit) if exit.thread.pid == 21 => exit.thread.start_ns = begin_ns - 1,
                Body::PacketDrops(drops) if drops.flows[0].from.port() == 40_000 => {
                    drops.flows.clear();
                }
                _ => (),
            }
        }
        facts.extend(run_of_another(71, 10, begin_ns, None));
        let mut between = dropped(REASON, "tcp", "10.0.0.1:40009", "10.0.0.7:80", 1);
        if let Body::PacketDrops(drops) = &mut between.body {
            let at = SECOND * 3 / 2;
            (drops.flows[0].first_ns, drops.flows[0].last_ns) = (at, at + 1);
        }
        facts.push(between);
        let found = crate::answer::explain(facts).findings;
        assert_eq!(found[0].code, CODE);
    }

    #[test]
    fn a_program_that_fails_also_without_a_packet_fails_for_something_else() {
        let found = crate::answer::explain(runs(&[0, 2])).findings;
        assert_eq!(found[0].code, "process.retry");
    }
}
