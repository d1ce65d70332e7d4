//! CPUs: their times, soft interrupts and clocks, and what programs did on them.
//!
//! Must not: say who crowds whom (measure/cpu_users.rs).

use super::push::{Push, Series};
use crate::facts::*;
use std::collections::BTreeMap;

/// What was observed of CPUs.
#[derive(Debug, Default)]
pub struct Cpu {
    /// CPU times by CPU.
    pub(crate) times: BTreeMap<u32, Series<CpuSample>>,
    /// By CPU, in order of time.
    pub(crate) softirqs: BTreeMap<u32, Vec<SoftirqSample>>,
    /// How quickly each may run, in order of time.
    pub(crate) frequencies: BTreeMap<u32, Vec<CpuFrequency>>,
    /// On-CPU samples.
    pub(crate) samples: Vec<Samples>,
    /// On-CPU samples by system call and by the file of the code.
    pub(crate) work: Vec<Work>,
    /// What sampled threads asked of the kernel.
    pub(crate) efforts: Vec<Effort>,
    /// What threads that were asked about sent and received.
    pub(crate) messages: Vec<Messages>,
}

impl Push<CpuSample> for Cpu {
    fn push(&mut self, at: Ns, sample: CpuSample) {
        self.times.entry(sample.cpu).or_default().push((at, sample));
    }
}

impl Push<SoftirqSample> for Cpu {
    fn push(&mut self, _: Ns, sample: SoftirqSample) {
        self.softirqs.entry(sample.cpu).or_default().push(sample);
    }
}

impl Push<CpuFrequency> for Cpu {
    fn push(&mut self, _: Ns, one: CpuFrequency) {
        self.frequencies.entry(one.cpu).or_default().push(one);
    }
}

impl Push<Samples> for Cpu {
    fn push(&mut self, _: Ns, samples: Samples) {
        self.samples.push(samples);
    }
}

impl Push<Work> for Cpu {
    fn push(&mut self, _: Ns, work: Work) {
        self.work.push(work);
    }
}

impl Push<Messages> for Cpu {
    fn push(&mut self, _: Ns, messages: Messages) {
        self.messages.push(messages);
    }
}

impl Push<Effort> for Cpu {
    fn push(&mut self, _: Ns, effort: Effort) {
        self.efforts.push(effort);
    }
}
