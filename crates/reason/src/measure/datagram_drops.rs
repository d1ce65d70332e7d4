//! UDP sockets that drop datagrams: how many, how many are read meanwhile, who waits and who sends.
//!
//! The socket's own count of drops and the namespace's RcvbufErrors are two witnesses, compared by the rules. A datagram
//! carries no process: who sends is whoever of this host is connected to the socket, was on a CPU, and waits for no
//! answer. Must not: decide whether the drops matter, or whose fault they are.

use crate::facts::{Endpoint, InetRef, ObjectRef, SocketState, ThreadRef, ThreadTime};
use crate::measure::net_counter::growth;
use crate::measure::tcp_stream::{SocketChanges, leads_to};
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::Timelines;
use std::collections::{BTreeMap, HashSet};

/// A UDP socket that dropped something within the look.
#[derive(Debug)]
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
    /// Its process was on a CPU, and may be who has read them.
    pub has_run: bool,
    /// Dropped for want of room in its namespace, a second.
    pub counted: f64,
    /// Processes of this host that wait for its answers, and for how many seconds.
    pub waiting: BTreeMap<u32, (ThreadRef, f64)>,
    /// Processes of this host that are connected to it, have run, and wait for nothing.
    pub senders: Vec<&'a ThreadRef>,
    /// What its reader, which has one thread alone, does most of the time that it waits for anything but datagrams.
    pub away: Option<Away>,
}

/// What keeps a reader from reading.
#[derive(Debug, Clone)]
pub struct Away {
    /// A sleep on purpose, or what it waits for.
    pub class: WaitClass,
    /// What it waits for.
    pub object: Object,
    /// How long within the look.
    pub seconds: f64,
}

/// Every UDP socket that dropped something.
pub fn datagram_drops<'a>(
    model: &'a Model,
    timelines: &Timelines,
    changes: &SocketChanges<'_>,
) -> Vec<Dropping<'a>> {
    let seconds = model.look.seconds().max(1e-9);
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for endpoint in &model.held.endpoints {
        let ObjectRef::Inet(socket) = &endpoint.object else { continue };
        if socket.protocol != "udp" || !seen.insert(socket.ino) {
            continue;
        }
        let Some((state, change)) = changes.of_endpoint(endpoint) else { continue };
        if change.drops == 0 {
            continue;
        }
        // A socket on all addresses of IPv6 takes those of IPv4 too, which are counted there.
        let tables: &[&str] = match (socket.local.is_ipv6(), socket.local.ip().is_unspecified()) {
            (true, true) => &["Udp6", "Udp"],
            (true, false) => &["Udp6"],
            (false, _) => &["Udp"],
        };
        let counted =
            |table: &&str, name: &str| growth(model, socket.netns, &format!("{table}.{name}"));
        let rate = |name: &str| {
            let all = tables.iter().filter_map(|table| counted(table, name));
            all.sum::<u64>() as f64 / seconds
        };
        let waiting = waiting(model, timelines, socket);
        let senders = senders(model, socket, &waiting, &endpoint.process);
        all.push(Dropping {
            endpoint,
            socket,
            state,
            dropped: change.drops as f64 / seconds,
            read: rate("InDatagrams"),
            has_run: has_run(model, endpoint.process.pid),
            counted: rate("RcvbufErrors"),
            waiting,
            senders,
            away: away(model, timelines, endpoint.process.pid),
        });
    }
    all
}

fn waiting(
    model: &Model,
    timelines: &Timelines,
    server: &InetRef,
) -> BTreeMap<u32, (ThreadRef, f64)> {
    let mut waiting = BTreeMap::new();
    for wait in timelines.waits().filter(|wait| wait.class == WaitClass::SocketRead) {
        if let Some(ObjectRef::Inet(socket)) = &wait.place.object
            && leads_to(model, socket, server)
        {
            let seconds = wait.within_ns(model.look.begin_ns, model.look.end_ns) as f64 / 1e9;
            let of = waiting.entry(wait.thread.pid).or_insert_with(|| (wait.thread.clone(), 0.0));
            of.1 += seconds;
        }
    }
    waiting
}

/// Whether a process was on a CPU, as far as that is known.
fn has_run(model: &Model, pid: u32) -> bool {
    let mut times = model.threads.times.iter().filter(|time| time.thread.pid == pid).peekable();
    times.peek().is_none() || times.any(|time| time.run_ns > 0)
}

/// Of several threads nobody knows which is to read.
fn away(model: &Model, timelines: &Timelines, pid: u32) -> Option<Away> {
    let has_several = |time: &&ThreadTime| time.thread.pid == pid && time.thread.tid != pid;
    if model.threads.times.iter().any(|time| has_several(&time)) {
        return None;
    }
    let mut by: BTreeMap<&Object, (WaitClass, u64)> = BTreeMap::new();
    let keeps = |class: WaitClass| {
        let is_for_datagrams = matches!(class, WaitClass::SocketRead | WaitClass::Idle);
        !is_for_datagrams
            && (class == WaitClass::Timer || class.is_demand() || class.is_for_somebody())
    };
    for wait in timelines.waits().filter(|wait| wait.thread.tid == pid && keeps(wait.class)) {
        let of = by.entry(&wait.object).or_insert((wait.class, 0));
        of.1 += wait.within_ns(model.look.begin_ns, model.look.end_ns);
    }
    let (object, (class, ns)) = by.into_iter().max_by_key(|(_, (_, ns))| *ns)?;
    Some(Away { class, object: object.clone(), seconds: ns as f64 / 1e9 })
}

fn senders<'a>(
    model: &'a Model,
    server: &InetRef,
    waiting: &BTreeMap<u32, (ThreadRef, f64)>,
    own: &ThreadRef,
) -> Vec<&'a ThreadRef> {
    let mut senders: BTreeMap<u32, &ThreadRef> = BTreeMap::new();
    for endpoint in &model.held.endpoints {
        let pid = endpoint.process.pid;
        if let ObjectRef::Inet(socket) = &endpoint.object
            && leads_to(model, socket, server)
            && !waiting.contains_key(&pid)
            && pid != own.pid
            // A socket may stand connected for days: whoever has not been on a CPU has sent nothing.
            && has_run(model, pid)
        {
            senders.insert(pid, &endpoint.process);
        }
    }
    senders.into_values().collect()
}
