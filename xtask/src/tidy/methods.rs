//! Arrows between files that the methods of one type make, where its `impl` stands in several files.
//!
//! A method call names no file, so what calls what across the parts of a scattered type is seen by nobody who reads imports: nine
//! files with an `impl` of one type were a circle of eight. Here a call in one of these files to a method that another of
//! them defines is an arrow between the two. Only files that implement the same type count: of other calls a name alone does not
//! say whose method it is. Calls inside macros count as well, tests do not. Traits' methods are left out: they name a role, not a
//! file.
//!
//! Edit together: rooms.rs (which refuses circles of these and of the arrows by name).

use super::modules::{Arrow, Modules, after_test, is_colons, is_sign, line, word};
use super::rust::marks_test;
use proc_macro2::TokenTree;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::Visit;

/// The file that defines a type, and its name.
type Defined = (Vec<String>, String);
/// Files that implement one type, with their methods.
type Parts<'m> = BTreeMap<&'m Vec<String>, BTreeSet<String>>;

/// Methods by type, of one file.
#[derive(Default)]
struct Implemented(BTreeMap<String, BTreeSet<String>>);

impl<'ast> Visit<'ast> for Implemented {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(marks_test) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(of) = &*item.self_ty else { return };
        let Some(name) = of.path.segments.last().map(|segment| segment.ident.to_string()) else {
            return;
        };
        if item.trait_.is_some() || item.attrs.iter().any(marks_test) {
            return;
        }
        let methods = item.items.iter().filter_map(|one| match one {
            syn::ImplItem::Fn(method) if !method.attrs.iter().any(marks_test) => {
                Some(method.sig.ident.to_string())
            }
            _ => None,
        });
        self.0.entry(name).or_default().extend(methods);
    }
}

/// Line and name of each call: `.name(`, `Type::name(`, `Self::name(`; with the type, if one is named.
fn calls(tokens: &[TokenTree], found: &mut Vec<(usize, Option<String>, String)>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Some(after) = after_test(tokens, at) {
            at = after;
            continue;
        }
        if let TokenTree::Group(group) = &tokens[at] {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            calls(&inner, found);
        }
        if let TokenTree::Ident(name) = &tokens[at]
            && at > 0
            && matches!(tokens.get(at + 1), Some(TokenTree::Group(_)))
        {
            let of = at.checked_sub(3).filter(|from| is_colons(tokens, from + 1));
            let of = of.and_then(|from| word(tokens.get(from)));
            if of.is_some() || is_sign(tokens.get(at - 1), '.') {
                found.push((line(name), of, name.to_string()));
            }
        }
        at += 1;
    }
}

/// The arrows, each once, at the line that calls first.
pub(super) fn arrows(modules: &Modules<'_>) -> Vec<Arrow> {
    // By the file that defines the type, and its name: the files that implement it, with their methods.
    let mut types: BTreeMap<Defined, Parts<'_>> = BTreeMap::new();
    for (path, module) in &modules.all {
        let mut own = Implemented::default();
        if let Some(syntax) = module.file.syntax() {
            own.visit_file(syntax);
        }
        for (name, methods) in own.0 {
            let named = modules.absolute(module, std::slice::from_ref(&name));
            let definer = named.and_then(|named| modules.definer(&named));
            let of = (definer.unwrap_or_else(|| path.clone()), name);
            types.entry(of).or_default().insert(path, methods);
        }
    }
    let mut found: BTreeMap<(Vec<String>, Vec<String>), usize> = BTreeMap::new();
    for ((_, name), files) in types.iter().filter(|(_, files)| files.len() > 1) {
        for from in files.keys() {
            let Some(module) = modules.all.get(*from) else { continue };
            let Some(tokens) = module.file.tokens() else { continue };
            let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
            let mut called = Vec::new();
            calls(&tokens, &mut called);
            for (line, of, method) in called {
                let may_be = of.is_none_or(|of| of == *name || of == "Self");
                let is_own = files[*from].contains(&method);
                let to = files.iter().find(|(_, methods)| methods.contains(&method));
                if let Some((to, _)) = to.filter(|_| may_be && !is_own) {
                    let arrow = ((*from).clone(), (*to).clone());
                    let first = found.entry(arrow).or_insert(line);
                    *first = line.min(*first);
                }
            }
        }
    }
    found.into_iter().map(|((from, to), line)| Arrow { from, to, line }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::imagined(files);
        let arrow = |it: Arrow| format!("{}->{}:{}", it.from.join("/"), it.to.join("/"), it.line);
        arrows(&Modules::read(&tree, "src/")).into_iter().map(arrow).collect()
    }

    #[test]
    fn calls_between_the_parts_of_one_type_are_arrows() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            (
                "src/a.rs",
                "pub struct A;\nimpl A {\n fn one(&self) { self.two() }\n fn own(&self) {}\n}\n",
            ),
            (
                "src/b.rs",
                "use super::a::A;\nimpl<'a> A {\n fn two(&self) {\n  self.three();\n  format!(\"{}\", self.one());\n  self.own(); }\n fn three(&self) {}\n}\n",
            ),
            ("src/c.rs", "use super::a::A;\nfn f(a: &A) { a.two() }\n"),
        ];
        assert_eq!(found(&files), ["a->b:3", "b->a:5"]);
    }

    #[test]
    fn traits_tests_other_types_and_fields_make_none() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\n"),
            (
                "src/a.rs",
                "pub struct A;\nimpl A {\n fn one(&self) {}\n}\nstruct B;\nimpl B { fn of(&self) { C::two() } }\n",
            ),
            (
                "src/b.rs",
                "use super::a::A;\nimpl std::fmt::Debug for A {\n fn fmt(&self) { self.one() }\n}\nimpl A {\n fn two(&self) { self.one }\n}\nstruct B;\nimpl B { fn f(&self) { self.of() } }\n#[cfg(test)]\nmod tests { fn f() { A.one() } }\n",
            ),
        ];
        assert_eq!(
            found(&files),
            ["b->a:3"],
            "the file has a part of the type, and calls the other"
        );
    }
}
