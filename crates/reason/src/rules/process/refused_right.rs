//! process.retry where it is a right that is refused: by a seccomp filter, for want of a capability, by a mount or by a file's mode.
//!
//! The kernel answers EPERM or EACCES to all of them. What it asks is known of some calls (a capability each), of a filter whether it
//! lets the call pass as such, of a path that it is what was asked for. Must not: name a capability that the caller has.
//! Rejected: the tracepoint of capability checks (6.14 and later; many checks fail in calls that go well).
//!
//! Edit together: waits/retries.rs (when a sleep is for a right).

use super::raised_limit;
use crate::facts::{Denied, DeniedLimit, Endpoint, Mount, ObjectRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::refusals::Tries;
use crate::model::object::Object;
use crate::model::{lifetimes, words};
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Wording};
use crate::rules::{FileSeen, Match, culprit, file_of};
use std::path::Path;

const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EFBIG: i32 = 27;
const EROFS: i32 = 30;
const ENOTCONN: i32 = 107;
const ESTALE: i32 = 116;

/// The capability that the kernel asks of a call, by its number (include/uapi/linux/capability.h).
const NEEDS: &[(&str, u32, &[&str])] = &[
    ("CAP_CHOWN", 0, &["chown", "fchown", "lchown", "fchownat"]),
    ("CAP_FOWNER", 3, &["chmod", "fchmod", "fchmodat", "fchmodat2", "utimensat"]),
    ("CAP_KILL", 5, &["kill", "tkill", "tgkill", "pidfd_send_signal"]),
    ("CAP_SETGID", 6, &["setgid", "setregid", "setresgid", "setgroups"]),
    ("CAP_SETUID", 7, &["setuid", "setreuid", "setresuid"]),
    ("CAP_NET_BIND_SERVICE", 10, &["bind"]),
    ("CAP_NET_RAW", 13, &["socket"]),
    ("CAP_IPC_LOCK", 14, &["mlock", "mlock2", "mlockall"]),
    ("CAP_SYS_MODULE", 16, &["init_module", "finit_module", "delete_module"]),
    ("CAP_SYS_CHROOT", 18, &["chroot"]),
    ("CAP_SYS_PTRACE", 19, &["ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"]),
    (
        "CAP_SYS_ADMIN",
        21,
        &[
            "mount",
            "umount2",
            "pivot_root",
            "swapon",
            "swapoff",
            "sethostname",
            "setdomainname",
            "setns",
            "unshare",
            "fsopen",
            "fsmount",
            "move_mount",
            "open_tree",
            "mount_setattr",
            "quotactl",
        ],
    ),
    ("CAP_SYS_BOOT", 22, &["reboot", "kexec_load", "kexec_file_load"]),
    ("CAP_SYS_NICE", 23, &["setpriority", "sched_setaffinity", "ioprio_set", "move_pages"]),
    ("CAP_SYS_RESOURCE", 24, &["setrlimit", "prlimit64"]),
    ("CAP_SYS_TIME", 25, &["settimeofday", "clock_settime", "adjtimex", "clock_adjtime"]),
    ("CAP_MKNOD", 27, &["mknod", "mknodat"]),
    ("CAP_SYSLOG", 34, &["syslog"]),
    ("CAP_PERFMON", 38, &["perf_event_open"]),
    ("CAP_BPF", 39, &["bpf"]),
];

/// What refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Filter,
    Capability(&'static str),
    ReadOnly,
    Busy,
    /// By who has it open, or the kernel: no mount of it, nor a file on one.
    Exclusive,
    /// It is on a mount of FUSE whose daemon has ended.
    Unserved,
    /// Of another file system, or of FUSE where the daemon lives or is not known.
    Unconnected,
    Stale,
    Mode,
    FileSize(DeniedLimit),
    FileSystemSize,
    Unknown,
}

