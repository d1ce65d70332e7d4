//! House rules that count: fields of a struct, methods of a type, importers of a file, in the crates that are shipped.
//!
//! A type that has grown past its notion shows in its fields and methods, however many files it is spread over: so methods are added up
//! over all `impl` blocks of a crate (traits' left out: they are another's notion). A file that most others import is what a change
//! cannot avoid: it should hold a vocabulary or a small trait, and little that changes. The bounds are what a reader can hold in mind for types, and for
//! files where today's distribution has its gap; exceptions.rs has those beyond, each with its reason. Lengths are shape.rs's. Tests are left out.
//!
//! `cargo run -p xtask -- meters` prints the largest of each.

use super::Breach;
use super::exceptions::{LARGE_TYPES, NAMED_BY_MANY};
use super::modules::Modules;
use super::rust::marks_test;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::Visit;

/// Fields that a struct may have.
pub(crate) const FIELDS_MAX: usize = 15;
/// Methods that a type may have, over all of its `impl` blocks.
pub(crate) const METHODS_MAX: usize = 25;
/// Files of its crate that may import one. Above stand the vocabularies that every rule is written in, from 76 on; below what an area
/// shares, up to 55.
pub(crate) const IMPORTERS_MAX: usize = 60;

/// A type, and what it was counted to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Type {
    /// The file that defines it, below the root.
    pub path: String,
    /// Its name.
    pub name: String,
    /// Where.
    pub line: usize,
    /// Fields of a struct that have names.
    pub fields: usize,
    /// Methods that no trait asks for.
    pub methods: usize,
}

/// What one file says of types.
#[derive(Default)]
struct Counted {
    /// Name, line and fields.
    structs: Vec<(String, usize, usize)>,
    methods: BTreeMap<String, usize>,
}

impl<'ast> Visit<'ast> for Counted {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(marks_test) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let fields = item.fields.iter().filter(|field| field.ident.is_some()).count();
        let line = item.ident.span().start().line;
        self.structs.push((item.ident.to_string(), line, fields));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.structs.push((item.ident.to_string(), item.ident.span().start().line, 0));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(of) = &*item.self_ty else { return };
        let Some(name) = of.path.segments.last().map(|segment| segment.ident.to_string()) else {
            return;
        };
        if item.trait_.is_some() || item.attrs.iter().any(marks_test) {
            return;
        }
        let is_method = |one: &&syn::ImplItem| matches!(one, syn::ImplItem::Fn(method) if !method.attrs.iter().any(marks_test));
        *self.methods.entry(name).or_default() += item.items.iter().filter(is_method).count();
    }
}

/// The `src/` folders of what is shipped.
fn sources(tree: &Tree) -> BTreeSet<String> {
    let of = |path: &str| {
        let name = path.strip_prefix("crates/")?.split('/').next()?;
        let src = format!("crates/{name}/src/");
        path.starts_with(&src).then_some(src)
    };
    tree.files.iter().filter_map(|file| of(&file.path)).collect()
}

/// Types of what is shipped.
pub(crate) fn types(tree: &Tree) -> Vec<Type> {
    sources(tree).iter().flat_map(|src| types_of(tree, src)).collect()
}

fn types_of(tree: &Tree, src: &str) -> Vec<Type> {
    let modules = Modules::read(tree, src);
    let mut all: BTreeMap<(Vec<String>, String), Type> = BTreeMap::new();
    let mut methods: Vec<(Vec<String>, String, usize)> = Vec::new();
    for (path, module) in &modules.all {
        let mut counted = Counted::default();
        if let Some(syntax) = module.file.syntax() {
            counted.visit_file(syntax);
        }
        for (name, line, fields) in counted.structs {
            let of = Type {
                path: module.file.path.clone(),
                name: name.clone(),
                line,
                fields,
                methods: 0,
            };
            all.insert((path.clone(), name), of);
        }
        for (name, count) in counted.methods {
            let named = modules.absolute(module, std::slice::from_ref(&name));
            let definer = named.and_then(|named| modules.definer(&named));
            methods.push((definer.unwrap_or_else(|| path.clone()), name, count));
        }
    }
    for (path, name, count) in methods {
        if let Some(of) = all.get_mut(&(path, name)) {
            of.methods += count;
        }
    }
    all.into_values().collect()
}

/// Files of what is shipped, each with the files of its crate that import it.
pub(crate) fn importers(tree: &Tree) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for src in sources(tree) {
        let modules = Modules::read(tree, &src);
        let mut from: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
        for arrow in modules.arrows() {
            from.entry(arrow.to).or_default().insert(arrow.from);
        }
        for (to, all) in from {
            let file = modules.all.get(&to).map(|module| module.file.path.clone());
            found.extend(file.map(|path| (path, all.len())));
        }
    }
    found
}

/// No type past its fields and methods without a reason.
pub(crate) fn types_are_small(tree: &Tree) -> Vec<Breach> {
    let is_it = |it: &(&str, &str, &str), of: &Type| {
        of.path.starts_with(it.0) && (it.1.is_empty() || it.1 == of.name)
    };
    let excepted = |of: &Type| LARGE_TYPES.iter().any(|it| is_it(it, of));
    let types = types(tree);
    let large: Vec<&Type> =
        types.iter().filter(|it| it.fields > FIELDS_MAX || it.methods > METHODS_MAX).collect();
    let breach = |of: &&Type| Breach {
        path: of.path.clone(),
        line: of.line,
        why: format!(
            "{} has {} fields and {} methods, more than {FIELDS_MAX} or {METHODS_MAX}",
            of.name, of.fields, of.methods
        ),
        fix: "split the notion, not the file; or say in xtask/src/tidy/exceptions.rs why it is one"
            .into(),
    };
    let is_there = |place: &str| tree.files.iter().any(|file| file.path.starts_with(place));
    let needless = LARGE_TYPES
        .iter()
        .filter(|it| is_there(it.0) && !large.iter().any(|of| is_it(it, of)))
        .map(|it| no_exception(it.0, it.1));
    large.iter().filter(|of| !excepted(of)).map(breach).chain(needless).collect()
}

