//! A block of facts as bytes: columns of variable-length numbers, and names that are stored once.
//!
//! A block is: number of facts, number of columns, then each column's length and bytes. Numbers are LEB128; a
//! difference is zigzag. Threads, objects and templates are JSON, stored by the first block that names them and
//! meant by number from then on, so that fields may be added to them as to any fact. Both sides forget everything
//! at the begin of a block once they hold too much, which bounds the memory of either.
//!
//! Any bytes may come in: what a block claims is checked before it is used, and what it unpacks to is bounded.
//! Rejected: a crate for rows (postcard and its like cannot read what is tagged inside, and rows compress half as
//! well); Arrow or Parquet (megabytes of code for the rows of ten kinds of facts).
//!
//! Edit together: parts.rs (what goes to which column).

use super::parts::{COLUMNS, Column, Exchange, Key, Memory, subject};
use holdup_reason::facts::{Body, Fact, ObjectRef, ThreadRef};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::hash::Hash;
use std::mem::{Discriminant, discriminant};

/// Facts of one block.
pub(super) const ROWS_MAX: usize = 16_384;
/// Bytes of names and of facts in JSON after which the writer ends a block.
const TEXT_BYTES: usize = 4 << 20;
/// What a block's facts may come to, as the JSON that they stand for: sixteen times what a writer puts there.
const UNPACKED_BYTES_MAX: usize = 16 * ROWS_MAX * 1024;
/// Names of one kind that are remembered.
const NAMES_MAX: usize = 1 << 16;

/// Guesses that are remembered.
const GUESSES_MAX: usize = 1 << 18;

/// What is wrong with a block.
pub(super) type Damage = String;

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn get(bytes: &mut &[u8]) -> Result<u64, Damage> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or("a column ends early")?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number does not end".into())
}

