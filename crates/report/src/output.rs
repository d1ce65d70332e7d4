//! Where an answer goes: standard output, standard error (commands), or the file of `-o`.
//!
//! The file is opened before the look, so that a typing error does not cost a look, and emptied only
//! when there is something to write, so that a failed look does not cost the last report.
//! A reader that goes away (`holdup | head`) is no failure.

use crate::delivery::Delivery;
use crate::export::{Format, Wanted};
use crate::failure::Failure;
use crate::text::{self, page::Page};
use holdup_probe::Source;
use holdup_reason::answer::Report;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Columns of a report where no terminal says less.
const WIDTH: usize = 80;

/// An open destination.
pub(crate) struct Output {
    sink: Sink,
    json: bool,
    verbose: bool,
    colour: bool,
    width: usize,
}

/// Files beside the answer.
pub(crate) struct Beside {
    /// The page's.
    pub page: Option<Output>,
    /// That of another tool.
    pub export: Option<(Format, Output)>,
}

impl Beside {
    /// Opens those that are wanted.
    pub(crate) fn open(answer: &Delivery, other: Option<&Path>) -> Result<Self, Failure> {
        let page = Output::open_page(answer, other)?;
        Ok(Self { page, export: Output::open_export(answer, other)? })
    }

    /// What they take.
    pub(crate) fn wanted(&self) -> holdup_reason::Beside {
        let (picture, export) = (self.page.is_some(), self.export.is_some());
        holdup_reason::Beside { picture, export, look: false }
    }
}

enum Sink {
    Stdout,
    Stderr,
    File { file: File, path: PathBuf, untouched_and_new: bool },
}

impl Output {
    /// Opens it; `other` is the recording read or written, which the report may not overwrite.
    pub(crate) fn open(
        answer: &Delivery,
        to_stderr: bool,
        other: Option<&Path>,
    ) -> Result<Self, Failure> {
        let sink = match &answer.output {
            Some(path) => open_file(path, other, "the report (-o) and the recording")?,
            None if to_stderr => Sink::Stderr,
            None => Sink::Stdout,
        };
        let terminal = match &sink {
            Sink::Stdout => io::stdout().is_terminal(),
            Sink::Stderr => io::stderr().is_terminal(),
            Sink::File { .. } => false,
        };
        let width = match (terminal, terminal_size::terminal_size()) {
            (true, Some((columns, _))) => usize::from(columns.0).min(WIDTH),
            _ => WIDTH,
        };
        Ok(Self {
            sink,
            json: answer.json,
            verbose: answer.verbose,
            colour: terminal && !answer.no_color && !no_color_wished(),
            width,
        })
    }

    /// Opens the file of an export, if one is wanted; it may overwrite neither the recording, the report nor the page.
    fn open_export(
        answer: &Delivery,
        other: Option<&Path>,
    ) -> Result<Option<(Format, Self)>, Failure> {
        let Some(Wanted { format, file }) = &answer.export else { return Ok(None) };
        for (of, both) in [
            (answer.output.as_deref(), "the report (-o) and the export"),
            (answer.page.as_deref(), "the page (--page) and the export"),
        ] {
            drop(open_file(file, of, both)?);
        }
        let sink = open_file(file, other, "the export and the recording")?;
        let to = Self { sink, json: false, verbose: false, colour: false, width: WIDTH };
        Ok(Some((*format, to)))
    }

    /// Opens the file of the page, if one is wanted; it may overwrite neither the recording nor the report.
    pub(crate) fn open_page(
        answer: &Delivery,
        other: Option<&Path>,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = &answer.page else { return Ok(None) };
        if path.as_os_str() == "-" {
            return Err(Failure::usage("--page needs a file; `holdup page FILE` prints a page"));
        }
        drop(open_file(path, answer.output.as_deref(), "the report (-o) and the page (--page)")?);
        let sink = open_file(path, other, "the page (--page) and the recording")?;
        Ok(Some(Self { sink, json: false, verbose: false, colour: false, width: WIDTH }))
    }

