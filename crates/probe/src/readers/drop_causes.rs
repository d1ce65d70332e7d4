//! What packets were dropped by, where the reason alone does not say who is behind it: rules of the packet filter, who has a
//! tun or tap device open, and which CPUs an interface hands its packets on to.
//!
//! All are read as the look ends, and only where a packet was dropped for that reason, or somebody waits for what goes through a
//! tun device: a dump of all rules of a host, or a walk over all descriptors, is too much for a look that has no use for it. Must
//! not: say which rule it was, change anything, or open a file but of /proc and /sys.
//!
//! Edit together: netlink/nftables.rs (what a rule says), events.rs (what was dropped).

use super::look::Look;
use super::netlink::{Place, nftables};
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::links::namespace_at;
use crate::system::namespaces::network_namespaces;
use crate::system::{Roots, blind, guard, modules, text};
use holdup_reason::facts::{Blind, Body, Fact, PacketDrops, ReceiveSteering, TapReader, ThreadRef};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The reason, and the function that drops for it, where the kernel gives no reasons.
const FILTER: [&str; 2] = ["NETFILTER_DROP", "nf_hook_slow"];
/// What has the rules; a question to it where it is not there would load it.
const NF_TABLES: &str = "nf_tables";
/// What has those of before, which nobody is asked about: where one of them is loaded they may be its own.
const LEGACY_TABLES: [&str; 3] = ["ip_tables", "ip6_tables", "ebtables"];
const FULL_RING: [&str; 2] = ["FULL_RING", "tun_net_xmit"];
const FULL_BACKLOG: [&str; 2] = ["CPU_BACKLOG", "enqueue_to_backlog"];
/// Descriptors that are looked at: some tenths of a second on a host with that many.
const DESCRIPTORS_MAX: usize = 100_000;

/// See the head of the file.
pub(super) struct DropCauses;

impl Reader for DropCauses {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        let filtered: BTreeSet<u32> = dropped(look, FILTER).map(|(netns, _)| netns).collect();
        if let Some(blind) = not_asked(&look.roots, &filtered) {
            facts.push(Fact { at_ns, body: Body::Blind(blind) });
        } else if let (Some(netlink), false) = (look.netlink.as_mut(), filtered.is_empty()) {
            let read = netlink.ask(move |place, buffer| filter_rules(place, buffer, &filtered));
            facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        }
        let read = steering(&look.roots, dropped(look, FULL_BACKLOG).collect());
        facts.extend(read.into_iter().map(|it| Fact { at_ns, body: Body::ReceiveSteering(it) }));
        let mut taps: BTreeSet<String> = dropped(look, FULL_RING).map(|(_, name)| name).collect();
        taps.append(&mut look.waited.tunnels);
        if !taps.is_empty() {
            for reader in tap_readers(&look.roots, &taps) {
                look.identities.want(reader.process.pid);
                facts.push(Fact { at_ns, body: Body::TapReader(reader) });
            }
        }
        Ok(())
    }
}

/// That the rules are not asked for where they filtered. Whether they can be is looked at only then: it may take a read of a disk.
fn not_asked(roots: &Roots, filtered: &BTreeSet<u32>) -> Option<Blind> {
    if filtered.is_empty() || modules::is_there(roots, NF_TABLES) {
        return None;
    }
    let therefore = "which rule of the packet filter drops is not known";
    // Named as one that could not be read in one namespace is: the tables of drops say both.
    let mut blind = modules::not_asked(&format!("filters.{NF_TABLES}"), NF_TABLES, therefore);
    let is_loaded = |name: &str| roots.sys.join("module").join(name).exists();
    if LEGACY_TABLES.iter().any(|name| is_loaded(name)) {
        // It shows none of their rules.
        blind.remedy.clear();
    }
    Some(blind)
}

