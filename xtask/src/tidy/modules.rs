//! Which file of a crate names which: paths in the code, followed through `use` and re-exports to where a name is defined.
//!
//! Owns a reading of modules that is good enough for arrows between files, and no more: tokens, no types. A method call names
//! no file: methods.rs has those of a type that stands in several. Code for tests (`#[cfg(test)]`, `#[test]`, files that only tests declare) is left out. A `pub use` of a child is
//! no arrow, and neither is the import of a module: what is named inside it is. Inline modules count as their file.
//!
//! Rejected: the compiler's own graph (nightly only), and text search (a `mod.rs` that re-exports would make circles that
//! are none).

use super::rust::is_test_file;
use crate::tree::{File, Tree};
use proc_macro2::{Delimiter, Ident, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// Re-exports of re-exports are followed so far.
const DEPTH_MAX: usize = 16;
/// Words before the name that they define.
const DEFINES: &[&str] =
    &["fn", "struct", "enum", "trait", "const", "static", "type", "union", "mod"];

/// A path as it stands in the code, with the line of its last word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// Its words; the last may be `*`.
    pub path: Vec<String>,
    /// From 1.
    pub line: usize,
}

/// A file as a module.
pub(super) struct Module<'t> {
    /// The file.
    pub file: &'t File,
    /// `["rules", "fs"]` of rules/fs/mod.rs and of rules/fs.rs.
    pub path: Vec<String>,
    /// The paths of its code, but for tests and `pub use` of its children.
    pub named: Vec<Named>,
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    /// Name, and the path that it stands for; `*` of globs.
    uses: Vec<(String, Vec<String>)>,
}

/// The modules of a crate.
pub(super) struct Modules<'t> {
    /// By path.
    pub all: BTreeMap<Vec<String>, Module<'t>>,
}

/// An arrow between files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrow {
    /// The module whose code names something of another.
    pub from: Vec<String>,
    /// The module that defines it.
    pub to: Vec<String>,
    /// Where it is named first.
    pub line: usize,
}

impl<'t> Modules<'t> {
    /// Reads the modules below a crate's `src/`.
    pub(super) fn read(tree: &'t Tree, src: &str) -> Self {
        let mut all = BTreeMap::new();
        for file in tree.files.iter().filter(|file| file.has_extension(&[".rs"])) {
            let Some(below) = file.path.strip_prefix(src) else { continue };
            if !is_test_file(&file.path) {
                let path = module_path(below);
                all.insert(path.clone(), Module::read(file, path));
            }
        }
        // A module that its parent declares for tests only.
        let declared = |module: &Module<'_>| {
            let Some((name, parent)) = module.path.split_last() else { return true };
            all.get(parent).is_none_or(|parent: &Module<'_>| parent.children.contains(name))
        };
        let declared_here: BTreeSet<Vec<String>> =
            all.values().filter(|m| declared(m)).map(|m| m.path.clone()).collect();
        all.retain(|path, _| declared_here.contains(path));
        Self { all }
    }

    /// A path of a module's code from the crate's root on; none if it leads out of the crate, or is a word of the file itself.
    pub(super) fn absolute(&self, module: &Module<'_>, path: &[String]) -> Option<Vec<String>> {
        self.absolute_within(module, path, DEPTH_MAX)
    }

