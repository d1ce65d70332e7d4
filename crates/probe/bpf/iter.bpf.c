/*
 * iter.bpf.c: what stands still makes no event, so both ends of the window walk all threads.
 *
 * `threads` reports the sums of each thread and, if it is blocked, its standing wait. The walk at the begin also creates
 * the state of each thread, so that a wait that began before the look is complete when it ends.
 * `endpoints` reports who holds which socket, pipe, terminal and FUSE device, in every network namespace.
 *
 * If asked, `threads` reports only where blocked threads left user space: their user stacks are read from those
 * addresses, and are whole if the count of switches is the same before and after.
 *
 * Memory order: a walk reads a thread's state while its CPU may write it. run_delay is read before the state, so that what
 * is added meanwhile is in the sums already; a mode that the walk sets at first sight is overwritten by a racing switch.
 * One walk at a time: the scratch records are shared.
 */
#include "async.bpf.h"

struct thread_slot {
	struct wire_thread thread;
	char slack[PATH_SLACK];
	__u64 numbers[2]; /* of `as_number` */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct thread_slot);
} thread_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_endpoint);
} endpoint_scratch SEC(".maps");

/*
 * When a thread was woken that waits for a CPU; 0: it is blocked. If no clock was read then, as long ago as it has
 * been queued, and now if its CPU has yet to queue it.
 */
static __always_inline __u64 woken_at(const struct thread_state *thread, const struct task_struct *task, __u32 state, __u64 now)
{
	const struct wake *wake = &slot_at(task_field(task, pid))->wake;
	struct cpu_state *own;
	__u64 queued_clock;

	if (thread->mode != WIRE_MODE_BLOCKED || thread->wake_ns || (state && !(state & TASK_WAKING)))
		return thread->wake_ns;
	if (wake->task == (__u64)task && (wake->flags & WAKE_DATED) && wake->at_ns >= thread->since_ns)
		return wake->at_ns;
	own = own_cpu();
	queued_clock = compat_last_queued(task);
	if (!own->runqueue || !queued_clock)
		return now;
	return woken(thread, task, queued_clock + own->ahead_ns);
}

/* Of the thread that the walk has come to. */
__noinline __u32 object_of_thread(__u64 task, __u64 registers)
{
	struct wire_thread *out;
	__u32 zero = 0;

	out = bpf_map_lookup_elem(&thread_scratch, &zero);
	return out ? read_object(&out->place, out->path, task, registers) : 0;
}

__noinline __u32 lock_of_thread(__u64 task)
{
	struct wire_thread *out;
	__u32 zero = 0;

	out = bpf_map_lookup_elem(&thread_scratch, &zero);
	return out ? read_lock(&out->lock, &out->place, out->path, out->path_bytes, task, true) : 0;
}

/* Where a thread stands, if it does; gives bytes of path. */
static __always_inline __u32 read_standing(struct wire_thread *out, struct task_struct *task, bool kernel)
{
	volatile __u64 *numbers = ((struct thread_slot *)out)->numbers;
	__u32 path_bytes = 0;
	__u64 held = 0, address;

	out->place.syscall = -1;
	out->async_in_flight = -1;
	if (!out->on_cpu && out->place.state && !task->exit_state &&
	    !(kernel && !(out->place.state & TASK_UNINTERRUPTIBLE)) && !(out->place.state & TASK_NOLOAD)) {
		path_bytes = read_place(&out->place, task, kernel, true, object_of_thread, numbers);
		address = as_number(&numbers[0], task);
		out->path_bytes = path_bytes;
		path_bytes = lock_of_thread(address);
		out->async_in_flight = in_flight(address, &out->place);
		if (waits_for_bios(task, &out->place))
			held = throttle_held(address);
	}
	out->held_bios = held;
	out->held_disk = held >> 32;
	return path_bytes;
}

#if defined(__TARGET_ARCH_x86)
static __always_inline void read_registers(struct wire_registers *out, struct pt_regs *regs)
{
	out->instruction = BPF_CORE_READ(regs, ip);
	out->stack = BPF_CORE_READ(regs, sp);
	out->frame = BPF_CORE_READ(regs, bp);
	out->link = 0;
}
#else
static __always_inline void read_registers(struct wire_registers *out, struct pt_regs *regs)
{
	out->instruction = BPF_CORE_READ(regs, pc);
	out->stack = BPF_CORE_READ(regs, sp);
	out->frame = BPF_CORE_READ(regs, regs[29]);
	out->link = BPF_CORE_READ(regs, regs[30]);
}
#endif

