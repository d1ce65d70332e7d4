//! What a look is at, as the fact that says so: a host, a process, a container, a command.
//!
//! A process or container that is not there is an error before anything is attached. Must not: start the command (command.rs).

use crate::SourceError;
use crate::readers::{containers as container, *};
use crate::session::{What, system};
use crate::system::Roots;
use holdup_reason::facts::{Container, Target, TargetKind};

/// The target by what was asked for; the command's process is not known yet.
pub(crate) fn target(
    what: &What,
    roots: &Roots,
    containers: &[Container],
) -> Result<Target, SourceError> {
    let plain = |kind, name: String, pid| Target {
        kind,
        name,
        pid,
        cgroups: Vec::new(),
        words: Vec::new(),
    };
    Ok(match what {
        What::Host => plain(TargetKind::Host, host::host(roots).hostname, 0),
        What::Process(pid) => {
            let thread = threads::thread(roots, *pid).ok_or_else(|| {
                system(&format!("look at process {pid}"))(std::io::Error::new(
                    std::io::ErrorKind::NotFound,
                    "there is no such process",
                ))
            })?;
            plain(TargetKind::Process, thread.thread.comm, *pid)
        }
        What::Container(name) => {
            let found = container::find(name, containers).map_err(|error| {
                system("find the container")(std::io::Error::other(error.to_string()))
            })?;
            Target {
                kind: TargetKind::Container,
                name: found.name.clone(),
                pid: 0,
                cgroups: found.cgroups.clone(),
                words: Vec::new(),
            }
        }
        What::Command(words) => {
            let words: Vec<String> =
                words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            Target { words: words.clone(), ..plain(TargetKind::Command, words.join(" "), 0) }
        }
    })
}
