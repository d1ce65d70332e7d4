//! The command line as typed, and what it means: which flags are the same, and which do not go together.
//!
//! Beside flags.rs, because that file has every flag with its help and no room for more. What each command prints is held by
//! the trycmd goldens. Must not: look at a host.

use super::*;
use clap::CommandFactory;

fn job(line: &[&str]) -> Result<Job, Failure> {
    Cli::try_parse_from(line).expect("clap accepts it").job()
}

#[test]
fn the_flags_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn pid_flag_and_pid_command_are_the_same() {
    for line in [&["holdup", "-p", "7"][..], &["holdup", "pid", "7"]] {
        match job(line).expect("a job").task {
            Task::Look { aim: Aim::Process(7), seconds: Some(5.0), record: None } => {}
            other => panic!("{line:?}: {other:?}"),
        }
    }
}

#[test]
fn flags_before_the_command_count() {
    let job = job(&["holdup", "--json", "--for", "2s", "pid", "7", "--check"]).expect("a job");
    assert!(job.answer.json && job.answer.check);
    assert!(matches!(job.task, Task::Look { seconds: Some(2.0), .. }));
}

#[test]
fn flags_of_the_command_behind_run_stay_its_own() {
    let job = job(&["holdup", "run", "--json", "ls", "--check", "-o", "x"]).expect("a job");
    assert!(job.answer.json && !job.answer.check && job.answer.output.is_none());
    let Task::Look { aim: Aim::Command(words), .. } = job.task else { panic!("not a look") };
    assert_eq!(words, ["ls", "--check", "-o", "x"]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    for line in [
        &["holdup", "--from", "x", "run", "ls"][..],
        &["holdup", "--for", "1s", "pid", "1", "--from", "x"],
        &["holdup", "--for", "1s", "explain"],
        &["holdup", "-p", "1", "pid", "2"],
    ] {
        assert!(job(line).is_err(), "{line:?}");
    }
    assert!(Cli::try_parse_from(["holdup", "--for", "1s", "--from", "x"]).is_err());
    assert!(Cli::try_parse_from(["holdup", "-p", "1", "-c", "x"]).is_err());
}

#[test]
fn durations() {
    assert_eq!(duration("30").expect("seconds"), Duration::from_secs(30));
    assert_eq!(duration("1m 30s").expect("both"), Duration::from_secs(90));
    for wrong in ["0", "1ms", "2h", "-3", "nan", "inf", "soon", ""] {
        assert!(duration(wrong).is_err(), "{wrong}");
    }
}
