//! Kernel functions that waits are known by: what a function that sleeps is named after.
//!
//! The rows are read in order, so the most telling come first. Names differ between kernels; each row lists those
//! seen from 5.4 to 6.18, without the suffixes that a compiler adds to its copies of a function.
//! Must not classify (waits.rs). Edit together: waits.rs and its tests.

use crate::facts::FILE_LOCK_FUNCTIONS;
use crate::waits::WaitClass;

/// Rows of kernel functions, the most telling first.
pub(super) const BY_FUNCTION: &[(WaitClass, &[&str])] = &[
    (WaitClass::FrozenCgroup, &["__refrigerator", "do_freezer_trap", "get_signal_freeze"]),
    (WaitClass::Stopped, &["do_signal_stop"]),
    (WaitClass::Traced, &["ptrace_stop", "ptrace_signal"]),
    (WaitClass::Vfork, &["wait_for_vfork_done"]),
    (WaitClass::DirtyThrottle, &["balance_dirty_pages", "balance_dirty_pages_ratelimited_flags"]),
    (
        WaitClass::FuseDaemon,
        &[
            "request_wait_answer",
            "__fuse_simple_request",
            "__fuse_request_send",
            "fuse_get_req",
            "fuse_wait_on_page_writeback",
            "fuse_simple_request",
        ],
    ),
    (
        WaitClass::SwapIn,
        &[
            "do_swap_page",
            "swap_read_folio",
            "swap_readpage",
            "swapin_readahead",
            "read_swap_cache_async",
        ],
    ),
    (
        WaitClass::Reclaim,
        &[
            "reclaim_throttle",
            "throttle_direct_reclaim",
            "shrink_node",
            "shrink_lruvec",
            "try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "mem_cgroup_handle_over_high",
            "__mem_cgroup_handle_over_high",
            "mem_cgroup_oom_synchronize",
            "out_of_memory",
        ],
    ),
    // Who asks for leave needs memory for the question: that is reclaim.
    (WaitClass::FileLeave, &["fanotify_get_response", "fanotify_handle_event"]),
    (
        WaitClass::Journal,
        &[
            "jbd2_log_wait_commit",
            "jbd2_complete_transaction",
            "wait_transaction_locked",
            "wait_transaction_switching",
            "start_this_handle",
            "add_transaction_credits",
            "jbd2_journal_get_write_access",
            "do_get_write_access",
            "jbd2_journal_lock_updates",
            "jbd2_fc_wait_bufs",
            "jbd2_fc_begin_commit",
            "xlog_wait_on_iclog",
            "xfs_log_force_seq",
            "xfs_log_force",
            "xfs_log_force_lsn",
            "__xfs_log_force_lsn",
            "xlog_cil_force_seq",
            "xlog_cil_force_lsn",
            "xlog_state_get_iclog_space",
            "xlog_grant_head_wait",
            "btrfs_wait_for_commit",
            "btrfs_commit_transaction",
            "wait_current_trans",
            "wait_log_commit",
            "wait_for_writer",
            "btrfs_sync_log",
            "f2fs_issue_checkpoint",
        ],
    ),
    (WaitClass::FileLock, FILE_LOCK_FUNCTIONS),
    // Of a file system whose files another host has: NFS, SMB, 9P, Ceph.
    (
        WaitClass::SocketRead,
        &[
            "rpc_wait_bit_killable",
            "nfs_wait_bit_killable",
            "wait_for_response",
            "compound_send_recv",
            "cifs_send_recv",
            "p9_client_rpc",
            "p9_client_zc_rpc",
            "ceph_mdsc_wait_request",
            "ceph_mdsc_do_request",
            "ceph_osdc_wait_request",
        ],
    ),
    (WaitClass::TtyWrite, &["n_tty_write", "tty_wait_until_sent", "tty_write_room"]),
    (
        WaitClass::PipeWrite,
        &[
            "pipe_write",
            "anon_pipe_write",
            "fifo_pipe_write",
            "wait_for_space",
            "pipe_wait_writable",
        ],
    ),
    (
        WaitClass::PipeRead,
        &[
            "pipe_read",
            "anon_pipe_read",
            "fifo_pipe_read",
            "pipe_wait_readable",
            "wait_for_partner",
        ],
    ),
    (WaitClass::UnixWrite, &["unix_wait_for_peer", "sock_alloc_send_pskb", "unix_stream_connect"]),
    (
        WaitClass::UnixRead,
        &[
            "unix_stream_read_generic",
            "unix_stream_data_wait",
            "__unix_dgram_recvmsg",
            "unix_dgram_recvmsg",
        ],
    ),
    (
        WaitClass::SocketConnect,
        &["inet_wait_for_connect", "inet_stream_connect", "__inet_stream_connect"],
    ),
    (
        WaitClass::SocketWrite,
        &["sk_stream_wait_memory", "sock_wait_for_wmem", "sk_stream_wait_connect"],
    ),
    (
        WaitClass::Idle,
        &["inet_csk_accept", "inet_csk_wait_for_connect", "unix_accept", "inet_accept"],
    ),
    (
        WaitClass::SocketRead,
        &[
            "tcp_recvmsg",
            "tcp_recvmsg_locked",
            "sk_wait_data",
            "__skb_wait_for_more_packets",
            "__skb_recv_udp",
            "udp_recvmsg",
        ],
    ),
    (
        WaitClass::Idle,
        &[
            "ep_poll",
            "do_epoll_wait",
            "io_cqring_wait",
            "do_sigtimedwait",
            "sigsuspend",
            "n_tty_read",
            "eventfd_read",
            "signalfd_dequeue",
            "inotify_read",
            "evdev_read",
            "fuse_dev_do_read",
            "do_syslog",
            "devkmsg_read",
            "fanotify_read",
            "perf_read",
        ],
    ),
    (WaitClass::Timer, &["hrtimer_nanosleep", "do_nanosleep", "timerfd_read", "timerfd_read_iter"]),
    (WaitClass::Child, &["do_wait", "kernel_wait4", "kernel_waitid"]),
];

