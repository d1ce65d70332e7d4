//! Who has the mutex of Ruby's that a thread waits for, by the list of those who wait: Ruby 3.0 and 3.1.
//!
//! Each waiter has a link of the list on its own stack, and the list begins in the mutex, two words behind the fiber that has it
//! (`rb_mutex_struct`, thread_sync.c, since 3.0). Which fields lie where changes with each release and is written down nowhere in a stripped
//! library, so nothing is believed by its place: a link is one if both neighbours point back at it, the mutex is the one link that is on no stack, and
//! of what the fiber leads to a thread is known by the C library's own block, which points at itself and has its number. Where two
//! threads are found, or none, nobody is named.
//!
//! Owns what is known of a process's lists and fibers while a batch is read: all who wait for one mutex share the list and who has it, and a search
//! is some hundred calls of the kernel. Must not: be believed of another wait than one for a mutex, as queues have such lists too (reason's
//! programs/ruby.rs says which it is). Rejected: offsets by release (two of six are packed in two ways). Since 3.2 the block is one step behind
//! the thread (`rb_native_thread`), where a search over all words would find pointers of the machine's stack by chance, and before 3.0 there is no fiber:
//! other releases are not searched, nor one that no path says (none was there to try it).

use super::maps::Mapping;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

/// Reads memory of the process; none if not all of it is there.
pub(crate) type Memory<'m> = dyn FnMut(u64, &mut [u8]) -> Option<()> + 'm;

/// Links of one list that are looked at.
const WAITERS_MAX: usize = 256;
/// Links on one stack that may be of such a list.
const LINKS_MAX: usize = 8;
/// Pairs of words on one stack that are asked whether they are a link: a mutex is waited for near its end (some thirty were seen).
const PAIRS_MAX: usize = 512;
/// From the begin of a mutex to its list, bytes.
const LIST_AT: u64 = 16;
/// Bytes of a fiber, and of a thread, among which the next is looked for.
const FIBER_BYTES: usize = 512;
const THREAD_BYTES: usize = 1024;
/// The C library's block of a thread: it points at itself twice, and has the thread's number (glibc 2.4 and later, x86-64).
const SELF_AT: u64 = 16;
const TID_AT: u64 = 720;
/// The releases whose fibers lead to the C library's block in two steps.
const RELEASES: RangeInclusive<(u32, u32)> = (3, 0)..=(3, 1);
/// Calls that a stack takes, and a list and a fiber that were not seen before: as measured, of a list of a hundred who wait.
const STACK_CALLS: u64 = 40;
const LIST_CALLS: u64 = 500;
const FIBER_CALLS: u64 = 400;

/// Whether a file may be the language's interpreter.
pub(crate) fn is_of_ruby(module: &str) -> bool {
    module.starts_with("libruby") || module.starts_with("ruby")
}

/// Whether files are of a release whose threads can be found; none if no path of theirs says the release.
pub(crate) fn is_read<'m>(mut files: impl Iterator<Item = &'m Mapping>) -> Option<bool> {
    files.find_map(|it| release(&it.path)).map(|it| RELEASES.contains(&it))
}

/// The release of Ruby that a path says: `libruby-3.1.so.3.1.2`, `libruby.so.3.3.0`, `ruby3.1`, `rubies/ruby-3.1.2/bin/ruby`,
/// `lib/ruby/3.1.0/x86_64-linux/enc/encdb.so`. A number that stands for itself may be that of anything.
fn release(path: &str) -> Option<(u32, u32)> {
    let parts: Vec<&str> = path.split('/').collect();
    let of_part = |at: usize| {
        let (part, before) = (parts[at], at.checked_sub(1).map_or("", |before| parts[before]));
        let is_named = matches!(before, "ruby" | "rubies")
            || matches!(before, "versions" | "gems") && path.contains("ruby");
        let names = ["libruby.so.", "libruby-", "libruby", "ruby-", "ruby"];
        let number = names.iter().find_map(|name| part.strip_prefix(name));
        two_numbers(number.or_else(|| is_named.then_some(part))?)
    };
    (0..parts.len()).rev().find_map(of_part)
}

