//! What a printed command would touch, and whether that is the lab's own. Reads nothing but which file a path leads to.
//!
//! The lab runs what holdup prints as root, so it reads the command first: only tools that are known here,
//! only one command at a time, and only processes, cgroups, mounts and network namespaces that the
//! scenario made; a kernel setting may be changed because the lab puts it back. All else is refused with
//! the reason. Commands that only look are no remedy and are counted apart. Rejected: running everything
//! in a sandbox (a remedy has to reach the very process that holds somebody up).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One thing that a command changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touch {
    /// A process: a signal, its priority, its CPUs.
    Process(i32),
    /// A file that is written.
    File(PathBuf),
    /// A mounted file system.
    Mount(PathBuf),
    /// A network namespace by name.
    Netns(String),
    /// The network namespace of a process.
    NetnsOf(i32),
    /// A terminal's settings.
    Terminal(PathBuf),
}

/// What a command is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// It changes these.
    Acts(Vec<Touch>),
    /// It holds for what is started from then on with these variables set.
    StartsAnew(Vec<(String, String)>),
    /// It changes nothing.
    LooksOnly,
    /// The lab cannot tell, or it cannot be run as it stands.
    Unclear(String),
}

/// Tools that only look.
const LOOKERS: &[&str] = &[
    "cat",
    "dig",
    "dmesg",
    "findmnt",
    "fuser",
    "grep",
    "head",
    "holdup",
    "ls",
    "lsblk",
    "lsof",
    "mtr",
    "perf",
    "ping",
    "ps",
    "smartctl",
    "ss",
    "strace",
    "tail",
    "tcpdump",
    "top",
    "tr",
    "tracepath",
];

/// Reads a command.
pub fn plan(command: &str) -> Plan {
    let command = &itself(&threads_as_process(command));
    let Some(words) = shlex::split(command) else {
        return Plan::Unclear("it is no command of a shell".into());
    };
    let words: Vec<String> = words.into_iter().flat_map(ended).collect();
    if let Some(word) = words.iter().find(|word| is_placeholder(word)) {
        return Plan::Unclear(format!("{word} is a placeholder"));
    }
    let parts: Vec<&[String]> =
        words.split(|word| matches!(word.as_str(), "|" | "||" | "&&" | ";")).collect();
    if parts.iter().all(|part| looks_only(part)) {
        return Plan::LooksOnly;
    }
    if parts.len() > 1 || command.contains(['`', ';']) || command.contains("$(") {
        return Plan::Unclear("more than one command".into());
    }
    if let Some(variables) = exported(&words) {
        return Plan::StartsAnew(variables);
    }
    match touches(&words) {
        Ok(touched) if touched.is_empty() => Plan::Unclear("it names nothing to change".into()),
        Ok(touched) => Plan::Acts(touched),
        Err(why) => Plan::Unclear(why),
    }
}

/// `a;` as the two words that it is.
fn ended(word: String) -> impl Iterator<Item = String> {
    let (word, end) = match word.strip_suffix(';') {
        Some(word) => (word.to_string(), Some(";".to_string())),
        None => (word, None),
    };
    (!word.is_empty()).then_some(word).into_iter().chain(end)
}

/// The variables of `export NAME=VALUE ...`.
fn exported(words: &[String]) -> Option<Vec<(String, String)>> {
    let (tool, rest) = words.split_first()?;
    let pairs = rest.iter().map(|word| word.split_once('=').map(|(n, v)| (n.into(), v.into())));
    let pairs: Option<Vec<_>> = pairs.collect();
    pairs.filter(|pairs| tool == "export" && !pairs.is_empty())
}

/// `$(ls /proc/7/task)`, all threads of process 7, as that process: the one substitution that is known.
fn threads_as_process(command: &str) -> String {
    let of_process = |tail: &str| {
        let (pid, rest) = tail.split_once("/task)")?;
        pid.parse::<u32>().ok().map(|pid| format!("{pid}{}", threads_as_process(rest)))
    };
    match command.split_once("$(ls /proc/") {
        Some((head, tail)) => {
            of_process(tail).map_or(command.into(), |tail| format!("{head}{tail}"))
        }
        None => command.into(),
    }
}

