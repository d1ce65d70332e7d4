//! net.syn_backlog: clients try to be connected, and a listener has no room for one more connection that is only half made.
//!
//! Two counters name it: what the listener itself dropped, and the attempts that its network namespace ignored because a SYN queue was full
//! and cookies are off (TCPReqQFullDrop). Of the last quarter of tcp_max_syn_backlog, which is reserved for known hosts, no counter speaks: there the
//! listener's own count of half made connections is the second witness. With cookies (TCPReqQFullDoCookies, SyncookiesSent) nobody is ignored, so those say nothing
//! here. Must not: claim what an accept queue that overflows explains (its clients stay half connected, and fill this queue too), or say who
//! fills the queue: only addresses are known, which anybody can forge. Rejected: ListenDrops alone (it counts drops for every reason).
//!
//! Edit together: accept_queue.rs, listeners.rs.

use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::DROPS;
use crate::rules::net::listeners::{
    LAST_QUARTER, Listener, claimed, clients, listeners, lost, server, were,
};
use crate::rules::net::losses;
use crate::rules::net::ways_out::command_in;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// Part of the look that clients lose.
static WAITED: Threshold = Threshold::new(
    0.1,
    "1",
    "seconds that clients waited to be connected, for each second of the look",
    "as for net.accept_queue: the second try of a connect comes after 1 s",
);
const COOKIES: &str = "net.ipv4.tcp_syncookies";

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.syn_backlog",
    title: "A listener has no room for more connections that are half made",
    theory: "A connection that was asked for and not acknowledged yet has an entry in its listener's SYN queue, which holds as many as listen's \
             backlog. Once it is full the kernel answers with a cookie, which needs no entry; where net.ipv4.tcp_syncookies is 0 it ignores \
             whoever asks, who tries again after 1, 3, 7 s. Without cookies it also keeps the last quarter of net.ipv4.tcp_max_syn_backlog for \
             hosts that it knows from connections before, and ignores all others. A flood of requests fills it, or clients whose acknowledgement never comes.",
    needs: &[
        "a listening socket dropped attempts to connect, while its accept queue had room",
        "its network namespace ignored attempts because a SYN queue was full (TCPReqQFullDrop); or cookies are off and its half made connections \
         leave no more than the last quarter of net.ipv4.tcp_max_syn_backlog",
        "clients were seen to wait for it; or it dropped ten a second",
    ],
    refuted_by: &[
        Refutation::new(
            "an accept queue overflowed (then that is the finding)",
            "an_accept_queue_that_overflows_is_the_cause",
        ),
        Refutation::new("cookies were sent: nobody was ignored", "cookies_leave_nobody_out"),
        Refutation::new(
            "its half made connections leave more than the last quarter, or cookies are on",
            "a_queue_with_room_ignores_nobody",
        ),
        Refutation::new(
            "another listener dropped them",
            "a_listener_that_dropped_nothing_has_room",
        ),
        Refutation::new(
            "few were dropped, and nobody is seen to wait",
            "a_few_attempts_are_a_burst",
        ),
    ],
    remedies: &[
        "let the kernel answer with cookies (net.ipv4.tcp_syncookies)",
        "a longer backlog (listen, net.core.somaxconn, net.ipv4.tcp_max_syn_backlog)",
    ],
    stories: &["S3.5"],
    thresholds: &[&WAITED, &DROPS, &LAST_QUARTER],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let listeners = listeners(measures).into_iter().filter(Listener::has_no_room_for_requests);
    let found = listeners.filter_map(|listener| {
        let process = server(measures, ends, listener.socket).unwrap_or(listener.process);
        matched(measures, ends, Listener { process, ..listener })
    });
    found.collect()
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    listener: Listener<'m>,
) -> Option<Match<'m>> {
    let waits: Vec<&WaitSpan> = clients(measures, listener.socket)
        .into_iter()
        .filter(|wait| wait.class == WaitClass::SocketConnect)
        .collect();
    let lost = lost(measures, listener, &waits);
    let waited: f64 = lost.values().map(|(_, seconds)| *seconds).sum();
    let per_second = listener.dropped as f64 / measures.model.look.seconds().max(1e-9);
    // Clients of other hosts are not seen to wait.
    let is_many = per_second >= DROPS.value && measures.concerns(listener.process);
    if !is_many && waited < WAITED.value * measures.wall_seconds() {
        return None;
    }
    let wording = wording(measures, listener, &lost);
    let by = Culprit::setting("tcp_syncookies 0", COOKIES);
    let matched = Match::new(by, Proof::Read, move |_| wording.clone());
    let object = Object::Inet(listener.socket.ino);
    let matched = losses::of_measure(measures, matched, object, lost, None);
    let mut matched = claimed(matched, measures, ends, listener, &waits);
    if is_many {
        matched.severity_min = Severity::Warning;
        matched.severity_max = matched.severity_max.max(Severity::Warning);
    }
    Some(matched)
}

