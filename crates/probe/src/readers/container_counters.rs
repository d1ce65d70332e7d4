//! Counters that only the container that is looked at is asked for: pressure, processes, swap, its network.
//!
//! What every group is asked for is in cgroup_samples.rs; to ask thousands of groups for these too would make every look
//! begin later. The network is read through one member's /proc/PID/net/dev: no namespace is entered. Must not: reason, or
//! read the members' list more than once a sample (the kernel walks all threads of the group for it).

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::{Roots, text};
use holdup_reason::facts::*;
use std::path::{Path, PathBuf};

/// Levels of groups below a container that are looked through for a process.
const DEPTH_MAX: usize = 4;
/// Interfaces that are reported.
const INTERFACES_MAX: usize = 16;

/// Where a container's counters lie.
#[derive(Debug)]
pub(crate) struct ContainerCounters {
    directories: Vec<PathBuf>,
}

impl ContainerCounters {
    /// One reading.
    fn sample(&self, roots: &Roots) -> Body {
        let number = |file: &str| self.sum(|folder| text::read_number(&folder.join(file)));
        let keyed = |key: &str| {
            self.sum(|folder| text::keyed(&text::read(&folder.join("memory.stat")).ok()?, key))
        };
        let mut sample = ContainerSample {
            pids: number("pids.current"),
            inactive_file_bytes: keyed("total_inactive_file").or_else(|| keyed("inactive_file")),
            swap_bytes: number("memory.swap.current").or_else(|| keyed("total_swap")),
            memory_peak_bytes: number("memory.peak")
                .or_else(|| number("memory.max_usage_in_bytes")),
            pressure: self.directories.iter().find_map(|folder| pressure(folder)),
            ..ContainerSample::default()
        };
        if let Some(pid) = self.directories.iter().find_map(|folder| member(folder, DEPTH_MAX)) {
            network(roots, pid, &mut sample);
        }
        Body::ContainerSample(sample)
    }

    /// Of all directories that have it; each controller of v1 is in one hierarchy.
    fn sum(&self, of: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
        self.directories.iter().filter_map(|folder| of(folder)).reduce(u64::saturating_add)
    }
}

impl Reader for ContainerCounters {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        let counters = Self { directories: std::mem::take(&mut opening.settings.directories) };
        if look.scope.container.is_some() {
            opening.put(counters.sample(&look.roots));
        }
        Ok(counters)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        if look.scope.container.is_some() {
            facts.push(Fact { at_ns: now(), body: self.sample(&look.roots) });
        }
        Ok(())
    }
}

/// Totals of cgroup v2's pressure files, microseconds.
fn pressure(folder: &Path) -> Option<Pressure> {
    let total = |file: &str, kind: &str| {
        let bytes = text::read(&folder.join(file)).ok()?;
        let text = text::lossy(&bytes);
        let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
        line.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
    };
    Some(Pressure {
        cpu_some_us: total("cpu.pressure", "some")?,
        io_some_us: total("io.pressure", "some").unwrap_or(0),
        io_full_us: total("io.pressure", "full").unwrap_or(0),
        memory_some_us: total("memory.pressure", "some").unwrap_or(0),
        memory_full_us: total("memory.pressure", "full").unwrap_or(0),
    })
}

/// A process of a group, or of one below it.
fn member(folder: &Path, depth: usize) -> Option<u32> {
    let own = text::read(&folder.join("cgroup.procs")).unwrap_or_default();
    // 0 is a process of another PID namespace.
    let first = text::words(&own).filter_map(text::number).find(|pid| *pid > 0);
    if let Some(pid) = first {
        return u32::try_from(pid).ok();
    }
    let below = std::fs::read_dir(folder).ok().filter(|_| depth > 0)?;
    let folders = below.flatten().filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.take(INTERFACES_MAX).find_map(|it| member(&it.path(), depth - 1))
}

fn network(roots: &Roots, pid: u32, sample: &mut ContainerSample) {
    let of = |id: &str| std::fs::read_link(roots.proc.join(id).join("ns/net")).ok();
    let (own, hosts) = (of(&pid.to_string()), of("1").or_else(|| of("self")));
    sample.own_network = own.zip(hosts).map(|(own, hosts)| own != hosts);
    if sample.own_network == Some(true) {
        let bytes = text::read(&roots.process(pid, "net/dev")).unwrap_or_default();
        sample.interfaces = interfaces(&bytes);
    }
}

/// `  eth0: 1 2 ...`: eight numbers of what was received, eight of what was sent (net/core/net-procfs.c).
fn interfaces(bytes: &[u8]) -> Vec<InterfaceSample> {
    let interface = |line: &[u8]| {
        let line = text::lossy(line);
        let (name, numbers) = line.rsplit_once(':')?;
        let numbers: Vec<u64> =
            numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [
            rx_bytes,
            rx_packets,
            _,
            rx_dropped,
            _,
            _,
            _,
            _,
            tx_bytes,
            tx_packets,
            _,
            tx_dropped,
            ..,
        ] = numbers[..]
        else {
            return None;
        };
        let name = name.trim().to_string();
        Some(InterfaceSample {
            name,
            rx_bytes,
            rx_packets,
            rx_dropped,
            tx_bytes,
            tx_packets,
            tx_dropped,
        })
    };
    text::lines(bytes).filter_map(interface).take(INTERFACES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_by_their_place_and_broken_lines_are_none() {
        let file = b"Inter-|   Receive      |  Transmit\n face |bytes packets errs\n\
            eth0: 180568 89 0 3 0 0 0 0 28316 92 0 1 0 0 0 0\n  a:b: 1 2 3 4 5 6 7 8 9 10 11 12\nx: 1 2\ny: -\n";
        let found = interfaces(file);
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["eth0", "a:b"]);
        let eth0 = &found[0];
        assert_eq!((eth0.rx_bytes, eth0.rx_packets, eth0.rx_dropped), (180_568, 89, 3));
        assert_eq!((eth0.tx_bytes, eth0.tx_packets, eth0.tx_dropped), (28_316, 92, 1));
    }

    #[test]
    fn what_a_group_lacks_is_absent_and_no_zero() {
        let name = format!("holdup-counters-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).expect("written");
        };
        write("memory.stat", "anon 5\ninactive_file 4096\n");
        write("cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n");
        let counters = ContainerCounters { directories: vec![folder.clone()] };
        let seen = counters.sample(&Roots::under(&folder));
        std::fs::remove_dir_all(&folder).expect("removed");
        let Body::ContainerSample(sample) = seen else { unreachable!() };
        assert_eq!((sample.inactive_file_bytes, sample.pids), (Some(4096), None));
        assert_eq!(sample.pressure.map(|it| (it.cpu_some_us, it.io_full_us)), Some((77, 0)));
        assert_eq!((sample.own_network, sample.interfaces), (None, vec![]));
    }
}
