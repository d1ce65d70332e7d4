//! net.proxy_queue: a client waits in the queue of a proxy, whose connections to its upstream are all taken by others.
//!
//! The chain leads from the client through the proxy to whoever works for somebody else; that it is the proxy's own limit which
//! has the client wait shows in the clocks of the proxy's connections: more is owed than is asked, or a question was passed on
//! long after it came, while another's was not answered (queued_questions.rs). How much of the time that is, is known of one question by
//! its own clocks, and of many by how many of them are kept at a time (Little's law).
//!
//! Must not: claim a wait for a lock, a disk or a CPU behind the proxy (those have names of their own), or a client whose
//! question was passed on at once.

use crate::facts::{TargetKind, ThreadRef};
use crate::graph::chains::ChainLink;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question as Asked};
use crate::rules::engine::Loss;
use crate::rules::net::queued_questions::{Keeper, Question, keepers};
use crate::rules::net::ways_out::{ToolWithin, command_in};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use std::collections::BTreeSet;

/// The least that the longest kept question was kept.
static QUEUED_MIN: Threshold = Threshold::new(
    0.03,
    "s",
    "the longest that a question was kept before it was passed on; less is no delay that anybody feels",
    "as for process.socket_peer: three beats of a poller",
);
/// Part of the time that is spent in the queue.
static PART: Threshold = Threshold::new(
    0.25,
    "1",
    "part of the wait that the question was kept, or of the questions that are kept at a time: with less the upstream's own \
     answer is what takes the time",
    "chosen: from here the wait is a third longer than the answer alone",
);

/// Questions that are passed on in a look at a host.
static ANSWERS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "waits through the proxy in a look at a whole host; fewer may be long polls, which are owed and not late",
    "as for process.socket_peer",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.proxy_queue",
    title: "A proxy keeps questions in its own queue, for its upstream's connections are taken",
    theory: "A proxy or a pool that may ask its upstream only so much at a time keeps every further question until an answer \
             comes. To the client this looks like a slow upstream, and the upstream does not know of it: it is asked one \
             question after the other, and may well have room for more.",
    needs: &[
        "a process waits through a proxy for its upstream, by the chain",
        "by the clocks of its connections the proxy owes more answers than it awaits, or has passed a question on late while \
         another's answer was outstanding",
    ],
    refuted_by: &[
        Refutation::new(
            "every question was passed on as it came",
            "who_passes_every_question_on_keeps_none",
        ),
        Refutation::new(
            "a connection to the upstream is free",
            "a_proxy_with_a_free_connection_is_no_queue",
        ),
        Refutation::new(
            "a host is explained, and the questions stand: they may be long polls",
            "on_a_host_what_stands_may_be_a_long_poll",
        ),
        Refutation::new(
            "one connection carries the questions of several at a time, as a tunnel does",
            "a_tunnel_that_carries_several_questions_on_one_connection_keeps_none",
        ),
        Refutation::new(
            "its upstream is itself: its own question is among those that came",
            "a_service_that_asks_itself_keeps_none",
        ),
        Refutation::new(
            "nothing was asked of the upstream meanwhile: the process takes its own time",
            "who_has_asked_nobody_takes_his_own_time",
        ),
    ],
    remedies: &[
        "let the proxy ask more at a time, if the upstream can take it",
        "make the upstream's answers quicker, or add another",
    ],
    stories: &["S4.3"],
    thresholds: &[&QUEUED_MIN, &PART, &ANSWERS_MIN],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    keepers(measures).into_iter().filter_map(|keeper| matched(measures, ends, keeper)).collect()
}

