//! net.socket_full: a program does not read its datagrams, and its socket drops them.
//!
//! The socket's own count of drops and the namespace's RcvbufErrors both grow, and next to nothing is read. Where
//! the program does read, but slower than they come, it is net.udp_flood, which shares what stands below.

use crate::answer::report::{Culprit, Evidence, Finding, ObjectName, Remedy, Severity};
use crate::facts::*;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::net::{self, Losses};
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// The case.
pub static RULE: Rule = Rule {
    code: "net.socket_full",
    title: "A socket drops what its program does not read",
    theory: "Datagrams wait in the receiving socket's buffer until the program reads them. When it is full, each \
             further one is dropped without a word to the sender, who may wait for an answer until he gives up.",
    needs: &[
        "the socket's own count of drops grows by ten a second or more",
        "the namespace's count of full receive buffers grows as well",
        "the program reads fewer than one datagram for each hundred dropped",
    ],
    refuted_by: &[Refutation::new(
        "the program keeps reading (then more is sent than it can take: net.udp_flood)",
        "",
    )],
    remedies: &["see why the program does not read"],
    stories: &["S0.16", "S2.10"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// A socket that drops.
pub struct Dropping<'a> {
    /// The descriptor.
    pub endpoint: &'a Endpoint,
    /// Its addresses.
    pub socket: &'a InetRef,
    /// Its buffers.
    pub state: &'a SocketState,
    /// Dropped there, a second.
    pub dropped: f64,
    /// Read from UDP sockets of its namespace, a second.
    pub read: f64,
    /// Dropped for want of room in its namespace, a second.
    pub counted: f64,
    /// Processes of this host that wait for its answers.
    pub losses: Losses,
    /// Processes of this host that are connected to it, have run, and wait for nothing.
    pub senders: Vec<&'a ThreadRef>,
}

/// Every UDP socket that dropped enough to matter.
pub fn dropping<'a>(measures: &'a Measures<'a>) -> Vec<Dropping<'a>> {
    let model = measures.model;
    let seconds = model.seconds().max(1e-9);
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for endpoint in &model.endpoints {
        let ObjectRef::Inet(socket) = &endpoint.object else { continue };
        if socket.protocol != "udp" || !seen.insert(socket.ino) {
            continue;
        }
        let Some((state, change)) = net::grown(model, endpoint) else { continue };
        let dropped = change.drops as f64 / seconds;
        let growth = |name: &str| net::counter_growth(model, socket.netns, name);
        let six = if socket.local.is_ipv6() { "Udp6" } else { "Udp" };
        let counted = growth(&format!("{six}.RcvbufErrors")).unwrap_or(0) as f64 / seconds;
        if dropped < 10.0 || counted < 0.5 * dropped {
            continue;
        }
        let read = growth(&format!("{six}.InDatagrams")).unwrap_or(0) as f64 / seconds;
        let losses = net::in_target(measures, waiting(measures, socket));
        if losses.is_empty() && !model.in_target(&endpoint.process) {
            continue;
        }
        let senders = senders(model, socket, &waiting(measures, socket), &endpoint.process);
        all.push(Dropping { endpoint, socket, state, dropped, read, counted, losses, senders });
    }
    all
}

fn leads_to(client: &InetRef, server: &InetRef) -> bool {
    client.protocol == server.protocol
        && client.remote.port() == server.local.port()
        && (client.remote.ip() == server.local.ip() || server.local.ip().is_unspecified())
}

fn waiting(measures: &Measures<'_>, server: &InetRef) -> Losses {
    let model = measures.model;
    let mut losses = Losses::new();
    for wait in measures.waits().filter(|w| w.class == WaitClass::SocketRead) {
        if let Some(ObjectRef::Inet(socket)) = &wait.place.object
            && leads_to(socket, server)
        {
            let seconds = wait.within_ns(model.begin_ns, model.end_ns) as f64 / 1e9;
            let loss = losses.entry(wait.thread.pid).or_insert_with(|| (wait.thread.clone(), 0.0));
            loss.1 += seconds;
        }
    }
    losses
}

fn senders<'a>(
    model: &'a crate::model::Model,
    server: &InetRef,
    waiting: &Losses,
    own: &ThreadRef,
) -> Vec<&'a ThreadRef> {
    // A socket may stand connected for days: whoever has not been on a CPU has sent nothing.
    let ran = |pid: u32| {
        let mut times = model.times.iter().filter(|time| time.thread.pid == pid).peekable();
        times.peek().is_none() || times.any(|time| time.run_ns > 0)
    };
    let mut senders: BTreeMap<u32, &ThreadRef> = BTreeMap::new();
    for endpoint in &model.endpoints {
        let pid = endpoint.process.pid;
        if let ObjectRef::Inet(socket) = &endpoint.object
            && leads_to(socket, server)
            && !waiting.contains_key(&pid)
            && pid != own.pid
            && ran(pid)
        {
            senders.insert(pid, &endpoint.process);
        }
    }
    senders.into_values().collect()
}

