//! Where /proc, /sys and the file systems of the host begin: a parameter of every reader.
//!
//! So that tests run on small trees that are checked in, and a look from inside a container can read the host's files through one
//! of its processes (view.rs). Must not: read anything.

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
