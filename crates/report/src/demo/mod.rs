//! `holdup demo`: harmless faults made for real, one after the other, each looked at as any command is, with what was done,
//! the answer, and how to read it.
//!
//! The only command that does something to the host: it begins processes of its own, in a folder and a cgroup of its own, and
//! undoes all on every way out (undo.rs). The truth of each fault is known, so an answer that misses it is called that.
//! Must not: show an answer that was not found here and now.
//!
//! Rejected: a recording that is played back (it would teach the output and prove nothing on this host).
//!
//! Edit together: docs/demo.md.

mod parts;
mod stages;
mod undo;

use crate::failure::{COULD_NOT_LOOK, Failure};
use crate::flags::groups::{AnswerFlags, PrintFlags};
use crate::job::Aim;
use crate::main_loop;
use crate::output::Output;
use crate::surface::{Surface, Typed};
use crate::text::page::{Page, Tone};
use crate::text::{self, escape};
use clap::Args;
use holdup_reason::Beside;
use holdup_reason::answer::{Report, Severity};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use stages::{Fault, NotMade, STAGES, Stage, Truth};
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use undo::Room;

/// What was interrupted, as a shell says it: 128 and the signal.
const INTERRUPTED: u8 = 128;

/// How a part meets the end of another.
const OTHER_END_GONE: [ErrorKind; 4] = [
    ErrorKind::BrokenPipe,
    ErrorKind::ConnectionRefused,
    ErrorKind::ConnectionReset,
    ErrorKind::UnexpectedEof,
];

/// How an answer compares with what was done.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Judged {
    /// It names the cause and whom to blame.
    Right,
    /// It leads to whom to blame, without a name for the cause.
    Led,
    /// It says something else.
    Other,
}

/// Signals that were received.
struct Interrupts {
    flag: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupts {
    fn catch() -> Result<Self, Failure> {
        let (flag, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            flag::register(number, Arc::clone(&flag))
                .and_then(|_| {
                    flag::register_usize(
                        number,
                        Arc::clone(&signal),
                        number.unsigned_abs() as usize,
                    )
                })
                .map_err(|error| Failure::look(format!("cannot catch signals: {error}"), ""))?;
        }
        Ok(Self { flag, signal })
    }

    fn status(&self) -> Option<u8> {
        let signal = u8::try_from(self.signal.load(Ordering::Relaxed)).unwrap_or(0);
        self.flag.load(Ordering::Relaxed).then_some(INTERRUPTED + signal)
    }
}

/// How to show it.
#[derive(Debug, Args)]
#[command(
    after_help = "Locks, a pipe, servers and a CPU quota, made by processes of its own and undone on every way\nout. Works without root, and leaves out what needs it. Exits with 1 if an answer was not\nwhat was done."
)]
pub(crate) struct Flags {
    /// No colours (they are only used on a terminal)
    #[arg(long)]
    no_color: bool,
}

impl Surface for Flags {
    fn answer(&mut self) -> AnswerFlags {
        PrintFlags { no_color: self.no_color, ..PrintFlags::default() }.into()
    }

    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure> {
        run(&mut Output::open(&typed.answer, false, None)?)
    }
}

/// What a process of it is to do.
#[derive(Debug, Args)]
pub(crate) struct PartFlags {
    /// Who began it, what it does, with what
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<String>,
}

impl Surface for PartFlags {
    fn run(self: Box<Self>, _: Typed) -> Result<u8, Failure> {
        part(&self.words)
    }
}

/// A process of the demonstration itself.
fn part(words: &[String]) -> Result<u8, Failure> {
    let done = match words.split_first() {
        Some((word, names)) if word == "janitor" => undo::janitor(names),
        _ => parts::run(words),
    };
    match done {
        Ok(()) => Ok(0),
        // Whoever it talked to was ended, because the demonstration was.
        Err(error) if OTHER_END_GONE.contains(&error.kind()) => Ok(COULD_NOT_LOOK),
        Err(error) => Err(Failure::look(format!("demo: {error}"), "")),
    }
}

/// Makes all faults, looks at each, and undoes them. The exit status: 1 if an answer was not what was done.
fn run(out: &mut Output) -> Result<u8, Failure> {
    let interrupts = Interrupts::catch()?;
    let room = Room::make()?;
    let shown = show(out, &room, &interrupts);
    let gone = room.leave();
    if !gone {
        let what = "not all that the demonstration made could be removed";
        return Err(Failure::look(
            what,
            "The next `holdup demo` removes it: holdup-demo-* in TMPDIR.",
        ));
    }
    match (shown, interrupts.status()) {
        (_, Some(status)) => {
            let reported = "\nInterrupted. All that the demonstration made is undone.\n";
            let _ = std::io::stderr().write_all(reported.as_bytes());
            Ok(status)
        }
        (shown, None) => shown,
    }
}