/* Of a thread that stands still outside of its own code; the counts are read before the registers. */
static __always_inline int report_registers(struct seq_file *seq, struct wire_registers *out, struct task_struct *task,
					  const struct thread_state *thread)
{
	if (thread->mode != WIRE_MODE_BLOCKED || task->flags & PF_KTHREAD || task->exit_state ||
	    !compat_task_state(task) || compat_task_on_cpu(task))
		return 0;
	if (control.only_tgid && (__u32)task->tgid != control.only_tgid)
		return 0;
	out->head.kind = WIRE_REGISTERS;
	out->head.length = sizeof(*out);
	out->head.at_ns = bpf_ktime_get_ns();
	fill_ref(&out->thread, task);
	out->since_ns = thread->since_ns;
	out->switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	read_registers(out, compat_task_pt_regs(task));
	bpf_seq_write(seq, out, sizeof(*out));
	return 0;
}

SEC("iter/task")
int threads(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct wire_thread *out;
	struct thread_state *thread;
	__u32 zero = 0, path_bytes;
	__u64 now, length, run_delay_ns;
	bool kernel;

	if (!task || (control.only_tid && (__u32)task->pid != control.only_tid))
		return 0;
	out = bpf_map_lookup_elem(&thread_scratch, &zero);
	thread = thread_state_of(task, ANYWHERE);
	if (!out || !thread || (control.only_traced && !thread->traced))
		return 0;
	if (control.only_registers)
		return report_registers(seq, (struct wire_registers *)out, task, thread);
	begin_record(out, place.frame);
	kernel = task->flags & PF_KTHREAD;
	if (control.trace_tgid && (__u32)task->tgid == control.trace_tgid) {
		trace(thread, task, 1);
		/* Of what is traced short waits are reported too, and so the one that it is in. */
		if (thread->mode >= WIRE_MODE_RUNNABLE)
			thread->begin = DATED;
	}
	/* Before its state: what is added meanwhile is in the sums by then. */
	run_delay_ns = compat_run_delay(task);
	now = bpf_ktime_get_ns();
	out->place.state = compat_task_state(task);
	out->on_cpu = compat_task_on_cpu(task);
	if (!out->place.state)
		see_throttled(task, compat_queue(task));
	if (thread->mode == WIRE_MODE_UNKNOWN) {
		/* First sight: the mode is read, not seen; a racing switch overwrites it. */
		first_seen(thread, task, now);
		thread->state = out->place.state;
		if (out->on_cpu) {
			thread->mode = WIRE_MODE_RUNNING;
			thread->since_ns = now;
		} else {
			thread->flags = WIRE_FLAG_BEGIN_UNSEEN | (BPF_CORE_READ_BITFIELD(task, in_iowait) ? WIRE_FLAG_IOWAIT : 0);
			thread->since_ns = now;
			thread->mode = out->place.state ? WIRE_MODE_BLOCKED : WIRE_MODE_RUNNABLE;
		}
	}
	out->head.kind = WIRE_THREAD;
	out->head.at_ns = now;
	fill_ref(&out->thread, task);
	fill_sums(&out->sums, thread, task, run_delay_ns);
	out->mode_since_ns = thread->since_ns;
	out->woken_ns = woken_at(thread, task, out->place.state, now);
	out->ran_since_ns = thread->mode == WIRE_MODE_RUNNING ? 0 : thread->ran_since_ns;
	out->executed_ns = compat_executed(task);
	out->last_arrival_clock = BPF_CORE_READ(task, sched_info.last_arrival);
	out->cpu_cgroup_id = subsystem_cgroup_id(task, cpu_cgrp_id);
	out->cgroup_id = unified_cgroup_id(task);
	out->flags = (thread->flags & ~THREAD_FLAGS_OWN) | (kernel ? WIRE_FLAG_KERNEL : 0) |
		     (thread->traced ? WIRE_FLAG_TRACED : 0) | (BPF_CORE_READ_BITFIELD(task, frozen) ? WIRE_FLAG_FROZEN : 0);
	out->mode = thread->mode;
	out->parent_tgid = BPF_CORE_READ(task, real_parent, tgid);
	read_disk(&out->place, thread, task->nvcsw);
	out->place.cpu = thread->cpu;
	path_bytes = read_standing(out, task, kernel);
	out->path_bytes = path_bytes;
	length = __builtin_offsetof(struct wire_thread, path) + (path_bytes & (WIRE_PATH_MAX - 1));
	out->head.length = length;
	bpf_seq_write(seq, out, length);
	return 0;
}

#define TCP_STATE_SYN_SENT 2
#define TCP_STATE_SYN_RECEIVED 3
#define TCP_STATE_CLOSED 7
#define SOCKET_FLAG_KEEPALIVE (1UL << 3)

