//! `holdup wait` by its binary: it ends when what is waited for does, passes a command's status on, starts a hook with the news, and says
//! why something is not done.
//!
//! Must not: ask for exact times, or for more of the answer than that it is one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod in_time;

use in_time::{ChildInTime, CommandInTime};
use std::process::{Child, Command, Output, Stdio};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time();
    }
}

fn wait(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdup")).arg("wait").args(arguments).output_in_time().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_end_of_a_process_is_said() {
    let mut sleeper = Command::new("sleep").arg("1").spawn().unwrap();
    let pid = sleeper.id().to_string();
    // Whoever has ended and was not waited for has ended.
    let waited = wait(&["-p", &pid]);
    sleeper.wait_in_time().unwrap();
    assert_eq!(waited.status.code(), Some(0), "{waited:?}");
    assert!(
        text(&waited.stdout).starts_with(&format!("sleep {pid} has ended after ")),
        "{waited:?}"
    );
    let gone = wait(&["-p", &pid]);
    assert_eq!(gone.status.code(), Some(3));
    assert!(text(&gone.stderr).contains(&format!("there is no process {pid}")), "{gone:?}");
}

#[test]
fn a_command_has_its_own_output_and_status() {
    let waited = wait(&["--", "sh", "-c", "echo out; exit 7"]);
    assert_eq!(waited.status.code(), Some(7));
    assert_eq!(text(&waited.stdout), "out\n");
    assert!(text(&waited.stderr).starts_with("sh has ended with status 7 after "), "{waited:?}");
    let killed = wait(&["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(137));
    assert_eq!(wait(&["--", "/no/such/command"]).status.code(), Some(127));
    assert_eq!(wait(&[]).status.code(), Some(2));
    assert_eq!(wait(&["--mail", "-x", "--", "true"]).status.code(), Some(2));
    assert_eq!(wait(&["-p", "1", "--file", "x"]).status.code(), Some(2));
}

#[test]
fn a_file_is_waited_for_and_the_hook_gets_the_news() {
    let folder = tempfile::tempdir().unwrap();
    let (log, news, hook) =
        (folder.path().join("log"), folder.path().join("news"), folder.path().join("hook"));
    std::fs::write(&hook, format!("#!/bin/sh\ncat > {}\n", news.display())).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = format!(
        "sleep 0.5; echo begun > {0}; sleep 0.5; echo it is ready now >> {0}",
        log.display()
    );
    let writer =
        Running(Command::new("sh").args(["-c", &program]).stdin(Stdio::null()).spawn().unwrap());
    let path = log.display().to_string();
    let waited =
        wait(&["--file", &path, "--contains", "is ready", "--hook", &hook.display().to_string()]);
    assert_eq!(waited.status.code(), Some(0), "{waited:?}");
    assert!(std::fs::read_to_string(&log).unwrap().contains("it is ready now"));
    let said: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&news).unwrap()).unwrap();
    assert_eq!(said["event"], "done");
    assert!(said["seconds"].as_f64().unwrap() > 0.0);
    assert!(text(&waited.stdout).starts_with(said["text"].as_str().unwrap()));
    drop(writer);
}

#[test]
fn what_is_not_done_by_then_is_looked_at() {
    let waited = wait(&["--why", "1s", "--", "sleep", "9"]);
    assert_eq!(waited.status.code(), Some(0), "{waited:?}");
    let said = text(&waited.stderr);
    let (why, done) =
        (said.find("sleep is not done after "), said.find("sleep has ended with status 0"));
    assert!(why.is_some() && why < done, "{said}");
    assert!(
        said.contains("What limits this answer") || said.contains("Looking cost"),
        "an answer: {said}"
    );
}
