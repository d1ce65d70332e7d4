//! Whose view a look has: the host's, also from inside a container that has the host's PID namespace, or a container's own.
//!
//! Inside a container /proc shows all processes of the host if the container has its PID namespace, but files, the hierarchies of
//! cgroups and the names in them are the container's. The host's are to be had through a process of the host: process 1, or where
//! that one lets nobody in, kthreadd, which is in the first namespaces of all. Their root, and so the state of container
//! runtimes, users' names and the cgroups, is read through /proc/PID/root; the namespaces of cgroups and of the host's name, which
//! only change what names say, are entered. Those of mounts and of the network are not: what is written must stay where the user
//! said, and a command runs where it was begun.
//!
//! What cannot be had so is said, once, as what is hidden. Must not: say it to a user of the host who merely may not look.
//!
//! Edit together: docs/containers.md, docs/limits.md.

use super::{Roots, root_helps};
use holdup_reason::facts::Blind;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The first namespaces have fixed numbers (include/uapi/linux/nsfs.h, PID_NS_INIT_INO and the others).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
const FIRST_UTS_NAMESPACE: &str = "uts:[4026531838]";
const FIRST_CGROUP_NAMESPACE: &str = "cgroup:[4026531835]";
/// Processes of the host through which its files can be read: init and kthreadd.
const OF_THE_HOST: [u32; 2] = [1, 2];

/// The roots of a live look, with what of the host cannot be seen from here. From here on the calling thread, and those that it
/// begins, have the host's namespaces of names.
pub fn of_host() -> (Roots, Vec<Blind>) {
    let own = Roots::default();
    let link = |who: &str, of: &str| namespace(&own.proc, who, of);
    if link("self", "pid").is_none() {
        return (own, Vec::new());
    }
    if !numbers_as_the_kernel() {
        let blind = hidden(
            "processes",
            "holdup runs in the PID namespace of a container",
            "this is the view of that container: who is outside of it is not seen, and waits that lead there end there",
            "give it the host's PID namespace (docs/containers.md)",
        );
        return (own, vec![blind]);
    }
    // An ordinary user may ask nobody where he is.
    if !root_helps().is_empty() {
        return (own, Vec::new());
    }
    let mounts = link("self", "mnt");
    let refused = |error: std::io::Error, therefore: &str| {
        let remedy = "run it as a privileged container (docs/containers.md)";
        hidden("names", &format!("of the host: {error}"), therefore, remedy)
    };
    let of_container = "names of containers and users, and mounts, are those of this container";
    let Some(host) = OF_THE_HOST.into_iter().find(|pid| link(&pid.to_string(), "mnt").is_some())
    else {
        let is_first = |of: &str, first| link("self", of).is_none_or(|own| own == first);
        let is_host =
            is_first("uts", FIRST_UTS_NAMESPACE) && is_first("cgroup", FIRST_CGROUP_NAMESPACE);
        let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        return (own, if is_host { Vec::new() } else { vec![refused(error, of_container)] });
    };
    let is_same = |of: &str| link("self", of) == link(&host.to_string(), of);
    let mut blind = Vec::new();
    if !is_same("cgroup")
        && let Err(error) = enter(&own.proc, host, "cgroup", LinkNameSpaceType::ControlGroup)
    {
        let therefore = "cgroups are named as this container sees them, and others not by name";
        blind.push(refused(error, therefore));
    }
    if !is_same("uts")
        && let Err(error) =
            enter(&own.proc, host, "uts", LinkNameSpaceType::HostNameAndNISDomainName)
    {
        blind.push(refused(error, "the host goes by the name of this container"));
    }
    if mounts == link(&host.to_string(), "mnt") {
        return (own, blind);
    }
    match through(&own.proc, host) {
        Ok(roots) => (roots, blind),
        Err(error) => {
            blind.push(refused(error, of_container));
            (own, blind)
        }
    }
}

/// Whether the numbers of processes here are those of the first PID namespace, which kernel programs see. Where it cannot be
/// read it is taken for granted.
pub fn numbers_as_the_kernel() -> bool {
    namespace(&Roots::default().proc, "self", "pid").is_none_or(|own| own == FIRST_PID_NAMESPACE)
}

/// The host's files as one of its processes has them.
fn through(proc: &Path, host: u32) -> std::io::Result<Roots> {
    let root = proc.join(host.to_string()).join("root");
    std::fs::read_dir(&root)?;
    Ok(Roots { proc: proc.into(), sys: root.join("sys"), root })
}

/// The process whose files a look reads: by its folder in /proc.
pub fn viewer(roots: &Roots) -> PathBuf {
    match roots.root.strip_prefix(&roots.proc) {
        Ok(below) if below.ends_with("root") => below.parent().unwrap_or(below).into(),
        _ => "self".into(),
    }
}

fn namespace(proc: &Path, who: &str, of: &str) -> Option<String> {
    let link = std::fs::read_link(proc.join(who).join("ns").join(of)).ok()?;
    link.into_os_string().into_string().ok()
}

/// These kinds change no more than what names the calling thread sees.
fn enter(proc: &Path, host: u32, of: &str, kind: LinkNameSpaceType) -> std::io::Result<()> {
    let file = File::open(proc.join(host.to_string()).join("ns").join(of))?;
    Ok(move_into_link_name_space(file.as_fd(), Some(kind))?)
}

fn hidden(what: &str, why: &str, therefore: &str, remedy: &str) -> Blind {
    Blind {
        what: format!("host.{what}"),
        why: why.into(),
        therefore: therefore.into(),
        remedy: remedy.into(),
        ..Blind::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewer_is_holdup_itself_or_the_process_whose_root_is_read() {
        assert_eq!(viewer(&Roots::default()), Path::new("self"));
        let roots = Roots { root: "/proc/2/root".into(), ..Roots::default() };
        assert_eq!(viewer(&roots), Path::new("2"));
    }

    #[test]
    fn what_cannot_be_read_through_a_process_is_an_error_and_no_empty_host() {
        assert!(through("/proc".as_ref(), u32::MAX).is_err());
    }
}