fn why(measures: &Measures<'_>, denied: &Denied) -> Why {
    let call = denied.syscall.as_str();
    let needed = NEEDS.iter().find(|(.., calls)| calls.contains(&call));
    let lacks = |bit: u32| denied.capabilities.is_some_and(|held| held >> bit & 1 == 0);
    match (denied.errno, needed) {
        (EROFS, _) => Why::ReadOnly,
        (EBUSY, _) if is_exclusive(denied) => Why::Exclusive,
        (EBUSY, _) => Why::Busy,
        (ESTALE, _) => Why::Stale,
        (ENOTCONN, _) if has_no_daemon(measures, denied) => Why::Unserved,
        (ENOTCONN, _) => Why::Unconnected,
        (EFBIG, _) => match denied.limit.filter(|it| it.limit != u64::MAX) {
            Some(limit) => Why::FileSize(limit),
            None => Why::FileSystemSize,
        },
        // It is asked before anything else is.
        _ if denied.filtered => Why::Filter,
        // On the way to a path it is the mode of a folder, whatever is to be done there: who lacks the right to do it gets EPERM.
        (EACCES, _) if denied.path.is_some() => Why::Mode,
        (_, Some((name, bit, _))) if lacks(*bit) => Why::Capability(name),
        _ => Why::Unknown,
    }
}

/// What is opened is not in use as a mount is: a device may be open once only. Who unmounts names the folder of the mount, also below /dev.
fn is_exclusive(denied: &Denied) -> bool {
    let call = denied.syscall.as_str();
    let is_device = || denied.path.as_deref().is_some_and(|path| path.starts_with("/dev/"));
    matches!(call, "open" | "openat" | "openat2" | "creat") || call != "umount2" && is_device()
}

/// It lies on a mount of FUSE, as the host sees it, and nobody is known to have /dev/fuse open for that.
fn has_no_daemon(measures: &Measures<'_>, denied: &Denied) -> bool {
    let model = measures.model;
    let path = denied.path.as_deref().filter(|path| path.starts_with('/'));
    let seen = path.and_then(|path| file_of(model, &denied.thread, path));
    let Some(seen) = seen.filter(|seen| seen.through.is_none()) else { return false };
    let is_on = |mount: &&Mount| Path::new(&seen.path).starts_with(&mount.path);
    let Some(mount) = model.disk.mounts.iter().filter(is_on).max_by_key(|it| it.path.len()) else {
        return false;
    };
    let serves =
        |end: &Endpoint| matches!(end.object, ObjectRef::FuseServer { dev } if dev == mount.dev);
    let kind = mount.fs_type.as_str();
    let is_fuse = matches!(kind, "fuse" | "fuseblk") || kind.starts_with("fuse.");
    is_fuse && !model.held.endpoints.iter().any(serves)
}

/// Of an end that is the sleeps between the tries.
pub(super) fn matched<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let tries = refusal_words::tries(measures, end)?;
    let why = why(measures, tries.last);
    let name = measures.model.name_of(&end.object).name;
    let kind = CulpritKind::Setting;
    let of_caller = |setting: &str| {
        let setting = Some(setting.to_string());
        Culprit { kind, setting, ..culprit(measures.model, &tries.last.thread) }
    };
    let (by, proof) = match why {
        Why::Filter => (of_caller("seccomp filter"), Proof::Inferred),
        Why::Capability(needed) => (of_caller(needed), Proof::TwoWitnesses),
        Why::FileSize(_) => (of_caller("RLIMIT_FSIZE"), Proof::Read),
        Why::ReadOnly => (Culprit::setting(name, "mount option ro"), Proof::Read),
        Why::Mode => (Culprit::setting(name, "mode and owner"), Proof::Inferred),
        Why::Busy => (Culprit { name, ..Culprit::default() }, Proof::Read),
        Why::Exclusive | Why::Unserved | Why::Unconnected | Why::Stale => {
            (Culprit { name, ..Culprit::default() }, Proof::Inferred)
        }
        Why::FileSystemSize => (Culprit::setting(name, "largest size of a file"), Proof::Inferred),
        Why::Unknown => (Culprit { name, ..Culprit::default() }, Proof::OneWitness),
    };
    Some(Match::new(by, proof, move |loss| explain(measures, end, &tries, why, loss)))
}

