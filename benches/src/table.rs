//! Tables of fixed width, for a terminal and, in a block, for docs/cost.md: 100 columns at most.
//!
//! Figures are right under their heads; what was not measured is a dash, and a looker that refused says why
//! in place of figures.

use crate::goals;
use crate::results::{Pair, Results};
use crate::stats::{median, of_median, range};
use std::fmt::Write as _;

/// Widest line.
pub const WIDTH: usize = 100;

/// A number of bytes in few characters.
pub fn bytes(value: f64) -> String {
    match value {
        value if value < 1e3 => format!("{value:.0} B"),
        value if value < 1e6 => format!("{:.1} kB", value / 1e3),
        value if value < 1e9 => format!("{:.1} MB", value / 1e6),
        value => format!("{:.2} GB", value / 1e9),
    }
}

/// A count in few characters.
pub fn count(value: f64) -> String {
    match value {
        value if value < 1e4 => format!("{value:.0}"),
        value if value < 1e7 => format!("{:.0} k", value / 1e3),
        value => format!("{:.1} M", value / 1e6),
    }
}

/// A ratio in at most five characters.
fn ratio(value: f64) -> String {
    if value < 9.9995 { format!("{value:.3}") } else { format!("{value:.1}") }
}

fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(3)).chain("...".chars()).collect(),
        false => text.into(),
    }
}

/// A sentence in lines of at most a width, parted at its semicolons where it must be.
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive("; ") {
        match lines.last_mut() {
            Some(line) if line.len() + part.trim_end().len() <= width => line.push_str(part),
            _ => lines.push(part.into()),
        }
    }
    lines.iter().map(|line| cut(line.trim_end(), width)).collect()
}

/// Loads under lookers.
pub fn pairs(results: &Results) -> String {
    let mut text = String::new();
    let mut load = "";
    for pair in &results.pairs {
        if pair.load != load {
            load = &pair.load;
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = writeln!(
                text,
                "{:<17}  ratio          95 %  n  own CPU     peak  written  events B/event    lost answer",
                load.to_uppercase()
            );
        }
        let _ = writeln!(text, "{}", row(pair));
    }
    text
}

fn row(pair: &Pair) -> String {
    let name = format!("{:<17}", pair.looker);
    let (Some(middle), Some((low, high))) = (median(&pair.ratios), range(&pair.ratios)) else {
        let why = pair.refusal.as_deref().unwrap_or("not measured in this run");
        return format!("{name}  {}", cut(&format!("no figure: {why}"), WIDTH - 20));
    };
    let ends = match of_median(&pair.ratios) {
        Some(interval) => format!("{}-{}", ratio(interval.low), ratio(interval.high)),
        None => format!("({}-{})", ratio(low), ratio(high)),
    };
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let each = match (pair.bytes, pair.events) {
        (Some(bytes), Some(events)) if events > 0.0 => Some(format!("{:.0}", bytes / events)),
        _ => None,
    };
    let line = format!(
        "{name} {:>6} {ends:>13} {:>2} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>6}",
        ratio(middle),
        pair.ratios.len(),
        or_dash(pair.cpu_seconds.map(|seconds| format!("{seconds:.2} s"))),
        or_dash(pair.rss_bytes.map(|it| bytes(it as f64))),
        or_dash(pair.bytes.map(bytes)),
        or_dash(pair.events.map(count)),
        or_dash(each),
        or_dash(pair.lost.map(|lost| count(lost as f64))),
        or_dash(pair.answer_seconds.map(|seconds| format!("{seconds:.2}"))),
    );
    line.trim_end().into()
}

/// What looking takes of each load, by counting.
pub fn counted(results: &Results) -> String {
    /// Programs that are shown for each load.
    const SHOWN: usize = 3;
    let mut text = format!(
        "{:<10} {:>8} {:>8} {:>8}   {}\n",
        "LOAD", "all", "programs", "own", "dearest programs: of the CPU time, ns a run"
    );
    for counted in &results.counted {
        let percent = |seconds: f64| seconds / counted.busy_seconds * 100.0;
        let dearest = counted.programs.iter().take(SHOWN).map(|program| {
            let ns = counted.run_ns(program);
            format!("{} {:.2} % {ns:.0}", program.name, percent(ns * program.runs as f64 / 1e9))
        });
        let line = format!(
            "{:<10} {:>6.2} % {:>6.2} % {:>6.2} %   {}",
            counted.load,
            (counted.ratio() - 1.0) * 100.0,
            percent(counted.programs_seconds()),
            percent(counted.own_seconds),
            dearest.collect::<Vec<_>>().join(", ")
        );
        let _ = writeln!(text, "{}", cut(&line, WIDTH));
    }
    text
}

