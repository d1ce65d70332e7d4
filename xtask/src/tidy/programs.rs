//! House rule on programs: what is known of one stands in `crates/reason/src/programs/`, and no name of one elsewhere in the core.
//!
//! A name counts where a text begins with it: then something is compared with it, or it is a command. A sentence may name a program
//! that it advises to use. The names are those of the folder itself, with those of tools and of threads of the kernel (which have a file in
//! model/). Tests may name whom they like. Rejected: any text with a name in it; `node` and `python` stand in sentences about other things.
//!
//! Edit together: exceptions.rs.

use super::Breach;
use super::exceptions::NAME_PROGRAMS;
use super::rust::{is_test_file, marks_test};
use crate::tree::{File, Tree};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use syn::visit::Visit;

const SRC: &str = "crates/reason/src/";
const HOME: &str = "crates/reason/src/programs/";
/// Fields of a program that hold its names.
const FIELDS: &[&str] = &["names", "begins", "interpreter"];
/// Tools and managers that have no file of their own, and threads of the kernel.
const OTHERS: &[&str] = &[
    "containerd",
    "crun",
    "dockerd",
    "docker",
    "gdb",
    "jbd2",
    "jcmd",
    "kcompactd",
    "ksoftirqd",
    "kswapd",
    "kworker",
    "lxc",
    "mongod",
    "mysql",
    "nginx",
    "podman",
    "psql",
    "ptm",
    "py-spy",
    "redis",
    "runc",
    "ruby",
    "sshd",
    "systemd",
    "uwsgi",
    "VM Thread",
];

/// String literals outside tests, with their lines.
#[derive(Default)]
struct Texts(Vec<(usize, String)>);

impl Texts {
    fn of(file: &File) -> Vec<(usize, String)> {
        let mut texts = Self::default();
        if let Some(syntax) = file.syntax() {
            texts.visit_file(syntax);
        }
        texts.0
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.0.push((text.span().start().line, text.value()));
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Texts {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(marks_test) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.0.push((text.span().start().line, text.value()));
    }

    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        self.tokens(it.tokens.clone());
    }
}

/// The names in the fields of the programs themselves.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        let syn::Member::Named(name) = &field.member else { return };
        if FIELDS.iter().any(|field| name == field) {
            let mut texts = Texts::default();
            texts.visit_expr(&field.expr);
            self.0.extend(texts.0.into_iter().map(|(_, text)| text).filter(|it| !it.is_empty()));
        }
        syn::visit::visit_field_value(self, field);
    }
}

fn begins_with(text: &str, name: &str) -> bool {
    if text.ends_with('.') || text.contains(". ") {
        return false;
    }
    let next = text.strip_prefix(name).map(|rest| rest.chars().next());
    // `python3`, and not `pythonic`.
    next.is_some_and(|next| next.is_none_or(|sign| !sign.is_ascii_alphabetic() && sign != '_'))
}

/// No name of a program outside the folder of programs.
pub(super) fn programs_have_a_home(tree: &Tree) -> Vec<Breach> {
    let mut names = Names::default();
    for file in tree.files.iter().filter(|file| file.path.starts_with(HOME)) {
        if let Some(syntax) = file.syntax() {
            names.visit_file(syntax);
        }
    }
    let names: Vec<&str> =
        names.0.iter().map(String::as_str).chain(OTHERS.iter().copied()).collect();
    let mut breaches = Vec::new();
    for file in &tree.files {
        let Some(below) = file.path.strip_prefix(SRC) else { continue };
        let is_excepted = NAME_PROGRAMS.iter().any(|(place, _)| below.starts_with(place));
        if is_excepted || is_test_file(&file.path) || !file.has_extension(&[".rs"]) {
            continue;
        }
        for (line, text) in Texts::of(file) {
            if let Some(name) = names.iter().find(|name| begins_with(&text, name)) {
                let why = format!("names a program: {text:?} begins with {name:?}");
                let fix = "put what is known of it into its file in crates/reason/src/programs/, and ask by role (of a thread of the kernel: model/kernel_threads.rs)";
                breaches.push(Breach::at(file, line, why, fix));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSTGRES: (&str, &str) = (
        "crates/reason/src/programs/postgres.rs",
        "static P: Program = Program { names: &[\"postgres\"], begins: &[\"php-fpm\"], ..X };\n",
    );

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let tree = Tree::imagined(&[POSTGRES, (path, text)]);
        programs_have_a_home(&tree).into_iter().map(|breach| breach.line).collect()
    }

    #[test]
    fn a_text_that_begins_with_a_name_is_refused_outside_its_home() {
        let text = "fn f(x: &str) {\n x == \"postgres\";\n x.strip_prefix(\"postgres: \");\n format!(\"jbd2/{x}\");\n \
                    matches!(x, \"php-fpm8\");\n}\n";
        assert_eq!(lines("crates/reason/src/graph/a.rs", text), [2, 3, 4, 5]);
        assert_eq!(lines("crates/reason/src/programs/b.rs", text), [0; 0]);
        assert_eq!(lines("crates/report/src/a.rs", text), [0; 0]);
    }

    #[test]
    fn sentences_other_words_and_tests_may_name_one() {
        let text = "/// \"postgres\"\nconst A: &str = \"ask postgres\";\nconst B: &str = \"postgresql\";\n\
                    const D: &str = \"postgres sleeps. It waits.\";\n\
                    #[cfg(test)]\nmod tests { const C: &str = \"postgres\"; }\n";
        assert_eq!(lines("crates/reason/src/rules/a.rs", text), [0; 0]);
    }
}