fn explain(
    measures: &Measures<'_>,
    end: &End,
    tries: &Tries<'_>,
    why: Why,
    loss: &Loss<'_>,
) -> Wording {
    let (victim, call) = (&loss.victim, &tries.last.syscall);
    let name = measures.model.name_of(&end.object).name;
    let what = match &end.object {
        Object::SystemCall(_) | Object::Limit(_) => call.clone(),
        _ => format!("{call} of {name}"),
    };
    let (reason, text) = reason(why);
    let mut evidence = refusal_words::evidence(tries, loss.seconds);
    evidence.extend(witness(why));
    Wording {
        title: format!("{victim} is refused {what} again and again: {reason}"),
        text: format!("{} {text}", refusal_words::between(tries, loss.seconds, loss.wall_seconds)),
        evidence,
        remedy: vec![remedy(measures, why, tries, &name)],
    }
}

/// For the title, and a sentence.
fn reason(why: Why) -> (String, String) {
    match why {
        Why::Filter => (
            "a seccomp filter does not let it pass".into(),
            "The caller has a seccomp filter that does not let this call pass whatever its arguments are, and the kernel asks it first."
                .into(),
        ),
        Why::Capability(name) => (
            format!("it lacks {name}"),
            format!("The kernel asks {name} for that, which the caller does not have."),
        ),
        Why::ReadOnly => (
            "it is mounted read-only".into(),
            "The file system is mounted read-only there, or was made so after an error.".into(),
        ),
        Why::Busy | Why::Exclusive | Why::Unserved | Why::Unconnected | Why::Stale => {
            let (title, text) = state(why);
            (title.into(), text.into())
        }
        Why::Mode => (
            "its user may not".into(),
            "The mode or owner of the file, or of a folder above it, does not allow that to its user.".into(),
        ),
        Why::FileSize(limit) => (
            format!("its files may have {}", words::bytes(limit.limit as f64)),
            "RLIMIT_FSIZE of the caller lets no file become larger.".into(),
        ),
        Why::FileSystemSize => (
            "its file system lets no file become so large".into(),
            "RLIMIT_FSIZE does not hold the caller: a file system has a largest size of a file (FAT: 4 GiB).".into(),
        ),
        Why::Unknown => (
            "the kernel does not permit it".into(),
            "The caller has the capability that this call is known to ask for, or none is known; an attribute of the file \
             (immutable), a security module or the state of what it asks for may refuse it too."
                .into(),
        ),
    }
}

/// The same of what is no right, but a state of what was asked for.
fn state(why: Why) -> (&'static str, &'static str) {
    match why {
        Why::Exclusive => (
            "it is in use",
            "Another process has it open for itself alone; of a disk that may be the kernel too (a mount, swap, LVM or RAID).",
        ),
        Why::Unserved => (
            "nobody serves it any more",
            "The mount is still there, and the FUSE daemon that answers for its files has ended: nobody is known to have /dev/fuse open for it.",
        ),
        Why::Unconnected => (
            "who serves it does not answer for it",
            "The file system it is on is not connected to who answers for its files (ENOTCONN): that one has ended, or has been cut off.",
        ),
        Why::Stale => (
            "the server knows the file no more",
            "Whoever serves the file system knows the file, or the folder that it was looked for in, no more (ESTALE): it was removed there, \
             or made anew.",
        ),
        _ => (
            "it is in use",
            "Somebody has it: a working folder or an open file on a mount, or a mount below it; a process of a control group; \
             a mount of a disk.",
        ),
    }
}

fn witness(why: Why) -> Option<Evidence> {
    Some(match why {
        Why::Filter => Evidence::new(
            "seccomp filter that looks at the call",
            1.0,
            "1",
            "struct seccomp_filter",
        ),
        Why::Capability(name) => {
            Evidence::new(format!("{name} held"), 0.0, "1", "effective capabilities of the caller")
        }
        Why::FileSize(limit) => {
            let bytes = limit.limit as f64;
            Evidence::new("RLIMIT_FSIZE", bytes, "bytes", "resource limits of the caller")
        }
        _ => return None,
    })
}

/// A file as whoever is refused sees it: a container has others by the same path, and a path may begin where the process is. None of what is no
/// file, or which nobody who is left is known to see.
fn seen(measures: &Measures<'_>, tries: &Tries<'_>, name: &str) -> Option<FileSeen> {
    let who = &tries.last.thread;
    let path = tries.last.path.as_deref().unwrap_or(name);
    if path.starts_with('/') {
        return file_of(measures.model, who, path);
    }
    let is_path = tries.last.path.is_some() && !path.is_empty();
    (is_path && lifetimes::is_there_at_end(measures.model, who)).then(|| FileSeen {
        path: format!("/proc/{}/cwd/{path}", who.pid),
        through: Some(who.clone()),
    })
}

