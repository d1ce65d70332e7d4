//! A lab that is killed with SIGKILL in the middle of a scenario leaves nothing once `clean` has run.
//!
//! Needs root and the host's one lab; without either it says so and tries nothing. What the run made is what
//! is there in the middle of it and was not before: cgroups, mounts, loop devices, network namespaces,
//! processes of the lab's own programs. All of it must be gone, and kernel settings must read as before.
//! Each scenario must really have made its kind of thing, or the test would prove nothing.

#![allow(clippy::unwrap_used, reason = "helpers of a test, outside of it")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LAB: &str = env!("CARGO_BIN_EXE_holdup-lab");
const DIR: &str = "/run/holdup-lab";

fn names(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// What a lab can leave, one line each.
fn host() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    // Others may use the lab's journal for their own mounts meanwhile: a benchmark does.
    // ip mounts /run/netns on itself when it is first used on a machine, and keeps it so.
    let of_lab = places.filter(|place| place.starts_with(DIR) || place.starts_with("/run/netns/"));
    found.extend(of_lab.map(|place| format!("mount {place}")));
    for block in names("/sys/block") {
        if let Ok(file) = fs::read_to_string(format!("/sys/block/{block}/loop/backing_file")) {
            found.insert(format!("loop {}", file.trim()));
        }
    }
    found.extend(names("/run/netns").into_iter().map(|name| format!("netns {name}")));
    for controller in names("/sys/fs/cgroup") {
        let root = format!("/sys/fs/cgroup/{controller}");
        let groups = names(&root).into_iter().filter(|name| Path::new(&root).join(name).is_dir());
        found.extend(groups.map(|name| format!("cgroup {controller}/{name}")));
    }
    for pid in names("/proc").iter().filter(|name| name.parse::<u32>().is_ok()) {
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        // Below another root, if the process has a mount namespace of its own and this test runs in a chroot.
        if program.to_string_lossy().contains(DIR) {
            found.insert(format!("process {pid}"));
        }
    }
    found
}

fn settings() -> Vec<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap_or_default();
    ["dirty_bytes", "dirty_background_bytes", "dirty_ratio", "dirty_background_ratio"]
        .map(read)
        .into()
}

/// The journal of a running lab.
fn journal(lab: &Child) -> String {
    let of_lab = format!("journal-{}-", lab.id());
    let name = names(DIR).into_iter().find(|name| name.starts_with(&of_lab));
    name.map(|name| fs::read_to_string(format!("{DIR}/{name}")).unwrap_or_default())
        .unwrap_or_default()
}

/// Kills a lab while the fault of a scenario stands (its journal then has `marks`), cleans, and
/// gives what was made, and what of it is left.
fn kill_in_the_middle(scenario: &str, marks: &[&str]) -> (BTreeSet<String>, BTreeSet<String>) {
    let before = host();
    let mut lab = Command::new(LAB)
        .args(["run", "--inject-only", "--no-twins", "--seed", "5", "--scenario", scenario])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(40);
    loop {
        let written = journal(&lab);
        if marks.iter().all(|mark| written.contains(mark)) {
            break;
        }
        let ended = lab.try_wait().unwrap();
        assert!(ended.is_none() && Instant::now() < until, "{scenario}: {ended:?}: {written}");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(700));
    let made: BTreeSet<String> = host().difference(&before).cloned().collect();
    let own = lab.id().to_string();
    assert!(names(DIR).contains(&own), "{scenario} made no directory of its own");
    lab.kill().unwrap();
    lab.wait().unwrap();
    let cleaned = Command::new(LAB).arg("clean").output().unwrap();
    assert!(cleaned.status.success(), "{scenario}: {cleaned:?}");
    // Processes die with the lab a moment later; a lazy unmount takes one as well.
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let mut left: BTreeSet<String> = made.intersection(&host()).cloned().collect();
        let file = |name: &String| *name == own || name.starts_with(&format!("journal-{own}-"));
        left.extend(names(DIR).into_iter().filter(file));
        if left.is_empty() || Instant::now() > until {
            return (made, left);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_killed_lab_leaves_nothing_after_clean() {
    let root = fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    if !root {
        eprintln!("NOT tried: injecting faults needs root");
        return;
    }
    fs::create_dir_all(DIR).unwrap();
    let lock = fs::File::create(format!("{DIR}/lock")).unwrap();
    if lock.try_lock().is_err() {
        eprintln!("NOT tried: another lab runs on this host");
        return;
    }
    drop(lock);
    let settings_before = settings();
    // Scenario, what its journal has once the fault stands, what it must have made.
    let trials: [(&str, &[&str], &[&str]); 4] = [
        ("fs-frozen", &["\"thaw\""], &["mount ", "loop ", "process "]),
        ("net-local-queue", &["\"netns\"", "\"number\":7"], &["netns ", "process "]),
        ("cpu-quota", &["cpu.cfs_quota_us"], &["cgroup ", "process "]),
        ("memory-dirty-throttle", &["dirty_ratio"], &["mount ", "loop ", "process "]),
    ];
    for (scenario, marks, kinds) in trials {
        let (made, left) = kill_in_the_middle(scenario, marks);
        for kind in kinds {
            assert!(
                made.iter().any(|one| one.starts_with(kind)),
                "{scenario} made no {kind}: {made:?}"
            );
        }
        assert!(left.is_empty(), "{scenario} left {left:?} of {made:?}");
        assert_eq!(settings(), settings_before, "{scenario}");
    }
}
