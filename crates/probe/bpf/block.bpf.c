/*
 * block.bpf.c: requests from the scheduler to the device and back, who asked, and which disk completed.
 *
 * A wait for a disk is split here into before the device (insert to issue) and inside it (issue to
 * complete). Long requests are told; all are counted by disk and operation in a log2 histogram.
 * The completing CPU remembers the disk for a moment, so that a wake-up from that interrupt leads to
 * the disk and not to the bystander that was running.
 *
 * Must not: count an I/O of a stacked device as its own (bio-based devices make no requests).
 */

struct request_note {
	__u64 insert_ns;
	__u64 issue_ns;
	struct wire_ref by;
};

/*
 * Where most notes are: found by the request's address in one variable, without a call. A disk has its requests made
 * once and uses them again and again, so a slot stays its request's when that is done, with both times 0, until another
 * wants it. Of two that take a free one at the same moment, one is not found when it completes and counts as lost, and
 * the other may be told as asked for by the first.
 */
struct request_slot {
	__u64 request; /* its address */
	struct request_note note;
} __attribute__((aligned(64)));
#define REQUEST_SLOTS_SHIFT 12
static struct request_slot request_slots[1 << REQUEST_SLOTS_SHIFT] SEC(".bss.requests");

/* Of those whose slot is taken by another in flight: by address, the latest in use. They stay too. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct request_note);
} requests SEC(".maps");

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

const struct request_note no_request = {};
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

static __always_inline __u32 slot_of_ns(__u64 ns)
{
	__u64 us = ns / 1000;
	__u32 slot = 0;

	if (us >= 1ull << 16) { slot += 16; us >>= 16; }
	if (us >= 1ull << 8) { slot += 8; us >>= 8; }
	if (us >= 1ull << 4) { slot += 4; us >>= 4; }
	if (us >= 1ull << 2) { slot += 2; us >>= 2; }
	if (us >= 1ull << 1) slot += 1;
	return slot & (WIRE_LATENCY_SLOTS - 1);
}

static __always_inline struct request_slot *slot_of_request(struct request *rq)
{
	/* A number, where the address itself may not be multiplied: the verifier lets only pointers be subtracted. */
	__u64 distance = (__u64)rq - (__u64)request_slots;

	barrier_var(distance);
	/* Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): requests lie at equal distances. */
	return &request_slots[distance * 0x9e3779b97f4a7c15 >> (64 - REQUEST_SLOTS_SHIFT)];
}

static __always_inline struct request_note *find_note(struct request_slot *slot, struct request *rq)
{
	__u64 key = (__u64)rq;

	if (likely(slot->request == key))
		return &slot->note;
	return bpf_map_lookup_elem(&requests, &key);
}

static __always_inline struct request_note *note_of_request(struct request *rq)
{
	struct request_slot *slot = slot_of_request(rq);
	struct request_note *note = find_note(slot, rq);
	__u64 key = (__u64)rq;

	if (likely(note))
		return note;
	if (!slot->note.insert_ns && !slot->note.issue_ns) {
		slot->request = key;
		return &slot->note;
	}
	if (bpf_map_update_elem(&requests, &key, &no_request, BPF_ANY))
		count_lost(&lost.requests);
	return bpf_map_lookup_elem(&requests, &key);
}

SEC("tp_btf/block_rq_insert")
int block_rq_insert(__u64 *ctx)
{
	struct request_note *note = note_of_request(request_argument(ctx));

	if (!note)
		return 0;
	note->insert_ns = bpf_ktime_get_ns();
	note->issue_ns = 0;
	fill_ref(&note->by, compat_current());
	return 0;
}

