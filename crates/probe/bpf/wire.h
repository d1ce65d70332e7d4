/*
 * wire.h: every struct that crosses from the kernel programs to user space, once.
 *
 * The Rust types are generated from the BTF of these (libbpf-cargo, `types::wire_*`), so there is no second copy to drift.
 * Each record starts with `wire_head`. A record with a path ends in it, and the fixed part has its length. There is no
 * implicit padding: every byte that is sent is initialised.
 *
 * Rejected: hand-mirrored Rust structs; one fat union (a short record would cost as much as a long one).
 * Edit together: src/decode/.
 */
#ifndef HOLDUP_WIRE_H
#define HOLDUP_WIRE_H

#define WIRE_FRAMES_MAX 32
#define WIRE_PATH_MAX 512
#define WIRE_WORDS_BYTES 160
#define WIRE_COMM_MAX 16
#define WIRE_LATENCY_SLOTS 32
#define WIRE_DNS_MAX 128
#define WIRE_GIVEN_MAX 256
#define WIRE_TENTHS_MAX 64

enum wire_kind {
	WIRE_WAIT = 1,
	WIRE_FORK = 2,
	WIRE_EXEC = 3,
	WIRE_EXIT = 4,
	WIRE_REQUEST = 5,
	WIRE_OOM = 6,
	WIRE_SIGNAL = 7,
	WIRE_DNS_QUERY = 8,
	WIRE_DNS_REPLY = 9,
	WIRE_DENIED = 10,
	WIRE_THREAD = 11,
	WIRE_ENDPOINT = 12,
	WIRE_REGISTERS = 13,
};

struct wire_head {
	__u32 kind;
	__u32 length; /* of the whole record, path included */
	__u64 at_ns;
};

struct wire_ref {
	__u32 tid;
	__u32 tgid;
	__u64 start_ns;
	char comm[WIRE_COMM_MAX];
};

enum wire_object_kind {
	WIRE_OBJECT_NONE = 0,
	WIRE_OBJECT_FILE = 1,
	WIRE_OBJECT_PIPE = 2,
	WIRE_OBJECT_INET = 3,
	WIRE_OBJECT_UNIX = 4,
	WIRE_OBJECT_TTY = 5,
	WIRE_OBJECT_FUSE = 6,
	WIRE_OBJECT_OTHER = 7,
};

struct wire_object {
	__u8 kind;
	__u8 frozen; /* of a terminal: its output is stopped */
	__u8 state; /* TCP state; of a pipe: it has a name, and its inode is one of `dev` */
	__u8 polled_for_room; /* polled to be written to, not read from */
	__u16 protocol;
	__u16 family;
	__u32 dev; /* kernel-internal dev_t: major << 20 | minor */
	__u32 rdev;
	__u64 ino;
	__u64 peer_ino;
	__u32 netns;
	__u16 local_port; /* host order */
	__u16 remote_port;
	__u8 local[16];
	__u8 remote[16];
	char name[32]; /* file system type, tty name */
};

/* Bits of `flags` in thread states, waits and threads. */
enum wire_flag {
	WIRE_FLAG_KERNEL = 0x1,
	WIRE_FLAG_IOWAIT = 0x2,
	WIRE_FLAG_THROTTLED = 0x4,
	WIRE_FLAG_TRACED = 0x8,
	WIRE_FLAG_WAKER_KERNEL = 0x10,
	WIRE_FLAG_BEGIN_UNSEEN = 0x20,
	WIRE_FLAG_FROZEN = 0x40,
};

/* From where a thread was woken. */
enum wire_context {
	WIRE_CONTEXT_UNKNOWN = 0,
	WIRE_CONTEXT_TASK = 1,
	WIRE_CONTEXT_SOFTIRQ = 2,
	WIRE_CONTEXT_HARDIRQ = 3,
};

enum wire_mode {
	WIRE_MODE_UNKNOWN = 0,
	WIRE_MODE_RUNNING = 1,
	WIRE_MODE_RUNNABLE = 2,
	WIRE_MODE_BLOCKED = 3,
};

