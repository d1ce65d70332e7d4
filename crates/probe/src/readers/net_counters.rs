//! Protocol counters of network namespaces, through one process of each:
//! /proc/PID/net/{netstat,snmp,snmp6,stat/*_cache} and, once for the host, softnet_stat and the memory of TCP in sockstat.
//!
//! Names come from the files, so that a counter a newer kernel adds is reported without a change here;
//! rejected: procfs_core's structs, which know the names of their day.

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::links::namespace_at;
use crate::system::namespaces::network_namespaces;
use crate::system::{Roots, blind, text};
use holdup_reason::facts::{Body, Fact, NetCounters};
use std::collections::BTreeMap;
use std::path::Path;

type Counters = BTreeMap<String, u64>;

/// Counters of each namespace, read through a process in it.
pub fn net_counters(roots: &Roots, pid_per_netns: &BTreeMap<u32, u32>) -> Vec<Body> {
    let at = |process: &str| namespace_at(&roots.proc.join(process).join("ns/net"));
    let own = at("1").or_else(|| at("self"));
    let mut facts = Vec::new();
    for (netns, pid) in pid_per_netns {
        let mut counters = Counters::new();
        let net = roots.process(*pid, "net");
        match text::read(&net.join("netstat")) {
            Ok(bytes) => pairs(&bytes, &mut counters),
            Err(error) => {
                let what = format!("net.counters.{netns}");
                let therefore = "drops and overflows of that network namespace are unknown";
                facts.push(Body::Blind(blind(&what, &error, therefore)));
                continue;
            }
        }
        pairs(&text::read(&net.join("snmp")).unwrap_or_default(), &mut counters);
        snmp6(&text::read(&net.join("snmp6")).unwrap_or_default(), &mut counters);
        for table in ["arp_cache", "ndisc_cache", "nf_conntrack"] {
            neighbours(&net.join("stat").join(table), table, &mut counters);
        }
        // The backlog belongs to CPUs, not to namespaces; the memory of a protocol to all of them together.
        if own == Some(*netns) {
            let stat = sockstat(&text::read(&net.join("sockstat")).unwrap_or_default());
            counters.extend(stat.into_iter().filter(|(name, _)| name == TCP_MEMORY));
            softnet(&text::read(&net.join("softnet_stat")).unwrap_or_default(), &mut counters);
        }
        facts.push(Body::NetCounters(NetCounters { netns: *netns, counters }));
    }
    facts
}

/// Read at both ends of a look, of the namespaces that are there then.
pub struct NamespaceCounters;

impl Reader for NamespaceCounters {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        net_counters(&look.roots, &opening.settings.namespaces)
            .into_iter()
            .for_each(|body| opening.put(body));
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        let namespaces = network_namespaces(&look.roots);
        let read = net_counters(&look.roots, &namespaces);
        facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

/// netstat and snmp: a line of names, then a line of values, both beginning with the table's name.
fn pairs(bytes: &[u8], counters: &mut Counters) {
    let lines: Vec<&[u8]> = text::lines(bytes).collect();
    for pair in lines.chunks_exact(2) {
        let [names, values] = pair else { continue };
        let mut names = text::words(names);
        let mut values = text::words(values);
        let (Some(table), Some(again)) = (names.next(), values.next()) else { continue };
        if table != again {
            continue;
        }
        let table = text::lossy(table).trim_end_matches(':').to_string();
        for (name, value) in names.zip(values) {
            // Tcp.MaxConn is -1: no counter.
            if let Some(value) = text::number(value) {
                counters.insert(format!("{table}.{}", text::lossy(name)), value);
            }
        }
    }
}

/// Lines such as `Udp6RcvbufErrors 0`, reported as `Udp6.RcvbufErrors`.
fn snmp6(bytes: &[u8], counters: &mut Counters) {
    for line in text::lines(bytes) {
        let mut words = text::words(line);
        let (Some(name), Some(value)) = (words.next(), words.next().and_then(text::number)) else {
            continue;
        };
        let name = text::lossy(name);
        if let Some((table, counter)) = name.split_once('6') {
            counters.insert(format!("{table}6.{counter}"), value);
        }
    }
}

/// What all TCP sockets use, pages.
const TCP_MEMORY: &str = "sockstat.TCP.mem";

/// Lines such as `TCP: inuse 5 orphan 0 tw 3 alloc 8 mem 2`, of sockstat and sockstat6, reported as `sockstat.TCP.inuse`. Not counters, but
/// what there is at that moment.
pub(super) fn sockstat(bytes: &[u8]) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in text::lines(bytes) {
        let mut words = text::words(line);
        let Some(table) = words.next().map(text::lossy) else { continue };
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            if let Some(value) = text::number(value) {
                let table = table.trim_end_matches(':');
                found.insert(format!("sockstat.{table}.{}", text::lossy(name)), value);
            }
        }
    }
    found
}