fn zigzag(difference: u64) -> u64 {
    let signed = difference.cast_signed();
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Facts to blocks.
#[derive(Default)]
pub(super) struct Packer {
    memory: Memory,
    out: Out,
    templates: HashMap<Vec<u8>, u32>,
    /// The templates by number, each as a fact, and the length of its text; and the last of each kind.
    bare: Vec<Fact>,
    template_bytes: Vec<usize>,
    recent: HashMap<Discriminant<Body>, u32>,
    /// What taking a fact apart for its template remembers: nothing that matters.
    blank: Memory,
    text: Vec<u8>,
    unpacked_bytes: usize,
}

/// The block that is being made, and the names that were stored.
struct Out {
    columns: [Vec<u8>; COLUMNS],
    threads: HashMap<ThreadRef, u32>,
    objects: HashMap<ObjectRef, u32>,
    rows: usize,
}

impl Default for Out {
    fn default() -> Self {
        Self {
            columns: [const { Vec::new() }; COLUMNS],
            threads: HashMap::new(),
            objects: HashMap::new(),
            rows: 0,
        }
    }
}

impl Packer {
    /// Adds a fact; `true` once the block is to be ended.
    pub(super) fn add(&mut self, fact: &Fact) -> Result<bool, Damage> {
        if self.out.rows == 0 && self.remembers_too_much() {
            *self = Self::default();
        }
        let mut fact = fact.clone();
        let guess = self.memory.thread();
        match subject(&mut fact.body) {
            Some(who) => {
                let who = std::mem::take(who);
                let thread = self.out.thread_number(who)?;
                let code = if guess == Some(thread) { 1 } else { u64::from(thread) + 2 };
                put(self.out.column(Column::Thread), code);
                self.add_parts(fact, thread)?;
            }
            None => {
                put(self.out.column(Column::Thread), 0);
                write_line(&fact, self.out.column(Column::Facts))?;
            }
        }
        self.out.rows += 1;
        let text = [Column::Facts, Column::Threads, Column::Objects, Column::Templates];
        let text_bytes: usize = text.iter().map(|at| self.out.columns[*at as usize].len()).sum();
        let is_full = self.unpacked_bytes >= UNPACKED_BYTES_MAX / 16;
        Ok(self.out.rows >= ROWS_MAX || text_bytes >= TEXT_BYTES || is_full)
    }

    /// The template is what is left of a fact without its parts, so that it is taken apart twice: what the parts
    /// are expected to be hangs on the template.
    fn add_parts(&mut self, mut fact: Fact, thread: u32) -> Result<(), Damage> {
        let mut bare = fact.clone();
        let Ok(()) = self.blank.pass(&mut bare, Key { thread: 0, template: 0 }, &mut Blank);
        let guess = self.memory.template(thread);
        let kind = discriminant(&bare.body);
        let recent = self.recent.get(&kind).copied();
        let is_it = |known: &u32| self.bare.get(*known as usize) == Some(&bare);
        // To compare two facts takes a fraction of writing one as text.
        let template = match guess.into_iter().chain(recent).find(is_it) {
            Some(known) => known,
            None => self.template_of(bare)?,
        };
        self.recent.insert(kind, template);
        self.unpacked_bytes += self.template_bytes[template as usize];
        put(self.out.column(Column::Template), code(guess, template));
        self.memory.remember(thread, template);
        self.memory.pass(&mut fact, Key { thread, template }, &mut self.out)
    }

    /// The number of a template by its text, which is stored if it has none yet.
    fn template_of(&mut self, bare: Fact) -> Result<u32, Damage> {
        self.text.clear();
        // As a fact: text of bodies by themselves would be a second reader and writer of every kind.
        write_line(&bare, &mut self.text)?;
        if let Some(known) = self.templates.get(&self.text) {
            return Ok(*known);
        }
        let fresh = self.templates.len() as u32;
        self.out.column(Column::Templates).extend_from_slice(&self.text);
        self.templates.insert(self.text.clone(), fresh);
        self.bare.push(bare);
        self.template_bytes.push(self.text.len());
        Ok(fresh)
    }

    fn remembers_too_much(&self) -> bool {
        let names = [self.templates.len(), self.out.threads.len(), self.out.objects.len()];
        are_too_many(names, &self.memory)
    }

    /// The facts that were added since the last block, as bytes; none if there are none.
    pub(super) fn block(&mut self) -> Option<Vec<u8>> {
        if self.out.rows == 0 {
            return None;
        }
        self.unpacked_bytes = 0;
        let mut bytes = Vec::new();
        put(&mut bytes, std::mem::take(&mut self.out.rows) as u64);
        put(&mut bytes, COLUMNS as u64);
        for column in &mut self.out.columns {
            put(&mut bytes, column.len() as u64);
            bytes.append(column);
        }
        Some(bytes)
    }
}

impl Out {
    fn column(&mut self, column: Column) -> &mut Vec<u8> {
        &mut self.columns[column as usize]
    }

    /// The number of a thread, which is stored if it has none yet.
    fn thread_number(&mut self, who: ThreadRef) -> Result<u32, Damage> {
        number_of(&mut self.threads, who, &mut self.columns[Column::Threads as usize])
    }
}

/// Both sides ask this at the begin of a block, of the same numbers.
fn are_too_many(names: [usize; 3], memory: &Memory) -> bool {
    names.iter().any(|names| *names > NAMES_MAX) || memory.entries() > GUESSES_MAX
}

fn number_of<T: Hash + Eq + serde::Serialize>(
    known: &mut HashMap<T, u32>,
    it: T,
    stored: &mut Vec<u8>,
) -> Result<u32, Damage> {
    let fresh = known.len() as u32;
    if let Some(number) = known.get(&it) {
        return Ok(*number);
    }
    write_line(&it, stored)?;
    known.insert(it, fresh);
    Ok(fresh)
}

fn write_line(it: &impl serde::Serialize, to: &mut Vec<u8>) -> Result<(), Damage> {
    serde_json::to_writer(&mut *to, it).map_err(|error| error.to_string())?;
    to.push(b'\n');
    Ok(())
}

/// 0 for what was expected, else the number and 1.
fn code(guess: Option<u32>, number: u32) -> u64 {
    if guess == Some(number) { 0 } else { u64::from(number) + 1 }
}

impl Exchange for Out {
    type Fault = Damage;

    fn number(&mut self, column: Column, guess: u64, it: &mut u64) -> Result<u64, Damage> {
        let value = std::mem::take(it);
        put(self.column(column), zigzag(value.wrapping_sub(guess)));
        Ok(value)
    }

    fn thread(
        &mut self,
        column: Column,
        guess: Option<u32>,
        it: &mut ThreadRef,
    ) -> Result<u32, Damage> {
        let number = self.thread_number(std::mem::take(it))?;
        put(self.column(column), code(guess, number));
        Ok(number)
    }

    fn object(&mut self, guess: Option<u32>, it: &mut ObjectRef) -> Result<u32, Damage> {
        let object = std::mem::replace(it, NOTHING);
        let stored = &mut self.columns[Column::Objects as usize];
        let number = number_of(&mut self.objects, object, stored)?;
        put(self.column(Column::Object), code(guess, number));
        Ok(number)
    }
}

/// Stands in a template for an object.
const NOTHING: ObjectRef = ObjectRef::Pipe { ino: 0 };

/// Takes parts away and keeps nothing.
struct Blank;

impl Exchange for Blank {
    type Fault = std::convert::Infallible;

    fn number(&mut self, _: Column, _: u64, it: &mut u64) -> Result<u64, Self::Fault> {
        *it = 0;
        Ok(0)
    }

    fn thread(
        &mut self,
        _: Column,
        _: Option<u32>,
        it: &mut ThreadRef,
    ) -> Result<u32, Self::Fault> {
        *it = ThreadRef::default();
        Ok(0)
    }

    fn object(&mut self, _: Option<u32>, it: &mut ObjectRef) -> Result<u32, Self::Fault> {
        *it = NOTHING;
        Ok(0)
    }
}

/// Blocks to facts.
#[derive(Default)]
pub(super) struct Unpacker {
    memory: Memory,
    templates: Vec<Named<Fact>>,
    threads: Vec<Named<ThreadRef>>,
    objects: Vec<Named<ObjectRef>>,
}

/// A name, and the bytes that it stands for.
struct Named<T> {
    it: T,
    bytes: usize,
}

impl Unpacker {
    /// Reads a block.
    pub(super) fn unpack(&mut self, block: &[u8], facts: &mut Vec<Fact>) -> Result<(), Damage> {
        if self.remembers_too_much() {
            *self = Self::default();
        }
        let mut bytes = block;
        let rows = get(&mut bytes)?;
        let mut columns = [&[][..]; COLUMNS];
        for at in 0..get(&mut bytes)? {
            let length = usize::try_from(get(&mut bytes)?).unwrap_or(usize::MAX);
            let (column, rest) = bytes.split_at_checked(length).ok_or("a column is too long")?;
            bytes = rest;
            // Columns that a later version added belong to what this one cannot know.
            if let Some(known) = usize::try_from(at).ok().and_then(|at| columns.get_mut(at)) {
                *known = column;
            }
        }
        if rows > ROWS_MAX as u64 {
            return Err(format!("{rows} facts are more than a block has"));
        }
        names(columns[Column::Threads as usize], &mut self.threads)?;
        names(columns[Column::Objects as usize], &mut self.objects)?;
        names(columns[Column::Templates as usize], &mut self.templates)?;
        let plain = columns[Column::Facts as usize].split_inclusive(|byte| *byte == b'\n');
        let (mut plain, mut unpacked) = (plain, 0);
        for _ in 0..rows {
            let guess = self.memory.thread();
            let thread = match get(&mut columns[Column::Thread as usize])? {
                0 => {
                    let line = plain.next().ok_or("a fact is missing")?;
                    facts.push(read_line(line)?);
                    continue;
                }
                1 => guess.ok_or("a thread was not expected")?,
                number => u32::try_from(number - 2).map_err(|_| "there is no such thread")?,
            };
            let mut from = In {
                columns: &mut columns,
                threads: &self.threads,
                objects: &self.objects,
                unpacked,
            };
            facts.push(row(&mut self.memory, &self.templates, thread, &mut from)?);
            unpacked = from.unpacked;
        }
        Ok(())
    }

    fn remembers_too_much(&self) -> bool {
        let names = [self.templates.len(), self.threads.len(), self.objects.len()];
        are_too_many(names, &self.memory)
    }
}

/// One fact that was taken apart.
fn row(
    memory: &mut Memory,
    templates: &[Named<Fact>],
    thread: u32,
    from: &mut In<'_, '_>,
) -> Result<Fact, Damage> {
    let guess = memory.template(thread);
    let template = from.coded(Column::Template, guess)?;
    let mut fact = from.named(templates, template)?.clone();
    let who = from.named(from.threads, thread)?.clone();
    *subject(&mut fact.body).ok_or("a template is of no kind that is taken apart")? = who;
    memory.remember(thread, template);
    memory.pass(&mut fact, Key { thread, template }, from)?;
    Ok(fact)
}

fn names<T: DeserializeOwned>(text: &[u8], to: &mut Vec<Named<T>>) -> Result<(), Damage> {
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        to.push(Named { it: read_line(line)?, bytes: line.len() });
    }
    Ok(())
}

