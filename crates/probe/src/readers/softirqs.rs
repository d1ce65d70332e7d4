//! What the CPUs handle as soft interrupts, by kind, and how often their own timers and network adapters interrupt them: /proc/softirqs,
//! and of /proc/interrupts the line `LOC` and those of the interrupts that an adapter has (`msi_irqs` of its device in sysfs).
//!
//! An interrupt that several interfaces share is nobody's. Rejected: the name at the end of a line, which every driver makes up.
//!
//! Time in them stands in /proc/stat (sampler.rs); this says what for. Read at both ends of a look. Rejected: the tracepoints
//! softirq_entry and softirq_exit, which would cost most where there are most interrupts.

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::{Roots, blind, text};
use holdup_reason::facts::{Body, Fact, SoftirqSample};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A sample of each CPU.
pub(super) fn softirqs(roots: &Roots) -> Vec<Body> {
    match text::read(&roots.proc.join("softirqs")) {
        Ok(bytes) => {
            let interrupts = text::read(&roots.proc.join("interrupts")).unwrap_or_default();
            let mut samples = parse(&bytes);
            let timers = local_timers(&interrupts);
            let mut adapters = of_adapters(&interrupts, &owners(&roots.sys));
            for sample in &mut samples {
                sample.local_timer = timers.get(&sample.cpu).copied();
                sample.adapters = adapters.remove(&sample.cpu).unwrap_or_default();
            }
            samples.into_iter().map(Body::SoftirqSample).collect()
        }
        Err(error) => {
            let therefore = "what interrupts are for is unknown";
            vec![Body::Blind(blind("proc.softirqs", &error, therefore))]
        }
    }
}

/// Read at both ends of a look.
pub(super) struct Softirqs;

