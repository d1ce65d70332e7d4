//! An answer that fits into an agent's context: lists are cut at their less important end until it does, and the cuts are said.
//!
//! Lists of the contract are sorted, greatest first, so that what goes is what matters least. Must not: cut a number, or say less than
//! how much is missing.

use serde_json::{Value, json};

/// Entries of a list, tried one after the other.
const STEPS: [usize; 7] = [24, 16, 10, 6, 4, 2, 1];
/// Characters of a text.
const TEXT_MAX: usize = 2_000;
/// Cuts that are said one by one.
const CUTS_MAX: usize = 20;

/// The value in so many bytes.
pub(super) fn within(value: Value, bytes_max: usize) -> Value {
    if value.to_string().len() <= bytes_max {
        return value;
    }
    let mut made = Value::Null;
    for most in STEPS {
        let mut cuts = Vec::new();
        made = value.clone();
        cut(&mut made, most, "", &mut cuts);
        let lists = cuts.len();
        cuts.truncate(CUTS_MAX);
        if let Value::Object(all) = &mut made {
            all.insert("left_out_of_this_answer".into(), json!({"lists": lists, "first": cuts}));
        }
        if made.to_string().len() <= bytes_max {
            return made;
        }
    }
    match made.to_string().len() <= bytes_max {
        true => made,
        false => {
            json!({"left_out_of_this_answer": "all of it: it does not fit. Ask for one process or container."})
        }
    }
}

fn cut(value: &mut Value, most: usize, pointer: &str, cuts: &mut Vec<Value>) {
    match value {
        Value::Array(all) => {
            if let Some(count) = all.len().checked_sub(most).filter(|count| *count > 0) {
                all.truncate(most);
                cuts.push(json!({"list": pointer, "count": count}));
            }
            for (at, one) in all.iter_mut().enumerate() {
                cut(one, most, &format!("{pointer}/{at}"), cuts);
            }
        }
        Value::Object(all) => {
            for (name, one) in all.iter_mut() {
                cut(one, most, &format!("{pointer}/{name}"), cuts);
            }
        }
        Value::String(text) if text.chars().count() > TEXT_MAX => {
            *text = text.chars().take(TEXT_MAX).chain(['…']).collect();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_and_what_does_not_is_cut_and_counted() {
        let small = json!({"findings": [1, 2]});
        assert_eq!(within(small.clone(), 100), small);
        let victims: Vec<Value> =
            (0..5_000).map(|pid| json!({"pid": pid, "comm": "x".repeat(40)})).collect();
        let large = within(json!({"data": {"victims": victims}}), 2_000);
        assert!(large.to_string().len() <= 2_000, "{large}");
        let cut = &large["left_out_of_this_answer"]["first"][0];
        let shown = large["data"]["victims"].as_array().expect("a list").len();
        assert_eq!(cut["list"], "/data/victims");
        assert_eq!(cut["count"], 5_000 - shown);
    }

    #[test]
    fn a_huge_text_is_cut() {
        let large = within(json!({"title": "x".repeat(100_000)}), 4_000);
        assert!(large.to_string().len() <= 4_000);
    }
}
