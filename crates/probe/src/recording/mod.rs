//! A recording: a file of facts that replays anywhere, without root.
//!
//! Format 2: one zstd stream. A header line, `{"holdup_recording":2,"tool":"holdup 0.1.0"}`, then blocks, each
//! behind its length (four bytes, the low one first). In a block the facts about a thread or process (waits,
//! stretches of running, sums; `subject` in recording/parts.rs has them all) are taken apart into columns
//! (recording/columns.rs), because a command's every switch is reported; all others, and every name, stand as JSON. Fields only ever get added. `holdup facts FILE` prints any
//! recording as JSON lines, which is what format 1 was; it is still read.
//! Rejected: JSON for all (three times the bytes); positional binary (see `facts/mod.rs`); a database (not a stream).
//!
//! A file that was cut short (the recorder was killed) is read up to its last whole block, and says so; one that
//! ends before its first is refused for that reason.

mod columns;
mod parts;

use crate::{Source, SourceError};
use columns::{Packer, Unpacker};
use holdup_reason::facts::{Body, Fact, Lost};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read, Write};
use std::path::Path;

/// Version of the file format that is written; readers accept this and older ones.
pub const FORMAT: u32 = 2;

/// Facts handed over per `drain`, so that a large file is not held twice.
const BATCH: usize = 4_096;

/// Longest line that is read: far above any fact, and a bound on what a hostile file can unpack to.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// The same for a block, which a writer ends at about an eighth.
const BLOCK_BYTES_MAX: u32 = 64 << 20;

/// What every zstd stream begins with.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How hard it is tried to make a recording small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For a file: beyond it the columns hardly shrink.
    Small,
    /// For a window that is thrown away in most cases.
    Quick,
}