/// Where packets were dropped for a reason: namespace and interface.
fn dropped(
    look: &Look,
    [reason, function]: [&'static str; 2],
) -> impl Iterator<Item = (u32, String)> {
    let is_it = move |drops: &PacketDrops| match drops.reason.as_str() {
        "" => drops.function == function,
        given => given == reason,
    };
    look.last.sums.iter().filter_map(move |body| match body {
        Body::PacketDrops(drops) if is_it(drops) => Some((drops.netns, drops.interface.clone())),
        _ => None,
    })
}

/// The masks of interfaces, through a process of each namespace: its /sys may be anything, so each is read with a time limit.
fn steering(roots: &Roots, interfaces: BTreeSet<(u32, String)>) -> Vec<ReceiveSteering> {
    if interfaces.is_empty() {
        return Vec::new();
    }
    let own = namespace_at(&roots.proc.join("self/ns/net"));
    let namespaces = network_namespaces(roots);
    let place = |(netns, name): (u32, String)| {
        let sys = match own == Some(netns) {
            true => roots.sys.clone(),
            false => roots.process(*namespaces.get(&netns)?, "root/sys"),
        };
        (!name.contains('/')).then_some((netns, name, sys))
    };
    let places = interfaces.into_iter().filter_map(place).collect();
    guard::map(places, masks).into_iter().flatten().flatten().collect()
}

fn masks((netns, interface, sys): &(u32, String, PathBuf)) -> Option<ReceiveSteering> {
    let device = sys.join("class/net").join(interface);
    let index = text::read_text(&device.join("ifindex")).ok()?.trim().parse().ok()?;
    let queues = device.join("queues");
    let file = |queue: u32| queues.join(format!("rx-{queue}/rps_cpus"));
    let mask = |queue| text::read_text(&file(queue)).ok().map(|mask| mask.trim().to_string());
    let masks = (0..).map_while(mask).collect();
    // Of a container it is mounted read-only mostly.
    let may_write = rustix::fs::access(file(0), rustix::fs::Access::WRITE_OK).is_ok();
    let folder = if may_write { queues.to_string_lossy().into_owned() } else { String::new() };
    Some(ReceiveSteering { netns: *netns, interface: interface.clone(), index, masks, folder })
}

fn filter_rules(
    place: &mut Place,
    buffer: &mut Vec<u8>,
    wanted: &BTreeSet<u32>,
) -> io::Result<Vec<Body>> {
    let netns = place.namespace.netns;
    if !wanted.contains(&netns) {
        return Ok(Vec::new());
    }
    let read = place.filter_socket().and_then(|socket| nftables::dropping(&socket, buffer));
    Ok(match read {
        Ok(mut rules) => {
            rules.iter_mut().for_each(|rule| rule.netns = netns);
            rules.into_iter().map(Body::FilterRule).collect()
        }
        Err(error) => {
            let therefore = "which rule of the packet filter drops there is not known";
            vec![Body::Blind(blind(&format!("filters.{netns}"), &error, therefore))]
        }
    })
}

/// Who has one of these devices open.
fn tap_readers(roots: &Roots, interfaces: &BTreeSet<String>) -> Vec<TapReader> {
    const DEVICE: &[u8] = b"/dev/net/tun";
    let (mut found, mut looked_at) = (Vec::new(), 0);
    for pid in text::ids(&roots.proc).unwrap_or_default() {
        let Ok(descriptors) = std::fs::read_dir(roots.process(pid, "fd")) else { continue };
        for descriptor in descriptors.flatten() {
            looked_at += 1;
            if looked_at > DESCRIPTORS_MAX {
                return found;
            }
            let leads_to = std::fs::read_link(descriptor.path());
            if !leads_to.is_ok_and(|to| to.as_os_str().as_bytes().ends_with(DEVICE)) {
                continue;
            }
            let fd = descriptor.file_name();
            let info = text::read(&roots.process(pid, "fdinfo").join(fd)).unwrap_or_default();
            let Some(interface) = interface_of(&info).filter(|it| interfaces.contains(it)) else {
                continue;
            };
            let netns = namespace_at(&roots.process(pid, "ns/net")).unwrap_or(0);
            let comm = text::read_text(&roots.process(pid, "comm")).unwrap_or_default();
            let comm = comm.trim_end().to_string();
            let process = ThreadRef { tid: pid, pid, start_ns: 0, comm };
            let reader = TapReader { netns, interface, process };
            if !found.contains(&reader) {
                found.push(reader);
            }
        }
    }
    found
}

/// `iff:\ttap0`.
fn interface_of(info: &[u8]) -> Option<String> {
    let line = text::lines(info).find_map(|line| line.strip_prefix(b"iff:"))?;
    text::words(line).next().map(text::lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_of_a_tap_says_which() {
        let info = b"pos:\t0\nflags:\t0100002\nmnt_id:\t24\nino:\t9\niff:\ttap0\n";
        assert_eq!(interface_of(info).as_deref(), Some("tap0"));
        assert_eq!(interface_of(b"pos:\t0\niff:\t\n"), None);
    }

    #[test]
    fn rules_that_are_not_asked_for_are_said_where_they_filtered() {
        let root = std::env::temp_dir().join(format!("holdup-filters-{}", std::process::id()));
        let roots = Roots { proc: root.join("proc"), sys: root.join("sys"), root: root.clone() };
        std::fs::create_dir_all(root.join("proc/sys/kernel")).expect("a folder");
        std::fs::write(root.join("proc/sys/kernel/osrelease"), "0.0.0-none\n").expect("a file");
        std::fs::write(root.join("proc/modules"), "").expect("a file");
        let (none, one) = (BTreeSet::new(), BTreeSet::from([7]));
        assert_eq!(not_asked(&roots, &none), None, "nothing was filtered");
        let blind = not_asked(&roots, &one).expect("nothing shows the part that has them");
        assert_eq!((&*blind.what, &*blind.remedy), ("filters.nf_tables", "modprobe nf_tables"));
        std::fs::create_dir_all(root.join("sys/module/ip_tables")).expect("a folder");
        let blind = not_asked(&roots, &one).expect("the same");
        assert_eq!(blind.remedy, "", "the rules may be another part's");
        std::fs::create_dir_all(root.join("sys/module/nf_tables")).expect("a folder");
        assert_eq!(not_asked(&roots, &one), None, "it is asked");
        drop(std::fs::remove_dir_all(&root));
    }

    #[test]
    fn masks_are_read_of_the_namespace_that_is_meant() {
        let roots = Roots::default();
        let Some(netns) = namespace_at(&roots.proc.join("self/ns/net")) else { return };
        let read = |netns, name: &str| steering(&roots, [(netns, name.to_string())].into());
        assert_eq!(read(netns, "../net/lo"), []);
        assert_eq!(read(0, "lo"), []);
        let read = read(netns, "lo");
        assert_eq!(read.iter().map(|it| (it.index, it.masks.len())).collect::<Vec<_>>(), [(1, 1)]);
    }

    #[test]
    fn who_has_none_open_is_no_reader() {
        let roots = Roots::default();
        assert_eq!(tap_readers(&roots, &BTreeSet::from(["no such device".to_string()])), []);
    }
}