/// Shows on which mount a file is: of a container the list of all, as the tool looks a path up where it is run itself.
fn mount_of(seen: &FileSeen) -> String {
    match &seen.through {
        Some(by) if inside(seen).is_some() => {
            format!("findmnt -N {} -o TARGET,SOURCE,FSTYPE,OPTIONS", by.pid)
        }
        _ => format!("findmnt -T {}", words::shell(&seen.path)),
    }
}

/// Where it is in the files of whoever is refused, if those are seen through another path.
fn inside(seen: &FileSeen) -> Option<(String, &str)> {
    let root = format!("/proc/{}/root", seen.through.as_ref()?.pid);
    let inside = seen.path.strip_prefix(&root)?;
    Some((root, inside))
}

/// Shows who uses a mount, a group or a disk.
fn users_of(seen: &FileSeen) -> String {
    let path = words::shell(&seen.path);
    let inside = inside(seen).map_or(&*seen.path, |(_, inside)| inside);
    if inside.starts_with("/sys/fs/cgroup/") {
        return format!("find {path} -name cgroup.procs -exec grep -H . {{}} +");
    }
    let mounts = match &seen.through {
        Some(by) if inside != seen.path => format!("findmnt -N {}", by.pid),
        _ => format!("findmnt -R {path}"),
    };
    format!("fuser -vm {path}; {mounts}")
}

/// Shows who has a file open. Not of all its file system: of a device that would be who has any device open.
fn openers_of(seen: &FileSeen) -> String {
    format!("fuser -v {}", words::shell(&seen.path))
}

/// Shows who may do what with a file, and with each folder above it. The tool that does follows the link to another's files as its own.
fn modes_of(seen: &FileSeen) -> String {
    let Some((root, inside)) = inside(seen) else {
        return format!("namei -l {}", words::shell(&seen.path));
    };
    let ends = inside.char_indices().filter(|(at, c)| *c == '/' && *at > 0).map(|(at, _)| at);
    let paths = ends.chain([inside.len()]).map(|end| format!("{root}{}", &inside[..end]));
    let words: Vec<String> = paths.map(|path| words::shell(&path)).collect();
    format!("ls -ld {}", words.join(" "))
}

