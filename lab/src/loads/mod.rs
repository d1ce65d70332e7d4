//! Workloads: small programs that do honest work, or hold somebody up, when a scenario starts them.
//!
//! They are the kinds of holdup-lab-load that take positional arguments and switches; the others are
//! in `load/`. C, Python and shell ones lie in `lab/workloads`, for names, call stacks, lock
//! implementations and runtimes must differ from scenario to scenario.
//!
//! A victim tells how it fares through its figure ([`ops`]), and nothing else. A load that goes wrong
//! does so while its switch is there, without being started anew. Rejected: a shared library of helpers for all languages, for
//! it would give all of them one call stack.
//!
//! Edit together: `lab/workloads` (the same figure and switch).

pub mod cpu;
pub mod dns;
pub mod enter;
pub mod far_host;
pub mod fuse_lock;
pub mod link;
pub mod lock;
pub mod net;
pub mod ops;
pub mod pipe;
pub mod trace;
pub mod tty;
pub mod udp;
pub mod unix;

use clap::{CommandFactory, Parser, Subcommand};

/// A workload program.
#[derive(Debug, Subcommand)]
pub enum Load {
    /// Burns CPU.
    Hog(cpu::Hog),
    /// Threads that share one Rust mutex with a keeper which holds it for long.
    Convoy(lock::Convoy),
    /// Takes file locks and holds or waits for them.
    FileLock(lock::FileLock),
    /// A TCP server that accepts and answers at the pace it is told.
    TcpServer(net::Server),
    /// A TCP client that asks one question per connection.
    TcpClient(net::Client),
    /// A TCP sender that writes as fast as the socket takes it.
    TcpSource(net::Source),
    /// A TCP receiver that reads at the pace it is told.
    TcpSink(net::Sink),
    /// Sends stamped UDP packets.
    UdpSource(udp::Source),
    /// Sends stamped UDP packets back and writes down how long each was under way.
    UdpEcho(udp::Echo),
    /// Sends a small packet and waits for its echo, again and again.
    UdpPing(udp::Ping),
    /// Joins two network namespaces by a bad line.
    Link(link::Link),
    /// Another host at the end of a wire, which answers TCP.
    FarHost(far_host::FarHost),
    /// A DNS server: mute, slow, failing or right.
    DnsServer(dns::Server),
    /// Asks DNS questions with its own packets.
    DnsClient(dns::Client),
    /// Holds another process stopped, as a debugger does.
    Tracer(trace::Tracer),
    /// Runs a command in a network namespace, with files of its own in /etc.
    Enter(enter::Enter),
    /// A FUSE file system that looks up its client's name before it grants a lock.
    FuseLock(fuse_lock::FuseLock),
    /// Writes lines to a FIFO or terminal.
    PipeWriter(pipe::Writer),
    /// Reads a FIFO at the pace it is told.
    PipeReader(pipe::Reader),
    /// Holds the master side of a pseudo-terminal.
    Terminal(tty::Terminal),
    /// A server on a unix socket.
    UnixServer(unix::Server),
    /// A client on a unix socket.
    UnixClient(unix::Client),
}

/// The command line of a workload.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(subcommand)]
    load: Load,
}

/// There is a kind of that name.
pub fn knows(kind: &str) -> bool {
    Words::command().get_subcommands().any(|known| known.get_name() == kind)
}

/// Runs `KIND ARGUMENT...`.
pub fn run(words: &[String]) -> anyhow::Result<()> {
    Words::try_parse_from(words)?.load.run()
}

impl Load {
    /// Runs until the work is done or the process is ended.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Hog(load) => load.run(),
            Self::Convoy(load) => load.run(),
            Self::FileLock(load) => load.run(),
            Self::TcpServer(load) => load.run(),
            Self::TcpClient(load) => load.run(),
            Self::TcpSource(load) => load.run(),
            Self::TcpSink(load) => load.run(),
            Self::UdpSource(load) => load.run(),
            Self::UdpEcho(load) => load.run(),
            Self::UdpPing(load) => load.run(),
            Self::Link(load) => load.run(),
            Self::FarHost(load) => load.run(),
            Self::DnsServer(load) => load.run(),
            Self::DnsClient(load) => load.run(),
            Self::Tracer(load) => load.run(),
            Self::Enter(load) => load.run(),
            Self::FuseLock(load) => load.run(),
            Self::PipeWriter(load) => load.run(),
            Self::PipeReader(load) => load.run(),
            Self::Terminal(load) => load.run(),
            Self::UnixServer(load) => load.run(),
            Self::UnixClient(load) => load.run(),
        }
    }
}
