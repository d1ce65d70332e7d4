//! The program that takes a core dump: the kernel starts it (kernel.core_pattern with `|`) with the pipe as its standard input.
//!
//! Nobody has the writing end, as the kernel writes for whoever crashed, so no descriptor leads from the one to the other. Two facts do: a
//! pipe that is read as standard input and that nobody writes, of a process that the kernel itself has begun. Must not: guess among several
//! that take dumps at a time, unless the number of the crashed one stands in the words of one (`%p`, as all known patterns have it).

use crate::facts::{Endpoint, ObjectRef, Thread, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::model::object::{CORE_DUMP, Object};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The kernel's thread that begins its programs.
const KTHREADD: u32 = 2;

/// The way.
pub(super) static WAY: Way = Way {
    name: "taker of a core dump",
    because: "the kernel began it to take the core dump",
    of: &[WaitClass::PipeWrite],
    thresholds: &[],
    follow: |at| taker(at.index, at.wait).map(Next::Thread),
};

fn taker(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    if wait.object != Object::Service(CORE_DUMP) {
        return None;
    }
    let threads = &index.model.threads;
    let takes = |end: &&Endpoint| {
        let ObjectRef::Pipe { ino } = end.object else { return false };
        let mut ends = index.connections.endpoints_on(ino).iter();
        end.fd == 0 && end.readable && !ends.any(|other| other.writable)
    };
    let known = |process: &ThreadRef| threads.by_id.get(&process.pid);
    let is_kernels = |known: &&Thread| match threads.by_id.get(&known.parent_pid) {
        Some(parent) => parent.kernel,
        // The kernel's own threads are not read where one process is looked at. Who is begun by them is in no session.
        None => known.parent_pid == KTHREADD && known.session == 0 && known.process_group == 0,
    };
    let ends = index.model.held.endpoints.iter().filter(takes);
    let mut all: Vec<&Thread> =
        ends.filter_map(|end| known(&end.process)).filter(is_kernels).collect();
    all.sort_by_key(|known| known.thread.pid);
    all.dedup_by_key(|known| known.thread.pid);
    // Whoever crashed is named by its number, as it sees it or as the host does.
    let crashed = known(&wait.thread).and_then(|it| it.inner_pid);
    let numbers = [Some(wait.thread.pid), crashed].map(|pid| pid.map(|it| it.to_string()));
    let names_it = |it: &&&Thread| {
        it.command.split(' ').any(|word| numbers.iter().flatten().any(|number| number == word))
    };
    let named: Vec<&&Thread> = all.iter().filter(names_it).collect();
    match (&named[..], &all[..]) {
        ([one], _) => Some(one.thread.clone()),
        ([], [one]) => Some(one.thread.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::KTHREADD;
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::{endpoint, fact, identity, thread};

    /// Process 10 writes its core; who reads a pipe as standard input that nobody writes: number, parent, words.
    fn dumps(readers: &[(u32, u32, &str)], frame: &str) -> (&'static str, Option<u32>) {
        let frames = ["anon_pipe_write", frame].map(String::from).to_vec();
        let mut facts = vec![fact(Body::Stack(Stack { id: 1, frames }))];
        facts.push(identity(Thread {
            kernel: true,
            thread: thread(KTHREADD, "kthreadd"),
            ..Thread::default()
        }));
        for (pid, parent_pid, command) in readers {
            let ino = u64::from(*pid);
            let mut end = endpoint(*pid, "handler", ObjectRef::Pipe { ino });
            if let Body::Endpoint(end) = &mut end.body {
                (end.fd, end.writable) = (0, false);
            }
            let (thread, parent_pid) = (thread(*pid, "handler"), *parent_pid);
            let command = (*command).to_string();
            facts.extend([
                end,
                identity(Thread { thread, parent_pid, command, ..Thread::default() }),
            ]);
        }
        facts.push(stands(of_ten(10), Place { stack: 1, ..place("kill", NO_ARGS, None) }));
        led(facts)
    }

    #[test]
    fn who_takes_the_core_is_the_one_that_the_kernel_began_for_it() {
        let by_kernel = (20, KTHREADD, "/usr/lib/takes-cores 11");
        let found = ("taker of a core dump", Some(20));
        assert_eq!(dumps(&[by_kernel, (30, 1, "cat")], "do_coredump"), found);
        let other = (21, KTHREADD, "/usr/lib/takes-cores 10");
        assert_eq!(dumps(&[by_kernel, other], "vfs_coredump"), ("taker of a core dump", Some(21)));
    }

    #[test]
    fn who_is_in_a_session_was_not_begun_by_the_kernel() {
        let of = |session| {
            let frames = ["anon_pipe_write", "vfs_coredump"].map(String::from).to_vec();
            let mut end = endpoint(20, "handler", ObjectRef::Pipe { ino: 5 });
            if let Body::Endpoint(end) = &mut end.body {
                (end.fd, end.writable) = (0, false);
            }
            let thread = thread(20, "handler");
            let known = Thread { thread, parent_pid: KTHREADD, session, ..Thread::default() };
            let dumps = Place { stack: 1, ..place("kill", NO_ARGS, None) };
            let stack = fact(Body::Stack(Stack { id: 1, frames }));
            led(vec![stack, end, identity(known), stands(of_ten(10), dumps)])
        };
        assert_eq!(of(0).1, Some(20), "the parent is not known");
        assert_eq!(of(7).1, None);
    }

    #[test]
    fn a_full_pipe_without_a_crash_is_no_dump_and_of_two_takers_none_is_guessed() {
        let one = (20, KTHREADD, "handler");
        assert_eq!(dumps(&[one], "vfs_write").1, None);
        assert_eq!(dumps(&[one, (21, KTHREADD, "handler")], "vfs_coredump").1, None);
    }
}
