//! What the program `holdup-lab-load` can be: a file for what each kind needs of the host.
//!
//! Owns the list of files and nothing else; each file has its own list of kinds. None of them shapes traffic, limits a
//! group or slows a disk: that is the injector's part.

pub mod bad_line;
pub mod cpu;
pub mod disk;
pub mod dns;
pub mod enter;
pub mod far_host;
pub mod fuse_lock;
pub mod hog;
pub mod kernel;
pub mod lock;
pub mod memory;
pub mod net;
pub mod netdevices;
pub mod pipe;
pub mod service;
pub mod slow;
pub mod spawn;
pub mod trace;
pub mod tty;
pub mod udp;
pub mod unix;

use super::Load;

/// The kinds of each file: a name, and how it runs.
pub fn all() -> impl Iterator<Item = &'static (&'static str, Load)> {
    [
        bad_line::LOADS,
        cpu::LOADS,
        disk::LOADS,
        dns::LOADS,
        enter::LOADS,
        far_host::LOADS,
        fuse_lock::LOADS,
        hog::LOADS,
        kernel::LOADS,
        lock::LOADS,
        memory::LOADS,
        net::LOADS,
        netdevices::LOADS,
        pipe::LOADS,
        service::LOADS,
        slow::LOADS,
        spawn::LOADS,
        trace::LOADS,
        tty::LOADS,
        udp::LOADS,
        unix::LOADS,
    ]
    .into_iter()
    .flatten()
}
