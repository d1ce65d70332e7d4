/*
 * refused.bpf.c: system calls that were refused, and for want of what.
 *
 * A thread that is refused a lock, a name, a process or a connection, sleeps, and asks again waits for it like one that the
 * kernel blocks, but no scheduler event says so. So does one that asks whether a process lives, and it does (kill(2) without a
 * signal, as scripts, pg_ctl and start-stop-daemon wait for an end; wait4(2) for one child that does not wait, as whoever waits for it
 * with a time limit): that is reported like a refusal. Of a refused call its file
 * is reported, its path or address (read from the caller's memory, which the kernel has just read itself), the limit that it met,
 * and whether a seccomp filter may have refused it.
 *
 * So is a look at a name, be it there or not, that a thread takes after it has taken none for LOOK_NS: who looks, sleeps and looks again
 * waits for a file, or watches it. Whoever looks at many has no such pause between them.
 *
 * So is a read from a connection that the other end resets or ends before a byte of it came: who listens there turns the caller away.
 *
 * A loop may be refused a million times a second. Of one thread the same refusal is reported once in SAME_NS, any refusal
 * once in OTHER_NS but for the first AT_ONCE in a row (a program is refused this, then that, and ends for the last of them); those
 * between are counted, and the next report carries their number.
 * Written by whom: all state here is by thread, and the thread itself writes it at the exit of its own call.
 *
 * Reported of who is asked about, and of those at the other ends of what it has open: what they are refused may be what it waits for.
 * Attached for `run` and for looks at one process only: a program at the exit of each system call costs every process of
 * the host. Calls that succeeded are counted there too, if they send or receive (messages.bpf.h), by the same program: a second one would cost as
 * much again. Must not: report other calls that succeeded, nor EAGAIN of sockets and pipes, which is how event loops work.
 * Rejected: the tracepoints of file locks (they know neither the caller's wish not to wait nor names).
 *
 * Edit together: refused_calls.bpf.h, messages.bpf.h, seccomp.bpf.h, src/decode/refused.rs, crates/reason/src/waits/retries.rs (what each refusal is for).
 */

#include "messages.bpf.h"
#include "refused_calls.bpf.h"
#include "seccomp.bpf.h"

#define EPERM 1
#define ENOENT 2
#define EAGAIN 11
#define ENOMEM 12
#define EACCES 13
#define EBUSY 16
#define EEXIST 17
#define EINVAL 22
#define ENFILE 23
#define EMFILE 24
#define EFBIG 27
#define ENOSPC 28
#define EROFS 30
#define EADDRINUSE 98
#define EADDRNOTAVAIL 99
#define ENETUNREACH 101
#define ECONNRESET 104
#define ENOTCONN 107
#define ECONNREFUSED 111
#define EHOSTUNREACH 113
#define EINPROGRESS 115
#define ESTALE 116
#define EDQUOT 122

#define F_SETLK 6
#define F_OFD_SETLK 37
#define LOCK_NB 4
#define AT_FDCWD (-100)

/* Of include/uapi/asm-generic/resource.h. */
#define RLIMIT_FSIZE 1
#define RLIMIT_NPROC 6
#define RLIMIT_NOFILE 7

/* Of include/net/tcp_states.h: the other end has ended, and this one has not. */
#define TCP_STATE_CLOSE_WAIT 8

/* Groups above one another that are looked at for a limit. */
#define LIMIT_LEVELS 8
/* The longest address: sockaddr_un. */
#define ADDRESS_BYTES 110

#define SAME_NS 5000000
#define OTHER_NS 100000
#define AT_ONCE 4
#define LOOK_NS 20000000

enum refused {
	REFUSED_NOTHING, /* that anybody waits for */
	REFUSED_RIGHT,
	REFUSED_LOCK,
	REFUSED_NAME,
	REFUSED_PROCESS,
	REFUSED_DESCRIPTOR,
	REFUSED_CONNECTION,
	REFUSED_ADDRESS,
	REFUSED_ROOM,
	REFUSED_SIZE,
	REFUSED_END, /* of a process that was asked after: it lives */
	REFUSED_SESSION, /* a connection, which the other end has made and ended */
	REFUSED_CHANGE, /* of a name that was looked at again: it is as it was, there or not */
};

/* Records are built here. */
struct refused_slot {
	struct wire_denied record;
	char slack[PATH_SLACK];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct refused_slot);
} refused_scratch SEC(".maps");