/// Within these, a word of a program's memory is waited for, whichever call asked for it.
pub(super) const FUTEX_FUNCTIONS: &[&str] = &[
    "futex_wait",
    "__futex_wait",
    "futex_wait_queue",
    "futex_wait_queue_me",
    "futex_do_wait",
    "futex_wait_multiple",
];

/// Below these a thread that has crashed writes its core, into a file or into the pipe of a program (kernel.core_pattern).
pub(super) const CORE_DUMP_FUNCTIONS: &[&str] = &["vfs_coredump", "do_coredump", "elf_core_dump"];

/// Below these, an NFS lock waits until the host's own rpc.statd watches the other end for a restart.
pub const STATD_FUNCTIONS: &[&str] = &["nsm_mon_unmon", "nsm_monitor"];

/// Below these, an NFS client waits for a lock manager, which is a kernel thread where the server is this host.
pub const LOCKD_FUNCTIONS: &[&str] = &["nlmclnt_proc", "nlmclnt_lock", "nlmclnt_call"];

/// Below these, a sleep in state D is for a disk.
pub(super) const DISK_FUNCTIONS: &[&str] = &[
    "io_schedule",
    "io_schedule_timeout",
    "folio_wait_bit_common",
    "folio_wait_bit",
    "folio_wait_writeback",
    "folio_wait_bit_killable",
    "__folio_lock",
    "__folio_lock_killable",
    "__folio_lock_or_retry",
    "wait_on_page_bit",
    "wait_on_page_bit_common",
    "__lock_page",
    "bit_wait_io",
    "__wait_on_buffer",
    "submit_bio_wait",
    "bio_await_chain",
    "blk_mq_get_tag",
    "rq_qos_wait",
    "wbt_wait",
    "blk_io_schedule",
    "dio_await_completion",
    "__iomap_dio_rw",
    "iomap_dio_rw",
    "__blkdev_direct_IO",
    "blkdev_direct_IO",
    "blkdev_issue_flush",
    "bio_wait",
    "xfs_buf_iowait",
    "mempool_alloc",
    "blk_execute_rq",
    "filemap_fdatawait_range",
    "__filemap_fdatawait_range",
    "wait_on_bit_io",
    "wb_wait_for_completion",
    "ext4_wait_block_bitmap",
    "xfs_buf_iowait",
];

/// Acquiring a sleeping lock of the kernel.
pub(super) const LOCK_FUNCTIONS: &[&str] = &[
    "__mutex_lock",
    "mutex_lock",
    "mutex_lock_killable",
    "mutex_lock_interruptible",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
    "down_read",
    "down_write",
    "down_read_killable",
    "down_write_killable",
    "__down_common",
    "__down",
    "down",
    "rt_mutex_slowlock",
    "percpu_rwsem_wait",
    "__percpu_down_read",
    "percpu_down_write",
    "__rt_mutex_lock",
    "__mutex_lock_slowpath",
    "lock_sock_nested",
    "__lock_sock",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Place, WaitState};
    use crate::waits::classify::classify;

    #[test]
    fn who_asks_for_leave_and_has_no_memory_for_the_question_waits_for_memory() {
        let state = WaitState::DiskSleep;
        let place = Place { state, syscall: "openat".into(), ..Place::default() };
        let class = |frames: &[&str]| {
            let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
            classify(&place, &frames, false)
        };
        assert_eq!(class(&["fanotify_handle_event", "fsnotify"]), WaitClass::FileLeave);
        let reclaims = ["shrink_node", "try_to_free_mem_cgroup_pages", "fanotify_handle_event"];
        assert_eq!(class(&reclaims), WaitClass::Reclaim);
    }
}
