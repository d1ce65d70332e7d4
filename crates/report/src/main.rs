//! FINDINGS -> PEOPLE. The binary `holdup`: flags, the one event loop, text, JSON, page, documents.
//!
//! `flags` says what is wanted, `main_loop` gets the facts and the report, `text`, `page` and serde tell it,
//! `output` delivers it. Commands of their own do the same in their files (`surface`), and say their exit status; that of a look or a
//! recording is decided here, where alone failures are printed. It must not hold rules (those are in `holdup_reason::rules`) nor read the host (that is `holdup_probe`).

mod delivery;
mod demo;
mod diff;
mod doctor;
mod documents;
mod export;
mod failure;
mod flags;
mod job;
mod main_loop;
mod mcp;
mod net;
mod output;
mod page;
mod progress;
#[cfg(test)]
mod recorded_tests;
mod signals;
mod slow_start;
mod surface;
mod text;
mod top;
mod wait;
mod watch;

use delivery::Delivery;
use failure::Failure;
use holdup_reason::Beside;
use job::{Aim, Job, Task};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use surface::Typed;

fn main() -> ExitCode {
    match flags::read().and_then(answer) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            // Standard error may be closed; there is nobody left to tell.
            let _ = std::io::stderr().write_all(failure.message().as_bytes());
            ExitCode::from(failure.status)
        }
    }
}

/// Does the job and gives the exit status.
// LONG FUNCTION: one arm a task, none of them more than a few lines.
fn answer(job: Job) -> Result<u8, Failure> {
    let Job { task, answer } = job;
    match task {
        Task::Look { aim, seconds, record } => {
            let to_stderr = matches!(aim, Aim::Command(_));
            let out = output::Output::open(&answer, to_stderr, record.as_deref())?;
            let beside = output::Beside::open(&answer, record.as_deref())?;
            let look = main_loop::look(aim, seconds, record.as_deref(), beside.wanted())?;
            out.report(&look.answered.report)?;
            look.answered.deliver(beside)?;
            look.remind(record.as_deref());
            let status = status_of_look(&look.answered.report, answer.check, look.command_status);
            match look.unrecorded {
                None => Ok(status),
                Some(failure) if look.command_status.is_some_and(|own| own != 0) => {
                    Err(failure.with_status(status))
                }
                Some(failure) => Err(failure),
            }
        }
        Task::Replay { file, aim } if watch::span::times(&file).is_some() => {
            span(&file, &aim, &answer)
        }
        Task::Replay { file, aim } => {
            let out = output::Output::open(&answer, false, Some(&file))?;
            let beside = output::Beside::open(&answer, Some(&file))?;
            let answered = main_loop::replay(&file, &aim, beside.wanted())?;
            out.report(&answered.report)?;
            answered.deliver(beside)?;
            Ok(status(&answered.report, answer.check, None))
        }
        Task::Page { file, aim } => {
            let out = output::Output::open(&answer, false, Some(&file))?;
            let wanted = Beside { picture: true, ..Beside::default() };
            main_loop::replay(&file, &aim, wanted)?.draw(out)?;
            Ok(0)
        }
        Task::Export { format, file, aim } => {
            let out = output::Output::open(&answer, false, Some(&file))?;
            let wanted = Beside { export: true, ..Beside::default() };
            main_loop::replay(&file, &aim, wanted)?.export(format, out)?;
            Ok(0)
        }
        Task::Facts { file } => {
            let mut facts = main_loop::open(&file)?;
            output::Output::open(&answer, false, Some(&file))?.lines(&mut facts)?;
            Ok(0)
        }
        Task::Surface { surface, from } => surface.run(Typed { answer, from }),
    }
}

/// What was found in a span of the ring.
fn span(file: &Path, aim: &Aim, answer: &Delivery) -> Result<u8, Failure> {
    let times = watch::span::times(file).unwrap_or_default();
    if !matches!(aim, Aim::Host) || answer.page.is_some() || answer.export.is_some() {
        return Err(Failure::usage(
            "a span of the ring is a list of what was found on the host; -p, -c, --page and --export go with one time",
        ));
    }
    let out = output::Output::open(answer, false, None)?;
    let span = watch::span::answer(&watch::settings::state()?, times, |recording| {
        Ok(main_loop::report_of(recording, &Aim::Host)?.findings)
    })?;
    match answer.json {
        true => out.deliver(&span, |_| ())?,
        false => out.raw(span.render().as_bytes())?,
    }
    Ok(u8::from(answer.check && span.has_found()))
}

/// The exit status of a look. That looking harmed the host comes before what it found, and after a command's own failure.
fn status_of_look(report: &holdup_reason::answer::Report, check: bool, command: Option<i32>) -> u8 {
    match command {
        Some(own) if own != 0 => status(report, check, command),
        _ if report.own_fault.is_some() => failure::OWN_FAULT,
        _ => status(report, check, command),
    }
}

/// The exit status of an answer. A command's failure outranks a finding: who wraps a command in
/// holdup must still see it fail.
fn status(report: &holdup_reason::answer::Report, check: bool, command: Option<i32>) -> u8 {
    match command {
        Some(own) if own != 0 => u8::try_from(own).unwrap_or(1),
        _ => u8::from(check && text::found(report)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str) -> holdup_reason::answer::Report {
        let path = format!("{}/tests/reports/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("kept");
        serde_json::from_str(&text).expect("a report")
    }

    #[test]
    fn check_counts_what_somebody_waits_for() {
        for (name, found) in [("several", 1), ("works_host", 0), ("idle_host_note", 0)] {
            assert_eq!(status(&report(name), true, None), found, "{name}");
            assert_eq!(status(&report(name), false, None), 0, "{name}");
        }
    }

    #[test]
    fn that_looking_harmed_the_host_has_a_status_of_its_own() {
        let mut report = report("several");
        assert_eq!(status_of_look(&report, true, None), 1);
        report.own_fault = Some(holdup_reason::answer::OwnFault::default());
        for (command, expected) in [(None, 4), (Some(0), 4), (Some(3), 3)] {
            assert_eq!(status_of_look(&report, true, command), expected, "{command:?}");
        }
        assert_eq!(status(&report, false, None), 0, "a recording of it harms nobody");
    }

    #[test]
    fn the_command_s_own_failure_comes_first() {
        let report = report("file_lock");
        for (own, check, reported) in
            [(0, false, 0), (0, true, 1), (3, true, 3), (130, false, 130), (137, true, 137)]
        {
            assert_eq!(status(&report, check, Some(own)), reported, "{own} {check}");
        }
    }
}
