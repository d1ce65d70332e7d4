//! A debugger that stopped a process and went away from the keyboard.
//!
//! It seizes threads rather than attaching to them, so that no signal is left over, and never lets
//! them go by itself: the kernel does when it ends.

use crate::load::{Load, read};
use anyhow::bail;
use clap::Args;
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[("tracer", Load::Words(|words| read::<Tracer>(words)?.run()))];

/// Holds another process stopped, as a debugger does.
#[derive(Debug, Args)]
pub struct Tracer {
    /// Its threads.
    #[arg(required = true)]
    tids: Vec<i32>,
}

impl Tracer {
    /// Never returns; the kernel lets the process go when this one ends.
    pub fn run(self) -> anyhow::Result<()> {
        let nothing = std::ptr::null_mut::<libc::c_void>();
        for tid in self.tids {
            // SAFETY: neither request reads or writes memory of this process.
            unsafe {
                if libc::ptrace(libc::PTRACE_SEIZE, tid, nothing, nothing) != 0
                    || libc::ptrace(libc::PTRACE_INTERRUPT, tid, nothing, nothing) != 0
                {
                    bail!("trace {tid}: {}", std::io::Error::last_os_error());
                }
            }
        }
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}
