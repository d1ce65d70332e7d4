//! net.accept_queue: clients are connected, or try to be, and the server does not accept them.
//!
//! Two facts name it: the listening socket's queue at its limit, and the count of overflows in its namespace (or
//! clients that were seen to wait for this very address). What the server does instead is said, because it is the
//! way out. Clients behind a full queue wait in connect; those inside it wait for an answer from nobody. A queue that overflows
//! in bursts has room when the look ends: then the listener's own count of what it dropped is the fact beside the clients.
//!
//! Must not: claim the wait of a client who has an end of his own at the server. Rejected: overflows alone (they are
//! counted for all listeners of a namespace together).
//!
//! Edit together: listeners.rs, answer_circle.rs (who waits for an answer of his own service).

use crate::facts::{Endpoint, InetRef, LimitKind, Ns, ObjectRef, ThreadRef};
use crate::graph::debts::Debt;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::measure::own_functions::stands_in;
use crate::model::object::Object;
use crate::model::{lifetimes, words};
use crate::rules::action::{Action, Question};
use crate::rules::net::answer_circle;
use crate::rules::net::listeners::{Listener, claimed, clients, listeners, lost, server, were};
use crate::rules::net::losses;
use crate::rules::net::ways_out::command_in;
use crate::rules::own_pace::STANDS;
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::WaitSpan;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Part of the look that clients lose.
static WAITED: Threshold = Threshold::new(
    0.1,
    "1",
    "seconds that clients waited for the listener, for each second of the look: a queue that is emptied in time makes nobody \
     wait for long",
    "chosen: the second try of a connect comes after 1 s",
);

/// So many processes, each of which waits for the next, are followed: a shell or two, and what they run.
const GENERATIONS: usize = 8;

/// Connections from which a server may have all that it may have.
const SEVERAL: usize = 2;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.accept_queue",
    title: "A server does not accept its connections",
    theory: "The kernel completes connections on its own and queues them until the program accepts them. If the \
             program is busy, blocked or stopped, the queue (the lesser of listen's backlog and somaxconn) fills; \
             then the kernel ignores further attempts, and clients try again after 1, 3, 7 s.",
    needs: &[
        "a listening socket's accept queue is at its limit, or clients were seen to wait for it",
        "the namespace counts overflows of accept queues, the listener counts what it dropped, or those clients have nobody at the \
         other end",
    ],
    refuted_by: &[
        Refutation::new("the queue is empty, and dropped nothing", "an_empty_queue_is_nothing"),
        Refutation::new(
            "the counters of overflows stand still and nobody waits",
            "a_full_queue_without_overflow_or_clients_is_nothing",
        ),
        Refutation::new(
            "the waiting client was accepted: somebody has the other end",
            "a_client_that_was_accepted_does_not_wait_for_the_queue",
        ),
        Refutation::new(
            "the server is stopped, traced or frozen, and its queue has room (then that is the finding)",
            "a_server_that_is_stopped_is_that",
        ),
        Refutation::new(
            "the server waits for somebody else, and no attempt was ignored (then that is the finding)",
            "a_worker_that_waits_for_its_script_is_led_on_to_that",
        ),
        Refutation::new(
            "it is the SYN queue that is full, and no accept queue overflowed (then that is the finding)",
            "a_full_syn_queue_is_no_full_accept_queue",
        ),
        Refutation::new(
            "the server tries to, and is refused a descriptor (then that is the finding)",
            "a_server_that_may_open_no_more_is_that",
        ),
    ],
    remedies: &[
        "find what the server does instead of accepting",
        "let no request wait for an answer of the same service, or serve with more threads or processes",
        "raise the backlog for bursts",
    ],
    stories: &["S3.5"],
    thresholds: &[&WAITED, &STANDS],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut found = Vec::new();
    let listeners = listeners(measures);
    let circles = answer_circle::all(measures, &listeners);
    for listener in listeners {
        if circles.iter().any(|circle| circle.has(measures, listener)) {
            continue;
        }
        let has_waiting =
            listener.state.accept_queue > 0 || listener.dropped > 0 && listener.overflows > 0;
        if !has_waiting || listener.has_no_room_for_requests() {
            continue;
        }
        let process = server(measures, ends, listener.socket).unwrap_or(listener.process);
        if !may_open_no_more(measures, process) {
            found.extend(matched(measures, ends, Listener { process, ..listener }));
        }
    }
    let circles = circles.iter().filter_map(|circle| circle.matched(measures, ends));
    circles.chain(found).collect()
}

