/*
 * block.bpf.c: requests from the scheduler to the device and back, who submitted them, and which disk completed.
 *
 * States of a request: inserted, issued, completed. Insert to issue is time before the device, issue to complete is time
 * inside it. Requests above the threshold are reported; all are counted by disk and operation in a log2 histogram.
 * On a fast disk the cost is which CPU wrote a cache line last. So the submitting CPU, the completing CPU and the sums each
 * write lines of their own (`request_slots`, `latency_slots`).
 * The completing CPU remembers its disk for a moment: a wake-up from that interrupt then leads to the disk, and not to the
 * thread that happened to run there.
 *
 * Must not: count an I/O of a stacked device as its own (bio-based devices make no requests).
 * Rejected: the kernel's own date of the issue (io_start_time_ns), which since 6.9 is that of the first of a batch.
 * Edit together: src/disk_sums.rs (reads the sums).
 */

struct request_state {
	__u64 insert_ns; /* 0 when it is done, and if no scheduler has it */
	__u64 issue_ns;
	struct wire_ref by;
	__u64 done_ns; /* in `requests`: as in `request_ends` */
} __attribute__((aligned(64)));

/*
 * Where most states are: found by the request's address in variables, without a call. A disk has its requests made
 * once and uses them again and again, so a slot stays its request's when that is done, until another wants it. Of two
 * that take a free one at the same moment, or one that its owner uses again, one is not found when it completes, or found
 * with another's date (`is_of`), and counts as lost.
 * A cache line that another CPU wrote takes longer to come than all that is done with it. So the state is for who asks,
 * and who completes reads it only where it must. Else the request was issued `lag_ns` after the kernel made it, which it
 * dates itself: the lag is written only when it has changed, and its line is hardly ever written.
 */
struct request_slot {
	__u64 request; /* its address */
	__u32 lag_ns; /* or LAG_STORED: look at the state */
	__u32 pad;
};
struct request_end {
	__u64 done_ns; /* when that was issued which completed last: in flight is what was issued later */
} __attribute__((aligned(64)));
#define LAG_STORED (1U << 31)
#define LAG_NS_MAX (1U << 30)
/*
 * By as much may a request that is not long be dated wrong, and two dates of one issue differ: much less than the
 * histogram can tell, and than a request takes. With 100 every third request would write, with this 3 of 100.
 */
#define LAG_CHANGE_NS 250
#define REQUEST_SLOTS_SHIFT 12
#define REQUEST_SLOTS (1 << REQUEST_SLOTS_SHIFT)
static struct request_slot request_slots[REQUEST_SLOTS] SEC(".bss.requests");
static struct request_state request_states[REQUEST_SLOTS] SEC(".bss.states");
static struct request_end request_ends[REQUEST_SLOTS] SEC(".bss.ends");

/* Of those whose slot is taken by another in flight: by address, the latest in use. They stay too. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct request_state);
} requests SEC(".maps");

/*
 * Where most sums are: in one variable, by disk and CPU, so that they are found without a call and added to without a
 * lock. A slot is its first owner's for good. What finds its slot taken is added up in the maps, for all CPUs.
 */
#define LATENCY_SLOTS_SHIFT 10
static struct wire_disk_latency_slot latency_slots[1 << LATENCY_SLOTS_SHIFT] SEC(".bss.latency")
	__attribute__((aligned(64)));
#define USE_SLOTS_SHIFT 11
static struct wire_disk_use_slot use_slots[1 << USE_SLOTS_SHIFT] SEC(".bss.use") __attribute__((aligned(64)));
_Static_assert(!(sizeof(latency_slots[0]) % 64) && !(sizeof(use_slots[0]) % 64), "no cache line is of two CPUs");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_disk_key);
	__type(value, struct wire_disk_latency);
} disk_latency SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wire_disk_use_key);
	__type(value, struct wire_disk_use);
} disk_use SEC(".maps");

const struct request_state no_request = {};
const struct wire_disk_latency no_latency = {};
const struct wire_disk_use no_use = {};

static __always_inline struct request *request_argument(__u64 *ctx)
{
	return (struct request *)(request_argument_index ? context_word(ctx, 1) : context_word(ctx, 0));
}

static __always_inline __u32 disk_of_request(struct request *rq)
{
	struct gendisk *disk = compat_request_disk(rq);

	return ((__u32)disk->major << 20) | (__u32)disk->first_minor;
}

