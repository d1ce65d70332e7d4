//! What the CPUs handle as soft interrupts, by kind: /proc/softirqs.
//!
//! Time in them stands in /proc/stat (sampler.rs); this says what for. Read at both ends of a look. Rejected: the tracepoints
//! softirq_entry and softirq_exit, which would cost most where there are most interrupts.

use super::{Roots, blind, text};
use holdup_reason::facts::{Body, SoftirqSample};

/// A sample of each CPU.
pub fn softirqs(roots: &Roots) -> Vec<Body> {
    match text::read(&roots.proc.join("softirqs")) {
        Ok(bytes) => parse(&bytes).into_iter().map(Body::SoftirqSample).collect(),
        Err(error) => {
            let therefore = "what interrupts are for is unknown";
            vec![Body::Blind(blind("proc.softirqs", &error, therefore))]
        }
    }
}

/// A line with the CPUs that may be there, then one for each kind: `NET_RX:   12   34`.
fn parse(bytes: &[u8]) -> Vec<SoftirqSample> {
    let mut lines = text::lines(bytes);
    let cpu = |word: &[u8]| text::number(word.strip_prefix(b"CPU")?).map(|cpu| cpu as u32);
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
}
