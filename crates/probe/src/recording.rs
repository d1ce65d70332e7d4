//! A recording: a file of facts that replays anywhere, without root.
//!
//! Format: one zstd stream of JSON lines. The first line is the header
//! `{"holdup_recording":1,"tool":"holdup 0.1.0"}`, each other line one [`Fact`] in order of arrival.
//! Self-describing on purpose: `zstdcat FILE | jq` reads it, unknown fields are skipped, fields only
//! ever get added. Rejected: positional binary (see `facts/mod.rs`); a database (not a stream).
//!
//! A file that was cut short (the recorder was killed) is read up to its last whole line, and says so.

use crate::{Source, SourceError};
use holdup_reason::facts::{Body, Fact, Lost};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

/// Version of the file format that is written; readers accept this and older ones.
pub const FORMAT: u32 = 1;

/// Facts handed over per `drain`, so that a large file is not held twice.
const BATCH: usize = 65_536;

/// Longest line that is read: far above any fact, and a bound on what a hostile file can unpack to.
const LINE_BYTES_MAX: u64 = 4 << 20;

#[derive(Serialize, Deserialize)]
struct Header {
    holdup_recording: u32,
    tool: String,
}

/// Writes facts to a file as they come.
pub struct Writer {
    out: zstd::stream::write::Encoder<'static, File>,
    path: String,
}

impl Writer {
    /// Creates the file, or truncates it, and writes the header.
    pub fn create(path: &Path) -> Result<Self, SourceError> {
        let shown = path.display().to_string();
        let system = |error| SourceError::System { doing: format!("write {shown}"), error };
        let file = File::create(path).map_err(system)?;
        let mut out = zstd::stream::write::Encoder::new(file, 6).map_err(system)?;
        let header = Header {
            holdup_recording: FORMAT,
            tool: format!("holdup {}", env!("CARGO_PKG_VERSION")),
        };
        let line = serde_json::to_string(&header).map_err(|e| system(e.into()))?;
        writeln!(out, "{line}").map_err(system)?;
        Ok(Self { out, path: shown })
    }

    /// Appends facts.
    pub fn write(&mut self, facts: &[Fact]) -> Result<(), SourceError> {
        for fact in facts {
            serde_json::to_writer(&mut self.out, fact)
                .map_err(std::io::Error::from)
                .and_then(|()| self.out.write_all(b"\n"))
                .map_err(|error| self.system(error))?;
        }
        Ok(())
    }

    /// Ends the stream; without this call the file is cut short.
    pub fn finish(self) -> Result<(), SourceError> {
        let path = self.path;
        self.out
            .finish()
            .and_then(|mut file| file.flush())
            .map_err(|error| SourceError::System { doing: format!("write {path}"), error })
    }

    fn system(&self, error: std::io::Error) -> SourceError {
        SourceError::System { doing: format!("write {}", self.path), error }
    }
}

/// Reads a recording as a source.
pub struct Reader {
    lines: Box<dyn BufRead>,
    path: String,
    line: u64,
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
    pub fn new(from: impl Read + 'static, name: String) -> Result<Self, SourceError> {
        let wrong = |what: &str| SourceError::Recording { path: name.clone(), what: what.into() };
        let decoder = zstd::stream::read::Decoder::new(from)
            .map_err(|_| wrong("not a holdup recording (no zstd stream)"))?;
        let mut lines: Box<dyn BufRead> = Box::new(BufReader::new(decoder));
        let mut first = Vec::new();
        lines
            .by_ref()
            .take(4096)
            .read_until(b'\n', &mut first)
            .map_err(|_| wrong("not a holdup recording (not zstd)"))?;
        let header: Header = serde_json::from_slice(&first)
            .map_err(|_| wrong("not a holdup recording (no header line)"))?;
        if header.holdup_recording > FORMAT {
            return Err(wrong(&format!(
                "format {} was written by a newer {}; this one reads up to {FORMAT}",
                header.holdup_recording, header.tool
            )));
        }
        Ok(Self { lines, path: name, line: 1 })
    }
}

impl Source for Reader {
    fn drain(&mut self, facts: &mut Vec<Fact>) -> Result<bool, SourceError> {
        let mut line = Vec::new();
        for _ in 0..BATCH {
            line.clear();
            let read = self.lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            self.line += 1;
            let whole = line.last() == Some(&b'\n');
            match read {
                Ok(0) => return Ok(false),
                Ok(_) if whole => {}
                Ok(bytes) if bytes as u64 == LINE_BYTES_MAX => {
                    return Err(SourceError::Recording {
                        path: self.path.clone(),
                        what: format!(
                            "line {} is longer than {LINE_BYTES_MAX} bytes, so it is no fact",
                            self.line
                        ),
                    });
                }
                _ => {
                    let at_ns = facts.last().map_or(0, |fact| fact.at_ns);
                    let lost = Lost { source: "recording_cut_short".into(), count: 1 };
                    facts.push(Fact { at_ns, body: Body::Lost(lost) });
                    return Ok(false);
                }
            }
            match serde_json::from_slice(&line) {
                Ok(fact) => facts.push(fact),
                Err(error) => {
                    return Err(SourceError::Recording {
                        path: self.path.clone(),
                        what: format!("line {} is not a fact: {error}", self.line),
                    });
                }
            }
        }
        Ok(true)
    }
}
