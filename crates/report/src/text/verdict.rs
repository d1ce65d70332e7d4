//! The sentence for a target that nothing holds up: said plainly, with where its time went.

use super::accounting::{is_idle, is_running, part_name};
use super::page::{Page, Tone};
use super::{escape, units};
use holdup_reason::facts::TargetKind;
use holdup_reason::findings::{Accounting, Report};

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
    page.verdict(&format!("Nothing holds up {name}."), Tone::Good);
    page.paragraph(&where_time_went(report));
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
        .max_by(|a, b| a.seconds.total_cmp(&b.seconds))
        .filter(|part| part.seconds > 0.0);
    let longest = longest.map_or_else(String::new, |part| {
        format!(", most of it for {} ({})", part_name(part, 40), units::seconds(part.seconds))
    });
    if report.target.kind == TargetKind::Command {
        return format!(
            "Of its {} it ran for {} ({}) and waited for {}{longest}.",
            units::seconds(*wall),
            units::seconds(running),
            units::share(running, *wall),
            units::seconds(wall - running),
        );
    }
    format!(
        "In {} its threads were idle, with no work to do, for {} of their time; of the rest they \
         ran for {} and waited for {}{longest}.",
        units::seconds(report.window.seconds),
        units::share(idle, *wall),
        units::seconds(running),
        units::seconds(waiting),
    )
}
