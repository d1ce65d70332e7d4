//! Outputs as a whole: what fails, comes back, is full, is changed or ends, each with a receiver that does so.
//!
//! Programs and sockets of the test's own. Must not: wait for a time, but for what happens.

use super::message::example;
use super::settings::SyslogPlace;
use super::*;
use holdup_engine::over_time::Happened;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

const PATIENCE: Duration = Duration::from_secs(60);

fn until<T>(what: &str, mut asked: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = asked() {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn event() -> Message {
    example(Happened::Began, "a waits", "/x")
}

fn syslog(path: &Path) -> Wanted {
    let to = Some(SyslogPlace::Unix(path.into()));
    Wanted::Syslog(SyslogSettings { to, ..SyslogSettings::default() })
}

fn hook(words: &[&str]) -> Wanted {
    Wanted::Hook(words.iter().map(ToString::to_string).collect())
}

fn received(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let length = socket.recv(&mut bytes).expect("received");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[test]
fn what_fails_is_said_once_and_comes_back_with_what_waited() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let mut outputs = Outputs::default();
    outputs.set(vec![syslog(&path)]);
    outputs.event(event());
    outputs.event(event());
    let changes = until("it fails", || Some(outputs.changes()).filter(|it| !it.is_empty()));
    assert!(changes[0].is_failure && changes[0].output == "syslog", "{changes:?}");
    assert!(changes[0].text.contains("takes nothing"), "{changes:?}");
    assert_eq!(outputs.states(), [("syslog", true, 0)]);
    let socket = UnixDatagram::bind(&path).expect("bound");
    // The end wakes whoever waits for his next try.
    outputs.running[0].threads[0].thread().unpark();
    assert!(received(&socket).contains("a waits") && received(&socket).contains("a waits"));
    let changes = until("it works", || Some(outputs.changes()).filter(|it| !it.is_empty()));
    let works = Change { output: "syslog", is_failure: false, text: "nothing was lost".into() };
    assert_eq!(changes, [works]);
}

#[test]
fn a_failed_hook_is_said_and_its_event_is_lost() {
    let mut outputs = Outputs::default();
    outputs.set(vec![hook(&["/usr/bin/false"])]);
    outputs.event(event());
    let changes = until("it fails", || Some(outputs.changes()).filter(|it| !it.is_empty()));
    assert_eq!(changes[0].text, "/usr/bin/false failed: exit status: 1");
    until("it is counted", || (outputs.states()[0].2 == 1).then_some(()));
}

#[test]
fn a_full_queue_never_blocks_and_what_is_lost_is_counted() {
    let mut outputs = Outputs::default();
    outputs.set(vec![hook(&["/usr/bin/sleep", "5"])]);
    let all = QUEUE + hook::AT_ONCE + 10;
    for _ in 0..all {
        outputs.event(event());
    }
    let (_, is_failing, lost) = outputs.states()[0];
    assert!(is_failing && lost >= 10, "{lost}");
    outputs.end();
    // Nobody waits for a program that sleeps: what did not reach it is said.
    let unsent = outputs.wait(Instant::now());
    assert_eq!(unsent, [("hook", all as u64 - lost)]);
}

#[test]
fn other_settings_end_what_they_do_not_name_and_leave_the_rest_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let sockets = [&one, &other].map(|path| UnixDatagram::bind(path).expect("bound"));
    let mut outputs = Outputs::default();
    outputs.set(vec![syslog(&one), Wanted::Journald]);
    let before = outputs.running[0].threads[0].thread().id();
    outputs.set(vec![syslog(&one), syslog(&other)]);
    assert_eq!(outputs.running[0].threads[0].thread().id(), before, "it goes on");
    assert!(!outputs.has_journald());
    outputs.event(event());
    assert!(sockets.iter().all(|socket| received(socket).contains("a waits")));
    outputs.set(Vec::new());
    assert!(outputs.states().is_empty());
}

#[test]
fn what_waits_is_sent_before_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("events").display().to_string();
    let mail = MailSettings {
        to: vec!["root".to_string().try_into().expect("an address")],
        sendmail: "/usr/bin/true".into(),
        ..MailSettings::default()
    };
    let mut outputs = Outputs::default();
    outputs.set(vec![hook(&["/usr/bin/tee", &file]), Wanted::Mail(mail)]);
    outputs.event(event());
    outputs.end();
    assert!(outputs.wait(Instant::now() + PATIENCE).is_empty());
    let line = std::fs::read_to_string(&file).expect("written");
    assert!(line.starts_with("{\"schema\":1,") && line.ends_with("}\n"), "{line}");
}
