//! The command line as typed, and what it means: which flags are the same, and which do not go together.
//!
//! Beside flags.rs, because that file has every flag with its help and no room for more. What each command prints is held by
//! the trycmd goldens. Must not: look at a host.

use super::*;
use clap::CommandFactory;
use groups::duration;

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
fn flags_before_the_network_s_tables_count() {
    let tables = |line: &[&str]| match job(line).expect("a job").task {
        Task::Surface { surface, from: None } => format!("{surface:?}"),
        other => panic!("{line:?}: {other:?}"),
    };
    assert!(tables(&["holdup", "--for", "2s", "net"]).contains("length: Some(2s)"));
    assert!(tables(&["holdup", "--from", "x", "net", "-v"]).contains(r#"from: Some("x")"#));
    assert!(job(&["holdup", "--for", "2s", "net", "--from", "x"]).is_err());
    assert!(job(&["holdup", "-p", "7", "net"]).is_err());
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
fn a_page_goes_with_a_look_and_with_nothing_else() {
    for line in [
        &["holdup", "--page", "w.html"][..],
        &["holdup", "--page", "w.html", "--from", "x"],
        &["holdup", "run", "--page", "w.html", "ls"],
        &["holdup", "--page", "w.html", "pid", "7"],
        &["holdup", "record", "x", "--page", "w.html", "--", "ls"],
    ] {
        let page = job(line).expect("a job").answer.page;
        assert_eq!(page.as_deref(), Some("w.html".as_ref()), "{line:?}");
    }
    for line in [
        &["holdup", "--page", "w.html", "doctor"][..],
        &["holdup", "--page", "w.html", "facts", "x"],
        &["holdup", "--from", "x", "page", "y"],
    ] {
        assert!(job(line).is_err(), "{line:?}");
    }
    match job(&["holdup", "page", "x", "-p", "7", "-o", "w.html"]).expect("a job") {
        Job { task: Task::Page { aim: Aim::Process(7), .. }, answer } => {
            assert_eq!(answer.output.as_deref(), Some("w.html".as_ref()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn durations() {
    assert_eq!(duration("30").expect("seconds"), Duration::from_secs(30));
    assert_eq!(duration("1m 30s").expect("both"), Duration::from_secs(90));
    for wrong in ["0", "1ms", "2h", "-3", "nan", "inf", "soon", ""] {
        assert!(duration(wrong).is_err(), "{wrong}");
    }
}