/* Who spoke last, as far as the connection itself knows. */
static __always_inline void read_turn(struct wire_socket *state, struct tcp_sock *tcp, struct sock *sk)
{
	struct inet_connection_sock *connection = compat_followed(tcp, struct inet_connection_sock);
	__u8 tcp_state = followed_field(sk, __sk_common.skc_state);

	if (tcp_state == TCP_STATE_SYN_SENT || tcp_state == TCP_STATE_SYN_RECEIVED || tcp_state == TCP_STATE_CLOSED ||
	    !bpf_core_field_exists(tcp->first_tx_mstamp) || !bpf_core_field_exists(tcp->delivered_mstamp) ||
	    !bpf_core_field_exists(tcp->lsndtime) || !bpf_core_field_exists(tcp->rcv_tstamp) ||
	    !bpf_core_field_exists(connection->icsk_ack.lrcvtime))
		return;
	state->has_turn = 1;
	state->write_seq = followed_field(tcp, write_seq);
	state->snd_nxt = followed_field(tcp, snd_nxt);
	state->snd_una = followed_field(tcp, snd_una);
	state->snd_wl1 = followed_field(tcp, snd_wl1);
	state->rcv_nxt = followed_field(tcp, rcv_nxt);
	state->copied_seq = followed_field(tcp, copied_seq);
	state->packets_out = followed_field(tcp, packets_out);
	state->sent_jiffies = followed_field(tcp, lsndtime);
	state->received_jiffies = followed_field(connection, icsk_ack.lrcvtime);
	state->heard_jiffies = followed_field(tcp, rcv_tstamp);
	state->first_tx_us = followed_field(tcp, first_tx_mstamp);
	state->delivered_us = followed_field(tcp, delivered_mstamp);
	if (bpf_core_field_exists(tcp->nonagle))
		state->nonagle = BPF_CORE_READ_BITFIELD_PROBED(tcp, nonagle);
	state->keepalive = (followed_field(sk, __sk_common.skc_flags) & SOCKET_FLAG_KEEPALIVE) != 0;
}

static __always_inline void read_tcp_state(struct wire_socket *state, struct sock *sk)
{
	struct tcp_sock *tcp = compat_followed(sk, struct tcp_sock);

	state->rtt_us = followed_field(tcp, srtt_us) >> 3;
	state->rtt_us_min = followed_field(tcp, rtt_min.s[0].v);
	state->congestion_window = followed_field(tcp, snd_cwnd);
	state->segment_bytes = followed_field(tcp, mss_cache);
	state->send_window_bytes = followed_field(tcp, snd_wnd);
	state->unsent_bytes = followed_field(tcp, write_seq) - followed_field(tcp, snd_nxt);
	state->acked_bytes = followed_field(tcp, bytes_acked);
	state->received_bytes = followed_field(tcp, bytes_received);
	state->retransmits = followed_field(tcp, total_retrans);
	state->delivered = followed_field(tcp, delivered);
	bpf_core_read(state->chrono, sizeof(state->chrono), &tcp->chrono_stat);
	state->chrono_type = BPF_CORE_READ_BITFIELD_PROBED(tcp, chrono_type);
	state->chrono_start = followed_field(tcp, chrono_start);
	read_turn(state, tcp, sk);
}

/* Whose queue a listener has: one of MPTCP (5.6) keeps it at its first subflow (mptcp_diag_get_info). */
static __always_inline struct sock *accepting_socket(struct sock *sk, __u16 protocol)
{
	struct mptcp_sock *several = (struct mptcp_sock *)sk;
	struct sock *first;

	if (protocol != IPPROTO_MPTCP || !bpf_core_field_exists(several->first) ||
	    BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_STATE_LISTEN)
		return sk;
	first = BPF_CORE_READ(several, first);
	return first ? first : sk;
}

/* Where the first connection in a listener's queue has come to, and from where. The queue is not locked: what is read may be gone. */
static __always_inline void read_first_waiting(struct wire_socket *state, struct sock *listener)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)listener;
	struct sock *first = BPF_CORE_READ(connection, icsk_accept_queue.rskq_accept_head, sk);

	if (!first)
		return;
	state->waiting_family = BPF_CORE_READ(first, __sk_common.skc_family);
	read_addresses(first, state->waiting_family, state->waiting_at, state->waiting_from);
}

/* What a listener was asked for and is not acknowledged yet, and what its namespace allows (tcp_conn_request). */
static __always_inline void read_requests(struct wire_socket *state, struct sock *listener)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)listener;
	struct net *net = BPF_CORE_READ(listener, __sk_common.skc_net.net);

	if (!bpf_core_field_exists(connection->icsk_accept_queue.qlen) ||
	    !bpf_core_field_exists(net->ipv4.sysctl_max_syn_backlog) ||
	    !bpf_core_field_exists(net->ipv4.sysctl_tcp_syncookies))
		return;
	state->requests = BPF_CORE_READ(connection, icsk_accept_queue.qlen.counter);
	state->requests_limit = BPF_CORE_READ(net, ipv4.sysctl_max_syn_backlog);
	state->syncookies = BPF_CORE_READ(net, ipv4.sysctl_tcp_syncookies);
}

