//! A network path outside of this host, in miniature: two tunnels in two namespaces, and between
//! them what a bad line does.
//!
//! Packets that go in at one end come out at the other, later or not at all, and no qdisc, interface
//! counter or socket of this host tells why. The switch holds words: `loss PERCENT`, `delay MS`,
//! `rate MBIT` (towards the far end only, with a queue of `QUEUE` packets behind it). It stands for
//! netem, which this kernel may lack. Rejected: a third namespace with a tbf (holdup would see its
//! qdisc, as it is local).

use crate::load::{Load, read};
use crate::load::{Switch, now};
use anyhow::{Context, bail};
use clap::Args;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[("link", Load::Words(|words| read::<Link>(words)?.run()))];

/// Packets that wait before the rate.
const QUEUE: usize = 300;

/// Joins two network namespaces by a bad line.
#[derive(Debug, Args)]
pub struct Link {
    /// File of the near namespace.
    near: PathBuf,
    /// Name of the interface there.
    near_interface: String,
    /// File of the far namespace.
    far: PathBuf,
    /// Name of the interface there.
    far_interface: String,
    /// While this file is there, the line is as bad as it says.
    #[arg(long)]
    switch: Option<PathBuf>,
}

/// One end: a TUN interface in the namespace of the caller.
fn tunnel(name: &str) -> anyhow::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .context("/dev/net/tun")?;
    // SAFETY: ifreq is plain data; it outlives the call, and the name is cut to its length.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
        if libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &request) != 0 {
            bail!("{name}: {}", std::io::Error::last_os_error());
        }
    }
    Ok(file)
}

/// How bad the line is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Badness {
    loss: f64,
    delay_s: f64,
    bytes_per_second: f64,
}

impl Badness {
    fn parse(text: &str) -> Self {
        let mut badness = Self::default();
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.chunks(2) {
            let number = pair.get(1).and_then(|word| word.parse().ok()).unwrap_or(0.0);
            match pair.first() {
                Some(&"loss") => badness.loss = number / 100.0,
                Some(&"delay") => badness.delay_s = number / 1e3,
                Some(&"rate") => badness.bytes_per_second = number * 1e6 / 8.0,
                _ => {}
            }
        }
        badness
    }
}

/// One direction: packets under way with the time at which each arrives.
#[derive(Debug, Default)]
struct Way {
    packets: VecDeque<(f64, Vec<u8>)>,
    free_at: f64,
}

impl Way {
    fn take(&mut self, packet: &[u8], badness: Badness, lost: bool) {
        let at = now();
        if lost || (badness.bytes_per_second > 0.0 && self.packets.len() >= QUEUE) {
            return;
        }
        let mut out = at;
        if badness.bytes_per_second > 0.0 {
            out = self.free_at.max(at) + packet.len() as f64 / badness.bytes_per_second;
            self.free_at = out;
        }
        self.packets.push_back((out + badness.delay_s, packet.to_vec()));
    }

    /// Delivers what is due; gives the time of the next.
    fn deliver(&mut self, mut to: &File) -> Option<f64> {
        while let Some((due, packet)) = self.packets.front() {
            if *due > now() {
                return Some(*due);
            }
            // A full interface drops, as it would on a wire.
            let _: std::io::Result<usize> = to.write(packet);
            self.packets.pop_front();
        }
        None
    }
}

impl Link {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        super::enter::enter(Some(&self.near), None)?;
        let near = tunnel(&self.near_interface)?;
        super::enter::enter(Some(&self.far), None)?;
        let far = tunnel(&self.far_interface)?;
        let switch = Switch::from(self.switch);
        let (mut out, mut back) = (Way::default(), Way::default());
        let mut badness = Badness::default();
        let (mut looked, mut random) = (0.0, 0x9e37_79b9_u64);
        let mut packet = [0; 65_536];
        loop {
            if now() - looked > 0.1 {
                badness = switch.text().map(|text| Badness::parse(&text)).unwrap_or_default();
                looked = now();
            }
            while let Ok(length @ 1..) = (&near).read(&mut packet) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let lost = ((random >> 33) as f64 / (1_u64 << 31) as f64) < badness.loss;
                out.take(&packet[..length], badness, lost);
            }
            while let Ok(length @ 1..) = (&far).read(&mut packet) {
                back.take(&packet[..length], Badness { bytes_per_second: 0.0, ..badness }, false);
            }
            let next = [out.deliver(&far), back.deliver(&near)].into_iter().flatten();
            let wait = next.fold(0.1, |least: f64, due| least.min((due - now()).max(0.0)));
            wait_readable(&near, &far, wait);
        }
    }
}

/// Sleeps until a packet comes or the time has passed.
fn wait_readable(near: &File, far: &File, seconds: f64) {
    let mut files = [near, far].map(|file| libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let time = libc::timespec { tv_sec: 0, tv_nsec: (seconds.min(0.9) * 1e9) as i64 };
    // SAFETY: both arrays and the time outlive the call; no signal mask is given.
    unsafe { libc::ppoll(files.as_mut_ptr(), 2, &time, std::ptr::null()) };
}

#[cfg(test)]
mod tests {
    use super::{Badness, Way};

    #[test]
    fn the_switch_says_how_bad() {
        let expected = Badness { loss: 0.02, delay_s: 0.08, bytes_per_second: 0.0 };
        assert_eq!(Badness::parse("loss 2 delay 80"), expected);
        assert_eq!(Badness::parse(""), Badness::default());
    }

    #[test]
    fn a_rate_spaces_packets_out_and_bounds_the_queue() {
        let mut way = Way::default();
        let slow = Badness { bytes_per_second: 1000.0, ..Badness::default() };
        for _ in 0..super::QUEUE + 5 {
            way.take(&[0; 100], slow, false);
        }
        assert_eq!(way.packets.len(), super::QUEUE);
        let span = way.packets[9].0 - way.packets[0].0;
        assert!((span - 0.9).abs() < 1e-6, "{span}");
    }
}
