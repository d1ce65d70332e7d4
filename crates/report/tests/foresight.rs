//! `holdup watch` says when something will be used up, and it is then: a small tmpfs that a program fills, and a program that leaks descriptors,
//! each at a rate that it holds by the clock; and beside them what only comes and goes, or fills and stays, of which nothing is said.
//!
//! As root (a file system is mounted, and taken away again). The moment of the end is the programs' own word.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod in_time;

use in_time::{ChildInTime, CommandInTime};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A loaded host takes its time.
const PATIENCE: Duration = Duration::from_secs(150);

/// Fills a folder by 2 MiB a second, and says when it could not.
const FILLS: &str = "
import sys, time
begin, written = time.time(), 0
with open(sys.argv[1] + '/grows', 'wb', buffering=0) as file:
    while True:
        due = int((time.time() - begin) * 32)
        try:
            while written < due:
                file.write(b'x' * 65536)
                written += 1
        except OSError:
            print(time.time(), flush=True)
            time.sleep(1000)
        time.sleep(0.02)
";

/// Opens 6 descriptors a second and closes none, and says when it could not.
const LEAKS: &str = "
import os, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))
begin, opened = time.time(), 0
while True:
    due = int((time.time() - begin) * 6)
    try:
        while opened < due:
            os.open('/dev/null', os.O_RDONLY)
            opened += 1
    except OSError:
        print(time.time(), flush=True)
        time.sleep(1000)
    time.sleep(0.02)
";

/// Writes a tenth of a file system and removes it, again and again; opens descriptors and closes them; fills half of another and stays.
const COMES_AND_GOES: &str = "
import os, sys, time
with open(sys.argv[2] + '/stays', 'wb', buffering=0) as file:
    for at in range(32):
        file.write(b'x' * 1048576)
        time.sleep(0.02)
opened = []
while True:
    with open(sys.argv[1] + '/rotates', 'wb', buffering=0) as file:
        for at in range(64):
            file.write(b'x' * 102400)
            if at % 2:
                opened.append(os.open('/dev/null', os.O_RDONLY))
            time.sleep(0.1)
    for fd in opened:
        os.close(fd)
    opened = []
";

struct Running(Child);

impl Running {
    fn python(script: &str, arguments: &[&Path], says: &Path) -> Self {
        let mut command = Command::new("python3");
        command.arg("-c").arg(script).args(arguments).stdin(Stdio::null());
        Self(command.stdout(std::fs::File::create(says).unwrap()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time();
    }
}

/// A small file system in memory.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: PathBuf) -> Self {
        std::fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(&path);
        assert!(mount.status_in_time().unwrap().success());
        Self(path)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status_in_time();
    }
}

/// What was said of what will be used up.
fn trends(state: &Path) -> Vec<Value> {
    let files = std::fs::read_dir(state).into_iter().flatten().flatten().map(|file| file.path());
    let days = files.filter(|path| path.extension().is_some_and(|it| it == "jsonl"));
    let text: String = days.map(|day| std::fs::read_to_string(day).unwrap()).collect();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["finding"]["code"].as_str().is_some_and(|it| it.ends_with("_trend")))
        .collect()
}

fn evidence(line: &Value, fact: &str) -> f64 {
    let all = line["finding"]["evidence"].as_array().unwrap();
    all.iter().find(|it| it["fact"] == fact).unwrap()["value"].as_f64().unwrap()
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_will_be_used_up_is_said_with_its_time_and_what_comes_and_goes_is_not() {
    let asked = Command::new("id").arg("-u").output_in_time();
    if !asked.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (state, config) = (folder.join("state"), folder.join("holdup.toml"));
    // A build without optimisations takes more than is allowed.
    std::fs::write(&config, "budget_percent = 90.0\n").unwrap();
    let said = std::fs::File::create(folder.join("said")).unwrap();
    let mut watch = Command::new(env!("CARGO_BIN_EXE_holdup"));
    watch.args(["watch", "--window", "1s", "--state"]).arg(&state).arg("--config").arg(&config);
    let _watch = Running(watch.stdin(Stdio::null()).stdout(said).spawn().unwrap());
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    until("it watches", || text("said").contains("watching:").then_some(()));
    let [fills, rotates, stays] =
        ["fills", "rotates", "stays"].map(|name| Mounted::at(folder.join(name)));
    let _filler = Running::python(FILLS, &[&fills.0], &folder.join("full"));
    let _leaker = Running::python(LEAKS, &[], &folder.join("none left"));
    let healthy = Running::python(COMES_AND_GOES, &[&rotates.0, &stays.0], &folder.join("healthy"));
    let full: f64 = until("it is full", || text("full").trim().parse().ok());
    let none_left: f64 =
        until("it has no descriptor left", || text("none left").trim().parse().ok());
    let all = trends(&state);
    let began = |code: &str| {
        let is_it = |line: &&Value| line["event"] == "began" && line["finding"]["code"] == code;
        let found: Vec<&Value> = all.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "once: {code} in {}", text("said"));
        found[0]
    };
    for (code, name, over) in
        [("fs.space_trend", "fills", full), ("process.descriptor_trend", "python3", none_left)]
    {
        let line = began(code);
        let title = line["finding"]["title"].as_str().unwrap();
        assert!(title.contains(name), "{title}");
        assert_eq!(line["finding"]["culprit"]["name"], "python3", "{line}");
        let left = over - line["at_unix_ns"].as_f64().unwrap() / 1e9;
        let earliest = evidence(line, "time left at the earliest");
        let latest = evidence(line, "time left at the latest");
        assert!(earliest <= left && left <= latest, "{title}: it was {left} s");
    }
    // Others of this host may have trends of their own.
    for name in ["rotates", "stays"] {
        let of_it =
            |line: &&Value| line["finding"]["object"]["name"].as_str().unwrap().ends_with(name);
        assert_eq!(all.iter().find(of_it), None);
    }
    let healthy = healthy.0.id();
    let of_it = |line: &&Value| {
        line["finding"]["culprit"]["pid"] == healthy
            && line["finding"]["code"] == "process.descriptor_trend"
    };
    assert_eq!(all.iter().find(of_it), None);
}