/// Goals beside figures.
pub fn goals(results: &Results) -> String {
    let mut text = String::new();
    for goal in goals::of(results) {
        let first = format!("{:<38} {:<32} {}", goal.what, goal.wanted, goal.verdict.word());
        let _ = writeln!(text, "{first}");
        if goal.verdict != goals::Verdict::Unseen {
            for line in lines(&goal.measured, WIDTH - 4) {
                let _ = writeln!(text, "    {line}");
            }
        }
    }
    text
}

/// Kernel programs.
pub fn programs(results: &Results) -> String {
    let mut text = format!("{:<8} {:<26} {:>12} {:>9}\n", "OF", "PROGRAM", "runs", "ns a run");
    for program in &results.programs {
        let runs = count(program.runs as f64);
        let _ =
            writeln!(text, "{:<8} {:<26} {runs:>12} {:>9.1}", program.of, program.name, program.ns);
    }
    text
}

/// Cost against size.
pub fn growth(results: &Results) -> String {
    let mut text = String::new();
    for series in &results.growth {
        let head = series.of.to_uppercase();
        let _ = writeln!(
            text,
            "{head:<12} {:>10} {:>12} {:>9} {:>10} {:>8} {:>7}",
            "own CPU", "in kernel", "ns a run", "resident", "events", "lost"
        );
        for point in &series.points {
            let _ = writeln!(
                text,
                "{:<12.0} {:>8.3} s {:>10.4} s {:>9.0} {:>10} {:>8} {:>7}",
                point.size,
                point.cpu_seconds,
                point.bpf_seconds,
                point.bpf_ns,
                bytes(point.rss_bytes as f64),
                count(point.events as f64),
                count(point.lost as f64)
            );
        }
        text.push('\n');
    }
    text
}

fn stacks(results: &Results) -> String {
    let mut text = String::new();
    for stacks in &results.stacks {
        let _ = writeln!(
            text,
            "\nUSER STACKS, look at the {} of {:.1} s, {} threads of {} processes wait:\n  {} read and {} left out in \
             {:.4} s of CPU, {:.2} % of one",
            stacks.of,
            stacks.seconds,
            stacks.threads,
            stacks.processes,
            stacks.read,
            stacks.left_out,
            stacks.cpu_seconds,
            stacks.share() * 100.0
        );
    }
    text
}

/// What is run all the time.
fn daemons(results: &Results) -> String {
    let mut text = String::new();
    let Some(first) = results.daemons.first() else { return text };
    let _ = writeln!(
        text,
        "\nALL THE TIME on an idle host, {} sleeping threads, {} cgroups\n  {:<26} {:>9} {:>12} {:>12} {:>14}",
        first.threads, first.cgroups, "", "of a core", "in the kernel", "resident", "write(2)/hour"
    );
    for it in &results.daemons {
        let _ = match &it.refusal {
            Some(why) => writeln!(text, "  {:<26} no figure: {}", it.name, cut(why, WIDTH - 30)),
            None => writeln!(
                text,
                "  {:<26} {:>7.3} % {:>10.3} % {:>12} {:>14}",
                it.name,
                it.share() * 100.0,
                it.bpf_seconds / it.seconds.max(1e-9) * 100.0,
                bytes(it.rss_bytes as f64),
                bytes(it.hourly_bytes())
            ),
        };
    }
    text
}