impl Reader for Softirqs {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        softirqs(&look.roots).into_iter().for_each(|body| opening.put(body));
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        let read = softirqs(&look.roots);
        facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

/// The numbers of the line `LOC` of /proc/interrupts, by the CPUs of its first line.
fn local_timers(bytes: &[u8]) -> BTreeMap<u32, u64> {
    let mut lines = text::lines(bytes);
    let Some(cpus) = lines.next() else { return BTreeMap::new() };
    let cpus = text::words(cpus).filter_map(cpu);
    let its =
        lines.map(text::words).find_map(|mut words| (words.next()? == b"LOC:").then_some(words));
    let Some(counts) = its else { return BTreeMap::new() };
    cpus.zip(counts.map_while(text::number)).collect()
}

/// The interface of each interrupt of a network adapter.
fn owners(sys: &Path) -> BTreeMap<u64, String> {
    let mut owners = BTreeMap::new();
    let mut shared = BTreeSet::new();
    for interface in names(&sys.join("class/net")) {
        let device = sys.join("class/net").join(&interface).join("device");
        for irq in irqs(&device) {
            if owners.insert(irq, interface.clone()).is_some() {
                shared.insert(irq);
            }
        }
    }
    owners.retain(|irq, _| !shared.contains(irq));
    owners
}

/// The interrupts of a device. One without a place for any (`irq`), as those of virtio, has them of the device that it is a part of.
fn irqs(device: &Path) -> Vec<u64> {
    let own = device.join("irq").exists();
    let holder = if own { device.to_path_buf() } else { device.join("..") };
    names(&holder.join("msi_irqs"))
        .iter()
        .filter_map(|name| text::number(name.as_bytes()))
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// By CPU and interface, the numbers of the lines of these interrupts.
fn of_adapters(
    bytes: &[u8],
    owners: &BTreeMap<u64, String>,
) -> BTreeMap<u32, BTreeMap<String, u64>> {
    let mut all: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
    let mut lines = text::lines(bytes);
    let Some(cpus) = lines.next() else { return all };
    let cpus: Vec<u32> = text::words(cpus).filter_map(cpu).collect();
    for line in lines {
        let mut words = text::words(line);
        let irq = words.next().and_then(|word| text::number(word.strip_suffix(b":")?));
        let Some(interface) = irq.and_then(|irq| owners.get(&irq)) else { continue };
        for (cpu, count) in cpus.iter().zip(words.map_while(text::number)) {
            *all.entry(*cpu).or_default().entry(interface.clone()).or_default() += count;
        }
    }
    all
}

/// `CPU3`.
fn cpu(word: &[u8]) -> Option<u32> {
    text::number(word.strip_prefix(b"CPU")?).map(|cpu| cpu as u32)
}

/// A line with the CPUs that may be there, then one for each kind: `NET_RX:   12   34`.
fn parse(bytes: &[u8]) -> Vec<SoftirqSample> {
    let mut lines = text::lines(bytes);
    let Some(cpus) = lines.next() else { return Vec::new() };
    let mut samples: Vec<SoftirqSample> = text::words(cpus)
        .filter_map(cpu)
        .map(|cpu| SoftirqSample { cpu, ..SoftirqSample::default() })
        .collect();
    for line in lines {
        let mut words = text::words(line);
        let Some(kind) = words.next().and_then(|word| word.strip_suffix(b":")) else { continue };
        for (sample, count) in samples.iter_mut().zip(words) {
            if let Some(count) = text::number(count) {
                sample.counts.insert(text::lossy(kind), count);
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_the_cpus_that_the_first_line_has() {
        let file = b"            CPU0       CPU2\n  NET_RX:    5   700\nodd\n  TIMER:  1\n";
        let samples = parse(file);
        assert_eq!(samples.iter().map(|it| it.cpu).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((samples[0].counts["NET_RX"], samples[0].counts["TIMER"]), (5, 1));
        assert_eq!((samples[1].counts["NET_RX"], samples[1].counts.len()), (700, 1));
        assert_eq!(parse(b""), []);
    }

    #[test]
    fn interrupts_of_a_cpus_own_timer_are_the_numbers_of_one_line() {
        let file = b"            CPU0       CPU2\n   4:  9  1  IO-APIC  4-edge  ttyS0\n LOC:  500  70  Local timer interrupts\n";
        assert_eq!(local_timers(file), BTreeMap::from([(0, 500), (2, 70)]));
        assert!(local_timers(b"CPU0\n 11: 5 GICv3 arch_timer\n").is_empty());
    }

    #[test]
    fn interrupts_of_an_adapter_are_those_of_its_device_and_shared_ones_are_nobodys() {
        let sys = std::env::temp_dir().join(format!("holdup-adapters-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&sys);
        // A card of its own, a part of a virtio device, and two interfaces of one card.
        for (interface, irqs) in [
            ("eth0/device", vec!["eth0/device/irq", "eth0/device/msi_irqs/24"]),
            ("eth1/pci/device", vec!["eth1/pci/msi_irqs/25", "eth1/pci/msi_irqs/26"]),
            ("eth2/device", vec!["eth2/device/irq", "eth2/device/msi_irqs/27"]),
            ("eth3/device", vec!["eth3/device/irq", "eth3/device/msi_irqs/27"]),
            ("lo", vec![]),
        ] {
            let net = sys.join("class/net");
            std::fs::create_dir_all(net.join(interface)).unwrap();
            for file in irqs {
                std::fs::create_dir_all(net.join(file).parent().unwrap()).unwrap();
                std::fs::write(net.join(file), "").unwrap();
            }
        }
        let net = sys.join("class/net");
        std::os::unix::fs::symlink("pci/device", net.join("eth1/device")).unwrap();
        let owners = owners(&sys);
        std::fs::remove_dir_all(&sys).unwrap();
        let owner = |irq: u64| owners.get(&irq).map(String::as_str);
        assert_eq!([owner(24), owner(25), owner(27)], [Some("eth0"), Some("eth1"), None]);
        let file = b"     CPU0  CPU2\n 25:  5  7  PCI-MSIX-0000:00:03.0  1-edge  virtio2-input.0\n 26:  1  2 PCI-MSIX\n LOC:  9  9\n";
        let counted = of_adapters(file, &owners);
        assert_eq!((counted[&0]["eth1"], counted[&2]["eth1"]), (6, 9));
        assert_eq!(counted[&0].len(), 1);
    }
}