fn two_numbers(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|it: char| !it.is_ascii_digit());
    let (major, minor) = (numbers.next()?, numbers.next()?);
    let is_dotted = text[major.len()..].starts_with('.');
    is_dotted.then(|| Some((major.parse().ok()?, minor.parse().ok()?))).flatten()
}

/// What was found of one process in a batch. A waiter that stands still is in one list all the time, so what was found for one is true for the others.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// By each link of the lists that were walked: where its list begins; none if that is not certain.
    lists: BTreeMap<u64, Option<u64>>,
    /// By fiber, the thread as /proc has it.
    owners: HashMap<u64, Option<u32>>,
}

/// What a search asks.
pub(crate) struct Ask<'a> {
    pub memory: &'a mut Memory<'a>,
    /// The thread as /proc has it, by its number inside; none if it is none of the process.
    pub outside: &'a mut dyn FnMut(u32) -> Option<u32>,
    /// Whether there is time for so many calls of the kernel.
    pub fits: &'a dyn Fn(u64) -> bool,
}

impl Known {
    /// The thread, as /proc has it, that has the mutex for which whoever has this stack waits.
    pub(crate) fn owner(&mut self, stack: &[u8], begins_at: u64, ask: &mut Ask<'_>) -> Option<u32> {
        if !cfg!(target_arch = "x86_64") || !(ask.fits)(STACK_CALLS) {
            return None;
        }
        let words: Vec<u64> = stack.chunks_exact(8).filter_map(word).collect();
        let own = (begins_at, begins_at + stack.len() as u64);
        let pairs = words.windows(2).enumerate();
        let pairs = pairs.map(|(at, pair)| (begins_at + 8 * at as u64, [pair[0], pair[1]]));
        // A list that passes the same stack twice is none of waiters.
        let is_own = |word: u64| (own.0..own.1).contains(&word);
        let may_be_link =
            |pair: &[u64; 2]| pair.iter().all(|it| may_be_address(*it) && !is_own(*it));
        let pairs = pairs.filter(|(_, pair)| may_be_link(pair)).take(PAIRS_MAX);
        let mut tried = 0;
        for (link, [next, before]) in pairs {
            if !is_link(link, next, before, ask.memory) {
                continue;
            }
            tried += 1;
            if tried > LINKS_MAX {
                return None;
            }
            let Some(list) = self.list(link, own, ask) else { continue };
            // Not remembered: it may be let go and taken while others are looked at.
            let Some(holder) = read(list.wrapping_sub(LIST_AT), ask.memory) else { continue };
            if let Some(tid) = self.thread(holder, ask) {
                return Some(tid);
            }
        }
        None
    }

    /// Where the list of a link begins.
    fn list(&mut self, link: u64, own: (u64, u64), ask: &mut Ask<'_>) -> Option<u64> {
        if !self.lists.contains_key(&link) {
            if !(ask.fits)(LIST_CALLS) {
                return None;
            }
            let (links, begins_at) = list(link, &self.lists, ask.memory)?;
            self.lists.extend(links.into_iter().map(|it| (it, begins_at)));
        }
        let begins_at = (*self.lists.get(&link)?)?;
        let of_list = self.lists.range(own.0..own.1).filter(|it| *it.1 == Some(begins_at));
        (of_list.count() == 1).then_some(begins_at)
    }

