//! How a load can be cut into slices, and how far one has come: counters of the kernel and of its server.
//!
//! Rejected: asking the load for its rate (most tell it once, at the end). Must not: know a load. Edit together: loads.rs, cut.rs.

use anyhow::{Context, Result};
use holdup_lab::procfs;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Where nginx tells its counters.
pub const NGINX_STATUS: &str = "/status";

/// A server that is looked at by a slow peer answers late.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How far a load has come, in units of its own; its process is given.
type Done = Box<dyn Fn(i32) -> Result<u64> + Send>;

/// How a load is cut.
pub enum Slices {
    /// It runs all the time.
    Endless {
        /// The command.
        words: Vec<String>,
        /// Units done so far.
        done: Done,
    },
    /// It is run for each slice.
    Runs(Vec<String>),
}

impl Slices {
    /// A load that runs all the time.
    pub fn endless(words: Vec<String>, done: impl Fn(i32) -> Result<u64> + Send + 'static) -> Self {
        Self::Endless { words, done: Box::new(done) }
    }

    /// Of a load that is not cut.
    pub fn none() -> Self {
        Self::Runs(Vec::new())
    }
}

/// Switches that a process and its offspring asked for: each of a ping-pong's is one way of a message.
pub fn voluntary_switches(pid: i32) -> u64 {
    let of = |pid: i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        text.lines().find_map(|line| number(line.strip_prefix("voluntary_ctxt_switches:")?))
    };
    let all: Vec<i32> = procfs::offspring(pid).into_iter().chain([pid]).collect();
    all.into_iter().filter_map(of).sum()
}

/// Reads that a block device has completed.
pub fn reads(device: &str) -> Result<u64> {
    let name = device.rsplit('/').next().unwrap_or(device);
    let text = fs::read_to_string(format!("/sys/block/{name}/stat"))?;
    number(&text).context("no count of reads")
}

/// Commands that a redis server has worked off.
pub fn redis_commands(port: u16) -> Result<u64> {
    const KEY: &str = "total_commands_processed:";
    let text = answer(port, "INFO stats\r\nQUIT\r\n")?;
    text.split_once(KEY).and_then(|(_, rest)| number(rest)).context("redis reported no count")
}

/// Requests that an nginx server has taken; its page says `server accepts handled requests` and three numbers.
pub fn nginx_requests(port: u16) -> Result<u64> {
    let text = answer(port, &format!("GET {NGINX_STATUS} HTTP/1.0\r\n\r\n"))?;
    nginx_count(&text).context("nginx reported no count")
}

fn nginx_count(text: &str) -> Option<u64> {
    let line = text.lines().skip_while(|line| !line.contains("handled requests")).nth(1)?;
    number(line.split_whitespace().nth(2)?)
}

/// The first word, if it is a number.
fn number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// All that a server of loopback says to a question until it hangs up.
fn answer(port: u16, question: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(question.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_as_the_servers_tell_them() {
        let page =
            "Active connections: 1 \nserver accepts handled requests\n 17 16 1234 \nReading: 0\n";
        assert_eq!(nginx_count(page), Some(1234));
        assert_eq!(nginx_count("404"), None);
        assert_eq!(number("  88123   0 7\n"), Some(88123));
        assert_eq!(number("x"), None);
    }

    #[test]
    fn a_process_that_waits_has_switched() {
        let own = std::process::id().cast_signed();
        let before = voluntary_switches(own);
        // Status tells of the main thread, which waits for this one; a child of ours sleeps for sure.
        let slept = std::process::Command::new("sleep").arg("0.3").spawn();
        let mut child = slept.unwrap();
        std::thread::sleep(Duration::from_millis(150));
        assert!(voluntary_switches(own) > before);
        assert!(child.wait().unwrap().success());
        assert_eq!(voluntary_switches(i32::MAX), 0);
    }
}