/// The ends that are reached through a proxy, with the victims whose questions it keeps.
fn through(measures: &Measures<'_>, ends: &[End], keeper: &Keeper) -> Vec<Part> {
    let clients: BTreeSet<u32> =
        keeper.queued.iter().flat_map(|question| question.clients.iter().copied()).collect();
    let is_command = kind_of_target(measures) == Some(TargetKind::Command);
    let mut parts = Vec::new();
    for (at, end) in ends.iter().enumerate().filter(|(_, end)| !end.victims.is_empty()) {
        // Inside a server that says no more of itself.
        let is_inside = end.kind == EndKind::Lock
            && matches!(end.object, Object::Inside(_))
            && end.lock_kind(measures.model).is_none();
        let takes_time = matches!(end.kind, EndKind::Sleep | EndKind::Works | EndKind::Remote)
            || matches!(end.kind, EndKind::Open | EndKind::Idle)
            || is_inside;
        if !takes_time || !leads_on(measures, end, keeper) {
            continue;
        }
        let asks = end.links.iter().any(|link| clients.contains(&link.who.pid));
        if is_command {
            parts.extend(asks.then_some((at, None)));
            continue;
        }
        let first = end.first_victim().pid;
        let of = |pid: &u32| clients.contains(pid) || *pid == keeper.pid || asks && *pid == first;
        let victims: BTreeSet<u32> = end.victims.keys().copied().filter(of).collect();
        parts.extend((!victims.is_empty()).then_some((at, Some(victims))));
    }
    parts
}

/// An end, and whose part of it; none: everybody's.
type Part = (usize, Option<BTreeSet<u32>>);

/// Whether a chain leads through the proxy to its upstream.
fn leads_on(measures: &Measures<'_>, end: &End, keeper: &Keeper) -> bool {
    let to_upstream = |link: &ChainLink| match link.object {
        Object::Inet(ino) => {
            measures.model.called.socket(ino).is_some_and(|it| it.remote == keeper.upstream)
        }
        _ => false,
    };
    let Some(at) = end.links.iter().position(|link| link.who.pid == keeper.pid) else {
        return false;
    };
    let is_server = |link: &ChainLink| keeper.servers.iter().any(|it| it.pid == link.who.pid);
    to_upstream(&end.links[at]) || end.links[at + 1..].iter().any(|link| is_server(link))
}

/// Whether questions come and are answered all the while: a long poll stands.
fn comes_and_goes(measures: &Measures<'_>, ends: &[End], keeper: &Keeper, parts: &[Part]) -> bool {
    let waits: u64 = parts.iter().map(|(at, _)| ends[*at].count).sum();
    let began_here = |question: &Question| question.from_ns >= measures.model.look.begin_ns;
    waits >= ANSWERS_MIN.count() as u64 && keeper.queued.iter().all(began_here)
}

fn kind_of_target(measures: &Measures<'_>) -> Option<TargetKind> {
    measures.model.look.target.as_ref().map(|target| target.kind)
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], keeper: Keeper) -> Option<Match<'m>> {
    let parts = through(measures, ends, &keeper);
    let counts =
        measures.model.look.is_asked_about() || comes_and_goes(measures, ends, &keeper, &parts);
    if parts.is_empty() || !counts {
        return None;
    }
    let longest = keeper.queued.first()?.clone();
    let stand = keeper.queued.iter().filter(|question| question.stands).count();
    let seconds: f64 = parts.iter().map(|(at, _)| ends[*at].seconds).sum();
    let part = match longest.stands {
        true => stand as f64 / keeper.owed.max(1) as f64,
        false => longest.seconds() / seconds.max(1e-9),
    };
    if longest.seconds() < QUEUED_MIN.value || part < PART.value {
        return None;
    }
    let proof = if longest.stands { Proof::Inferred } else { Proof::TwoWitnesses };
    let proxy = measures.model.threads.thread_ref(keeper.pid);
    let by = culprit(measures.model, &proxy);
    let object = Object::Process(keeper.pid);
    let netns = measures.model.threads.identity(&proxy).map_or(0, |known| known.netns);
    let ss = command_in(measures.model, netns, "ss");
    let queue = Queue { proxy, keeper, longest, stand, seconds, ss };
    let mut matched = Match::new(by, proof, move |loss| queue.explain(loss)).on(object);
    for (at, victims) in parts {
        matched = matched.claiming(at, victims);
    }
    Some(matched)
}

/// A proxy's queue, as it is told.
struct Queue {
    proxy: ThreadRef,
    keeper: Keeper,
    longest: Question,
    /// Questions that are kept as the look ends.
    stand: usize,
    /// What is waited through the proxy.
    seconds: f64,
    /// ss, where the proxy is.
    ss: ToolWithin,
}

