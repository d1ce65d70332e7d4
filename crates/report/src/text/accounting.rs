//! Where the time went: the parts, their sum, and what is missing, so that a reader can check it.
//!
//! Idle time stands last and outside the shares: a host's threads are idle nearly all of the time,
//! and "0.1 %" of that would hide what matters.

use super::escape;
use super::page::{Page, Tone};
use super::verdict;
use holdup_reason::answer::{Part, Report};
use holdup_reason::facts::TargetKind;
use holdup_reason::model::figures;
use unicode_width::UnicodeWidthStr;

/// Rows before the rest is folded.
const ROWS: usize = 8;
/// Smaller shares than this are folded.
const SHARE_MIN: f64 = 0.000_5;
/// Columns of a part's words.
const PART_WIDTH: usize = 54;

/// Time with no work to do.
pub(super) fn is_idle(class: &str) -> bool {
    class == "idle"
}

/// Time on a CPU.
pub(super) fn is_running(class: &str) -> bool {
    class == "running"
}

/// The table.
pub(super) fn render(report: &Report, verbose: bool, page: &mut Page) {
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
    let telling = busy.iter().filter(|part| part.seconds >= whole * SHARE_MIN).count();
    let rows = match telling.min(ROWS) {
        _ if verbose => busy.len(),
        // A fold of one row would take its place.
        rows if rows + 1 >= busy.len() => busy.len(),
        rows => rows,
    };
    for part in &busy[..rows] {
        page.row(&figures(part.seconds, Some(whole)), &part_name(part, PART_WIDTH), Tone::Plain);
    }
    if rows < busy.len() {
        let rest: f64 = busy[rows..].iter().map(|part| part.seconds).sum();
        let words = format!("{} smaller parts", busy.len() - rows);
        page.row(&figures(rest, Some(whole)), &words, Tone::Faint);
    }
    if !idle.is_empty() {
        page.row(&figures(idle_seconds, None), "idle, no work to do", Tone::Faint);
    }
    let sum: f64 = accounting.parts.iter().map(|part| part.seconds).sum();
    page.row(&figures(sum, None), &closing(sum, accounting.wall_seconds), Tone::Plain);
}

fn heading(report: &Report) -> String {
    let name = verdict::target(report);
    let begin = begin(report.window.begin_unix_ns);
    let wall = report.accounting.wall_seconds;
    if report.target.kind == TargetKind::Command {
        let status = match report.target.exit_status {
            Some(0) | None => String::new(),
            Some(status) => format!(", exit status {status}"),
        };
        return format!("Where the {} of {name} went ({begin}{status})", figures::seconds(wall));
    }
    let window = figures::seconds(report.window.seconds);
    match threads(report) {
        Some(threads) => format!("Where {window} of {name} went ({begin}; {threads})"),
        None => format!("Looked at {name} for {window} ({begin})"),
    }
}

/// How many threads the wall is made of; they come and go, so it is a mean.
pub(crate) fn threads(report: &Report) -> Option<String> {
    let mean = report.accounting.wall_seconds / report.window.seconds;
    match mean.round() {
        n if !n.is_finite() || n < 1.0 => None,
        1.0 => Some("1 thread".into()),
        n => Some(format!("{} threads", figures::count(n as u64))),
    }
}

fn begin(unix_ns: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(unix_ns);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

fn closing(sum: f64, wall: f64) -> String {
    let missing = wall - sum;
    if missing.abs() < 0.000_5 {
        return format!("together, of {wall:.3} s: nothing is missing");
    }
    let word = if missing > 0.0 { "missing" } else { "too much" };
    let share = figures::share(missing.abs(), wall);
    format!("together, of {wall:.3} s: {:.3} s {word} ({share})", missing.abs())
}

/// One unit and as many decimals in every row, so that a reader can add them up.
fn figures(seconds: f64, whole: Option<f64>) -> String {
    let share = match whole {
        Some(whole) if whole > 0.0 => figures::share(seconds, whole),
        _ => String::new(),
    };
    let share = share.replace("under ", "<").replace("over ", ">");
    format!("{:>12}  {share:>7}", format!("{seconds:.3} s"))
}

/// A part by class and object, what both say said once: `file lock: /tmp/x`, `pipe log`.
pub(super) fn part_name(part: &Part, width: usize) -> String {
    let class = escape::name(&part.class.replace('_', " "), width);
    let object = &part.object;
    let says_nothing = object.name.is_empty() || object.name == object.kind;
    if says_nothing && (object.kind.is_empty() || is_running(&part.class)) {
        return class;
    }
    if object.name == class {
        return class;
    }
    let room = width.saturating_sub(class.width() + 2);
    if object.name.is_empty() {
        return match class.contains(&object.kind) {
            true => class,
            false => format!("{class}: {}", escape::name(&object.kind, room)),
        };
    }
    match class.contains(&object.kind) {
        true => format!("{class}: {}", escape::name(&object.name, room)),
        false => format!("{class}: {}", super::finding::object(object, room)),
    }
}
