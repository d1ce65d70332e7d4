//! net.accept_queue: clients are connected, or try to be, and the server does not accept them.
//!
//! Two facts name it: the listening socket's queue at its limit, and the count of overflows in its namespace (or
//! clients that were seen to wait for this very address). What the server does instead is told, because it is the
//! way out. Clients behind a full queue wait in connect; those inside it wait for an answer from nobody.

use crate::answer::report::{Evidence, Finding, ObjectName, Remedy, Severity};
use crate::facts::*;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::net::{self, Losses};
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeSet;

/// The case.
pub static RULE: Rule = Rule {
    code: "net.accept_queue",
    title: "A server does not accept its connections",
    theory: "The kernel completes connections on its own and queues them until the program accepts them. If the \
             program is busy, blocked or stopped, the queue (the lesser of listen's backlog and somaxconn) fills; \
             then the kernel ignores further attempts, and clients try again after 1, 3, 7 s.",
    needs: &[
        "a listening socket's accept queue is at its limit, or clients were seen to wait for it",
        "the namespace counts overflows of accept queues, or those clients have nobody at the other end",
    ],
    refuted_by: &[
        Refutation::new("the queue is empty", ""),
        Refutation::new("the counters of overflows stand still and nobody waits", ""),
    ],
    remedies: &["find what the server does instead of accepting", "raise the backlog for bursts"],
    stories: &["S3.5"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for endpoint in &measures.model.endpoints {
        let (ObjectRef::Inet(socket), Some(state)) = (&endpoint.object, &endpoint.socket) else {
            continue;
        };
        let listens = socket.protocol == "tcp" && socket.state == 10;
        if listens && state.accept_queue > 0 && seen.insert(socket.ino) {
            findings.extend(finding(measures, endpoint, socket, state));
        }
    }
    findings
}

/// Whether a socket's other end is this listener, by address alone.
fn leads_to(client: &InetRef, listener: &InetRef) -> bool {
    client.remote.port() == listener.local.port()
        && (client.remote.ip() == listener.local.ip() || listener.local.ip().is_unspecified())
}

/// Waits for the listener: to be connected, or for an answer where nobody has the other end yet.
fn clients<'a>(measures: &'a Measures<'_>, listener: &InetRef) -> Vec<&'a WaitSpan> {
    let waits = |wait: &&WaitSpan| {
        let Some(ObjectRef::Inet(socket)) = &wait.place.object else { return false };
        match wait.class {
            WaitClass::SocketConnect => leads_to(socket, listener),
            WaitClass::SocketRead | WaitClass::SocketWrite => {
                leads_to(socket, listener) && net::reader(measures.model, socket).is_none()
            }
            _ => false,
        }
    };
    measures.waits().filter(waits).collect()
}

/// What the server's threads do as the look ends.
fn doing(measures: &Measures<'_>, process: &ThreadRef) -> (&'static str, WaitClass) {
    let model = measures.model;
    let mut doing = ("is at work", WaitClass::Running);
    for thread in measures.graph.chains.peers.threads_of(&[process.pid]) {
        let Some(wait) = measures.timelines.of(thread.tid).last().filter(|w| w.standing) else {
            continue;
        };
        let told = match wait.class {
            WaitClass::Stopped => "is stopped",
            WaitClass::FrozenCgroup => "is frozen",
            WaitClass::Timer => "sleeps",
            WaitClass::Idle | WaitClass::FutexWait => "waits for something else",
            WaitClass::RunQueue | WaitClass::CpuQuota => "waits for a CPU",
            class if class.is_demand() => "is held up itself",
            _ => "waits",
        };
        if thread.tid == process.tid || doing.1 == WaitClass::Running {
            doing = (told, wait.class);
        }
        if thread.tid == process.tid {
            break;
        }
    }
    doing
}

// LONG FUNCTION: the sentences of one verdict, in the order in which they are read.
fn finding(
    measures: &Measures<'_>,
    endpoint: &Endpoint,
    socket: &InetRef,
    state: &SocketState,
) -> Option<Finding> {
    let model = measures.model;
    let waits = clients(measures, socket);
    let mut losses = Losses::new();
    for wait in &waits {
        let seconds = wait.within_ns(model.begin_ns, model.end_ns) as f64 / 1e9;
        losses.entry(wait.thread.pid).or_insert_with(|| (wait.thread.clone(), 0.0)).1 += seconds;
    }
    let losses = net::in_target(measures, losses);
    let lost: f64 = losses.values().map(|(_, seconds)| *seconds).sum();
    let overflows = net::counter_growth(model, socket.netns, "TcpExt.ListenOverflows").unwrap_or(0);
    let drops = net::counter_growth(model, socket.netns, "TcpExt.ListenDrops").unwrap_or(0);
    // The kernel lets one more in than the limit says.
    let full = state.accept_queue >= state.accept_limit;
    let refuses = full && overflows > 0 && model.in_target(&endpoint.process);
    // A queue that is emptied in time makes nobody wait for long.
    let waited = lost >= 0.1 * measures.wall_seconds();
    if !refuses && !waited {
        return None;
    }
    let server = words::who(&endpoint.process);
    let (does, class) = doing(measures, &endpoint.process);
    let place = socket.local.to_string();
    let longest = waits.iter().map(|w| w.end_ns - w.begin_ns).max().unwrap_or(0) as f64 / 1e9;
    let who = match losses.len() {
        0 => String::new(),
        n => format!(
            " {} lost {} to it, {} the longest.",
            words::count(n, "process", "processes"),
            words::seconds(lost),
            words::seconds(longest)
        ),
    };
    let refused = match overflows {
        0 => String::new(),
        n => format!("; {n} attempts to connect were ignored"),
    };
    let evidence = vec![
        Evidence::new(
            "connections in the accept queue",
            f64::from(state.accept_queue),
            "1",
            "sock",
        ),
        Evidence::new("limit of the accept queue", f64::from(state.accept_limit), "1", "sock"),
        Evidence::new(
            "overflows of accept queues in the look",
            overflows as f64,
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
    ];
    let verdict = Verdict {
        title: format!("{server} does not accept its connections on {place}"),
        text: format!(
            "{} wait to be accepted, {} may{refused}. The server {does}.{who}",
            words::count(state.accept_queue as usize, "connection", "connections"),
            state.accept_limit,
        ),
        confidence: if full && overflows > 0 { 0.97 } else { 0.88 },
        culprit: culprit(measures, &endpoint.process),
        evidence,
        remedy: remedy(&endpoint.process, class),
    };
    let object = ObjectName::new("socket", format!("tcp {place}")).with_id(socket.ino.to_string());
    let doing = ObjectName::new(class.word(), does);
    let holder = Some((&endpoint.process, doing));
    let mut finding = net::finding(&RULE, measures, object, &losses, holder, verdict);
    // Clients of other hosts are not seen to wait; their attempts are.
    if refuses {
        finding.severity = finding.severity.max(Severity::Warning);
    }
    Some(finding)
}

fn remedy(server: &ThreadRef, class: WaitClass) -> Vec<Remedy> {
    if class == WaitClass::Stopped {
        return vec![Remedy {
            text: "continue the server".into(),
            command: format!("kill -CONT {}", server.pid),
            undo: format!("kill -STOP {}", server.pid),
        }];
    }
    vec![Remedy {
        text: "see what the server does instead; a longer backlog only helps against bursts".into(),
        command: format!("holdup pid {}", server.pid),
        ..Remedy::default()
    }]
}
