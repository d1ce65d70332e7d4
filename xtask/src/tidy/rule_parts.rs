//! House rules on what a rule consists of: no bare numbers (nor in waits, graph and measure), thresholds with their reasons,
//! refutations with their tests; and ways of the graph with theirs.
//!
//! A number that decides stands in a `Threshold` with unit, reason and source, and what refutes a rule has a test that shows
//! it. Read as syntax, so that formats, types and tests are no noise: a number counts where it is compared, bounded by
//! `max`, `min` or `clamp`, or an edge of a range that is asked with `contains`. Named constants are for units, wording and the kernel's
//! numbers; a float one that is compared with `<` or `>` decides too, and is refused like a bare one.

use super::Breach;
use super::rules::RULES;
use super::rust::{is_test_file, marks_test};
use crate::tree::{File, Tree};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use syn::visit::Visit;
use syn::{BinOp, Expr, Lit};

/// Nothing, one, a half, the whole in per cent, and the units.
const PLAIN: &[f64] = &[0.0, 1.0, 2.0, 100.0, 1e3, 1e6, 1e9];
/// A nanosecond, as what a divisor is at least.
const DIVISOR_MIN: f64 = 1e-9;

/// What a file of rules holds.
#[derive(Default)]
struct Parts {
    /// Line and digits of each number that decides.
    numbers: Vec<(usize, String)>,
    /// Line and name of what is compared.
    compared: Vec<(usize, String)>,
    /// Constants with a float as their value.
    floats: BTreeSet<String>,
    /// Line, clause, test.
    refutations: Vec<(usize, String, String)>,
    /// Line, and which word of a threshold is empty.
    unfounded: Vec<(usize, &'static str)>,
    /// Functions that are tests.
    tests: BTreeSet<String>,
    in_tests: bool,
}

impl Parts {
    fn of(file: &File) -> Self {
        let mut parts = Self { in_tests: is_test_file(&file.path), ..Self::default() };
        if let Some(syntax) = file.syntax() {
            parts.visit_file(syntax);
        }
        parts
    }

    /// The numbers of one side of a comparison: through sums and products, not into calls and bits.
    fn side(&mut self, side: &Expr) {
        match side {
            Expr::Lit(literal) => self.number(&literal.lit, false),
            Expr::Path(path) => {
                if let Some(last) = path.path.segments.last() {
                    let line = last.ident.span().start().line;
                    self.compared.push((line, last.ident.to_string()));
                }
            }
            Expr::Binary(binary) => {
                if matches!(
                    binary.op,
                    BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_)
                ) {
                    self.side(&binary.left);
                    self.side(&binary.right);
                }
            }
            Expr::Paren(inner) => self.side(&inner.expr),
            Expr::Group(inner) => self.side(&inner.expr),
            Expr::Unary(inner) => self.side(&inner.expr),
            Expr::Cast(inner) => self.side(&inner.expr),
            Expr::Reference(inner) => self.side(&inner.expr),
            _ => {}
        }
    }

    fn number(&mut self, literal: &Lit, is_divisor: bool) {
        let (value, line) = match literal {
            Lit::Int(int) => (int.base10_parse::<u64>().ok().map(|n| n as f64), int.span()),
            Lit::Float(float) => (float.base10_parse::<f64>().ok(), float.span()),
            _ => return,
        };
        let Some(value) = value else { return };
        let line = line.start().line;
        let is_plain = PLAIN.contains(&value) || is_divisor && value == DIVISOR_MIN;
        if !is_plain && !self.in_tests {
            self.numbers.push((line, value.to_string()));
        }
    }

    /// A macro is no syntax: numbers right beside a comparison.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let compares = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if matches!(punct.as_char(), '<' | '>' | '='));
        for (at, token) in tokens.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| tokens.get(before));
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) if compares(before) || compares(tokens.get(at + 1)) => {
                    self.number(&Lit::new(literal.clone()), false);
                }
                _ => {}
            }
        }
    }
}

/// `/// WORDING: ...` above a constant: it chooses words, and no match depends on it.
fn is_of_wording(attribute: &syn::Attribute) -> bool {
    let syn::Meta::NameValue(comment) = &attribute.meta else { return false };
    comment.path.is_ident("doc")
        && text_of(Some(&comment.value)).is_some_and(|text| text.contains("WORDING:"))
}

