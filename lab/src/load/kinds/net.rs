//! TCP loads: a server with an accept queue, its client, a source and a sink.
//!
//! Whether a listener accepts, how long it takes to answer and how fast a sink reads are
//! arguments; buffers and backlog are given as the socket calls take them. Nothing here shapes
//! traffic: that is the injector's part.

use crate::load::{Figure, Switch, now};
use crate::load::{Load, read};
use anyhow::bail;
use clap::Args;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("tcp-server", Load::Words(|words| read::<Server>(words)?.run())),
    ("tcp-client", Load::Words(|words| read::<Client>(words)?.run())),
    ("tcp-source", Load::Words(|words| read::<Source>(words)?.run())),
    ("tcp-sink", Load::Words(|words| read::<Sink>(words)?.run())),
];

/// A TCP server that accepts and answers at the pace it is told.
#[derive(Debug, Args)]
pub struct Server {
    /// Address to listen on.
    listen: SocketAddr,
    /// Length of the accept queue.
    #[arg(long, default_value_t = 128)]
    backlog: i32,
    /// While this file is there, nothing is accepted.
    #[arg(long)]
    accept_switch: Option<PathBuf>,
    /// While this file is there, each answer takes the milliseconds that it holds.
    #[arg(long)]
    answer_switch: Option<PathBuf>,
    /// One thread for each connection.
    #[arg(long)]
    parallel: bool,
    /// Listen by MPTCP, as servers of Go do.
    #[arg(long)]
    multipath: bool,
}

/// Listens with a backlog of one's choosing, which std does not offer.
fn listen(address: SocketAddr, backlog: i32, protocol: libc::c_int) -> anyhow::Result<TcpListener> {
    let SocketAddr::V4(v4) = address else { bail!("only IPv4: {address}") };
    // SAFETY: plain socket calls on a descriptor that this function owns until it is wrapped;
    // `name` is a valid sockaddr_in of the length passed.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, protocol);
        if fd < 0 {
            bail!("socket: {}", std::io::Error::last_os_error());
        }
        let listener = TcpListener::from_raw_fd(fd);
        let one: libc::c_int = 1;
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_REUSEADDR,
            (&raw const one).cast(),
            size_of::<libc::c_int>() as u32,
        );
        let mut name: libc::sockaddr_in = std::mem::zeroed();
        name.sin_family = libc::AF_INET as u16;
        name.sin_port = v4.port().to_be();
        name.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
        let length = size_of::<libc::sockaddr_in>() as u32;
        if libc::bind(fd, (&raw const name).cast(), length) != 0 || libc::listen(fd, backlog) != 0 {
            bail!("listen on {address}: {}", std::io::Error::last_os_error());
        }
        Ok(listener)
    }
}

fn answer(mut stream: TcpStream, switch: &Switch) {
    let mut question = [0; 4096];
    while let Ok(bytes @ 1..) = stream.read(&mut question) {
        // It may come in parts.
        if question[bytes - 1] != b'\n' {
            continue;
        }
        switch.pause();
        if stream.write_all(b"done\n").is_err() {
            return;
        }
    }
}

impl Server {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let protocol = if self.multipath { libc::IPPROTO_MPTCP } else { libc::IPPROTO_TCP };
        let listener = listen(self.listen, self.backlog, protocol)?;
        let accepts = Switch::from(self.accept_switch);
        let answers = Switch::from(self.answer_switch);
        loop {
            accepts.wait_gone();
            let (stream, _) = listener.accept()?;
            if self.parallel {
                let answers = answers.clone();
                std::thread::spawn(move || answer(stream, &answers));
            } else {
                answer(stream, &answers);
            }
        }
    }
}

/// A TCP client that asks one question per connection.
#[derive(Debug, Args)]
pub struct Client {
    /// The server.
    server: SocketAddr,
    /// Clients at a time, one thread each.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Pause between two questions of a thread.
    #[arg(long, default_value_t = 50)]
    every_ms: u64,
    /// Ask all questions on one connection.
    #[arg(long)]
    keep: bool,
    /// Length of a question.
    #[arg(long, default_value_t = 9)]
    bytes: usize,
}

