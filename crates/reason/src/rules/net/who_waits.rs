//! Who waits for somebody elsewhere, in words: the victim, and through whom it asks.
//!
//! Must not: say what is waited for.

use crate::graph::end::End;
use crate::measure::Measures;

/// `curl waits`, `curl waits through nginx 459`.
pub(super) fn who_waits(measures: &Measures<'_>, end: &End) -> String {
    let name = measures.process_name(end.first_victim());
    let victim = measures.subject(end.first_victim());
    let asks = &end.links[end.named].who;
    match asks.pid == end.links[0].who.pid || measures.process_name(asks) == name {
        true => format!("{victim} waits"),
        false => format!("{victim} waits through {}", measures.model.threads.who(asks)),
    }
}