/// Idle host, floods, parts, recording, binary.
pub fn rest(results: &Results) -> String {
    let mut text = String::new();
    if let Some(idle) = &results.idle {
        let _ = writeln!(
            text,
            "IDLE HOST, {} sleeping threads, {} cgroups: {:.1} s of a look took {:.4} s of CPU and {:.4} s\n  in its \
             kernel programs: {:.3} % of a core, and {:.2} s for begin and end; {} resident",
            idle.threads,
            idle.cgroups,
            idle.seconds,
            idle.own_seconds,
            idle.bpf_seconds,
            idle.steady_share() * 100.0,
            idle.rest_seconds,
            bytes(idle.rss_bytes as f64)
        );
    }
    text.push_str(&daemons(results));
    text.push_str(&stacks(results));
    for flood in &results.floods {
        let _ = writeln!(
            text,
            "\nFLOOD of {}, {} a second for {:.1} s: {} events taken, {} lost;\n  {:.2} s of CPU; {:.2} % of the \
             time not accounted for; author {}: {}",
            flood.of,
            count(flood.per_second),
            flood.seconds,
            count(flood.events as f64),
            count(flood.lost as f64),
            flood.cpu_seconds,
            flood.residual_share * 100.0,
            flood.author,
            if flood.author_named { "named" } else { "NOT named" }
        );
        for line in &flood.named {
            let _ = writeln!(text, "    {}", cut(line, WIDTH - 4));
        }
    }
    if !results.micro.is_empty() {
        text.push_str("\nPARTS, one core\n");
    }
    for row in &results.micro {
        let rate = format!("{} {}/s", count(row.per_second), row.unit);
        let _ = writeln!(text, "  {:<20} {rate:>18}", row.name);
    }
    for it in &results.recordings {
        let each = it.bytes as f64 / it.events.max(1) as f64;
        let _ = writeln!(
            text,
            "\nRECORDING of {}, every wait reported: {} for {} events, {each:.1} bytes each; {} lost",
            it.load,
            bytes(it.bytes as f64),
            count(it.events as f64),
            count(it.lost as f64)
        );
    }
    for trouble in &results.trouble {
        let reported = lines(&format!("TROUBLE: {trouble}"), WIDTH - 2);
        let _ = writeln!(text, "\n{}", reported.join("\n  "));
    }
    text
}

/// What the shipped binary consists of.
pub fn size(results: &Results) -> String {
    if results.size.is_empty() {
        return String::new();
    }
    let all: u64 = results.size.iter().map(|part| part.bytes).sum();
    let mut text = format!("{:<40} {:>10} {:>8}\n", "PART", "", "of it");
    for part in &results.size {
        let share = part.bytes as f64 / all.max(1) as f64 * 100.0;
        let _ =
            writeln!(text, "{:<40} {:>7.0} kB {share:>6.1} %", part.name, part.bytes as f64 / 1e3);
    }
    let _ = writeln!(text, "{:<40} {:>7.0} kB", "all", all as f64 / 1e3);
    text
}

/// Where looks spend their own time.
pub fn profiles(results: &Results) -> String {
    let mut text = String::new();
    for profile in &results.profiles {
        let _ = writeln!(text, "\n{}: {:.3} s of CPU", profile.what, profile.cpu_seconds);
        for row in &profile.rows {
            let side = if row.kernel { 'k' } else { ' ' };
            let line = format!("{:6.1} %  {side}  {}", row.percent, row.function);
            let _ = writeln!(text, "{}", cut(&line, WIDTH));
        }
    }
    text.trim_start().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_the_width() {
        let pair = Pair {
            load: "messaging".into(),
            looker: "perf sched record".into(),
            ratios: vec![1.234, 12.5],
            cpu_seconds: Some(123.45),
            rss_bytes: Some(999_900_000),
            bytes: Some(999_900_000.0),
            events: Some(9_999_000.0),
            lost: Some(123_456),
            answer_seconds: Some(12.34),
            refusal: None,
        };
        let refused =
            Pair { refusal: Some("x".repeat(300)), looker: "y".into(), ..Pair::default() };
        let results = Results { pairs: vec![pair, refused], ..Results::default() };
        let text = pairs(&results);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("no figure: xxx"));
    }

    #[test]
    fn a_long_sentence_is_parted_and_not_cut() {
        let parts = ["14.7 % of x; ", "95 %: 0.99 to 7.22; ", "counted 2.44"];
        let text = parts.concat();
        assert_eq!(lines(&text, 100), std::slice::from_ref(&text));
        assert_eq!(lines(&text, 33), ["14.7 % of x; 95 %: 0.99 to 7.22;", "counted 2.44"]);
        assert_eq!(lines("", 10), [""; 0]);
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(bytes(31_813_632.0), "31.8 MB");
        assert_eq!((count(999.0), count(123_456.0)), ("999".into(), "123 k".into()));
    }
}
