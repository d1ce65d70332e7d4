//! Whether the kernel can be asked something as it is now, without loading a module for the question.
//!
//! Theory: a socket of netlink, a family of sock_diag and a subsystem of nfnetlink that are not there have the kernel call modprobe
//! (net/core/sock_diag.c, net/netfilter/nfnetlink.c): a question changes the host, whoever asks. So whoever asks for more than sockets and
//! their peers, whose modules every `ss` loads and without which an ordinary user is shown no other end, looks here first.
//! A list on a disk says what is built in: it is read as whatever may hang is, and one that hangs says nothing. Must not: load or unload
//! anything, or wait without end for a disk. Rejected: /proc/kallsyms, which is megabytes and has no module's name for what is built in.

use crate::guard::{self, Behind};
use crate::{Roots, mounts, text};
use holdup_reason::facts::Blind;
use std::path::{Path, PathBuf};

/// The list of what is built in, of one release of the kernel.
const LIST: &str = "modules.builtin";

/// Whether a module is loaded or built in, as far as that can be seen: a container mostly has no list.
pub fn is_there(roots: &Roots, name: &str) -> bool {
    let is_loaded = || roots.sys.join("module").join(name).exists();
    // A kernel without modules has all that it has.
    let is_built_in = || match text::read_text(&roots.proc.join("sys/kernel/osrelease")) {
        _ if !roots.proc.join("modules").exists() => true,
        Err(_) => false,
        Ok(release) => is_listed(roots, &release, name),
    };
    is_loaded() || is_built_in()
}

/// Whether the list of a release has a module; not if it cannot be read, or not in time.
fn is_listed(roots: &Roots, release: &str, name: &str) -> bool {
    let folder = format!("/lib/modules/{release}");
    let (list, name) = (roots.resolve(&folder).join(LIST), name.to_string());
    let read = move |list: &PathBuf| has(list, &name);
    // Where its disk hangs, no look after this one leaves a thread behind as well.
    let read = match mounts::mount_of(&mounts::own_mounts(roots), &folder) {
        Some(mount) => guard::map_behind(vec![(Behind::Mount(mount.dev), list)], read),
        None => guard::map(vec![list], read),
    };
    read.into_iter().flatten().flatten().next().unwrap_or(false)
}

/// None if there is no such list.
fn has(list: &Path, name: &str) -> Option<bool> {
    let all = std::fs::read_to_string(list).ok()?;
    Some(all.contains(&format!("/{name}.ko")))
}

/// That something was not asked, for want of a module that could be seen: it may be one that is built in.
pub fn not_asked(what: &str, module: &str, therefore: &str) -> Blind {
    Blind {
        what: what.into(),
        why: format!("nothing shows that the kernel has {module}, and looking loads nothing"),
        remedy: format!("modprobe {module}"),
        therefore: therefore.into(),
        ..Blind::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_loaded_nor_built_in_is_not_asked() {
        let root = std::env::temp_dir().join(format!("holdup-modules-{}", std::process::id()));
        let roots = Roots { proc: root.join("proc"), sys: root.join("sys"), root: root.clone() };
        std::fs::create_dir_all(root.join("proc/sys/kernel")).expect("a folder");
        std::fs::create_dir_all(root.join("sys/module/tcp_diag")).expect("a folder");
        std::fs::write(root.join("proc/sys/kernel/osrelease"), "0.0.0-none\n").expect("a file");
        let name = "af_packet_diag";
        assert!(is_there(&roots, name), "a kernel without modules has all that it has");
        std::fs::write(root.join("proc/modules"), "").expect("a file");
        assert!(is_there(&roots, "tcp_diag") && !is_there(&roots, name));
        let folder = root.join("lib/modules/0.0.0-none");
        std::fs::create_dir_all(&folder).expect("a folder");
        let builtin = "kernel/net/packet/af_packet_diag.ko\n";
        std::fs::write(folder.join("modules.builtin"), builtin).expect("a file");
        assert!(is_there(&roots, name), "it is listed");
        assert!(!is_there(&roots, "packet_diag"), "another's name ends so");
        drop(std::fs::remove_dir_all(&root));
    }

    #[test]
    fn a_list_that_hangs_is_none() {
        let root = std::env::temp_dir().join(format!("holdup-hanging-list-{}", std::process::id()));
        let roots = Roots { proc: root.join("proc"), sys: root.join("sys"), root: root.clone() };
        let folder = root.join("lib/modules/0.0.0-hangs");
        std::fs::create_dir_all(root.join("proc/sys/kernel")).expect("a folder");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(root.join("proc/sys/kernel/osrelease"), "0.0.0-hangs\n").expect("a file");
        std::fs::write(root.join("proc/modules"), "").expect("a file");
        // Nobody writes to it: whoever opens it waits.
        let list = folder.join(LIST);
        rustix::fs::mkfifoat(rustix::fs::CWD, &list, 0o600.into()).expect("a FIFO");
        assert!(!is_there(&roots, "nf_tables"), "it is given up");
        drop(std::fs::OpenOptions::new().write(true).open(&list));
        drop(std::fs::remove_dir_all(&root));
    }

    #[test]
    fn what_is_not_asked_says_so_without_a_word_on_what_was_not_seen() {
        let blind = not_asked("filters", "nf_tables", "which rule drops is not known");
        assert!(blind.why.starts_with("nothing shows that the kernel has nf_tables"), "{blind:?}");
        assert_eq!(blind.remedy, "modprobe nf_tables");
    }
}
