//! Names of code that is made at run time, where its runtime writes them down for perf: /tmp/perf-PID.map (Node with
//! --perf-basic-prof, Java, Julia, .NET).
//!
//! Owns who is believed: a plain file in the process's own root, of its own user, written since it began (numbers of processes
//! come again, more so in containers); and how such a line is read. The last line that holds an address counts, as code is
//! thrown away and its place used again. A file may be of any length, so it is read in pieces as long as there is time, and not at
//! all above a bound, which is said. Must not: follow a link, or be led out of a container. What a line says is somebody else's
//! text: whoever prints it makes it harmless.
//!
//! Rejected: an index of the file (a look asks for some dozens of addresses, once).

use super::javascript;
use super::process::inner_tid;
use holdup_reason::facts::{Blind, Body, Fact, Ns, UserFrame};
use holdup_system::clock::{Clock, ClockId, clock_ns};
use holdup_system::stat::Stat;
use holdup_system::text;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// A line without an end is none.
const LINE_BYTES_MAX: usize = 4096;
/// Letters of a name.
const NAME_LETTERS_MAX: usize = 400;

/// Where the map of a process is, also once that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pid: u32,
    /// Its number inside its container.
    inner: u32,
    user: u32,
    began: SystemTime,
    /// It has the same root as this program.
    is_here: bool,
}

/// What came of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// In the addresses' order; empty if there is no such file, or no time.
    pub names: Vec<Option<UserFrame>>,
    /// There is one, too long to be read.
    pub is_too_long: bool,
}

/// A search ends in time: what it takes for each byte, nanoseconds.
pub(crate) const BYTE_NS: u64 = if cfg!(debug_assertions) { 30 } else { 2 };

impl Place {
    /// Of a process that lives.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let status = text::read_text(&folder.join("status")).ok()?;
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        let user = ids.split_whitespace().nth(1)?.parse().ok()?;
        let began = began(&Stat::read(&folder.join("stat"))?)?;
        let is_here = root_of(&folder).is_some_and(|it| root_of("/proc/self".as_ref()) == Some(it));
        Some(Self { pid, inner: inner_tid(pid), user, began, is_here })
    }

    /// The names that its map has for addresses, if reading so many bytes fits.
    pub(crate) fn find(&self, addresses: &[u64], fits: &dyn Fn(u64) -> bool) -> Found {
        let Some((file, length)) = self.open() else { return Found::default() };
        if length > FILE_BYTES_MAX {
            return Found { is_too_long: true, ..Found::default() };
        }
        if !fits(length) {
            return Found::default();
        }
        Found { names: search(file.take(FILE_BYTES_MAX), addresses), is_too_long: false }
    }

    /// Opened for reading only once it is known for what it is: to open a device or a pipe may do something.
    fn open(&self) -> Option<(File, u64)> {
        let of_it = File::open(format!("/proc/{}/root", self.pid));
        let root = of_it.or_else(|error| if self.is_here { File::open("/") } else { Err(error) });
        let found = below(&root.ok()?, &format!("tmp/perf-{}.map", self.inner))?;
        let about = found.metadata().ok()?;
        let is_its = about.uid() == self.user && about.modified().ok()? >= self.began;
        if !about.is_file() || !is_its {
            return None;
        }
        let file = File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()?;
        Some((file, about.len()))
    }
}

/// When a process began, by the clock that files are dated by.
fn began(stat: &Stat) -> Option<SystemTime> {
    let since_boot_ns = stat.start_ticks.saturating_mul(Clock::now().tick_ns);
    let age_ns = clock_ns(ClockId::Boottime).saturating_sub(since_boot_ns);
    SystemTime::now().checked_sub(Duration::from_nanos(age_ns))
}

/// Which root a process has, in which view of the mounts.
fn root_of(process: &Path) -> Option<(PathBuf, u64, u64)> {
    let mounts = std::fs::read_link(process.join("ns/mnt")).ok()?;
    let root = std::fs::metadata(process.join("root")).ok()?;
    Some((mounts, root.dev(), root.ino()))
}

/// What a path leads to below a root and nowhere else, not opened; of a link the link itself.
fn below(root: &File, path: &str) -> Option<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = ResolveFlags::NO_MAGICLINKS | ResolveFlags::IN_ROOT;
    openat2(root, path, flags, Mode::empty(), inside).ok().map(File::from)
}

