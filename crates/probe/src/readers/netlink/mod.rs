//! Questions to the kernel over netlink, in all network namespaces: the transport.
//!
//! Theory: a netlink socket keeps the namespace it was made in. So one socket per namespace is made once, by a short-lived thread that
//! enters each namespace with setns, and is then asked as often as one likes. The socket also keeps the namespace alive:
//! [`Netlink::refresh`] drops those whose namespace nobody else has, and the whole must not outlive the look.
//!
//! Every dump takes the kernel's rtnl lock, which a stuck driver may hold for ever, and no signal ends that wait. So a worker thread
//! owns the sockets; an answer that does not come in time is reported as blind, and nothing is asked until it has come.
//!
//! A question is a function that is run on the worker's side, once for each namespace: what is asked and how the answer is read is the
//! business of one file for each object (links.rs, addresses.rs, qdiscs.rs, filters.rs, routes.rs, refusing_rules.rs, neighbours.rs, permanent_neighbours.rs, nftables.rs, conntrack.rs, packet_sockets.rs, ethtool.rs), and this
//! one knows none of them. What is not asked of rtnetlink has a socket of its own, made where it is wanted; families of generic netlink
//! are found by generic.rs.
//!
//! Namespaces are found by the nsfs mounts in mountinfo (`ip netns`, Docker) and by /proc/PID/ns/net; no mount point is touched.
//!
//! Rejected: rtnetlink with tokio (an executor for what is one question and one answer). Edit together: exchange.rs, generic.rs (how it is asked),
//! docs/adding-a-reader.md.

pub(super) mod addresses;
mod attributes;
pub(super) mod conntrack;
pub(super) mod ethtool;
mod exchange;
mod filter_jumps;
#[doc(hidden)]
pub mod filters;
mod generic;
mod handles;
#[doc(hidden)]
pub mod links;
pub(super) mod neighbours;
pub(super) mod nftables;
pub(super) mod packet_sockets;
pub(super) mod permanent_neighbours;
#[doc(hidden)]
pub mod qdiscs;
pub(super) mod refusing_rules;
pub(super) mod reverse_paths;
pub(super) mod routes;
#[cfg(test)]
mod tests;

pub use exchange::{ask, dump};

use crate::system::namespaces::{namespaces_refused, network_namespaces};
use crate::system::own::priority;
use crate::system::{Roots, mounts, root_helps};
use holdup_reason::facts::{Blind, Body};
use netlink_sys::{
    Socket, SocketAddr,
    protocols::{NETLINK_NETFILTER, NETLINK_ROUTE},
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// An answer that takes longer than this is given up for now: a look begins and ends with such a question.
const PATIENCE: Duration = Duration::from_millis(250);
/// So much more for each namespace that is asked.
const PATIENCE_OF_NAMESPACE: Duration = Duration::from_millis(5);

/// Each namespace costs a descriptor.
const NAMESPACES_MAX: usize = 400;

/// A network namespace that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Its inode.
    pub netns: u32,
    /// `ip netns` name or Docker's; `pid:N` for one that only processes tell of; empty for the
    /// initial one.
    pub name: String,
    /// A file that stands for it.
    path: PathBuf,
}

/// All network namespaces, the initial one first.
pub fn namespaces(roots: &Roots) -> Vec<Namespace> {
    let mut found: BTreeMap<u32, Namespace> = BTreeMap::new();
    for mount in mounts::own_mounts(roots).iter().filter(|mount| mount.fs_type == "nsfs") {
        let inode = mount.root.strip_prefix("net:").and_then(|_| inode(&mount.root));
        let Some(netns) = inode else { continue };
        let name = mount.path.rsplit('/').next().unwrap_or_default().to_string();
        let path = roots.resolve(&mount.path);
        found.entry(netns).or_insert(Namespace { netns, name, path });
    }
    for (netns, pid) in network_namespaces(roots) {
        let path = roots.process(pid, "ns/net");
        let namespace = Namespace { netns, name: format!("pid:{pid}"), path };
        found.entry(netns).or_insert(namespace);
    }
    let first = |name: &str| {
        let target = std::fs::read_link(roots.proc.join(name).join("ns/net")).ok()?;
        inode(target.to_str()?)
    };
    let initial = first("1").or_else(|| first("self"));
    let mut all: Vec<Namespace> = found.into_values().collect();
    for namespace in &mut all {
        if Some(namespace.netns) == initial {
            namespace.name = String::new();
        }
    }
    all.sort_by_key(|namespace| !namespace.name.is_empty());
    all
}

