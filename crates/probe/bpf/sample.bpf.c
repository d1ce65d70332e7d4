/*
 * sample.bpf.c: what runs, sampled by a CPU clock: by process and kernel stack, by system call, by the file of its code,
 * and by the place in that file.
 *
 * Says what on-CPU time is spent on (fork, faults, tiny writes, ciphers) without tracing functions or system calls: the
 * registers and the task's own counters are read where the clock hits. User stacks are not walked here: the file that the
 * code is in is enough, and frame pointers are seldom there.
 * Written by whom: a count by any CPU, atomically; the name of most samples without a lock (a lost vote changes little).
 * `sample_code` needs bpf_find_vma (5.17); `sample` is the same without it.
 */

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 16384); /* of 1,000 stacks one in 17 finds its place taken */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, WIRE_FRAMES_MAX * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct wire_sample_key);
	__type(value, struct wire_sample);
} samples SEC(".maps");

/* Full: what comes then is missing here, and still counted in `samples`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wire_work_key);
	__type(value, struct wire_work);
} work SEC(".maps");

/* Full: what comes then has no function, and is still counted in `work`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wire_point_key);
	__type(value, __u64);
} points SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_effort_key);
	__type(value, struct wire_effort);
} efforts SEC(".maps");

/*
 * Where a file lies in a process, by the 2 MiB that the clock hit: to find it anew each time would take the lock of
 * its memory, which can only be given back by an interrupt of its own. An exec gives the process another `mm`.
 */
struct code_key {
	__u64 mm;
	__u32 tgid;
	__u32 region;
};
struct code_file {
	__u64 start;
	__u64 end;
	__u64 ino;
	__u64 page; /* of the file, that lies at the start */
	char name[64];
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct code_key);
	__type(value, struct code_file);
} code_files SEC(".maps");

const struct wire_sample no_sample = {};
const struct wire_work no_work = {};
const struct wire_effort no_effort = {};

#if defined(__TARGET_ARCH_x86)
static __always_inline bool asks_for_bytes(__s32 syscall)
{
	return syscall == 0 || syscall == 1 || syscall == 17 || syscall == 18;
}
static __always_inline bool unmaps(__s32 syscall)
{
	return syscall == 11;
}
/* Which argument is a path; negative: none. */
static __always_inline int path_argument(__s32 syscall)
{
	switch (syscall) {
	case 2: case 4: case 6: case 21: case 59: case 89:
		return 0;
	case 257: case 262: case 267: case 269: case 332: case 439:
		return 1;
	}
	return -1;
}
static __always_inline __u64 instruction(struct pt_regs *regs)
{
	return BPF_CORE_READ(regs, ip);
}
#else
static __always_inline bool asks_for_bytes(__s32 syscall)
{
	return syscall == 63 || syscall == 64 || syscall == 67 || syscall == 68;
}
static __always_inline bool unmaps(__s32 syscall)
{
	return syscall == 215;
}
static __always_inline int path_argument(__s32 syscall)
{
	switch (syscall) {
	case 221:
		return 0;
	case 48: case 56: case 78: case 79: case 291: case 439:
		return 1;
	}
	return -1;
}
static __always_inline __u64 instruction(struct pt_regs *regs)
{
	return BPF_CORE_READ(regs, pc);
}
#endif

#define EFAULT 14

#define CODE_REGION_SHIFT 21