fn wording(measures: &Measures<'_>, listener: Listener<'_>, lost: &Losses) -> Wording {
    let (server, place) = (words::who(listener.process), listener.socket.local);
    let waited: f64 = lost.values().map(|(_, seconds)| *seconds).sum();
    let who = match lost.len() {
        0 => String::new(),
        n => format!(
            " {} lost {} to it.",
            words::count(n, "process", "processes"),
            words::seconds(waited)
        ),
    };
    let (full, because) = match listener.has_last_quarter() {
        None => (
            "is full".to_string(),
            format!(
                "as many connections as its backlog allows ({}) are asked for and not acknowledged yet, and SYN cookies are off.",
                listener.state.accept_limit
            ),
        ),
        Some(of) => (
            "takes nobody new".to_string(),
            format!(
                "{} connections are asked for and not acknowledged yet, of {} that net.ipv4.tcp_max_syn_backlog allows. SYN cookies are off, and \
                 then the last quarter is reserved for hosts that have been connected before.",
                of.half_made, of.limit
            ),
        ),
    };
    Wording {
        title: format!("the SYN queue of {server} on {place} {full}"),
        text: format!(
            "{} to connect {} ignored: {because} Its accept queue has room: {} of at most {} wait there.{who}",
            words::count(listener.dropped as usize, "attempt", "attempts"),
            were(listener.dropped),
            listener.state.accept_queue,
            listener.state.accept_limit,
        ),
        evidence: evidence(listener),
        remedy: remedies(measures, listener),
    }
}

fn evidence(listener: Listener<'_>) -> Vec<Evidence> {
    let mut evidence = vec![
        Evidence::new("dropped by this listener", listener.dropped as f64, "1", "sock, sk_drops"),
        Evidence::new(
            "attempts ignored for a full SYN queue",
            listener.requests_ignored as f64,
            "1",
            "/proc/net/netstat TcpExt.TCPReqQFullDrop",
        ),
        Evidence::new(
            "overflows of accept queues",
            listener.overflows as f64,
            "1",
            "/proc/net/netstat TcpExt.ListenOverflows",
        ),
        Evidence::new("backlog", f64::from(listener.state.accept_limit), "1", "sock"),
    ];
    if let Some(of) = listener.has_last_quarter() {
        let half_made = f64::from(of.half_made);
        evidence.push(Evidence::new("connections half made", half_made, "1", "request_sock_queue"));
        let limit = f64::from(of.limit);
        evidence.push(Evidence::new("most of them", limit, "1", "net.ipv4.tcp_max_syn_backlog"));
    }
    evidence
}

