//! `holdup watch` by its binary: says a fault once, across a kill, keeps recordings that replay to the same answer, and ends on a signal.
//!
//! A fault of its own (a file lock). As root by kernel events; otherwise only what needs none is asked.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod in_time;

use in_time::{ChildInTime, CommandInTime};
use serde_json::Value;
use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A loaded host takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// The file whose lock is held.
const LOCK: &str = "lock.of.this.test";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time();
    }
}

impl Running {
    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status_in_time().unwrap().success());
    }

    fn end(&mut self) -> Option<i32> {
        until("it ends", || self.0.try_wait().unwrap().is_some());
        self.0.wait_in_time().unwrap().code()
    }
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(is_within(PATIENCE, is_so), "{what}");
}

fn is_within(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begin.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Until somebody who watches has said a line that begins so and is about the lock.
fn until_said(folder: &Path, name: &str, word: &str) {
    let is_said = || {
        let said = said(folder, name);
        said.lines().any(|it| it.starts_with(word) && it.contains(LOCK))
    };
    assert!(is_within(PATIENCE, is_said), "{word} of {LOCK} in {}", said(folder, name));
}

fn until_written(folder: &Path, state: &Path) {
    let is_written = || lines(state).iter().any(is_ours);
    assert!(is_within(PATIENCE, is_written), "no line of it; said: {}", said(folder, "first"));
}

fn holdup() -> Command {
    Command::new(env!("CARGO_BIN_EXE_holdup"))
}

fn watch(folder: &Path, said: &str, notify: &Path) -> Running {
    let file = File::create(folder.join(said)).unwrap();
    let (state, config) = (folder.join("state"), folder.join("holdup.toml"));
    let at = |name: &str| folder.join(name).display().to_string();
    let (log, figures, hooked) = (at("log"), at("holdup.prom"), at("hooked"));
    // It writes however full the disk is that this test runs on.
    let settings = format!(
        "hook = [\"/usr/bin/tee\", \"-a\", \"{hooked}\"]\n[ring]\nfree_percent = 0\n[syslog]\nto = \"unix:{log}\"\n[metrics]\ntextfile = \"{figures}\"\n"
    );
    std::fs::write(&config, settings).unwrap();
    let mut command = holdup();
    command.args(["watch", "--window", "1s", "--state"]).arg(state).stdout(file);
    command.arg("--config").arg(config);
    Running(command.env("NOTIFY_SOCKET", notify).stdin(Stdio::null()).spawn().unwrap())
}

fn said(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

fn lines(state: &Path) -> Vec<Value> {
    let files = std::fs::read_dir(state).unwrap().map(|file| file.unwrap().path());
    let days = files.filter(|path| path.extension().is_some_and(|it| it == "jsonl"));
    let mut lines: Vec<Value> = Vec::new();
    for day in days {
        let text = std::fs::read_to_string(day).unwrap();
        assert!(text.ends_with('\n'), "no line is torn");
        lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    lines.sort_by_key(|line| line["sequence"].as_u64());
    lines
}

fn is_ours(line: &Value) -> bool {
    line["finding"]["object"]["name"].as_str().is_some_and(|it| it.ends_with(LOCK))
}

/// What is sent to a socket, as systemd and a syslog daemon would be.
fn received(socket: UnixDatagram) -> Arc<Mutex<String>> {
    let all = Arc::new(Mutex::new(String::new()));
    let read = Arc::clone(&all);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length) = socket.recv(&mut bytes) {
            let mut all = read.lock().unwrap();
            all.push_str(&String::from_utf8_lossy(&bytes[..length]));
            all.push('\n');
        }
    });
    all
}

