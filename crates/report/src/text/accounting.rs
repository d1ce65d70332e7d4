//! Where the time went: the parts, their sum, and what is missing, so that a reader can check it.
//!
//! Idle time stands last and outside the shares: a host's threads are idle nearly all of the time,
//! and "0.1 %" of that would hide what matters.

use super::page::{Page, Tone};
use super::verdict;
use super::{escape, units};
use holdup_reason::facts::TargetKind;
use holdup_reason::findings::{Part, Report};

/// Rows before the rest is folded.
const ROWS: usize = 8;

/// Time with no work to do.
pub fn is_idle(class: &str) -> bool {
    class == "idle"
}

/// Time on a CPU.
pub fn is_running(class: &str) -> bool {
    class == "running"
}

/// The table.
pub fn tell(report: &Report, verbose: bool, page: &mut Page) {
    let accounting = &report.accounting;
    page.verdict(&heading(report), Tone::Heading);
    if accounting.parts.is_empty() {
        return;
    }
    let (idle, mut busy): (Vec<&Part>, Vec<&Part>) =
        accounting.parts.iter().partition(|part| is_idle(&part.class));
    busy.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let idle_seconds: f64 = idle.iter().map(|part| part.seconds).sum();
    let whole = accounting.wall_seconds - idle_seconds;
    let rows = if verbose || busy.len() <= ROWS + 1 { busy.len() } else { ROWS };
    let room = page.columns() - 22;
    for part in &busy[..rows] {
        page.row(&row(part.seconds, whole, &part_name(part, room)), Tone::Plain);
    }
    let rest: f64 = busy[rows..].iter().map(|part| part.seconds).sum();
    if rows < busy.len() {
        page.row(&row(rest, whole, &format!("{} smaller parts", busy.len() - rows)), Tone::Faint);
    }
    if !idle.is_empty() {
        page.row(&row(idle_seconds, f64::NAN, "idle, no work to do"), Tone::Faint);
    }
    let sum: f64 = accounting.parts.iter().map(|part| part.seconds).sum();
    page.row(&row(sum, f64::NAN, &closing(sum, report)), Tone::Plain);
}

fn heading(report: &Report) -> String {
    let when = begin(report.window.begin_unix_ns);
    let window = units::seconds(report.window.seconds);
    let name = verdict::target(report);
    let wall = report.accounting.wall_seconds;
    match report.target.kind {
        TargetKind::Command => {
            let status = match report.target.exit_status {
                Some(0) | None => String::new(),
                Some(status) => format!(", exit status {status}"),
            };
            format!("Where the {} of {name} went ({when}{status})", units::seconds(wall))
        }
        _ if report.window.seconds > 0.0 && wall > 0.0 => format!(
            "Where the time of {name} went in {window} ({when}); {} threads on average",
            units::count((wall / report.window.seconds).round() as u64)
        ),
        _ => format!("Looked at {name} for {window} ({when})"),
    }
}

fn begin(unix_ns: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(unix_ns);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

fn closing(sum: f64, report: &Report) -> String {
    let accounting = &report.accounting;
    let wall = table_seconds(accounting.wall_seconds);
    let missing = (accounting.wall_seconds - sum).abs();
    match missing < 0.000_5 {
        true => format!("together, of {wall}: nothing is missing"),
        false => format!(
            "together, of {wall}: {} unaccounted ({})",
            units::seconds(accounting.wall_seconds - sum),
            units::share(missing, accounting.wall_seconds)
        ),
    }
}

fn row(seconds: f64, whole: f64, what: &str) -> String {
    let share = if whole > 0.0 { units::share(seconds, whole) } else { String::new() };
    format!("{:>10}  {:>7}  {what}", table_seconds(seconds), share.replace("under ", "<"))
}

/// One unit and as many decimals in every row, so that a reader can add them up.
fn table_seconds(seconds: f64) -> String {
    format!("{seconds:.3} s")
}

/// A part by class and object.
pub fn part_name(part: &Part, width: usize) -> String {
    let class = part.class.replace('_', " ");
    let object = super::finding::object(&part.object, width.saturating_sub(class.len() + 2));
    if object.is_empty() || object == class {
        return escape::name(&class, width);
    }
    format!("{}: {object}", escape::name(&class, width))
}
