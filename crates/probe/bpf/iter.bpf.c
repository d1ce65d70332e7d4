/*
 * iter.bpf.c: what stands still makes no event, so both ends of the window look at every thread.
 *
 * `threads` tells each thread's sums and, if it does not run, its standing wait. At the begin it also
 * creates the notes, so that a wait that began before the look is complete when it ends.
 * `endpoints` tells who holds which socket, pipe, terminal and FUSE device, in every network namespace.
 *
 * One reader at a time: the scratch records are shared.
 */

struct thread_slot {
	struct wire_thread thread;
	char slack[PATH_SLACK];
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
static __always_inline __u64 woken_at(const struct note *note, const struct task_struct *task, __u32 state, __u64 now)
{
	const struct wake *wake = &slot_at(task_field(task, pid))->wake;
	struct cpu_note *own;
	__u64 queued_clock;

	if (note->mode != WIRE_MODE_BLOCKED || note->wake_ns || (state && !(state & TASK_WAKING)))
		return note->wake_ns;
	if (wake->task == (__u64)task && (wake->flags & WAKE_DATED) && wake->at_ns >= note->since_ns)
		return wake->at_ns;
	own = own_note();
	queued_clock = compat_last_queued(task);
	if (!own->runqueue || !queued_clock)
		return now;
	return woken(note, task, queued_clock + own->ahead_ns);
}

SEC("iter/task")
int threads(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct wire_thread *out;
	struct note *note;
	__u32 zero = 0, path_bytes = 0;
	__u64 now, length, run_delay_ns;
	bool kernel;

	if (!task || (control.only_tid && (__u32)task->pid != control.only_tid))
		return 0;
	out = bpf_map_lookup_elem(&thread_scratch, &zero);
	note = note_of(task, ANYWHERE);
	if (!out || !note || (control.only_traced && !note->traced))
		return 0;
	kernel = task->flags & PF_KTHREAD;
	if (control.trace_tgid && (__u32)task->tgid == control.trace_tgid) {
		trace(note, task, 1);
		/* Of what is traced short waits are told too, and so the one that it is in. */
		if (note->mode >= WIRE_MODE_RUNNABLE)
			note->dating = DATED;
	}
	/* Before its note: what is added meanwhile is in the sums by then. */
	run_delay_ns = compat_run_delay(task);
	now = bpf_ktime_get_ns();
	out->place.state = compat_task_state(task);
	out->on_cpu = compat_task_on_cpu(task);
	if (!out->place.state)
		see_throttled(task);
	if (note->mode == WIRE_MODE_UNKNOWN) {
		/* First sight: the mode is read, not seen; a racing switch overwrites it. */
		first_seen(note, task, now);
		note->state = out->place.state;
		if (out->on_cpu) {
			note->mode = WIRE_MODE_RUNNING;
			note->since_ns = now;
		} else {
			note->flags = WIRE_FLAG_BEGIN_UNSEEN | (BPF_CORE_READ_BITFIELD(task, in_iowait) ? WIRE_FLAG_IOWAIT : 0);
			note->since_ns = now;
			note->mode = out->place.state ? WIRE_MODE_BLOCKED : WIRE_MODE_RUNNABLE;
		}
	}
	out->head.kind = WIRE_THREAD;
	out->head.at_ns = now;
	fill_ref(&out->thread, task);
	tell_sums(&out->sums, note, task, run_delay_ns);
	out->note_since_ns = note->since_ns;
	out->note_wake_ns = woken_at(note, task, out->place.state, now);
	out->last_arrival_clock = BPF_CORE_READ(task, sched_info.last_arrival);
	out->cpu_cgroup_id = subsystem_cgroup_id(task, cpu_cgrp_id);
	out->cgroup_id = unified_cgroup_id(task);
	out->flags = (note->flags & ~NOTE_FLAGS_OWN) | (kernel ? WIRE_FLAG_KERNEL : 0) |
		     (note->traced ? WIRE_FLAG_TRACED : 0) | (BPF_CORE_READ_BITFIELD(task, frozen) ? WIRE_FLAG_FROZEN : 0);
	out->mode = note->mode;
	out->place.disk = note->disk;
	out->place.cpu = note->cpu;
	out->place.frames = 0;
	out->place.syscall = -1;
	if (!out->on_cpu && out->place.state && !task->exit_state &&
	    !(kernel && !(out->place.state & TASK_UNINTERRUPTIBLE)) && !(out->place.state & TASK_NOLOAD))
		path_bytes = read_place(&out->place, out->path, task, kernel, true);
	out->path_bytes = path_bytes;
	length = __builtin_offsetof(struct wire_thread, path) + (path_bytes & (WIRE_PATH_MAX - 1));
	out->head.length = length;
	bpf_seq_write(seq, out, length);
	return 0;
}

static __always_inline void read_socket_state(struct wire_socket *state, struct sock *sk, __u16 protocol)
{
	state->receive_limit_bytes = BPF_CORE_READ(sk, sk_rcvbuf);
	state->receive_queued_bytes = BPF_CORE_READ(sk, sk_backlog.rmem_alloc.counter);
	state->send_limit_bytes = BPF_CORE_READ(sk, sk_sndbuf);
	state->send_queued_bytes = BPF_CORE_READ(sk, sk_wmem_queued);
	state->drops = compat_socket_drops(sk);
	state->accept_queue = BPF_CORE_READ(sk, sk_ack_backlog);
	state->accept_limit = BPF_CORE_READ(sk, sk_max_ack_backlog);
	state->jiffies = (__u32)bpf_jiffies64();
	if (protocol == IPPROTO_TCP && BPF_CORE_READ(sk, __sk_common.skc_state) != 10) {
		struct tcp_sock *tcp = (struct tcp_sock *)sk;
		state->rtt_us = BPF_CORE_READ(tcp, srtt_us) >> 3;
		state->rtt_us_min = BPF_CORE_READ(tcp, rtt_min.s[0].v);
		state->congestion_window = BPF_CORE_READ(tcp, snd_cwnd);
		state->segment_bytes = BPF_CORE_READ(tcp, mss_cache);
		state->send_window_bytes = BPF_CORE_READ(tcp, snd_wnd);
		state->unsent_bytes = BPF_CORE_READ(tcp, write_seq) - BPF_CORE_READ(tcp, snd_nxt);
		state->acked_bytes = BPF_CORE_READ(tcp, bytes_acked);
		state->received_bytes = BPF_CORE_READ(tcp, bytes_received);
		state->retransmits = BPF_CORE_READ(tcp, total_retrans);
		state->delivered = BPF_CORE_READ(tcp, delivered);
		bpf_core_read(state->chrono, sizeof(state->chrono), &tcp->chrono_stat);
		state->chrono_type = BPF_CORE_READ_BITFIELD_PROBED(tcp, chrono_type);
		state->chrono_start = BPF_CORE_READ(tcp, chrono_start);
	}
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
	__builtin_memset(&out->object, 0, sizeof(out->object));
	read_file_object(&out->object, file);
	if (out->object.kind < WIRE_OBJECT_PIPE || out->object.kind > WIRE_OBJECT_FUSE)
		return 0;
	__builtin_memset(&out->socket, 0, sizeof(out->socket));
	out->path_bytes = 0;
	out->unread = 0;
	out->has_socket = 0;
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