/* 1 if a time is as long as this, else 0; without a branch, so that the verifier does not walk on for each answer. */
static __always_inline __u32 reaches(__u64 ns, __u64 limit_ns)
{
	__u64 below = limit_ns - 1 - ns;

	barrier_var(below);
	return below >> 63;
}

static __always_inline __u32 slot_of_ns(__u64 ns)
{
	__u32 slot = 0, step;

	/* A negative one is the longest. */
	ns &= ~0ull >> 1;
	/* Without a division: 2^n microseconds are a whole number of nanoseconds. */
	step = reaches(ns, 1000ull << 16) << 4;
	slot += step;
	ns >>= step;
	step = reaches(ns, 1000ull << 8) << 3;
	slot += step;
	ns >>= step;
	step = reaches(ns, 1000ull << 4) << 2;
	slot += step;
	ns >>= step;
	step = reaches(ns, 1000ull << 2) << 1;
	slot += step;
	ns >>= step;
	slot += reaches(ns, 1000ull << 1);
	/* The compiler knows that it is no more than this, and verifiers of 5.10 do not. */
	barrier_var(slot);
	return slot & (WIRE_LATENCY_SLOTS - 1);
}

static __always_inline __u64 slot_of_request(struct request *rq)
{
	/* A number, where the address itself may not be multiplied: the verifier lets only pointers be subtracted. */
	__u64 distance = (__u64)rq - (__u64)request_slots;

	barrier_var(distance);
	return fibonacci_hash(distance, REQUEST_SLOTS_SHIFT);
}

/* Of one whose slot is not its own, or not yet. */
static __always_inline struct request_state *request_state_elsewhere(__u64 at, __u64 key)
{
	struct request_state *state = bpf_map_lookup_elem(&requests, &key);

	if (state)
		return state;
	state = &request_states[at];
	if (!state->insert_ns && state->issue_ns <= request_ends[at].done_ns + LAG_CHANGE_NS) {
		request_slots[at].lag_ns = LAG_STORED;
		request_slots[at].request = key;
		return state;
	}
	if (bpf_map_update_elem(&requests, &key, &no_request, BPF_ANY))
		count_lost(&lost.requests);
	return bpf_map_lookup_elem(&requests, &key);
}

static __always_inline struct request_state *request_state_of(__u64 at, struct request *rq)
{
	if (likely(request_slots[at].request == (__u64)rq))
		return &request_states[at];
	return request_state_elsewhere(at, (__u64)rq);
}

SEC("tp_btf/block_rq_insert")
int block_rq_insert(__u64 *ctx)
{
	struct request *rq = request_argument(ctx);
	struct request_state *state = request_state_of(slot_of_request(rq), rq);

	if (!state)
		return 0;
	state->insert_ns = bpf_ktime_get_ns();
	state->issue_ns = 0;
	fill_ref(&state->by, compat_current());
	return 0;
}

/* How long after it was made, where that is enough to know when it was issued. */
static __always_inline __u32 lag_of(const struct request_state *state, const struct request *rq)
{
	__u64 made_ns = rq->start_time_ns, lag = state->issue_ns - made_ns;

	return made_ns && !state->insert_ns && lag < LAG_NS_MAX ? lag : LAG_STORED;
}

SEC("tp_btf/block_rq_issue")
int block_rq_issue(__u64 *ctx)
{
	struct request *rq = request_argument(ctx);
	__u64 at = slot_of_request(rq);
	struct request_slot *slot = &request_slots[at];
	struct request_state *state = request_state_of(at, rq);
	__u32 lag;

	if (!state)
		return 0;
	/* Of a use before, in which another request took it in. */
	if (state->insert_ns && state->insert_ns < rq->start_time_ns)
		state->insert_ns = 0;
	if (!state->insert_ns)
		fill_ref(&state->by, compat_current());
	state->issue_ns = bpf_ktime_get_ns();
	if (unlikely(slot->request != (__u64)rq))
		return 0;
	lag = lag_of(state, rq);
	if (lag - slot->lag_ns + LAG_CHANGE_NS > 2 * LAG_CHANGE_NS)
		slot->lag_ns = lag;
	return 0;
}

