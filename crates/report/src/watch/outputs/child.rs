//! Runs a program with something on its standard input, for so long and no longer: the hook, and sendmail.
//!
//! No shell, and nothing of a finding among the arguments. Its standard output is nobody's, its standard error is ours. Must not: be called
//! by the thread that looks.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs it; why it failed.
pub(super) fn run(
    program: &str,
    arguments: &[String],
    input: Vec<u8>,
    lasts_max: Duration,
) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
    wait(command, input, lasts_max).map_err(|why| format!("{program} {why}"))
}

fn wait(mut command: Command, input: Vec<u8>, lasts_max: Duration) -> Result<(), String> {
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let to = child.stdin.take();
    // It may not read at all; a full pipe is not to delay its end.
    let writer = std::thread::spawn(move || to.map(|mut to| to.write_all(&input)));
    let begin = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if begin.elapsed() < lasts_max => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                break Err(format!("did not end within {} s and was killed", lasts_max.as_secs()));
            }
            Err(error) => break Err(format!("cannot be waited for: {error}")),
        }
    };
    drop(writer);
    match status? {
        status if status.success() => Ok(()),
        status => Err(format!("failed: {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn it_gets_its_input_and_its_failure_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("event").display().to_string();
        let input = b"{\"a\": \"$(id) %s\"}\n".to_vec();
        let ran = run("/usr/bin/tee", std::slice::from_ref(&file), input.clone(), PATIENCE);
        assert_eq!(ran, Ok(()));
        assert_eq!(std::fs::read(&file).expect("written"), input);
        let why = |program: &str| run(program, &[], Vec::new(), PATIENCE).expect_err("it fails");
        assert_eq!(why("/usr/bin/false"), "/usr/bin/false failed: exit status: 1");
        let missing = why("/no/such/program");
        assert!(missing.starts_with("/no/such/program cannot be started"), "{missing}");
    }

    #[test]
    fn what_does_not_end_is_killed_though_it_reads_nothing() {
        let more_than_a_pipe_holds = vec![b' '; 1 << 20];
        let lasts = Duration::from_secs(1);
        let why = run("/usr/bin/sleep", &["60".into()], more_than_a_pipe_holds, lasts);
        assert_eq!(why, Err("/usr/bin/sleep did not end within 1 s and was killed".to_string()));
    }
}
