//! What a wait is for: from scheduler state, kernel stack, system call and object to a class.
//!
//! The kernel stack is the main witness: a function that waits is named after what it waits for. The
//! table (functions.rs) is read from the innermost frame's caller outwards in the order of its rows, so a wait
//! for a FUSE daemon inside a file lock call is the daemon's. Where there is no stack (waits that the
//! kernel side tells by system call alone, or hosts that hide stacks) the system call decides.
//!
//! Must not: follow who ended a wait (graph/), or weigh it (rules/).
//! Function names differ between kernels; each row lists the names that have been seen since 5.4.

use super::WaitClass;
use super::functions::{BY_FUNCTION, DISK_FUNCTIONS, FUTEX_FUNCTIONS, LOCK_FUNCTIONS};
use super::futex_value::{WITH_WAITERS, is_private};
use super::poll_intent::DNS_PORT;
use crate::facts::{ObjectRef, Place, ThreadRef, WaitState, Wake, WakeContext};

fn has(frames: &[String], names: &[&str]) -> bool {
    frames.iter().any(|frame| names.contains(&frame.as_str()))
}

/// The kernel function that asked for a lock: the first one outside of the locking code.
pub fn lock_caller(frames: &[String]) -> Option<&str> {
    let outside = |frame: &&String| {
        let frame = frame.as_str();
        !LOCK_FUNCTIONS.contains(&frame)
            && !frame.starts_with("__schedule")
            && !frame.starts_with("schedule")
            && !frame.contains("mutex")
            && !frame.contains("rwsem")
            && !frame.starts_with("0x")
    };
    frames.iter().find(outside).map(String::as_str)
}

/// Classifies a blocked wait.
pub fn classify(place: &Place, frames: &[String], kernel: bool) -> WaitClass {
    match place.state {
        WaitState::Runnable => return WaitClass::RunQueue,
        WaitState::Stopped => return WaitClass::Stopped,
        WaitState::Traced => return WaitClass::Traced,
        WaitState::Frozen => return WaitClass::FrozenCgroup,
        WaitState::Idle => return WaitClass::Idle,
        WaitState::Ended => return WaitClass::Zombie,
        _ => {}
    }
    if let Some(class) = stopped_terminal(place) {
        return class;
    }
    if has(frames, &["percpu_rwsem_wait", "__percpu_down_read", "__sb_start_write"])
        && is_write_to_file_system(frames, place)
    {
        return WaitClass::FrozenFs;
    }
    if kernel
        && has(frames, &["kthread_worker_fn", "worker_thread", "kjournald2"])
        && is_disk(frames, place)
    {
        return WaitClass::Disk;
    }
    if waits_for_blocks(place) {
        return WaitClass::Disk;
    }
    let by_function = by_function(frames, place);
    // What frees memory takes locks too, and is not about them.
    if place.lock.is_some() && by_function != Some(WaitClass::Reclaim) {
        return WaitClass::KernelLock;
    }
    if let Some(class) = by_function {
        return class;
    }
    if place.syscall.starts_with("futex") || has(frames, FUTEX_FUNCTIONS) {
        return futex(place);
    }
    if is_disk(frames, place) {
        if is_served(place, frames) {
            return WaitClass::FuseDaemon;
        }
        let faults = has(frames, &["filemap_fault", "do_fault", "__do_fault", "handle_mm_fault"]);
        return if faults { WaitClass::PageFault } else { WaitClass::Disk };
    }
    if place.state == WaitState::DiskSleep && has(frames, LOCK_FUNCTIONS) {
        return WaitClass::KernelLock;
    }
    // Where the compiler inlined wait_for_vfork_done: not while the child is still made.
    if has(frames, &["kernel_clone", "_do_fork"]) && !has(frames, &["copy_process"]) {
        return WaitClass::Vfork;
    }
    by_syscall(place)
}

