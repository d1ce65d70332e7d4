//! The answer as a page: one HTML file that works from `file://`, offline, on a phone and on paper.
//!
//! The page is a template that is part of the binary (page/template/, joined when holdup is built) and the data: the JSON of the
//! answer, and beside it what drawing takes and the JSON has not. The script draws, and computes nothing that the data does not say.
//! Nothing is loaded: the policy in the page allows this very style and this very script, by their hashes, and nothing else.
//!
//! Must not: put a string of the data anywhere but into the data block; make an address; need a tool to be built.
//! Rejected: a chart library (its weight is that of ten looks, and its patterns, tables and keyboard would be ours all the same);
//! a page that is written without scripts (it could not be filtered, and each width would have to be drawn).
//!
//! Edit together: docs/page.md, tests/browser/ (what the page does), embedded.rs (what is in it).

mod embedded;

use crate::failure::Failure;
use crate::text::escape;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdup_reason::answer::Report;
use holdup_reason::answer::picture::Picture;
use sha2::{Digest, Sha256};

const PAGE: &str = include_str!("template/page.html");
const STYLE: &str = include_str!("template/page.css");
/// In one scope, so that nothing of the page is the window's.
const SCRIPT: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("template/core.js"),
    include_str!("template/verdict.js"),
    include_str!("template/bar.js"),
    include_str!("template/band.js"),
    include_str!("template/tree.js"),
    include_str!("template/curves.js"),
    include_str!("template/evidence.js"),
    include_str!("template/start.js"),
    "})();\n",
);

/// The page of an answer.
pub fn render(report: &Report, picture: &Picture) -> Result<Vec<u8>, Failure> {
    let text = serde_json::to_string(&embedded::Embedded::of(report, picture))
        .map_err(|error| Failure::look(format!("cannot write the page: {error}"), ""))?;
    let data = for_script(&text);
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len());
    let mut rest = PAGE;
    while let Some((before, (name, after))) =
        rest.split_once("{{").and_then(|(before, after)| Some((before, after.split_once("}}")?)))
    {
        page.push_str(before);
        match name {
            "policy" => page.push_str(&policy()),
            "style" => page.push_str(STYLE),
            "script" => page.push_str(SCRIPT),
            _ => page.push_str(&data),
        }
        rest = after;
    }
    page.push_str(rest);
    Ok(page.into_bytes())
}

/// Content Security Policy Level 3: nothing but this style and this script.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
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