impl Queue {
    /// `1 connection to 127.0.0.1:80 (app 7)`.
    fn connections(&self) -> String {
        let count = words::count(self.keeper.taken, "connection", "connections");
        let servers: Vec<String> = self.keeper.servers.iter().map(words::who).collect();
        let whose = match &servers[..] {
            [] => String::new(),
            [one] => format!(" ({one})"),
            [one, ..] => format!(" ({one} and others)"),
        };
        format!("{count} to {}{whose}", self.keeper.upstream)
    }

    fn explain(&self, loss: &Loss<'_>) -> Wording {
        let (proxy, connections) = (words::who(&self.proxy), self.connections());
        let are = if self.keeper.taken == 1 { "is" } else { "are" };
        let queued = words::seconds(self.longest.seconds());
        let is_proxys = loss.victims.iter().all(|(victim, _)| victim.pid == self.proxy.pid);
        let title = match is_proxys {
            true => format!(
                "{proxy} keeps {} in its queue: its {connections} {are} taken",
                words::count(self.stand.max(1), "question", "questions")
            ),
            false => format!(
                "{} waits in the queue of {proxy}, whose {connections} {are} taken",
                loss.victim
            ),
        };
        let how = match self.longest.stands {
            true => format!(
                "As the look ends it owes {}; {} in its own queue, the longest for {queued}.",
                words::count(self.keeper.owed, "answer", "answers"),
                match self.stand {
                    1 => "1 question waits".to_string(),
                    n => format!("{n} questions wait"),
                },
            ),
            false => format!(
                "{queued} of it passed before {proxy} put the question to its upstream, which had another's to answer first.",
            ),
        };
        let window = words::of_window(loss.seconds, loss.wall_seconds);
        Wording {
            title,
            text: format!("{window} pass in waits for {proxy}. {how}{}", self.or_cache()),
            evidence: self.evidence(),
            remedy: vec![Remedy {
                text: format!(
                    "let {proxy} ask more at a time, if its upstream can take it: `maxconn` of the server in HAProxy (`show stat` \
                     counts the queue as qcur), `max_conns` in nginx, else the size of its pool; which connections are taken"
                ),
                command: format!("{} -tnp dst {}", self.ss, self.keeper.upstream),
                action: Some(Action::look(Asked::State).through(self.ss.through.as_ref())),
                ..Remedy::default()
            }],
        }
    }