/* A thread's last refusal that was reported. */
struct refusal {
	__u64 what;
	__u64 at_ns;
	__u64 unreported;
	__u64 in_a_row; /* reported, each within SAME_NS of the one before */
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct refusal);
} refusals SEC(".maps");

/* When a thread last looked at a name. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} looks SEC(".maps");

static __always_inline bool is_refusal(__u64 error)
{
	const __u64 low = 1ULL << EPERM | 1ULL << EAGAIN | 1ULL << ENOMEM | 1ULL << EACCES | 1ULL << EBUSY |
			  1ULL << EEXIST | 1ULL << EINVAL | 1ULL << ENFILE | 1ULL << EMFILE | 1ULL << EFBIG |
			  1ULL << ENOSPC | 1ULL << EROFS;

	if (error < 64)
		return low >> error & 1;
	return error == ECONNREFUSED || error == ECONNRESET || error == EINPROGRESS || error == EADDRINUSE ||
	       error == EADDRNOTAVAIL || error == ENETUNREACH || error == EHOSTUNREACH || error == EDQUOT ||
	       error == ENOTCONN || error == ESTALE;
}

/* What a call was refused, by its number and error alone. */
static __always_inline enum refused refused_what(__s64 number, __u64 error)
{
	switch (error) {
	case EAGAIN:
	case EACCES:
		if (is_fcntl(number) || is_flock(number))
			return REFUSED_LOCK;
		if (error == EACCES)
			return REFUSED_RIGHT;
		return begins_process(number) ? REFUSED_PROCESS : REFUSED_NOTHING;
	case EPERM:
	case EROFS:
		return REFUSED_RIGHT;
	case ENOTCONN: /* whoever serves the file system is gone (FUSE), or knows the file no more (NFS) */
	case ESTALE:
	case EBUSY: /* it is in use: a mount, a folder that is one, a group with processes, a disk */
		return path_at(number) != NAME_NOWHERE ? REFUSED_RIGHT : REFUSED_NOTHING;
	case EFBIG:
		return writes(number) ? REFUSED_SIZE : REFUSED_NOTHING;
	case ENOMEM:
		return begins_process(number) ? REFUSED_PROCESS : REFUSED_NOTHING;
	case EEXIST:
		return name_at(number) != NAME_NOWHERE ? REFUSED_NAME : REFUSED_NOTHING;
	case ENFILE:
	case EMFILE:
		return REFUSED_DESCRIPTOR;
	case ENETUNREACH:
	case EHOSTUNREACH:
		return has_address(number) && !binds(number) ? REFUSED_CONNECTION : REFUSED_NOTHING;
	case ECONNREFUSED:
	case EINVAL: /* by a route of type blackhole */
	case EINPROGRESS:
		return connects(number) ? REFUSED_CONNECTION : REFUSED_NOTHING;
	case ECONNRESET:
		return REFUSED_SESSION;
	case EADDRINUSE:
		return binds(number) ? REFUSED_ADDRESS : REFUSED_NOTHING;
	case EADDRNOTAVAIL:
		return binds(number) || connects(number) ? REFUSED_ADDRESS : REFUSED_NOTHING;
	}
	/* ENOSPC, EDQUOT: for what is in a file, or for another name in a folder (no inode is left). Of other calls it is no room on a disk. */
	if (writes(number))
		return REFUSED_ROOM;
	return name_at(number) != NAME_NOWHERE ? REFUSED_NAME : REFUSED_NOTHING;
}

/* Whether it asked for a lock without waiting for it. */
static __always_inline bool tries_lock(__s64 number, const __u64 args[6])
{
	if (is_fcntl(number))
		return args[1] == F_SETLK || args[1] == F_OFD_SETLK;
	return args[1] & LOCK_NB;
}

/* Whether it asked after one process: it sent no signal, or looked for the end of that child and not of any. */
static __always_inline bool asks_after(struct pt_regs *regs, const __u64 args[6])
{
	return is_kill(regs) ? !args[1] : (__s32)args[0] > 0;
}

/* Whether it is asked about. */
static __always_inline bool is_of_target(struct task_struct *task)
{
	__u32 tgid = control.refused_tgid;
	struct thread_state *thread;

	if (tgid)
		return (__u32)task_field(task, tgid) == tgid ||
		       (__u32)BPF_CORE_READ(task, real_parent, tgid) == tgid;
	thread = thread_state_of(task, NEVER);
	return thread && thread->traced == 1;
}

