//! `bench-load`: the loads that no package offers: a command's time, many sleeping threads, waits at a
//! rate, and a flood of packets.
//!
//! A program of its own, so that holdup, when it names who loads the host, names it and not the bench.
//! They run until they are killed (but `timed`); they must not touch anything but loopback.

use clap::{Parser, Subcommand};
use std::net::UdpSocket;
use std::process::{Command, ExitCode};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// Runs a command and prints its time as perf bench does.
    Timed {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Threads that sleep.
    Sleepers { threads: usize },
    /// Threads that wait for a turn that never comes.
    Waiters { threads: usize },
    /// Pairs of threads: one waits for what the other gives it every two milliseconds.
    Handovers { pairs: usize },
    /// UDP packets to a socket of its own, as fast as they go.
    Packets,
}

fn main() -> ExitCode {
    let done = match Cli::parse().load {
        Load::Timed { words } => timed(&words),
        Load::Sleepers { threads } => many(threads, || loop_forever(Duration::from_secs(3600))),
        Load::Waiters { threads } => many(threads, waits_for_a_turn),
        Load::Handovers { pairs } => many(pairs, handover),
        Load::Packets => packets(),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            holdup_bench::say(&format!("bench-load: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn timed(words: &[String]) -> std::io::Result<u8> {
    let began = Instant::now();
    let status = Command::new(&words[0]).args(&words[1..]).status()?;
    holdup_bench::say(&format!("     Total time: {:.6} [sec]", began.elapsed().as_secs_f64()));
    Ok(if status.success() { 0 } else { 1 })
}

fn loop_forever(each: Duration) {
    loop {
        std::thread::sleep(each);
    }
}

#[inline(never)]
fn waits_for_a_turn() {
    loop {
        std::thread::park();
    }
}

/// Starts threads with small stacks; says `ready` when all stand.
fn many(count: usize, body: fn()) -> std::io::Result<u8> {
    for _ in 0..count {
        std::thread::Builder::new().stack_size(32 << 10).spawn(body)?;
    }
    holdup_bench::say("ready");
    loop_forever(Duration::from_secs(3600));
    Ok(0)
}

fn handover() {
    let (give, take) = sync_channel::<u32>(1);
    let taker = std::thread::Builder::new().stack_size(32 << 10).spawn(move || {
        while let Ok(number) = take.recv() {
            std::hint::black_box(number);
        }
    });
    if taker.is_err() {
        return;
    }
    for number in 0.. {
        std::thread::sleep(Duration::from_millis(2));
        if give.send(number).is_err() {
            return;
        }
    }
}

fn packets() -> std::io::Result<u8> {
    let sink = UdpSocket::bind(("127.0.0.1", 0))?;
    let source = UdpSocket::bind(("127.0.0.1", 0))?;
    source.connect(sink.local_addr()?)?;
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while sink.recv(&mut buffer).is_ok() {}
    });
    holdup_bench::say("ready");
    let packet = [b'p'; 64];
    loop {
        // A full queue is the point of a flood, not its end.
        let _ = source.send(&packet);
    }
}
