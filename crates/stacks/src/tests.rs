//! A stack as it is read from outside: that of a thread of the test's own process, which waits in a function by name.
//!
//! Its registers come from /proc/PID/task/TID/syscall, which has the stack and the instruction, and from the thread itself,
//! which writes down its frame pointer before it waits. Must not need root.

use super::budget::Budget;
use super::modules::Modules;
use super::process::Process;
use super::reader;
use super::reader::{Batch, Helper};
use super::*;
use holdup_reason::facts::{Ns, ThreadRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const SECOND_NS: Ns = 1_000_000_000;
const LONG: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Gate {
    open: AtomicU32,
    tid: AtomicU32,
    frame: AtomicU64,
}

/// Its frame pointer stays the same while it waits: nothing but the call of the C library is below it.
#[inline(never)]
fn waits_at_the_gate(gate: &Gate) -> u32 {
    let frame: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register, and touches nothing else.
    unsafe {
        std::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("mov {}, x29", out(reg) frame, options(nomem, nostack));
    }
    gate.frame.store(frame, Ordering::SeqCst);
    // SAFETY: gettid has no preconditions.
    gate.tid.store(unsafe { libc::gettid() } as u32, Ordering::SeqCst);
    while gate.open.load(Ordering::SeqCst) == 0 {
        let (word, forever) = (gate.open.as_ptr(), std::ptr::null::<libc::timespec>());
        // SAFETY: the word outlives the call, and no time is passed.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 0, forever) };
    }
    std::hint::black_box(gate.open.load(Ordering::SeqCst))
}

/// Where a thread of this process stands, once it stands in a system call.
fn standing(gate: &Gate) -> Option<Left> {
    let (pid, tid) = (std::process::id(), gate.tid.load(Ordering::SeqCst));
    let of_thread = |name| std::fs::read_to_string(format!("/proc/self/task/{tid}/{name}")).ok();
    let stat = of_thread("stat")?;
    let text = of_thread("syscall")?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let hex = |at: usize| u64::from_str_radix(words.get(at)?.trim_start_matches("0x"), 16).ok();
    let thread = ThreadRef { tid, pid, ..ThreadRef::default() };
    let frame = gate.frame.load(Ordering::SeqCst);
    let (stack, instruction) = (hex(7)?, hex(8)?);
    let left = Left { thread, stack, instruction, frame, ..Left::default() };
    stat.contains(") S ").then_some(left)
}

/// What is read of a thread at the gate; then the gate is opened.
fn at_the_gate<T>(look: impl FnOnce(Left) -> T) -> T {
    let gate = Arc::new(Gate::default());
    let inside = Arc::clone(&gate);
    let waiter = std::thread::spawn(move || waits_at_the_gate(&inside));
    let mut found = None;
    for _ in 0..400 {
        std::thread::sleep(Duration::from_millis(5));
        found = standing(&gate);
        if found.is_some() {
            break;
        }
    }
    let out = look(found.unwrap());
    gate.open.store(1, Ordering::SeqCst);
    let word = gate.open.as_ptr();
    // SAFETY: the word lives as long as the gate, which this function holds.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1) };
    assert_eq!(waiter.join().unwrap(), 1);
    out
}

#[test]
fn a_thread_that_waits_is_read_down_to_its_begin_and_by_name() {
    let read = at_the_gate(|left| {
        let batch = Batch { left: vec![left], allowed_ns: SECOND_NS, timeout: LONG };
        reader::read(&batch, &mut Modules::default())
    });
    let stack = read.stacks[0].as_ref().unwrap();
    let functions: Vec<&str> = stack.frames.iter().map(|frame| &*frame.function).collect();
    assert_eq!(functions[0], "syscall", "{functions:?}");
    assert!(functions[1].ends_with("waits_at_the_gate"), "{functions:?}");
    assert!(stack.complete, "{functions:?}");
}

#[test]
fn a_helper_reads_it_too_and_no_more_than_it_may() {
    let (read, none) = at_the_gate(|left| {
        let helper = Helper::start().unwrap();
        let ask = |allowed_ns| {
            let batch = Batch { left: vec![left.clone(); 3], allowed_ns, timeout: LONG };
            helper.read(batch).unwrap()
        };
        (ask(SECOND_NS), ask(0))
    });
    assert_eq!((read.stacks.len(), read.stacks.iter().flatten().count()), (3, 3));
    assert_eq!(read.needed_ns, 0, "there was time for all");
    assert!(none.stacks.is_empty(), "there was no time");
}

#[test]
fn a_process_that_is_not_there_has_no_stack() {
    let thread = ThreadRef { tid: 1, pid: u32::MAX / 2, ..ThreadRef::default() };
    let left = Left { thread, ..Left::default() };
    let mut process = Process::open(left.thread.pid, &|| true).unwrap();
    let budget = Budget::begin(SECOND_NS, LONG);
    let walk = process.read(&left, &mut Modules::default(), &budget);
    assert!(walk.frames.is_empty() && !walk.ended);
}
