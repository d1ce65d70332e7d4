//! Reading goroutines, tried on a small process of bytes: a program file and the memory that it runs in are one image.
//!
//! Three goroutines: the main one waits for a connection, number 7 waits for a mutex in `main.(*Shop).Count`, and number 8
//! sleeps in `main.(*Shop).Order` with the mutex's address on its stack. The image has no symbols, as in a stripped program.

use super::elf::Elf;
use super::go_program::{Program, is_go};
use super::go_routines::Routines;
use holdup_reason::facts::Goroutines;

const TABLE: usize = 0x1000;
const FUNCTIONS: usize = 0x400;
const TEXT: usize = 0x4000;
const LIST: usize = 0x5100;
const LOCK: u64 = 0x20_0000;
const DESCRIPTIONS: [usize; 3] = [0x6000, 0x6200, 0x6400];
const NAMES: [&str; 9] = [
    "runtime.forEachGRace",
    "runtime.gopark",
    "internal/sync.runtime_SemacquireMutex",
    "internal/sync.(*Mutex).lockSlow",
    "main.(*Shop).Count",
    "time.Sleep",
    "main.(*Shop).Order",
    "runtime.goexit",
    "main.main",
];

fn put(image: &mut [u8], at: usize, word: u64) {
    image[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn put_half(image: &mut [u8], at: usize, word: usize) {
    image[at..at + 4].copy_from_slice(&(word as u32).to_le_bytes());
}

/// Where the function of this number begins.
fn function(number: usize) -> usize {
    TEXT + number * 0x100
}

fn program() -> Vec<u8> {
    let mut image = vec![0_u8; 0xc000];
    image[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    put(&mut image, 32, 64);
    put(&mut image, 40, 0x800);
    image[54..56].copy_from_slice(&[56, 0]);
    image[56] = 1;
    image[58] = 64;
    image[60] = 3;
    image[62] = 2;
    put_half(&mut image, 64, 1);
    // The table of functions is the first section, the names of sections are the second.
    put_half(&mut image, 0x840, 1);
    put(&mut image, 0x850, TABLE as u64);
    put(&mut image, 0x858, TABLE as u64);
    put(&mut image, 0x898, 0xc00);
    image[0xc01..0xc0b].copy_from_slice(b".gopclntab");
    put_half(&mut image, TABLE, 0xffff_fff1);
    image[TABLE + 7] = 8;
    put(&mut image, TABLE + 8, NAMES.len() as u64);
    put(&mut image, TABLE + 24, TEXT as u64);
    put(&mut image, TABLE + 32, 0x100);
    put(&mut image, TABLE + 40, 0x300);
    put(&mut image, TABLE + 64, FUNCTIONS as u64);
    let mut name_at = 1;
    for (number, name) in NAMES.iter().enumerate() {
        let described = 0x100 + number * 16;
        put_half(&mut image, TABLE + FUNCTIONS + number * 8, number * 0x100);
        put_half(&mut image, TABLE + FUNCTIONS + number * 8 + 4, described);
        put_half(&mut image, TABLE + FUNCTIONS + described, number * 0x100);
        put_half(&mut image, TABLE + FUNCTIONS + described + 4, name_at);
        let text = TABLE + 0x100 + name_at;
        image[text..text + name.len()].copy_from_slice(name.as_bytes());
        name_at += name.len() + 1;
    }
    put_half(&mut image, TABLE + FUNCTIONS + NAMES.len() * 8, NAMES.len() * 0x100);
    // Two loads relative to themselves: of the length at 0x5000 and of the list's address at 0x5008.
    image[TEXT..TEXT + 3].copy_from_slice(&[0x48, 0x8b, 0x0d]);
    put_half(&mut image, TEXT + 3, 0x5000 - (TEXT + 7));
    image[TEXT + 7..TEXT + 10].copy_from_slice(&[0x48, 0x8b, 0x1d]);
    put_half(&mut image, TEXT + 10, 0x5008 - (TEXT + 14));
    image
}

/// A goroutine that waits in `gopark`, which was called through these functions; each has a frame of 64 bytes.
fn goroutine(image: &mut [u8], number: usize, id: u64, callers: &[usize]) {
    let (at, low) = (DESCRIPTIONS[number], 0x7000 + number * 0x1000);
    put(image, LIST + number * 8, at as u64);
    let stack = low + 0x400;
    let fields = [
        (0, low),
        (8, low + 0x800),
        (56, stack),
        (64, function(1) + 8),
        (72, at),
        (96, stack + 16),
    ];
    for (field, word) in fields {
        put(image, at + field, word as u64);
    }
    put_half(image, at + 144, 4);
    put(image, at + 152, id);
    for (depth, caller) in callers.iter().enumerate() {
        let frame = stack + 16 + depth * 64;
        put(image, frame, (frame + 64) as u64);
        put(image, frame + 8, (function(*caller) + 8) as u64);
    }
    let last = stack + 16 + callers.len() * 64;
    put(image, last, 0);
    put(image, last + 8, (function(7) + 1) as u64);
}

fn image() -> Vec<u8> {
    let mut image = program();
    put(&mut image, 0x5000, 3);
    put(&mut image, 0x5008, LIST as u64);
    goroutine(&mut image, 0, 1, &[8]);
    goroutine(&mut image, 1, 7, &[2, 3, 4]);
    goroutine(&mut image, 2, 8, &[5, 6]);
    // The word that is slept on, and the mutex that it is a part of.
    put(&mut image, 0x8408, LOCK + 4);
    put(&mut image, 0x8430, LOCK);
    put(&mut image, 0x9468, LOCK);
    image
}

fn routines(image: &[u8]) -> Option<Routines> {
    let bytes = image.to_vec();
    let elf = Elf::read(&bytes)?;
    let mut memory = reader(image);
    let program = Program::read(&bytes, &elf, 0, &mut memory)?;
    Routines::find(program, "shop", &mut memory)
}

fn reader(image: &[u8]) -> impl FnMut(u64, &mut [u8]) -> Option<()> {
    |at, into| {
        let from = usize::try_from(at).ok()?;
        into.copy_from_slice(image.get(from..from.checked_add(into.len())?)?);
        Some(())
    }
}

fn read(image: &[u8]) -> Option<Goroutines> {
    routines(image)?.read(20, 1000, &mut reader(image))
}

fn names(all: &Goroutines, id: u64) -> Vec<&str> {
    let one = all.standing.iter().find(|one| one.id == id);
    one.map_or(Vec::new(), |one| one.frames.iter().map(|it| it.function.as_str()).collect())
}

#[cfg(target_arch = "x86_64")]
#[test]
fn goroutines_of_a_stripped_program_say_where_they_stand_and_for_which_mutex() {
    let image = image();
    assert!(is_go(&image));
    let all = read(&image).unwrap();
    assert_eq!((all.count, all.read, all.standing.len()), (3, 3, 3));
    let waits = &all.standing[0];
    assert_eq!((waits.id, waits.lock, waits.since_ns, waits.absent_ns), (7, LOCK, 1000, 0));
    assert_eq!(
        names(&all, 7)[1..],
        [
            "internal/sync.runtime_SemacquireMutex",
            "internal/sync.(*Mutex).lockSlow",
            "main.(*Shop).Count",
            "runtime.goexit"
        ]
    );
    let holder = all.standing.iter().find(|one| one.refers == [LOCK]).unwrap();
    assert_eq!((holder.id, names(&all, 8)[1]), (8, "time.Sleep"));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn since_when_one_stands_lasts_as_long_as_its_place() {
    let mut image = image();
    let mut routines = routines(&image).unwrap();
    let mut since = |image: &[u8], at_ns| {
        let all = routines.read(20, at_ns, &mut reader(image)).unwrap();
        let one = all.standing.iter().find(|one| one.id == 7).unwrap();
        (one.since_ns, one.absent_ns)
    };
    assert_eq!(since(&image, 1000), (1000, 0));
    assert_eq!(since(&image, 2000), (1000, 0));
    put(&mut image, 0x8410 + 64 + 8, (function(6) + 8) as u64);
    assert_eq!(since(&image, 3000), (3000, 2000), "it stands elsewhere");
    // A collection has met it there before it was seen.
    put(&mut image, DESCRIPTIONS[1] + 168, 1500);
    assert_eq!(since(&image, 4000), (1500, 2000));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_does_not_prove_itself_is_not_read() {
    let broken = |at: usize, word: u64| {
        let mut image = image();
        put(&mut image, at, word);
        read(&image)
    };
    assert!(broken(TABLE, 0xffff_fffa).is_none(), "another release's table");
    assert!(broken(DESCRIPTIONS[0] + 152, 2).is_none(), "the main goroutine is number 1");
    assert!(broken(DESCRIPTIONS[1] + 152, 1).is_none(), "a number twice");
    assert!(broken(DESCRIPTIONS[1] + 72, 0x6000).is_none(), "one that is another by its own word");
    assert!(broken(0x5000, 1 << 40).is_none(), "a list that is too long");
    assert!(broken(TEXT, 0).is_none(), "code that loads nothing");
    let all = broken(0x8408, LOCK + 5).unwrap();
    assert!(all.standing.iter().all(|one| one.lock == 0), "a word that belongs to no mutex");
    let all = broken(0x8410, 0x8410).unwrap();
    assert!(
        names(&all, 7).is_empty(),
        "a frame that leads to itself leads to no function of the program"
    );
}

/// Whatever stands there, nothing is read out of bounds and nothing goes on for ever.
#[test]
fn any_bytes_may_come_in() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..3000 {
        let mut image = image();
        for _ in 0..1 + next() % 6 {
            let at = (next() % (image.len() as u64 - 8)) as usize;
            // Mostly what is read: headers, tables, descriptions.
            let at = if next() % 4 == 0 { at } else { at % 0x6800 };
            let word = match next() % 3 {
                0 => next(),
                1 => next() % 0x1_0000,
                _ => u64::MAX,
            };
            put(&mut image, at, word);
        }
        let Some(mut routines) = routines(&image) else { continue };
        let all = routines.read(20, 1000, &mut reader(&image));
        assert!(all.is_none_or(|all| all.standing.len() <= 32));
    }
}
