//! Which functions of a program's files, and of the code that it made at run time, the CPU clock hit: the places that the kernel
//! counted, by name.
//!
//! The clock counts places in files (bpf/sample.bpf.c); names are found once, when the look is over. Of a command nothing is left
//! then, so which files its processes run is written down while they live, of each twice, and a file is opened again only if
//! it is the very same one. Owns a thread that does all that, as files of others may keep whoever reads them waiting, and a
//! limit of its own. Must not: say what a function means (reason's rules), or read stacks (who called is not known).
//!
//! Rejected: names while the look goes on (most of what is hit is hit again), files that are held open (nobody could unmount
//! their file system).

use super::budget::cpu_ns;
use super::elf::{Bytes, Elf};
use super::maps::{self, Mapping};
use super::names;
use super::perf_map;
use holdup_reason::facts::{Body, Fact, Function, Ns, UserFrame};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Files whose functions are named, those with most samples.
const FILES_MAX: usize = 8;
/// With fewer samples a share is a guess.
const SAMPLES_MIN: u64 = 20;
/// Functions of a file that are reported.
const FUNCTIONS_MAX: usize = 64;
/// Processes of a command whose files are written down.
const REMEMBERED_MAX: usize = 32;
/// Ticks after which that is done: once it has begun, and once it has loaded all.
const AFTER_TICKS: [u64; 2] = [1, 6];
/// How long naming may take on the clock.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Where in its code files, or in code that it made at run time, a process was hit: bytes of the file by 16, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The process.
    pub pid: u32,
    /// The file by its inode; 0 of code that was made at run time.
    pub code_ino: u64,
    /// Where in the file, or in memory.
    pub offset: u64,
    /// Samples.
    pub count: u64,
}

/// Of one file of a process, where it was hit.
struct Wanted {
    /// Which of the sums it is about.
    at: usize,
    pid: u32,
    file: String,
    points: Vec<(u64, u64)>,
}

enum Ask {
    Remember(u32),
    Name(Vec<Wanted>, Ns),
}

/// What is kept of a process that may end before the look does.
struct Snapshot {
    files: Vec<Mapping>,
    map: Option<perf_map::Place>,
}

/// What came of naming.
struct Named {
    /// By which of the sums they belong to.
    functions: Vec<(usize, Vec<Function>)>,
    /// Processes whose maps of code that was made at run time are too long to be read.
    too_long: Vec<u32>,
    spent_ns: Ns,
}

/// The functions of a look.
#[derive(Default)]
pub struct Functions {
    /// Of a look at a process, of whose files only.
    process: Option<u32>,
    /// A command's are those of what it starts.
    is_command: bool,
    helper: Option<(Sender<Ask>, Receiver<Named>)>,
    /// Processes that were started, with when they are to be read.
    young: Vec<(u64, u32)>,
    remembered: HashSet<u32>,
}

impl Functions {
    /// For a look at a process, or at a command.
    pub fn of(process: Option<u32>, is_command: bool) -> Self {
        Self { process, is_command, ..Self::default() }
    }

    /// Whether what a process runs is to be named.
    fn concerns(&self, pid: u32) -> bool {
        let is_its = !self.is_command || self.remembered.contains(&pid);
        is_its && self.process.is_none_or(|process| process == pid)
    }

    /// Has it written down which files the processes of a command run.
    pub fn remember(&mut self, facts: &[Fact], tick: u64) {
        for fact in facts.iter().filter(|_| self.is_command) {
            let Body::Exec(exec) = &fact.body else { continue };
            let pid = exec.thread.pid;
            if self.remembered.len() < REMEMBERED_MAX && self.remembered.insert(pid) {
                self.young.extend(AFTER_TICKS.map(|after| (tick + after, pid)));
            }
        }
        let due: Vec<u32> = self.young.iter().filter(|it| it.0 <= tick).map(|it| it.1).collect();
        self.young.retain(|it| it.0 > tick);
        for pid in due {
            self.ask(Ask::Remember(pid));
        }
    }

    fn ask(&mut self, what: Ask) -> Option<()> {
        if self.helper.is_none() {
            self.helper = start();
        }
        self.helper.as_ref()?.0.send(what).ok()
    }

    /// Names the functions of the files with most samples; gives the CPU time that it took, and whose list of functions that
    /// were made at run time is too long.
    pub fn name(
        &mut self,
        points: Vec<(Point, String)>,
        sums: &mut [Body],
        allowed_ns: Ns,
    ) -> (Ns, Vec<u32>) {
        let mut points = points;
        points.retain(|(point, _)| self.concerns(point.pid));
        let wanted = wanted(points, sums);
        if wanted.is_empty() || self.ask(Ask::Name(wanted, allowed_ns)).is_none() {
            return (0, Vec::new());
        }
        let named = self.helper.as_ref().map(|(_, named)| named.recv_timeout(2 * TIMEOUT));
        let Some(Ok(named)) = named else { return (allowed_ns, Vec::new()) };
        for (at, functions) in named.functions {
            if let Body::Work(work) = &mut sums[at] {
                work.functions = functions;
            }
        }
        (named.spent_ns, named.too_long)
    }
}