/*
 * Threads whose refusals are wanted. A server without a free descriptor accepts nobody, so those refusals are wanted of every
 * process: there are few.
 */
static __always_inline bool is_watched(struct task_struct *task, long result)
{
	__u32 tgid = task_field(task, tgid);

	if (result == -EMFILE || result == -ENFILE)
		return true;
	for (int at = 0; at < WIRE_WATCHED; at++)
		if (control.watched_tgids[at] == tgid)
			return true;
	return is_of_target(task);
}

/* Whether this refusal is to be reported, and how many were not since the last one that was. */
static __always_inline bool is_due(__u32 tid, __u64 what, __u64 now, __u64 *unreported)
{
	struct refusal *last = bpf_map_lookup_elem(&refusals, &tid);
	struct refusal first = { .what = what, .at_ns = now };

	if (!last) {
		bpf_map_update_elem(&refusals, &tid, &first, BPF_ANY);
		return true;
	}
	if (now - last->at_ns < SAME_NS) {
		bool is_other = last->what != what && (last->in_a_row < AT_ONCE || now - last->at_ns >= OTHER_NS);

		if (!is_other) {
			last->unreported++;
			return false;
		}
		first.in_a_row = last->in_a_row + 1;
	}
	*unreported = last->unreported;
	*last = first;
	return true;
}

/* Whether the thread has looked at a name before, and at none since for a while. */
static __always_inline bool is_look_again(__u32 tid, __u64 now)
{
	__u64 *last_ns = bpf_map_lookup_elem(&looks, &tid);
	__u64 before_ns;

	if (!last_ns) {
		bpf_map_update_elem(&looks, &tid, &now, BPF_ANY);
		return false;
	}
	before_ns = *last_ns;
	*last_ns = now;
	return now - before_ns >= LOOK_NS;
}

/* The pids.max that is met, of the thread's group or one above it; else its RLIMIT_NPROC. */
static __always_inline void read_process_limit(struct wire_denied *record, struct task_struct *task)
{
	struct cgroup_subsys_state *css = 0;

	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, pids_cgrp_id) &&
	    bpf_core_field_exists(((struct pids_cgroup *)0)->limit.counter)) {
		int at = bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id);
		struct css_set *set = BPF_CORE_READ(task, cgroups);

		bpf_core_read(&css, sizeof(css), &set->subsys[at]);
		for (int level = 0; level < LIMIT_LEVELS; level++) {
			struct pids_cgroup *group = (struct pids_cgroup *)css;
			__s64 limit, used;

			if (!css)
				break;
			limit = BPF_CORE_READ(group, limit.counter);
			used = BPF_CORE_READ(group, counter.counter);
			if (used >= limit) {
				record->limit_kind = WIRE_LIMIT_PIDS_CGROUP;
				record->limit = limit;
				record->used = used;
				record->limit_cgroup_id = BPF_CORE_READ(css, cgroup, kn, id);
				return;
			}
			css = BPF_CORE_READ(css, parent);
		}
	}
	record->limit_kind = WIRE_LIMIT_NPROC;
	READ_LIMIT(record, task, RLIMIT_NPROC);
}

/*
 * Who connects without waiting is reported later. Where the other end is on this host its refusal is there already as the
 * call returns, and stands in the socket until it is asked for.
 */
