//! Stamped UDP packets: a source, an echo that knows how long each was under way, and a client
//! that waits for each echo; data as a stream of packets, and a sink that takes many of them a call.
//!
//! CLOCK_MONOTONIC is the same in every network namespace, so the one-way delay needs no
//! synchronisation; between two ends of a veth it is the sojourn in the queue of the sender's side
//! plus some tens of microseconds. The echo's log of delays is the truth for `net.local_queue`.

use crate::load::{Delays, Figure, Switch, now};
use crate::load::{Load, read};
use clap::Args;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("udp-source", Load::Words(|words| read::<Source>(words)?.run())),
    ("udp-echo", Load::Words(|words| read::<Echo>(words)?.run())),
    ("udp-ping", Load::Words(|words| read::<Ping>(words)?.run())),
    ("udp-stream", Load::Words(|words| read::<Stream>(words)?.run())),
    ("udp-sink", Load::Words(|words| read::<Sink>(words)?.run())),
];

const MAGIC: &[u8; 8] = b"lab-udp\0";
const HEADER: usize = MAGIC.len() + 8;

fn stamp(packet: &mut [u8]) {
    packet[..MAGIC.len()].copy_from_slice(MAGIC);
    packet[MAGIC.len()..HEADER].copy_from_slice(&now().to_le_bytes());
}

/// Sends stamped UDP packets.
#[derive(Debug, Args)]
pub struct Source {
    /// The sink.
    to: SocketAddr,
    /// Bytes of payload.
    #[arg(long, default_value_t = 1_472)]
    bytes: usize,
    /// Packets a second.
    #[arg(long, default_value_t = 100.0)]
    per_second: f64,
    /// Packets sent back to back each time.
    #[arg(long, default_value_t = 1)]
    burst: usize,
}

impl Source {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(self.to)?;
        // The default holds some 90 packets: the socket would be the queue, not the qdisc.
        super::net::set_buffer(&socket, libc::SO_SNDBUFFORCE, Some(4 << 20));
        let mut packet = vec![b'u'; self.bytes.max(HEADER)];
        let every = self.burst as f64 / self.per_second;
        let mut due = now();
        loop {
            std::thread::sleep(Duration::from_secs_f64((due - now()).max(0.0)));
            due = (due + every).max(now() - 0.1);
            for _ in 0..self.burst {
                stamp(&mut packet);
                // ENOBUFS and ECONNREFUSED are answers of the network, not ends of this load.
                let _: std::io::Result<usize> = socket.send(&packet);
            }
        }
    }
}

/// Receives stamped UDP packets, writes down how long each was under way, and sends small ones back.
#[derive(Debug, Args)]
pub struct Echo {
    /// Address to listen on.
    listen: SocketAddr,
    /// SO_RCVBUF.
    #[arg(long)]
    receive_buffer: Option<i32>,
    /// While this file is there, it pauses for the milliseconds that it holds after each packet.
    #[arg(long)]
    switch: Option<PathBuf>,
}

impl Echo {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let (delays, switch) = (Delays::open()?, Switch::from(self.switch));
        let socket = UdpSocket::bind(self.listen)?;
        super::net::set_buffer(&socket, libc::SO_RCVBUF, self.receive_buffer);
        let mut packet = [0; 65_536];
        loop {
            let (length, from) = socket.recv_from(&mut packet)?;
            let arrived = now();
            if (HEADER..=256).contains(&length) && packet.starts_with(MAGIC) {
                let mut sent = [0; 8];
                sent.copy_from_slice(&packet[MAGIC.len()..HEADER]);
                delays.took(arrived, arrived - f64::from_le_bytes(sent));
                let _: std::io::Result<usize> = socket.send_to(&packet[..length], from);
            }
            switch.pause();
        }
    }
}

/// Sends a small packet and waits for its echo, again and again.
#[derive(Debug, Args)]
pub struct Ping {
    /// The echo.
    to: SocketAddr,
    /// Bytes of payload.
    #[arg(long, default_value_t = 64)]
    bytes: usize,
    /// Pause after each echo.
    #[arg(long, default_value_t = 20)]
    every_ms: u64,
    /// Time to wait for an echo.
    #[arg(long, default_value_t = 3_000)]
    timeout_ms: u64,
    /// IP type of service: 0 for none.
    #[arg(long, default_value_t = 0)]
    service_type: i32,
}

impl Ping {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let figure = Figure::open()?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(self.to)?;
        socket.set_read_timeout(Some(Duration::from_millis(self.timeout_ms)))?;
        // SAFETY: the descriptor is open and the value outlives the call.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_TOS,
                (&raw const self.service_type).cast(),
                size_of::<i32>() as u32,
            );
        }
        let mut packet = vec![b'p'; self.bytes.clamp(HEADER, 256)];
        let mut echo = [0; 256];
        loop {
            stamp(&mut packet);
            if socket.send(&packet).is_ok() && socket.recv(&mut echo).is_ok() {
                figure.count();
            }
            std::thread::sleep(Duration::from_millis(self.every_ms));
        }
    }
}

/// Bytes of one operation of a stream.
const BLOCK: usize = 65_536;

/// Packets that carry one operation of a stream.
pub fn packets_of_a_block(bytes: usize) -> usize {
    BLOCK.div_ceil(bytes.max(1))
}

/// Sends data in packets, one a call.
#[derive(Debug, Args)]
pub struct Stream {
    /// The sink.
    to: SocketAddr,
    /// Bytes of payload of a packet.
    #[arg(long)]
    bytes: usize,
    /// Bytes of payload a second that it has to send.
    #[arg(long)]
    bytes_per_second: f64,
}

impl Stream {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let figure = Figure::open()?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(self.to)?;
        let packet = vec![b's'; self.bytes];
        let every = BLOCK as f64 / self.bytes_per_second;
        let mut due = now();
        loop {
            std::thread::sleep(Duration::from_secs_f64((due - now()).max(0.0)));
            due = (due + every).max(now() - 0.1);
            for _ in 0..packets_of_a_block(self.bytes) {
                let _: std::io::Result<usize> = socket.send(&packet);
            }
            figure.count();
        }
    }
}

/// Takes whatever comes and throws it away.
#[derive(Debug, Args)]
pub struct Sink {
    /// Address to listen on.
    listen: SocketAddr,
}

impl Sink {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        /// Packets a call; their bytes are cut off.
        const EACH: usize = 64;
        let socket = UdpSocket::bind(self.listen)?;
        // Nothing is to be lost here while it has no CPU.
        super::net::set_buffer(&socket, libc::SO_RCVBUFFORCE, Some(64 << 20));
        let mut byte = [0_u8];
        let mut place = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
        // SAFETY: integers and pointers, for all of which zero is a value.
        let mut packets: [libc::mmsghdr; EACH] = unsafe { std::mem::zeroed() };
        for packet in &mut packets {
            packet.msg_hdr.msg_iov = &raw mut place;
            packet.msg_hdr.msg_iovlen = 1;
        }
        loop {
            // SAFETY: as many headers as it says, each of which points to `place`, which points to `byte`; both outlive the call.
            let taken = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    packets.as_mut_ptr(),
                    EACH as u32,
                    libc::MSG_WAITFORONE as _,
                    std::ptr::null_mut(),
                )
            };
            if taken < 0 {
                return Err(std::io::Error::last_os_error().into());
            }
        }
    }
}