static long read_code_file(struct task_struct *task, struct vm_area_struct *vma, void *context)
{
	struct code_file *code = context;
	struct file *file = BPF_CORE_READ(vma, vm_file);

	code->start = BPF_CORE_READ(vma, vm_start);
	code->end = BPF_CORE_READ(vma, vm_end);
	code->ino = BPF_CORE_READ(file, f_inode, i_ino);
	code->page = BPF_CORE_READ(vma, vm_pgoff);
	bpf_probe_read_kernel_str(code->name, sizeof(code->name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	return 0;
}

static __always_inline void find_code_file(struct task_struct *current, __u64 at, struct code_file *code)
{
	struct code_key key = {
		.mm = (__u64)task_field(current, mm),
		.tgid = task_field(current, tgid),
		.region = (__u32)(at >> CODE_REGION_SHIFT),
	};
	struct code_file *known = bpf_map_lookup_elem(&code_files, &key);

	if (known && at >= known->start && at < known->end) {
		*code = *known;
		return;
	}
	if (!bpf_find_vma(current, at, read_code_file, code, 0))
		bpf_map_update_elem(&code_files, &key, code, BPF_ANY);
}

/* Functions begin at multiples of 16: nearly always one of them holds all of these bytes. */
#define POINT_MASK 15ULL

static __always_inline void count_point(__u32 tgid, __u64 at, const struct code_file *code)
{
	const __u64 first = 1;
	struct wire_point_key key = { .code_ino = code->ino, .tgid = tgid };
	__u64 *count;

	/* Code that is made at run time has no file: there it is the address. */
	key.offset = (code->ino ? at - code->start + (code->page << 12) : at) & ~POINT_MASK;
	count = bpf_map_lookup_elem(&points, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&points, &key, &first, BPF_NOEXIST);
}

static __always_inline bool same_name(const __u64 *a, const __u64 *b)
{
	for (int at = 0; at < 8; at++)
		if (a[at] != b[at])
			return false;
	return true;
}

static __always_inline void sample_work(struct task_struct *current, bool user, bool find_code)
{
	struct pt_regs *regs = compat_task_pt_regs(current);
	struct wire_work_key key = { .tgid = task_field(current, tgid), .syscall = -1 };
	struct code_file named = {};
	struct wire_place place;
	struct wire_work *sum;
	__u64 asked = 0;

	if (task_field(current, flags) & PF_KTHREAD)
		return;
	if (!user) {
		read_syscall(&place, current, regs);
		key.syscall = place.syscall < 0 ? -1 : (__s32)place.syscall;
		if (asks_for_bytes(key.syscall))
			asked = place.args[2];
		else if (unmaps(key.syscall))
			asked = place.args[1];
		int at = path_argument(key.syscall);
		if (at >= 0)
			bpf_probe_read_user_str(named.name, sizeof(named.name), (void *)place.args[at & 1]);
	} else if (find_code) {
		__u64 at = instruction(regs);

		find_code_file(current, at, &named);
		key.code_ino = named.ino;
		count_point(key.tgid, at, &named);
	}
	sum = bpf_map_lookup_elem(&work, &key);
	if (!sum) {
		bpf_map_update_elem(&work, &key, &no_work, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&work, &key);
		if (!sum)
			return;
		fill_ref(&sum->process, current);
		__builtin_memcpy(sum->name, named.name, sizeof(sum->name));
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->asked_bytes, asked);
	/* The name of most samples: a majority vote, where each other one takes a vote away. */
	if (same_name((__u64 *)sum->name, (__u64 *)named.name)) {
		sum->same_name++;
	} else if (sum->same_name) {
		sum->same_name--;
	} else {
		__builtin_memcpy(sum->name, named.name, sizeof(sum->name));
		sum->same_name = 1;
	}
}

static __always_inline void sample_effort(struct task_struct *current)
{
	struct wire_effort *effort;
	struct wire_effort_key key = { .tid = task_field(current, pid) };
	struct mm_struct *mm = task_field(current, mm);
	bool first = false;
	__s64 pages;

	if (!bpf_core_field_exists(current->ioac.syscr))
		return;
	effort = bpf_map_lookup_elem(&efforts, &key);
	if (!effort || effort->thread.start_ns != task_field(current, start_time)) {
		bpf_map_update_elem(&efforts, &key, &no_effort, BPF_ANY);
		effort = bpf_map_lookup_elem(&efforts, &key);
		if (!effort)
			return;
		fill_ref(&effort->thread, current);
		first = true;
	}
	effort->last_ns = bpf_ktime_get_ns();
	effort->last[WIRE_EFFORT_READS] = task_field(current, ioac.syscr);
	effort->last[WIRE_EFFORT_READ_BYTES] = task_field(current, ioac.rchar);
	effort->last[WIRE_EFFORT_WRITES] = task_field(current, ioac.syscw);
	effort->last[WIRE_EFFORT_WRITE_BYTES] = task_field(current, ioac.wchar);
	effort->last[WIRE_EFFORT_MINOR_FAULTS] = task_field(current, min_flt);
	effort->last[WIRE_EFFORT_MAJOR_FAULTS] = task_field(current, maj_flt);
	pages = mm ? compat_rss_pages(mm) : 0;
	if (pages > (__s64)effort->rss_pages_max)
		effort->rss_pages_max = pages;
	if (first) {
		effort->first_ns = effort->last_ns;
		__builtin_memcpy(effort->first, effort->last, sizeof(effort->first));
	}
}

static __always_inline int take_sample(void *ctx, bool find_code)
{
	struct task_struct *current = compat_current();
	struct wire_sample_key key = {};
	struct wire_sample *sum;

	if (!task_field(current, pid))
		return 0;
	key.tgid = task_field(current, tgid);
	key.stack = bpf_get_stackid(ctx, &stacks, 0);
	sample_work(current, key.stack == -EFAULT, find_code);
	sample_effort(current);
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

SEC("perf_event")
int sample(void *ctx)
{
	return take_sample(ctx, false);
}

SEC("perf_event")
int sample_code(void *ctx)
{
	return take_sample(ctx, true);
}