impl Client {
    fn connect(&self) -> TcpStream {
        // The server may not be up yet.
        loop {
            match TcpStream::connect(self.server) {
                Ok(stream) => return stream,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn ask(&self, figure: &Figure) -> anyhow::Result<()> {
        let mut open: Option<TcpStream> = None;
        let mut reply = [0; 5];
        let mut question = vec![b'q'; self.bytes];
        if let Some(last) = question.last_mut() {
            *last = b'\n';
        }
        loop {
            let mut stream = match open.take() {
                Some(stream) => stream,
                None => self.connect(),
            };
            let answered =
                stream.write_all(&question).is_ok() && stream.read_exact(&mut reply).is_ok();
            if answered {
                figure.count();
                open = self.keep.then_some(stream);
            }
            std::thread::sleep(Duration::from_millis(self.every_ms));
        }
    }

    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let figure = Figure::open()?;
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(|| self.ask(&figure));
            }
            self.ask(&figure)
        })
    }
}

/// Sets the size of a socket buffer, if one is wanted.
pub fn set_buffer(stream: &impl AsRawFd, option: libc::c_int, bytes: Option<i32>) {
    if let Some(bytes) = bytes {
        // SAFETY: the descriptor is open and `bytes` outlives the call. A refused size shows in
        // the figure, which is what counts.
        unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const bytes).cast(),
                size_of::<i32>() as u32,
            );
        }
    }
}

/// A TCP sender that writes as fast as the socket takes it.
#[derive(Debug, Args)]
pub struct Source {
    /// The sink.
    to: SocketAddr,
    /// Bytes of one write: one operation.
    #[arg(long, default_value_t = 65_536)]
    write_bytes: usize,
    /// SO_SNDBUF.
    #[arg(long)]
    send_buffer: Option<i32>,
    /// Write no faster than that.
    #[arg(long)]
    bytes_per_second: Option<f64>,
    /// Connections at a time.
    #[arg(long, default_value_t = 1)]
    streams: usize,
    /// Ask this server beside it, one small question at a time: its answers alone are counted then.
    #[arg(long)]
    ask: Option<SocketAddr>,
    /// Milliseconds between its answer and the next question.
    #[arg(long, default_value_t = 50)]
    ask_every_ms: u64,
}

/// Bytes of the question that is asked beside a stream.
const ASKED_BYTES: usize = 16;

impl Source {
    fn send(&self, figure: &Figure) -> anyhow::Result<()> {
        let stream = loop {
            match TcpStream::connect(self.to) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        set_buffer(&stream, libc::SO_SNDBUF, self.send_buffer);
        let block = vec![b'd'; self.write_bytes];
        let mut due = now();
        loop {
            if let Some(rate) = self.bytes_per_second {
                due = (due + self.write_bytes as f64 / rate).max(now() - 0.1);
                std::thread::sleep(Duration::from_secs_f64((due - now()).max(0.0)));
            }
            (&stream).write_all(&block)?;
            if self.ask.is_none() {
                figure.count();
            }
        }
    }

    /// Returns when the sink goes away.
    pub fn run(self) -> anyhow::Result<()> {
        let figure = Figure::open()?;
        let asker = self.ask.map(|server| Client {
            server,
            threads: 1,
            every_ms: self.ask_every_ms,
            bytes: ASKED_BYTES,
            keep: true,
        });
        std::thread::scope(|scope| {
            if let Some(asker) = &asker {
                scope.spawn(|| asker.ask(&figure));
            }
            for _ in 1..self.streams {
                scope.spawn(|| self.send(&figure));
            }
            self.send(&figure)
        })
    }
}

/// A TCP receiver that reads at the pace it is told.
#[derive(Debug, Args)]
pub struct Sink {
    /// Address to listen on.
    listen: SocketAddr,
    /// Bytes of one read.
    #[arg(long, default_value_t = 65_536)]
    read_bytes: usize,
    /// While this file is there, it pauses for the milliseconds that it holds after each read.
    #[arg(long)]
    switch: Option<PathBuf>,
    /// SO_RCVBUF.
    #[arg(long)]
    receive_buffer: Option<i32>,
}

impl Sink {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let listener = listen(self.listen, 16, libc::IPPROTO_TCP)?;
        // Connections inherit the buffer of the listener, and the window scale is agreed on in the
        // handshake: later would be too late.
        set_buffer(&listener, libc::SO_RCVBUF, self.receive_buffer);
        loop {
            let (mut stream, _) = listener.accept()?;
            let (switch, size) = (Switch::from(self.switch.clone()), self.read_bytes);
            std::thread::spawn(move || {
                let mut block = vec![0; size];
                while let Ok(1..) = stream.read(&mut block) {
                    switch.pause();
                }
            });
        }
    }
}
