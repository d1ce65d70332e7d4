//! `holdup diff`: two recordings, or several a side, read one after the other and compared.
//!
//! Owns which recordings stand on which side. Each is read and answered for by itself, and forgotten but for what is
//! compared, so that ten recordings take the memory of one. Must not: compare (that is `holdup_reason`'s), or word the result
//! (text/comparison.rs).
//!
//! Rejected: reports in JSON as a side (they fold what is small, and do not say what was not seen).

use crate::failure::Failure;
use crate::flags::groups::{AnswerFlags, PrintFlags};
use crate::main_loop;
use crate::output::Output;
use crate::page;
use crate::surface::{Surface, Typed};
use crate::text;
use clap::Args;
use holdup_reason::answer::compare::{self, Comparison, Named};
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

/// What to compare, and how to say it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holdup diff yesterday.hup today.hup\n  holdup diff yesterday.hup today.hup --page diff.html\n  holdup diff --before a.hup b.hup c.hup --after d.hup e.hup f.hup\n\nA recording is made with `holdup record FILE`."
)]
pub(crate) struct Flags {
    #[command(flatten)]
    sides: Sides,
    #[command(flatten)]
    print: PrintFlags,
    /// Draw the comparison into a page as well: one HTML file
    #[arg(long, value_name = "PAGE")]
    page: Option<PathBuf>,
    /// Exit with 1 if something above a note became worse
    #[arg(long)]
    check: bool,
    /// Show every change with its range, and the parts of the time
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
}

impl Surface for Flags {
    fn answer(&mut self) -> AnswerFlags {
        let (print, page) = (std::mem::take(&mut self.print), self.page.take());
        AnswerFlags { print, page, check: self.check, verbose: self.verbose, export: None }
    }

    fn run(self: Box<Self>, Typed { answer, .. }: Typed) -> Result<u8, Failure> {
        let sides = self.sides;
        sides.spare(answer.output.as_deref(), "the comparison (-o)")?;
        sides.spare(answer.page.as_deref(), "the page (--page)")?;
        let out = Output::open(&answer, false, None)?;
        let to = Output::open_page(&answer, None)?;
        let comparison = sides.compare()?;
        out.deliver(&comparison, |page| {
            text::comparison::render(&comparison, answer.verbose, page);
        })?;
        if let Some(to) = to {
            let noise = text::comparison::noise(&comparison);
            to.raw(&page::render_comparison(&comparison, &noise)?)?;
        }
        Ok(u8::from(answer.check && comparison.is_worse))
    }
}

/// The recordings of both sides.
#[derive(Debug, Default, Args)]
struct Sides {
    /// The recording before
    #[arg(value_name = "BEFORE", required_unless_present = "before", requires = "second")]
    #[arg(conflicts_with_all = ["before", "after"])]
    first: Option<PathBuf>,
    /// The recording after
    #[arg(value_name = "AFTER")]
    second: Option<PathBuf>,
    /// Recordings before, several to measure their spread
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after")]
    before: Vec<PathBuf>,
    /// Recordings after
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    after: Vec<PathBuf>,
}

impl Sides {
    fn split(&self) -> (&[PathBuf], &[PathBuf]) {
        match (&self.first, &self.second) {
            (Some(before), Some(after)) => (slice::from_ref(before), slice::from_ref(after)),
            _ => (&self.before, &self.after),
        }
    }

    /// Reads all, and compares.
    fn compare(&self) -> Result<Comparison, Failure> {
        let (before, after) = self.split();
        let read =
            |files: &[PathBuf]| files.iter().map(|file| look(file)).collect::<Result<_, _>>();
        let (before, after): (Vec<Named>, Vec<Named>) = (read(before)?, read(after)?);
        compare::compare(&before, &after).map_err(|refusal| {
            Failure::look(format!("cannot compare: {}", refusal.why), refusal.advice)
        })
    }

    /// A comparison must not overwrite what it compares; `what` would.
    fn spare(&self, output: Option<&Path>, what: &str) -> Result<(), Failure> {
        let Some(output) = output.and_then(|it| fs::canonicalize(it).ok()) else {
            return Ok(());
        };
        let (before, after) = self.split();
        match before
            .iter()
            .chain(after)
            .any(|file| fs::canonicalize(file).is_ok_and(|it| it == output))
        {
            true => Err(Failure::usage(format!(
                "{what} and a recording are the same file, {}",
                output.display()
            ))),
            false => Ok(()),
        }
    }
}

fn look(file: &Path) -> Result<Named, Failure> {
    Ok(Named { recording: file.display().to_string(), look: main_loop::look_again(file)? })
}