fn inode(target: &str) -> Option<u32> {
    target.split_once(":[")?.1.strip_suffix(']')?.parse().ok()
}

/// What is asked in each namespace, and what it answers.
pub type Question = Box<dyn FnMut(&mut Place, &mut Vec<u8>) -> io::Result<Vec<Body>> + Send>;

/// Asks the kernel about its network. See the head of the file.
pub struct Netlink {
    requests: Sender<Request>,
    answers: Receiver<Vec<Body>>,
    /// Answers that were given up and have not come yet.
    owed: usize,
    patience: Duration,
}

enum Request {
    Ask(Question),
    Replace(Vec<Namespace>),
}

impl Netlink {
    /// Opens a socket in every namespace; the facts say which cannot be entered.
    pub fn open(roots: &Roots) -> io::Result<(Self, Vec<Body>)> {
        let (requests, inbox) = channel();
        let (outbox, answers) = channel();
        let worker = move || {
            let mut worker = Worker::default();
            while let Ok(request) = inbox.recv() {
                if outbox.send(worker.answer(request)).is_err() {
                    break;
                }
            }
        };
        priority::spawn("holdup-netlink", worker)?;
        let mut netlink = Self { requests, answers, owed: 0, patience: PATIENCE };
        let facts = netlink.refresh(roots);
        Ok((netlink, facts))
    }

    /// Looks for namespaces made since, and lets go of those that are gone.
    pub fn refresh(&mut self, roots: &Roots) -> Vec<Body> {
        let all = namespaces(roots);
        self.patience = PATIENCE + PATIENCE_OF_NAMESPACE * all.len().min(NAMESPACES_MAX) as u32;
        let mut facts = self.send(Request::Replace(all));
        facts.extend(namespaces_refused(roots));
        facts
    }

    /// Asks in every namespace, and waits for the answers.
    pub fn ask(
        &mut self,
        question: impl FnMut(&mut Place, &mut Vec<u8>) -> io::Result<Vec<Body>> + Send + 'static,
    ) -> Vec<Body> {
        self.send(Request::Ask(Box::new(question)))
    }

    /// Asks about interfaces, by namespace and index: each namespace that has some of them about its own.
    pub fn ask_about(
        &mut self,
        wanted: BTreeSet<(u32, u32)>,
        question: impl Fn(&mut Place, &mut Vec<u8>, &[u32]) -> io::Result<Vec<Body>> + Send + 'static,
    ) -> Vec<Body> {
        if wanted.is_empty() {
            return Vec::new();
        }
        self.ask(move |place, buffer| {
            let netns = place.namespace.netns;
            let here = wanted.iter().filter(|(of, _)| *of == netns).map(|(_, index)| *index);
            match here.collect::<Vec<_>>() {
                here if here.is_empty() => Ok(Vec::new()),
                here => question(place, buffer, &here),
            }
        })
    }

    fn send(&mut self, request: Request) -> Vec<Body> {
        while self.owed > 0 {
            if self.answers.try_recv().is_err() {
                return Vec::new();
            }
            self.owed -= 1;
        }
        if self.requests.send(request).is_err() {
            return vec![blind("netlink", "the thread that asks has ended".into())];
        }
        match self.answers.recv_timeout(self.patience) {
            Ok(facts) => facts,
            Err(RecvTimeoutError::Timeout) => {
                self.owed += 1;
                let why = format!(
                    "no answer within {} ms: the rtnl lock is held, or a driver is slow",
                    self.patience.as_millis()
                );
                vec![blind("netlink", why)]
            }
            Err(RecvTimeoutError::Disconnected) => {
                vec![blind("netlink", "the thread that asks has ended".into())]
            }
        }
    }
}

/// That there is no such thing, or no such question on this kernel, is an answer.
pub(super) fn is_no_answer(error: &io::Error) -> bool {
    const NONE: [i32; 7] = [
        libc::ENOENT,
        libc::ESRCH,
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::EINVAL,
        libc::EOPNOTSUPP,
        libc::EACCES,
    ];
    error.raw_os_error().is_some_and(|code| NONE.contains(&code))
}

fn blind(what: &str, why: String) -> Body {
    let remedy = if why.contains("ermission denied") || why.contains("not permitted") {
        root_helps()
    } else {
        ""
    };
    Body::Blind(Blind {
        what: what.into(),
        why,
        remedy: remedy.into(),
        therefore: "network queues there are unknown".into(),
        ..Blind::default()
    })
}

