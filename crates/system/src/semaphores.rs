//! Semaphores of System V, asked of the kernel by semctl(2): those of the own IPC namespace, by processes of the own PID namespace.
//!
//! The kernel keeps the process whose operation on a semaphore was the last. /proc/sysvipc/sem has sets only, so each semaphore is asked for. Must not:
//! change one, or say that the last one has it. Rejected: IPC_STAT for the number of semaphores (its struct differs between C libraries).

use std::path::Path;

/// Semaphores of a set that are asked for: a set may have thousands.
const SEMAPHORES_MAX: u32 = 256;

/// A semaphore for which somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Semaphore {
    /// Its place in the set.
    pub number: u32,
    /// Its value.
    pub value: u32,
    /// The process whose operation was the last, as the own PID namespace numbers it; 0 if it is of another one, or none was.
    pub last_pid: u32,
}

/// Those of a set for whose value to rise somebody waits; none if the set is gone, or may not be read.
pub fn waited_for(set: i32) -> Vec<Semaphore> {
    let mut all = Vec::new();
    for number in 0..SEMAPHORES_MAX {
        let Some(waiters) = ask(set, number, libc::GETNCNT) else { break };
        let known = (ask(set, number, libc::GETVAL), ask(set, number, libc::GETPID));
        if let (Some(value), Some(last_pid), true) = (known.0, known.1, waiters > 0) {
            all.push(Semaphore { number, value, last_pid });
        }
    }
    all
}

fn ask(set: i32, number: u32, what: libc::c_int) -> Option<u32> {
    // SAFETY: these questions take no argument behind the command, and give a number or -1.
    let answer = unsafe { libc::semctl(set, number as libc::c_int, what) };
    u32::try_from(answer).ok()
}

/// Whether a process is in the own IPC and PID namespaces, where its numbers of sets and of processes are one's own.
pub fn is_in_own_namespaces(process: &Path) -> bool {
    let own = Path::new("/proc/self");
    ["ns/ipc", "ns/pid"].iter().all(|name| {
        let of = |folder: &Path| std::fs::read_link(folder.join(name)).ok();
        of(process).is_some_and(|its| of(own) == Some(its))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semaphore_that_is_waited_for_says_who_was_at_it_last() {
        // SAFETY: a set of one's own, which is removed below.
        let set = unsafe { libc::semget(libc::IPC_PRIVATE, 2, 0o600 | libc::IPC_CREAT) };
        assert!(set >= 0);
        assert_eq!(waited_for(set), [], "nobody waits");
        // SAFETY: as the header of the call has it: no argument that is read.
        assert!(unsafe { libc::semctl(set, 1, libc::SETVAL, 1) } >= 0);
        let take = move || {
            let mut operation = libc::sembuf { sem_num: 1, sem_op: -1, sem_flg: 0 };
            // SAFETY: one operation, which outlives the call.
            unsafe { libc::semop(set, &mut operation, 1) }
        };
        assert_eq!(take(), 0);
        let waits = std::thread::spawn(take);
        let begun = std::time::Instant::now();
        let mut seen = Vec::new();
        while seen.is_empty() && begun.elapsed().as_secs() < 5 {
            seen = waited_for(set);
        }
        // SAFETY: as above; whoever waits is let go with an error.
        unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
        let expected = Semaphore { number: 1, value: 0, last_pid: std::process::id() };
        assert_eq!(seen, [expected]);
        assert_eq!(waits.join().ok(), Some(-1));
        assert_eq!(waited_for(set), [], "it is gone");
    }

    #[test]
    fn the_own_process_is_in_its_own_namespaces() {
        assert!(is_in_own_namespaces(Path::new("/proc/self")));
        assert!(!is_in_own_namespaces(Path::new("/proc/none")));
    }
}