static __always_inline void read_socket_state(struct wire_socket *state, struct sock *address, __u16 protocol)
{
	struct sock *sk = compat_followed(address, struct sock);
	struct sock *accepting_address = accepting_socket(address, protocol);
	struct sock *accepting = compat_followed(accepting_address, struct sock);

	state->receive_limit_bytes = followed_field(sk, sk_rcvbuf);
	state->receive_queued_bytes = followed_field(sk, sk_backlog.rmem_alloc.counter);
	state->send_limit_bytes = followed_field(sk, sk_sndbuf);
	state->send_queued_bytes = followed_field(sk, sk_wmem_queued);
	state->drops = compat_socket_drops(accepting_address);
	state->accept_queue = followed_field(accepting, sk_ack_backlog);
	state->accept_limit = followed_field(accepting, sk_max_ack_backlog);
	if (protocol == IPPROTO_TCP && followed_field(sk, __sk_common.skc_state) != TCP_STATE_LISTEN) {
		read_tcp_state(state, sk);
	} else if (protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP) {
		if (followed_field(sk, __sk_common.skc_state) == TCP_STATE_LISTEN)
			read_requests(state, accepting_address);
		if (state->accept_queue)
			read_first_waiting(state, accepting_address);
	}
	state->jiffies = (__u32)bpf_jiffies64();
}

/* Of either side of a pair: the master's holder is who can be found. */
static __always_inline __u32 tty_output_stopped(struct file *file)
{
	struct tty_file_private *private = BPF_CORE_READ(file, private_data);
	struct tty_struct *tty = BPF_CORE_READ(private, tty);
	struct tty_struct *link = BPF_CORE_READ(tty, link);

	if (!bpf_core_field_exists(tty->flow))
		return 0;
	return BPF_CORE_READ(tty, flow.stopped) || BPF_CORE_READ(link, flow.stopped);
}

/* The file of a group of fanotify's that is asked before others may open, read or execute a file: they wait for its answer. */
static __always_inline bool is_asked_for_files(const struct wire_object *object, struct file *file)
{
	const char *type = object->name; /* of anon_inodefs, and there [fanotify] */
	char name[8] = {};

	if (type[0] != 'a' || type[1] != 'n' || type[2] != 'o' || type[3] != 'n')
		return false;
	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	if (name[0] != '[' || name[1] != 'f' || name[2] != 'a' || name[3] != 'n')
		return false;
	return compat_asked_before(BPF_CORE_READ(file, private_data));
}

SEC("iter/task_file")
int endpoints(struct bpf_iter__task_file *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct wire_endpoint *out;
	__u32 zero = 0, bytes;

	if (!task || !file)
		return 0;
	out = bpf_map_lookup_elem(&endpoint_scratch, &zero);
	if (!out)
		return 0;
	__builtin_memset(out, 0, sizeof(*out));
	read_file_object(&out->object, file);
	if (out->object.kind < WIRE_OBJECT_PIPE || out->object.kind > WIRE_OBJECT_FUSE) {
		if (!is_asked_for_files(&out->object, file))
			return 0;
		out->object.kind = WIRE_OBJECT_OTHER;
		__builtin_memcpy(out->object.name, "fanotify", 9);
	}
	if (out->object.kind == WIRE_OBJECT_INET || out->object.kind == WIRE_OBJECT_UNIX) {
		struct socket *socket = BPF_CORE_READ(file, private_data);
		struct sock *sk = BPF_CORE_READ(socket, sk);
		out->has_socket = 1;
		read_socket_state(&out->socket, sk, out->object.protocol);
		if (out->object.kind == WIRE_OBJECT_UNIX) {
			struct unix_address *address = BPF_CORE_READ((struct unix_sock *)sk, addr);
			out->unread = BPF_CORE_READ(sk, sk_receive_queue.qlen);
			if (address) {
				bytes = BPF_CORE_READ(address, len) - 2;
				if (bytes > 108)
					bytes = 108;
				if (bytes && !bpf_probe_read_kernel(out->path, bytes & 127, address->name[0].sun_path))
					out->path_bytes = bytes;
			}
		}
	}
	if (out->object.kind == WIRE_OBJECT_TTY)
		out->unread = tty_output_stopped(file);
	out->head.kind = WIRE_ENDPOINT;
	out->head.length = sizeof(*out);
	out->head.at_ns = bpf_ktime_get_ns();
	fill_ref(&out->process, task);
	out->fd = ctx->fd;
	out->mode = BPF_CORE_READ(file, f_mode);
	out->file_flags = BPF_CORE_READ(file, f_flags);
	bpf_seq_write(seq, out, sizeof(*out));
	return 0;
}
