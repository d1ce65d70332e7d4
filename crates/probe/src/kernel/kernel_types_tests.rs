//! A cut of a BTF has what the programs read, with the same numbers and offsets, and nothing behind pointers; bytes that are none
//! are refused. Written by hand what is small, read from the running kernel what is whole. Rejected: a kernel's BTF as a file beside
//! the tests, which has 6 MB. Edit together: kernel_types.rs.

use super::*;
use libbpf_rs::btf::{self, types};

/// A BTF as it lies in a file, written by hand.
#[derive(Default)]
struct Written {
    types: Vec<u8>,
    strings: Vec<u8>,
    first_string: u32,
}

impl Written {
    fn behind(base: &Written) -> Self {
        let first_string = base.first_string + base.strings.len() as u32;
        Self { first_string, ..Self::default() }
    }

    fn name(&mut self, name: &str) -> u32 {
        if self.strings.is_empty() && self.first_string == 0 {
            self.strings.push(0);
        }
        let at = self.first_string + self.strings.len() as u32;
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        at
    }

    fn push(&mut self, name: &str, kind: u32, members: u32, last: u32, behind: &[u32]) {
        let name = if name.is_empty() { 0 } else { self.name(name) };
        for word in [name, kind << 24 | members, last].iter().chain(behind) {
            self.types.extend(word.to_ne_bytes());
        }
    }

    fn structure(&mut self, name: &str, members: &[(&str, u32, u32)]) {
        let named: Vec<[u32; 3]> = members.iter().map(|m| [self.name(m.0), m.1, m.2]).collect();
        self.push(name, STRUCT, members.len() as u32, 32, &named.concat());
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC.to_ne_bytes()[..], &[VERSION, 0]].concat();
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        for word in [HEADER_BYTES as u32, 0, types, types, strings] {
            bytes.extend(word.to_ne_bytes());
        }
        [bytes, self.types.clone(), self.strings.clone()].concat()
    }
}

/// 1 int, 2 inner, 3 other, 4 pointer to other, 5 inner's other name, 6 outer.
fn kernel() -> Written {
    let mut kernel = Written::default();
    kernel.push("int", INT, 0, 4, &[32]);
    kernel.structure("inner", &[("number", 1, 0)]);
    kernel.structure("other", &[("number", 1, 0)]);
    kernel.push("", PTR, 0, 3, &[]);
    kernel.push("inner_t", TYPEDEF, 0, 2, &[]);
    kernel.structure("outer", &[("points", 4, 0), ("lies", 5, 64)]);
    kernel
}

/// The name of each type by its number, from 1 on; empty of what has none or is not read.
fn cut_of(names: &[&str], kernel: &Written, module: Option<&Written>) -> Vec<String> {
    let names = names.iter().map(|name| name.as_bytes()).collect();
    let module = module.map(Written::bytes);
    let bytes = cut(&names, &kernel.bytes(), module.as_deref()).unwrap();
    let read = Btf::read(&bytes, None).unwrap();
    let name = |at: &usize| read.string(word(read.types, *at).unwrap()).unwrap();
    read.starts.iter().map(|at| String::from_utf8(name(at).to_vec()).unwrap()).collect()
}

#[test]
fn what_lies_in_a_type_comes_with_it_and_what_it_points_at_does_not() {
    let outer = cut_of(&["outer"], &kernel(), None);
    assert_eq!(outer, ["int", "inner", "", "", "inner_t", "outer"], "each at its number");
    assert_eq!(cut_of(&["other", "absent"], &kernel(), None), ["int", "", "other"]);
}

#[test]
fn a_module_gives_what_the_kernel_itself_has_not() {
    let kernel = kernel();
    let mut module = Written::behind(&kernel);
    module.structure("inner", &[("another", 1, 0)]);
    module.structure("of_module", &[("lies", 5, 0), ("own", 7, 64)]);
    let cut = cut_of(&["inner", "of_module"], &kernel, Some(&module));
    assert_eq!(cut, ["int", "inner", "", "", "inner_t", "", "inner", "of_module"]);
}

#[test]
fn a_flavor_is_no_part_of_a_name() {
    for (name, without) in [
        ("bio___bi_disk", "bio"),
        ("task_struct", "task_struct"),
        ("a____b", "a____b"),
        ("___a", "___a"),
        ("a___", "a___"),
        ("", ""),
    ] {
        assert_eq!(essential(name.as_bytes()), without.as_bytes(), "{name}");
    }
}

#[test]
fn bytes_that_are_no_btf_are_refused() {
    let whole = kernel().bytes();
    let names: HashSet<&[u8]> = [&b"outer"[..]].into();
    assert!(cut(&names, &whole, None).is_some());
    for length in 0..whole.len() {
        assert!(cut(&names, &whole[..length], None).is_none(), "{length} bytes");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        // Whatever comes of it, libbpf checks it again.
        cut(&names, &changed, None);
    }
}

/// The number of a type, and where each member lies, in bits.
fn layout(btf: &btf::Btf<'_>, name: &str) -> Option<(btf::TypeId, Vec<(String, u32)>)> {
    let structure: types::Struct<'_> = btf.type_by_name(name)?;
    let member = |member: types::StructMember<'_>| {
        let at = match member.attr {
            types::MemberAttr::Normal { offset } => offset,
            types::MemberAttr::BitField { offset, .. } => offset,
        };
        (member.name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(), at)
    };
    Some((structure.type_id(), structure.iter().map(member).collect()))
}

#[test]
fn types_have_the_numbers_and_members_the_places_of_the_running_kernel() {
    let kernel = Path::new(crate::host::KERNEL_BTF);
    let Ok(whole) = btf::Btf::from_path(kernel) else { return };
    let file = file(kernel).unwrap();
    let cut = btf::Btf::from_path(path_of(&file)).unwrap();
    for name in ["task_struct", "request", "sk_buff", "rq", "mm_struct"] {
        assert_eq!(layout(&cut, name), layout(&whole, name), "{name}");
        assert!(layout(&cut, name).is_some_and(|(_, members)| !members.is_empty()), "{name}");
    }
}