    /// Of one connection nothing tells a queue before it from several who asked for the same.
    fn or_cache(&self) -> &'static str {
        match self.keeper.taken {
            1 => {
                " A cache that asks once for several who want the same (Varnish, nginx's proxy_cache_lock) looks like this too."
            }
            _ => "",
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        let source = "tcp_sock of its connections";
        let keeper = &self.keeper;
        vec![
            Evidence::new("time waited through the proxy", self.seconds, "s", "sched_switch"),
            Evidence::new("longest that a question was kept", self.longest.seconds(), "s", source),
            Evidence::new("questions kept at the end", self.stand as f64, "1", source),
            Evidence::new("answers that it owes at the end", keeper.owed as f64, "1", source),
            Evidence::new(
                "questions that it had asked at a time",
                keeper.taken as f64,
                "1",
                source,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, at_place, blocked, endpoint, slept, thread};

    const CODE: &str = "net.proxy_queue";
    const PROXY: u32 = 20;
    const SERVER: u32 = 30;

    fn client_end(client: u32) -> ObjectRef {
        let at = format!("127.0.0.1:{}", 5_000 + client);
        inet("tcp", u64::from(client) * 10, &at, "127.0.0.1:80", 1)
    }

    /// A client asked so many milliseconds before the end.
    fn asks(client: u32, ms: u32) -> Vec<Fact> {
        let at = format!("127.0.0.1:{}", 5_000 + client);
        let far = inet("tcp", u64::from(client) * 10 + 1, "127.0.0.1:80", &at, 1);
        let place = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(client_end(client)),
            ..Place::default()
        };
        vec![
            spoken(client, "curl", client_end(client), ms, true),
            spoken(PROXY, "proxy", far, ms, false),
            at_place(client, "curl", place),
        ]
    }

    /// The proxy asked its upstream so many milliseconds before the end, or has the answer.
    fn passes_on(number: u64, ms: u32, awaits: bool) -> Vec<Fact> {
        let at = format!("127.0.0.1:{}", 6_000 + number);
        let near = inet("tcp", 900 + number * 2, &at, "127.0.0.1:8080", 1);
        let far = inet("tcp", 901 + number * 2, "127.0.0.1:8080", &at, 1);
        vec![spoken(PROXY, "proxy", near, ms, awaits), spoken(SERVER, "app", far, ms, !awaits)]
    }

    /// A proxy before a server that sleeps, both of which listen.
    fn scene(more: Vec<Vec<Fact>>) -> Vec<Fact> {
        let listens =
            |pid, ino, at| endpoint(pid, "listener", inet("tcp", ino, at, "0.0.0.0:0", 10));
        let mut facts = vec![
            look_at(TargetKind::Process, 12),
            listens(PROXY, 1, "127.0.0.1:80"),
            listens(SERVER, 2, "127.0.0.1:8080"),
            blocked(PROXY, "proxy", WaitState::Sleep, "epoll_wait"),
            slept(SERVER, "app", 0, LOOK_NS),
        ];
        facts.extend(more.concat());
        facts
    }

    #[test]
    fn a_client_whose_question_is_kept_waits_in_the_queue() {
        let facts = scene(vec![
            asks(11, 4_800),
            passes_on(1, 4_800, true),
            asks(12, 4_000),
            asks(13, 3_000),
        ]);
        let found = findings(facts);
        assert_eq!((&*found[0].code, found[0].culprit.pid), (CODE, Some(PROXY)), "{found:#?}");
        assert_eq!(
            found[0].title,
            "curl waits in the queue of proxy 20, whose 1 connection to 127.0.0.1:8080 (app 30) is taken"
        );
        assert!(found[0].text.contains("it owes 3 answers; 2 questions wait in its own queue"));
    }

    #[test]
    fn on_a_host_what_stands_may_be_a_long_poll() {
        let mut facts = scene(vec![asks(11, 4_800), passes_on(1, 4_800, true), asks(12, 4_000)]);
        facts.retain(|fact| !matches!(fact.body, Body::Target(_)));
        assert!(!says(CODE, facts));
    }

    #[test]
    fn who_passes_every_question_on_keeps_none() {
        let each = |client, number, ms| [asks(client, ms), passes_on(number, ms, true)].concat();
        assert!(!says(
            CODE,
            scene(vec![each(11, 1, 4_800), each(12, 2, 4_000), each(13, 3, 3_000)])
        ));
    }

    #[test]
    fn a_proxy_with_a_free_connection_is_no_queue() {
        let facts = vec![
            asks(11, 4_800),
            passes_on(1, 4_800, true),
            asks(12, 4_000),
            passes_on(2, 4_900, false),
        ];
        assert!(!says(CODE, scene(facts)));
    }

    /// A client that was answered so many milliseconds before the end.
    fn answered(client: u32, ms: u64) -> Vec<Fact> {
        let end_ns = LOOK_NS - ms * 1_000_000;
        let place = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(client_end(client)),
            ..Place::default()
        };
        let (context, by) = (WakeContext::SoftInterrupt, thread(PROXY, "proxy"));
        let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
        let (thread, begin_ns) = (thread(client, "curl"), end_ns - 500_000_000);
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        vec![Fact { at_ns: end_ns, body: Body::Wait(wait) }]
    }

    #[test]
    fn a_proxy_that_asks_the_next_question_as_the_look_ends_keeps_the_others() {
        let facts = vec![asks(12, 100), asks(11, 200), passes_on(1, 0, true), answered(14, 1)];
        assert!(says(CODE, scene(facts)));
    }

    #[test]
    fn who_awaits_as_many_answers_as_it_owes_keeps_none() {
        let taken = |number, ms| passes_on(number, ms, true);
        let facts = vec![taken(1, 4_800), taken(2, 4_000), asks(12, 1_000)];
        assert!(!says(CODE, scene(facts.clone())), "the other end of a tunnel");
        let owing = [facts, vec![asks(13, 900), asks(14, 800)]].concat();
        assert!(says(CODE, scene(owing)));
    }

