//! House rule on facts: the core matches each kind by its name, so that a new one does not compile until it has a place.
//!
//! A match over `Body` that ends in `_` or in a bare name takes in a fact that nobody thought of, and drops it. Read as syntax: a
//! match is over `Body` if one of its arms names a variant of it. The rule is for crates/reason, which takes all facts in; the
//! probe picks a few kinds out of its own stream, and a wildcard there says just that. A glob of `Body`'s variants would hide
//! which match is one, so it is refused as well.

use super::Breach;
use super::rust::{is_test_file, marks_test};
use crate::tree::Tree;
use syn::visit::Visit;
use syn::{Pat, Path, UseTree};

/// Where all facts are taken in.
const SRC: &str = "crates/reason/src/";
/// The enum of all facts.
const BODY: &str = "Body";

#[derive(Default)]
struct Matches {
    /// Lines of arms that catch any fact.
    wildcards: Vec<usize>,
    /// Lines that import the variants.
    globs: Vec<usize>,
}

fn is_variant(path: &Path) -> bool {
    path.segments.iter().rev().nth(1).is_some_and(|segment| segment.ident == BODY)
}

/// Whether a pattern names a variant of a fact, however deep.
fn names_a_fact(pattern: &Pat) -> bool {
    struct Found(bool);
    impl<'ast> Visit<'ast> for Found {
        fn visit_path(&mut self, path: &'ast Path) {
            self.0 |= is_variant(path);
        }
    }
    let mut found = Found(false);
    found.visit_pat(pattern);
    found.0
}

/// Whether a pattern takes whatever comes, at the top or in a tuple beside something else.
fn takes_any(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Ident(name) => name.subpat.is_none(),
        Pat::Or(or) => or.cases.iter().any(takes_any),
        Pat::Paren(inner) => takes_any(&inner.pat),
        Pat::Reference(inner) => takes_any(&inner.pat),
        Pat::Tuple(tuple) => {
            tuple.elems.iter().all(|one| takes_any(one) || matches!(one, Pat::Rest(_)))
        }
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Matches {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(marks_test) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_expr_match(&mut self, found: &'ast syn::ExprMatch) {
        if found.arms.iter().any(|arm| names_a_fact(&arm.pat)) {
            let any = found.arms.iter().filter(|arm| takes_any(&arm.pat));
            self.wildcards.extend(any.map(|arm| arm.fat_arrow_token.spans[0].start().line));
        }
        syn::visit::visit_expr_match(self, found);
    }

    fn visit_use_tree(&mut self, found: &'ast UseTree) {
        if let UseTree::Path(path) = found
            && path.ident == BODY
        {
            self.globs.push(path.ident.span().start().line);
        }
        syn::visit::visit_use_tree(self, found);
    }
}

/// Every kind of fact is matched by name.
pub(super) fn facts_are_matched_by_name(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let of_core =
        |path: &str| path.starts_with(SRC) && path.ends_with(".rs") && !is_test_file(path);
    for file in tree.files.iter().filter(|file| of_core(&file.path)) {
        let mut matches = Matches::default();
        if let Some(syntax) = file.syntax() {
            matches.visit_file(syntax);
        }
        for line in matches.wildcards {
            let why =
                "an arm of a match over Body takes any fact: a new one compiles and is dropped";
            breaches.push(Breach::at(file, line, why, "name each variant"));
        }
        for line in matches.globs {
            let why = "variants of Body without its name: nobody sees that a match is over facts";
            breaches.push(Breach::at(file, line, why, "import Body, and write Body::Variant"));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let breaches = facts_are_matched_by_name(&Tree::imagined(&[(path, text)]));
        breaches.iter().map(|breach| breach.line).collect()
    }

    const TEXT: &str = "use crate::facts::Body::*;\nfn f(body: Body) {\n match body {\n  Body::Host(_) => {}\n  _ => {}\n }\n \
                        match (at, &body) {\n  (0, facts::Body::Wait(it)) => g(it),\n  (_, other) => h(other),\n }\n \
                        match body {\n  Body::Host(_) | Body::Wait(_) => {}\n  other => h(other),\n }\n}\n";

    #[test]
    fn what_takes_any_fact_is_found() {
        assert_eq!(lines("crates/reason/src/model/mod.rs", TEXT), [5, 9, 13, 1]);
    }

    #[test]
    fn named_facts_other_enums_tests_and_the_probe_are_left_alone() {
        let text = "fn f(body: Body, a: Option<u8>) {\n match body {\n  Body::Host(_) => {}\n  Body::Wait(_) => {}\n }\n \
                    match a {\n  Some(1) => {}\n  _ => {}\n }\n matches!(body, Body::Host(_));\n}\n\
                    #[cfg(test)]\nmod tests {\n fn f() { match b { Body::Host(_) => {} _ => {} } }\n}\n";
        assert_eq!(lines("crates/reason/src/model/mod.rs", text), [0; 0]);
        assert_eq!(lines("crates/probe/src/standstill.rs", TEXT), [0; 0]);
    }
}