static __always_inline void send_request(struct request *rq, struct request_state *state, __u32 dev, __u32 bytes,
					 __u32 error, __u64 now)
{
	struct wire_request out = {};

	out.head.kind = WIRE_REQUEST;
	out.head.length = sizeof(out);
	out.head.at_ns = now;
	out.by = state->by;
	out.insert_ns = state->insert_ns;
	out.issue_ns = state->issue_ns;
	out.sector = rq->__sector;
	out.bytes = bytes;
	out.dev = dev;
	out.operation = rq->cmd_flags;
	out.error = error;
	send(&out, sizeof(out));
}

/* The first who comes has the slot. Of two who claim at once both may read 2, and then nobody has it. */
static __always_inline bool claim_slot(volatile __u32 *claims)
{
	if (*claims)
		return false;
	__sync_fetch_and_add(claims, 1);
	return *claims == 1;
}

static __always_inline struct wire_disk_latency *own_latency(const struct wire_disk_key *key, __u32 cpu)
{
	__u64 number = (__u64)key->dev << 32 | cpu << 2 | key->operation;
	struct wire_disk_latency_slot *slot = &latency_slots[fibonacci_hash(number, LATENCY_SLOTS_SHIFT)];

	if (likely(slot->owner == cpu + 1 && slot->key.dev == key->dev && slot->key.operation == key->operation))
		return &slot->sum;
	if (!claim_slot(&slot->claims))
		return 0;
	slot->key = *key;
	barrier();
	slot->owner = cpu + 1;
	return &slot->sum;
}

static __noinline int add_shared_latency(const struct wire_disk_key *key, __u32 bytes, __u64 service, __u64 queued,
					 __u32 error)
{
	struct wire_disk_latency *sum = bpf_map_lookup_elem(&disk_latency, key);

	if (!sum) {
		bpf_map_update_elem(&disk_latency, key, &no_latency, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&disk_latency, key);
	}
	if (!sum)
		return 0;
	__sync_fetch_and_add(&sum->bytes, bytes);
	__sync_fetch_and_add(&sum->service_ns, service);
	if (queued)
		__sync_fetch_and_add(&sum->queued_ns, queued);
	if (error)
		__sync_fetch_and_add(&sum->errors, 1);
	raise(&sum->service_ns_max, service);
	__sync_fetch_and_add(&sum->slots[slot_of_ns(service)], 1);
	return 0;
}

static __always_inline void add_latency(const struct wire_disk_key *key, __u32 cpu, __u32 bytes, __u64 service,
					__u64 queued, __u32 error)
{
	struct wire_disk_latency *sum = own_latency(key, cpu);

	if (unlikely(!sum)) {
		add_shared_latency(key, bytes, service, queued, error);
		return;
	}
	add_own(&sum->bytes, bytes);
	add_own(&sum->service_ns, service);
	if (queued)
		add_own(&sum->queued_ns, queued);
	if (unlikely(error))
		add_own(&sum->errors, 1);
	raise(&sum->service_ns_max, service);
	add_own(&sum->slots[slot_of_ns(service)], 1);
}

/* Not where an issue was not seen: one in an interrupt of another's, which the kernel passes over since 6.1. */
static __always_inline bool is_of(const struct request_state *state, __u64 issue_ns)
{
	return state->issue_ns + LAG_CHANGE_NS >= issue_ns && state->issue_ns <= issue_ns + LAG_CHANGE_NS;
}