/// Whether the program reads at all beside what is dropped.
pub fn reads(dropping: &Dropping<'_>) -> bool {
    dropping.read >= 0.01 * dropping.dropped
}

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let all = dropping(measures);
    all.iter().filter(|d| !reads(d)).map(|d| finding(measures, d)).collect()
}

/// The facts that both cases of dropped datagrams rest on.
pub fn evidence(dropping: &Dropping<'_>) -> Vec<Evidence> {
    let counter = "/proc/net/snmp Udp";
    vec![
        Evidence::new("dropped at the socket", dropping.dropped, "1/s", "sock.sk_drops"),
        Evidence::new(
            "receive buffers found full in its namespace",
            dropping.counted,
            "1/s",
            counter,
        ),
        Evidence::new("datagrams read in its namespace", dropping.read, "1/s", counter),
        Evidence::new(
            "wait unread at the socket",
            dropping.state.receive_queued_bytes as f64,
            "bytes",
            "sock",
        ),
        Evidence::new(
            "room of the socket",
            dropping.state.receive_limit_bytes as f64,
            "bytes",
            "sock",
        ),
    ]
}

/// Builds the finding of either case.
pub fn told(
    rule: &Rule,
    measures: &Measures<'_>,
    dropping: &Dropping<'_>,
    title: String,
    text: String,
    blamed: Culprit,
    remedy: Vec<Remedy>,
) -> Finding {
    let verdict = Verdict {
        title,
        text,
        confidence: 0.93,
        culprit: blamed,
        evidence: evidence(dropping),
        remedy,
    };
    let place = dropping.socket.local.to_string();
    let object =
        ObjectName::new("socket", format!("udp {place}")).with_id(dropping.socket.ino.to_string());
    let server = ObjectName::new("socket", "full receive buffer");
    let holder = Some((&dropping.endpoint.process, server));
    let mut finding = net::finding(rule, measures, object, &dropping.losses, holder, verdict);
    // Whoever sent them is mostly not of this host, and not seen to wait.
    let share = dropping.dropped / (dropping.dropped + dropping.read).max(1e-9);
    if share >= 0.05 {
        finding.severity = finding.severity.max(Severity::Warning);
    }
    finding
}

fn finding(measures: &Measures<'_>, dropping: &Dropping<'_>) -> Finding {
    let server = words::who(&dropping.endpoint.process);
    let title =
        format!("{server} does not read its socket udp {}, which drops", dropping.socket.local);
    let text = format!(
        "{} datagrams a second are dropped there; {} wait unread, the buffer's room is {}.",
        words::rate(dropping.dropped),
        words::bytes(dropping.state.receive_queued_bytes as f64),
        words::bytes(dropping.state.receive_limit_bytes as f64),
    );
    let remedy = vec![Remedy {
        text: "see what it does instead of reading".into(),
        command: format!("holdup pid {}", dropping.endpoint.process.pid),
        ..Remedy::default()
    }];
    let blamed = culprit(measures, &dropping.endpoint.process);
    told(&RULE, measures, dropping, title, text, blamed, remedy)
}
