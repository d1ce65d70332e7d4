//! The faults by name. A new one is a type in a file of its own and a line here.
//!
//! This file owns the registry alone; what a fault does, proves and undoes is in its own file. A name in
//! here is what `scenario.toml` says in `fault`, so renaming one means editing scenarios too.

mod acknowledgements;
mod addressing;
mod bridged;
mod broken;
mod chain;
mod cpu;
mod datagrams;
mod disks;
mod dns;
mod dropped;
mod filesystems;
mod full;
mod image;
mod kernel_lock;
mod lock;
mod memory;
mod net;
mod passing;
mod path;
mod peers;
mod process;
mod proxy;
mod quota;
mod refused;
mod relay;
mod runtime;
pub mod stage;
mod stop;
mod undelivered;
mod ways_back;

use crate::fault::Fault;

/// The faults of each file.
fn all() -> impl Iterator<Item = &'static &'static dyn Fault> {
    [
        acknowledgements::FAULTS,
        addressing::FAULTS,
        bridged::FAULTS,
        broken::FAULTS,
        chain::FAULTS,
        cpu::FAULTS,
        datagrams::FAULTS,
        disks::FAULTS,
        dns::FAULTS,
        dropped::FAULTS,
        filesystems::FAULTS,
        full::FAULTS,
        image::FAULTS,
        kernel_lock::FAULTS,
        lock::FAULTS,
        memory::FAULTS,
        net::FAULTS,
        passing::FAULTS,
        path::FAULTS,
        peers::FAULTS,
        process::FAULTS,
        proxy::FAULTS,
        quota::FAULTS,
        refused::FAULTS,
        relay::FAULTS,
        runtime::FAULTS,
        stop::FAULTS,
        undelivered::FAULTS,
        ways_back::FAULTS,
    ]
    .into_iter()
    .flatten()
}

/// The fault of that name.
pub fn find(name: &str) -> Option<&'static dyn Fault> {
    all().find(|fault| fault.name() == name).copied()
}

/// All names.
pub fn names() -> Vec<&'static str> {
    all().map(|fault| fault.name()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique() {
        let names = super::names();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