/// Whether a process tries to accept, and is refused a descriptor for it.
fn may_open_no_more(measures: &Measures<'_>, process: &ThreadRef) -> bool {
    let own =
        measures.model.threads.denied.iter().filter(|(_, denied)| denied.thread.pid == process.pid);
    let mut limits = own.filter_map(|(_, denied)| denied.limit);
    limits.any(|limit| limit.kind == LimitKind::Descriptors)
}

/// Seconds of the clients' waits that lead through the server to somebody else.
fn led_on(ends: &[End], listener: Listener<'_>, clients: &[&WaitSpan]) -> f64 {
    let waited_on: HashSet<&Object> = clients.iter().map(|wait| &wait.object).collect();
    let is_beyond = |end: &&End| {
        end.links.iter().any(|link| waited_on.contains(&link.object))
            && end.who.as_ref().is_some_and(|who| who.pid != listener.process.pid)
    };
    ends.iter().filter(is_beyond).map(|end| end.seconds).sum()
}

/// What the server's threads do as the look ends. Its first thread is believed before the others: one that has run for half of the look
/// by then is at work, whatever its helpers wait for.
fn doing(measures: &Measures<'_>, process: &ThreadRef) -> (&'static str, WaitClass) {
    let mut doing = ("is at work", WaitClass::Running);
    let main = wait_words::main_thread(measures, process.pid);
    let last = |thread: &ThreadRef| measures.graph.waits_of(thread).last();
    let stands = |thread: &ThreadRef| last(thread).filter(|wait| wait.standing);
    let look = &measures.model.look;
    // Who only waits for a CPU has work.
    let rested = measures.graph.waits_of(&main).iter().rfind(|it| it.class != WaitClass::RunQueue);
    let since_ns = rested.map_or(look.begin_ns, |wait| wait.end_ns.max(look.begin_ns));
    let ran_ns = look.end_ns.saturating_sub(since_ns);
    let is_at_work = stands(&main).is_none() && 2 * ran_ns >= look.end_ns - look.begin_ns;
    if measures.graph.is_seen(&main) && is_at_work {
        return doing;
    }
    for thread in measures.graph.threads_of(&[process.pid]) {
        let Some(wait) = stands(&thread) else {
            continue;
        };
        let does = match wait.class {
            WaitClass::Stopped => "is stopped",
            WaitClass::FrozenCgroup => "is frozen",
            WaitClass::Timer => "sleeps",
            WaitClass::Idle | WaitClass::FutexWait => "waits for something else",
            WaitClass::RunQueue | WaitClass::CpuQuota => "waits for a CPU",
            class if class.is_demand() => "is held up itself",
            _ => "waits",
        };
        if thread.tid == process.tid || doing.1 == WaitClass::Running {
            doing = (does, wait.class);
        }
        if thread.tid == process.tid {
            break;
        }
    }
    doing
}

/// Whether none of the clients has stood for long on one connection: a server at full load takes each after a moment.
fn is_emptied(measures: &Measures<'_>, clients: &[&WaitSpan]) -> bool {
    let look = &measures.model.look;
    let mut stood: BTreeMap<&Object, Ns> = BTreeMap::new();
    for wait in clients {
        *stood.entry(&wait.object).or_default() += wait.within_ns(look.begin_ns, look.end_ns);
    }
    stood.values().all(|ns| *ns < STANDS.ns())
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    listener: Listener<'m>,
) -> Option<Match<'m>> {
    let model = measures.model;
    let waits = clients(measures, listener.socket);
    let lost = lost(measures, listener, &waits);
    let waited: f64 = lost.values().map(|(_, seconds)| *seconds).sum();
    let full = listener.is_full();
    let refuses = full && listener.overflows > 0 && measures.concerns(listener.process);
    let is_short = waited < WAITED.value * measures.wall_seconds() || is_emptied(measures, &waits);
    if !refuses && is_short {
        return None;
    }
    // Whoever may not run does nothing else either: what stopped it has a name of its own.
    let (does, class) = doing(measures, listener.process);
    let is_stopped =
        matches!(class, WaitClass::Stopped | WaitClass::Traced | WaitClass::FrozenCgroup);
    if is_stopped && !refuses {
        return None;
    }
    if !refuses && led_on(ends, listener, &waits) * 2.0 > waited {
        return None;
    }
    let is_counted = (full || listener.dropped > 0) && listener.overflows > 0;
    let proof = if is_counted { Proof::Read } else { Proof::TwoWitnesses };
    // A connection may be older than its client's wait on it was seen to be: no more than the look counts.
    let longest =
        waits.iter().map(|wait| wait.within_ns(model.look.begin_ns, model.look.end_ns)).max();
    let longest = longest.unwrap_or(0) as f64 / 1e9;
    let wording = wording(measures, listener, &lost, longest, (does, class));
    let matched = Match::new(culprit(model, listener.process), proof, move |_| wording.clone());
    let holder = Some((listener.process, class.word(), does.to_string()));
    let object = Object::Inet(listener.socket.ino);
    let matched = losses::of_measure(measures, matched, object, lost, holder);
    let mut matched = claimed(matched, measures, ends, listener, &waits);
    // Clients of other hosts are not seen to wait; their attempts are.
    if refuses {
        matched.severity_min = Severity::Warning;
        matched.severity_max = matched.severity_max.max(Severity::Warning);
    }
    Some(matched)
}

