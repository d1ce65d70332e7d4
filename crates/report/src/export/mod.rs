//! A look for the tools that people have open already: one file a format, all of them made of one model.
//!
//! The model (`holdup_reason::answer::export`) is of the same measures as the answer; a format only writes it down, so that time in a
//! file is time in the answer (tests/exports.rs adds it up). Names come from anybody: formats carry them as data. Must not: weigh,
//! leave out, or name anything that the model does not.
//!
//! Rejected: CSV and Parquet (a table of what? JSON Lines have all of it), crates of each format (most are unmaintained, and each
//! message is a few fields).
//!
//! Edit together: docs/export.md, tests/exports/ (each format in its real reader).

mod folded;
mod lines;
pub(crate) mod otlp;
mod perfetto;
mod pprof;
mod speedscope;

use crate::failure::Failure;
use clap::ValueEnum;
use holdup_reason::answer::Report;
use holdup_reason::answer::export::Export;
use std::path::PathBuf;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Folded stacks, a line each: flamegraph.pl, inferno
    Folded,
    /// speedscope.app: work, waits and idle time as flame graphs
    Speedscope,
    /// A gzipped profile for `go tool pprof` and what reads its files
    Pprof,
    /// OpenTelemetry spans of a command (OTLP/HTTP JSON); TRACEPARENT is their parent
    Otlp,
    /// A trace for ui.perfetto.dev: threads, their waits, and who ended each
    Perfetto,
    /// Findings and ends, a line of JSON each
    Jsonl,
}

/// A format and the file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The format.
    pub format: Format,
    /// The file.
    pub file: PathBuf,
}

/// `FORMAT:FILE`.
pub(crate) fn wanted(text: &str) -> Result<Wanted, String> {
    let (format, file) =
        text.split_once(':').ok_or("it is FORMAT:FILE, as in speedscope:why.json")?;
    let format = Format::from_str(format, false).map_err(|_| {
        let names: Vec<String> = Format::value_variants()
            .iter()
            .filter_map(|it| Some(it.to_possible_value()?.get_name().to_string()))
            .collect();
        format!("there is no format {format}: it is one of {}", names.join(", "))
    })?;
    match file.is_empty() {
        true => Err("the name of a file is missing after the colon".into()),
        false => Ok(Wanted { format, file: file.into() }),
    }
}

/// The look in a format; `parent` is what TRACEPARENT says.
pub(crate) fn render(
    format: Format,
    report: &Report,
    export: &Export,
    parent: Option<&str>,
) -> Result<Vec<u8>, Failure> {
    match format {
        Format::Folded => Ok(folded::render(export)),
        Format::Speedscope => speedscope::render(report, export),
        Format::Pprof => pprof::render(export),
        Format::Otlp => otlp::render(report, export, parent),
        Format::Perfetto => Ok(perfetto::render(export)),
        Format::Jsonl => lines::render(report),
    }
}

/// JSON of a value, whose names hold nothing that acts on a terminal.
fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::look(format!("cannot write JSON: {error}"), ""))?;
    Ok(crate::text::escape::json(&text))
}

#[cfg(test)]
#[path = "tests.rs"]
mod time_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_and_a_file_are_typed_together() {
        let right = wanted("pprof:/tmp/a:b.gz").expect("right");
        assert_eq!((right.format, right.file.to_str()), (Format::Pprof, Some("/tmp/a:b.gz")));
        for wrong in ["pprof", "pprof:", "csv:x", ":x"] {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
    }
}