fn remedy(measures: &Measures<'_>, why: Why, tries: &Tries<'_>, name: &str) -> Remedy {
    let who = &tries.last.thread;
    let pid = who.pid;
    let call = &tries.last.syscall;
    let seen = seen(measures, tries, name);
    let of_file =
        |command: fn(&FileSeen) -> String| seen.as_ref().map_or_else(String::new, command);
    let (text, command) = match why {
        Why::Filter => (
            format!(
                "let the filter pass {call}: SystemCallFilter= of its unit, the seccomp profile of its container"
            ),
            format!("grep -E 'Seccomp|NoNewPrivs' /proc/{pid}/status"),
        ),
        Why::Capability(needed) => (
            format!(
                "give it {needed}: AmbientCapabilities= of its unit, --cap-add of its container; or do without"
            ),
            format!("grep Cap /proc/{pid}/status"),
        ),
        Why::ReadOnly => {
            ("see which mount it is, and why it is read-only".into(), of_file(mount_of))
        }
        Why::Mode => ("see who may do that".into(), of_file(modes_of)),
        Why::Busy => ("see who has it".into(), of_file(users_of)),
        Why::Exclusive => (
            "see who has it open; of a disk lsblk shows what it is used for".into(),
            of_file(openers_of),
        ),
        Why::Unconnected => {
            ("see which mount it is, and whether who serves it runs".into(), of_file(mount_of))
        }
        Why::Stale => (
            "open it again by its whole path, and see which mount it is on".into(),
            of_file(mount_of),
        ),
        Why::Unserved => (
            "see which mount it is; unmount it (umount -l) and mount it again".into(),
            of_file(mount_of),
        ),
        Why::FileSize(limit) => {
            let text = "let its files become twice as large, or have it begin a new one";
            return raised_limit::twice(measures, text, who, ("--fsize", "RLIMIT_FSIZE"), &limit);
        }
        Why::FileSystemSize => (
            "see which file system it is: another one may take it, or it is written in parts"
                .into(),
            of_file(mount_of),
        ),
        Why::Unknown => ("see what the kernel says of it".into(), "dmesg | tail -n 20".into()),
    };
    let way = Remedy::to(text);
    match why {
        Why::Filter | Why::Capability(_) => way.ask(Question::State, who, command),
        _ => {
            let through = seen.as_ref().and_then(|seen| seen.through.as_ref());
            way.command(command).acting(Action::look(Question::State).through(through))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;
    const EPERM: i32 = 1;

    /// A program that is refused so, and sleeps for a second each time.
    fn found(refused: &Denied) -> Finding {
        found_with(refused, Vec::new())
    }

    fn found_with(refused: &Denied, more: Vec<Fact>) -> Finding {
        let mut facts = [host(), more].concat();
        facts.push(of_process(10, "job"));
        for at in 1..=3 {
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refused.clone()) });
            facts.push(slept(10, "job", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        let report = explain(facts);
        assert_eq!(report.answer.ends[0].end, EndKind::Limit);
        assert_eq!(report.findings[0].code, "process.retry");
        report.findings[0].clone()
    }

    fn chown() -> Denied {
        let path = Some("/srv/data".to_string());
        Denied { errno: EPERM, capabilities: Some(0), path, ..refusal(10, "job", "chown") }
    }

    fn setting(refused: &Denied) -> Option<String> {
        found(refused).culprit.setting
    }

    #[test]
    fn a_capability_that_the_call_asks_and_the_caller_lacks_is_named() {
        let finding = found(&chown());
        assert_eq!(finding.culprit.setting.as_deref(), Some("CAP_CHOWN"));
        assert!(finding.title.contains("chown of /srv/data"), "{}", finding.title);
        assert_eq!(setting(&Denied { capabilities: Some(u64::MAX), ..chown() }), None);
    }

    #[test]
    fn a_filter_is_asked_before_the_capability_is() {
        let refused = Denied { filtered: true, ..chown() };
        assert_eq!(setting(&refused).as_deref(), Some("seccomp filter"));
    }

    #[test]
    fn a_read_only_mount_and_a_files_mode_are_distinguished_by_the_error() {
        let open = |errno| Denied { errno, syscall: "openat".into(), ..chown() };
        assert_eq!(setting(&open(super::EROFS)).as_deref(), Some("mount option ro"));
        assert_eq!(setting(&open(super::EACCES)).as_deref(), Some("mode and owner"));
        let on_the_way = Denied { errno: super::EACCES, ..chown() };
        assert_eq!(setting(&on_the_way).as_deref(), Some("mode and owner"), "it would be EPERM");
    }

    #[test]
    fn what_is_open_for_another_alone_is_no_mount_in_use() {
        let of = |syscall: &str, path: &str| {
            let path = Some(path.to_string());
            let (errno, syscall) = (super::EBUSY, syscall.to_string());
            let finding = found(&Denied { errno, path, syscall, ..chown() });
            assert!(finding.title.ends_with(": it is in use"), "{}", finding.title);
            (finding.remedy[0].command.clone(), finding.text.contains("open for itself alone"))
        };
        assert_eq!(of("openat", "/dev/ttyUSB0"), ("fuser -v /dev/ttyUSB0".into(), true));
        let mount = "fuser -vm /mnt/a; findmnt -R /mnt/a".to_string();
        assert_eq!(of("umount2", "/mnt/a"), (mount, false));
        let users = of("rmdir", "/sys/fs/cgroup/a").0;
        assert!(users.starts_with("find /sys/fs/cgroup/a -name cgroup.procs"), "{users}");
    }

    #[test]
    fn users_are_looked_for_by_where_it_is_inside_a_container() {
        let users = |path: &str| {
            let (path, through) = (format!("/proc/10/root{path}"), Some(thread(10, "job")));
            super::users_of(&super::FileSeen { path, through })
        };
        let root = "/proc/10/root";
        assert!(users("/sys/fs/cgroup/a").starts_with(&format!("find {root}/sys/fs/cgroup/a ")));
        assert_eq!(users("/mnt"), format!("fuser -vm {root}/mnt; findmnt -N 10"));
    }

    #[test]
    fn a_mount_of_fuse_is_unserved_where_no_daemon_of_it_is_known_to_live() {
        let dev = DeviceNumber { major: 0, minor: 50 };
        let title = |errno, fs_type: &str, daemon: Option<DeviceNumber>| {
            let (path, fs_type) = ("/srv".to_string(), fs_type.to_string());
            let mount = Mount { dev, path, fs_type, ..Mount::default() };
            let mut facts = vec![fact(Body::Mount(mount))];
            facts.extend(daemon.map(|dev| endpoint(20, "sshfs", ObjectRef::FuseServer { dev })));
            let finding = found_with(&Denied { errno, syscall: "openat".into(), ..chown() }, facts);
            let is_unmounted = finding.remedy[0].text.contains("umount");
            assert_eq!(is_unmounted, finding.title.ends_with("nobody serves it any more"));
            finding.title.rsplit(": ").next().map(str::to_string)
        };
        let (ended, cut_off) = (
            Some("nobody serves it any more".into()),
            Some("who serves it does not answer for it".into()),
        );
        let stale = Some("the server knows the file no more".into());
        assert_eq!(title(super::ENOTCONN, "fuse.sshfs", None), ended);
        assert_eq!(title(super::ENOTCONN, "fuse.sshfs", Some(dev)), cut_off);
        assert_eq!(title(super::ENOTCONN, "cifs", None), cut_off);
        assert_eq!(title(super::ESTALE, "nfs4", None), stale);
    }

    /// The way out of who may not write to a file, in a container of its own or not.
    fn way(errno: i32, path: &str, is_inside: bool) -> String {
        let group = "/system.slice/docker-1.scope".to_string();
        let cgroups = vec![Membership { controllers: Vec::new(), path: group.clone() }];
        let own = Thread { thread: thread(10, "job"), cgroups, ..Thread::default() };
        let container = Container {
            name: "web".into(),
            id: "1".into(),
            runtime: "docker".into(),
            cgroups: vec![group],
            pod: None,
        };
        let mut facts = host();
        facts.push(of_process(10, "job"));
        if is_inside {
            facts.extend([identity(own), fact(Body::Container(container))]);
        }
        let path = Some(path.to_string());
        for at in 1..=3 {
            let refused = Denied { errno, path: path.clone(), ..refusal(10, "job", "openat") };
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refused) });
            facts.push(slept(10, "job", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        explain(facts).findings[0].remedy[0].command.clone()
    }

    #[test]
    fn a_file_is_looked_at_where_whoever_is_refused_sees_it() {
        assert_eq!(way(super::EACCES, "/srv/a b", false), "namei -l '/srv/a b'");
        assert_eq!(way(super::EROFS, "/srv/a b", false), "findmnt -T '/srv/a b'");
        let root = "/proc/10/root";
        let inside = format!("ls -ld {root}/srv '{root}/srv/a b'");
        assert_eq!(way(super::EACCES, "/srv/a b", true), inside);
        let mounts = "findmnt -N 10 -o TARGET,SOURCE,FSTYPE,OPTIONS";
        assert_eq!(way(super::EROFS, "/srv/a b", true), mounts);
        assert_eq!(way(super::EBUSY, "/dev/snd/a", true), format!("fuser -v {root}/dev/snd/a"));
        assert_eq!(way(super::EACCES, "conf/a", true), "namei -l /proc/10/cwd/conf/a");
    }

    #[test]
    fn a_limit_on_the_size_of_files_can_be_raised() {
        let limit = DeniedLimit {
            kind: LimitKind::FileSize,
            limit: 4096,
            hard: u64::MAX,
            used: 0,
            cgroup_id: 0,
        };
        let write = Denied {
            errno: super::EFBIG,
            limit: Some(limit),
            path: None,
            ..refusal(10, "job", "write")
        };
        assert_eq!(found(&write).remedy[0].command, "prlimit --pid 10 --fsize=8192:");
        let unlimited = DeniedLimit { limit: u64::MAX, ..limit };
        let finding = found(&Denied { limit: Some(unlimited), ..write });
        assert!(finding.title.ends_with("its file system lets no file become so large"));
    }
}