fn is_float(value: &Expr) -> bool {
    matches!(value, Expr::Lit(literal) if matches!(literal.lit, Lit::Float(_)))
}

fn text_of(value: Option<&Expr>) -> Option<String> {
    match value? {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Parts {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let before = self.in_tests;
        self.in_tests |= item.attrs.iter().any(marks_test);
        syn::visit::visit_item_mod(self, item);
        self.in_tests = before;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let before = self.in_tests;
        if item.attrs.iter().any(marks_test) {
            self.in_tests = true;
            self.tests.insert(item.sig.ident.to_string());
        }
        syn::visit::visit_item_fn(self, item);
        self.in_tests = before;
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if is_float(&item.expr) && !item.attrs.iter().any(is_of_wording) {
            self.floats.insert(item.ident.to_string());
        }
        syn::visit::visit_item_const(self, item);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        match binary.op {
            BinOp::Lt(_)
            | BinOp::Le(_)
            | BinOp::Gt(_)
            | BinOp::Ge(_)
            | BinOp::Eq(_)
            | BinOp::Ne(_)
                if !self.in_tests =>
            {
                self.side(&binary.left);
                self.side(&binary.right);
            }
            _ => {}
        }
        syn::visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        if matches!(method.as_str(), "max" | "min" | "clamp") {
            for bound in &call.args {
                if let Expr::Lit(literal) = bound {
                    self.number(&literal.lit, method == "max");
                }
            }
        } else if method == "contains"
            && let Expr::Paren(inner) = &*call.receiver
            && let Expr::Range(range) = &*inner.expr
        {
            for edge in [&range.start, &range.end].into_iter().flatten() {
                if let Expr::Lit(literal) = &**edge {
                    self.number(&literal.lit, false);
                }
            }
        }
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(function) = &*call.func {
            let words: Vec<String> =
                function.path.segments.iter().map(|s| s.ident.to_string()).collect();
            let line = function.path.segments.last().map_or(0, |s| s.ident.span().start().line);
            let mut arguments = call.args.iter();
            match words.iter().rev().map(String::as_str).take(2).collect::<Vec<_>>()[..] {
                ["new", "Refutation"] => {
                    let clause = text_of(arguments.next()).unwrap_or_default();
                    let test = text_of(arguments.next()).unwrap_or_default();
                    self.refutations.push((line, clause, test));
                }
                ["new", "Threshold"] => {
                    for (argument, what) in arguments.skip(1).zip(["unit", "reason", "source"]) {
                        if text_of(Some(argument)).is_some_and(|text| text.trim().is_empty()) {
                            self.unfounded.push((line, what));
                        }
                    }
                }
                _ => {}
            }
        }
        syn::visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, found: &'ast syn::Macro) {
        if !self.in_tests {
            self.tokens(found.tokens.clone());
        }
    }
}

/// The area of a file of rules: rules/<area>/<file>.rs.
fn area(file: &File) -> Option<&str> {
    let below = file.path.strip_prefix(RULES)?;
    let (area, name) = below.split_once('/')?;
    (name.ends_with(".rs") && !name.contains('/')).then_some(area)
}

/// The ways from a waiter to whoever must act.
const WAYS: &str = "crates/reason/src/graph/ways/";
/// Rooms before the rules in which numbers decide as well: what a wait is for, who is followed, what a figure is.
const DECIDING: &[&str] =
    &["crates/reason/src/graph/", "crates/reason/src/waits/", "crates/reason/src/measure/"];

fn decides(file: &File) -> bool {
    area(file).is_some()
        || file.has_extension(&[".rs"]) && DECIDING.iter().any(|room| file.path.starts_with(room))
}

fn of_areas(tree: &Tree) -> impl Iterator<Item = (&File, &str)> {
    tree.files.iter().filter_map(|file| Some((file, area(file)?)))
}

/// What decides is a threshold.
pub(super) fn no_bare_numbers_where_it_is_decided(tree: &Tree) -> Vec<Breach> {
    let fix = "make it a Threshold with unit, reason and source, listed in the `thresholds` of the rule or the way";
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| decides(file) && !is_test_file(&file.path)) {
        let parts = Parts::of(file);
        for (line, number) in &parts.numbers {
            let why =
                format!("a bare number decides: {number}; nobody can check why it is that high");
            breaches.push(Breach::at(file, *line, why, fix));
        }
        for (line, name) in parts.compared.iter().filter(|(_, name)| parts.floats.contains(name)) {
            let why = format!("the constant {name} decides, without unit, reason and source");
            let fix = format!("{fix}; if it only chooses words, say above it: WORDING: why");
            breaches.push(Breach::at(file, *line, why, fix));
        }
    }
    breaches
}

