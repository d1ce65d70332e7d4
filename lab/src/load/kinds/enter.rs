//! Runs a command in a network namespace, with files of its own in /etc.
//!
//! The mount namespace is private to the command, so the bind mount ends with it: nothing to undo.

use crate::load::{Load, read};
use anyhow::{Context, bail};
use clap::Args;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[("enter", Load::Words(|words| read::<Enter>(words)?.run()))];

/// Runs a command in a network namespace, with files of its own in /etc.
#[derive(Debug, Args)]
pub struct Enter {
    /// File of the network namespace, as in /run/netns.
    #[arg(long)]
    netns: Option<PathBuf>,
    /// Directory whose files are shown in /etc, as iproute2 does it.
    #[arg(long)]
    etc: Option<PathBuf>,
    /// cgroup directories to join.
    #[arg(long)]
    cgroup: Vec<PathBuf>,
    /// The command.
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
}

/// Moves the calling thread into the network namespace, and hides files of /etc under those of `etc`
/// in a mount namespace of its own.
pub fn enter(netns: Option<&Path>, etc: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = netns {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        // SAFETY: the descriptor is open for the length of the call.
        if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
            bail!("setns {}: {}", path.display(), std::io::Error::last_os_error());
        }
    }
    let Some(etc) = etc else { return Ok(()) };
    // SAFETY: the string is terminated and outlives the calls.
    unsafe {
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        let nothing = std::ptr::null();
        if libc::unshare(libc::CLONE_NEWNS) != 0
            || libc::mount(c"none".as_ptr(), c"/".as_ptr(), nothing, flags, nothing.cast()) != 0
        {
            bail!("a mount namespace: {}", std::io::Error::last_os_error());
        }
    }
    for file in std::fs::read_dir(etc).with_context(|| etc.display().to_string())? {
        let file = file?;
        show(&file.path(), &Path::new("/etc").join(file.file_name()))?;
    }
    Ok(())
}

/// Hides a file under another one.
fn show(file: &Path, over: &Path) -> anyhow::Result<()> {
    let from = CString::new(file.as_os_str().as_bytes())?;
    let to = CString::new(over.as_os_str().as_bytes())?;
    let nothing = std::ptr::null();
    // SAFETY: both strings are terminated and outlive the call.
    let done =
        unsafe { libc::mount(from.as_ptr(), to.as_ptr(), nothing, libc::MS_BIND, nothing.cast()) };
    if done != 0 {
        let error = std::io::Error::last_os_error();
        bail!("bind {} on {}: {error}", file.display(), over.display());
    }
    Ok(())
}

impl Enter {
    /// Becomes the command.
    pub fn run(self) -> anyhow::Result<()> {
        for directory in &self.cgroup {
            std::fs::write(directory.join("cgroup.procs"), "0")
                .with_context(|| directory.display().to_string())?;
        }
        enter(self.netns.as_deref(), self.etc.as_deref())?;
        let (program, arguments) = self.command.split_first().context("no command")?;
        Err(std::process::Command::new(program).args(arguments).exec())
            .with_context(|| program.display().to_string())
    }
}
