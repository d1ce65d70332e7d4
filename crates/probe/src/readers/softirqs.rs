//! What the CPUs handle as soft interrupts, by kind, and how often their own timers interrupt them: /proc/softirqs and the line
//! `LOC` of /proc/interrupts.
//!
//! Time in them stands in /proc/stat (sampler.rs); this says what for. Read at both ends of a look. Rejected: the tracepoints
//! softirq_entry and softirq_exit, which would cost most where there are most interrupts.

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::{Roots, blind, text};
use holdup_reason::facts::{Body, Fact, SoftirqSample};
use std::collections::BTreeMap;

/// A sample of each CPU.
pub(super) fn softirqs(roots: &Roots) -> Vec<Body> {
    match text::read(&roots.proc.join("softirqs")) {
        Ok(bytes) => {
            let interrupts = text::read(&roots.proc.join("interrupts")).unwrap_or_default();
            let mut samples = parse(&bytes);
            let timers = local_timers(&interrupts);
            for sample in &mut samples {
                sample.local_timer = timers.get(&sample.cpu).copied();
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
}