/// Classifies a blocked wait whose end was seen, which says more.
pub fn classify_ended(
    thread: &ThreadRef,
    place: &Place,
    frames: &[String],
    kernel: bool,
    wake: &Wake,
) -> WaitClass {
    match classify(place, frames, kernel) {
        WaitClass::Idle if wake.disk.is_some() && is_async(place) => WaitClass::Disk,
        WaitClass::FutexWait if is_signalled(thread, place, wake) => WaitClass::Idle,
        class => class,
    }
}

fn is_async(place: &Place) -> bool {
    matches!(place.syscall.as_str(), "io_uring_enter" | "io_getevents" | "io_pgetevents")
}

/// Whether another process ended a wait for a word that it cannot wake (futex(2), FUTEX_PRIVATE_FLAG): with a signal, as a
/// child does that ends. Whoever waited there waited for an event, not for something that is held.
fn is_signalled(thread: &ThreadRef, place: &Place, wake: &Wake) -> bool {
    let by_task = wake.context == WakeContext::Task && !wake.by_kernel_thread;
    is_private(place) && by_task && wake.by.pid != 0 && wake.by.pid != thread.pid
}

/// Somebody typed ctrl-S there: only ctrl-Q lets it go on.
fn stopped_terminal(place: &Place) -> Option<WaitClass> {
    let writes = matches!(place.syscall.as_str(), "write" | "writev" | "ioctl");
    (place.output_stopped && writes).then_some(WaitClass::TtyStopped)
}

fn by_function(frames: &[String], place: &Place) -> Option<WaitClass> {
    let (class, _) = BY_FUNCTION.iter().find(|(_, names)| has(frames, names))?;
    // The journal's own functions submit and wait for blocks, and btrfs commits in its caller: what counts is the innermost reason.
    const FOR_BLOCKS: &[&str] = &[
        "submit_bio_wait",
        "__wait_on_buffer",
        "blk_mq_get_tag",
        "folio_wait_bit_common",
        "folio_wait_writeback",
        "wait_on_page_bit",
        "wait_on_page_bit_common",
    ];
    if *class == WaitClass::Journal && (place.iowait || has(frames, FOR_BLOCKS)) {
        return Some(WaitClass::Disk);
    }
    if *class == WaitClass::SocketRead && dns_socket(place) {
        return Some(WaitClass::Dns);
    }
    if matches!(class, WaitClass::UnixWrite | WaitClass::UnixRead)
        && matches!(place.object, Some(ObjectRef::Inet(_)))
    {
        return Some(WaitClass::SocketWrite);
    }
    Some(*class)
}

fn is_disk(frames: &[String], place: &Place) -> bool {
    has(frames, DISK_FUNCTIONS) || (place.iowait && place.state == WaitState::DiskSleep)
}

/// A file of a file system that a program serves. Of what is read ahead the waiter's own stack says only that it waits for a page; through an
/// overlay, whose file it is, which file system reads.
fn is_served(place: &Place, frames: &[String]) -> bool {
    const SERVED: [&str; 2] = ["fuse", "virtiofs"];
    if frames.iter().any(|frame| frame.starts_with("fuse_")) {
        return true;
    }
    let Some(ObjectRef::File(file)) = &place.object else { return false };
    SERVED.iter().any(|kind| file.fs_type.starts_with(kind))
}

fn is_write_to_file_system(frames: &[String], place: &Place) -> bool {
    let frozen = matches!(&place.object, Some(ObjectRef::File(file)) if file.frozen);
    frozen
        || has(
            frames,
            &[
                "mnt_want_write",
                "mnt_want_write_file",
                "file_start_write",
                "__sb_start_write",
                "vfs_write",
                "do_page_mkwrite",
                "ext4_page_mkwrite",
                "xfs_filemap_page_mkwrite",
                "sb_start_pagefault",
                "ext4_journal_check_start",
                "__ext4_journal_start_sb",
                "xfs_trans_alloc",
                "vfs_fallocate",
                "do_sys_openat2",
                "path_openat",
                "open_last_lookups",
            ],
        )
}