/// The files with most samples, each with its places.
fn wanted(points: Vec<(Point, String)>, sums: &[Body]) -> Vec<Wanted> {
    let mut by_file: HashMap<(u32, String), Vec<(u64, u64)>> = HashMap::new();
    for (point, file) in points {
        by_file.entry((point.pid, file)).or_default().push((point.offset, point.count));
    }
    let mut of_files: Vec<(u64, usize, u32, &str)> = (sums.iter().enumerate())
        .filter_map(|(at, body)| match body {
            // In a system call it is the kernel's code.
            Body::Work(work) if work.syscall.is_empty() && work.count >= SAMPLES_MIN => {
                Some((work.count, at, work.process.pid, work.code.as_str()))
            }
            _ => None,
        })
        .collect();
    of_files.retain(|(_, _, pid, file)| by_file.contains_key(&(*pid, (*file).to_string())));
    of_files.sort_unstable_by(|a, b| b.cmp(a));
    of_files.truncate(FILES_MAX);
    let of_file = |(_, at, pid, file): (u64, usize, u32, &str)| {
        let file = file.to_string();
        let points = by_file.remove(&(pid, file.clone()))?;
        Some(Wanted { at, pid, file, points })
    };
    of_files.into_iter().filter_map(of_file).collect()
}

fn start() -> Option<(Sender<Ask>, Receiver<Named>)> {
    let (ask, asked) = channel::<Ask>();
    let (answered, answer) = channel();
    let work = move || {
        let mut remembered: HashMap<u32, Snapshot> = HashMap::new();
        for what in asked {
            let named = match what {
                Ask::Remember(pid) => {
                    let snapshot = Snapshot::of(pid);
                    if !snapshot.files.is_empty() {
                        remembered.insert(pid, snapshot);
                    }
                    continue;
                }
                Ask::Name(wanted, allowed_ns) => name_all(wanted, &remembered, allowed_ns),
            };
            if answered.send(named).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name("holdup-functions".into()).spawn(work).ok()?;
    Some((ask, answer))
}

impl Snapshot {
    fn of(pid: u32) -> Self {
        let mut files = maps::executable(pid);
        files.retain(|mapping| mapping.file.1 != 0);
        Self { files, map: perf_map::Place::of(pid) }
    }
}

fn name_all(wanted: Vec<Wanted>, remembered: &HashMap<u32, Snapshot>, allowed_ns: Ns) -> Named {
    let until = Instant::now() + TIMEOUT;
    let has_time = |more_ns: Ns| cpu_ns() + more_ns < allowed_ns && Instant::now() < until;
    let mut named = Named { functions: Vec::new(), too_long: Vec::new(), spent_ns: 0 };
    for wanted in wanted {
        let live = Snapshot::of(wanted.pid);
        let snapshot =
            if live.files.is_empty() { remembered.get(&wanted.pid) } else { Some(&live) };
        let Some(snapshot) = snapshot else { continue };
        let functions = match (wanted.file.as_str(), &snapshot.map) {
            ("", Some(map)) => {
                let addresses: Vec<u64> = wanted.points.iter().map(|(at, _)| *at).collect();
                let found = map.find(&addresses, &|bytes| has_time(bytes * perf_map::BYTE_NS));
                named.too_long.extend(found.is_too_long.then_some(wanted.pid));
                Some(made(found.names, &wanted.points))
            }
            ("", None) => None,
            _ => functions(&wanted, &snapshot.files, &|| has_time(0)),
        };
        named.functions.extend(functions.map(|functions| (wanted.at, functions)));
    }
    Named { spent_ns: cpu_ns(), ..named }
}

/// The functions that were made at run time, by the name of each place that was hit, most first.
fn made(names: Vec<Option<UserFrame>>, points: &[(u64, u64)]) -> Vec<Function> {
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (frame, (_, count)) in names.into_iter().zip(points) {
        if let Some(frame) = frame {
            let place = frame.place();
            *counts.entry((frame.function, place)).or_default() += count;
        }
    }
    sorted(counts.into_iter().map(|((name, place), count)| Function { name, place, count }))
}

fn sorted(all: impl Iterator<Item = Function>) -> Vec<Function> {
    let mut all: Vec<Function> = all.collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    all.truncate(FUNCTIONS_MAX);
    all
}

/// The functions that were hit, most first; none if the file is not there any more, or there is no time.
fn functions(
    wanted: &Wanted,
    files: &[Mapping],
    has_time: &dyn Fn() -> bool,
) -> Option<Vec<Function>> {
    let mapping = files.iter().find(|mapping| *mapping.name == *wanted.file)?;
    let file = open(wanted.pid, mapping)?;
    let mut elf = Elf::read(&file)?;
    // The first table has all that the others have; of one that is stripped only what it exports is left.
    elf.symbols.truncate(1);
    let counted = |(offset, count): &(u64, u64)| Some((elf.address_of(*offset)?, *count));
    counts(&elf, &file, wanted.points.iter().filter_map(counted).collect(), has_time)
}

fn counts(
    elf: &Elf,
    bytes: &dyn Bytes,
    hit: Vec<(u64, u64)>,
    has_time: &dyn Fn() -> bool,
) -> Option<Vec<Function>> {
    let addresses: Vec<u64> = hit.iter().map(|(address, _)| *address).collect();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, (_, count)) in names::of(elf, bytes, &addresses, has_time)?.into_iter().zip(hit) {
        if let Some(name) = name {
            *counts.entry(name).or_default() += count;
        }
    }
    let of = |(name, count)| Function { name, count, ..Function::default() };
    Some(sorted(counts.into_iter().map(of)))
}

/// The file of a mapping: by the process if it lives, else by its path if that still leads to the same file.
fn open(pid: u32, mapping: &Mapping) -> Option<File> {
    let range = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let is_plain = |path: &str| std::fs::metadata(path).is_ok_and(|found| found.is_file());
    if is_plain(&range) {
        return File::open(range).ok();
    }
    let is_same = |path: &str| std::fs::metadata(path).is_ok_and(|it| it.ino() == mapping.file.1);
    let found = is_plain(&mapping.path) && is_same(&mapping.path);
    found.then(|| File::open(&mapping.path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::program;
    use holdup_reason::facts::{ThreadRef, Work};

    #[test]
    fn places_of_one_function_are_one_and_most_come_first() {
        let file = program(&[("spin", 0x2000, 32), ("rest", 0x2020, 16)]);
        let elf = Elf::read(&file).unwrap();
        assert_eq!(elf.address_of(0x1010), Some(0x2010));
        assert_eq!(elf.address_of(0x9_0000), None);
        let hit = vec![(0x2020, 3), (0x2000, 2), (0x2010, 4), (0x2040, 9)];
        let named = counts(&elf, &file, hit.clone(), &|| true).unwrap();
        let wanted = [("spin", 6), ("rest", 3)];
        let wanted = wanted.map(|(name, count)| Function {
            name: name.into(),
            count,
            ..Function::default()
        });
        assert_eq!(named, wanted);
        assert!(counts(&elf, &file, hit, &|| false).is_none(), "no time");
    }

    #[test]
    fn what_was_made_at_run_time_is_named_with_its_place() {
        let frame = |function: &str, module: &str, line| {
            Some(UserFrame { function: function.into(), module: module.into(), line })
        };
        let mix = || frame("mix", "crunch.js", 3);
        let names = vec![mix(), frame("put", "", 0), None, mix()];
        let named = made(names, &[(0x1000, 2), (0x1010, 3), (0x1020, 9), (0x1030, 4)]);
        let named: Vec<_> = named.iter().map(|it| (&*it.name, &*it.place, it.count)).collect();
        assert_eq!(named, [("mix", "crunch.js:3", 6), ("put", "", 3)]);
    }

    #[test]
    fn code_without_a_file_is_read_where_it_was_hit() {
        let process = ThreadRef { pid: 8, ..ThreadRef::default() };
        let of_own = |syscall: &str| {
            let (process, syscall) = (process.clone(), syscall.into());
            Body::Work(Work { process, syscall, count: 50, ..Work::default() })
        };
        let point = Point { pid: 8, code_ino: 0, offset: 0x7f00_0010, count: 40 };
        let wanted = wanted(vec![(point, String::new())], &[of_own("read"), of_own("")]);
        assert_eq!(wanted.len(), 1);
        assert_eq!((wanted[0].at, &*wanted[0].points), (1, &[(0x7f00_0010, 40)][..]));
    }

    #[test]
    fn only_files_with_enough_samples_are_read() {
        let work = |pid, code: &str, count| {
            let process = ThreadRef { pid, ..ThreadRef::default() };
            Body::Work(Work { process, code: code.into(), count, ..Work::default() })
        };
        let sums = [work(7, "app", 19), work(8, "app", 50), work(8, "", 90), work(9, "lib", 60)];
        let point = |pid, offset| Point { pid, code_ino: 1, offset, count: 1 };
        let points = vec![
            (point(7, 16), "app".to_string()),
            (point(8, 16), "app".to_string()),
            (point(8, 32), "app".to_string()),
        ];
        let wanted = wanted(points, &sums);
        assert_eq!(wanted.len(), 1);
        assert_eq!((wanted[0].at, wanted[0].pid, wanted[0].points.len()), (1, 8, 2));
    }

    #[test]
    fn the_functions_of_a_program_that_runs_are_found_by_its_file() {
        let own = std::process::id();
        let mapping =
            maps::executable(own).into_iter().find(|it| it.name.contains("holdup_stacks"));
        let mapping = mapping.unwrap();
        let file = open(own, &mapping).unwrap();
        assert!(Elf::read(&file).is_some());
        let other = Mapping { file: (String::new(), 1), start: 1, end: 2, ..mapping };
        assert!(open(own, &other).is_none(), "another file by that path");
    }
}