    #[test]
    fn a_tunnel_that_carries_several_questions_on_one_connection_keeps_none() {
        let facts = vec![asks(11, 4_800), asks(12, 1_000), passes_on(1, 996, true)];
        assert!(!says(CODE, scene(facts.clone())));
        let queue = [facts, vec![answered(14, 990)]].concat();
        assert!(says(CODE, scene(queue)), "somebody was before it");
    }

    #[test]
    fn clocks_that_are_read_after_the_end_show_what_stood_at_the_end() {
        let questions = vec![asks(12, 100), asks(11, 200), passes_on(1, 4, true)];
        let mut facts = scene([questions, vec![answered(14, 5)]].concat());
        for fact in facts.iter_mut().filter(|fact| matches!(fact.body, Body::Endpoint(_))) {
            fact.at_ns = LOOK_NS + 12_000_000;
        }
        assert!(says(CODE, facts));
    }

    #[test]
    fn a_connection_that_just_got_its_answer_is_not_free() {
        let first = [asks(11, 4_800), passes_on(1, 4_800, true)].concat();
        let facts = vec![first, asks(12, 4_000), passes_on(2, 4, false)];
        assert!(says(CODE, scene(facts)));
    }

    /// What the proxy asked so long before the end was answered as the look ended.
    fn just_answered(ms: u32) -> Vec<Fact> {
        let mut facts = passes_on(1, 0, false);
        for fact in &mut facts {
            let Body::Endpoint(end) = &mut fact.body else { continue };
            let turn = end.socket.as_mut().and_then(|state| state.turn.as_mut()).unwrap();
            *[&mut turn.sent_jiffies, &mut turn.received_jiffies].into_iter().max().unwrap() =
                ms / 4;
        }
        let near = inet("tcp", 902, "127.0.0.1:6001", "127.0.0.1:8080", 1);
        let place = Place {
            state: WaitState::Sleep,
            syscall: "epoll_wait".into(),
            object: Some(near),
            ..Place::default()
        };
        let (end_ns, by) = (LOOK_NS - 1_000_000, thread(SERVER, "app"));
        let wake =
            Wake { at_ns: end_ns, context: WakeContext::SoftInterrupt, by, ..Wake::default() };
        let thread = thread(PROXY, "proxy");
        let wait = Wait { thread, begin_ns: 0, end_ns, place, wake: Some(wake), ..Wait::default() };
        facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
        facts
    }

    #[test]
    fn a_look_that_ends_between_an_answer_and_the_next_question_sees_the_queue() {
        let scene_of = |upstream| {
            let asked = [asks(13, 100), asks(12, 180), asks(11, 230)];
            let mut facts = scene([asked.to_vec(), vec![upstream, answered(14, 8)]].concat());
            let stands = |it: &Blocked| it.thread.pid == PROXY;
            facts.retain(|fact| !matches!(&fact.body, Body::Blocked(it) if stands(it)));
            facts
        };
        let found = findings(scene_of(just_answered(16)));
        assert_eq!((&*found[0].code, found[0].culprit.pid), (CODE, Some(PROXY)), "{found:#?}");
        // It is asked since before the look: what comes may be news.
        assert!(!says(CODE, scene_of(just_answered(5_040))));
        assert!(!says(CODE, scene_of(passes_on(1, 60, false))), "it has been free for a while");
    }

    #[test]
    fn a_service_that_asks_itself_keeps_none() {
        let near = inet("tcp", 902, "127.0.0.1:6001", "127.0.0.1:80", 1);
        let far = inet("tcp", 903, "127.0.0.1:80", "127.0.0.1:6001", 1);
        let own = vec![
            spoken(PROXY, "proxy", near, 4_800, true),
            spoken(PROXY, "proxy", far, 4_800, false),
        ];
        assert!(!says(CODE, scene(vec![asks(11, 4_800), own])));
    }

    #[test]
    fn who_has_asked_nobody_takes_his_own_time() {
        assert!(!says(CODE, scene(vec![asks(11, 4_800), asks(12, 4_000), asks(13, 3_000)])));
    }

    #[test]
    fn who_was_first_does_not_wait_in_the_queue() {
        let facts = vec![asks(12, 4_800), passes_on(1, 4_800, true), asks(13, 4_000)];
        assert!(!says(CODE, scene(facts)));
    }
}
