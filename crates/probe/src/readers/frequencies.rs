//! How quickly the CPUs may run: /sys/devices/system/cpu/cpuN/cpufreq, and how often heat held them back.
//!
//! Read at both ends of a look. A virtual machine has none of it, which is no gap. Must not: read the current frequency, for
//! which some drivers interrupt each CPU and wait.

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::{Roots, text};
use holdup_reason::facts::{Body, CpuFrequency, Fact};
use std::path::Path;

/// A reading of each CPU that has one.
pub(super) fn frequencies(roots: &Roots) -> Vec<Body> {
    let folder = roots.sys.join("devices/system/cpu");
    let name = |name: String| {
        let cpu = name.strip_prefix("cpu")?.parse().ok()?;
        of(&folder.join(&name), cpu)
    };
    text::names(&folder).into_iter().filter_map(name).map(Body::CpuFrequency).collect()
}

/// Read at both ends of a look.
pub(super) struct Frequencies;

impl Reader for Frequencies {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        frequencies(&look.roots).into_iter().for_each(|body| opening.put(body));
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        let read = frequencies(&look.roots);
        facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

/// Limits are in kHz there.
fn of(folder: &Path, cpu: u32) -> Option<CpuFrequency> {
    let policy = folder.join("cpufreq");
    let hertz = |file: &str| Some(text::read_number(&policy.join(file))? * 1000);
    let word = |file: &str| text::read_text(&policy.join(file)).unwrap_or_default();
    Some(CpuFrequency {
        cpu,
        hardware_hz: hertz("cpuinfo_max_freq")?,
        most_hz: hertz("scaling_max_freq")?,
        least_hz: hertz("scaling_min_freq")?,
        governor: word("scaling_governor"),
        driver: word("scaling_driver"),
        throttled: text::read_number(&folder.join("thermal_throttle/core_throttle_count")),
    })
}
