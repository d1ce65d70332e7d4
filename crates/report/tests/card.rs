//! The container's card against the kernel's own files: a group at rest, whose counters both must read alike.
//!
//! Needs root and a memory hierarchy where groups may be made; where there is none it says so and proves nothing. Must not
//! leave a group, a process or a file behind, however it ends.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use holdup_reason::answer::{Card, Report};
use in_time::{ChildInTime, CommandInTime};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Readings before the two are taken to differ: a writer of the host may move the counter between them, and the kernel adds
/// up what its CPUs counted once in two seconds.
const TRIES: usize = 12;
/// What is written, into memory alone: of a file on a disk the kernel takes clean pages back whenever the host wants memory,
/// and the figures agree about whatever is left.
const WRITTEN_BYTES: u64 = 12 << 20;
const IN_MEMORY: &str = "/dev/shm";

/// Groups of one name in each hierarchy, with a process that rests in them.
struct Resting {
    groups: Vec<PathBuf>,
    child: Child,
    file: PathBuf,
}

impl Drop for Resting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_in_time();
        let _ = fs::remove_file(&self.file);
        for group in &self.groups {
            for _ in 0..100 {
                if fs::remove_dir(group).is_ok() || !group.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

/// A shell that reads and writes some, and then sleeps.
fn resting() -> Option<Resting> {
    let name = format!("holdup-card-{}", std::process::id());
    let hierarchies = ["memory", "cpuacct", "pids", "blkio"];
    let v1 = hierarchies.map(|it| Path::new("/sys/fs/cgroup").join(it).join(&name));
    let v2 = vec![Path::new("/sys/fs/cgroup").join(&name)];
    let groups =
        if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { v2 } else { v1.into() };
    let mut made = Vec::new();
    for group in groups {
        if fs::create_dir(&group).is_err() {
            made.iter().for_each(|group| drop(fs::remove_dir(group)));
            return None;
        }
        made.push(group);
    }
    let file = Path::new(IN_MEMORY).join(&name);
    let join: String =
        made.iter().map(|group| format!("echo $$ > {}/cgroup.procs; ", group.display())).collect();
    let work = format!(
        "{join} dd if=/dev/zero of={0} bs=1M count=12; read line; exec sleep 100",
        file.display()
    );
    let child = Command::new("sh")
        .args(["-c", &work])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let mut resting = Resting { groups: made, child, file };
    drop(resting.child.stdin.take());
    let comm = format!("/proc/{}/comm", resting.child.id());
    for _ in 0..500 {
        if fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == "sleep") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Some(resting)
}

fn card(path: &str) -> Option<Card> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    let output =
        command.args(["-c", path, "--for", "300ms", "--json"]).output_in_time().expect("holdup");
    serde_json::from_slice::<Report>(&output.stdout).ok()?.container
}

/// A counter by its file and, in a file of several, its key.
fn counter(resting: &Resting, file: &str, key: &str) -> Option<u64> {
    let text = resting.groups.iter().find_map(|group| fs::read_to_string(group.join(file)).ok())?;
    if key.is_empty() {
        return text.trim().parse().ok();
    }
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// What the card says and what the kernel says, by name.
fn both(card: &Card, resting: &Resting) -> Vec<(&'static str, Option<u64>, Option<u64>)> {
    let memory = &card.memory;
    let of =
        |names: [(&str, &str); 2]| names.iter().find_map(|(file, key)| counter(resting, file, key));
    let microseconds = of([("cpu.stat", "usage_usec"), ("cpu.stat", "usage_usec")]);
    let cpu = counter(resting, "cpuacct.usage", "").or_else(|| microseconds.map(|us| us * 1000));
    vec![
        (
            "memory in use",
            memory.used_bytes,
            of([("memory.usage_in_bytes", ""), ("memory.current", "")]),
        ),
        (
            "page cache",
            memory.cache_bytes,
            of([("memory.stat", "total_cache"), ("memory.stat", "file")]),
        ),
        (
            "anonymous",
            memory.anon_bytes,
            of([("memory.stat", "total_rss"), ("memory.stat", "anon")]),
        ),
        (
            "shared",
            memory.shared_bytes,
            of([("memory.stat", "total_shmem"), ("memory.stat", "shmem")]),
        ),
        ("peak", memory.peak_bytes, of([("memory.max_usage_in_bytes", ""), ("memory.peak", "")])),
        ("CPU time, ns", card.cpu.total_seconds.map(|it| (it * 1e9).round() as u64), cpu),
        ("processes", card.pids, counter(resting, "pids.current", "")),
    ]
}

#[test]
fn figures_of_a_container_at_rest_are_the_kernels() {
    let Some(resting) = resting() else {
        eprintln!("not run: no cgroup can be made here");
        return;
    };
    let group = resting.groups[0].file_name().expect("a name").to_string_lossy().into_owned();
    let mut differ = Vec::new();
    for _ in 0..TRIES {
        let Some(card) = card(&format!("/{group}")) else { continue };
        let seen = both(&card, &resting);
        differ = seen.into_iter().filter(|(_, card, kernel)| card != kernel).collect();
        let written = [
            ("page cache, file", card.memory.cache_bytes),
            ("shared, file", card.memory.shared_bytes),
        ];
        differ.extend(
            written
                .into_iter()
                .filter(|(_, bytes)| bytes.is_none_or(|bytes| bytes < WRITTEN_BYTES))
                .map(|(name, bytes)| (name, bytes, Some(WRITTEN_BYTES))),
        );
        if differ.is_empty() {
            assert_eq!(card.cpu.used_seconds, Some(0.0), "it rests");
            return;
        }
    }
    panic!("card, kernel: {differ:?}");
}
