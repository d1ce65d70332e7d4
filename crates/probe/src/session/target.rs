//! What a look is at, as the fact that says so, with the words that a command was started by.
//!
//! A process or container that is not there is an error before anything is attached to it. Must not: start the command (command.rs),
//! or decide what follows from a target (plan.rs).

use crate::SourceError;
use crate::plan::Scope;
use crate::readers::containers::find;
use crate::readers::threads::thread;
use crate::source::system;
use holdup_reason::facts::{Container, Target, TargetKind};
use std::io::{Error, ErrorKind};

use crate::system::Roots;

/// The target by what was asked for, on a host of this name; `pid` is the command's process.
pub(crate) fn target(
    scope: &Scope,
    roots: &Roots,
    hostname: &str,
    containers: &[Container],
    pid: Option<u32>,
) -> Result<Target, SourceError> {
    let plain = |kind, name: String, pid| Target {
        kind,
        name,
        pid,
        cgroups: Vec::new(),
        words: Vec::new(),
    };
    if let Some(pid) = scope.process {
        let missing = || {
            let error = Error::new(ErrorKind::NotFound, "there is no such process");
            system(&format!("look at process {pid}"))(error)
        };
        let thread = thread(roots, pid).ok_or_else(missing)?;
        return Ok(plain(TargetKind::Process, thread.thread.comm, pid));
    }
    if let Some(name) = &scope.container {
        let found = find(name, containers)
            .map_err(|error| system("find the container")(Error::other(error.to_string())))?;
        let cgroups = found.cgroups.clone();
        return Ok(Target { cgroups, ..plain(TargetKind::Container, found.name.clone(), 0) });
    }
    if let Some(words) = &scope.command {
        let words: Vec<String> =
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let named = plain(TargetKind::Command, words.join(" "), pid.unwrap_or(0));
        return Ok(Target { words, ..named });
    }
    Ok(plain(TargetKind::Host, hostname.into(), 0))
}
