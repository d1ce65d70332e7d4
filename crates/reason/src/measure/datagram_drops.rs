//! UDP sockets that drop datagrams: how many, how many are read meanwhile, who waits and who sends.
//!
//! The socket's own count of drops and the namespace's RcvbufErrors are two witnesses, compared by the rules. A datagram
//! carries no process: who sends is whoever of this host is connected to the socket, was on a CPU, and waits for no
//! answer. Must not: decide whether the drops matter, or whose fault they are.

use crate::facts::{Endpoint, InetRef, ObjectRef, SocketState, ThreadRef};
use crate::measure::net_counter::growth;
use crate::measure::tcp_stream::{SocketChanges, leads_to};
use crate::model::Model;
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