struct wire_place {
	__u32 state; /* task state bits */
	__u32 frames; /* valid entries of frame[] */
	__s64 syscall; /* -1: none */
	__u64 args[6];
	__u32 disk; /* dev_t of the last bio this thread submitted, 0: none */
	__u16 disk_sleeps; /* how often it went to sleep since, this time included; as many as fit */
	__u16 cpu;
	struct wire_object object;
	/* Of a TCP connection on which Nagle's algorithm is on. */
	__u64 sent_us; /* when the last segment left that the other end has, if the last that left was small; 0: not known */
	__u32 unsent_bytes; /* behind what has not been acknowledged */
	__u32 rtt_us_min;
	__u64 frame[WIRE_FRAMES_MAX];
};

/* What a lock of the kernel guards, as far as a pointer back to the lock proves it. */
enum wire_lock_guards {
	WIRE_LOCK_UNKNOWN = 0,
	WIRE_LOCK_INODE = 1, /* the place's object */
	WIRE_LOCK_DIRECTORY = 2, /* likewise */
	WIRE_LOCK_MAPPING = 3, /* likewise: who maps that file */
	WIRE_LOCK_MEMORY = 4, /* a process's mappings */
	WIRE_LOCK_FILE_SYSTEM = 5,
};

/* A sleeping lock of the kernel that a thread waits for. */
struct wire_lock {
	__u64 address; /* 0: it waits for none, or for one that is not known */
	__u32 flags; /* as contention_begin gives them */
	__u32 guards;
	__u32 dev; /* of a file system */
	__u32 owner_reads; /* the owner is one of its readers, perhaps a former one */
	struct wire_ref owner; /* when the wait began; of one that stands, now */
	struct wire_ref process; /* of mappings */
};

struct wire_sums {
	__u64 since_ns;
	__u64 run_ns;
	__u64 runnable_ns;
	__u64 sleep_ns;
	__u64 switches;
	__u64 preemptions;
	__u64 disk_sleep_ns;
	__u64 iowait_ns;
	__u64 throttled_ns;
};

struct wire_wait {
	struct wire_head head; /* at_ns: on the CPU again */
	struct wire_ref thread;
	struct wire_ref waker;
	struct wire_ref ran_before;
	__u64 ran_since_ns; /* on the CPU since, before it left; 0: unknown */
	__u64 begin_ns;
	__u64 wake_ns; /* 0: never blocked */
	__u32 flags;
	__u32 context;
	__u32 wake_disk;
	__u32 path_bytes;
	__u64 cpu_cgroup_id;
	__u64 cgroup_id;
	struct wire_lock lock;
	struct wire_place place;
	char path[WIRE_PATH_MAX]; /* dentry names, innermost first, each with its NUL */
};

struct wire_fork {
	struct wire_head head;
	struct wire_ref parent;
	struct wire_ref child;
	__u64 flags;
};

struct wire_exec {
	struct wire_head head;
	struct wire_ref thread;
	__u32 words_bytes;
	__u32 inner_pid; /* in its innermost PID namespace */
	char path[256];
	char words[WIRE_WORDS_BYTES]; /* its arguments from the program's own name on, each with its NUL; the first of them */
};

struct wire_exit {
	struct wire_head head;
	struct wire_ref thread;
	struct wire_sums sums;
	__u64 ran_since_ns;
	__u64 executed_ns; /* as in wire_thread */
	__u64 cpu_cgroup_id;
	__u64 cgroup_id;
	__u32 flags;
	__u32 last; /* with it its process ends */
	__u32 parent_tgid;
	__u32 code; /* as wait(2) has it: status << 8 | signal */
};

