//! A server and a client on a unix stream socket.
//!
//! The server may hold a mutex of its own while it answers, which another of its threads also
//! takes for long I/O: that is the middle of the five-link chain. Its C counterpart is
//! `lab/load/chain.c`.

use super::lock::While;
use crate::load::{Figure, Switch};
use crate::load::{Load, read};
use clap::Args;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("unix-server", Load::Words(|words| read::<Server>(words)?.run())),
    ("unix-client", Load::Words(|words| read::<Client>(words)?.run())),
];

/// A server on a unix socket.
#[derive(Debug, Args)]
pub struct Server {
    /// The socket.
    path: PathBuf,
    /// While this file is there, each answer takes the milliseconds that it holds.
    #[arg(long)]
    answer_switch: Option<PathBuf>,
    /// What the flusher does while it holds the answering mutex.
    #[arg(long, value_enum, default_value = "sleep")]
    flush: While,
    /// File that the flusher writes.
    #[arg(long)]
    file: Option<PathBuf>,
    /// While this file is there, a second thread, the flusher, holds the answering mutex for the
    /// milliseconds that it holds.
    #[arg(long)]
    flush_switch: Option<PathBuf>,
    /// How long it rests between.
    #[arg(long, default_value_t = 20)]
    gap_ms: u64,
    /// Name of that thread.
    #[arg(long, default_value = "flusher")]
    flusher: String,
}

impl Server {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        // A socket left by an earlier run under the same name.
        let _: std::io::Result<()> = std::fs::remove_file(&self.path);
        let listener = UnixListener::bind(&self.path)?;
        let table = Arc::new(Mutex::new(0_u64));
        let (held, flush, file) = (Arc::clone(&table), self.flush, self.file);
        let (switch, gap) = (Switch::from(self.flush_switch), Duration::from_millis(self.gap_ms));
        std::thread::Builder::new().name(self.flusher).spawn(move || {
            loop {
                if let Some(hold) = switch.milliseconds() {
                    let Ok(_held) = held.lock() else { return };
                    if flush.pass(hold.as_secs_f64(), file.as_deref()).is_err() {
                        return;
                    }
                }
                std::thread::sleep(gap);
            }
        })?;
        let answers = Switch::from(self.answer_switch);
        for stream in listener.incoming() {
            let (mut stream, table, answers) = (stream?, Arc::clone(&table), answers.clone());
            std::thread::spawn(move || {
                let mut question = [0; 64];
                while let Ok(1..) = stream.read(&mut question) {
                    answers.pause();
                    match table.lock() {
                        Ok(mut count) => *count += 1,
                        Err(_) => return,
                    }
                    if stream.write_all(b"done\n").is_err() {
                        return;
                    }
                }
            });
        }
        Ok(())
    }
}

/// A client on a unix socket.
#[derive(Debug, Args)]
pub struct Client {
    /// The socket.
    path: PathBuf,
    /// Pause between two questions.
    #[arg(long, default_value_t = 20)]
    every_ms: u64,
}

impl Client {
    /// Returns when the server goes away.
    pub fn run(self) -> anyhow::Result<()> {
        let figure = Figure::open()?;
        let mut stream = loop {
            match UnixStream::connect(&self.path) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let mut reply = [0; 5];
        loop {
            stream.write_all(b"question\n")?;
            stream.read_exact(&mut reply)?;
            figure.count();
            std::thread::sleep(Duration::from_millis(self.every_ms));
        }
    }
}