#[test]
fn a_fault_is_said_once_across_a_kill_and_its_recordings_replay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (state, notify) = (folder.join("state"), folder.join("notify"));
    let signs = received(UnixDatagram::bind(&notify).unwrap());
    let log = received(UnixDatagram::bind(folder.join("log")).unwrap());
    let mut first = watch(folder, "first", &notify);
    until("it watches", || said(folder, "first").contains("watching:"));
    let lock = folder.join(LOCK);
    let mut holder =
        Running(Command::new("flock").arg(&lock).args(["sleep", "300"]).spawn().unwrap());
    until("it is held", || std::fs::read_to_string("/proc/locks").unwrap().contains("FLOCK"));
    let mut waiter = Running(Command::new("flock").arg(&lock).arg("true").spawn().unwrap());
    let has_events = is_root();
    if has_events {
        until_said(folder, "first", "BEGAN");
        // Written by a thread of its own.
        until_written(folder, &state);
        until("the log has it", || log.lock().unwrap().contains(LOCK));
        until("the hook has it", || {
            let hooked = said(folder, "hooked");
            let mut lines = hooked.lines().filter_map(|line| serde_json::from_str(line).ok());
            lines.any(|line: Value| is_ours(&line) && line["event"] == "began")
        });
        until("figures have it", || said(folder, "holdup.prom").contains("code=\"lock.file\""));
    }
    first.signal("KILL");
    first.end();
    let mut second = watch(folder, "second", &notify);
    until("it watches again", || said(folder, "second").contains("watching:"));
    std::thread::sleep(Duration::from_secs(4));
    // Its child has the lock, too, and flock(1) ends with it.
    let child = ["-P", &holder.0.id().to_string()].map(ToString::to_string);
    assert!(Command::new("pkill").args(child).status_in_time().unwrap().success());
    holder.end();
    waiter.end();
    if has_events {
        until_said(folder, "second", "ENDED");
    }
    let saved = holdup().arg("keep").arg("--state").arg(&state).output_in_time().unwrap();
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    until("it is saved", || said(folder, "second").contains("asked to keep"));
    second.signal("TERM");
    assert_eq!(second.end(), Some(0));
    for word in ["READY=1", "WATCHDOG=1", "STATUS="] {
        assert!(signs.lock().unwrap().contains(word), "{word}");
    }
    let ring: Value = {
        let list = holdup().args(["ring", "--json", "--state"]).arg(&state).output_in_time();
        serde_json::from_slice(&list.unwrap().stdout).unwrap()
    };
    let ring = ring.as_array().unwrap();
    assert!(ring.len() > 2, "{ring:?}");
    for entry in ring.iter().take(4) {
        let file = state.join("ring").join(entry["file"].as_str().unwrap());
        let again = holdup().args(["--json", "--from"]).arg(file).output_in_time().unwrap();
        let again: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(again["answer"]["title"], entry["title"]);
    }
    if has_events {
        let lines = lines(&state);
        let ours = lines.iter().filter(|line| is_ours(line));
        let mut events: Vec<&str> = ours.map(|line| line["event"].as_str().unwrap()).collect();
        // Who is named among the two that have it may change.
        events.retain(|event| *event != "changed");
        assert_eq!(events, ["began", "ended"], "once each: {}", said(folder, "second"));
        let sequence: Vec<u64> = lines.iter().map(|it| it["sequence"].as_u64().unwrap()).collect();
        assert_eq!(sequence, (1..=sequence.len() as u64).collect::<Vec<_>>());
    }
}

fn is_root() -> bool {
    let asked = Command::new("id").arg("-u").output_in_time();
    asked.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

#[test]
fn whoever_cannot_watch_reads_why() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let nobody = holdup().arg("keep").arg("--state").arg(&state).output_in_time().unwrap();
    let why = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert_eq!(nobody.status.code(), Some(3), "{why}");
    assert!(why.contains("nobody watches"), "{why}");
    let config = folder.path().join("holdup.toml");
    std::fs::write(&config, "window = \"10s\"\nhooks = []\n").unwrap();
    let wrong = holdup().args(["watch", "--config"]).arg(&config).output_in_time().unwrap();
    let why = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(2), "{why}");
    assert!(why.contains("holdup.toml:2:1: unknown field `hooks`"), "{why}");
    let missing = holdup().args(["ring", "--state"]).arg(&state).output_in_time().unwrap();
    assert_eq!(missing.status.code(), Some(3));
}