/* From the task iterator: who, sums, and the standing wait. */
struct wire_thread {
	struct wire_head head;
	struct wire_ref thread;
	struct wire_sums sums;
	__u64 mode_since_ns; /* of the present mode; 0: not seen */
	__u64 woken_ns; /* woken at, if it waits for a CPU */
	__u64 last_arrival_clock; /* scheduler clock when it last got a CPU */
	__u64 ran_since_ns; /* of one that is not on a CPU: as in wire_wait */
	__u64 executed_ns; /* time on a CPU since it began, as the scheduler counts it; 0: not counted */
	__u64 cpu_cgroup_id;
	__u64 cgroup_id;
	__u32 flags;
	__u32 mode;
	__u32 on_cpu;
	__u32 path_bytes;
	__u32 parent_tgid;
	__s32 async_in_flight; /* less than none: not known */
	__u32 held_bios; /* of its group, by blk-throttle */
	__u32 held_disk;
	struct wire_lock lock;
	struct wire_place place;
	char path[WIRE_PATH_MAX];
};

/* From the task iterator, if it is asked for these alone: where a blocked thread of user space left it. */
struct wire_registers {
	struct wire_head head;
	struct wire_ref thread;
	__u64 since_ns; /* blocked, or seen, since */
	__u64 switches; /* of all its life: who has not switched stands where it stood */
	__u64 instruction;
	__u64 stack;
	__u64 frame; /* rbp, x29 */
	__u64 link; /* x30; 0 where return addresses are on the stack */
};

struct wire_socket {
	__u64 receive_limit_bytes;
	__u64 receive_queued_bytes;
	__u64 send_limit_bytes;
	__u64 send_queued_bytes;
	__u64 drops;
	__u32 accept_queue;
	__u32 accept_limit;
	__u32 rtt_us;
	__u32 rtt_us_min;
	__u32 congestion_window;
	__u32 segment_bytes;
	__u32 send_window_bytes;
	__u32 unsent_bytes;
	__u64 acked_bytes;
	__u64 received_bytes;
	__u32 retransmits;
	__u32 delivered;
	__u32 chrono[3]; /* tcp_sock::chrono_stat, jiffies */
	__u32 chrono_type;
	__u32 chrono_start;
	__u32 jiffies; /* read after all that is in jiffies */
	/* The rest only if has_turn: the connection is, or was, open both ways. */
	__u32 has_turn;
	__u32 write_seq;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_wl1;
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 packets_out;
	__u32 sent_jiffies; /* lsndtime */
	__u32 received_jiffies; /* lrcvtime */
	__u32 heard_jiffies; /* rcv_tstamp */
	__u16 nonagle;
	__u16 keepalive;
	__u64 first_tx_us;
	__u64 delivered_us;
	/* Of a listener: where the first in its queue has come to, and from where; family 0: nothing waits. */
	__u8 waiting_at[16];
	__u8 waiting_from[16];
	__u32 waiting_family;
	__u32 requests; /* connections that are half made */
	__u32 requests_limit; /* tcp_max_syn_backlog of its namespace */
	__u32 syncookies; /* tcp_syncookies of its namespace */
};

struct wire_endpoint {
	struct wire_head head;
	struct wire_ref process;
	__u32 fd;
	__u32 mode; /* f_mode: 1 readable, 2 writable */
	__u32 file_flags; /* f_flags */
	__u32 unread; /* of a terminal: its output is stopped */
	__u32 has_socket;
	__u32 path_bytes; /* bound path of a unix socket */
	struct wire_object object;
	struct wire_socket socket;
	char path[112];
};

struct wire_request {
	struct wire_head head; /* at_ns: completed */
	struct wire_ref by;
	__u64 insert_ns;
	__u64 issue_ns;
	__u64 sector;
	__u32 bytes;
	__u32 dev;
	__u32 operation; /* cmd_flags: REQ_OP_* and flags */
	__u32 error;
};

struct wire_oom {
	struct wire_head head;
	struct wire_ref victim;
	__u64 memory_cgroup_id;
	__u64 private_pages; /* writable and its own, touched or not; 0: not known */
};

struct wire_signal {
	struct wire_head head;
	struct wire_ref from;
	struct wire_ref to;
	__u16 signal;
	__u16 ignored;
	__u32 inner_pid; /* of the receiver's process, in its innermost PID namespace */
};