/// A threshold says why, and where from.
pub(super) fn thresholds_have_their_reasons(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let inside =
        |file: &&File| file.path.starts_with("crates/reason/src/") && file.has_extension(&[".rs"]);
    for file in tree.files.iter().filter(inside).filter(|file| !is_test_file(&file.path)) {
        for (line, what) in Parts::of(file).unfounded {
            let why = format!("a threshold without its {what}: docs/codes.md cannot explain it");
            let fix =
                "say what it is compared with and why it is this high, and where that was found";
            breaches.push(Breach::at(file, line, why, fix));
        }
    }
    breaches
}

/// A way of the graph has its test, in its own file.
pub(super) fn ways_have_their_tests(tree: &Tree) -> Vec<Breach> {
    let of_ways = |file: &&File| file.path.starts_with(WAYS) && file.has_extension(&[".rs"]);
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(of_ways).filter(|file| !is_test_file(&file.path)) {
        let Ok(syntax) = syn::parse_file(&file.text()) else { continue };
        let way = syntax.items.iter().find_map(|item| match item {
            syn::Item::Static(one) if is_a_way(&one.ty) => Some(one),
            _ => None,
        });
        if let Some(way) = way.filter(|_| Parts::of(file).tests.is_empty()) {
            let line = way.ident.span().start().line;
            let why = "a way without a test: nobody sees when it leads to somebody else";
            let fix =
                "write a test that is led there by this way, and one thing that keeps it from it";
            breaches.push(Breach::at(file, line, why, fix));
        }
    }
    breaches
}

fn is_a_way(of: &syn::Type) -> bool {
    matches!(of, syn::Type::Path(path) if path.path.is_ident("Way"))
}