fn remedies(measures: &Measures<'_>, listener: Listener<'_>) -> Vec<Remedy> {
    let netns = listener.socket.netns;
    let tool = |name| command_in(measures.model, netns, name);
    let (ss, sysctl) = (tool("ss"), tool("sysctl"));
    let port = listener.socket.local.port();
    // The count grows only where it is 0.
    let mut action = Action::sysctl(COOKIES, 1, 0);
    action.target.netns = Some(netns).filter(|netns| *netns != 0);
    let look = |command: String| Remedy {
        command,
        action: Some(Action::look(Question::State).through(ss.through.as_ref())),
        ..Remedy::default()
    };
    vec![
        Remedy::to("answer with cookies once the queue is full").set(
            action.through(sysctl.through.as_ref()),
            format!("{sysctl} -w {COOKIES}=1"),
            format!("{sysctl} -w {COOKIES}=0"),
        ),
        Remedy {
            text: "see who asks and does not acknowledge: a flood, or clients whose way back is lost".into(),
            ..look(format!("{ss} -tn state syn-recv 'sport = :{port}'"))
        },
        Remedy {
            text: "without cookies: give listen() a longer backlog, up to net.core.somaxconn, and net.ipv4.tcp_max_syn_backlog \
                   room for it"
                .into(),
            ..look(format!(
                "{ss} -ltn 'sport = :{port}'; {sysctl} net.core.somaxconn net.ipv4.tcp_max_syn_backlog"
            ))
        },
    ]
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;

    const CODE: &str = "net.syn_backlog";

    /// A server that accepts all, whose listener dropped some; what its namespace counts; and a client that waits to be connected, or none.
    fn scene(dropped: u64, counted: &[(&str, u64)], is_waited: bool) -> Vec<Fact> {
        let state = |drops| SocketState { drops, accept_limit: 16, ..SocketState::default() };
        let listens = || inet("tcp", 300, "10.0.0.2:80", "0.0.0.0:0", 10);
        let mut facts = vec![
            with_state(20, "server", listens(), state(3)),
            with_state(20, "server", listens(), state(3 + dropped)),
        ];
        let grown: Vec<_> = counted.iter().map(|(name, by)| (*name, 5, 5 + by)).collect();
        facts.extend(counters(&grown));
        if is_waited {
            let client = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 2);
            facts.push(wait(10, "client", "connect", client, 0, 48));
        }
        facts
    }

    const IGNORED: (&str, u64) = ("TcpExt.TCPReqQFullDrop", 9);

    #[test]
    fn a_client_that_waits_for_a_full_syn_queue_is_named() {
        let found = findings(scene(9, &[IGNORED], true));
        assert_eq!((found.len(), &*found[0].code), (1, CODE), "{found:?}");
        assert_eq!((found[0].victims[0].pid, &*found[0].culprit.name), (10, "tcp_syncookies 0"));
        assert_eq!(found[0].title, "the SYN queue of server 20 on 10.0.0.2:80 is full");
        assert!(
            found[0].text.starts_with("9 attempts to connect were ignored"),
            "{}",
            found[0].text
        );
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "sysctl -w net.ipv4.tcp_syncookies=1");
        assert_eq!(way.undo, "sysctl -w net.ipv4.tcp_syncookies=0");
    }

    /// Nothing but drops is counted, and so many connections of 64 are half made.
    fn half_made(half_made: u32, cookies: bool) -> Vec<Fact> {
        let mut facts = scene(9, &[], true);
        for fact in &mut facts {
            if let Body::Endpoint(Endpoint { socket: Some(state), .. }) = &mut fact.body {
                state.requests = Some(Requests { half_made, limit: 64, cookies });
            }
        }
        facts
    }

    #[test]
    fn the_last_quarter_is_for_known_hosts() {
        let found = findings(half_made(48, false));
        assert_eq!((found.len(), &*found[0].code), (1, CODE), "{found:?}");
        assert_eq!(found[0].title, "the SYN queue of server 20 on 10.0.0.2:80 takes nobody new");
        assert!(found[0].text.contains("48 connections"), "{}", found[0].text);
    }

    #[test]
    fn a_queue_with_room_ignores_nobody() {
        assert!(!says(CODE, half_made(30, false)));
        assert!(!says(CODE, half_made(64, true)), "cookies are on");
    }

    #[test]
    fn clients_of_other_hosts_are_not_seen_to_wait() {
        let many = ("TcpExt.TCPReqQFullDrop", 400);
        assert_eq!(codes(scene(400, &[many], false)), [CODE]);
    }

    #[test]
    fn a_few_attempts_are_a_burst() {
        assert!(codes(scene(9, &[IGNORED], false)).is_empty());
    }

    #[test]
    fn an_accept_queue_that_overflows_is_the_cause() {
        let overflows = ("TcpExt.ListenOverflows", 4);
        assert_eq!(codes(scene(9, &[IGNORED, overflows], true)), ["net.accept_queue"]);
    }

    #[test]
    fn cookies_leave_nobody_out() {
        let cookies = ("TcpExt.TCPReqQFullDoCookies", 400);
        assert!(!says(CODE, scene(400, &[cookies, ("TcpExt.SyncookiesSent", 400)], true)));
    }

    #[test]
    fn a_listener_that_dropped_nothing_has_room() {
        assert!(!says(CODE, scene(0, &[IGNORED], true)));
    }
}
