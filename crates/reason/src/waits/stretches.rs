//! Stretches of time: lists in order and without overlap, what two of them have in common, and those that touch made one.
//!
//! Must not: know what somebody does in one (timeline.rs).

use crate::facts::Ns;

/// Stretches of time put in order, those that touch made one.
pub fn joined(mut stretches: Vec<(Ns, Ns)>) -> Vec<(Ns, Ns)> {
    stretches.sort_unstable();
    stretches.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    stretches
}

/// What two lists of stretches, each in order and without overlap, have in common.
pub fn common(one: &[(Ns, Ns)], other: &[(Ns, Ns)]) -> Vec<(Ns, Ns)> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::new();
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let (begin, end) = (a.0.max(b.0), a.1.min(b.1));
        if begin < end {
            both.push((begin, end));
        }
        if a.1 < b.1 {
            one.next();
        } else {
            other.next();
        }
    }
    both
}
