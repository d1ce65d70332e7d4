//! The master side of a pseudo-terminal, as a screen or terminal program holds it.
//!
//! It says which terminal it opened, keeps the slave side open so that writers may come and go,
//! and reads what they print, until its switch stops it: `unread` (the master is no longer read)
//! or `ctrl-s` (typed once; it goes on reading).

use crate::load::Switch;
use crate::load::{Load, read};
use anyhow::bail;
use clap::Args;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] =
    &[("terminal", Load::Words(|words| read::<Terminal>(words)?.run()))];

/// Holds the master side of a pseudo-terminal.
#[derive(Debug, Args)]
pub struct Terminal {
    /// File to write the terminal's path to.
    name_to: PathBuf,
    /// While this file is there, output stops: `unread` or `ctrl-s`.
    #[arg(long)]
    switch: Option<PathBuf>,
}

fn open_pair() -> anyhow::Result<(File, OwnedFd)> {
    let (mut master, mut slave) = (0, 0);
    let (none, plain) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: the two integers are valid places for descriptors; the rest may be null.
    if unsafe { libc::openpty(&mut master, &mut slave, none, plain, plain.cast()) } != 0 {
        bail!("openpty: {}", std::io::Error::last_os_error());
    }
    // SAFETY: both are fresh descriptors that nobody else owns.
    Ok(unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) })
}

impl Terminal {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let (mut master, slave) = open_pair()?;
        let name = std::fs::read_link(format!("/proc/self/fd/{}", slave.as_raw_fd()))?;
        std::fs::write(&self.name_to, name.as_os_str().as_encoded_bytes())?;
        // Reading must not block: ctrl-S has to be typed, and taken back, while nothing comes.
        // SAFETY: the descriptor is open.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let switch = Switch::from(self.switch);
        let mut typed = false;
        let mut block = [0; 4096];
        loop {
            match switch.text().as_deref() {
                Some("unread") => {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                }
                Some(_) if !typed => {
                    master.write_all(b"\x13")?;
                    typed = true;
                }
                None if typed => {
                    master.write_all(b"\x11")?;
                    typed = false;
                }
                _ => {}
            }
            if master.read(&mut block).unwrap_or(0) == 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
