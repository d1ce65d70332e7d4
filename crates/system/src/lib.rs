//! The lowest room: how /proc, /sys, namespaces and the memory of others are reached, and what holdup asks of the kernel for itself.
//!
//! Nothing here may block on what is being diagnosed:
//! - no stat() and no symlink resolution on foreign file systems: paths are compared with mountinfo, descriptors are read with
//!   readlink and fdinfo;
//! - files that take another process's memory lock or exec lock (cmdline, maps, smaps, stack, syscall) are read only when no thread
//!   of the process is in state D, and through [`guard`], which gives up on a read that hangs;
//! - [`memory`] takes the memory lock as well: it is read on threads that may be left behind alone.
//!
//! Must not: know what a look is for, or make any fact but what could not be read. Rejected: the live half of the procfs crate (it
//! knows one root, and its parsers refuse a line that is not UTF-8, so that one hostile comm would hide a whole table).

pub mod clock;
pub mod cpus;
pub mod guard;
pub mod io_priority;
pub mod links;
pub mod memory;
pub mod modules;
pub mod mounts;
pub mod namespaces;
pub mod own;
pub mod procmap;
mod refused;
mod roots;
pub mod semaphores;
pub mod stat;
pub mod status;
pub mod text;
pub mod units;
pub mod view;

pub use refused::{blind, is_refusal, refused, refused_by, root_helps};
pub use roots::Roots;