/// The names of addresses: of each the last line that holds it.
fn search(mut file: impl Read, addresses: &[u64]) -> Vec<Option<UserFrame>> {
    const PIECE_BYTES: usize = 64 << 10;
    let mut sorted: Vec<(u64, usize)> = addresses.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let mut names: Vec<Option<UserFrame>> = vec![None; addresses.len()];
    let mut read_line = |line: &[u8]| {
        let Some((start, end, name)) = parts(line) else { return };
        let from = sorted.partition_point(|(address, _)| *address < start);
        for (_, at) in sorted[from..].iter().take_while(|(address, _)| *address < end) {
            names[*at] = frame(name);
        }
    };
    let (mut piece, mut rest) = (vec![0; PIECE_BYTES], Vec::new());
    while let Ok(count @ 1..) = file.read(&mut piece) {
        let mut lines = piece[..count].split(|byte| *byte == b'\n');
        let last = lines.next_back().unwrap_or_default();
        for line in lines {
            if rest.is_empty() {
                read_line(line);
            } else {
                rest.extend_from_slice(line);
                read_line(&rest);
                rest.clear();
            }
        }
        // Cut it cannot be mistaken for a whole line: a place that is not read to its end is left out.
        let room = LINE_BYTES_MAX.saturating_sub(rest.len()).min(last.len());
        rest.extend_from_slice(&last[..room]);
    }
    names
}

/// `START LENGTH NAME`, both numbers in hex.
fn parts(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let word = words.next()?;
        let digits = word.strip_prefix(b"0x").unwrap_or(word);
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (start, length) = (number()?, number()?);
    Some((start, start.checked_add(length)?, words.next()?))
}

/// A name as its runtime wrote it. V8 writes what it is, how far it is optimised, and where it begins:
/// `JS:*readConfig /srv/server.js:12:20`.
fn frame(name: &[u8]) -> Option<UserFrame> {
    const OF_SCRIPTS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
    let text: String =
        String::from_utf8_lossy(name).trim().chars().take(NAME_LETTERS_MAX).collect();
    let of_script = OF_SCRIPTS.iter().find_map(|kind| text.strip_prefix(kind));
    let Some(of_script) = of_script else {
        let function = without_types(&text).to_string();
        let is_somebodys = !function.is_empty() && !is_runtimes(&function);
        return is_somebodys.then(|| UserFrame { function, ..UserFrame::default() });
    };
    let of_script = of_script.trim_start_matches(['*', '~', '^', '+', '\'']);
    let begin = [" /", " file:", " node:"].iter().filter_map(|begin| of_script.find(begin)).min();
    let (function, place) = match begin {
        Some(at) => (&of_script[..at], &of_script[at + 1..]),
        None => of_script.rsplit_once(' ').unwrap_or((of_script, "")),
    };
    // The column is not said.
    let mut numbers = place.rsplitn(3, ':');
    let (_, line, path) = (numbers.next(), numbers.next(), numbers.next());
    let line = line.and_then(|line| line.parse().ok());
    let (path, line) = path.zip(line).unwrap_or((place, 0));
    let function = if function.is_empty() { "<anonymous>" } else { function };
    let module = javascript::file_name(path);
    Some(UserFrame { function: function.into(), module, line })
}

/// Of `long acme.Shop.put(int)` the name, as Java and .NET write it: without what it returns and takes.
fn without_types(text: &str) -> &str {
    let is_of_name =
        |before: &&str| before.ends_with(|c: char| c.is_alphanumeric() || "_>$ ".contains(c));
    let Some((before, _)) = text.split_once('(').filter(|(before, _)| is_of_name(before)) else {
        return text;
    };
    before.trim_end().rsplit(' ').next().unwrap_or(before)
}

/// Whether it says no more than which part of the runtime it is.
fn is_runtimes(function: &str) -> bool {
    const WHOLE: [&str; 3] = ["Interpreter", "StubRoutines", "call_stub"];
    const BEGINS: [&str; 3] = ["Builtin:", "BytecodeHandler:", "Stub:"];
    WHOLE.contains(&function) || BEGINS.iter().any(|begin| function.starts_with(begin))
}