    /// Delivers a report.
    pub(crate) fn report(self, report: &Report) -> Result<(), Failure> {
        let verbose = self.verbose;
        self.deliver(report, |page| text::report(report, verbose, page))
    }

    /// Delivers `value` as JSON, or as the text that `render` writes.
    pub(crate) fn deliver(
        mut self,
        value: &impl Serialize,
        render: impl FnOnce(&mut Page),
    ) -> Result<(), Failure> {
        let text = if self.json {
            let mut text = serde_json::to_string_pretty(value)
                .map_err(|error| Failure::look(format!("cannot write JSON: {error}"), ""))?;
            text.push('\n');
            text::escape::json(&text)
        } else {
            let mut page = Page::new(self.width, self.colour);
            if matches!(self.sink, Sink::Stderr) {
                // The command may have left its last line open.
                page.start_on_a_new_line();
            }
            render(&mut page);
            page.finish()
        };
        self.write(text.as_bytes())
    }

    /// Writes a piece of text at once; `false` if nobody reads any more.
    pub(crate) fn print(&mut self, render: impl FnOnce(&mut Page)) -> Result<bool, Failure> {
        let mut page = Page::new(self.width, self.colour);
        render(&mut page);
        self.append(page.finish().as_bytes())
    }

    /// Delivers a document as it is.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.write(bytes)
    }

    /// Delivers the facts of a recording as they are read, a line of JSON each.
    pub(crate) fn lines(mut self, from: &mut dyn Source) -> Result<(), Failure> {
        let mut facts = Vec::new();
        self.begin()?;
        loop {
            let more = from.drain(&mut facts)?;
            let mut text = String::new();
            for fact in facts.drain(..) {
                let line = serde_json::to_string(&fact)
                    .map_err(|error| Failure::look(format!("cannot write JSON: {error}"), ""))?;
                text.push_str(&text::escape::json(&line));
                text.push('\n');
            }
            if !self.append(text.as_bytes())? || !more {
                return Ok(());
            }
        }
    }

    /// What cannot be written to its file, as on a full disk, goes to standard error: the look cannot be had again.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.begin().and_then(|()| self.append(bytes).map(drop));
        if written.is_err() && matches!(self.sink, Sink::File { .. }) {
            let _ = io::stderr().lock().write_all(bytes);
        }
        written
    }

    /// Empties a file.
    fn begin(&mut self) -> Result<(), Failure> {
        let Sink::File { file, path, untouched_and_new } = &mut self.sink else { return Ok(()) };
        *untouched_and_new = false;
        empty(file).map_err(|error| Failure::file("write the report to", path, &error))
    }

    /// Writes on; `false` if nobody reads any more.
    fn append(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let written = match &mut self.sink {
            Sink::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Sink::Stderr => io::stderr().lock().write_all(bytes),
            Sink::File { file, .. } => file.write_all(bytes),
        };
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => {
                let path = match &self.sink {
                    Sink::Stdout => Path::new("standard output"),
                    Sink::Stderr => Path::new("standard error"),
                    Sink::File { path, .. } => path,
                };
                Err(Failure::file("write the report to", path, &error))
            }
        }
    }
}

/// A look that failed leaves no empty report behind.
impl Drop for Sink {
    fn drop(&mut self) {
        if let Self::File { path, untouched_and_new: true, .. } = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn open_file(path: &Path, other: Option<&Path>, both: &str) -> Result<Sink, Failure> {
    let new = !path.exists();
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = opened.map_err(|error| Failure::file("write the report to", path, &error))?;
    let same = |other: &Path| {
        let (Ok(a), Ok(b)) = (file.metadata(), std::fs::metadata(other)) else { return false };
        a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino())
    };
    match other {
        Some(other) if same(other) => {
            Err(Failure::usage(format!("{both} are the same file, {}", path.display())))
        }
        _ => Ok(Sink::File { file, path: path.to_owned(), untouched_and_new: new }),
    }
}

/// Pipes and terminals have nothing to empty.
fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

/// no-color.org, and terminals that say that they are dumb.
pub(crate) fn no_color_wished() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_some() || set("TERM").is_none_or(|term| term == "dumb")
}