/// `$(cat FILE)` before the same FILE is written: what it held stays in it.
fn itself(command: &str) -> String {
    let shortened = |head: &str, tail: &str| {
        let (file, rest) = tail.split_once(")\"")?;
        (rest.trim() == format!("> {file}")).then(|| format!("{head}\"{rest}"))
    };
    match command.split_once("$(cat ") {
        Some((head, tail)) => shortened(head, tail).unwrap_or_else(|| command.into()),
        None => command.into(),
    }
}

/// `<pid>`, `PID`, `...`: something that the reader is to fill in.
fn is_placeholder(word: &str) -> bool {
    (word.starts_with('<') && word.ends_with('>') && word.len() > 2)
        || word.contains("...")
        || matches!(word, "PID" | "NAME" | "DEV" | "DEVICE" | "N" | "X" | "FILE")
}

/// Where one command runs another, the other decides.
fn looks_only(part: &[String]) -> bool {
    let Some((tool, rest)) = part.split_first() else { return false };
    match (tool.as_str(), rest) {
        ("ip", [netns, exec, _, other @ ..]) if netns == "netns" && exec == "exec" => {
            return looks_only(other);
        }
        ("nsenter", [option, _, others @ ..]) if option == "-t" => {
            let options = others.iter().take_while(|word| word.starts_with('-')).count();
            return looks_only(&others[options..]);
        }
        ("timeout", [_, other @ ..]) => return looks_only(other),
        ("sh", [option, text]) if option == "-c" => return plan(text) == Plan::LooksOnly,
        _ => {}
    }
    let writes = rest.iter().any(|word| word.starts_with('>'));
    let kills = tool == "fuser" && rest.iter().any(|word| word.starts_with("-k"));
    let looks = match tool.as_str() {
        // `ip -n NS ... show` looks, and so does `ip route get`.
        "ip" | "bridge" | "tc" => {
            rest.iter().any(|word| matches!(word.as_str(), "show" | "list" | "get"))
        }
        // An option may write (-w), or load a file (-p).
        "sysctl" => !rest.iter().any(|word| word.contains('=') || word.starts_with('-')),
        "openssl" => rest.first().is_some_and(|word| word == "speed"),
        other => LOOKERS.contains(&other),
    };
    looks && !writes && !kills
}