/// Said once for a process.
pub(crate) fn too_long(at_ns: Ns, pid: u32) -> Fact {
    let blind = Blind {
        what: "perf_map".into(),
        why: format!(
            "the list of functions that process {pid} made at run time is longer than 32 MiB"
        ),
        therefore: "these have no names".into(),
        ..Blind::default()
    };
    Fact { at_ns, body: Body::Blind(blind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn frame_of(function: &str, module: &str, line: u32) -> Option<UserFrame> {
        Some(UserFrame { function: function.into(), module: module.into(), line })
    }

    #[test]
    fn names_are_read_as_their_runtimes_write_them() {
        let cases = [
            ("JS:*mix /srv/a b/crunch.js:1:13", frame_of("mix", "crunch.js", 1)),
            ("JS:^ /srv/crunch.js:7:2", frame_of("<anonymous>", "crunch.js", 7)),
            ("LazyCompile:~get size file:///srv/m.mjs:20:1", frame_of("get size", "m.mjs", 20)),
            ("JS:*emit node:events:465:44", frame_of("emit", "node:events", 465)),
            ("JS:*eval", frame_of("eval", "", 0)),
            ("Lcom/acme/Shop;::put", frame_of("Lcom/acme/Shop;::put", "", 0)),
            ("void [app] Shop::Put(int32)[Tier0]", frame_of("Shop::Put", "", 0)),
            ("long acme.Shop.put(int, long)", frame_of("acme.Shop.put", "", 0)),
            ("void acme.Shop.<init>()", frame_of("acme.Shop.<init>", "", 0)),
            ("RegExp:(a b)", frame_of("RegExp:(a b)", "", 0)),
            ("StubRoutines (compiler stubs)", None),
            ("Interpreter", None),
            ("Builtin:ArrayMap", None),
            (" ", None),
        ];
        for (name, wanted) in cases {
            assert_eq!(frame(name.as_bytes()), wanted, "{name}");
        }
    }

    #[test]
    fn the_last_line_that_holds_an_address_names_it() {
        let map = "1000 20 old\n0x1000 0x10 new\nzz 1 x\n1010\n2000 8 \n3000 ffffffffffffffff far\n1018 4 end";
        let names = |file: &[u8]| {
            let found = search(file, &[0x1018, 0x1004, 0x101c, 0x1020, 0x2000, 0x3000]);
            found.into_iter().map(|it| it.map(|it| it.function)).collect::<Vec<_>>()
        };
        let wanted = [Some("end"), Some("new"), Some("old"), None, None, None];
        // The last line has no end: it is written just now.
        let without_end = [Some("old"), Some("new"), Some("old"), None, None, None];
        let owned = |all: [Option<&str>; 6]| all.map(|it| it.map(str::to_string)).to_vec();
        assert_eq!(names(map.as_bytes()), owned(without_end));
        assert_eq!(names(format!("{map}\n").as_bytes()), owned(wanted));
        let long = format!("1000 20 {}\n1000 20 b\n", "a".repeat(200_000));
        assert_eq!(names(long.as_bytes())[1], Some("b".to_string()));
    }

    #[test]
    fn only_a_plain_file_of_that_process_below_its_own_root_is_opened() {
        let folder = std::env::temp_dir().join(format!("holdup-perf-map-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inside/tmp")).unwrap();
        let root = File::open(folder.join("inside")).unwrap();
        std::fs::write(folder.join("outside"), "secret").unwrap();
        std::fs::write(folder.join("inside/tmp/plain"), "plain").unwrap();
        symlink("../../outside", folder.join("inside/tmp/link")).unwrap();
        symlink("/../..", folder.join("inside/up")).unwrap();
        let is_plain =
            |path: &str| below(&root, path).is_some_and(|it| it.metadata().unwrap().is_file());
        assert!(is_plain("tmp/plain"));
        assert!(!is_plain("tmp/link"), "a link");
        assert!(!is_plain("up/outside"), "led out");
        assert!(!is_plain("../outside") && !is_plain("tmp/none"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_process_has_the_map_that_it_wrote_since_it_began() {
        let pid = std::process::id();
        let place = Place::of(pid).unwrap();
        assert!(place.is_here && place.inner == pid);
        assert_eq!(place.find(&[1], &|_| true), Found::default(), "none is there");
        let path = format!("/tmp/perf-{pid}.map");
        std::fs::write(&path, "1000 20 made\n").unwrap();
        let found = |place: &Place, fits: bool| place.find(&[0x1008], &|_| fits).names;
        assert_eq!(found(&place, true), [frame_of("made", "", 0)]);
        assert!(found(&place, false).is_empty(), "no time");
        let gone = Place { pid: u32::MAX, ..place.clone() };
        assert_eq!(found(&gone, true).len(), 1, "where it was, once the process has ended");
        assert!(found(&Place { is_here: false, ..gone }, true).is_empty());
        assert!(found(&Place { user: place.user + 1, ..place.clone() }, true).is_empty());
        let later = SystemTime::now() + Duration::from_secs(60);
        assert!(
            found(&Place { began: later, ..place.clone() }, true).is_empty(),
            "of another process"
        );
        File::options().write(true).open(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(place.find(&[0x1008], &|_| true).is_too_long);
        std::fs::remove_file(path).unwrap();
    }
}
