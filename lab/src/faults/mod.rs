//! The faults by name. A new one is a type in a file of its own and a line here.

mod disks;
mod filesystems;
mod image;
mod memory;
mod quota;
mod stop;

use crate::fault::Fault;

/// The faults of each file.
fn all() -> impl Iterator<Item = &'static &'static dyn Fault> {
    [disks::FAULTS, filesystems::FAULTS, image::FAULTS, memory::FAULTS, quota::FAULTS, stop::FAULTS]
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
