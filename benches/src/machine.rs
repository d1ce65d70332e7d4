//! On what was measured: a figure without its machine says nothing.
//!
//! Read from /proc and /etc only; no serial numbers, no names of the host or its network.

use serde::{Deserialize, Serialize};
use std::fs;

/// A machine in a few words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// CPUs that are online.
    pub cpus: usize,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Under a hypervisor.
    pub virtual_machine: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the distribution.
    pub distribution: String,
    /// The day, UTC.
    pub date: String,
    /// Load average of the last minute when it began: what else went on.
    pub load_average: f64,
}

impl Machine {
    /// This one, now.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key));
            let value = line.and_then(|line| line.split_once([':', '=']));
            value.map_or(String::new(), |(_, value)| value.trim().trim_matches('"').to_string())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let kilobytes = memory.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        let seconds = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let load = read("/proc/loadavg");
        Self {
            processor: value(&cpuinfo, "model name"),
            cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            memory_bytes: kilobytes.unwrap_or(0) * 1024,
            virtual_machine: value(&cpuinfo, "flags").split(' ').any(|flag| flag == "hypervisor"),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            distribution: value(&read("/etc/os-release"), "PRETTY_NAME"),
            date: date(seconds / 86_400),
            load_average: load.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0.0),
        }
    }

    /// In one sentence.
    pub fn sentence(&self) -> String {
        format!(
            "{} CPUs of {}{}, {:.0} GiB, {}, Linux {}; {}, load average {:.2} at the begin",
            self.cpus,
            self.processor,
            if self.virtual_machine { " (virtual machine)" } else { "" },
            self.memory_bytes as f64 / f64::from(1 << 30),
            self.distribution,
            self.kernel,
            self.date,
            self.load_average,
        )
    }
}

/// Days since 1970 as year-month-day.
fn date(days: u64) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(59), "1970-03-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_454), "2026-01-01");
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::here();
        assert!(machine.cpus >= 1 && machine.memory_bytes > 0, "{machine:?}");
        assert!(machine.sentence().contains(&machine.kernel));
    }
}