/// What refutes a rule has a test, in the rule's file or the tests of its area.
pub(super) fn refutations_have_their_tests(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, own) in of_areas(tree) {
        let parts = Parts::of(file);
        if parts.refutations.is_empty() {
            continue;
        }
        let mut tests = parts.tests;
        let of_area =
            of_areas(tree).filter(|(file, area)| *area == own && is_test_file(&file.path));
        for (file, _) in of_area {
            tests.extend(Parts::of(file).tests);
        }
        for (line, clause, test) in &parts.refutations {
            let why = if clause.trim().is_empty() {
                "a refutation without its clause".to_string()
            } else if test.trim().is_empty() {
                format!("no test shows that this refutes the rule: {clause}")
            } else if !tests.contains(test) {
                format!("the test {test} is neither in this file nor in the tests of {own}")
            } else {
                continue;
            };
            let fix = "write a test that has it and finds nothing of this rule, and give its name";
            breaches.push(Breach::at(file, *line, why, fix));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(breaches: &[Breach]) -> Vec<usize> {
        breaches.iter().map(|breach| breach.line).collect()
    }

    fn bare(text: &str) -> Vec<usize> {
        lines_of(&no_bare_numbers_where_it_is_decided(&Tree::imagined(&[(
            "crates/reason/src/rules/disk/a.rs",
            text,
        )])))
    }

    #[test]
    fn numbers_that_decide_are_found() {
        let text = "fn f() {\n a > 3;\n b.len() == 12;\n c <= 0.7 * d / e;\n f.max(0.25);\n (0.6..=1.35).contains(&g);\n \
                    h.is_some_and(|h| h < 1e-3);\n matches!(i, Some(j) if j > 5);\n k.clamp(0.0, 0.9);\n}\n";
        assert_eq!(bare(text), [2, 3, 4, 5, 6, 6, 7, 8, 9]);
    }

    #[test]
    fn units_guards_bits_wording_and_tests_are_no_decisions() {
        let text = "static A: Threshold = Threshold::new(0.7, \"1\", \"why\", \"source\");\nconst FIFO: u32 = 1;\n\
                    const RAISE: f64 = 1.5;\nfn f(a: Vec<u8>) -> [u64; 6] {\n b > 0; c == 1; d >= A.value * e;\n \
                    g.max(1e-9); h.min(1.0); i.clamp(0.0, 100.0); j / 1e9 < k; l >> 8 & 0xff > 1;\n \
                    m.max(RAISE); n.policy == FIFO; format!(\"{:>5}\", o * 1.5); p.take(3);\n}\n\
                    #[cfg(test)]\nmod tests { fn g() { assert!(a > 3); b > 4; } }\n";
        assert_eq!(bare(text), [0; 0]);
    }

    #[test]
    fn a_named_float_decides_as_a_bare_one_does() {
        assert_eq!(bare("const BUSY_MIN: f64 = 0.8;\nfn f() { a >= BUSY_MIN }\n"), [2]);
        let words = "/// WORDING: less is not worth a clause.\nconst CLAUSE: f64 = 0.8;\nfn f() { a >= CLAUSE }\n";
        assert_eq!(bare(words), [0; 0]);
        let elsewhere = |room: &str| {
            let path = format!("crates/reason/src/{room}/a.rs");
            let text = "fn f() { a > 3; }\n";
            no_bare_numbers_where_it_is_decided(&Tree::imagined(&[(path.as_str(), text)])).len()
        };
        assert_eq!(["waits", "graph", "graph/ways/held", "measure"].map(elsewhere), [1; 4]);
        assert_eq!(["model", "answer"].map(elsewhere), [0; 2]);
    }

    #[test]
    fn thresholds_say_why_and_where_from() {
        let text = "static A: Threshold = Threshold::new(1.0, \"s\", \"why\", \"a paper\");\n\
                    static B: Threshold = Threshold::new(1.0, \"s\", \" \", \"a paper\");\n\
                    static C: Threshold = Threshold::new(\n    1.0,\n    \"s\",\n    \"why\",\n    \"\",\n);\n\
                    #[cfg(test)]\nmod tests {}\n";
        let tree = Tree::imagined(&[("crates/reason/src/rules/disk/a.rs", text)]);
        let breaches = thresholds_have_their_reasons(&tree);
        assert_eq!(lines_of(&breaches), [2, 3]);
        assert!(breaches[0].why.contains("reason") && breaches[1].why.contains("source"));
    }

    #[test]
    fn a_way_without_a_test_is_found() {
        let way = "use super::Way;\n\npub static WAY: Way = Way { name: \"a\" };\n";
        let tested = format!("{way}#[cfg(test)]\nmod tests {{\n #[test]\n fn f() {{}}\n}}\n");
        let tree = Tree::imagined(&[
            ("crates/reason/src/graph/ways/held/a.rs", way),
            ("crates/reason/src/graph/ways/held/b.rs", &tested),
            ("crates/reason/src/graph/ways/held/mod.rs", "pub static LADDER: &[&Way] = &[];\n"),
        ]);
        let breaches = ways_have_their_tests(&tree);
        assert_eq!((lines_of(&breaches), breaches[0].path.ends_with("a.rs")), (vec![3], true));
    }

    #[test]
    fn refutations_name_tests_that_are_there() {
        let text = "pub static RULE: Rule = Rule {\n refuted_by: &[\n  Refutation::new(\"a\", \"here\"),\n  \
                    Refutation::new(\"b\", \"beside\"),\n  Refutation::new(\"c\", \"\"),\n  \
                    Refutation::new(\"d\", \"elsewhere\"),\n  Refutation::new(\"e\", \"no_test\"),\n ],\n};\n\
                    #[cfg(test)]\nmod tests {\n #[test]\n fn here() {}\n fn no_test() {}\n}\n";
        let tree = Tree::imagined(&[
            ("crates/reason/src/rules/disk/a.rs", text),
            ("crates/reason/src/rules/disk/tests.rs", "#[test]\nfn beside() {}\n"),
            ("crates/reason/src/rules/net/tests.rs", "#[test]\nfn elsewhere() {}\n"),
        ]);
        assert_eq!(lines_of(&refutations_have_their_tests(&tree)), [5, 6, 7]);
    }
}