    fn absolute_within(
        &self,
        module: &Module<'_>,
        path: &[String],
        depth: usize,
    ) -> Option<Vec<String>> {
        let depth = depth.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let joined = |start: &[String], rest: &[String]| [start, rest].concat();
        match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => return Some(joined(&module.path, rest)),
            "super" => {
                let supers = path.iter().take_while(|word| *word == "super").count();
                let up = module.path.len().checked_sub(supers)?;
                return Some(joined(&module.path[..up], &path[supers..]));
            }
            _ => {}
        }
        if module.children.contains(first) {
            return Some(joined(&module.path, path));
        }
        if let Some((_, to)) = module.uses.iter().find(|(name, to)| name == first && to != path) {
            return Some(joined(&self.absolute_within(module, to, depth)?, rest));
        }
        let globs = module.uses.iter().filter(|(name, _)| name == "*");
        globs.into_iter().find_map(|(_, to)| {
            let inside = self.absolute_within(module, &to[..to.len() - 1], depth)?;
            let other = self.all.get(&inside)?;
            let has = other.children.contains(first)
                || other.items.contains(first)
                || other.uses.iter().any(|(name, _)| name == first);
            has.then(|| joined(&inside, path))
        })
    }

    /// The module that defines what an absolute path names; none of a module itself.
    pub(super) fn definer(&self, absolute: &[String]) -> Option<Vec<String>> {
        self.definer_within(absolute, DEPTH_MAX, true)
    }

    fn definer_within(
        &self,
        absolute: &[String],
        depth: usize,
        guess: bool,
    ) -> Option<Vec<String>> {
        let depth = depth.checked_sub(1)?;
        let deepest =
            (0..=absolute.len()).rev().find(|n| self.all.contains_key(&absolute[..*n]))?;
        let module = self.all.get(&absolute[..deepest])?;
        let (name, rest) = absolute[deepest..].split_first()?;
        if name == "*" || module.items.contains(name) {
            return Some(module.path.clone());
        }
        if let Some((_, to)) = module.uses.iter().find(|(used, _)| used == name) {
            let to = self.absolute_within(module, to, depth)?;
            return self.definer_within(&[&to, rest].concat(), depth, true);
        }
        let globs = module.uses.iter().filter(|(used, _)| used == "*");
        let through = globs.into_iter().find_map(|(_, to)| {
            let inside = self.absolute_within(module, &to[..to.len() - 1], depth)?;
            self.definer_within(&[&inside, &absolute[deepest..]].concat(), depth, false)
        });
        through.or_else(|| guess.then(|| module.path.clone()))
    }

    /// All arrows, each once, at the line that names it first.
    pub(super) fn arrows(&self) -> Vec<Arrow> {
        let mut found: BTreeMap<(Vec<String>, Vec<String>), usize> = BTreeMap::new();
        for module in self.all.values() {
            for named in &module.named {
                let Some(absolute) = self.absolute(module, &named.path) else { continue };
                let Some(to) = self.definer(&absolute) else { continue };
                if to != module.path {
                    let line = found.entry((module.path.clone(), to)).or_insert(named.line);
                    *line = named.line.min(*line);
                }
            }
        }
        found.into_iter().map(|((from, to), line)| Arrow { from, to, line }).collect()
    }
}

/// `rules/fs/mod.rs` and `rules/fs.rs` make `["rules", "fs"]`, `lib.rs` makes nothing.
fn module_path(below: &str) -> Vec<String> {
    let mut path: Vec<String> =
        below.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

impl<'t> Module<'t> {
    /// One that does not parse names nothing: it is the compiler's to report.
    fn read(file: &'t File, path: Vec<String>) -> Self {
        let mut module = Self {
            file,
            path,
            named: Vec::new(),
            items: BTreeSet::new(),
            children: BTreeSet::new(),
            uses: Vec::new(),
        };
        if let Some(tokens) = file.tokens() {
            let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
            module.define(&tokens);
            module.walk(&tokens, true);
        }
        module
    }

    /// Takes in what stands at the top of the file.
    fn define(&mut self, tokens: &[TokenTree]) {
        let mut at = 0;
        while at < tokens.len() {
            if let Some(after) = after_test(tokens, at) {
                at = after;
                continue;
            }
            // `'static` is no keyword.
            let is_lifetime = at > 0 && is_sign(tokens.get(at - 1), '\'');
            if let (Some(keyword), Some(name)) = (word(tokens.get(at)), word(tokens.get(at + 1)))
                && DEFINES.contains(&keyword.as_str())
                && !is_lifetime
            {
                if keyword == "mod" && is_sign(tokens.get(at + 2), ';') {
                    self.children.insert(name);
                } else {
                    self.items.insert(name);
                }
            }
            at += 1;
        }
    }

    /// Takes in each path, and at the top what is used.
    fn walk(&mut self, tokens: &[TokenTree], top: bool) {
        let mut at = 0;
        while at < tokens.len() {
            if let Some(after) = after_test(tokens, at) {
                at = after;
                continue;
            }
            let before = at.checked_sub(1).and_then(|before| tokens.get(before));
            if word(tokens.get(at)).as_deref() == Some("use") {
                let exported = word(before).as_deref() == Some("pub") || is_group(before);
                let (found, after) = use_tree(tokens, at + 1, &[]);
                for (named, alias) in found {
                    let of_child =
                        self.children.contains(&named.path[0]) || named.path[0] == "self";
                    if top {
                        self.uses.push((alias, named.path.clone()));
                    }
                    if !(exported && of_child) {
                        self.named.push(named);
                    }
                }
                at = after;
            } else if let TokenTree::Group(group) = &tokens[at] {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                self.walk(&inner, false);
                at += 1;
            } else if word(tokens.get(at)).is_some() && !is_sign(before, '.') {
                let (named, after) = path(tokens, at);
                if named.path.len() > 1 {
                    self.named.push(named);
                }
                at = after;
            } else {
                at += 1;
            }
        }
    }
}

/// Behind an attribute that marks a test and its item, if one begins here.
pub(super) fn after_test(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let TokenTree::Group(group) = tokens.get(at + 1)? else { return None };
    if !is_sign(tokens.get(at), '#') || group.delimiter() != Delimiter::Bracket {
        return None;
    }
    let text = group.stream().to_string();
    let mut words =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
    let first = words.next()?;
    let marks = first == "test"
        || first == "cfg" && !text.contains("not") && words.any(|word| word == "test");
    if !marks {
        return None;
    }
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        other => is_sign(Some(other), ';'),
    };
    // The braces of `use a::{b};` end nothing.
    let is_use = tokens[at + 2..].iter().take(4).any(|t| word(Some(t)).as_deref() == Some("use"));
    let end = tokens[at + 2..].iter().position(|token| match is_use {
        true => is_sign(Some(token), ';'),
        false => ends(token),
    })?;
    Some(at + 2 + end + 1)
}

