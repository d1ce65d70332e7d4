//! Starts the program of the settings when something begins, changes or ends, with the event on its standard input.
//!
//! The words of the settings are its arguments as they are: no shell reads them, and nothing of a finding is among them. It has ten
//! seconds, then it is killed; of more than four at once the later are left out. Each failure is said. Must not: wait for it in the
//! thread that looks.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Started at once at most.
const AT_ONCE: usize = 4;
/// What one may take.
const LASTS_MAX: Duration = Duration::from_secs(10);

/// See the head of the file.
#[derive(Default, Clone)]
pub(super) struct Hook {
    running: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl Hook {
    /// Starts it with a line.
    pub(super) fn start(&self, words: &[String], line: String) {
        let Some((program, arguments)) = words.split_first() else { return };
        if self.running.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.fail(format!("the hook was not started: {AT_ONCE} of it run already"));
            return;
        }
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
        let (own, program) = (self.clone(), program.clone());
        let run = move || {
            if let Err(why) = wait(command, line) {
                own.fail(format!("the hook {program} {why}"));
            }
            own.running.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("holdup-hook".into()).spawn(run).is_err() {
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.fail("the hook was not started: there is no thread for it".into());
        }
    }

    /// What failed since this was last asked.
    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.lock().map(|mut it| std::mem::take(&mut *it)).unwrap_or_default()
    }

    fn fail(&self, why: String) {
        if let Ok(mut failures) = self.failures.lock() {
            failures.push(why);
        }
    }
}

/// Runs it once with a line, and waits for it; nothing if there are no words.
pub(crate) fn run(words: &[String], line: String) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
    wait(command, line).map_err(|why| format!("the hook {program} {why}"))
}

fn wait(mut command: Command, line: String) -> Result<(), String> {
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let input = child.stdin.take();
    // It may not read at all; a full pipe is not to delay its end.
    let writer = std::thread::spawn(move || {
        input.map(|mut to| to.write_all(line.as_bytes()).and_then(|()| to.write_all(b"\n")))
    });
    let begin = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if begin.elapsed() < LASTS_MAX => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                break Err(format!("did not end within {} s and was killed", LASTS_MAX.as_secs()));
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

    fn until(hook: &Hook) {
        let begin = Instant::now();
        while hook.running.load(Ordering::Relaxed) > 0 && begin.elapsed() < LASTS_MAX {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn it_gets_the_event_and_its_failure_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("event").display().to_string();
        let hook = Hook::default();
        hook.start(&words(&["/usr/bin/tee", &file]), "{\"a\": \"$(id) %s\"}".into());
        until(&hook);
        assert_eq!(std::fs::read_to_string(&file).expect("written"), "{\"a\": \"$(id) %s\"}\n");
        assert!(hook.failures().is_empty());
        hook.start(&words(&["/usr/bin/false"]), "{}".into());
        hook.start(&words(&["/no/such/program"]), "{}".into());
        until(&hook);
        let failures = hook.failures().join("; ");
        assert!(failures.contains("/usr/bin/false failed: exit status: 1"), "{failures}");
        assert!(failures.contains("/no/such/program cannot be started"), "{failures}");
    }

    #[test]
    fn no_more_than_so_many_run_at_once() {
        let hook = Hook::default();
        for _ in 0..AT_ONCE + 2 {
            hook.start(&words(&["/usr/bin/sleep", "0.5"]), "{}".into());
        }
        assert_eq!(hook.failures().len(), 2);
        until(&hook);
        assert!(hook.failures().is_empty());
    }
}
