//! The sentence for a target that nothing holds up: said plainly, with where its time went.
//!
//! "Nothing" needs a time that was seen: a look that saw none says that instead. It must not call a
//! long idle time a wait.

use super::accounting::{is_idle, is_running, part_name, threads};
use super::page::{Page, Tone};
use super::{escape, units};
use holdup_reason::answer::{Accounting, Part, Report};
use holdup_reason::facts::TargetKind;

/// Columns of a target's name; a command's words may be many.
const NAME_WIDTH_MAX: usize = 50;

/// Verdict and paragraph.
pub fn nothing_found(report: &Report, page: &mut Page) {
    let name = target(report);
    let Accounting { wall_seconds, .. } = report.accounting;
    if wall_seconds <= 0.0 {
        page.verdict(&format!("Nothing is known of {name}: no time was seen."), Tone::Warning);
        return;
    }
    match sees_less(report) {
        true => page.verdict(
            &format!("Nothing holds up {name}, as far as holdup could see."),
            Tone::Warning,
        ),
        false => page.verdict(&format!("Nothing holds up {name}{}.", at_rest(report)), Tone::Good),
    }
    page.paragraph(&where_time_went(report));
}

/// For a process or container that has nothing to do: what it does instead.
fn at_rest(report: &Report) -> &'static str {
    const RESTS: f64 = 0.95;
    let Accounting { wall_seconds: wall, parts, .. } = &report.accounting;
    let seconds = |wanted: &str| -> f64 {
        let of = |part: &&Part| is_idle(&part.class) && part.object.kind == wanted;
        parts.iter().filter(of).map(|part| part.seconds).sum()
    };
    let (sleeps, work, threads) = (seconds("timer"), seconds("work"), seconds("thread"));
    let rests = sleeps + work + threads >= RESTS * wall;
    if !rests || matches!(report.target.kind, TargetKind::Host | TargetKind::Command) {
        return "";
    }
    if sleeps > work { ": it sleeps on purpose" } else { ": it waits for work" }
}

/// Whether a caveat says that a cause may have been missed: all but those on when, how much, what looking costs,
/// single processes of another namespace, and who has no CPU because many have work.
fn sees_less(report: &Report) -> bool {
    let harmless = [
        "ended_early",
        "residual",
        "blind.netns",
        "blind.task_storage",
        "disk_starved",
        "cpu_full",
    ];
    report.caveats.iter().any(|caveat| !harmless.contains(&caveat.code.as_str()))
}

/// The target as a subject.
pub fn target(report: &Report) -> String {
    let name = escape::name(&report.target.name, NAME_WIDTH_MAX);
    match (report.target.kind, report.target.pid) {
        (TargetKind::Host, _) if name.is_empty() => "this host".into(),
        (TargetKind::Host, _) => name,
        (TargetKind::Container, _) => format!("container {name}"),
        (TargetKind::Process, Some(pid)) => format!("{name} {pid}"),
        (TargetKind::Process, None) => name,
        (TargetKind::Command, _) => format!("`{name}`"),
    }
}

fn where_time_went(report: &Report) -> String {
    let Accounting { wall_seconds: wall, parts, .. } = &report.accounting;
    let sum = |wanted: fn(&str) -> bool| -> f64 {
        parts.iter().filter(|part| wanted(&part.class)).map(|part| part.seconds).sum()
    };
    let (idle, running) = (sum(is_idle), sum(is_running));
    let waiting = (wall - idle - running).max(0.0);
    let longest = parts
        .iter()
        .filter(|part| !is_idle(&part.class) && !is_running(&part.class))
        .filter(|part| !["not seen", "short waits"].contains(&part.class.as_str()))
        .max_by(|a, b| a.seconds.total_cmp(&b.seconds))
        .filter(|part| part.seconds > 0.0);
    let waited = match longest {
        Some(part) => format!(
            "waited for {}, the longest part for {} ({})",
            units::seconds(waiting),
            part_name(part, 40),
            units::seconds(part.seconds)
        ),
        None if waiting > 0.000_5 => {
            format!("waited for {}, for what was not seen", units::seconds(waiting))
        }
        None => "waited for nothing".into(),
    };
    if report.target.kind == TargetKind::Command {
        let (wall_told, ran) = (units::seconds(*wall), units::seconds(running));
        let share = units::share(running, *wall);
        return format!("Of its {wall_told} it ran for {ran} ({share}) and {waited}.");
    }
    let threads = threads(report).unwrap_or_default();
    let (idle, ran) = (units::share(idle, *wall), units::seconds(running));
    let window = units::seconds(report.window.seconds);
    if idle == "0 %" {
        return format!("In {window} its {threads} ran for {ran} and {waited}.");
    }
    format!(
        "In {window} its {threads} had no work to do for {idle} of the time. For the rest it ran \
         {ran} and {waited}."
    )
}
