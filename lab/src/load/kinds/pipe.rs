//! The two ends of a FIFO or terminal: a writer of lines, and a reader that may take its time.
//!
//! Both open their end by path, because a trial starts them apart from each other. A pipe between a
//! parent and its child is `lab/load/log_child.py`.

use crate::load::{Figure, Switch};
use crate::load::{Load, read};
use anyhow::Context;
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("pipe-writer", Load::Words(|words| read::<Writer>(words)?.run())),
    ("pipe-reader", Load::Words(|words| read::<Reader>(words)?.run())),
];

/// Writes lines to a FIFO or terminal.
#[derive(Debug, Args)]
pub struct Writer {
    /// Where to.
    to: PathBuf,
    /// Bytes of one line.
    #[arg(long, default_value_t = 200)]
    bytes: usize,
    /// Pause between two lines.
    #[arg(long, default_value_t = 1_000)]
    every_us: u64,
}

impl Writer {
    /// Returns when the reader goes away.
    pub fn run(self) -> anyhow::Result<()> {
        let figure = Figure::open()?;
        let mut line = vec![b'l'; self.bytes.max(1)];
        line.pop();
        line.push(b'\n');
        let mut to = OpenOptions::new()
            .write(true)
            .open(&self.to)
            .with_context(|| self.to.display().to_string())?;
        loop {
            to.write_all(&line)?;
            figure.count();
            std::thread::sleep(Duration::from_micros(self.every_us));
        }
    }
}

/// Reads a FIFO.
#[derive(Debug, Args)]
pub struct Reader {
    /// Where from.
    from: PathBuf,
    /// Bytes of one read.
    #[arg(long, default_value_t = 4_096)]
    bytes: usize,
    /// While this file is there, it pauses for the milliseconds that it holds after each read.
    #[arg(long)]
    switch: Option<PathBuf>,
}

impl Reader {
    /// Never returns: writers come and go.
    pub fn run(self) -> anyhow::Result<()> {
        let switch = Switch::from(self.switch);
        let mut block = vec![0; self.bytes.max(1)];
        loop {
            let mut from = File::open(&self.from)?;
            while from.read(&mut block)? > 0 {
                switch.pause();
            }
        }
    }
}
