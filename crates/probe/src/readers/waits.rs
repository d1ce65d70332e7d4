//! Waits that stand now, without BPF: state, wchan, system call and stack of every thread in state
//! D, S or T.
//!
//! wchan and the state are for everybody; the system call and the stack need privileges and are
//! left out without them. Since when a thread waits is estimated from when it last ran (scheduler_clock.rs).

use super::scheduler_clock::SchedulerClock;
use crate::readers::threads::no_proc;
use crate::system::clock::Clock;
use crate::system::stat::Stat;
use crate::system::{Roots, guard, is_refusal, refused, text};
use holdup_reason::facts::{Blocked, Body, Ns, Place, WaitState};
use holdup_stacks::is_of_32_bits;
use std::path::{Path, PathBuf};

/// Blocked threads of the host. `intern` gives the identity of a stack (function names, innermost
/// first) and tells the `Stack` fact when it is new.
pub fn unprivileged_waits(
    roots: &Roots,
    now_ns: Ns,
    intern: &mut dyn FnMut(&[String]) -> u32,
) -> Vec<Body> {
    let pids = match text::ids(&roots.proc) {
        Ok(pids) => pids,
        Err(error) => return vec![Body::Blind(no_proc(&error))],
    };
    let mut waiting: Vec<(u32, PathBuf, Stat)> = Vec::new();
    for pid in pids {
        let task = roots.process(pid, "task");
        for tid in text::ids(&task).unwrap_or_default() {
            let folder = task.join(tid.to_string());
            let stat = Stat::read(&folder.join("stat"));
            if let Some(stat) = stat.filter(|stat| wait_state(stat.state).is_some()) {
                waiting.push((pid, folder, stat));
            }
        }
    }
    let folders = waiting.iter().map(|(_, folder, _)| folder.clone()).collect();
    // The system call and the stack take the exec lock: see guard.rs.
    let details = guard::map(folders, |folder| Detail::read(folder));
    let clock = Clock::now();
    let scheduler = SchedulerClock::read(roots);
    let mut facts = Vec::with_capacity(waiting.len());
    let mut refusals = 0;
    for ((pid, folder, stat), detail) in waiting.into_iter().zip(details) {
        let detail = detail.unwrap_or_default();
        refusals += usize::from(detail.refused);
        let start_ns = clock.start_ns(&stat);
        let since = scheduler.ran_ns(&folder, stat.cpu);
        let frames = detail.frames(&folder);
        facts.push(Body::Blocked(Blocked {
            thread: clock.thread_ref(&stat, pid),
            kernel: stat.kernel,
            since_ns: since.unwrap_or(now_ns).clamp(start_ns.min(now_ns), now_ns),
            since_estimated: true,
            woken: false,
            place: Place {
                state: wait_state(stat.state).unwrap_or_default(),
                syscall: detail.syscall,
                args: detail.args,
                stack: if frames.is_empty() { 0 } else { intern(&frames) },
                ..Place::default()
            },
        }));
    }
    let therefore = "system calls and kernel stacks of those threads are unknown";
    facts.extend(refused("proc.stack", refusals, therefore));
    facts
}

/// The state of a thread that does not run; `None` for one that does, or is being taken away.
pub fn wait_state(letter: char) -> Option<WaitState> {
    match letter {
        'S' => Some(WaitState::Sleep),
        'D' => Some(WaitState::DiskSleep),
        'I' => Some(WaitState::Idle),
        'T' => Some(WaitState::Stopped),
        't' => Some(WaitState::Traced),
        'Z' => Some(WaitState::Ended),
        _ => None,
    }
}

/// What needs privileges.
#[derive(Default)]
struct Detail {
    syscall: String,
    args: [u64; 6],
    stack: Vec<String>,
    refused: bool,
}

impl Detail {
    fn read(folder: &Path) -> Self {
        let mut detail = Self::default();
        if let Some((name, args)) =
            text::read(&folder.join("syscall")).ok().and_then(|b| syscall(&b))
        {
            (detail.syscall, detail.args) = (name, args);
        }
        match text::read(&folder.join("stack")) {
            Ok(bytes) => detail.stack = text::lines(&bytes).filter_map(frame).collect(),
            Err(error) => detail.refused = is_refusal(&error),
        }
        detail
    }

