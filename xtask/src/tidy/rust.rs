//! Rules that need Rust's syntax: nothing unfinished, `unsafe` fenced, functions of readable length.
//!
//! Syntax says where tests and functions begin and end; the rest is a walk over tokens, because
//! half of a program's calls stand inside macros, which syntax trees do not open. Clippy bans unwrap
//! and friends too; here stand what it cannot say: ignored tests, where `unsafe` may be, and that its
//! reason is written beside it.

use super::Breach;
use super::shape::{FUNCTION_LINES_MAX, excused_above, too_long};
use crate::tree::{File, Tree};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::ops::RangeInclusive;
use syn::visit::Visit;

/// The only folders that may talk to the kernel without a net.
const UNSAFE_FOLDERS: &[&str] = &[
    "crates/probe/",
    "crates/system/",
    // A test that writes down its own frame pointer; the crate itself has none.
    "crates/stacks/src/tests.rs",
    "lab/",
];
/// How far above `unsafe` its reason may stand.
const REASON_LINES_MAX: usize = 10;

/// What syntax knows of a file.
#[derive(Default)]
struct Outline {
    tests: Vec<RangeInclusive<usize>>,
    /// Line of `fn`, lines up to the closing brace.
    functions: Vec<(usize, usize)>,
}

impl Outline {
    fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&line))
    }

    fn mark_test(&mut self, attributes: &[syn::Attribute], first: usize, last: usize) {
        if attributes.iter().any(marks_test) {
            self.tests.push(first..=last);
        }
    }

    fn function(&mut self, attributes: &[syn::Attribute], sig: &syn::Signature, body: &syn::Block) {
        let first = sig.fn_token.span.start().line;
        let last = body.brace_token.span.close().end().line;
        self.mark_test(attributes, first, last);
        self.functions.push((first, last + 1 - first));
    }
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(any(test, ..))]` and test attributes of libraries.
pub(super) fn marks_test(attribute: &syn::Attribute) -> bool {
    let path = attribute.path();
    if path.segments.last().is_some_and(|segment| segment.ident == "test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let tokens = list.tokens.to_string();
    path.is_ident("cfg")
        && !tokens.contains("not")
        && tokens.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
}

impl<'ast> Visit<'ast> for Outline {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if let Some((brace, _)) = &item.content {
            let (first, last) = (item.mod_token.span.start().line, brace.span.close().end().line);
            self.mark_test(&item.attrs, first, last);
        }
        syn::visit::visit_item_mod(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let first = item.impl_token.span.start().line;
        self.mark_test(&item.attrs, first, item.brace_token.span.close().end().line);
        syn::visit::visit_item_impl(self, item);
    }
}

/// A file that is for tests as a whole, by its place or name; scenes.rs has builders of facts.
pub(super) fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|folder| matches!(folder, "tests" | "benches"))
        || matches!(name, "tests.rs" | "test.rs" | "scenes.rs")
        || name.ends_with("_test.rs")
        || name.ends_with("_tests.rs")
}

/// Each Rust file with its outline.
fn outlined(tree: &Tree) -> impl Iterator<Item = (&File, Outline)> {
    tree.files.iter().filter_map(|file| {
        let mut outline = Outline::default();
        outline.visit_file(file.syntax()?);
        Some((file, outline))
    })
}

/// No function past 70 lines without a reason.
pub(super) fn function_length(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, outline) in outlined(tree) {
        let text = file.text();
        let lines: Vec<&str> = text.lines().collect();
        for (first, length) in outline.functions {
            if length > FUNCTION_LINES_MAX && !excused_above(&lines, first - 1) {
                breaches.push(too_long(file, first, length));
            }
        }
    }
    breaches
}

/// A token with the two that follow it, wherever in the tree of groups it stands.
fn each_token(tokens: TokenStream, seen: &mut dyn FnMut(&[TokenTree])) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for index in 0..tokens.len() {
        seen(&tokens[index..tokens.len().min(index + 3)]);
        if let TokenTree::Group(group) = &tokens[index] {
            each_token(group.stream(), seen);
        }
    }
}

fn word(token: Option<&TokenTree>) -> String {
    match token {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        _ => String::new(),
    }
}

fn sign(token: Option<&TokenTree>) -> Option<char> {
    match token {
        Some(TokenTree::Punct(punct)) => Some(punct.as_char()),
        _ => None,
    }
}

fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&proc_macro2::Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// What in these tokens is unfinished or switched off: its line, its name, whether tests may.
fn unfinished(at: &[TokenTree]) -> Option<(usize, String, bool)> {
    let line = |token: &TokenTree| token.span().start().line;
    match sign(at.first()) {
        Some('.') => {
            let name = word(at.get(1));
            let called = group(at.get(2), Delimiter::Parenthesis).is_some();
            let bad = called && matches!(name.as_str(), "unwrap" | "expect" | "unwrap_err");
            bad.then(|| (line(&at[1]), format!(".{name}()"), true))
        }
        Some('#') => {
            let attribute = group(at.get(1), Delimiter::Bracket)?;
            let bad = word(attribute.stream().into_iter().next().as_ref()) == "ignore";
            bad.then(|| (line(&at[0]), "#[ignore]".into(), false))
        }
        _ => {
            let name = word(at.first());
            let bad = sign(at.get(1)) == Some('!')
                && matches!(name.as_str(), "todo" | "unimplemented" | "dbg")
                && matches!(at.get(2), Some(TokenTree::Group(_)));
            bad.then(|| (line(&at[0]), format!("{name}!"), false))
        }
    }
}

/// No unwrap outside tests; no todo!, dbg! or ignored test anywhere.
pub(super) fn nothing_unfinished(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, outline) in outlined(tree) {
        let Some(tokens) = file.tokens() else { continue };
        each_token(tokens.clone(), &mut |at| {
            let Some((line, name, tests_may)) = unfinished(at) else { return };
            if tests_may && (is_test_file(&file.path) || outline.is_test(line)) {
                return;
            }
            let (why, fix) = match name.as_str() {
                "#[ignore]" => {
                    ("a test that no job runs", "make it run where it can, or delete it")
                }
                "todo!" | "unimplemented!" => {
                    ("unfinished code", "finish it, or take the path out")
                }
                "dbg!" => ("debug output left behind", "delete it"),
                _ => ("a panic on a sick machine", "return the error, or match on what can happen"),
            };
            breaches.push(Breach::at(file, line, format!("{name}: {why}"), fix));
        });
    }
    breaches
}

/// `unsafe` only where the kernel is spoken to, and never without its reason.
pub(super) fn unsafe_is_fenced(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, _) in outlined(tree) {
        let text = file.text();
        let lines: Vec<&str> = text.lines().collect();
        let Some(tokens) = file.tokens() else { continue };
        each_token(tokens.clone(), &mut |at| {
            // `#[unsafe(no_mangle)]` is an attribute, not a block.
            if word(at.first()) != "unsafe" || group(at.get(1), Delimiter::Parenthesis).is_some() {
                return;
            }
            let line = at[0].span().start().line;
            if !UNSAFE_FOLDERS.iter().any(|folder| file.path.starts_with(folder)) {
                let fix =
                    "move it behind a safe function of crates/system or crates/probe (or the lab)";
                breaches.push(Breach::at(
                    file,
                    line,
                    "unsafe outside crates/system, crates/probe and lab",
                    fix,
                ));
            } else if !reason_above(&lines, line) {
                let fix = "say right above, in a comment: // SAFETY: why nothing can go wrong here";
                breaches.push(Breach::at(file, line, "unsafe without its reason", fix));
            }
        });
    }
    breaches
}

