//! When a text of an answer is the name that a truth has. Pure.
//!
//! Two rules, because of where the names come from. A scenario draws its names so that none is part of another and asks for the whole
//! name; only a path, a setting or an address may hold it. A case of the field cannot choose what a database calls its processes,
//! so a word or a number is looked for whole among the words of a piece of the answer: `sleep` is not in `clock_nanosleep`, 4 not in 42.
//!
//! Rejected: one rule for both (the first misses `postgres` in `inside postgres`, the second would let a scenario's answer name a
//! file beside the true one).

use serde_json::Value;

/// The whole text, or a part of a path, a setting or an address.
pub(super) fn is_or_holds(text: &str, mark: &str) -> bool {
    text == mark || (mark.len() > 3 && text.contains(['/', ':']) && text.contains(mark))
}

/// Whether one of them is among the words of these pieces of JSON; without any it need not be.
pub(super) fn any_in(marks: &[Value], pieces: &[&Value]) -> bool {
    let mut text = String::new();
    pieces.iter().for_each(|piece| flatten(piece, &mut text));
    marks.is_empty() || marks.iter().any(|mark| is_in(&words_of(mark), &text))
}

fn words_of(value: &Value) -> String {
    let mut text = String::new();
    flatten(value, &mut text);
    text.trim().to_string()
}

/// All text in it, in lower case, with blanks between.
fn flatten(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => fields.values().for_each(|it| flatten(it, text)),
        Value::Array(items) => items.iter().for_each(|it| flatten(it, text)),
        Value::String(one) => *text += &format!("{} ", one.to_lowercase()),
        Value::Number(one) => *text += &format!("{one} "),
        Value::Null | Value::Bool(_) => {}
    }
}

/// A word is compared whole; a path, or several words, may be a part.
fn is_in(mark: &str, text: &str) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    if mark.is_empty() || !mark.chars().all(is_of_word) {
        return text.contains(mark);
    }
    text.split(|c| !is_of_word(c)).any(|word| word == mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_and_pids_are_compared_whole() {
        assert!(!any_in(&[json!("sleep")], &[&json!({"name": "clock_nanosleep"})]));
        assert!(!any_in(&[json!(4)], &[&json!({"pid": 42})]));
        assert!(any_in(&[json!("Index.lock")], &[&json!({"name": "/a/index.lock.new"})]));
        assert!(any_in(&[json!("x"), json!(42)], &[&json!([]), &json!({"pid": 42})]));
        assert!(any_in(&[], &[&json!({})]));
    }

    #[test]
    fn only_paths_settings_and_addresses_may_hold_a_mark() {
        assert!(is_or_holds("loop3", "loop3") && !is_or_holds("loop30", "loop3"));
        assert!(is_or_holds("/sys/fs/cgroup/grp7/io.max", "grp7"));
    }
}