/// No file that most others import without a reason.
pub(crate) fn files_are_imported_by_few(tree: &Tree) -> Vec<Breach> {
    let all = importers(tree);
    let many: Vec<&(String, usize)> = all.iter().filter(|it| it.1 > IMPORTERS_MAX).collect();
    let excepted = |path: &str| NAMED_BY_MANY.iter().any(|it| it.0 == path);
    let breach = |(path, count): &&(String, usize)| Breach {
        path: path.clone(),
        line: 0,
        why: format!("{count} files of its crate import it, more than {IMPORTERS_MAX}"),
        fix: "split what they need by area; or say in xtask/src/tidy/exceptions.rs why it is one"
            .into(),
    };
    let needless = NAMED_BY_MANY.iter().filter(|it| tree.has(it.0));
    let needless = needless.filter(|it| !many.iter().any(|of| of.0 == it.0));
    let needless = needless.map(|it| no_exception(it.0, "the file"));
    many.iter().filter(|it| !excepted(&it.0)).map(breach).chain(needless).collect()
}

fn no_exception(path: &str, what: &str) -> Breach {
    Breach {
        path: path.into(),
        line: 0,
        why: format!("{what} needs its exception no more"),
        fix: "take it out of xtask/src/tidy/exceptions.rs".into(),
    }
}

/// The largest of each, and how many files are in each folder, as text.
pub(crate) fn report(tree: &Tree) -> String {
    let mut types = types(tree);
    let mut text = String::new();
    let mut rows = |title: &str, rows: Vec<String>| {
        text.push_str(&format!("{title}\n"));
        text.extend(rows.iter().map(|row| format!("  {row}\n")));
    };
    let row = |of: &Type| {
        format!("{:3} fields {:3} methods  {} ({})", of.fields, of.methods, of.name, of.path)
    };
    types.sort_by_key(|of| std::cmp::Reverse(of.fields));
    rows("types by fields", types.iter().take(SHOWN).map(row).collect());
    types.sort_by_key(|of| std::cmp::Reverse(of.methods));
    rows("types by methods", types.iter().take(SHOWN).map(row).collect());
    let mut importers = importers(tree);
    importers.sort_by_key(|it| std::cmp::Reverse(it.1));
    let row = |(path, count): &(String, usize)| format!("{count:3} files  {path}");
    rows("files by importers", importers.iter().take(SHOWN).map(row).collect());
    let mut folders: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.has_extension(&[".rs"])) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let of = folders.entry(folder).or_default();
        *of = (of.0 + 1, of.1 + file.text().lines().count());
    }
    let row = |(folder, (files, lines)): (&&str, &(usize, usize))| {
        format!("{files:3} files {lines:6} lines  {folder}")
    };
    rows("folders", folders.iter().map(row).collect());
    text
}

/// Rows of each table that are printed.
const SHOWN: usize = 25;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Tree {
        Tree::imagined(files)
    }

    #[test]
    fn methods_are_counted_over_all_files_of_a_crate_and_traits_are_not() {
        let tree = of(&[
            (
                "crates/a/src/lib.rs",
                "mod b;\npub struct A { x: u8, y: u8 }\nimpl A { fn one(&self) {} }\nimpl Clone for A { fn clone(&self) -> A { A } }\n",
            ),
            (
                "crates/a/src/b.rs",
                "use super::A;\nimpl A { fn two(&self) {}\n fn three(&self) {} }\n#[cfg(test)]\nmod tests { struct T { a: u8 } }\n",
            ),
        ]);
        let types = types(&tree);
        let found: Vec<_> = types.iter().map(|it| (&*it.name, it.fields, it.methods)).collect();
        assert_eq!(found, [("A", 2, 3)]);
        assert_eq!(types_are_small(&tree), []);
    }

    #[test]
    fn a_large_type_is_refused() {
        let fields: String = (0..=FIELDS_MAX).map(|at| format!("f{at}: u8, ")).collect();
        let text = format!("struct A {{ {fields} }}\nstruct B {{ a: u8 }}\n");
        let breaches = types_are_small(&of(&[("crates/a/src/lib.rs", &text)]));
        assert_eq!(breaches.iter().map(|it| it.line).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_file_that_many_import_is_refused() {
        let files: Vec<(String, String)> = (0..=IMPORTERS_MAX)
            .map(|at| (format!("crates/a/src/f{at}.rs"), "use crate::hub::Hub;\n".to_string()))
            .collect();
        let root: String = (0..=IMPORTERS_MAX).map(|at| format!("mod f{at};\n")).collect();
        let root = format!("mod hub;\n{root}");
        let mut all = vec![
            ("crates/a/src/lib.rs", root.as_str()),
            ("crates/a/src/hub.rs", "pub struct Hub;\n"),
        ];
        all.extend(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        let breaches = files_are_imported_by_few(&of(&all));
        assert_eq!(breaches.len(), 1);
        assert!(breaches[0].why.starts_with("61 files"), "{}", breaches[0].why);
    }
}
