//! Joins the pages' scripts, and computes the hashes that their policy allows them by.
//!
//! Both are known when holdup is built, so the binary carries neither a hash nor an encoding. Comments that have lines of their own stay in the
//! sources: every page would carry them. Must not: change anything else of a part; what is hashed is what stands in the page. Edit together: src/page/mod.rs (what the parts are for), src/page/template/.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::error::Error;
use std::path::Path;
use std::{env, fs};

const TEMPLATE: &str = "src/page/template";
const LOOK: &[&str] = &[
    "figures.js",
    "core.js",
    "command.js",
    "look.js",
    "verdict.js",
    "bar.js",
    "band.js",
    "tree.js",
    "flame.js",
    "curves.js",
    "evidence.js",
    "start.js",
];
const COMPARED: &[&str] =
    &["figures.js", "core.js", "command.js", "compared.js", "scale.js", "changes.js"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={TEMPLATE}");
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    let out = Path::new(&out);
    for (name, parts) in [("look.js", LOOK), ("compared.js", COMPARED)] {
        // A script in one scope, so that nothing of the page is the window's.
        let mut script = String::from("(() => {\n\"use strict\";\n");
        for part in parts {
            script
                .push_str(&without_comments(&fs::read_to_string(Path::new(TEMPLATE).join(part))?));
        }
        script.push_str("})();\n");
        put(out, name, &script)?;
    }
    put(
        out,
        "page.css",
        &without_comments(&fs::read_to_string(Path::new(TEMPLATE).join("page.css"))?),
    )
}

/// The text without the lines that are comments as a whole.
fn without_comments(text: &str) -> String {
    let mut is_comment = false;
    let mut rest = String::with_capacity(text.len());
    for line in text.lines() {
        let begins = !is_comment && line.trim_start().starts_with("/*");
        let ends = line.trim_end().ends_with("*/");
        if begins || is_comment {
            is_comment = !ends;
        } else {
            rest.push_str(line);
            rest.push('\n');
        }
    }
    rest
}

/// The text, and beside it its hash as Content Security Policy has it.
fn put(out: &Path, name: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let hash = format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    fs::write(out.join(name), text)?;
    fs::write(out.join(format!("{name}.hash")), hash)?;
    Ok(())
}
