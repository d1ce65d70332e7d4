//! An answer, or a comparison of two, as a page: one HTML file that works from `file://`, offline, on a phone and on paper.
//!
//! The page is a template that is part of the binary (page/template/, joined and hashed by build.rs) and the data: the JSON of the
//! answer, and beside it what drawing takes and the JSON has not. Both pages share the ground (figures.js, core.js, page.css). The script draws, and computes nothing that the data does not say.
//! Nothing is loaded: the policy in the page allows this very style and this very script, by their hashes, and nothing else.
//!
//! Must not: put a string of the data anywhere but into the data block; make an address; need a tool to be built.
//! Rejected: a chart library (its weight is that of ten looks, and its patterns, tables and keyboard would be ours all the same);
//! a page that is written without scripts (it could not be filtered, and each width would have to be drawn).
//!
//! Edit together: docs/page.md, tests/browser/ (what the page does), embedded.rs and compared.rs (what is in it).

mod compared;
mod embedded;

use crate::failure::Failure;
use crate::text::escape;
use holdup_reason::answer::Report;
use holdup_reason::answer::compare::Comparison;
use holdup_reason::answer::picture::Picture;
use serde::Serialize;

const PAGE: &str = include_str!("template/page.html");
/// A file that build.rs has made.
macro_rules! made {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $name))
    };
}
const STYLE: &str = made!("page.css");
const LOOK: &str = made!("look.js");
const COMPARED: &str = made!("compared.js");

/// The page of an answer.
pub(crate) fn render(report: &Report, picture: &Picture) -> Result<Vec<u8>, Failure> {
    filled(LOOK, made!("look.js.hash"), &embedded::Embedded::of(report, picture))
}

/// The page of a comparison; `noise` says what is called a change in it.
pub(crate) fn render_comparison(comparison: &Comparison, noise: &str) -> Result<Vec<u8>, Failure> {
    filled(COMPARED, made!("compared.js.hash"), &compared::Embedded::of(comparison, noise))
}

/// The template with its script and its data.
fn filled(script: &str, hash: &str, data: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let text = serde_json::to_string(data)
        .map_err(|error| Failure::look(format!("cannot write the page: {error}"), ""))?;
    let data = for_script(&text);
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + script.len() + data.len());
    let mut rest = PAGE;
    while let Some((before, (name, after))) =
        rest.split_once("{{").and_then(|(before, after)| Some((before, after.split_once("}}")?)))
    {
        page.push_str(before);
        match name {
            "policy" => page.push_str(&policy(hash)),
            "style" => page.push_str(STYLE),
            "script" => page.push_str(script),
            _ => page.push_str(&data),
        }
        rest = after;
    }
    page.push_str(rest);
    Ok(page.into_bytes())
}

/// Content Security Policy Level 3: nothing but this style and the script of a hash.
fn policy(script: &str) -> String {
    let style = made!("page.css.hash");
    format!(
        "default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"
    )
}

/// JSON for a script element: nothing in it ends the element or begins a comment, and no line of it ends but where JSON's does.
/// The same value to a parser, since these characters stand inside strings only.
fn for_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in escape::json(json).chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