/// What is known of an interface by its index.
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its kind, empty for hardware.
    pub kind: String,
    /// Packets that its queue holds, where its queueing discipline has no limit of its own.
    pub queue_length: u32,
    /// Its hardware address, as ip(8) writes it.
    pub hardware: String,
    /// What is beneath it (of a tunnel the addresses that it sends between) is in another namespace.
    pub is_above_another: bool,
}

/// A namespace that can be asked.
pub struct Place {
    /// Which.
    pub namespace: Namespace,
    /// The socket in it.
    pub socket: Socket,
    /// Its interfaces, as they were when they were last asked for.
    pub interfaces: BTreeMap<u32, Interface>,
}

impl Place {
    /// A socket for the packet filter, in the same namespace.
    pub fn filter_socket(&self) -> io::Result<Socket> {
        self.socket_of(NETLINK_NETFILTER)
    }

    /// Another socket for routes, in the same namespace: one that is set otherwise.
    fn route_socket(&self) -> io::Result<Socket> {
        self.socket_of(NETLINK_ROUTE)
    }

    /// A socket of another protocol of netlink: only where there is something to ask, since each costs a thread.
    fn socket_of(&self, protocol: isize) -> io::Result<Socket> {
        let namespace = self.namespace.clone();
        let enter = move || socket_in(&namespace, protocol);
        let entered = priority::spawn("holdup-netns", enter)?;
        entered.join().unwrap_or_else(|_| Err(io::Error::other("the thread that enters it ended")))
    }
}

#[derive(Default)]
struct Worker {
    places: Vec<Place>,
    buffer: Vec<u8>,
}

impl Worker {
    fn answer(&mut self, request: Request) -> Vec<Body> {
        let mut question = match request {
            Request::Replace(namespaces) => return self.replace(namespaces),
            Request::Ask(question) => question,
        };
        let mut facts = Vec::new();
        for place in &mut self.places {
            match question(place, &mut self.buffer) {
                Ok(found) => facts.extend(found),
                Err(error) => facts.push(blind(&place.namespace.what(), error.to_string())),
            }
        }
        facts
    }

    fn replace(&mut self, mut namespaces: Vec<Namespace>) -> Vec<Body> {
        let mut facts = Vec::new();
        if namespaces.len() > NAMESPACES_MAX {
            let more = namespaces.len() - NAMESPACES_MAX;
            facts.push(blind("netns", format!("{more} namespaces more than {NAMESPACES_MAX}")));
            namespaces.truncate(NAMESPACES_MAX);
        }
        let wanted: BTreeSet<u32> = namespaces.iter().map(|namespace| namespace.netns).collect();
        self.places.retain(|place| wanted.contains(&place.namespace.netns));
        let has = |netns| self.places.iter().any(|place| place.namespace.netns == netns);
        namespaces.retain(|namespace| !has(namespace.netns));
        // Ends in whichever namespace came last, so it must not live on.
        let enter = move || namespaces.into_iter().map(enter).collect::<Vec<_>>();
        let entered = priority::spawn("holdup-netns", enter);
        let entered = entered.map(|thread| thread.join().unwrap_or_default());
        for result in entered.unwrap_or_default() {
            match result {
                Ok(place) => self.places.push(place),
                Err((what, error)) => facts.push(blind(&what, error.to_string())),
            }
        }
        self.places.sort_by_key(|place| !place.namespace.name.is_empty());
        facts
    }
}

impl Namespace {
    fn what(&self) -> String {
        format!("netns.{}", self.netns)
    }
}

/// A namespace with its socket. Leaves the calling thread in it.
fn enter(namespace: Namespace) -> Result<Place, (String, io::Error)> {
    match socket_in(&namespace, NETLINK_ROUTE) {
        Ok(socket) => Ok(Place { namespace, socket, interfaces: BTreeMap::new() }),
        Err(error) => Err((namespace.what(), error)),
    }
}

/// A socket in a namespace. Leaves the calling thread in it.
fn socket_in(namespace: &Namespace, protocol: isize) -> io::Result<Socket> {
    // The initial or the own namespace need not be entered, which spares the privilege.
    let file = File::open(&namespace.path)?;
    // The process that stood for it may have ended, and its number been given to another.
    if file.metadata()?.ino() != u64::from(namespace.netns) {
        return Err(io::Error::other("it went away"));
    }
    let own = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
    if own != u64::from(namespace.netns) {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}