    /// The stack, or where it cannot be had, the one function that wchan names.
    fn frames(&self, folder: &Path) -> Vec<String> {
        if !self.stack.is_empty() {
            return self.stack.clone();
        }
        kernel_function(folder).into_iter().collect()
    }
}

/// The function that a thread waits in, by wchan; `0` stands for running, and for `may not be seen`.
pub(super) fn kernel_function(folder: &Path) -> Option<String> {
    let wchan = text::read_text(&folder.join("wchan")).ok()?;
    (!wchan.is_empty() && wchan != "0").then_some(wchan)
}

/// `202 0x7f.. 0x89 0x0 0x0 0x0 0x0 0x7ffd.. 0x7f..`; `-1 ..` and `running` have no system call. Of a program of 32 bits the call is not
/// known: its numbers are others, which this file does not say.
pub(super) fn syscall(bytes: &[u8]) -> Option<(String, [u64; 6])> {
    let mut words = text::words(bytes);
    let number = text::number(words.next()?)?;
    if left_user_space(bytes).is_some_and(is_of_32_bits) {
        return None;
    }
    let mut args = [0; 6];
    for (arg, word) in args.iter_mut().zip(words) {
        let digits = text::lossy(word.strip_prefix(b"0x")?);
        *arg = u64::from_str_radix(&digits, 16).ok()?;
    }
    let known = usize::try_from(number).ok().and_then(syscalls::Sysno::new);
    Some((known.map_or_else(|| number.to_string(), |known| known.name().into()), args))
}

/// The stack and the instruction at which a thread in a system call left user space: the last two words of the same line.
pub fn left_user_space(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut words = text::words(bytes)
        .skip(7)
        .map(|word| u64::from_str_radix(&text::lossy(word.strip_prefix(b"0x")?), 16).ok());
    Some((words.next()??, words.next()??))
}

/// `[<0>] futex_wait_queue+0x63/0x90` as the function's name alone.
fn frame(line: &[u8]) -> Option<String> {
    let line = text::lossy(line);
    let name = line.split_once("] ").map_or(&*line, |(_, name)| name);
    let name = name.split_once('+').map_or(name, |(name, _)| name).trim();
    (!name.is_empty()).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls() {
        let line = b"0 0x3 0x7ffc 0x400 0x0 0x0 0x0 0x7ffd54a3e1c8 0x7f21d0\n";
        let (name, args) = syscall(line).unwrap();
        #[cfg(target_arch = "x86_64")]
        assert_eq!(name, "read");
        assert!(!name.is_empty());
        assert_eq!(args[..3], [3, 0x7ffc, 0x400]);
        assert_eq!(syscall(b"-1 0x7ffd 0x7f\n"), None);
        assert_eq!(left_user_space(line), Some((0x7ffd_54a3_e1c8, 0x7f_21d0)));
        assert_eq!(left_user_space(b"-1 0x7ffd 0x7f\n"), None);
        assert_eq!(syscall(b"running\n"), None);
        assert_eq!(syscall(b"99999 0x1\n").unwrap().0, "99999");
    }

    /// 114 is wait4 of i386, and another call in the table of 64 bits.
    #[test]
    fn the_call_of_a_program_of_32_bits_is_not_known() {
        let line = |stack: &str| format!("114 0xffffffff 0x0 0x0 0x0 0x0 0x0 {stack} 0x8049ccb\n");
        assert_eq!(syscall(line("0xffc8d1d0").as_bytes()), None);
        let (name, _) = syscall(line("0x7ffc8d1d0000").as_bytes()).unwrap();
        #[cfg(target_arch = "x86_64")]
        assert_eq!(name, "setregid", "a program without PIE");
        assert!(!name.is_empty());
    }

    #[test]
    fn frames() {
        assert_eq!(frame(b"[<0>] pipe_read+0x2a/0x40 [mod]").unwrap(), "pipe_read");
        assert_eq!(frame(b"[<0>] 0xffffffff81").unwrap(), "0xffffffff81");
        assert_eq!(frame(b""), None);
    }
}
