//! Which CPUs run, and which are left alone by the tick.
//!
//! By /sys of the running machine. Must not: be asked for a fixture's; the kernel programs run on these.

use super::text;

/// Numbers of the CPUs that run.
pub fn online_cpus() -> Vec<u32> {
    listed("online")
}

/// Those on which the tick may stop while a thread runs: whoever runs there wants no interrupts.
pub fn tickless_cpus() -> Vec<u32> {
    listed("nohz_full")
}

fn listed(name: &str) -> Vec<u32> {
    let file = std::path::Path::new("/sys/devices/system/cpu").join(name);
    text::cpu_list(&std::fs::read_to_string(file).unwrap_or_default())
}
