//! A DNS server with a temper, and a client that speaks for itself (RFC 1035).
//!
//! The server reads only as much of a question as it needs to answer it: one question, no
//! compression. It never resolves anything outside. The client waits five seconds and asks twice,
//! as glibc does by default, but has none of its code: holdup must know a DNS wait by its packets.

use crate::load::{Figure, Switch, now};
use crate::load::{Load, read};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("dns-server", Load::Words(|words| read::<Server>(words)?.run())),
    ("dns-client", Load::Words(|words| read::<Client>(words)?.run())),
];

/// How the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Temper {
    /// Not at all.
    Mute,
    /// Rightly.
    Right,
    /// SERVFAIL.
    Servfail,
    /// NXDOMAIN.
    Nxdomain,
}

/// A DNS server: mute, slow, failing or right.
#[derive(Debug, Args)]
pub struct Server {
    /// Address to listen on.
    listen: SocketAddr,
    /// While this file is there the server has the temper that it holds (`mute`, `servfail`,
    /// `nxdomain`), or answers rightly after the milliseconds that it holds. Else it is right.
    #[arg(long)]
    switch: Option<PathBuf>,
    /// Stay mute for this share of the questions (0 to 100), by their id, while the file is there.
    #[arg(long, default_value_t = 100)]
    percent: u16,
}

impl Server {
    /// Temper and delay for a question with that id.
    fn temper(&self, switch: &Switch, id: u16) -> (Temper, Duration) {
        let right = (Temper::Right, Duration::ZERO);
        let Some(text) = switch.text().filter(|_| id % 100 < self.percent) else { return right };
        match Temper::from_str(&text, true) {
            Ok(temper) => (temper, Duration::ZERO),
            Err(_) => (Temper::Right, switch.milliseconds().unwrap_or_default()),
        }
    }
}

/// End of the question section and type of the first question.
fn question(packet: &[u8]) -> Option<(usize, u16)> {
    let mut at = 12;
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1 + length;
        if length == 0 {
            break;
        }
    }
    let kind = u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]);
    (packet.len() >= at + 4).then_some((at + 4, kind))
}

/// The answer to `query`: an address for A, a name for PTR, nothing for the rest.
fn reply(query: &[u8], temper: Temper) -> Option<Vec<u8>> {
    let (end, kind) = question(query)?;
    let rcode = match temper {
        Temper::Servfail => 2,
        Temper::Nxdomain => 3,
        _ => 0,
    };
    let data: &[u8] = match kind {
        1 => &[127, 0, 0, 1],
        12 => b"\x04host\x03lab\x00",
        _ => &[],
    };
    let answers = u8::from(rcode == 0 && !data.is_empty());
    let mut packet = query[..end].to_vec();
    packet[2] = 0x81 | (query[2] & 0x01);
    packet[3] = 0x80 | rcode;
    packet[4..12].copy_from_slice(&[0, 1, 0, answers, 0, 0, 0, 0]);
    if answers == 1 {
        packet.extend_from_slice(&[0xc0, 12]);
        packet.extend_from_slice(&kind.to_be_bytes());
        packet.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
        packet.extend_from_slice(&(data.len() as u16).to_be_bytes());
        packet.extend_from_slice(data);
    }
    Some(packet)
}

impl Server {
    /// Never returns. Answers are delayed without holding up those behind them.
    pub fn run(self) -> anyhow::Result<()> {
        let socket =
            UdpSocket::bind(self.listen).with_context(|| format!("bind {}", self.listen))?;
        let switch = Switch::from(self.switch.clone());
        let mut packet = [0; 512];
        loop {
            let (length, from) = socket.recv_from(&mut packet)?;
            if length < 12 {
                continue;
            }
            let id = u16::from_be_bytes([packet[0], packet[1]]);
            let (temper, after) = self.temper(&switch, id);
            if temper == Temper::Mute {
                continue;
            }
            let Some(answer) = reply(&packet[..length], temper) else { continue };
            if after.is_zero() {
                socket.send_to(&answer, from)?;
                continue;
            }
            let socket = socket.try_clone()?;
            std::thread::spawn(move || {
                std::thread::sleep(after);
                socket.send_to(&answer, from)
            });
        }
    }
}

/// Asks one question of `server` and waits for its answer: attempts times timeout, then an error.
/// Returns the response code.
pub fn ask(
    server: SocketAddr,
    name: &str,
    kind: u16,
    timeout: Duration,
    attempts: u32,
) -> anyhow::Result<u8> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(timeout))?;
    let id = (now().to_bits() >> 8) as u16;
    let mut packet = vec![(id >> 8) as u8, id as u8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        packet.push(u8::try_from(label.len()).ok().filter(|l| *l < 64).context("label")?);
        packet.extend_from_slice(label.as_bytes());
    }
    packet.push(0);
    packet.extend_from_slice(&kind.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    let mut answer = [0; 512];
    for _ in 0..attempts {
        socket.send(&packet)?;
        if let Ok(4..) = socket.recv(&mut answer)
            && answer[..2] == packet[..2]
        {
            return Ok(answer[3] & 0x0f);
        }
    }
    bail!("{name}: no answer from {server}")
}

/// Asks DNS questions with its own packets.
#[derive(Debug, Args)]
pub struct Client {
    /// The server.
    server: SocketAddr,
    /// Names to ask for, one after the other.
    names: Vec<String>,
    /// Question type: 1 A, 12 PTR.
    #[arg(long = "type", default_value_t = 1)]
    kind: u16,
    /// Pause between two questions.
    #[arg(long, default_value_t = 100)]
    every_ms: u64,
    /// Time to wait for an answer.
    #[arg(long, default_value_t = 5_000)]
    timeout_ms: u64,
    /// How often to ask.
    #[arg(long, default_value_t = 2)]
    attempts: u32,
    /// End after so many rounds.
    #[arg(long)]
    rounds: Option<usize>,
}

impl Client {
    /// Returns after the rounds asked for.
    pub fn run(self) -> anyhow::Result<()> {
        let figure = Figure::open()?;
        let timeout = Duration::from_millis(self.timeout_ms);
        for _ in 0..self.rounds.unwrap_or(usize::MAX) {
            for name in &self.names {
                // No answer is an operation too: it took as long as it took.
                let _: anyhow::Result<u8> =
                    ask(self.server, name, self.kind, timeout, self.attempts);
                figure.count();
                std::thread::sleep(Duration::from_millis(self.every_ms));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Temper, question, reply};

    const A_QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x02bc\x00\x00\x01\x00\x01\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00";

    #[test]
    fn the_answer_drops_what_follows_the_question() {
        let answer = reply(A_QUERY, Temper::Right).expect("a question");
        assert_eq!(&answer[..12], b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00");
        assert!(answer.ends_with(&[0, 4, 127, 0, 0, 1]));
        assert_eq!(reply(A_QUERY, Temper::Servfail).expect("a question")[3] & 15, 2);
    }

    #[test]
    fn a_torn_question_is_no_question() {
        for length in 12..A_QUERY.len() - 12 {
            assert!(question(&A_QUERY[..length]).is_none(), "{length}");
        }
    }
}