/// Whether `// SAFETY:` (or rustdoc's `# Safety`) stands on the line or right above the statement.
fn reason_above(lines: &[&str], line: usize) -> bool {
    let reason = |line: &&str| line.contains("SAFETY:") || line.contains("# Safety");
    let above = lines[..line.min(lines.len())].iter().rev();
    above.take(REASON_LINES_MAX).take_while(|line| !line.trim().is_empty()).any(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(breaches: &[Breach]) -> Vec<usize> {
        breaches.iter().map(|breach| breach.line).collect()
    }

    #[test]
    fn unwrap_is_for_tests_and_is_found_inside_macros() {
        let text = "fn a() {\n x.unwrap();\n println!(\"{}\", y.expect(\"z\"));\n w.unwrap_or(1);\n}\n\
                    #[cfg(test)]\nmod tests {\n fn b() { x.unwrap(); }\n}\n";
        let tree = Tree::imagined(&[("a.rs", text), ("tests/b.rs", "fn a() { x.unwrap(); }")]);
        assert_eq!(lines_of(&nothing_unfinished(&tree)), [2, 3]);
    }

    #[test]
    fn unfinished_and_ignored_are_found_in_tests_too() {
        let text = "#[test]\n#[ignore]\nfn a() { todo!() }\n#[expect(dead_code)]\nfn dbg() {}\n";
        let tree = Tree::imagined(&[("tests/a.rs", text)]);
        assert_eq!(lines_of(&nothing_unfinished(&tree)), [2, 3]);
    }

    #[test]
    fn code_for_other_builds_than_tests_is_no_test() {
        let text = "#[cfg(not(test))]\nfn a() { x.unwrap(); }\n#[cfg(any(test, fuzzing))]\nfn b() { x.unwrap(); }\n";
        assert_eq!(lines_of(&nothing_unfinished(&Tree::imagined(&[("a.rs", text)]))), [2]);
    }

    #[test]
    fn unsafe_has_its_place_and_its_reason() {
        let text = "fn a() {\n let b = 1;\n\n unsafe { c() };\n // SAFETY: c has no arguments.\n let d =\n unsafe { c() };\n}\n";
        let tree =
            Tree::imagined(&[("crates/probe/src/a.rs", text), ("crates/report/src/a.rs", text)]);
        let breaches = unsafe_is_fenced(&tree);
        assert_eq!(lines_of(&breaches), [4, 4, 7]);
        assert_eq!(breaches.iter().filter(|breach| breach.path.contains("report")).count(), 2);
    }

    #[test]
    fn long_functions_need_a_reason() {
        let body = " x();\n".repeat(70);
        let text = format!(
            "impl A {{\n fn a() {{\n{body}}}\n}}\n\n// LONG FUNCTION: a table.\nfn b() {{\n{body}}}\n"
        );
        let tree = Tree::imagined(&[("a.rs", &text)]);
        assert_eq!(lines_of(&function_length(&tree)), [2]);
    }
}
