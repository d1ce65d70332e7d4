//! `holdup demo` as an ordinary user: its answers are what was done, and nothing of it is left, however it ends.
//!
//! As root the test becomes nobody for it, so it runs where CI is root and where a developer is not; the fault that needs root is
//! shown by docs/demo.md. Must not: ask for exact times.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use in_time::{ChildInTime, CommandInTime};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nobody on Debian and most others.
const NOBODY: &str = "65534";
/// A look may be disturbed by whatever else the machine does: of some tries one must be right.
const TRIES: usize = 3;

/// A folder where nobody may execute and write; it is TMPDIR of the demonstration.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("holdup-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::copy(env!("CARGO_BIN_EXE_holdup"), folder.join("holdup")).expect("a copy");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&folder, open).expect("rights");
        Self(folder)
    }

    fn demo(&self) -> Command {
        let holdup = self.0.join("holdup");
        let is_root = std::fs::metadata("/proc/self")
            .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        let mut command = Command::new(if is_root { Path::new("setpriv") } else { &holdup });
        if is_root {
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&holdup);
        }
        command.arg("demo").env("TMPDIR", &self.0).stdin(Stdio::null());
        command
    }

    /// What there is of a demonstration: folders, and processes that were begun there.
    fn left(&self) -> Vec<String> {
        let folders = std::fs::read_dir(&self.0).expect("the folder");
        let folders = folders.map(|it| it.expect("an entry").path().display().to_string());
        let mut left: Vec<String> = folders.filter(|it| it.contains("holdup-demo-")).collect();
        let own = self.0.display().to_string();
        for process in std::fs::read_dir("/proc").expect("procfs").flatten() {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains("demo-part") && line.contains(&own) {
                left.push(line);
            }
        }
        left
    }

    fn is_empty_soon(&self) {
        let began = Instant::now();
        while !self.left().is_empty() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.left(), Vec::<String>::new());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs it until it says that a stage was made.
fn until(place: &Place, stage: &str) -> Child {
    let mut child =
        place.demo().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let made = |line: std::io::Result<String>| line.is_ok_and(|line| line.starts_with(stage));
    assert!(lines.any(made), "{stage} does not come");
    // Read on, so that it does not end for want of a reader.
    std::thread::spawn(move || lines.count());
    std::thread::sleep(Duration::from_millis(500));
    child
}

fn kill(signal: &str, pid: u32) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status_in_time();
    assert!(sent.expect("kill").success());
}

#[test]
fn an_ordinary_user_is_reported_what_was_done() {
    let place = Place::new("whole");
    for attempt in 1..=TRIES {
        let output = place.demo().output_in_time().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("Left out: only root may make a cgroup."), "{text}");
        place.is_empty_soon();
        let right = text.matches("  check   right: ").count();
        // It never pretends: what it says of itself is its exit status.
        let wrong = text.matches("  check   NOT what was done").count();
        assert_eq!(output.status.code(), Some(i32::from(wrong > 0)), "{text}");
        assert_eq!(text.matches("  check   ").count(), 3, "{text}");
        if right == 3 {
            return;
        }
        assert!(attempt < TRIES, "{text}");
    }
}

#[test]
fn nothing_is_left_of_one_that_is_interrupted() {
    let place = Place::new("interrupted");
    for (signal, status) in [("-INT", Some(130)), ("-TERM", Some(143)), ("-HUP", Some(129))] {
        let mut child = until(&place, "1 of 4");
        assert!(!place.left().is_empty());
        kill(signal, child.id());
        assert_eq!(child.wait_in_time().expect("it ends").code(), status, "{signal}");
        place.is_empty_soon();
    }
}

#[test]
fn nothing_is_left_of_one_that_is_killed() {
    let place = Place::new("killed");
    let mut child = until(&place, "1 of 4");
    kill("-KILL", child.id());
    assert_eq!(child.wait_in_time().expect("it ends").code(), None);
    place.is_empty_soon();
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let place = Place::new("unread");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = place.demo().stdout(writer).output_in_time().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    place.is_empty_soon();
}