    /// The thread that a fiber leads to.
    fn thread(&mut self, fiber: u64, ask: &mut Ask<'_>) -> Option<u32> {
        if let Some(known) = self.owners.get(&fiber) {
            return *known;
        }
        if !may_be_address(fiber) || !(ask.fits)(FIBER_CALLS) {
            return None;
        }
        let found = thread_of(fiber, ask);
        self.owners.insert(fiber, found);
        found
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

fn read(at: u64, memory: &mut Memory<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    memory(at, &mut bytes).map(|()| u64::from_le_bytes(bytes))
}

/// Whether a word may be the address of a structure.
fn may_be_address(word: u64) -> bool {
    word >> 12 != 0 && word >> 47 == 0 && word.is_multiple_of(8)
}

/// Whether two words are a link of a list: both neighbours point back.
fn is_link(link: u64, next: u64, before: u64, memory: &mut Memory<'_>) -> bool {
    next != link
        && before != link
        && read(next.wrapping_add(8), memory) == Some(link)
        && read(before, memory) == Some(link)
}

/// The links from one on, up to the end of its list or to one of a list that is known, and where it begins: the one link in memory that was not taken
/// from a stack. A stack is above the heap that mutexes are in; of two links that may be it, none is.
fn list(
    link: u64,
    known: &BTreeMap<u64, Option<u64>>,
    memory: &mut Memory<'_>,
) -> Option<(HashSet<u64>, Option<u64>)> {
    let mut links = HashSet::from([link]);
    let mut at = read(link, memory)?;
    while at != link {
        if let Some(begins_at) = known.get(&at) {
            return Some((links, *begins_at));
        }
        if links.len() > WAITERS_MAX || !links.insert(at) {
            return Some((links, None));
        }
        at = read(at, memory)?;
    }
    let others = links.iter().filter(|it| **it != link);
    let begins: Vec<u64> = others.copied().filter(|it| !is_waiter(*it, memory)).collect();
    let begins_at = match begins[..] {
        [only] => Some(only),
        _ => None,
    };
    Some((links, begins_at))
}

/// Whether a link is that of a waiter: before it stand the mutex as an object, the thread and the fiber, of which the last two lead to one
/// another; before the list in a mutex stand the fiber that has it and the next mutex of that one, which may be none, and begins with it.
fn is_waiter(link: u64, memory: &mut Memory<'_>) -> bool {
    let before = |words: u64, memory: &mut Memory<'_>| read(link.wrapping_sub(8 * words), memory);
    let (Some(fiber), Some(thread)) = (before(1, memory), before(2, memory)) else { return false };
    if !may_be_address(fiber) || !may_be_address(thread) {
        return false;
    }
    let mut bytes = [0; FIBER_BYTES];
    memory(fiber, &mut bytes).is_some()
        && bytes.chunks_exact(8).skip(1).filter_map(word).any(|it| it == thread)
}

/// The one thread that a fiber, or a thread of the language's, leads to.
fn thread_of(fiber: u64, ask: &mut Ask<'_>) -> Option<u32> {
    let mut bytes = [0; FIBER_BYTES];
    (ask.memory)(fiber, &mut bytes)?;
    let mut of = bytes.chunks_exact(8).filter_map(word).collect::<HashSet<u64>>();
    of.insert(fiber);
    let mut blocks = HashSet::new();
    for thread in of.into_iter().filter(|it| may_be_address(*it)) {
        let mut bytes = [0; THREAD_BYTES];
        if (ask.memory)(thread, &mut bytes).is_some() {
            let words = bytes.chunks_exact(8).filter_map(word);
            blocks.extend(words.filter(|it| may_be_address(*it)));
        }
    }
    let numbers: HashSet<u32> =
        blocks.into_iter().filter_map(|block| number(block, ask.memory)).collect();
    let mut all = numbers.into_iter().filter_map(|it| (ask.outside)(it));
    let only = all.next()?;
    all.next().is_none().then_some(only)
}

/// The number of the thread that a block of the C library is of; none if that has ended.
fn number(block: u64, memory: &mut Memory<'_>) -> Option<u32> {
    let is_block =
        read(block, memory) == Some(block) && read(block + SELF_AT, memory) == Some(block);
    let number = is_block.then(|| read(block + TID_AT, memory)).flatten()?;
    u32::try_from(number & u64::from(u32::MAX)).ok().filter(|number| *number != 0)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const STACK: u64 = 0x7f00_0000_1000;
    const OTHER_STACK: u64 = 0x7f00_0010_1000;
    const MUTEX: u64 = 0x5500_0000_1000;
    const FIBERS: [u64; 3] = [0x5500_0001_0000, 0x5500_0002_0000, 0x5500_0003_0000];
    const THREADS: [u64; 3] = [0x5500_0004_0000, 0x5500_0005_0000, 0x5500_0006_0000];
    const BLOCKS: [u64; 3] = [0x7f00_0020_0000, 0x7f00_0030_0000, 0x7f00_0040_0000];

    /// Thread 11 has the mutex; 12, whose stack is read, and 13 wait for it.
    fn words() -> HashMap<u64, u64> {
        let mut all = HashMap::new();
        for at in 0..3 {
            all.insert(FIBERS[at] + 96, THREADS[at]);
            all.insert(THREADS[at] + 584, BLOCKS[at]);
            all.extend([(BLOCKS[at], BLOCKS[at]), (BLOCKS[at] + SELF_AT, BLOCKS[at])]);
            all.insert(BLOCKS[at] + TID_AT, 11 + at as u64);
        }
        all.insert(MUTEX, FIBERS[0]);
        let links = [MUTEX + LIST_AT, STACK + 32, OTHER_STACK + 32];
        for at in 0..3 {
            all.insert(links[at], links[(at + 1) % 3]);
            all.insert(links[at] + 8, links[(at + 2) % 3]);
        }
        for (link, at) in [(links[1], 1), (links[2], 2)] {
            all.extend([(link - 8, FIBERS[at]), (link - 16, THREADS[at])]);
        }
        all
    }

    /// Of the waiter with this stack, and how many calls that took.
    fn search(known: &mut Known, words: &HashMap<u64, u64>, begins_at: u64) -> (Option<u32>, u64) {
        search_in(known, words, begins_at, &|_| true)
    }

    fn search_in(
        known: &mut Known,
        words: &HashMap<u64, u64>,
        begins_at: u64,
        fits: &dyn Fn(u64) -> bool,
    ) -> (Option<u32>, u64) {
        let mut calls = 0;
        let mut memory = |at: u64, into: &mut [u8]| {
            calls += 1;
            for (n, bytes) in into.chunks_mut(8).enumerate() {
                let word = words.get(&(at + 8 * n as u64)).copied().unwrap_or(0).to_le_bytes();
                bytes.copy_from_slice(&word[..bytes.len()]);
            }
            Some(())
        };
        let mut stack = [0; 128];
        assert!(memory(begins_at, &mut stack).is_some());
        let mut outside = |tid| (11..14).contains(&tid).then_some(tid + 100);
        let mut ask = Ask { memory: &mut memory, outside: &mut outside, fits };
        let owner = known.owner(&stack, begins_at, &mut ask);
        (owner, calls)
    }

    fn found(words: &HashMap<u64, u64>) -> Option<u32> {
        search(&mut Known::default(), words, STACK).0
    }

    #[test]
    fn who_has_a_mutex_is_found_by_the_list_of_those_who_wait() {
        assert_eq!(found(&words()), Some(111), "as /proc has it");
    }

    #[test]
    fn who_has_two_mutexes_is_found_by_either() {
        let mut all = words();
        let next = 0x5500_0007_0000;
        all.extend([(MUTEX + 8, next), (next, FIBERS[0])]);
        assert_eq!(found(&all), Some(111));
    }

    #[test]
    fn nobody_is_named_where_the_list_or_the_thread_is_not_certain() {
        let with = |at: u64, word: u64| {
            let mut all = words();
            all.insert(at, word);
            found(&all)
        };
        assert_eq!(with(OTHER_STACK + 40, 0), None, "a link that does not point back");
        assert_eq!(with(MUTEX, 0), None, "nobody has it");
        assert_eq!(with(BLOCKS[0] + TID_AT, 99), None, "no thread of the process");
        assert_eq!(with(THREADS[0] + 600, BLOCKS[2]), None, "it leads to two threads");
    }

    #[test]
    fn another_who_waits_takes_few_calls_and_finds_who_has_it_by_then() {
        let (mut known, mut all) = (Known::default(), words());
        let (first, second) =
            (search(&mut known, &all, STACK), search(&mut known, &all, OTHER_STACK));
        assert_eq!((first.0, second.0), (Some(111), Some(111)));
        assert!(second.1 < 8 && first.1 > 2 * second.1, "{first:?} {second:?}");
        // It was let go, and the thread of the third has it by now.
        all.insert(MUTEX, FIBERS[2]);
        assert_eq!(search(&mut known, &all, STACK).0, Some(113));
    }

    #[test]
    fn who_waits_for_another_mutex_is_led_to_its_own_owner() {
        let (mut known, mut all) = (Known::default(), words());
        let (mutex, stack) = (0x5500_0000_2000, 0x7f00_0050_1000);
        let (list, link) = (mutex + LIST_AT, stack + 32);
        all.extend([(mutex, FIBERS[1]), (list, link), (list + 8, link)]);
        all.extend([
            (link, list),
            (link + 8, list),
            (link - 8, FIBERS[2]),
            (link - 16, THREADS[2]),
        ]);
        let found = [STACK, stack, OTHER_STACK].map(|at| search(&mut known, &all, at).0);
        assert_eq!(found, [Some(111), Some(112), Some(111)]);
    }

    #[test]
    fn a_search_without_time_is_not_begun_and_not_remembered() {
        let (mut known, all) = (Known::default(), words());
        let no_time = search_in(&mut known, &all, STACK, &|_| false);
        assert_eq!(no_time, (None, 1), "the stack itself");
        let for_lists = search_in(&mut known, &all, STACK, &|calls| calls != FIBER_CALLS);
        assert_eq!(for_lists.0, None);
        assert_eq!(search(&mut known, &all, STACK).0, Some(111));
    }

    #[test]
    fn a_list_that_passes_the_own_stack_twice_is_none_of_waiters() {
        let mut all = words();
        let (other, own) = (OTHER_STACK + 32, STACK + 80);
        for at in [own, own + 8, own - 8, own - 16] {
            all.insert(at, all[&(other + at - own)]);
        }
        all.extend([(MUTEX + LIST_AT + 8, own), (STACK + 32, own)]);
        assert_eq!(found(&all), None);
    }

    #[test]
    fn only_a_release_is_read_whose_threads_have_their_block() {
        let is_read = |path: &str| {
            let of = Mapping {
                path: path.to_string(),
                name: path.rsplit('/').next().unwrap_or_default().into(),
                start: 0,
                end: 0,
                offset: 0,
                file: (String::new(), 0),
            };
            super::is_read([&of].into_iter())
        };
        let read = [
            "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2",
            "/usr/lib64/libruby.so.3.0.4",
            "/usr/bin/ruby3.1",
            "/home/app/.rbenv/versions/3.1.4/lib/ruby/x.so",
            "/opt/rubies/ruby-3.0.6/bin/ruby",
            "/usr/local/lib/ruby/3.1.0/x86_64-linux/enc/encdb.so",
        ];
        assert!(read.iter().all(|path| is_read(path) == Some(true)));
        let later = ["/usr/local/lib/libruby.so.3.3.0", "/usr/lib/libruby-3.2.so.3.2.3"];
        let earlier = ["/usr/lib/libruby-2.7.so.2.7.4", "/usr/local/lib/ruby/2.7.0/etc.so"];
        assert!(later.iter().chain(&earlier).all(|path| is_read(path) == Some(false)));
        let silent = ["/usr/local/bin/ruby", "/srv/3.1/bin/ruby", "/opt/versions/3.1/x.so", ""];
        assert!(silent.iter().all(|path| is_read(path).is_none()));
    }
}