fn wording(
    measures: &Measures<'_>,
    listener: Listener<'_>,
    lost: &Losses,
    longest: f64,
    (does, class): (&str, WaitClass),
) -> Wording {
    let server = words::who(listener.process);
    let place = listener.socket.local;
    let waited: f64 = lost.values().map(|(_, seconds)| *seconds).sum();
    let who = match lost.len() {
        0 => String::new(),
        n => format!(
            " {} lost {} to it, {} the longest.",
            words::count(n, "process", "processes"),
            words::seconds(waited),
            words::seconds(longest)
        ),
    };
    let within = (measures.model.look.begin_ns, measures.model.look.end_ns);
    let stands = (class != WaitClass::Running)
        .then(|| {
            stands_in(
                measures.model,
                &measures.model.threads.thread_ref(listener.process.pid),
                within,
            )
        })
        .flatten();
    let stands = stands.map_or_else(String::new, |stands| format!(" in {stands}"));
    // What its own socket has dropped; the count of overflows is of all listeners of its network namespace.
    let attempts = |n: u64| words::count(n as usize, "attempt", "attempts");
    let refused = match (listener.dropped, listener.overflows) {
        (0, 0) => String::new(),
        (0, n) => format!(
            "; {} to connect {} ignored by listeners of its network namespace",
            attempts(n),
            were(n)
        ),
        (n, _) => format!("; {} to connect {} ignored", attempts(n), were(n)),
    };
    if listener.has_bursts() {
        return Wording {
            title: format!("connections come faster than {server} accepts them on {place}"),
            text: format!(
                "{} to connect {} ignored, since as many connections waited to be accepted as may; the client tries again \
                 after 1 s. The server does accept: as the look ends {} of at most {} wait.{who}",
                words::count(listener.dropped as usize, "attempt", "attempts"),
                were(listener.dropped),
                listener.state.accept_queue,
                listener.state.accept_limit,
            ),
            evidence: evidence(measures, listener, longest),
            remedy: vec![backlog(measures, listener)],
        };
    }
    let waiting = listener.state.accept_queue as usize;
    let queued = words::count(waiting, "connection waits", "connections wait");
    Wording {
        title: format!("{server} does not accept its connections on {place}"),
        text: format!(
            "{queued} to be accepted, {} may{refused}. The server {does}{stands}.{}{who}",
            listener.state.accept_limit,
            instead(measures, listener, class),
        ),
        evidence: evidence(measures, listener, longest),
        remedy: remedy(measures, listener, class),
    }
}

/// Whom the server serves instead, and why it takes no more; sentences with a space before them.
fn instead(measures: &Measures<'_>, listener: Listener<'_>, class: WaitClass) -> String {
    let serves = served(measures, listener.process).map_or_else(String::new, |client| {
        let client = words::who(&client);
        format!(" It serves one client at a time, and waits for the next word of {client}.")
    });
    let awaits = awaited(measures, listener.process)
        .map_or_else(String::new, |by| format!(" It waits for {}.", words::who(&by)));
    let begun = begun(measures, listener, class).map_or_else(String::new, |child| {
        format!(" Its child {} serves a connection there, and has not ended.", words::who(&child))
    });
    format!("{serves}{awaits}{begun}{}", takes_no_more(measures, listener))
}

/// Of a server that sleeps: the one child that it has begun for a connection to its listener. Some may have no more than so many, and look for the end of one.
fn begun(measures: &Measures<'_>, listener: Listener<'_>, class: WaitClass) -> Option<ThreadRef> {
    let server = listener.process.pid;
    let serves = |end: &&Endpoint| {
        let is_child =
            end.process.pid != server && measures.graph.parent_of(end.process.pid) == Some(server);
        is_child && class == WaitClass::Timer && is_served(measures, listener, &end.object)
    };
    let all = measures.model.held.endpoints.iter().filter(serves);
    let all: BTreeSet<u32> = all.map(|end| end.process.pid).collect();
    let only = all.first().filter(|_| all.len() == 1)?;
    let child = wait_words::main_thread(measures, *only);
    lifetimes::is_there_at_end(measures.model, &child).then_some(child)
}

