//! The name and the file of a Java method, as HotSpot keeps them: Method, ConstMethod, ConstantPool, Symbol.
//!
//! A method's class says who it is, and has to lead back to the constants that the name was taken from: so of a pointer that has
//! gone astray nothing is said. Names are text of the program's own, of any content: only what is text without control
//! characters is taken, and no more than so much. Must not: read values of variables.
//!
//! A method of Java's own classes is named without their package, and its file stands under `jdk/`, as Python's own stand
//! under `python3/`.

use super::table::{Table, pointer};
use crate::called::Memory;
use crate::elf::u16_at;
use holdup_reason::facts::UserFrame;
use std::collections::HashMap;

/// Types of the table that tell.
pub(super) const TYPES: [&str; 6] =
    ["Method", "ConstMethod", "ConstantPool", "Klass", "InstanceKlass", "Symbol"];
/// Those whose size is needed: what belongs to one stands behind it.
pub(super) const SIZED: [&str; 1] = ["ConstantPool"];

/// Bytes of a name of the program's.
const NAME_BYTES_MAX: u16 = 400;
/// Letters of a whole name; a longer one is said without its package.
const LETTERS_MAX: usize = 64;
/// Methods that are remembered.
const REMEMBERED_MAX: usize = 4096;
/// Packages of Java's own classes.
const JAVAS_OWN: [&str; 5] = ["java/", "javax/", "jdk/", "sun/", "com/sun/"];
/// Where the name of a class that was made at run time begins to say nothing: `Shop$$Lambda$14+0x7f0c`.
const MADE: [&str; 3] = ["$$Lambda", "+0x", "/0x"];

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    fixed: u64,
    constants: u64,
    name: u64,
    holder: u64,
    /// Behind the head of the constants.
    slots: u64,
    class_name: u64,
    class_constants: u64,
    file: Option<File>,
    text_length: u64,
    text: u64,
}

/// Where the number of the source file's name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    OfConstants(u64),
    OfClass(u64),
}

impl Layout {
    /// By the table; none if a field is missing.
    pub(super) fn of(table: &Table) -> Option<Self> {
        const FILE: &str = "_source_file_name_index";
        let of_constants = table.offset("ConstantPool", FILE).map(File::OfConstants);
        let of_class = || table.offset("InstanceKlass", FILE).map(File::OfClass);
        Some(Self {
            fixed: table.offset("Method", "_constMethod")?,
            constants: table.offset("ConstMethod", "_constants")?,
            name: table.offset("ConstMethod", "_name_index")?,
            holder: table.offset("ConstantPool", "_pool_holder")?,
            slots: table.bytes("ConstantPool")?,
            class_name: table.offset("Klass", "_name")?,
            class_constants: table.offset("InstanceKlass", "_constants")?,
            file: of_constants.or_else(of_class),
            text_length: table.offset("Symbol", "_length")?,
            text: table.offset("Symbol", "_body")?,
        })
    }
}

fn number(at: u64, memory: &mut Memory<'_>) -> Option<u16> {
    let mut bytes = [0; 2];
    memory(at, &mut bytes)?;
    Some(u16_at(&bytes, 0))
}

/// Methods of a process, as far as they were met.
pub(super) struct Methods {
    layout: Layout,
    known: HashMap<u64, Option<UserFrame>>,
}

impl Methods {
    /// Of which none was met yet.
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, known: HashMap::new() }
    }

    /// A method by where it is; none if it is no method, or its name no text.
    pub(super) fn frame(&mut self, method: u64, memory: &mut Memory<'_>) -> Option<UserFrame> {
        if self.known.len() >= REMEMBERED_MAX {
            self.known.clear();
        }
        let layout = &self.layout;
        self.known.entry(method).or_insert_with(|| layout.frame(method, memory)).clone()
    }
}

impl Layout {
    fn frame(&self, method: u64, memory: &mut Memory<'_>) -> Option<UserFrame> {
        let fixed = pointer(method.wrapping_add(self.fixed), memory)?;
        let constants = pointer(fixed.wrapping_add(self.constants), memory)?;
        let class = pointer(constants.wrapping_add(self.holder), memory)?;
        if pointer(class.wrapping_add(self.class_constants), memory) != Some(constants) {
            return None;
        }
        let constant = |index: u16, memory: &mut Memory<'_>| {
            let slot = constants.wrapping_add(self.slots).wrapping_add(u64::from(index) * 8);
            self.symbol(pointer(slot, memory)?, memory)
        };
        let name = constant(number(fixed.wrapping_add(self.name), memory)?, memory)?;
        let file = self.file.and_then(|file| {
            let at = match file {
                File::OfConstants(offset) => constants.wrapping_add(offset),
                File::OfClass(offset) => class.wrapping_add(offset),
            };
            let index = number(at, memory).filter(|index| *index != 0)?;
            constant(index, memory)
        });
        let class = self.symbol(pointer(class.wrapping_add(self.class_name), memory)?, memory)?;
        Some(written(&class, &name, file.as_deref().unwrap_or_default()))
    }

    fn symbol(&self, at: u64, memory: &mut Memory<'_>) -> Option<String> {
        let length = number(at.wrapping_add(self.text_length), memory)?;
        let mut bytes = vec![0; usize::from(length)];
        if length == 0 || length > NAME_BYTES_MAX {
            return None;
        }
        memory(at.wrapping_add(self.text), &mut bytes)?;
        String::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control))
    }
}

/// As people write it: `shop.Till.take`, of `Till.java`.
fn written(class: &str, method: &str, file: &str) -> UserFrame {
    let is_javas = JAVAS_OWN.iter().any(|package| class.starts_with(package));
    let made = MADE.iter().filter_map(|mark| class.find(mark).filter(|at| *at > 0)).min();
    let end = match made {
        Some(at) if class[at..].starts_with(MADE[0]) => at + MADE[0].len(),
        Some(at) => at,
        None => class.len(),
    };
    let class = &class[..end];
    let simple = class.rsplit('/').next().unwrap_or_default();
    let whole = format!("{}.{method}", class.replace('/', "."));
    let is_short = is_javas || whole.chars().count() > LETTERS_MAX;
    let function = if is_short { format!("{simple}.{method}") } else { whole };
    let module = match (is_javas, file) {
        (true, "") => "jdk/".to_string(),
        (true, file) => format!("jdk/{file}"),
        (false, file) => file.to_string(),
    };
    UserFrame { function, module, ..UserFrame::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_written_as_people_write_it() {
        let said = |class: &str, method: &str, file: &str| {
            let UserFrame { function, module, .. } = written(class, method, file);
            format!("{function} {module}")
        };
        assert_eq!(said("Shop", "order", "Shop.java"), "Shop.order Shop.java");
        assert_eq!(
            said("shop/Till$Drawer", "take", "Till.java"),
            "shop.Till$Drawer.take Till.java"
        );
        assert_eq!(
            said("java/util/concurrent/Semaphore", "acquire", "Semaphore.java"),
            "Semaphore.acquire jdk/Semaphore.java"
        );
        assert_eq!(said("shop/Till$$Lambda$14+0x00007f0c", "run", ""), "shop.Till$$Lambda.run ");
        assert_eq!(said("java/lang/invoke/LambdaForm$MH/0x0a", "x", ""), "LambdaForm$MH.x jdk/");
        let long = format!("org/{}/Till", "deep/".repeat(20).trim_end_matches('/'));
        assert_eq!(said(&long, "take", "Till.java"), "Till.take Till.java");
    }
}
