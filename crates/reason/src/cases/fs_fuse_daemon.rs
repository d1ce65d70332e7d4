//! fs.fuse_daemon: a file system's server process is the one that does not answer.
//!
//! Every operation on a FUSE mount is a message to a process. If that process is slow, stuck or stopped, its
//! clients sleep in the kernel; the disk has nothing to do with it. If the daemon itself waits for something that
//! has a name, that is the finding and the daemon a link of the chain.

use super::{Case, Verdict, culprit, words};
use crate::causes::{Cause, Causes};
use crate::findings::{Culprit, Evidence, Finding, Remedy};
use crate::waits::WaitClass;

/// The case.
pub static CASE: Case = Case {
    code: "fs.fuse_daemon",
    title: "A FUSE file system's daemon does not answer",
    theory: "Operations on a FUSE mount are requests to a user process. Whoever opens, reads or locks a file there \
             waits for its answer; a slow or stuck daemon looks like a slow disk.",
    needs: &[
        "threads wait for an answer of a FUSE connection",
        "the process that has this connection's device open is known",
    ],
    refuted_by: &["the daemon is itself held up by something with a name"],
    remedies: &[
        "look at what the daemon does; restart it",
        "abort the connection (/sys/fs/fuse/connections/N/abort)",
    ],
    stories: &["S4.3"],
    find,
};

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    causes.class(WaitClass::FuseDaemon).map(|cause| finding(causes, cause)).collect()
}

fn finding(causes: &Causes<'_>, cause: &Cause) -> Finding {
    let daemon = cause.holder();
    let by = daemon.map_or_else(|| "its daemon".to_string(), words::who);
    let victim = causes.process_name(cause.first_victim());
    let doing = match cause.holder_mostly() {
        Some(WaitClass::Stopped) => "is stopped",
        Some(WaitClass::FrozenCgroup) => "is frozen",
        Some(WaitClass::Timer) => "sleeps",
        Some(WaitClass::Running | WaitClass::Unseen) => "is at work",
        _ => "waits itself",
    };
    let stopped = cause.holder_mostly() == Some(WaitClass::Stopped);
    let mut remedy = vec![Remedy {
        text: format!("see what {by} does"),
        command: daemon.map_or_else(String::new, |d| format!("cat /proc/{}/task/*/stack", d.pid)),
        ..Remedy::default()
    }];
    if let (true, Some(daemon)) = (stopped, daemon) {
        remedy = vec![Remedy {
            text: "continue the daemon".into(),
            command: format!("kill -CONT {}", daemon.pid),
            undo: format!("kill -STOP {}", daemon.pid),
        }];
    }
    let verdict = Verdict {
        title: format!("{victim} waits for {by}, the daemon of {}", cause.object.name),
        text: format!(
            "{} pass in {} requests to the daemon of {}; the longest took {}. The daemon {doing}.",
            words::of_window(cause.seconds, causes.wall_seconds()),
            cause.count,
            cause.object.name,
            words::seconds(cause.longest_seconds),
        ),
        confidence: if daemon.is_some() { 0.92 } else { 0.6 },
        culprit: daemon.map_or_else(Culprit::default, |daemon| culprit(causes, daemon)),
        evidence: vec![
            Evidence::new(
                "wait for the daemon",
                cause.seconds,
                "s",
                "kernel stacks (FUSE request)",
            ),
            Evidence::new("requests waited for", cause.count as f64, "1", "sched_switch"),
            Evidence::new(
                "daemon known by its open device",
                f64::from(u8::from(daemon.is_some())),
                "1",
                "descriptor iterator",
            ),
        ],
        remedy,
    };
    CASE.finding(causes, cause, verdict)
}