SEC("tp_btf/block_rq_complete")
int block_rq_complete(__u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	__u32 error = (__u32)ctx[1] & 0xff, bytes = (__u32)ctx[2], cpu = bpf_get_smp_processor_id();
	__u64 now = bpf_ktime_get_ns(), made_ns = rq->start_time_ns, insert_ns = 0, issue_ns, service;
	struct wire_disk_key disk = { .dev = disk_of_request(rq) };
	__u64 at = slot_of_request(rq), key = (__u64)rq;
	struct request_slot *slot = &request_slots[at];
	__u64 *done_ns = &request_ends[at].done_ns;
	__u32 operation = rq->cmd_flags & 0xff;
	struct cpu_state *own = cpu_state_of(cpu);
	struct request_state *state = &request_states[at];

	own->completion_ns = now;
	own->completion_dev = disk.dev;
	if (unlikely(slot->request != key)) {
		state = bpf_map_lookup_elem(&requests, &key);
		if (!state) {
			/* More were in flight than states are stored; the kernel dates a request where disks are counted. */
			if (!error && bytes && control.attached_ns && made_ns > control.attached_ns)
				count_lost(&lost.requests);
			return 0;
		}
		done_ns = &state->done_ns;
	}
	/* What failed, or moved nothing, may never have been issued. */
	if (likely(slot->request == key && slot->lag_ns != LAG_STORED && made_ns && bytes && !error)) {
		issue_ns = made_ns + slot->lag_ns;
	} else {
		insert_ns = state->insert_ns;
		issue_ns = state->issue_ns;
	}
	/* Another part of one that has completed, or never issued. */
	if (issue_ns <= *done_ns + LAG_CHANGE_NS)
		return 0;
	*done_ns = issue_ns;
	disk.operation = operation > 2 ? 3 : operation;
	service = now > issue_ns ? now - issue_ns : 0;
	add_latency(&disk, cpu, bytes, service, insert_ns ? issue_ns - insert_ns : 0, error);
	if (unlikely(service >= control.request_threshold_ns || error)) {
		if (is_of(state, issue_ns))
			send_request(rq, state, disk.dev, bytes, error, now);
		else
			count_lost(&lost.requests);
	}
	if (insert_ns)
		state->insert_ns = 0;
	return 0;
}

static __always_inline struct wire_disk_use *own_use(const struct wire_disk_use_key *key, __u32 cpu,
						     struct task_struct *task)
{
	__u64 number = ((__u64)key->dev << 32 | key->tgid) + ((__u64)cpu << 22);
	struct wire_disk_use_slot *slot = &use_slots[fibonacci_hash(number, USE_SLOTS_SHIFT)];

	if (likely(slot->owner == cpu + 1 && slot->key.tgid == key->tgid && slot->key.dev == key->dev))
		return &slot->sum;
	if (!claim_slot(&slot->claims))
		return 0;
	slot->key = *key;
	fill_ref(&slot->sum.process, task);
	slot->sum.cgroup_id = subsystem_cgroup_id(task, io_cgrp_id);
	barrier();
	slot->owner = cpu + 1;
	return &slot->sum;
}

static __noinline int add_shared_use(const struct wire_disk_use_key *key, struct task_struct *task, bool reads,
				     __u32 bytes)
{
	struct wire_disk_use *use = bpf_map_lookup_elem(&disk_use, key);

	if (!use) {
		bpf_map_update_elem(&disk_use, key, &no_use, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&disk_use, key);
		if (!use)
			return 0;
		fill_ref(&use->process, task);
		use->cgroup_id = subsystem_cgroup_id(task, io_cgrp_id);
	}
	__sync_fetch_and_add(reads ? &use->reads : &use->writes, 1);
	__sync_fetch_and_add(reads ? &use->read_bytes : &use->write_bytes, bytes);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int block_bio_queue(__u64 *ctx)
{
	struct bio *bio = (struct bio *)(bio_argument_index ? context_word(ctx, 1) : context_word(ctx, 0));
	struct task_struct *current = compat_current();
	struct gendisk *disk = compat_bio_disk(bio);
	__u32 dev = ((__u32)disk->major << 20) | (__u32)disk->first_minor;
	struct wire_disk_use_key key = { .dev = dev, .tgid = task_field(current, tgid) };
	__u8 operation = bio->bi_opf & 0xff;
	/* What is given back or made zeros is no data: REQ_OP_DISCARD, SECURE_ERASE, WRITE_ZEROES. */
	__u32 bytes = operation == 3 || operation == 5 || operation == 9 ? 0 : bio->bi_iter.bi_size;
	bool reads = operation == 0;
	struct thread_state *state = thread_state_of(current, NEVER);
	struct wire_disk_use *use;

	mark(&queued.bio);
	if (state) {
		state->disk = dev;
		state->disk_switches = (__u32)task_field(current, nvcsw);
	}
	use = own_use(&key, bpf_get_smp_processor_id(), current);
	if (unlikely(!use)) {
		add_shared_use(&key, current, reads, bytes);
	} else if (reads) {
		add_own(&use->reads, 1);
		add_own(&use->read_bytes, bytes);
	} else {
		add_own(&use->writes, 1);
		add_own(&use->write_bytes, bytes);
	}
	return 0;
}
