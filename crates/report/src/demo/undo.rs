//! What the demonstration makes on the host, a folder and perhaps a cgroup, and that it goes again on every way out.
//!
//! One way undoes all: a janitor, this binary again, in a process group of its own so that ctrl-C does not reach it. It
//! begins before anything is made, knows the names, and waits for the end of its standard input, which comes when holdup ends,
//! whether it returned, was interrupted or was killed. Should the janitor be killed too, the next demonstration removes what is
//! left. Only names that the demonstration gives are removed, of the same user, and only where the process whose number is in
//! the name is gone. Must not: follow a link, or remove a folder that is not empty after that.
//!
//! Rejected: handlers of signals alone (no signal is sent to who is killed), and files without a name (a lock needs one to be shown).

use crate::failure::Failure;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::time::{Duration, Instant};

/// The file that is locked.
pub(super) const LOCK: &str = "shop.lock";
/// What the parts are called.
pub(super) const NAMES: &[&str] =
    &["backup", "report", "log-shipper", "app", "database", "proxy", "client", "encoder"];

/// What every name begins with.
const PREFIX: &str = "holdup-demo-";
/// A killed process leaves its cgroup within this time.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Of each period the group may compute so long: a fifth of one CPU.
const QUOTA_US: (u32, u32) = (20_000, 100_000);

/// The folder with all that is made, and whoever removes it.
pub(super) struct Room {
    /// The folder.
    pub folder: PathBuf,
    /// The cgroup with a quota, or why there is none.
    pub group: Result<PathBuf, String>,
    janitor: Child,
}

impl Room {
    /// Begins the janitor, and makes the folder.
    ///
    /// # Errors
    /// The binary cannot be started again, or there is no place for the folder.
    pub(super) fn make() -> Result<Self, Failure> {
        sweep();
        let folder = std::env::temp_dir().join(format!("{PREFIX}{}", id()));
        let hierarchy = cpu_hierarchy();
        let planned = hierarchy.map(|it| it.join(format!("{PREFIX}{}", id())));
        let mut words: Vec<OsString> =
            vec!["demo-part".into(), "janitor".into(), folder.clone().into()];
        words.extend(planned.as_ref().ok().map(|group| group.clone().into_os_string()));
        let own = std::env::current_exe()
            .map_err(|error| Failure::file("find", Path::new("/proc/self/exe"), &error))?;
        let janitor = Command::new(&own)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| Failure::file("start", &own, &error))?;
        let failed = |error: io::Error| {
            Failure::file("make the folder", &folder, &error)
                .advise("TMPDIR says where; it must be a folder that you may write to.")
        };
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        for name in NAMES {
            std::os::unix::fs::symlink(&own, folder.join(name)).map_err(failed)?;
        }
        let group = planned.and_then(|group| limited(&group));
        Ok(Self { folder, group, janitor })
    }

    /// A file in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Everything is removed; `false` if it is not after some seconds.
    pub(super) fn leave(mut self) -> bool {
        drop(self.janitor.stdin.take());
        let began = Instant::now();
        while began.elapsed() < TIMEOUT + Duration::from_secs(1) {
            match self.janitor.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                _ => break,
            }
        }
        !self.folder.exists() && !self.group.as_ref().is_ok_and(|group| group.exists())
    }
}

/// Waits for the end of holdup, and removes the folder and the cgroup.
///
/// # Errors
/// It was called by somebody else.
pub(super) fn janitor(words: &[String]) -> io::Result<()> {
    let [folder, groups @ ..] = words else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the folder is missing"));
    };
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    let groups: Vec<&Path> = groups.iter().map(Path::new).collect();
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        let gone = groups.iter().all(|group| remove_group(group));
        if remove_folder(Path::new(folder)) && gone {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Removes the names that the demonstration gives, then the folder; whether it is gone.
fn remove_folder(folder: &Path) -> bool {
    if is_ours(folder) {
        for name in NAMES.iter().chain(&[LOCK]) {
            let _ = fs::remove_file(folder.join(name));
        }
        let _ = fs::remove_dir(folder);
    }
    fs::symlink_metadata(folder).is_err()
}

fn remove_group(group: &Path) -> bool {
    if is_ours(group) {
        let _ = fs::remove_dir(group);
    }
    fs::symlink_metadata(group).is_err()
}

/// A folder, no link, of this user, with a name that the demonstration gives.
fn is_ours(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    owner(path).is_some()
        && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == user)
}

/// The process that a name of the demonstration is of.
fn owner(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

/// Removes what demonstrations left behind that were killed together with their janitor.
fn sweep() {
    let left = |parent: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let gone = |path: &PathBuf| {
            owner(path).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        };
        entries.map(|entry| entry.path()).filter(gone).collect()
    };
    for folder in left(&std::env::temp_dir()) {
        remove_folder(&folder);
    }
    if let Ok(hierarchy) = cpu_hierarchy() {
        for group in left(&hierarchy) {
            remove_group(&group);
        }
    }
}

/// The hierarchy in which a group with a CPU quota can be made, or why there is none.
fn cpu_hierarchy() -> Result<PathBuf, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root may make a cgroup".into());
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut why = "no cgroup hierarchy with the CPU controller is mounted";
    for mount in mounts.lines() {
        let words: Vec<&str> = mount.split(' ').collect();
        let [_, path, kind, options, ..] = words[..] else { continue };
        let path = PathBuf::from(path);
        match kind {
            "cgroup" if options.split(',').any(|it| it == "cpu") => return Ok(path),
            "cgroup2" => {
                let enabled =
                    fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
                if enabled.split_whitespace().any(|it| it == "cpu") {
                    return Ok(path);
                }
                why = "the CPU controller is not enabled at the root of the cgroups";
            }
            _ => {}
        }
    }
    Err(why.into())
}

/// Makes a group, and limits it.
fn limited(group: &Path) -> Result<PathBuf, String> {
    let failed = |error: io::Error| format!("a cgroup cannot be limited here: {error}");
    fs::create_dir(group).map_err(failed)?;
    let (quota, period) = QUOTA_US;
    let unified = group.join("cpu.max");
    if unified.exists() {
        fs::write(unified, format!("{quota} {period}")).map_err(failed)?;
    } else {
        fs::write(group.join("cpu.cfs_period_us"), period.to_string()).map_err(failed)?;
        fs::write(group.join("cpu.cfs_quota_us"), quota.to_string()).map_err(failed)?;
    }
    Ok(group.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_removed_and_no_link_is_followed() {
        let other = tempfile::tempdir().expect("a folder");
        let folder = other.path().join(format!("{PREFIX}1"));
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join(LOCK), "").expect("a file");
        fs::write(folder.join("somebody's"), "").expect("a file");
        assert!(!remove_folder(&folder));
        assert!(folder.join("somebody's").exists() && !folder.join(LOCK).exists());
        let link = other.path().join(format!("{PREFIX}2"));
        std::os::unix::fs::symlink(&folder, &link).expect("a link");
        fs::write(folder.join(LOCK), "").expect("a file");
        assert!(!remove_folder(&link));
        assert!(folder.join(LOCK).exists());
        fs::remove_file(folder.join("somebody's")).expect("removed");
        assert!(remove_folder(&folder));
        assert_eq!(
            (owner(Path::new("/tmp/holdup-demo-12")), owner(Path::new("/tmp/holdup-demo-x"))),
            (Some(12), None)
        );
    }
}