fn show(out: &mut Output, room: &Room, interrupts: &Interrupts) -> Result<u8, Failure> {
    if !out.print(|page| introduction(room, page))? {
        return Ok(0);
    }
    let (mut judged, mut left_out) = (Vec::new(), 0);
    for (at, stage) in STAGES.iter().enumerate() {
        let heading = format!("{} of {}: {}", at + 1, STAGES.len(), stage.title);
        let fault = match (stage.make)(room) {
            Ok(fault) => fault,
            Err(NotMade::Here(why)) => {
                left_out += 1;
                if !out.print(|page| not_made(&heading, &why, page))? {
                    return Ok(0);
                }
                continue;
            }
            Err(NotMade::Failed(error)) => {
                return Err(Failure::look(format!("cannot make {}: {error}", stage.title), ""));
            }
        };
        if !out.print(|page| made(&heading, &fault, page))? || interrupts.status().is_some() {
            return Ok(0);
        }
        let clock = fault
            .clock(&interrupts.flag)
            .map_err(|error| Failure::look(format!("cannot make {}: {error}", stage.title), ""))?;
        let looked =
            main_loop::look(Aim::Command(fault.command.clone()), None, None, Beside::default());
        drop(clock);
        if interrupts.status().is_some() {
            return Ok(0);
        }
        let report = looked?.answered.report;
        let verdict = judge(&report, &fault.truth);
        if !out.print(|page| answer(&report, stage, &fault, &verdict, page))? {
            return Ok(0);
        }
        judged.push(verdict);
    }
    out.print(|page| summary(&judged, left_out, page))?;
    Ok(u8::from(judged.contains(&Judged::Other)))
}

/// Whether an answer says what was done: the first finding above a note, else where the largest end leads.
fn judge(report: &Report, truth: &Truth) -> Judged {
    let blamed = |pid: Option<u32>| truth.culprit.is_none() || pid == truth.culprit;
    let first = report.findings.iter().find(|it| it.severity > Severity::Note);
    if let Some(finding) = first {
        let right = finding.code == truth.code && blamed(finding.culprit.pid);
        return if right { Judged::Right } else { Judged::Other };
    }
    let leads = |end: &holdup_reason::answer::AnswerEnd| {
        let who = end.who.as_ref().and_then(|who| who.pid);
        truth.culprit.is_some() && blamed(who)
    };
    if report.answer.largest().is_some_and(leads) { Judged::Led } else { Judged::Other }
}

fn introduction(room: &Room, page: &mut Page) {
    page.verdict("Harmless faults, made here and now, and what holdup says of each", Tone::Heading);
    let folder = escape::name(&room.folder.display().to_string(), 60);
    let group = if room.group.is_ok() { ", in a cgroup of their own" } else { "" };
    page.paragraph(&format!(
        "All is done by processes of this demonstration, in {folder}{group}, and is undone at its end, \
         however it ends. It takes about half a minute."
    ));
}

fn made(heading: &str, fault: &Fault, page: &mut Page) {
    page.start_on_a_new_line();
    page.verdict(heading, Tone::Heading);
    page.labelled("made", &escape::prose(&fault.made, 600));
    let name = fault.command.first().map(|path| path.to_string_lossy().into_owned());
    let name = name.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    page.labelled(
        "asked",
        &format!("what `{}` waits for, as `holdup run -- CMD` does", escape::line(name)),
    );
    page.start_on_a_new_line();
}

fn not_made(heading: &str, why: &str, page: &mut Page) {
    page.start_on_a_new_line();
    page.verdict(heading, Tone::Heading);
    page.paragraph(&format!("Left out: {}.", escape::prose(why, 300)));
}

fn answer(report: &Report, stage: &Stage, fault: &Fault, verdict: &Judged, page: &mut Page) {
    text::answer(report, false, page);
    page.start_on_a_new_line();
    page.labelled("read", stage.reading);
    let words = escape::prose(&fault.truth.words, 300);
    match verdict {
        Judged::Right => page.labelled("check", &format!("right: {words}.")),
        Judged::Led => page.labelled(
            "check",
            &format!("nearly: {words}. It leads there, and has no name for the cause ({}).", fault.truth.code),
        ),
        Judged::Other => page.labelled(
            "check",
            &format!(
                "NOT what was done: {words} ({}). Perhaps something else held it up more, or not enough could be \
                 seen here: `holdup doctor` says what.",
                fault.truth.code
            ),
        ),
    }
}

fn summary(judged: &[Judged], left_out: usize, page: &mut Page) {
    let right = judged.iter().filter(|it| **it == Judged::Right).count();
    page.start_on_a_new_line();
    let tone = if right == judged.len() { Tone::Good } else { Tone::Warning };
    let skipped = match left_out {
        0 => String::new(),
        count => format!(", {count} left out"),
    };
    page.verdict(
        &format!(
            "{right} of {} answers were what was done{skipped}. All of it is undone.",
            judged.len()
        ),
        tone,
    );
    page.paragraph(
        "Next: `holdup run -- CMD` for a command of yours, `holdup` for this host, `holdup -p PID` for a process, \
         `holdup doctor` for what can be seen here.",
    );
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
