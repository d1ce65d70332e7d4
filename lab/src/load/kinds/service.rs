//! Services that answer each other: a key-value server with a client over a unix socket, a log
//! pipeline.
//!
//! Each is several processes that wait for one another, so that a fault in the last is felt by the first and
//! the chain between them has a truth to be compared with.

use crate::load::{Figure, Load, Options, burn};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("kv", Load::Pairs(kv)),
    ("kv-server", Load::Pairs(kv_server)),
    ("pipeline", Load::Pairs(pipeline)),
    ("pipeline-sink", Load::Pairs(pipeline_sink)),
];

/// `--socket PATH --clients N --work-us U`: starts a server as a child and asks it at full speed.
fn kv(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let socket = options.text("socket")?;
    let work = options.text("work-us").unwrap_or("20");
    let server = Command::new(std::env::current_exe()?)
        .args(["kv-server", "--socket", socket, "--work-us", work])
        .env_remove("FIGURE")
        .stdin(Stdio::null())
        .spawn();
    let _server = server.context("start the server")?;
    std::thread::scope(|scope| {
        for client in 0..options.whole("clients", 4)?.max(1) {
            scope.spawn(move || -> Result<()> {
                let mut stream = connect(socket)?;
                let mut answer = [0_u8; 16];
                for key in (0_u64..).map(|n| n % 1000 + client) {
                    stream.write_all(&key.to_ne_bytes())?;
                    stream.read_exact(&mut answer)?;
                    figure.count();
                }
                Ok(())
            });
        }
        Ok(())
    })
}

fn connect(path: &str) -> Result<UnixStream> {
    for _ in 0..200 {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    UnixStream::connect(path).context("connect to the server")
}

/// `--socket PATH --work-us U`: a thread per connection, one table for all.
fn kv_server(options: &Options) -> Result<()> {
    let listener = UnixListener::bind(options.text("socket")?)?;
    let work = Duration::from_micros(options.whole("work-us", 20)?);
    let table = Arc::new(Mutex::new(HashMap::<u64, u64>::new()));
    for stream in listener.incoming() {
        let mut stream = stream?;
        let table = Arc::clone(&table);
        std::thread::spawn(move || -> Result<()> {
            let mut key = [0_u8; 8];
            loop {
                stream.read_exact(&mut key)?;
                burn(work);
                let key = u64::from_ne_bytes(key);
                let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
                let value = table.entry(key).and_modify(|n| *n += 1).or_insert(1);
                let answer = [key.to_ne_bytes(), value.to_ne_bytes()].concat();
                drop(table);
                stream.write_all(&answer)?;
            }
        });
    }
    Ok(())
}

/// `--path FILE --rest-us R --work-us U`: writes lines into a pipe; a child reads, computes, appends
/// to a file.
fn pipeline(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let rest = Duration::from_micros(options.whole("rest-us", 500)?);
    let work = options.text("work-us").unwrap_or("20");
    let mut sink = Command::new(std::env::current_exe()?)
        .args(["pipeline-sink", "--path", options.text("path")?, "--work-us", work])
        .env_remove("FIGURE")
        .stdin(Stdio::piped())
        .spawn()?;
    let mut input = sink.stdin.take().context("the sink's input")?;
    for number in 0_u64.. {
        writeln!(input, "{number} GET /item/{} 200 {}", number % 977, "x".repeat(120))?;
        figure.count();
        std::thread::sleep(rest);
    }
    Ok(())
}

/// See `pipeline`.
fn pipeline_sink(options: &Options) -> Result<()> {
    let work = Duration::from_micros(options.whole("work-us", 20)?);
    let path = options.text("path")?;
    let mut file = std::fs::File::create(path)?;
    let mut written = 0;
    for line in BufReader::new(std::io::stdin()).lines() {
        let line = line?;
        burn(work);
        written += line.len();
        if written > 8 << 20 {
            file = std::fs::File::create(path)?;
            written = 0;
        }
        writeln!(file, "{line}")?;
    }
    Ok(())
}
