//! Foreign names made harmless for a terminal, and short enough for a line.
//!
//! Owns the one rule for every string that came from a process, path, packet or file: whatever
//! could move the cursor, colour, hide, reorder or break a line is spelled out (`\x1b`, `\u{202e}`).
//! JSON does not pass here: serde escapes there, and a machine wants the name whole.
//! A backslash stays single, though that makes `\n` ambiguous: systemd's unit names are full of
//! backslashes, and a reader needs safety here, not a round trip.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Longest single word of prose, in columns: a path of 4 KB must not fill the screen.
const WORD_WIDTH_MAX: usize = 60;
/// Hex runs from this length on are ids (32: machine id, 64: container) and are cut to [`ID_KEEP`].
const ID_LENGTH_MIN: usize = 32;
/// What container tools print of an id.
const ID_KEEP: usize = 12;
/// Zero-width marks allowed on one character: enough for all scripts in use.
const MARKS_MAX: usize = 3;

/// One line with nothing in it that a terminal would act on. Not shortened.
pub(crate) fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = 0;
    for c in text.chars() {
        if is_hostile(c) {
            out.extend(spell(c));
            marks = 0;
            continue;
        }
        marks = if c.width() == Some(0) { marks + 1 } else { 0 };
        if marks <= MARKS_MAX {
            out.push(c);
        }
    }
    out
}

/// The same for a name that stands alone: ids and middles cut, at most `width` columns.
pub(crate) fn name(text: &str, width: usize) -> String {
    cut(&shorten_ids(&line(text)), width)
}

/// The same for prose: each word cut, and the whole cut to `width` columns.
pub(crate) fn prose(text: &str, width: usize) -> String {
    let safe = shorten_ids(&line(text));
    let words: Vec<String> = safe
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| cut(word, WORD_WIDTH_MAX))
        .collect();
    let text = words.join(" ");
    if text.width() <= width {
        return text;
    }
    let mut head = take_columns(text.chars(), width.saturating_sub(4));
    head.push_str(" ...");
    head
}

/// JSON text as it is, with what a terminal would act on as `\u` escapes: the same value to a
/// parser, since serde leaves such characters only inside strings, where it escapes ASCII's itself.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || !is_hostile(c) {
            out.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// A string as a user's shell would have it typed: no quotes where none are needed.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Cuts the middle out, so that both the root of a path and its file stay readable.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(3);
    let tail: String = take_columns(text.chars().rev(), keep / 2).chars().rev().collect();
    let head = take_columns(text.chars(), keep - keep / 2);
    format!("{head}...{tail}")
}

fn take_columns(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}

fn shorten_ids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run = String::new();
    let flush = |run: &mut String, out: &mut String| {
        if run.len() >= ID_LENGTH_MIN && run.contains(|c: char| c.is_ascii_digit()) {
            out.push_str(&run[..ID_KEEP]);
            out.push_str("..");
        } else {
            out.push_str(run);
        }
        run.clear();
    };
    for c in text.chars() {
        if c.is_ascii_digit() || ('a'..='f').contains(&c) {
            run.push(c);
        } else {
            flush(&mut run, &mut out);
            out.push(c);
        }
    }
    flush(&mut run, &mut out);
    out
}

/// Whether a terminal would act on it, or a reader could not see it.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn spell(c: char) -> Vec<char> {
    match c {
        '\n' => "\\n".chars().collect(),
        '\r' => "\\r".chars().collect(),
        '\t' => "\\t".chars().collect(),
        c if u32::from(c) < 0x100 => format!("\\x{:02x}", u32::from(c)).chars().collect(),
        c => c.escape_unicode().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_acts_on_is_spelled_out() {
        assert_eq!(line("a\x1b[31mb\nc\u{202e}d\u{9b}e"), r"a\x1b[31mb\nc\u{202e}d\x9be");
        assert_eq!(line("Grüße, 日本, naïve"), "Grüße, 日本, naïve");
        assert_eq!(line(&format!("a{}", "\u{301}".repeat(50))), "a\u{301}\u{301}\u{301}");
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(name("/srv/data/customers/2026/november/file.db", 21), "/srv/data...r/file.db");
        let id = "3f2a9c0d".repeat(8);
        assert_eq!(name(&format!("/docker/{id}"), 60), "/docker/3f2a9c0d3f2a..");
        assert_eq!(name("deadbeef", 60), "deadbeef");
    }

    #[test]
    fn shell_words() {
        assert_eq!(shell_word("make"), "make");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    proptest! {
        #[test]
        fn nothing_hostile_leaves(text in any::<String>(), width in 8usize..200) {
            for safe in [line(&text), name(&text, width), prose(&text, width)] {
                prop_assert!(!safe.chars().any(is_hostile), "{safe:?}");
            }
            let json = json(&serde_json::to_string(&text).expect("JSON"));
            prop_assert!(!json.chars().any(is_hostile), "{json:?}");
            prop_assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text.as_str());
            prop_assert!(name(&text, width).width() <= width);
            prop_assert!(prose(&text, width).width() <= width);
        }
    }
}
