//! A comparison in sentences: what an end is called where no number of one look may stand, and the verdict.
//!
//! Names come from the look that is shown, without process ids: they are others in the other look. Must not: decide what
//! changed, or escape names (the printer does).

use super::contract::{Change, Changed, EndChange, Outcome, Unit};
use super::identity::ObjectIdentity;
use crate::answer::report::{AnswerEnd, EndKind, ObjectName};
use crate::model::words;

/// What an end is, as a noun.
pub(super) fn noun(end: &AnswerEnd, identity: &ObjectIdentity) -> String {
    let who = end.who.as_ref().map(|who| who.name.as_str()).filter(|name| !name.is_empty());
    let object = object(&end.object, identity);
    match (end.end, who) {
        (EndKind::Works, Some(who)) => format!("work of {who}"),
        (EndKind::Works, None) => "work".into(),
        (EndKind::Sleep, Some(who)) if end.by_timeout => format!("a timeout of {who}'s own"),
        (EndKind::Sleep, Some(who)) => format!("sleep of {who}"),
        (EndKind::Sleep, None) if end.by_timeout => "a timeout".into(),
        (EndKind::Sleep, None) => "sleep".into(),
        (EndKind::Cpu, _) if end.object.kind == "cgroup" => format!("CPU quota of {object}"),
        (EndKind::Cpu, Some(who)) => format!("a CPU, which {who} had instead"),
        (EndKind::Cpu, None) => "a CPU".into(),
        (EndKind::Lock, who) => {
            let held = who.map_or_else(String::new, |who| format!(", held by {who}"));
            match (end.lock_kind, identity) {
                (Some(kind), ObjectIdentity::Program(program)) => {
                    format!("{} inside {program}{held}", kind.phrase())
                }
                (None, ObjectIdentity::Program(program)) => {
                    format!("a lock inside {program}{held}")
                }
                _ if end.object.kind.contains("lock") => format!("the {object}{held}"),
                _ => format!("the lock on {object}{held}"),
            }
        }
        (EndKind::Remote, _) if end.unasked => format!("what comes over {object}"),
        (EndKind::Remote, Some(who)) => format!("an answer of {object} ({who})"),
        (EndKind::Remote, None) if end.unconnected => format!("what comes to {object}"),
        (EndKind::Remote, None) if end.connecting => format!("a connection by {object}"),
        (EndKind::Remote, None) => format!("an answer of {object}"),
        (EndKind::Link, Some(who)) => format!("room in {object}, which {who} is to empty"),
        (EndKind::Link, None) => format!("room in {object}"),
        (EndKind::Person, _) => format!("a person at {object}"),
        (EndKind::Open, Some(who)) => format!("{object} of {who}, not followed further"),
        (EndKind::Open, None) => format!("{object}, not followed further"),
        _ => object,
    }
}

/// An object without what tells two of one look apart.
fn object(object: &ObjectName, identity: &ObjectIdentity) -> String {
    let kind = if object.kind.is_empty() { "something" } else { object.kind.as_str() };
    match identity {
        ObjectIdentity::Unnamed => kind.into(),
        ObjectIdentity::OwnGroup => "its own cgroup".into(),
        ObjectIdentity::Program(program) => format!("{kind} of {program}"),
        _ if object.name.is_empty() || object.name == kind => kind.into(),
        ObjectIdentity::Path(path) => path.clone(),
        _ if object.name.starts_with(kind) => object.name.clone(),
        _ => format!("{kind} {}", object.name),
    }
}

/// An amount in the unit of the comparison.
pub(super) fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => words::seconds(value),
        Unit::SecondsPerSecond => format!("{} a second", words::seconds(value)),
    }
}

/// Who or what is compared, as a subject.
pub(super) struct Subject<'a> {
    /// Its name.
    pub name: &'a str,
    /// It is a command.
    pub is_command: bool,
}

/// The verdict in one sentence.
pub(super) fn title(
    subject: &Subject<'_>,
    outcome: Outcome,
    total: &Changed,
    unit: Unit,
    first: Option<&EndChange>,
) -> String {
    let name = subject.name;
    let because = first.map_or_else(
        || ": no single end of its time is known to have changed".to_string(),
        |first| format!(": {}", reason(first, unit)),
    );
    let mean = |side: Option<super::contract::Figure>| side.map_or(0.0, |figure| figure.mean);
    let (was, is) = (mean(total.before), mean(total.after));
    let by = amount(total.difference.unwrap_or_default().abs(), unit);
    let least = if total.difference_is_least { "at least " } else { "" };
    match (outcome, subject.is_command) {
        (Outcome::Unknown, _) => {
            format!("Whether {name} became slower is not known: a side was not seen to its end.")
        }
        (Outcome::Worse, true) if total.after.is_some() => {
            format!("{name} is slower by {least}{by} of {}{because}.", amount(is, unit))
        }
        (Outcome::Worse, true) => format!("{name} is slower by {least}{by}{because}."),
        (Outcome::Better, true) => {
            format!("{name} is faster by {least}{by} of {}{because}.", amount(was, unit))
        }
        (Outcome::Worse, false) => {
            format!("{name} loses {least}{by} more than before ({}){because}.", amount(was, unit))
        }
        (Outcome::Better, false) => {
            format!("{name} loses {least}{by} less than before ({}){because}.", amount(was, unit))
        }
        (Outcome::Shifted, true) => {
            format!(
                "{name} takes as long as before, {}, and another way{because}.",
                amount(is, unit)
            )
        }
        (Outcome::Shifted, false) => {
            format!("{name} loses as much as before, {}, and otherwise{because}.", amount(is, unit))
        }
        (Outcome::Same, true) => {
            format!(
                "{name} takes as long as before, {}, and nothing in it changed.",
                amount(is, unit)
            )
        }
        (Outcome::Same, false) => {
            format!(
                "{name} loses as much as before, {}, and nothing in it changed.",
                amount(is, unit)
            )
        }
    }
}

/// A change as a clause: `it waits for the lock on /tmp/x, held by python3, which was not there before`.
fn reason(change: &EndChange, unit: Unit) -> String {
    let by = amount(change.changed.difference.unwrap_or_default().abs(), unit);
    let after = change.who_after.as_ref().or(change.who_before.as_ref());
    let who = after.map_or("it", |who| who.name.as_str());
    let words = &change.words;
    let verb = match change.end {
        EndKind::Works => Some("works"),
        // Not of a timeout, which is waited for.
        EndKind::Sleep if words.starts_with("sleep") => Some("sleeps"),
        _ => None,
    };
    let seen = if change.changed.before.is_none() { "seen" } else { "there" };
    match (change.changed.change, verb) {
        (Change::New, Some(verb)) => format!("{who} {verb}, which was not {seen} before"),
        (Change::New, None) => format!("it waits for {words}, which was not {seen} before"),
        (Change::Gone, Some(verb)) => format!("{who} no longer {verb}"),
        (Change::Gone, None) => format!("it no longer waits for {words}"),
        (Change::Less, Some(verb)) => format!("{who} {verb} {by} less"),
        (Change::Less, None) => format!("it waits {by} less for {words}"),
        (_, Some(verb)) => format!("{who} {verb} {by} more than before"),
        (_, None) => format!("it waits {by} more for {words}"),
    }
}