static __always_inline bool is_refused_already(struct task_struct *task, __u32 fd)
{
	struct file *file = file_of(task, fd);
	struct socket *socket = file ? BPF_CORE_READ(file, private_data) : 0;

	return socket && (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK &&
	       BPF_CORE_READ(socket, sk, sk_err) == ECONNREFUSED;
}

/*
 * A connection of TCP that this end asked for, and the other end has reset or ended before a byte of it came. The kernel counts a SYN that was
 * acknowledged as a byte, so who accepted and sent nothing has none; and the FIN that came as one. Who has sent something and then
 * hears the end of it may have sent what needs no answer (a metric, a log line), and who shut its own side first is in another state.
 */
static __always_inline bool is_ended_session(struct task_struct *task, __u32 fd, long result)
{
	struct file *file = file_of(task, fd);
	struct tcp_sock *tcp;
	struct socket *socket;
	struct sock *sk;
	__u64 acked, received;
	__u16 family;

	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return false;
	socket = BPF_CORE_READ(file, private_data);
	sk = BPF_CORE_READ(socket, sk);
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if ((family != AF_INET && family != AF_INET6) || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return false;
	tcp = (struct tcp_sock *)sk;
	acked = BPF_CORE_READ(tcp, bytes_acked);
	received = BPF_CORE_READ(tcp, bytes_received);
	if (result)
		return !received && acked;
	/* Also a read of no bytes, and one where connecting was refused, return 0. */
	return BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_STATE_CLOSE_WAIT && received == 1 && acked == 1;
}

/* The path that the call was given; the folder that it begins in if it is relative. */
static __always_inline struct dentry *read_name(struct wire_denied *record, struct task_struct *task,
						const __u64 args[6])
{
	__u64 path = args[0];
	__s32 folder = AT_FDCWD;
	struct file *file;
	long bytes;

	switch (path_at(record->syscall)) {
	case NAME_NOWHERE:
		return 0;
	case NAME_SECOND:
		path = args[1];
		break;
	case NAME_SECOND_IN_FIRST:
		path = args[1];
		folder = (__s32)args[0];
		break;
	case NAME_THIRD_IN_SECOND:
		path = args[2];
		folder = (__s32)args[1];
		break;
	case NAME_FOURTH_IN_THIRD:
		path = args[3];
		folder = (__s32)args[2];
		break;
	default:
		break;
	}
	bytes = bpf_probe_read_user_str(record->given, sizeof(record->given), (void *)path);
	if (bytes <= 0)
		return 0;
	record->given_bytes = bytes;
	if (record->given[0] == '/')
		return 0;
	if (folder == AT_FDCWD)
		return BPF_CORE_READ(task, fs, pwd.dentry);
	file = file_of(task, (__u32)folder);
	return file ? BPF_CORE_READ(file, f_path.dentry) : 0;
}

/* The begin of a struct flock (include/uapi/asm-generic/fcntl.h): which bytes a lock is asked of. */
struct flock_range {
	__s16 type;
	__s16 whence;
	__s32 padding;
	__s64 start;
	__s64 length;
};

/* The begin of a struct msghdr, and of a struct mmsghdr. */
struct message_name {
	__u64 address;
	__u32 bytes;
	__u32 padding;
};

static __always_inline void read_address(struct wire_denied *record, const __u64 args[6])
{
	struct message_name name = { .address = args[1], .bytes = (__u32)args[2] };
	__u32 bytes;

	if (sends_to(record->syscall)) {
		name.address = args[4];
		name.bytes = (__u32)args[5];
	} else if (sends_message(record->syscall) && bpf_probe_read_user(&name, sizeof(name), (void *)args[1])) {
		return;
	}
	/* A connected socket needs none. */
	bytes = name.address ? name.bytes : 0;
	if (bytes > ADDRESS_BYTES)
		bytes = ADDRESS_BYTES;
	if (bytes && !bpf_probe_read_user(record->given, bytes & 127, (void *)name.address))
		record->given_bytes = bytes;
}

/* What was refused: names and files are read here, limits and addresses too. Returns bytes of path. */
static __always_inline __u32 read_refused(struct wire_denied *record, struct task_struct *task, enum refused what,
					  const __u64 args[6])
{
	struct dentry *dentry = 0;
	struct file *file = 0;

	switch (what) {
	case REFUSED_LOCK:
		if (is_fcntl(record->syscall) &&
		    !bpf_probe_read_user(record->given, sizeof(struct flock_range), (void *)args[2]))
			record->given_bytes = sizeof(struct flock_range);
		file = file_of(task, (__u32)args[0]);
		break;
	case REFUSED_ROOM:
	case REFUSED_SESSION:
		file = file_of(task, (__u32)args[0]);
		break;
	case REFUSED_NAME:
	case REFUSED_CHANGE:
		dentry = read_name(record, task, args);
		break;
	case REFUSED_RIGHT:
		if (has_address(record->syscall))
			read_address(record, args);
		else if (writes(record->syscall) || is_of_file(record->syscall))
			file = file_of(task, (__u32)args[0]);
		else
			dentry = read_name(record, task, args);
		break;
	case REFUSED_SIZE:
		record->limit_kind = WIRE_LIMIT_FSIZE;
		READ_LIMIT(record, task, RLIMIT_FSIZE);
		break;
	case REFUSED_PROCESS:
		read_process_limit(record, task);
		break;
	case REFUSED_DESCRIPTOR:
		record->limit_kind = WIRE_LIMIT_NOFILE;
		READ_LIMIT(record, task, RLIMIT_NOFILE);
		break;
	case REFUSED_ADDRESS:
		/* Each protocol has addresses of its own. */
		if (binds(record->syscall))
			file = file_of(task, (__u32)args[0]);
		read_address(record, args);
		break;
	case REFUSED_CONNECTION:
		read_address(record, args);
		break;
	default:
		break;
	}
	if (file) {
		read_file_object(&record->object, file);
		if (record->object.kind == WIRE_OBJECT_FILE)
			dentry = BPF_CORE_READ(file, f_path.dentry);
	} else if (dentry) {
		read_inode_object(&record->object, BPF_CORE_READ(dentry, d_inode));
	}
	return dentry ? read_dentry_path(record->path, dentry) : 0;
}

static __always_inline void report_refused(struct task_struct *task, enum refused what, __s64 number, long result,
					   const __u64 args[6], __u64 now, __u64 unreported)
{
	struct wire_denied *record;
	const struct cred *cred;
	__u32 zero = 0, path_bytes;
	__u64 length;

	record = bpf_map_lookup_elem(&refused_scratch, &zero);
	if (!record)
		return;
	begin_record(record, given);
	record->head.kind = WIRE_DENIED;
	record->head.at_ns = now;
	fill_ref(&record->thread, task);
	record->syscall = number;
	__builtin_memcpy(record->args, args, sizeof(record->args));
	record->result = result;
	/* One 64-bit word, as two halves before 6.3; the caller is often gone before /proc can tell. */
	cred = BPF_CORE_READ(task, cred);
	bpf_core_read(&record->capabilities, sizeof(record->capabilities), &cred->cap_effective);
	record->unreported = unreported;
	record->parent_tgid = BPF_CORE_READ(task, real_parent, tgid);
	record->filtered = is_filtered(task, number);
	path_bytes = read_refused(record, task, what, args);
	record->path_bytes = path_bytes;
	length = __builtin_offsetof(struct wire_denied, path) + (path_bytes & (WIRE_PATH_MAX - 1));
	record->head.length = length;
	send(record, length);
}

/* Of a call that succeeded: nearly all end here. */
static __always_inline int succeeded(struct pt_regs *regs, long result)
{
	enum wire_message_call call = message_call(regs);
	struct task_struct *current;

	if (call == WIRE_MESSAGE_CALLS)
		return 0;
	current = compat_current();
	if (is_of_target(current) && !compat_calls_32_bit(current, regs))
		count_message(current, regs, call, result);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long result)
{
	struct task_struct *current;
	enum refused what;
	__u64 args[6], call, now, unreported = 0;
	bool looks = (result >= 0 || result == -ENOENT) && is_look(regs);
	__s64 number;

	if (result > 0 && !looks)
		return succeeded(regs, result);
	if (!looks && !(result ? is_refusal(-result) : is_kill(regs) || is_reap(regs) || is_reading(regs)))
		return 0;
	current = compat_current();
	if (!is_watched(current, result) || compat_calls_32_bit(current, regs))
		return 0;
	if (result == -EAGAIN && is_receive(message_call(regs))) {
		if (is_of_target(current))
			found_no_message(current);
		return 0;
	}
	number = number_of_call(regs);
	what = looks ? REFUSED_CHANGE :
	       result ? refused_what(number, -result) :
	       is_reading(regs) ? REFUSED_SESSION :
				  REFUSED_END;
	if (what == REFUSED_NOTHING)
		return 0;
	read_arguments(args, regs);
	if (what == REFUSED_SESSION && !(is_reading(regs) && is_ended_session(current, (__u32)args[0], result)))
		return 0;
	if (what == REFUSED_END && !asks_after(regs, args))
		return 0;
	if (what == REFUSED_LOCK) {
		if (!tries_lock(number, args))
			return 0;
		/* Who holds it is in the kernel's table as long as he does. */
		mark(&queued.lock);
	}
	if (result == -EINPROGRESS) {
		if (!is_refused_already(current, (__u32)args[0]))
			return 0;
		result = -ECONNREFUSED;
	}
	now = bpf_ktime_get_ns();
	call = (__u64)number << 48 ^ (__u64)result << 32 ^ args[0] ^ args[1] << 8;
	if (looks ? !is_look_again(task_field(current, pid), now) :
		    !is_due(task_field(current, pid), call, now, &unreported))
		return 0;
	/* A descriptor. */
	if (result > 0)
		result = 0;
	report_refused(current, what, number, result, args, now, unreported);
	return 0;
}
