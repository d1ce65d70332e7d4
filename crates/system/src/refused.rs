//! What cannot be read, as a fact: why, what would help, and what is therefore unknown.
//!
//! One unreadable process never fails the rest, so refusals are counted and said once. Must not: say that nothing is there.

use holdup_reason::facts::{Blind, Body};

/// Why a file could not be read, as a fact.
pub fn blind(what: &str, error: &std::io::Error, therefore: &str) -> Blind {
    let remedy = match error.kind() {
        std::io::ErrorKind::PermissionDenied => root_helps(),
        _ => "",
    };
    Blind {
        what: what.into(),
        why: error.to_string(),
        remedy: remedy.into(),
        therefore: therefore.into(),
        ..Blind::default()
    }
}

/// How many processes refused to be read, as a fact; nothing if none did.
pub fn refused(what: &str, count: usize, therefore: &str) -> Option<Body> {
    (count > 0).then(|| Body::Blind(refusal(what, count, therefore)))
}

/// The same where nothing is missing but what these processes would have reported of themselves.
pub fn refused_by(what: &str, pids: Vec<u32>, therefore: &str) -> Option<Body> {
    let blind = refusal(what, pids.len(), therefore);
    (!pids.is_empty()).then_some(Body::Blind(Blind { pids, ..blind }))
}

fn refusal(what: &str, count: usize, therefore: &str) -> Blind {
    let whom = if count == 1 { "process or thread" } else { "processes or threads" };
    Blind {
        what: what.into(),
        why: format!("permission denied for {count} {whom}"),
        remedy: root_helps().into(),
        therefore: therefore.into(),
        ..Blind::default()
    }
}

/// The remedy for missing privileges, unless holdup is root already.
pub fn root_helps() -> &'static str {
    if rustix::process::geteuid().is_root() { "" } else { "run holdup as root" }
}

/// Whether an error says that privileges are missing.
pub fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}
