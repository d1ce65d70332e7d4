//! Where waiting threads left user space, without kernel events: by /proc/PID/task/TID/syscall (proc(5)), which shows the stack and
//! the instruction of a thread that is in a system call.
//!
//! Owns that reading, for the threads that the walks over a command's family know to stand. The frame pointer is not shown, so it
//! is unknown until some function down the stack has saved it; code that needs it before ends the stack there. The count of time
//! slices stands for that of switches: who has had no other since did not move. Must not: ask for a thread of others, or read
//! in the caller's own thread what a dying process may keep it waiting for (guard.rs).

use super::seen::Standing;
use super::watch::slices;
use crate::readers::waits::left_user_space;
use crate::system::clock::now;
use crate::system::{Roots, guard, text};
use holdup_reason::facts::Ns;
use holdup_stacks::{Left, WAIT_NS_MIN};

/// Of the threads that stand for long already; of servers that the command waits for, those that stand since it began.
pub fn left(standing: Vec<Standing>, roots: &Roots, begin_ns: Ns) -> Vec<Left> {
    let at_ns = now();
    let wanted = |standing: &Standing| {
        at_ns.saturating_sub(standing.since_ns) >= WAIT_NS_MIN
            && (standing.own || standing.since_ns >= begin_ns)
    };
    let standing: Vec<Standing> = standing.into_iter().filter(wanted).collect();
    let roots = roots.clone();
    let read = guard::map(standing, move |standing| one(&roots, standing, at_ns));
    read.into_iter().flatten().flatten().collect()
}

fn one(roots: &Roots, standing: &Standing, at_ns: Ns) -> Option<Left> {
    let thread = standing.thread.clone();
    let folder = roots.process(thread.pid, "task").join(thread.tid.to_string());
    let switches = slices(&folder)?;
    let (stack, instruction) = left_user_space(&text::read(&folder.join("syscall")).ok()?)?;
    let since_ns = standing.since_ns;
    Some(Left { thread, at_ns, since_ns, switches, instruction, stack, ..Left::default() })
}