struct wire_dns {
	struct wire_head head;
	struct wire_ref thread;
	__u64 socket_ino;
	__u32 netns;
	__u16 family;
	__u16 local_port;
	__u16 remote_port;
	__u16 bytes; /* valid bytes of message */
	__u32 pad;
	__u8 local[16];
	__u8 remote[16];
	__u8 message[WIRE_DNS_MAX];
};

/* Which limit a call met. */
enum wire_limit {
	WIRE_LIMIT_NONE = 0,
	WIRE_LIMIT_PIDS_CGROUP = 1,
	WIRE_LIMIT_NPROC = 2, /* RLIMIT_NPROC as it is set, met or not */
	WIRE_LIMIT_NOFILE = 3,
	WIRE_LIMIT_FSIZE = 4,
};

struct wire_denied {
	struct wire_head head;
	struct wire_ref thread;
	__s64 syscall;
	__u64 args[6];
	__s64 result;
	__u64 capabilities; /* effective */
	__u64 unreported; /* refusals of this thread since the last one that was reported */
	__u64 limit;
	__u64 hard; /* of a RLIMIT_*, as limit is its soft one */
	__u64 used; /* 0: not known */
	__u64 limit_cgroup_id;
	__u32 limit_kind;
	__u32 parent_tgid;
	__u32 given_bytes;
	__u32 path_bytes;
	__u32 filtered; /* 1: a seccomp filter of the caller does not let this call pass as such */
	__u32 pad;
	struct wire_object object; /* the file; of a relative path, the folder that it begins in */
	char given[WIRE_GIVEN_MAX]; /* the path that the call was given, with its NUL, or the address */
	char path[WIRE_PATH_MAX]; /* of the object: dentry names, innermost first, each with its NUL */
};

/* Keys and values of maps that the reader drains at the end of the window; those of the network are in wire_net.h. */

struct wire_disk_key {
	__u32 dev;
	__u32 operation; /* 0 read, 1 write, 2 flush, 3 other */
};

struct wire_disk_latency {
	__u64 bytes;
	__u64 service_ns;
	__u64 service_ns_max;
	__u64 queued_ns;
	__u64 errors;
	__u64 slots[WIRE_LATENCY_SLOTS]; /* by log2 of microseconds; their sum is how many there were */
};

/* What one CPU has added up of that. The reader adds up the CPUs, and what is in the map of the same key. */
struct wire_disk_latency_slot {
	struct wire_disk_key key;
	__u32 owner; /* number of the CPU + 1; 0: nobody's */
	__u32 claims;
	struct wire_disk_latency sum;
	__u64 pad;
};

struct wire_disk_use_key {
	__u32 dev;
	__u32 tgid;
};

struct wire_disk_use {
	__u64 reads;
	__u64 read_bytes;
	__u64 writes;
	__u64 write_bytes;
	__u64 cgroup_id;
	struct wire_ref process;
};

struct wire_disk_use_slot {
	struct wire_disk_use_key key;
	__u32 owner; /* as above */
	__u32 claims;
	struct wire_disk_use sum;
	__u64 pad[5];
};

struct wire_reclaim_key {
	__u32 tid;
	__u32 memcg;
};

struct wire_reclaim {
	__u64 count;
	__u64 total_ns;
	__u64 pages;
	__u64 cgroup_id;
	struct wire_ref thread;
};

struct wire_cache_key {
	__u32 tgid; /* who brought pages in */
	__u32 by; /* who had them evicted before; 0: nobody was seen to */
};

struct wire_cache {
	__u64 pages; /* that those which were looked at stand for */
	__u64 cgroup_id;
	struct wire_ref process;
};

struct wire_refault_key {
	__u32 tgid;
	__u32 dev;
	__u64 ino;
};

struct wire_refault {
	__u64 pages; /* as above */
	__u64 path_bytes;
	char path[WIRE_PATH_MAX]; /* dentry names, innermost first, each with its NUL */
	char slack[128]; /* PATH_SLACK */
};

struct wire_dirtied_key {
	__u32 tgid;
	__u32 dev; /* of the file system; of a disk that is written as a file, its own */
};

