//! `holdup run` as a wrapper that must not be felt: the command's input, output and status stay its
//! own, and signals of the terminal reach it.
//!
//! Only what holds on any host and for any user is tested here; what the report says of a command is
//! the lab's to test.

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use in_time::{ChildInTime, CommandInTime};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn start(arguments: &[&str]) -> Child {
    // Whoever runs the tests in the background ignores the interrupt, and so would the command.
    Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_holdup"), "run"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("holdup runs")
}

fn answer(arguments: &[&str], input: &str) -> Output {
    let mut child = start(arguments);
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    child.wait_with_output_in_time().expect("it ends")
}

#[test]
fn input_output_and_status_stay_the_command_s_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.txt");
    let path = report.to_str().expect("UTF-8");
    let script = "cat; echo to-stderr >&2; exit 7";
    let reported = answer(&["-o", path, "--", "sh", "-c", script], "to-stdout\n");
    assert_eq!(reported.status.code(), Some(7), "{reported:?}");
    assert_eq!(String::from_utf8_lossy(&reported.stdout), "to-stdout\n");
    assert_eq!(String::from_utf8_lossy(&reported.stderr), "to-stderr\n");
    let report = std::fs::read_to_string(report).expect("a report");
    assert!(report.contains("exit status 7"), "{report}");
}

#[test]
fn the_report_goes_to_standard_error() {
    let reported = answer(&["--json", "--", "echo", "mine"], "");
    assert_eq!((reported.status.code(), reported.stdout.as_slice()), (Some(0), &b"mine\n"[..]));
    let report: holdup_reason::answer::Report =
        serde_json::from_slice(&reported.stderr).expect("one JSON object");
    assert_eq!(report.target.exit_status, Some(0));
    assert!(report.accounting.wall_seconds > 0.0, "{report:?}");
}

#[test]
fn a_killed_command_gives_what_a_shell_gives() {
    let reported = answer(&["--", "sh", "-c", "kill -KILL $$"], "");
    assert_eq!(reported.status.code(), Some(128 + 9), "{reported:?}");
}

#[test]
fn an_interrupt_ends_the_command_and_not_the_report() {
    let begin = Instant::now();
    // The command says that it is there before it is interrupted. It has no child: one that is not yet its own
    // program would sleep on, and the shell with it.
    let mut child = start(&["--", "sh", "-c", "echo ready; exec sleep 60"]);
    let mut out = child.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut out, &mut [0; 6]).expect("ready");
    let group = format!("-{}", child.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status_in_time().expect("kill");
    assert!(sent.success());
    let reported = child.wait_with_output_in_time().expect("it ends");
    assert_eq!(reported.status.code(), Some(128 + 2), "{reported:?}");
    assert!(String::from_utf8_lossy(&reported.stderr).contains("sleep 60"), "{reported:?}");
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_command_that_does_not_end_is_answered_for_all_the_same() {
    for (signal, status) in [("-TERM", 128 + 15), ("-INT", 128 + 2)] {
        // In a session of its own it has no terminal; the command ends by neither.
        let mut child = Command::new("setsid")
            .args(["-w", "env", "--default-signal=INT", env!("CARGO_BIN_EXE_holdup"), "run", "--"])
            .args(["sh", "-c", "trap '' INT TERM; echo $PPID; exec sleep 20"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("holdup runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)
            .expect("its parent");
        let begin = Instant::now();
        let sent = Command::new("kill").args([signal, line.trim()]).status_in_time().expect("kill");
        assert!(sent.success());
        // The command has the other ends of its output, so that they do not close.
        let reported = child.wait_in_time().expect("it ends");
        assert_eq!(reported.code(), Some(status), "{signal}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{signal}: {:?}", begin.elapsed());
    }
}

#[test]
fn what_is_no_program_is_reported_as_a_shell_reports_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("script");
    std::fs::write(&path, "#!/no/such/interpreter\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("executable");
    let reported = answer(&["--", path.to_str().expect("UTF-8")], "");
    assert_eq!(reported.status.code(), Some(126), "{reported:?}");
    assert!(String::from_utf8_lossy(&reported.stderr).contains("interpreter"), "{reported:?}");
}
