/*
 * sample.bpf.c: what runs, by process and kernel stack, from a CPU clock.
 *
 * Tells what on-CPU kernel time is spent on (forking, reclaim, spinning) without tracing functions.
 * User stacks are not taken: a cause is named by process and kernel function.
 */

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 4096);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, WIRE_FRAMES_MAX * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct wire_sample_key);
	__type(value, struct wire_sample);
} samples SEC(".maps");

const struct wire_sample no_sample = {};

SEC("perf_event")
int sample(void *ctx)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct wire_sample_key key = {};
	struct wire_sample *sum;

	if (!current->pid)
		return 0;
	key.tgid = current->tgid;
	key.stack = bpf_get_stackid(ctx, &stacks, 0);
	sum = bpf_map_lookup_elem(&samples, &key);
	if (!sum) {
		bpf_map_update_elem(&samples, &key, &no_sample, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&samples, &key);
		if (!sum)
			return 0;
		fill_ref(&sum->process, current);
	}
	__sync_fetch_and_add(&sum->count, 1);
	return 0;
}
