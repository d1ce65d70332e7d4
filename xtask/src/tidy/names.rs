//! House rule on names: private words of this house that are fine in a sentence, and say nothing in a name.
//!
//! "kept" and "note" are read by syntax where something gets its name (a function, a type, a field, a variant, a constant, a module), not
//! where it is used: one name, one breach. A note is the least severity of a finding, and that alone may be called so. Names of tests are
//! sentences. Words that no name may have wherever it stands are text.rs's.

use super::Breach;
use super::exceptions::OF_THE_LEAST_SEVERITY;
use super::rust::{is_test_file, marks_test};
use crate::tree::Tree;
use syn::visit::Visit;

/// The words, and what says the same to everybody.
const WORDS: &[(&str, &str)] = &[
    ("kept", "what is done with it: stored, queued, remembered, retained"),
    ("note", "what is done: remember, record, mark, fill in; of a text: remark"),
    ("notes", "remarks, records"),
    ("noted", "recorded, marked"),
];

/// Names that are given, with their lines.
#[derive(Default)]
struct Given(Vec<(usize, String)>);

impl Given {
    fn take(&mut self, name: &syn::Ident) {
        self.0.push((name.span().start().line, name.to_string()));
    }
}

impl<'ast> Visit<'ast> for Given {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(marks_test) {
            self.take(&item.ident);
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !item.attrs.iter().any(marks_test) {
            self.take(&item.sig.ident);
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.take(&item.sig.ident);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.take(&item.sig.ident);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.take(&item.ident);
        syn::visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.take(&item.ident);
        syn::visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.take(&item.ident);
        syn::visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.take(&item.ident);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.take(&item.ident);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.take(&item.ident);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        field.ident.iter().for_each(|name| self.take(name));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.take(&variant.ident);
        syn::visit::visit_variant(self, variant);
    }
}

/// `KeptQuestion` and `kept_question` are two words each.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = '_';
    for sign in name.chars() {
        let begins = sign == '_' || sign.is_uppercase() && before.is_lowercase();
        if begins {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut().filter(|_| sign != '_') {
            last.extend(sign.to_lowercase());
        }
        before = sign;
    }
    words
}

/// No name with a private word.
pub(super) fn names_are_the_fields(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in &tree.files {
        if is_test_file(&file.path) {
            continue;
        }
        let mut given = Given::default();
        let Some(syntax) = file.syntax() else { continue };
        given.visit_file(syntax);
        for (line, name) in given.0 {
            let is_excepted =
                OF_THE_LEAST_SEVERITY.iter().any(|it| it.0 == file.path && it.1 == name);
            let words = words(&name);
            let found = WORDS.iter().find(|(word, _)| words.iter().any(|it| it == word));
            if let Some((word, instead)) = found.filter(|_| !is_excepted) {
                let why = format!("the name {name} has \"{word}\", a private word");
                breaches.push(Breach::at(file, line, why, format!("say: {instead}")));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_word_in_a_name_is_found_where_the_name_is_given() {
        let text = "// what is kept\nstruct KeptFacts { noted: u8, kept: u8, keep: u8 }\nfn f(kept: KeptFacts) { g.note() }\n\
                    enum E { Note }\nmod kept;\n#[cfg(test)]\nmod tests { fn kept() {} }\nfn notebook() {}\n";
        let breaches = names_are_the_fields(&Tree::imagined(&[("a.rs", text)]));
        assert_eq!(breaches.iter().map(|it| it.line).collect::<Vec<_>>(), [2, 2, 2, 4, 5]);
    }
}