/// Asynchronous I/O that is under way on a disk, or held back before one: libaio has no other, io_uring may as well wait
/// for a socket.
fn waits_for_blocks(place: &Place) -> bool {
    let of_disk = place.held_back.is_some() || place.disk.is_some();
    match place.syscall.as_str() {
        "io_getevents" | "io_pgetevents" => place.async_in_flight.is_some_and(|n| n > 0) || of_disk,
        "io_uring_enter" => of_disk,
        _ => false,
    }
}

/// UDP or TCP, port 53 at the other end.
fn dns_socket(place: &Place) -> bool {
    matches!(&place.object, Some(ObjectRef::Inet(socket)) if socket.remote.port() == DNS_PORT)
}

/// By FUTEX_WAIT's expected value: 2 is "locked, with waiters" in glibc's and Rust's mutexes, and may be a lock where it is not
/// theirs (futex_value.rs, which knows the other waits). PI futexes are locks by definition. The newer calls have other arguments.
fn futex(place: &Place) -> WaitClass {
    const PI: [u64; 2] = [6, 13];
    if matches!(place.syscall.as_str(), "futex_wait" | "futex_waitv") {
        return WaitClass::FutexWait;
    }
    let [_, operation, expected, ..] = place.args;
    let command = operation & 127;
    if PI.contains(&command) || (matches!(command, 0 | 9) && expected == WITH_WAITERS) {
        return WaitClass::FutexLock;
    }
    WaitClass::FutexWait
}

fn by_syscall(place: &Place) -> WaitClass {
    match place.syscall.as_str() {
        "futex" | "futex_wait" | "futex_waitv" => futex(place),
        // A semaphore of System V's, or room in a queue of messages, is waited for like a word of the process: another
        // process gives it back.
        "semop" | "semtimedop" | "msgrcv" | "msgsnd" | "mq_timedreceive" | "mq_timedsend" => {
            WaitClass::FutexWait
        }
        _ if is_sleep(place) => WaitClass::Timer,
        "poll" | "ppoll" if dns_socket(place) => WaitClass::Dns,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select"
        | "pselect6" | "pause" | "rt_sigtimedwait" | "rt_sigsuspend" | "accept" | "accept4"
        | "io_uring_enter" | "io_getevents" => WaitClass::Idle,
        "nanosleep" | "clock_nanosleep" => WaitClass::Timer,
        "wait4" | "waitid" => WaitClass::Child,
        "flock" => WaitClass::FileLock,
        "vfork" => WaitClass::Vfork,
        "connect" => WaitClass::SocketConnect,
        syscall => by_object(place, syscall),
    }
}

/// Whether a call that waits for events was given none and a time: the old way to sleep for a part of a second. An argument that is
/// not known is 0, so the time has to be there.
fn is_sleep(place: &Place) -> bool {
    let [first, second, third, fourth, fifth, _] = place.args;
    match place.syscall.as_str() {
        "poll" => second == 0 && third as i32 > 0,
        "ppoll" => second == 0 && third != 0,
        "select" | "pselect6" => {
            let has_none = first == 0 || [second, third, fourth] == [0; 3];
            fifth != 0 && (has_none || has_empty_sets(place))
        }
        _ => false,
    }
}

/// Whether select was given sets without a descriptor. Who adds one to the highest of none says that there is one: that could be standard input alone, and
/// what that is would be known by the kernel's own table, which was read if its stack was.
fn has_empty_sets(place: &Place) -> bool {
    place.args[0] == 1 && place.object.is_none() && place.stack != 0
}

/// Whether a system call gives data to what it is on.
pub(crate) fn is_write_call(syscall: &str) -> bool {
    matches!(
        syscall,
        "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" | "pwrite64" | "sendfile" | "splice"
    )
}