impl Level {
    /// As zstd counts.
    fn of_zstd(self) -> i32 {
        match self {
            Self::Small => 6,
            Self::Quick => 1,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    holdup_recording: u32,
    tool: String,
}

/// Writes facts to a file as they come.
pub struct Writer<W: Write = File> {
    out: zstd::stream::write::Encoder<'static, W>,
    packer: Packer,
    path: String,
}

impl Writer {
    /// Creates the file, or truncates it, and writes the header.
    pub fn create(path: &Path) -> Result<Self, SourceError> {
        let shown = path.display().to_string();
        let file = File::create(path)
            .map_err(|error| SourceError::System { doing: format!("write {shown}"), error })?;
        Self::new(file, shown, Level::Small)
    }
}

impl<W: Write> Writer<W> {
    /// The same to anywhere; `name` stands in errors.
    pub fn new(to: W, name: String, level: Level) -> Result<Self, SourceError> {
        let system = |error| SourceError::System { doing: format!("write {name}"), error };
        let mut out = zstd::stream::write::Encoder::new(to, level.of_zstd()).map_err(system)?;
        let header = Header {
            holdup_recording: FORMAT,
            tool: format!("holdup {}", env!("CARGO_PKG_VERSION")),
        };
        let line = serde_json::to_string(&header).map_err(|e| system(e.into()))?;
        writeln!(out, "{line}").map_err(system)?;
        Ok(Self { out, packer: Packer::default(), path: name })
    }

    /// Appends facts.
    pub fn write(&mut self, facts: &[Fact]) -> Result<(), SourceError> {
        for fact in facts {
            let is_full = self.packer.add(fact);
            if is_full.map_err(|why| self.system(std::io::Error::other(why)))? {
                self.write_block()?;
            }
        }
        self.write_block()
    }

    fn write_block(&mut self) -> Result<(), SourceError> {
        let Some(block) = self.packer.block() else { return Ok(()) };
        let length = (block.len() as u32).to_le_bytes();
        let written = self.out.write_all(&length).and_then(|()| self.out.write_all(&block));
        written.map_err(|error| self.system(error))
    }

    /// Ends the stream, and gives back where it went; without this call it is cut short.
    pub fn finish(self) -> Result<W, SourceError> {
        let path = self.path;
        let ended = self.out.finish().and_then(|mut to| to.flush().map(|()| to));
        ended.map_err(|error| SourceError::System { doing: format!("write {path}"), error })
    }

    fn system(&self, error: std::io::Error) -> SourceError {
        SourceError::System { doing: format!("write {}", self.path), error }
    }
}

/// Reads a recording as a source.
pub struct Reader {
    from: Box<dyn BufRead>,
    path: String,
    /// Lines or blocks read so far.
    read: u64,
    /// None for format 1.
    unpacker: Option<Unpacker>,
}

/// What comes next in a file.
enum Next {
    Piece(Vec<u8>),
    End,
    CutShort,
}

impl Reader {
    /// Opens a file and checks its header.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let shown = path.display().to_string();
        let file = File::open(path)
            .map_err(|error| SourceError::System { doing: format!("read {shown}"), error })?;
        Self::new(file, shown)
    }

    /// The same from any reader; `name` stands in errors.
    pub fn new(mut file: impl Read + 'static, name: String) -> Result<Self, SourceError> {
        let wrong = |what: &str| SourceError::Recording { path: name.clone(), what: what.into() };
        let system = |error| SourceError::System { doing: format!("read {name}"), error };
        let mut magic = Vec::new();
        file.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut magic).map_err(system)?;
        if magic != ZSTD_MAGIC {
            return Err(wrong("not a holdup recording (not zstd)"));
        }
        let decoder = zstd::stream::read::Decoder::new(Cursor::new(magic).chain(file))
            .map_err(|_| wrong("not a holdup recording (no zstd stream)"))?;
        let mut from: Box<dyn BufRead> = Box::new(BufReader::new(decoder));
        let mut first = Vec::new();
        let read = from.by_ref().take(4096).read_until(b'\n', &mut first);
        read.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => SourceError::CutShort { path: name.clone() },
            _ => wrong("not a holdup recording (damaged zstd)"),
        })?;
        let header: Header = serde_json::from_slice(&first)
            .map_err(|_| wrong("not a holdup recording (no header line)"))?;
        if header.holdup_recording > FORMAT {
            return Err(wrong(&format!(
                "format {} was written by a newer {}; this one reads up to {FORMAT}",
                header.holdup_recording, header.tool
            )));
        }
        let unpacker = (header.holdup_recording > 1).then(Unpacker::default);
        Ok(Self { from, path: name, read: 0, unpacker })
    }

    fn wrong(&self, what: String) -> SourceError {
        SourceError::Recording { path: self.path.clone(), what }
    }

    fn line(&mut self) -> Result<Next, SourceError> {
        let mut line = Vec::new();
        let read = self.from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        // The header was the first.
        self.read += 1;
        let whole = line.last() == Some(&b'\n');
        match read {
            Ok(0) => Ok(Next::End),
            Ok(_) if whole => Ok(Next::Piece(line)),
            Ok(bytes) if bytes as u64 == LINE_BYTES_MAX => {
                let number = self.read + 1;
                let what = "is longer than any fact:";
                Err(self.wrong(format!("line {number} {what} {LINE_BYTES_MAX} bytes")))
            }
            _ => Ok(Next::CutShort),
        }
    }

    fn block(&mut self) -> Result<Next, SourceError> {
        let mut length = Vec::new();
        match self.from.by_ref().take(4).read_to_end(&mut length) {
            Ok(0) => return Ok(Next::End),
            Ok(4) => {}
            _ => return Ok(Next::CutShort),
        }
        self.read += 1;
        let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        if length > BLOCK_BYTES_MAX {
            let number = self.read;
            return Err(self.wrong(format!("block {number} is too long: {length} bytes")));
        }
        let mut block = Vec::new();
        match self.from.by_ref().take(length.into()).read_to_end(&mut block) {
            Ok(bytes) if bytes as u64 == u64::from(length) => Ok(Next::Piece(block)),
            _ => Ok(Next::CutShort),
        }
    }
}

impl Source for Reader {
    fn drain(&mut self, facts: &mut Vec<Fact>) -> Result<bool, SourceError> {
        let enough = facts.len() + BATCH;
        while facts.len() < enough {
            let next = if self.unpacker.is_some() { self.block() } else { self.line() };
            let piece = match next? {
                Next::Piece(piece) => piece,
                Next::End => return Ok(false),
                Next::CutShort => {
                    let at_ns = facts.last().map_or(0, |fact| fact.at_ns);
                    let lost = Lost { source: "recording_cut_short".into(), count: 1 };
                    facts.push(Fact { at_ns, body: Body::Lost(lost) });
                    return Ok(false);
                }
            };
            match &mut self.unpacker {
                Some(unpacker) => {
                    let number = self.read;
                    let unpacked = unpacker.unpack(&piece, facts);
                    unpacked.map_err(|why| self.wrong(format!("block {number}: {why}")))?;
                }
                None => {
                    let number = self.read + 1;
                    let fact = serde_json::from_slice(&piece)
                        .map_err(|why| self.wrong(format!("line {number} is not a fact: {why}")))?;
                    facts.push(fact);
                }
            }
        }
        Ok(true)
    }
}

/// A fact by itself, as a line of JSON; none if it cannot be written.
pub fn text(fact: &Fact) -> Option<String> {
    let mut bytes = Vec::new();
    serde_json::to_writer(&mut bytes, fact).ok()?;
    String::from_utf8(bytes).ok()
}

/// The fact of such a line.
pub fn fact(line: &[u8]) -> Option<Fact> {
    serde_json::from_slice(line).ok()
}
