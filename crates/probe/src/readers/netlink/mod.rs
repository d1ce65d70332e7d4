//! Network interfaces and queueing disciplines of all network namespaces, by rtnetlink.
//!
//! Theory: a netlink socket keeps the namespace it was made in. So one socket per namespace is made
//! once, by a short-lived thread that enters each namespace with setns, and is then asked as often
//! as one likes. The socket also keeps the namespace alive: [`Netlink::refresh`] drops those whose
//! namespace nobody else has, and the whole must not outlive the look.
//!
//! Every dump takes the kernel's rtnl lock, which a stuck driver may hold for ever, and no signal
//! ends that wait. So a worker thread owns the sockets; an answer that does not come in time is reported
//! as blind, and nothing is asked until it has come.
//!
//! Namespaces are found by the nsfs mounts in mountinfo (`ip netns`, Docker) and by
//! /proc/PID/ns/net; no mount point is touched.
//!
//! Rejected: rtnetlink with tokio (an executor for what is one question and one answer). Edit
//! together: `netlink_wire.rs` (what the answers say), `netlink_exchange.rs` (how it is asked).

use crate::readers::net_counters::{namespaces_refused, network_namespaces};
use crate::system::{Roots, mounts, root_helps};
pub mod exchange;
pub mod wire;

use crate::readers::next_hops::{Destination, next_hop};
use crate::readers::standstill::Standstill;
use crate::system::own::priority;
use exchange::dump;
use holdup_reason::facts::{Blind, Body, Link, NextHop, QdiscSample};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
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

/// Kinds of qdiscs whose classes have rates and counters of their own.
const CLASSFUL: [&str; 6] = ["htb", "hfsc", "drr", "qfq", "ets", "cbq"];

/// Kinds that filters hang on.
const FILTERED: [&str; 9] =
    ["htb", "hfsc", "drr", "qfq", "ets", "cbq", "prio", "ingress", "clsact"];

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

/// Asks the kernel about its network interfaces. See the head of the file.
pub struct Netlink {
    requests: Sender<Request>,
    answers: Receiver<Vec<Body>>,
    /// Answers that were given up and have not come yet.
    owed: usize,
    patience: Duration,
    standstill: Standstill,
}

enum Request {
    Links,
    Qdiscs { filters: bool },
    NextHops(Vec<Destination>),
    Replace(Vec<Namespace>),
}