fn touches(words: &[String]) -> Result<Vec<Touch>, String> {
    let (tool, rest) = words.split_first().ok_or("it is empty")?;
    match tool.as_str() {
        "kill" => {
            let options = rest.iter().take_while(|word| word.starts_with('-')).count();
            if options > 1 {
                return Err("it signals a whole process group".into());
            }
            rest[options..].iter().map(|word| process(word)).collect()
        }
        "renice" | "ionice" => {
            let after = rest.iter().skip_while(|word| *word != "-p" && *word != "--pid");
            let whom: Vec<&String> = after.skip(1).collect();
            if whom.is_empty() {
                return Err("it starts a program".into());
            }
            whom.into_iter().map(|word| process(word)).collect()
        }
        "chrt" | "taskset" => {
            let last = rest.last().ok_or("it names no process")?;
            if !rest.iter().any(|word| word == "-p" || word == "--pid") {
                return Err("it starts a program".into());
            }
            Ok(vec![process(last)?])
        }
        "prlimit" => {
            let after = rest.iter().skip_while(|word| *word != "--pid").nth(1);
            Ok(vec![process(after.ok_or("it starts a program")?)?])
        }
        "echo" | "printf" => match rest {
            [.., arrow, file] if matches!(arrow.as_str(), ">" | ">>") => {
                Ok(vec![Touch::File(file.into())])
            }
            _ => Err("it does not write one file".into()),
        },
        "sysctl" => {
            let settings: Vec<_> = rest.iter().filter_map(|word| word.split_once('=')).collect();
            let file = |key: &str| Path::new("/proc/sys").join(key.trim().replace('.', "/"));
            Ok(settings.into_iter().map(|(key, _)| Touch::File(file(key))).collect())
        }
        "stty" => match rest {
            [f, terminal, ..] if f == "-F" => Ok(vec![Touch::Terminal(terminal.into())]),
            _ => Err("it changes the lab's own terminal".into()),
        },
        "fsfreeze" | "umount" => {
            let last = rest.last().ok_or("it names no mount")?;
            Ok(vec![Touch::Mount(last.into())])
        }
        "tc" => match rest {
            [option, name, ..] if option == "-n" => Ok(vec![Touch::Netns(name.clone())]),
            _ => Err("it changes the host's own network".into()),
        },
        "ip" => match rest {
            [netns, exec, name, ..] if netns == "netns" && exec == "exec" => {
                Ok(vec![Touch::Netns(name.clone())])
            }
            _ => Err("it changes the host's own network".into()),
        },
        "nsenter" => match rest {
            [t, pid, n, ..] if t == "-t" && n == "-n" => Ok(vec![Touch::NetnsOf(number(pid)?)]),
            _ => Err("the lab knows nsenter -t PID -n only".into()),
        },
        "docker" | "podman" | "lxc-unfreeze" | "lxc" | "systemctl" | "crictl" => {
            Err(format!("there is no {tool} in the lab"))
        }
        "ulimit" | "cd" | "export" => Err(format!("{tool} changes only the shell that runs it")),
        other => Err(format!("the lab does not know what {other} touches")),
    }
}

fn number(word: &str) -> Result<i32, String> {
    match word.parse() {
        Ok(pid) if pid > 1 => Ok(pid),
        _ => Err(format!("{word} is no process id")),
    }
}

fn process(word: &str) -> Result<Touch, String> {
    number(word).map(Touch::Process)
}

/// What the scenario made.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// Its processes.
    pub pids: BTreeSet<i32>,
    /// Directories of its cgroups.
    pub cgroups: Vec<PathBuf>,
    /// Its mount points.
    pub mounts: Vec<PathBuf>,
    /// Its network namespaces.
    pub netns: Vec<String>,
    /// Terminals that its processes hold open, as (device, inode).
    pub terminals: BTreeSet<(u64, u64)>,
    /// Files of the host's own that a path of a process may lead to, as (device, inode).
    pub foreign: BTreeSet<(u64, u64)>,
}

/// Which file stands behind a path: device and inode.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|known| (known.dev(), known.ino()))
}

/// The process of a path below `/proc/PID/root`, a file as that process sees it.
pub fn root_of(path: &Path) -> Option<i32> {
    let mut parts = path.strip_prefix("/proc").ok()?.iter();
    let pid = parts.next()?.to_str()?.parse().ok()?;
    (parts.next()? == "root").then_some(pid)
}

/// The process of `/proc/PID/autogroup`.
fn autogroup_of(path: &Path) -> Option<i32> {
    let rest = path.strip_prefix("/proc").ok()?;
    let pid = rest.parent()?.to_str()?.parse().ok()?;
    (rest.file_name()? == "autogroup").then_some(pid)
}

impl Own {
    /// Why something must not be touched; none if it may.
    pub fn refuses(&self, touch: &Touch) -> Option<String> {
        match touch {
            Touch::Process(pid) | Touch::NetnsOf(pid) if !self.pids.contains(pid) => {
                Some(format!("process {pid} is not of this scenario"))
            }
            Touch::Mount(path) if !self.mounts.contains(path) => {
                Some(format!("{} is not a mount of this scenario", path.display()))
            }
            Touch::Netns(name) if !self.netns.contains(name) => {
                Some(format!("network namespace {name} is not of this scenario"))
            }
            Touch::File(path) => self.refuses_file(path),
            Touch::Terminal(path)
                if !identity(path).is_some_and(|known| self.terminals.contains(&known)) =>
            {
                Some(format!("{} is no terminal of this scenario", path.display()))
            }
            _ => None,
        }
    }