/// One line per CPU, hexadecimal: processed, dropped, squeezed; the CPU's number is column 13 since
/// 5.10, before that the line's.
fn softnet(bytes: &[u8], counters: &mut Counters) {
    for (line_number, line) in text::lines(bytes).enumerate() {
        let columns: Vec<u64> = text::words(line).filter_map(hex).collect();
        let cpu = columns.get(12).copied().unwrap_or(line_number as u64);
        for (name, column) in [("processed", 0), ("dropped", 1), ("time_squeeze", 2)] {
            let value = columns.get(column).copied().unwrap_or(0);
            let sum = counters.entry(format!("softnet.{name}")).or_default();
            *sum = sum.saturating_add(value);
            counters.insert(format!("softnet.{name}.cpu{cpu}"), value);
        }
    }
}

/// A line of names, then a line of hexadecimal values per CPU; `entries` is the same on each.
fn neighbours(path: &Path, table: &str, counters: &mut Counters) {
    let bytes = text::read(path).unwrap_or_default();
    let mut lines = text::lines(&bytes);
    let names: Vec<String> =
        lines.next().map(|l| text::words(l).map(text::lossy).collect()).unwrap_or_default();
    for line in lines {
        for (name, value) in names.iter().zip(text::words(line).filter_map(hex)) {
            let slot = counters.entry(format!("{table}.{name}")).or_default();
            *slot = if name == "entries" { value } else { slot.saturating_add(value) };
        }
    }
}

fn hex(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let mut counters = Counters::new();
        pairs(b"Tcp: MaxConn InSegs\nTcp: -1 7\nUdp: InErrors\nTcp: 3\n", &mut counters);
        snmp6(b"Ip6InReceives   5\nUdp6RcvbufErrors 2\n", &mut counters);
        let expected = [("Ip6.InReceives", 5), ("Tcp.InSegs", 7), ("Udp6.RcvbufErrors", 2)];
        assert_eq!(counters, expected.map(|(name, value)| (name.to_string(), value)).into());
    }

    #[test]
    fn sockets_by_protocol() {
        let found =
            sockstat(b"sockets: used 9\nTCP: inuse 5 orphan 1 tw 3 alloc 8 mem 2\nRAW: inuse\n");
        assert_eq!((found["sockstat.TCP.tw"], found[TCP_MEMORY]), (3, 2));
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn the_memory_of_tcp_is_read_once_for_all_namespaces() {
        let proc = std::env::temp_dir().join(format!("holdup-test-tcp-{}", std::process::id()));
        let net = proc.join("1/net");
        std::fs::create_dir_all(&net).unwrap();
        std::fs::create_dir_all(proc.join("1/ns")).unwrap();
        std::os::unix::fs::symlink("net:[5]", proc.join("1/ns/net")).unwrap();
        std::fs::write(net.join("netstat"), "TcpExt: SyncookiesSent\nTcpExt: 4\n").unwrap();
        std::fs::write(net.join("sockstat"), "TCP: inuse 5 orphan 0 tw 0 alloc 8 mem 77\n")
            .unwrap();
        let roots = Roots { proc: proc.clone(), ..Roots::default() };
        let read = |netns: u32| match &net_counters(&roots, &[(netns, 1)].into())[..] {
            [Body::NetCounters(read)] => read.counters.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(5).get(TCP_MEMORY), Some(&77));
        assert_eq!(read(5).keys().filter(|name| name.starts_with("sockstat")).count(), 1);
        assert_eq!(read(6).get(TCP_MEMORY), None);
        std::fs::remove_dir_all(proc).unwrap();
    }

    #[test]
    fn softnet_by_cpu() {
        let line = |cpu| format!("0000000a 00000001 00000002 0 0 0 0 0 0 0 0 0 {cpu:08x} 0 0\n");
        let mut counters = Counters::new();
        softnet((line(0) + &line(3)).as_bytes(), &mut counters);
        assert_eq!(counters["softnet.processed"], 20);
        assert_eq!(counters["softnet.dropped.cpu3"], 1);
        assert_eq!(counters["softnet.time_squeeze"], 4);
    }
}
