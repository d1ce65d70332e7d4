//! Readers of files: /proc, /sys and the cgroup hierarchies become facts.
//!
//! Every reader takes the roots as a parameter, so that the tests run on small checked-in trees,
//! and returns fact bodies; what cannot be read becomes a `Blind` body with the reason, and one
//! unreadable process never fails the rest. The caller stamps the time.
//!
//! Nothing here may block on what is being diagnosed:
//! - no stat() and no symlink resolution on foreign file systems: paths are compared with
//!   mountinfo, descriptors are read with readlink and fdinfo;
//! - files that take another process's memory lock or exec lock (cmdline, maps, smaps, stack,
//!   syscall) are read only when no thread of the process is in state D, and through [`guard`],
//!   which gives up on a read that hangs.
//!
//! Rejected: the live half of the procfs crate (it knows one root, and its parsers refuse a line
//! that is not UTF-8, so that one hostile comm would hide a whole table). Its core is used for
//! what is read once and holds no foreign name: meminfo, kernel configuration.
//!
//! Edit together: `reason/src/facts/*.rs` (the vocabulary).

pub mod cgroup_samples;
pub mod cgroups;
pub mod disks;
pub mod family;
pub mod frequencies;
pub mod guard;
pub mod host;
mod lock_carriers;
pub mod locks;
pub mod mounts;
pub mod net_counters;
mod open_files;
pub mod sampler;
pub mod scheduler_clock;
pub mod shared;
pub mod softirqs;
pub mod text;
pub mod thread_times;
pub mod threads;
mod users;
pub mod waits;

pub use cgroups::Cgroups;
pub use family::Family;
pub use locks::LockTable;
pub use net_counters::{net_counters, network_namespaces};
pub use sampler::Sampler;
pub use shared::shared_segments;
pub use thread_times::ThreadTimes;
pub use threads::{thread, thread_inside, threads, threads_by_inner_tid, threads_of};
pub use waits::unprivileged_waits;

use holdup_reason::facts::{Blind, Body, Mount};
use std::path::{Path, PathBuf};

/// Where the trees begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// `/`: under it lie run, var, home and root with the state of container runtimes.
    pub root: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into(), root: "/".into() }
    }
}

impl Roots {
    /// The three trees as folders `proc`, `sys` and `root` of one folder, as the fixtures have them.
    pub fn under(folder: &Path) -> Self {
        Self { proc: folder.join("proc"), sys: folder.join("sys"), root: folder.join("root") }
    }

    /// Where an absolute path, as mountinfo names it, lies under these roots.
    pub fn resolve(&self, absolute: &str) -> PathBuf {
        let below = |prefix: &str| {
            absolute.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (root, rest) = match (below("/sys"), below("/proc")) {
            (Some(rest), _) => (&self.sys, rest),
            (None, Some(rest)) => (&self.proc, rest),
            (None, None) => (&self.root, absolute),
        };
        root.join(rest.trim_start_matches('/'))
    }

    /// A file of one process or thread: `/proc/ID/NAME`.
    pub fn process(&self, id: u32, name: &str) -> PathBuf {
        self.proc.join(id.to_string()).join(name)
    }
}

/// What the files say when a look begins.
#[derive(Debug)]
pub struct Opening {
    /// Host, mounts, disks, cgroup settings, sysctls, and what could not be read.
    pub facts: Vec<Body>,
    /// The cgroups that were found; gives their samples.
    pub cgroups: Cgroups,
}

/// Reads everything that changes seldom.
pub fn opening(roots: &Roots) -> Opening {
    let mut facts = vec![Body::Host(host::host(roots))];
    let mounts = mounts::mounts(roots).unwrap_or_else(|blind| {
        facts.push(Body::Blind(blind));
        Vec::new()
    });
    facts.extend(hidden(roots));
    facts.extend(disks::disks(roots, &mounts));
    facts.extend(mounts.into_iter().map(Body::Mount));
    let (cgroups, settings) = Cgroups::scan(roots);
    facts.extend(settings);
    facts.extend(host::sysctls(roots).into_iter().map(Body::Sysctl));
    Opening { facts, cgroups }
}

/// /proc may be mounted so that it shows nobody else's processes.
fn hidden(roots: &Roots) -> Option<Body> {
    let hides = |mount: &Mount| {
        let option = mount.options.split(',').find_map(|option| option.strip_prefix("hidepid="));
        mount.path == "/proc" && option.is_some_and(|how| !matches!(how, "0" | "off"))
    };
    let hides = !root_helps().is_empty() && mounts::own_mounts(roots).iter().any(hides);
    hides.then(|| {
        Body::Blind(Blind {
            what: "proc.hidepid".into(),
            why: "/proc is mounted with hidepid".into(),
            remedy: root_helps().into(),
            therefore: "processes of others are not seen at all".into(),
            ..Blind::default()
        })
    })
}

/// One reading of all counters of the host, for callers without a [`Sampler`].
pub fn sample(roots: &Roots) -> Vec<Body> {
    Sampler::new(roots).sample()
}

/// Why a file could not be read, as a fact.
pub(crate) fn blind(what: &str, error: &std::io::Error, therefore: &str) -> Blind {
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
pub(crate) fn refused(what: &str, count: usize, therefore: &str) -> Option<Body> {
    (count > 0).then(|| Body::Blind(refusal(what, count, therefore)))
}

/// The same where nothing is missing but what these processes would have reported of themselves.
pub(crate) fn refused_by(what: &str, pids: Vec<u32>, therefore: &str) -> Option<Body> {
    let blind = refusal(what, pids.len(), therefore);
    (!pids.is_empty()).then_some(Body::Blind(Blind { pids, ..blind }))
}

fn refusal(what: &str, count: usize, therefore: &str) -> Blind {
    Blind {
        what: what.into(),
        why: format!("permission denied for {count} processes or threads"),
        remedy: root_helps().into(),
        therefore: therefore.into(),
        ..Blind::default()
    }
}

/// The remedy for missing privileges, unless holdup is root already.
pub(crate) fn root_helps() -> &'static str {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 { "" } else { "run holdup as root" }
}

/// Whether an error says that privileges are missing.
pub(crate) fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests;