    fn refuses_file(&self, path: &Path) -> Option<String> {
        let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
        // As a process of the lab sees it, and not a file of the host.
        let seen = root_of(path).is_some_and(|pid| self.pids.contains(&pid))
            && identity(path).is_some_and(|known| !self.foreign.contains(&known));
        // The nice value of a session of the lab's own.
        let session = autogroup_of(path).is_some_and(|pid| self.pids.contains(&pid));
        // Below a group of the lab, or a kernel setting: both are put back.
        let own = self.cgroups.iter().any(|group| path.starts_with(group))
            || path.starts_with("/proc/sys")
            || seen
            || session;
        (climbs || !own).then(|| format!("{} is not of this scenario", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of /etc as a process sees it.
    fn seen_by(pid: i32, name: &str) -> String {
        let root = format!("/proc/{pid}/root");
        format!("{root}/etc/{name}")
    }

    fn acts(command: &str) -> Vec<Touch> {
        match plan(command) {
            Plan::Acts(touched) => touched,
            other => panic!("{command}: {other:?}"),
        }
    }

    #[test]
    fn commands_are_read_as_what_they_touch() {
        assert_eq!(acts("kill 77"), vec![Touch::Process(77)]);
        assert_eq!(acts("kill -CONT 77"), vec![Touch::Process(77)]);
        assert_eq!(acts("renice -n 19 -p 77"), vec![Touch::Process(77)]);
        assert_eq!(acts("renice -n 19 -p $(ls /proc/77/task)"), vec![Touch::Process(77)]);
        assert_eq!(acts("taskset -a -c -p 0,1 77"), vec![Touch::Process(77)]);
        assert_eq!(
            acts("echo \"7:3 500\" > '/sys/fs/cgroup/blkio/a b/x'"),
            vec![Touch::File("/sys/fs/cgroup/blkio/a b/x".into())]
        );
        assert_eq!(
            acts("sysctl -w vm.dirty_bytes=4096"),
            vec![Touch::File("/proc/sys/vm/dirty_bytes".into())]
        );
        assert_eq!(
            acts("tc -n near qdisc replace dev eth0 root fq_codel"),
            vec![Touch::Netns("near".into())]
        );
        assert_eq!(
            acts(&format!("echo 'options timeout:1' >> {}", seen_by(77, "resolv.conf"))),
            vec![Touch::File(seen_by(77, "resolv.conf").into())]
        );
        assert_eq!(
            acts("printf '%s\\n' 'nameserver 10.0.0.2' \"$(cat /a/b)\" > /a/b"),
            vec![Touch::File("/a/b".into())]
        );
        assert_eq!(
            acts("stty -F /dev/pts/9 -drain -ixon"),
            vec![Touch::Terminal("/dev/pts/9".into())]
        );
        assert_eq!(
            plan("export TZ=:/etc/localtime"),
            Plan::StartsAnew(vec![("TZ".into(), ":/etc/localtime".into())])
        );
        assert_eq!(acts("nsenter -t 77 -n tc qdisc del dev eth0 root"), vec![Touch::NetnsOf(77)]);
        let accept = "ip netns exec near iptables -I OUTPUT -p icmp -j ACCEPT";
        assert_eq!(acts(accept), vec![Touch::Netns("near".into())]);
        assert_eq!(acts("fsfreeze -u /mnt/x"), vec![Touch::Mount("/mnt/x".into())]);
    }

    #[test]
    fn what_only_looks_is_distinguished() {
        for command in [
            "cat /proc/7/task/7/stack",
            "dmesg | grep -w loop3; smartctl -a /dev/loop3",
            "ls -l /proc/*/fd 2>/dev/null | grep pipe",
            "holdup --for 30s -v   # the victims of loop3",
            "grep -A 3 -F ':9' /proc/7/smaps | head",
            "openssl speed -evp aes-128-gcm; openssl speed -evp chacha20-poly1305",
            "tr '\\0' '\\n' < /proc/7/environ | grep -i cap",
            "ip netns exec near dig @127.1.2.3 -q far.internal +time=1 +tries=1",
            "ip netns exec near timeout 10 tcpdump -i tun81 -nvv src host 172.17.35.1",
            "ip netns exec near sh -c 'grep . /sys/class/net/ens1/queues/rx-*/rps_cpus'",
            "nsenter -t 77 -n ss -tnoi dst 10.18.190.2:18293",
            "nsenter -t 77 -n tc -s qdisc show",
            "ip netns exec near bridge fdb show dev vx7",
            "ip netns exec near sysctl net.ipv4.tcp_wmem",
        ] {
            let looked = plan(command);
            assert!(looked == Plan::LooksOnly, "{command}: {looked:?}");
        }
    }

    #[test]
    fn what_is_not_plain_is_refused_with_its_reason() {
        for (command, why) in [
            ("kill <pid>", "placeholder"),
            ("kill PID", "placeholder"),
            ("kill -- -77", "process group"),
            ("kill 1", "no process id"),
            ("kill 7; rm -rf /", "more than one"),
            ("cat /etc/hosts; rm -rf /", "more than one"),
            ("openssl enc -in x -out y", "does not know"),
            ("kill 7 && reboot", "more than one"),
            ("kill $(cat x)", "more than one"),
            ("echo \"$(cat /etc/shadow)\" > x", "more than one"),
            ("renice -n 19 -p $(ls /proc/*/task)", "more than one"),
            ("tc qdisc replace dev eth0 root fq_codel", "host's own network"),
            ("fuser -k /data", "does not know"),
            ("reboot", "does not know"),
            ("ulimit -r 99", "only the shell"),
            ("echo x", "one file"),
            ("export TZ", "only the shell"),
            ("stty -ixon", "own terminal"),
            ("kill", "nothing to change"),
            ("echo 'x", "no command"),
        ] {
            match plan(command) {
                Plan::Unclear(said) => assert!(said.contains(why), "{command}: {said}"),
                other => panic!("{command}: {other:?}"),
            }
        }
    }

    #[test]
    fn only_the_scenario_may_be_touched() {
        let own = Own {
            pids: [77].into(),
            cgroups: vec!["/sys/fs/cgroup/cpu/a".into()],
            mounts: vec!["/mnt/x".into()],
            netns: vec!["near".into()],
            ..Own::default()
        };
        for touch in [
            Touch::Process(77),
            Touch::File("/sys/fs/cgroup/cpu/a/cpu.shares".into()),
            Touch::File("/proc/sys/vm/dirty_bytes".into()),
            Touch::Mount("/mnt/x".into()),
            Touch::Netns("near".into()),
        ] {
            assert_eq!(own.refuses(&touch), None);
        }
        for touch in [
            Touch::Process(78),
            Touch::NetnsOf(78),
            Touch::File("/sys/fs/cgroup/cpu/cpu.shares".into()),
            Touch::File("/sys/fs/cgroup/cpu/a/../cpu.shares".into()),
            Touch::File("/etc/passwd".into()),
            Touch::Mount("/".into()),
            Touch::Netns("far".into()),
        ] {
            assert!(own.refuses(&touch).is_some(), "{touch:?}");
        }
    }

    #[test]
    fn a_file_that_a_process_sees_may_be_touched_unless_it_is_the_hosts() {
        let me = std::process::id().cast_signed();
        let path = PathBuf::from(seen_by(me, "passwd"));
        let mut own = Own { pids: [me].into(), ..Own::default() };
        assert_eq!(own.refuses(&Touch::File(path.clone())), None);
        own.foreign.extend(identity(Path::new("/etc/passwd")));
        assert!(own.refuses(&Touch::File(path.clone())).is_some());
        own.pids.clear();
        own.foreign.clear();
        assert!(own.refuses(&Touch::File(path)).is_some());
        assert!(own.refuses(&Touch::Terminal("/dev/null".into())).is_some());
    }
}