impl Netlink {
    /// Opens a socket in every namespace; the facts tell those that cannot be entered.
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
        let mut netlink = Self {
            requests,
            answers,
            owed: 0,
            patience: PATIENCE,
            standstill: Standstill::default(),
        };
        let facts = netlink.refresh(roots);
        Ok((netlink, facts))
    }

    /// Looks for namespaces made since, and lets go of those that are gone.
    pub fn refresh(&mut self, roots: &Roots) -> Vec<Body> {
        let all = namespaces(roots);
        self.patience = PATIENCE + PATIENCE_OF_NAMESPACE * all.len().min(NAMESPACES_MAX) as u32;
        let mut facts = self.ask(Request::Replace(all));
        facts.extend(namespaces_refused(roots));
        facts
    }

    /// Interfaces with their statistics.
    pub fn links(&mut self) -> Vec<Body> {
        self.ask(Request::Links)
    }

    /// Qdiscs and classes with their statistics and with the filters that steer into them.
    pub fn qdiscs(&mut self) -> Vec<Body> {
        self.ask(Request::Qdiscs { filters: true })
    }

    /// The same without filters, to be called each tick; `queued` says whether a packet was since the one
    /// before, if that is known, and `again` whether they are read in any case.
    pub fn qdisc_samples(&mut self, queued: Option<bool>, again: bool) -> Vec<Body> {
        self.standstill.tick(queued, again).unwrap_or_else(|| {
            let reported = self.ask(Request::Qdiscs { filters: false });
            self.standstill.read(&reported);
            reported
        })
    }

    /// Next hops to some addresses; of one that has none, or that is this host's own, nothing.
    pub fn next_hops(&mut self, to: Vec<Destination>) -> Vec<Body> {
        if to.is_empty() { Vec::new() } else { self.ask(Request::NextHops(to)) }
    }

    /// Whether queueing disciplines stand still.
    pub fn is_still(&self) -> bool {
        self.standstill.is_calm()
    }

    /// What they were at a tick in which nobody was awake, because all stands still.
    pub fn slept(&mut self) -> Vec<Body> {
        self.standstill.slept()
    }

    fn ask(&mut self, request: Request) -> Vec<Body> {
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
                    "no answer within {} ms: the rtnl lock is held",
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
struct Interface {
    name: String,
    queue_length: u32,
}

struct Place {
    namespace: Namespace,
    socket: Socket,
    interfaces: BTreeMap<u32, Interface>,
}

#[derive(Default)]
struct Worker {
    places: Vec<Place>,
    buffer: Vec<u8>,
}

impl Worker {
    fn answer(&mut self, request: Request) -> Vec<Body> {
        if let Request::Replace(namespaces) = request {
            return self.replace(namespaces);
        }
        let mut facts = Vec::new();
        for place in &mut self.places {
            let reported = match &request {
                Request::Links => place.links(&mut self.buffer).map(|links| {
                    facts.extend(links.into_iter().map(Body::Link));
                }),
                Request::Qdiscs { filters } => {
                    place.qdiscs(&mut self.buffer, *filters).map(|found| {
                        facts.extend(found.into_iter().map(Body::QdiscSample));
                    })
                }
                Request::NextHops(to) => place.next_hops(&mut self.buffer, to).map(|found| {
                    facts.extend(found.into_iter().map(Body::NextHop));
                }),
                Request::Replace(_) => Ok(()),
            };
            if let Err(error) = reported {
                facts.push(blind(&place.namespace.what(), error.to_string()));
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

/// A socket in a namespace. Leaves the calling thread in it.
fn enter(namespace: Namespace) -> Result<Place, (String, io::Error)> {
    let socket = || {
        // The initial or the own namespace need not be entered, which spares the privilege.
        let file = File::open(&namespace.path)?;
        // The process that stood for it may have ended, and its number been given to another.
        if file.metadata()?.ino() != u64::from(namespace.netns) {
            return Err(io::Error::other("it went away"));
        }
        let own = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
        if own != u64::from(namespace.netns) {
            // SAFETY: setns on a descriptor that is open; the thread is short-lived.
            if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(socket)
    };
    match socket() {
        Ok(socket) => Ok(Place { namespace, socket, interfaces: BTreeMap::new() }),
        Err(error) => Err((namespace.what(), error)),
    }
}

const RTM_GETLINK: u16 = 18;
const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const RTM_GETTFILTER: u16 = 46;

impl Place {
    fn links(&mut self, buffer: &mut Vec<u8>) -> io::Result<Vec<Link>> {
        let mut links = Vec::new();
        // struct ifinfomsg, all zero: every interface.
        dump(&self.socket, RTM_GETLINK, &[0; 16], buffer, |message| {
            links.extend(wire::link(message));
        })?;
        self.interfaces.clear();
        for link in &mut links {
            link.netns = self.namespace.netns;
            link.netns_name.clone_from(&self.namespace.name);
            let name = link.name.clone();
            let interface = Interface { name, queue_length: link.queue_length };
            self.interfaces.insert(link.index, interface);
        }
        Ok(links)
    }

    fn qdiscs(&mut self, buffer: &mut Vec<u8>, filters: bool) -> io::Result<Vec<QdiscSample>> {
        let mut found = Vec::new();
        dump(&self.socket, RTM_GETQDISC, &request(0, 0), buffer, |message| {
            found.extend(wire::qdisc(message, false));
        })?;
        let with = |kinds: &[&str], found: &[QdiscSample]| -> BTreeSet<(u32, String)> {
            let of_kind = found.iter().filter(|qdisc| kinds.contains(&&*qdisc.kind));
            of_kind.map(|qdisc| (qdisc.index, qdisc.handle.clone())).collect()
        };
        let classful: BTreeSet<u32> = with(&CLASSFUL, &found).into_iter().map(|(i, _)| i).collect();
        let filtered = if filters { with(&FILTERED, &found) } else { BTreeSet::new() };
        for index in classful {
            dump(&self.socket, RTM_GETTCLASS, &request(index, 0), buffer, |message| {
                found.extend(wire::qdisc(message, true));
            })?;
        }
        if found.iter().any(|qdisc| !self.interfaces.contains_key(&qdisc.index)) {
            self.links(buffer)?;
        }
        for (index, handle) in filtered {
            let Some(parent) = parse_handle(&handle) else { continue };
            let mut all = Vec::new();
            // An interface or a qdisc may go away meanwhile.
            let _ =
                dump(&self.socket, RTM_GETTFILTER, &request(index, parent), buffer, |message| {
                    all.extend(wire::filter(message));
                });
            all.into_iter().for_each(|filter| attach(filter, &mut found));
        }
        for qdisc in &mut found {
            qdisc.netns = self.namespace.netns;
            let Some(interface) = self.interfaces.get(&qdisc.index) else { continue };
            qdisc.interface.clone_from(&interface.name);
            if qdisc.kind == "pfifo_fast" {
                qdisc.limit = Some(interface.queue_length.into());
            }
        }
        Ok(found)
    }
}

impl Place {
    fn next_hops(&mut self, buffer: &mut Vec<u8>, to: &[Destination]) -> io::Result<Vec<NextHop>> {
        let mut found = Vec::new();
        for destination in to.iter().filter(|it| it.netns == self.namespace.netns) {
            found.extend(next_hop(&self.socket, destination, buffer)?);
        }
        if found.iter().any(|hop| !self.interfaces.contains_key(&hop.index)) {
            self.links(buffer)?;
        }
        for hop in &mut found {
            if let Some(interface) = self.interfaces.get(&hop.index) {
                hop.interface.clone_from(&interface.name);
            }
        }
        Ok(found)
    }
}

/// Writes a filter down at the class it steers into, at the qdisc that stands for that class
/// (prio), or else at the qdisc that it hangs on.
fn attach(filter: wire::Filter, found: &mut [QdiscSample]) {
    let here = |qdisc: &&mut QdiscSample| qdisc.index == filter.index;
    let steered = |qdisc: &QdiscSample| {
        let class = filter.class.as_ref();
        class == Some(&qdisc.handle) || (!qdisc.class && class == Some(&qdisc.parent))
    };
    let mut candidates: Vec<&mut QdiscSample> = found.iter_mut().filter(here).collect();
    let place = candidates
        .iter()
        .position(|qdisc| qdisc.class && steered(qdisc))
        .or_else(|| candidates.iter().position(|qdisc| steered(qdisc)))
        .or_else(|| candidates.iter().position(|qdisc| qdisc.handle == filter.parent));
    if let Some(place) = place {
        candidates[place].filters.push(filter.text);
    }
}

/// `8001:` as the number it stands for.
fn parse_handle(handle: &str) -> Option<u32> {
    let (major, minor) = handle.split_once(':')?;
    let minor = if minor.is_empty() { 0 } else { u32::from_str_radix(minor, 16).ok()? };
    Some(u32::from_str_radix(major, 16).ok()? << 16 | minor)
}

/// struct tcmsg for a dump: one interface (0: all), one parent (0: the root).
fn request(index: u32, parent: u32) -> [u8; 20] {
    let mut message = [0; 20];
    message[4..8].copy_from_slice(&index.to_ne_bytes());
    message[12..16].copy_from_slice(&parent.to_ne_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_namespace_has_a_loopback() {
        let (mut netlink, _) = Netlink::open(&Roots::default()).unwrap();
        let links = netlink.links();
        let lo = links.iter().find_map(|body| match body {
            Body::Link(link) if link.name == "lo" => Some(link),
            _ => None,
        });
        let lo = lo.unwrap();
        assert!(lo.index > 0 && lo.netns > 0 && lo.counters.contains_key("tx_bytes"));
    }

    #[test]
    fn namespaces_from_mounts_and_processes() {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1");
        let found = namespaces(&Roots::under(fixtures.as_ref()));
        let named: Vec<(u32, &str)> = found.iter().map(|n| (n.netns, &*n.name)).collect();
        let expected = [(4_026_531_840, ""), (4_026_532_300, "blue"), (4_026_532_400, "0a1b2c")];
        assert_eq!(named, expected);
    }

    #[test]
    fn a_filter_goes_where_it_steers() {
        let qdisc = |handle: &str, parent: &str, class| QdiscSample {
            index: 2,
            handle: handle.into(),
            parent: parent.into(),
            class,
            ..QdiscSample::default()
        };
        let mut found =
            [qdisc("1:", "root", false), qdisc("1:20", "1:", true), qdisc("20:", "1:20", false)];
        let filter = |class: Option<&str>| wire::Filter {
            index: 2,
            parent: "1:".into(),
            class: class.map(Into::into),
            text: "x".into(),
        };
        attach(filter(Some("1:20")), &mut found);
        attach(filter(None), &mut found);
        assert_eq!(found.map(|qdisc| qdisc.filters.len()), [1, 1, 0]);
    }

    #[test]
    fn handles_read_back() {
        assert_eq!(parse_handle("8001:"), Some(0x8001_0000));
        assert_eq!(parse_handle("1:2a"), Some(0x1_002a));
        assert_eq!(parse_handle("root"), None);
    }
}