fn read_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, Damage> {
    serde_json::from_slice(line).map_err(|error| format!("it is not a fact: {error}"))
}

/// The block that is being read.
struct In<'a, 'b> {
    columns: &'a mut [&'b [u8]; COLUMNS],
    threads: &'a [Named<ThreadRef>],
    objects: &'a [Named<ObjectRef>],
    unpacked: usize,
}

impl In<'_, '_> {
    fn coded(&mut self, column: Column, guess: Option<u32>) -> Result<u32, Damage> {
        match get(&mut self.columns[column as usize])? {
            0 => guess.ok_or_else(|| "a name was not expected".into()),
            code => u32::try_from(code - 1).map_err(|_| "there is no such name".into()),
        }
    }

    /// What a number names; the bytes of all that was named in a block have a limit.
    fn named<'n, T>(&mut self, names: &'n [Named<T>], number: u32) -> Result<&'n T, Damage> {
        let found = names.get(number as usize).ok_or("there is no such name")?;
        self.unpacked += found.bytes;
        if self.unpacked > UNPACKED_BYTES_MAX {
            return Err(format!("it unpacks to more than {UNPACKED_BYTES_MAX} bytes"));
        }
        Ok(&found.it)
    }
}

impl Exchange for In<'_, '_> {
    type Fault = Damage;

    fn number(&mut self, column: Column, guess: u64, it: &mut u64) -> Result<u64, Damage> {
        *it = guess.wrapping_add(unzigzag(get(&mut self.columns[column as usize])?));
        Ok(*it)
    }

    fn thread(
        &mut self,
        column: Column,
        guess: Option<u32>,
        it: &mut ThreadRef,
    ) -> Result<u32, Damage> {
        let number = self.coded(column, guess)?;
        *it = self.named(self.threads, number)?.clone();
        Ok(number)
    }

    fn object(&mut self, guess: Option<u32>, it: &mut ObjectRef) -> Result<u32, Damage> {
        let number = self.coded(Column::Object, guess)?;
        *it = self.named(self.objects, number)?.clone();
        Ok(number)
    }
}