/// Whether a descriptor is a connection that was accepted from a listener.
fn is_served(measures: &Measures<'_>, listener: Listener<'_>, object: &ObjectRef) -> bool {
    let own = listener.socket;
    let ObjectRef::Inet(socket) = object else { return false };
    let is_there = socket.local.port() == own.local.port() && socket.remote.port() != 0;
    is_there && socket.netns == own.netns && measures.graph.is_accepted(socket)
}

/// The program that a server has begun and waits for, or that one's own: what a shell runs, and not the shell.
fn awaited(measures: &Measures<'_>, process: &ThreadRef) -> Option<ThreadRef> {
    let main = |pid: u32| wait_words::main_thread(measures, pid);
    let has_begun = |of: u32, pid: u32| {
        let parents = std::iter::successors(measures.graph.parent_of(pid), |it| {
            measures.graph.parent_of(*it)
        });
        parents.take(GENERATIONS).any(|it| it == of)
    };
    let next = |of: &ThreadRef| {
        let last = measures.graph.waits_of(of).last().filter(|wait| wait.standing)?;
        let by = match last.class {
            WaitClass::Child | WaitClass::PipeRead => measures.graph.holder(last)?,
            WaitClass::Idle => heard(measures, last)?,
            _ => return None,
        };
        has_begun(of.pid, by.pid).then(|| main(by.pid))
    };
    std::iter::successors(next(&main(process.pid)), next).take(GENERATIONS).last()
}

/// The one child whose output a wait polls, if it polls nothing else: whatever else there is may be what it waits for.
fn heard(measures: &Measures<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let pid = wait.thread.pid;
    let writer = |end: &Endpoint| {
        let ObjectRef::Pipe { ino } = &end.object else { return None };
        let writers = measures.graph.endpoints_on(*ino).iter().filter(|it| it.writable);
        let mut own = writers.filter(|it| measures.graph.parent_of(it.process.pid) == Some(pid));
        own.next().map(|it| it.process.clone())
    };
    let ends: BTreeMap<u32, &Endpoint> = polled(measures, wait).map(|end| (end.fd, end)).collect();
    let writers: Option<Vec<ThreadRef>> = ends.values().map(|end| writer(end)).collect();
    let writers = writers.filter(|all| all.len() == wait.place.polled.len())?;
    let child = writers.first()?;
    writers.iter().all(|it| it.pid == child.pid).then(|| child.clone())
}

/// The descriptors that a wait polls.
fn polled<'m>(measures: &Measures<'m>, wait: &WaitSpan) -> impl Iterator<Item = &'m Endpoint> {
    let is_polled =
        |end: &&Endpoint| end.process.pid == wait.thread.pid && wait.place.polled.contains(&end.fd);
    measures.model.held.endpoints.iter().filter(is_polled)
}

/// The client of whom alone the only thread of a server waits to hear: a loop would poll its listener too, and other threads serve others. Of
/// several that have the other end nobody knows who is to speak.
fn served(measures: &Measures<'_>, process: &ThreadRef) -> Option<ThreadRef> {
    let main = wait_words::main_thread(measures, process.pid);
    if measures.graph.threads_of(&[process.pid]).iter().any(|it| it.tid != process.pid) {
        return None;
    }
    let last = measures.graph.waits_of(&main).last().filter(|wait| wait.standing)?;
    if last.place.syscall.starts_with("epoll_") {
        return None;
    }
    let read = match &last.place.object {
        Some(ObjectRef::Inet(socket)) if last.place.polled.len() <= 1 => Some(socket),
        _ => None,
    };
    let read = read.filter(|_| measures.graph.is_for_a_question(last));
    let socket = read.or_else(|| only_answered(measures, last))?;
    let mut far = measures.graph.far_processes(socket).into_iter();
    let client = far.next()?;
    (client.pid != process.pid && far.all(|it| it.pid == client.pid)).then_some(client)
}

