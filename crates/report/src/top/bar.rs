//! The conserved bar: all time that somebody waited or worked for somebody, by kind of end, to the last column.
//!
//! The columns add up to the width as the seconds add up to the demand. Kinds are told apart by letter and by colour. Pure.

use crate::text;
use holdup_reason::answer::picture::words;
use holdup_reason::answer::{EndKind, Report};
use holdup_reason::model::figures;

/// A part of the bar.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Segment {
    /// What it is; none is what the list of ends does not account for.
    pub kind: Option<EndKind>,
    /// How long.
    pub seconds: f64,
    /// Its columns.
    pub columns: usize,
}

impl Segment {
    /// Its word.
    pub(super) fn word(&self) -> &'static str {
        self.kind.map_or("not listed", words::kind)
    }

    /// What it is filled with.
    pub(super) fn letter(&self) -> char {
        match self.kind {
            Some(EndKind::Works) => '=',
            Some(EndKind::Cpu) => ':',
            Some(EndKind::Device) => '%',
            Some(EndKind::Memory) => '+',
            Some(EndKind::Link) => '>',
            Some(EndKind::Remote) => '~',
            Some(EndKind::Lock) => 'x',
            Some(EndKind::Sleep) => 'z',
            Some(EndKind::Limit) => '!',
            Some(EndKind::Person) => '@',
            Some(EndKind::Open) => '?',
            Some(EndKind::Idle) => '.',
            None => ' ',
        }
    }
}

/// The parts, greatest first, whose columns add up to `width`; empty if nobody waited or worked.
pub(super) fn segments(report: &Report, width: usize) -> Vec<Segment> {
    let mut all: Vec<Segment> = Vec::new();
    for end in &report.answer.ends {
        match all.iter_mut().find(|it| it.kind == Some(end.end)) {
            Some(known) => known.seconds += end.seconds,
            None => all.push(Segment { kind: Some(end.end), seconds: end.seconds, columns: 0 }),
        }
    }
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let listed: f64 = all.iter().map(|it| it.seconds).sum();
    let missing = report.answer.demand_seconds - listed;
    if missing > 0.0 {
        all.push(Segment { kind: None, seconds: missing, columns: 0 });
    }
    share_out(&mut all, width);
    all
}

/// Whole columns first, then one more each to those that lost most by rounding.
fn share_out(all: &mut [Segment], width: usize) {
    let whole: f64 = all.iter().map(|it| it.seconds).sum();
    if whole <= 0.0 || !whole.is_finite() {
        return;
    }
    let exact = |it: &Segment| it.seconds / whole * width as f64;
    all.iter_mut().for_each(|it| it.columns = exact(it) as usize);
    let mut order: Vec<usize> = (0..all.len()).collect();
    let lost = |it: &Segment| exact(it) - it.columns as f64;
    order.sort_by(|one, other| lost(&all[*other]).total_cmp(&lost(&all[*one])));
    let used: usize = all.iter().map(|it| it.columns).sum();
    for at in order.into_iter().cycle().take(width.saturating_sub(used)) {
        all[at].columns += 1;
    }
}

/// The bar in words: `lock 4.9 s + disk 1.2 s = 6.1 s, of 2,060 s of all threads`, as much as there is room for.
pub(super) fn in_words(report: &Report, all: &[Segment], width: usize) -> String {
    let sum: f64 = all.iter().map(|it| it.seconds).sum();
    if all.is_empty() || sum <= 0.0 {
        return match (report.accounting.wall_seconds > 0.0, text::sees_less(report)) {
            (false, _) => String::new(),
            (true, true) => "Nobody waited or worked, as far as holdup could see.".into(),
            (true, false) => "Nobody waited or worked for anybody.".into(),
        };
    }
    let end = format!(" = {}", figures::seconds(sum));
    let mut text = String::new();
    for (at, it) in all.iter().enumerate() {
        let joint = if at == 0 { "" } else { " + " };
        let part = format!("{joint}{} {}", it.word(), figures::seconds(it.seconds));
        let more = if at + 1 < all.len() { " + ...".len() } else { 0 };
        if text.len() + part.len() + more + end.len() > width {
            text.push_str(" + ...");
            break;
        }
        text.push_str(&part);
    }
    text.push_str(&end);
    let wall = report.accounting.wall_seconds;
    let rest = format!(", of {} of all threads", figures::seconds(wall));
    if wall > 0.0 && text.len() + rest.len() <= width {
        text.push_str(&rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_add_up_to_the_width() {
        let kinds = [EndKind::Lock, EndKind::Works, EndKind::Cpu, EndKind::Remote];
        for width in [1, 7, 40, 78] {
            for seconds in [[5.0, 0.01, 0.01, 0.01], [1.0, 1.0, 1.0, 1.0], [3.0, 2.0, 1.0, 0.0]] {
                let of = |(kind, seconds)| Segment { kind: Some(kind), seconds, columns: 0 };
                let mut all: Vec<Segment> = kinds.into_iter().zip(seconds).map(of).collect();
                share_out(&mut all, width);
                let columns: usize = all.iter().map(|it| it.columns).sum();
                assert_eq!(columns, width, "{seconds:?}");
                assert!(all[0].columns >= all[3].columns);
            }
        }
    }
}