fn by_object(place: &Place, syscall: &str) -> WaitClass {
    let writes = is_write_call(syscall);
    match (&place.object, writes) {
        (Some(ObjectRef::Pipe { .. }), false) => WaitClass::PipeRead,
        (Some(ObjectRef::Pipe { .. }), true) => WaitClass::PipeWrite,
        (Some(ObjectRef::Unix { .. }), false) => WaitClass::UnixRead,
        (Some(ObjectRef::Unix { .. }), true) => WaitClass::UnixWrite,
        (Some(ObjectRef::Inet(_)), false) if dns_socket(place) => WaitClass::Dns,
        (Some(ObjectRef::Inet(_)), false) => WaitClass::SocketRead,
        (Some(ObjectRef::Inet(_)), true) => WaitClass::SocketWrite,
        (Some(ObjectRef::Tty { .. }), true) => WaitClass::TtyWrite,
        (
            Some(ObjectRef::Tty { .. } | ObjectRef::FuseServer { .. } | ObjectRef::Other { .. }),
            _,
        ) => WaitClass::Idle,
        _ if place.state == WaitState::DiskSleep => WaitClass::Kernel,
        _ => WaitClass::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::FileRef;

    fn place(state: WaitState, syscall: &str) -> Place {
        Place { state, syscall: syscall.into(), ..Place::default() }
    }

    fn class(place: &Place, frames: &[&str]) -> WaitClass {
        let frames: Vec<String> = frames.iter().map(|f| (*f).to_string()).collect();
        classify(place, &frames, false)
    }

    #[test]
    fn a_semaphore_or_a_message_is_somebodys_turn() {
        let waits = [
            ("semop", "__do_semtimedop"),
            ("semtimedop", "__do_semtimedop"),
            ("msgrcv", "do_msgrcv"),
            ("mq_timedreceive", "wq_sleep"),
            ("mq_timedsend", "wq_sleep"),
        ];
        for (syscall, function) in waits {
            let at = place(WaitState::Sleep, syscall);
            assert_eq!(class(&at, &["schedule", function]), WaitClass::FutexWait, "{syscall}");
        }
    }

    #[test]
    fn vfork_is_no_disk() {
        let at = place(WaitState::DiskSleep, "vfork");
        assert_eq!(
            class(&at, &["__schedule", "schedule_timeout", "kernel_clone"]),
            WaitClass::Vfork
        );
    }

    #[test]
    fn who_still_makes_a_child_does_not_wait_for_it() {
        let at = place(WaitState::DiskSleep, "clone");
        let locked =
            ["schedule", "rwsem_down_read_slowpath", "dup_mmap", "copy_process", "kernel_clone"];
        assert_eq!(class(&at, &locked), WaitClass::KernelLock);
        assert_eq!(class(&at, &["schedule", "copy_process", "kernel_clone"]), WaitClass::Kernel);
    }

    #[test]
    fn a_group_above_memory_high_waits_for_memory_wherever_it_left_the_kernel() {
        let on_a_fault = [
            "schedule_timeout",
            "schedule_timeout_killable",
            "mem_cgroup_handle_over_high",
            "exit_to_user_mode_prepare",
            "irqentry_exit_to_user_mode",
            "asm_exc_page_fault",
        ];
        for syscall in ["", "mmap", "futex"] {
            let at = place(WaitState::DiskSleep, syscall);
            assert_eq!(class(&at, &on_a_fault), WaitClass::Reclaim, "{syscall}");
        }
    }

    #[test]
    fn a_lock_that_the_kernel_says_is_what_is_waited_for_but_where_memory_is_freed() {
        let mut at = place(WaitState::DiskSleep, "openat");
        at.lock = Some(Box::default());
        assert_eq!(class(&at, &["path_openat", "do_sys_openat2"]), WaitClass::KernelLock);
        assert_eq!(class(&at, &["pipe_write"]), WaitClass::KernelLock);
        assert_eq!(class(&at, &["try_to_free_pages"]), WaitClass::Reclaim);
    }

    #[test]
    fn a_frozen_file_system_is_no_kernel_lock() {
        let at = place(WaitState::DiskSleep, "openat");
        let stack =
            ["__schedule", "schedule", "percpu_rwsem_wait", "__percpu_down_read", "mnt_want_write"];
        assert_eq!(class(&at, &stack), WaitClass::FrozenFs);
    }

    #[test]
    fn a_page_of_a_file_that_a_daemon_serves_is_the_daemons() {
        let reads_by = |fs_type: &str, by: &str| {
            let file = FileRef { fs_type: fs_type.into(), ..FileRef::default() };
            let object = Some(ObjectRef::File(file));
            let at = Place { object, iowait: true, ..place(WaitState::DiskSleep, "read") };
            class(&at, &["io_schedule", "folio_wait_bit_common", "filemap_read", by])
        };
        let reads = |fs_type: &str| reads_by(fs_type, "vfs_read");
        assert_eq!(reads_by("overlay", "fuse_file_read_iter"), WaitClass::FuseDaemon);
        assert_eq!(reads_by("overlay", "ext4_file_read_iter"), WaitClass::Disk);
        assert_eq!(reads("fuse"), WaitClass::FuseDaemon);
        assert_eq!(reads("fuseblk"), WaitClass::FuseDaemon);
        assert_eq!(reads("ext4"), WaitClass::Disk);
    }

    #[test]
    fn a_journal_is_known_by_its_functions_and_not_where_they_wait_for_blocks() {
        let at = place(WaitState::DiskSleep, "fsync");
        for function in ["xfs_log_force", "xlog_cil_force_seq", "wait_log_commit"] {
            assert_eq!(class(&at, &["schedule", function]), WaitClass::Journal, "{function}");
        }
        let commits = ["folio_wait_bit_common", "btrfs_commit_transaction", "btrfs_sync_file"];
        assert_eq!(class(&at, &commits), WaitClass::Disk);
        assert_eq!(class(&at, &["schedule", commits[1]]), WaitClass::Journal);
        let supers = ["write_all_supers", "btrfs_sync_log", "btrfs_sync_file"];
        assert_eq!(class(&Place { iowait: true, ..at }, &supers), WaitClass::Disk);
    }

    #[test]
    fn a_file_of_another_host_is_waited_for_as_its_answer() {
        let at = place(WaitState::DiskSleep, "newfstatat");
        for function in ["rpc_wait_bit_killable", "p9_client_rpc", "ceph_mdsc_wait_request"] {
            let stack = ["schedule", function, "do_sys_newfstatat"];
            assert_eq!(class(&at, &stack), WaitClass::SocketRead, "{function}");
        }
        let locks = ["rpc_wait_bit_killable", "nlmclnt_call", "nlmclnt_lock", "nlmclnt_proc"];
        assert_ne!(class(&at, &locks), WaitClass::SocketRead, "a lock of such a file");
    }

    #[test]
    fn the_newer_calls_for_a_word_have_other_arguments() {
        for syscall in ["futex_wait", "futex_waitv"] {
            let mut at = place(WaitState::Sleep, syscall);
            at.args = [0x1000, 1, 2, 0, 0, 0];
            assert_eq!(class(&at, &[]), WaitClass::FutexWait, "{syscall}");
        }
        let waits = ["schedule", "futex_wait_multiple"];
        assert_eq!(class(&place(WaitState::Sleep, ""), &waits), WaitClass::FutexWait);
    }

    #[test]
    fn a_lock_call_that_waits_for_a_daemon_is_the_daemons() {
        let at = place(WaitState::Sleep, "flock");
        assert_eq!(class(&at, &["request_wait_answer", "fuse_setlk"]), WaitClass::FuseDaemon);
        assert_eq!(class(&at, &["schedule", "locks_lock_inode_wait"]), WaitClass::FileLock);
    }

    #[test]
    fn a_mutex_is_known_from_a_condition_by_its_value() {
        let mut at = place(WaitState::Sleep, "futex");
        at.args = [0x1000, 128, 2, 0, 0, 0];
        assert_eq!(class(&at, &["futex_wait_queue"]), WaitClass::FutexLock);
        at.args = [0x1000, 128 | 9, 7, 0, 0, 0];
        assert_eq!(class(&at, &["futex_wait_queue"]), WaitClass::FutexWait);
    }

    #[test]
    fn another_process_ends_a_wait_for_a_private_word_by_a_signal_only() {
        let thread = ThreadRef { pid: 10, tid: 12, ..ThreadRef::default() };
        let ended = |operation: u64, expected: u64, by_pid: u32, context: WakeContext| {
            let mut at = place(WaitState::Sleep, "futex");
            at.args = [0x1000, operation, expected, 0, 0, 0];
            let by = ThreadRef { pid: by_pid, tid: by_pid, ..ThreadRef::default() };
            let wake = Wake { context, by, ..Wake::default() };
            classify_ended(&thread, &at, &[], false, &wake)
        };
        assert_eq!(ended(128, 0, 20, WakeContext::Task), WaitClass::Idle);
        assert_eq!(ended(128, 0, 10, WakeContext::Task), WaitClass::FutexWait, "its own thread");
        assert_eq!(ended(0, 0, 20, WakeContext::Task), WaitClass::FutexWait, "a shared word");
        assert_eq!(ended(128, 0, 20, WakeContext::HardInterrupt), WaitClass::FutexWait);
        // A signal does not end the wait for a mutex, which goes on after it.
        assert_eq!(ended(128, 2, 20, WakeContext::Task), WaitClass::FutexLock);
    }

    #[test]
    fn a_wait_for_no_events_is_a_sleep() {
        let of = |syscall: &str, args: [u64; 6]| {
            class(&Place { args, ..place(WaitState::Sleep, syscall) }, &["do_select"])
        };
        assert_eq!(of("pselect6", [0, 0, 0, 0, 0x7ffc, 0]), WaitClass::Timer);
        assert_eq!(of("select", [8, 0, 0, 0, 0x7ffc, 0]), WaitClass::Timer);
        assert_eq!(of("poll", [0, 0, 100, 0, 0, 0]), WaitClass::Timer);
        assert_eq!(of("ppoll", [0, 0, 0x7ffc, 0, 0, 0]), WaitClass::Timer);
        assert_eq!(of("pselect6", [4, 0x7ff0, 0, 0, 0x7ffc, 0]), WaitClass::Idle);
        assert_eq!(of("poll", [0x7ff0, 1, 100, 0, 0, 0]), WaitClass::Idle);
        let of_one = |stack, object| {
            let at = place(WaitState::Sleep, "pselect6");
            let args = [1, 0x7ff0, 0x7ff8, 0, 0x7ffc, 0];
            class(&Place { args, stack, object, ..at }, &["do_select"])
        };
        assert_eq!(of_one(7, None), WaitClass::Timer, "a rate that pv was given");
        assert_eq!(of_one(0, None), WaitClass::Idle, "not known");
        assert_eq!(of_one(7, Some(ObjectRef::Pipe { ino: 5 })), WaitClass::Idle);
        assert_eq!(of("poll", [0, 0, u64::from(u32::MAX), 0, 0, 0]), WaitClass::Idle, "pause");
        assert_eq!(of("pselect6", [0; 6]), WaitClass::Idle, "not known");
    }

    #[test]
    fn waiting_for_events_is_idle() {
        assert_eq!(class(&place(WaitState::Sleep, "epoll_wait"), &[]), WaitClass::Idle);
        assert_eq!(class(&place(WaitState::Sleep, "poll"), &["do_poll"]), WaitClass::Idle);
    }
}