SEC("tp_btf/block_rq_issue")
int block_rq_issue(__u64 *ctx)
{
	struct request_note *note = note_of_request(request_argument(ctx));

	if (!note)
		return 0;
	if (!note->insert_ns)
		fill_ref(&note->by, compat_current());
	note->issue_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void send_request(struct request *rq, struct request_note *note, __u32 dev, __u32 bytes,
					 __u32 error, __u64 now)
{
	struct wire_request out = {};

	out.head.kind = WIRE_REQUEST;
	out.head.length = sizeof(out);
	out.head.at_ns = now;
	out.by = note->by;
	out.insert_ns = note->insert_ns;
	out.issue_ns = note->issue_ns;
	out.sector = rq->__sector;
	out.bytes = bytes;
	out.dev = dev;
	out.operation = rq->cmd_flags;
	out.error = error;
	send(&out, sizeof(out));
}

SEC("tp_btf/block_rq_complete")
int block_rq_complete(__u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	__u32 error = (__u32)ctx[1] & 0xff, bytes = (__u32)ctx[2];
	__u64 now = bpf_ktime_get_ns(), service;
	struct request_note *note;
	struct cpu_note *own = own_note();
	struct wire_disk_latency *sum;
	struct wire_disk_key at = { .dev = disk_of_request(rq) };
	__u32 operation = rq->cmd_flags & 0xff;

	own->completion_ns = now;
	own->completion_dev = at.dev;
	note = find_note(slot_of_request(rq), rq);
	if (!note || !note->issue_ns) {
		/* More were in flight than notes are kept; the kernel dates a request where disks are counted at all. */
		if (!note && !error && bytes && control.attached_ns && rq->start_time_ns > control.attached_ns)
			count_lost(&lost.requests);
		return 0;
	}
	at.operation = operation > 2 ? 3 : operation;
	sum = bpf_map_lookup_elem(&disk_latency, &at);
	if (!sum) {
		bpf_map_update_elem(&disk_latency, &at, &no_latency, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&disk_latency, &at);
	}
	service = now - note->issue_ns;
	if (sum) {
		__sync_fetch_and_add(&sum->bytes, bytes);
		__sync_fetch_and_add(&sum->service_ns, service);
		if (note->insert_ns)
			__sync_fetch_and_add(&sum->queued_ns, note->issue_ns - note->insert_ns);
		if (error)
			__sync_fetch_and_add(&sum->errors, 1);
		raise(&sum->service_ns_max, service);
		__sync_fetch_and_add(&sum->slots[slot_of_ns(service)], 1);
	}
	if (service >= control.request_threshold_ns || error)
		send_request(rq, note, at.dev, bytes, error, now);
	note->insert_ns = 0;
	note->issue_ns = 0;
	return 0;
}

static __always_inline struct wire_disk_use *use_of(struct task_struct *task, __u32 dev)
{
	struct wire_disk_use_key key = { .dev = dev, .tgid = task_field(task, tgid) };
	struct wire_disk_use *use = bpf_map_lookup_elem(&disk_use, &key);

	if (!use) {
		bpf_map_update_elem(&disk_use, &key, &no_use, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&disk_use, &key);
		if (use) {
			fill_ref(&use->process, task);
			use->cgroup_id = subsystem_cgroup_id(task, io_cgrp_id);
		}
	}
	return use;
}

SEC("tp_btf/block_bio_queue")
int block_bio_queue(__u64 *ctx)
{
	struct bio *bio = (struct bio *)(bio_argument_index ? context_word(ctx, 1) : context_word(ctx, 0));
	struct task_struct *current = compat_current();
	struct gendisk *disk = compat_bio_disk(bio);
	__u32 dev = ((__u32)disk->major << 20) | (__u32)disk->first_minor;
	__u32 bytes = bio->bi_iter.bi_size;
	struct note *note = note_of(current, NEVER);
	struct wire_disk_use *use;

	mark(&queued.bio);
	/* Its cache line is read by who wakes (sched.bpf.c), elsewhere. */
	if (note && note->disk != dev)
		note->disk = dev;
	use = use_of(current, dev);
	if (!use)
		return 0;
	if ((bio->bi_opf & 0xff) == 0) {
		__sync_fetch_and_add(&use->reads, 1);
		__sync_fetch_and_add(&use->read_bytes, bytes);
	} else {
		__sync_fetch_and_add(&use->writes, 1);
		__sync_fetch_and_add(&use->write_bytes, bytes);
	}
	return 0;
}