struct wire_dirtied {
	__u64 pages; /* as above */
	struct wire_ref process;
};

struct wire_dirty_key {
	__u32 tid;
	__u32 pad;
	char bdi[24];
};

struct wire_dirty {
	__u64 count;
	__u64 pause_ns;
	__u64 task_ratelimit_pages;
	__u64 dirtied_pages;
	struct wire_ref thread;
};

struct wire_sample_key {
	__u32 tgid;
	__s32 stack; /* id in `stacks`; -EFAULT: user mode; any other negative number: it found no room there */
};

struct wire_sample {
	__u64 count;
	struct wire_ref process;
};

/* What a process does on the CPU: in which system call, or in the code of which file. */
struct wire_work_key {
	__u32 tgid;
	__s32 syscall; /* negative: its own code, a fault, an interrupt */
	__u64 code_ino; /* of the file that its own code is in; 0 in the kernel */
};

struct wire_work {
	__u64 count;
	__u64 asked_bytes; /* sum of the sizes asked for, where the system call has one */
	__u64 same_name; /* samples with this name, less those with another */
	struct wire_ref process;
	char name[64]; /* path that the system call was given, or the last part of the code's file; of most samples */
};

/* Where in a file the code of a process was hit. */
struct wire_point_key {
	__u64 code_ino;
	__u64 offset; /* in the file, or without one the address; a multiple of 16 */
	__u32 tgid;
	__u32 unused;
};

/* A thread's own counters at its first and its last sample. */
enum wire_effort_counter {
	WIRE_EFFORT_READS, WIRE_EFFORT_READ_BYTES,
	WIRE_EFFORT_WRITES, WIRE_EFFORT_WRITE_BYTES,
	WIRE_EFFORT_MINOR_FAULTS, WIRE_EFFORT_MAJOR_FAULTS,
	WIRE_EFFORT_COUNTERS,
};

struct wire_effort_key {
	__u32 tid;
};

struct wire_effort {
	__u64 first_ns;
	__u64 last_ns;
	__u64 first[WIRE_EFFORT_COUNTERS];
	__u64 last[WIRE_EFFORT_COUNTERS];
	__u64 rss_pages_max; /* of its process */
	struct wire_ref thread;
};

/* Processes whose refused calls are reported beside those of who is asked about. */
#define WIRE_WATCHED 8

/* Written by the reader, read by the programs. */
struct wire_control {
	__u64 threshold_ns;
	__u64 traced_threshold_ns; /* the same for traced threads */
	__u64 window_begin_ns;
	__u64 request_threshold_ns;
	__u64 attached_ns; /* the programs of the begin stand since; 0: not yet */
	__u32 own_tgid;
	__u32 follow_wakers;
	__u32 packet_mask; /* a packet is measured if hash & mask == 0 */
	__u32 only_traced; /* the iterator reports traced threads only */
	__u32 trace_tgid; /* the iterator marks its threads as traced */
	__u32 only_tid; /* the iterator reports this thread only */
	__u32 quiet; /* the reader may sleep for longer than a tick: what it must see soon calls it */
	__u32 refused_tgid; /* refused calls of this process and its children are reported; 0: of traced threads */
	__u32 only_registers; /* the iterator reports the registers of blocked threads, and nothing else */
	__u32 only_tgid; /* and of this process only */
	__u32 watched_tgids[WIRE_WATCHED]; /* and of these, for whom somebody may wait; 0: nobody */
};

/* Raised by the programs before it is queued, lowered by the reader. */
struct wire_queued {
	__u32 bio;
	__u32 lock; /* somebody, for a file lock or lease, or was refused one */
	__u32 packet; /* not one that finds its queue empty and is sent at once */
	__u32 name_server; /* somebody looked for the way to one; never lowered */
};

struct wire_lost {
	__u64 ring;
	__u64 requests;
	__u64 packets;
	__u64 negative_intervals;
	__u64 switches_unreported; /* a thread left a CPU that no event had put it on */
	__u64 braked; /* waits of traced threads that were only counted, the ring being half full */
};

#include "wire_net.h"

#endif