/// The connection of the only client whom a server polls, which does not poll where it listens, where that one has had its answer and the server
/// awaits none itself: it polls the connection to its own upstream as well, in case that closes.
fn only_answered<'m>(measures: &Measures<'m>, wait: &WaitSpan) -> Option<&'m InetRef> {
    let pid = wait.thread.pid;
    let sockets = polled(measures, wait).filter_map(|end| match &end.object {
        ObjectRef::Inet(socket) => Some(socket),
        _ => None,
    });
    let mut clients: BTreeMap<u64, &InetRef> = BTreeMap::new();
    for socket in sockets {
        if socket.state == TCP_LISTEN {
            return None;
        }
        if measures.graph.is_accepted(socket) {
            clients.insert(socket.ino, socket);
        }
    }
    let debts = measures.graph.debts();
    let stands = |of: Option<&Vec<Debt>>| {
        let end_ns = measures.model.look.end_ns;
        of.into_iter().flatten().any(|debt| debt.seen_ns >= end_ns)
    };
    let owes = stands(debts.owes.get(&pid)) || stands(debts.awaits.get(&pid));
    let only = clients.values().next().filter(|_| clients.len() == 1 && !owes);
    only.copied().filter(|_| debts.knows(pid))
}

/// Of a queue whose limit is 0, which the program asked for or the host allows no more: that some servers ask so that have as many connections as they may
/// (listen(2) again) is a possibility where it has several, with how many, and whose most of them are; sentences with a space before them.
fn takes_no_more(measures: &Measures<'_>, listener: Listener<'_>) -> String {
    if listener.state.accept_limit > 0 {
        return String::new();
    }
    let accepted = |end: &Endpoint| {
        end.process.pid == listener.process.pid && is_served(measures, listener, &end.object)
    };
    let mut all = BTreeSet::new();
    let mut by_client: BTreeMap<u32, (usize, ThreadRef)> = BTreeMap::new();
    for end in measures.model.held.endpoints.iter().filter(|end| accepted(end)) {
        let ObjectRef::Inet(socket) = &end.object else { continue };
        if !all.insert(socket.ino) {
            continue;
        }
        for far in measures.graph.far_processes(socket) {
            by_client.entry(far.pid).or_insert((0, far)).0 += 1;
        }
    }
    let fact = " Its backlog is 0: so the program asked (listen(2)), or net.core.somaxconn is 0.";
    if all.len() < SEVERAL {
        return fact.into();
    }
    let most = by_client.into_values().max_by_key(|(count, far)| (*count, Reverse(far.pid)));
    let whose = most.map_or_else(String::new, |(count, far)| {
        format!(", {count} of them to {}", words::who(&far))
    });
    let all = words::count(all.len(), "connection", "connections");
    format!(
        "{fact} Some servers ask so while they have all the connections that they may have, which this one may do: it has {all}{whose}."
    )
}

fn evidence(measures: &Measures<'_>, listener: Listener<'_>, longest: f64) -> Vec<Evidence> {
    let state = listener.state;
    let drops = growth(measures.model, listener.socket.netns, "TcpExt.ListenDrops").unwrap_or(0);
    vec![
        Evidence::new(
            "connections in the accept queue",
            f64::from(state.accept_queue),
            "1",
            "sock",
        ),
        Evidence::new("dropped by this listener", listener.dropped as f64, "1", "sock, sk_drops"),
        Evidence::new("limit of the accept queue", f64::from(state.accept_limit), "1", "sock"),
        Evidence::new(
            "overflows of accept queues in the look",
            listener.overflows as f64,
            "1",
            "/proc/net/netstat TcpExt.ListenOverflows",
        ),
        Evidence::new(
            "connections dropped at listeners in the look",
            drops as f64,
            "1",
            "/proc/net/netstat TcpExt.ListenDrops",
        ),
        Evidence::new(
            "longest wait of a client",
            longest,
            "s",
            "sched_switch and the task iterator",
        ),
    ]
}

/// A longer queue: the lesser of what the program asks and what the host allows.
fn backlog(measures: &Measures<'_>, listener: Listener<'_>) -> Remedy {
    let tool = |name| command_in(measures.model, listener.socket.netns, name);
    let (ss, sysctl) = (tool("ss"), tool("sysctl"));
    Remedy {
        text: "give listen() a longer backlog in the program's settings, up to net.core.somaxconn; Send-Q is the limit".into(),
        command: format!("{ss} -ltn 'sport = :{}'; {sysctl} net.core.somaxconn", listener.socket.local.port()),
        action: Some(Action::look(Question::State).through(ss.through.as_ref())),
        ..Remedy::default()
    }
}

fn remedy(measures: &Measures<'_>, listener: Listener<'_>, class: WaitClass) -> Vec<Remedy> {
    let server = listener.process;
    if class == WaitClass::Stopped {
        return vec![Remedy::to("continue the server").go_on(server)];
    }
    let instead =
        Remedy::to("see what the server does instead; a longer backlog only helps against bursts");
    let begun = begun(measures, listener, class)
        .map(|child| Remedy::to("see what keeps the child that serves a connection").look(&child));
    std::iter::once(instead.look(server)).chain(begun).collect()
}