/// The path that begins here, and what comes behind it.
fn path(tokens: &[TokenTree], at: usize) -> (Named, usize) {
    let mut named = Named { path: Vec::new(), line: 0 };
    let mut at = at;
    while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
        named.line = line(ident);
        named.path.push(ident.to_string());
        let goes_on =
            is_colons(tokens, at + 1) && matches!(tokens.get(at + 3), Some(TokenTree::Ident(_)));
        at += if goes_on { 3 } else { 1 };
        if !goes_on {
            break;
        }
    }
    (named, at)
}

/// The paths of a `use` tree with the names that they get, and what comes behind its `;` or `,`.
fn use_tree(tokens: &[TokenTree], at: usize, before: &[String]) -> (Vec<(Named, String)>, usize) {
    let start = if is_colons(tokens, at) { at + 2 } else { at };
    let (mut named, mut at) = path(tokens, start);
    named.path = [before, &named.path].concat();
    let mut found = Vec::new();
    if is_colons(tokens, at) || named.path.len() == before.len() {
        at += if is_colons(tokens, at) { 2 } else { 0 };
        match tokens.get(at) {
            Some(TokenTree::Group(group)) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut next = 0;
                while next < inner.len() {
                    let (more, after) = use_tree(&inner, next, &named.path);
                    found.extend(more);
                    next = after.max(next + 1);
                }
            }
            Some(star) if is_sign(Some(star), '*') => {
                named.line = star.span().start().line;
                named.path.push("*".into());
                found.push((named, "*".into()));
            }
            _ => {}
        }
    } else {
        if named.path.last().is_some_and(|last| last == "self") && named.path.len() > 1 {
            named.path.pop();
        }
        let renamed = word(tokens.get(at)).as_deref() == Some("as");
        let alias = match renamed {
            true => word(tokens.get(at + 1)).unwrap_or_default(),
            false => named.path.last().cloned().unwrap_or_default(),
        };
        found.push((named, alias));
    }
    while tokens.get(at).is_some_and(|t| !is_sign(Some(t), ';') && !is_sign(Some(t), ',')) {
        at += 1;
    }
    (found, at + 1)
}

pub(super) fn line(ident: &Ident) -> usize {
    ident.span().start().line
}

pub(super) fn word(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

pub(super) fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

pub(super) fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    is_sign(tokens.get(at), ':') && is_sign(tokens.get(at + 1), ':')
}

fn is_group(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::imagined(files);
        let arrow = |arrow: Arrow| {
            format!("{}->{}:{}", arrow.from.join("/"), arrow.to.join("/"), arrow.line)
        };
        Modules::read(&tree, "src/").arrows().into_iter().map(arrow).collect()
    }

    #[test]
    fn names_are_followed_to_the_file_that_defines_them() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\n"),
            (
                "src/a/mod.rs",
                "pub mod one;\npub mod two;\npub use one::*;\npub use two::Two as Deux;\nfn f() -> &'static One {}\n",
            ),
            ("src/a/one.rs", "pub struct One;\n"),
            ("src/a/two.rs", "pub struct Two;\nfn f(_: super::One) {}\n"),
            (
                "src/b.rs",
                "use crate::a;\nuse crate::a::{Deux, one as eins};\nfn f(_: eins::One) { a::two::g(vec![a::One]) }\n",
            ),
        ];
        assert_eq!(arrows(&files), ["a/two->a/one:2", "b->a/one:3", "b->a/two:2"]);
    }

    #[test]
    fn tests_and_their_files_are_left_out() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod scenes;\n"),
            (
                "src/a.rs",
                "#[cfg(test)]\npub(crate) use crate::{b::B};\n#[cfg(test)]\nmod tests { use crate::b::B; }\nfn f() {}\n",
            ),
            ("src/scenes.rs", "use crate::b::B;\n"),
            ("src/b.rs", "pub struct B;\n"),
        ];
        assert_eq!(arrows(&files), [""; 0]);
    }

    #[test]
    fn globs_of_another_module_are_arrows_and_bring_names() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("src/a.rs", "pub use crate::c;\n"),
            ("src/b.rs", "use crate::a::*;\nfn f() { c::g() }\n"),
            ("src/c.rs", "pub fn g() {}\n"),
        ];
        assert_eq!(arrows(&files), ["b->a:1", "b->c:2"]);
    }
}
