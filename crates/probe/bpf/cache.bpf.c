/*
 * cache.bpf.c: who brings pages of files in, who had those evicted that are brought in again, and who makes pages dirty.
 *
 * One page in 16 is looked at, the same ones each time, chosen by place and file; all others cost a few loads. One that
 * reclaim drops is stored with the process that reclaimed: for a group's limit and in want of memory that is whoever asked
 * for more, else kswapd. When it comes back, the one who reads it is charged with a page that the other one made him read.
 * A page that was dropped before the look is not known here; the kernel's own count of refaults has it.
 * As long as nothing is evicted, nothing of that is counted: a host with room for what it reads pays for the call alone.
 * The pages are one table without chains, each entry 42 bits of the page's hash and the process: a later page takes the place of
 * an earlier one, so some are forgotten, and hardly any is mistaken. Of streams of 2 GiB/s half is still there after five seconds.
 * What a process makes dirty the kernel's workers write to the disk later, in their own name: a page counts when it becomes dirty,
 * and not again until it was written.
 * Written by whom: an entry by whoever evicts or brings in, without a lock; of two at once one is forgotten.
 *
 * Must not: store what truncation or an advice drops (only reclaim has PF_MEMALLOC). Rejected: a map that forgets the eldest
 * (it is a neighbour's stream that fills it, and a call for each page); the shadow entry (no tracepoint has it).
 * Edit together: src/cache_sums.rs (reads the sums).
 */

/* One page in so many is looked at. */
#define STEP_SHIFT 4
#define EVICTED_SHIFT 18
#define EVICTED_PID_BITS 22 /* PID_MAX_LIMIT */
static __u64 evicted_pages[1 << EVICTED_SHIFT] SEC(".bss.evicted");

/* Raised by the first page that reclaim drops in a look, never lowered. */
static volatile __u32 evicts;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_cache_key);
	__type(value, struct wire_cache);
} cache_fills SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, struct wire_refault_key);
	__type(value, struct wire_refault);
} refaults SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_dirtied_key);
	__type(value, struct wire_dirtied);
} dirtied SEC(".maps");

const struct wire_dirtied no_dirtied = {};
const struct wire_cache no_cache = {};
const struct wire_refault no_refault = {};

struct evicted_place {
	__u64 *entry;
	__u64 tag;
};

/* Of pages in a row the one that is looked at is `step`. */
static __always_inline struct evicted_place evicted_place(__u64 ino, __u32 dev, __u64 step)
{
	__u64 hash = fibonacci_hash((ino ^ (__u64)dev << 32) * 0xff51afd7ed558ccd + step, 64);
	struct evicted_place place;

	hash ^= hash >> 32;
	hash *= 0xff51afd7ed558ccd;
	place.tag = hash << EVICTED_PID_BITS;
	hash >>= 64 - EVICTED_SHIFT;
	barrier_var(hash);
	place.entry = &evicted_pages[hash & ((1 << EVICTED_SHIFT) - 1)];
	return place;
}

static __always_inline __u64 steps_before(__u64 place)
{
	return (place + (1 << STEP_SHIFT) - 1) >> STEP_SHIFT;
}

/* Of one folio: the largest that a file system makes has 512 pages. */
#define STEPS_MAX (512 >> STEP_SHIFT)

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int page_evicted(__u64 *ctx)
{
	struct task_struct *current = compat_current();
	struct cache_pages pages;
	__u64 step, end, ino;
	__u32 dev, tgid;

	if (!(task_field(current, flags) & PF_MEMALLOC))
		return 0;
	pages = compat_cache_pages(ctx);
	ino = pages.inode->i_ino;
	step = steps_before(pages.index + ino);
	end = steps_before(pages.index + ino + pages.count);
	if (likely(step == end))
		return 0;
	if (!evicts)
		evicts = 1;
	dev = pages.inode->i_sb->s_dev;
	tgid = task_field(current, tgid);
	for (int i = 0; i < STEPS_MAX && step < end; i++, step++) {
		struct evicted_place place = evicted_place(ino, dev, step);
		*place.entry = place.tag | tgid;
	}
	return 0;
}

static __always_inline void add_cache(struct task_struct *current, __u32 by, __u64 steps)
{
	struct wire_cache_key key = { .tgid = task_field(current, tgid), .by = by };
	struct wire_cache *sum = bpf_map_lookup_elem(&cache_fills, &key);

	if (!sum) {
		bpf_map_update_elem(&cache_fills, &key, &no_cache, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&cache_fills, &key);
		if (!sum)
			return;
		fill_ref(&sum->process, current);
		sum->cgroup_id = subsystem_cgroup_id(current, memory_cgrp_id);
	}
	__sync_fetch_and_add(&sum->pages, steps << STEP_SHIFT);
}

static __always_inline void add_refault(struct task_struct *current, struct inode *inode, __u64 ino, __u32 dev, __u64 steps)
{
	struct wire_refault_key key = { .tgid = task_field(current, tgid), .dev = dev, .ino = ino };
	struct wire_refault *sum = bpf_map_lookup_elem(&refaults, &key);

	if (!sum) {
		bpf_map_update_elem(&refaults, &key, &no_refault, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&refaults, &key);
		if (!sum)
			return;
		sum->path_bytes = read_inode_path(sum->path, inode);
	}
	__sync_fetch_and_add(&sum->pages, steps << STEP_SHIFT);
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int page_brought_in(__u64 *ctx)
{
	__u64 ino, step, end, all, again = 0, by = 0;
	struct task_struct *current;
	struct cache_pages pages;
	__u32 dev;

	if (likely(!evicts))
		return 0;
	pages = compat_cache_pages(ctx);
	ino = pages.inode->i_ino;
	step = steps_before(pages.index + ino);
	end = steps_before(pages.index + ino + pages.count);
	if (likely(step == end))
		return 0;
	all = end - step;
	current = compat_current();
	dev = pages.inode->i_sb->s_dev;
	for (int i = 0; i < STEPS_MAX && step < end; i++, step++) {
		struct evicted_place place = evicted_place(ino, dev, step);
		__u64 found = *place.entry;
		/* All bits or none, without a branch: the verifier would walk on for each answer. */
		__u64 same = is_any((found ^ place.tag) >> EVICTED_PID_BITS) - 1;
		*place.entry = found & ~same;
		by = (by & ~same) | (found & same & ((1 << EVICTED_PID_BITS) - 1));
		again -= same;
	}
	if (again) {
		add_cache(current, by, again);
		add_refault(current, pages.inode, ino, dev, again);
	}
	if (all > again)
		add_cache(current, 0, all - again);
	return 0;
}

static __always_inline void add_dirtied(struct task_struct *current, struct inode *inode, __u64 steps)
{
	struct wire_dirtied_key key = { .tgid = task_field(current, tgid), .dev = inode->i_sb->s_dev };
	struct wire_dirtied *sum;

	/* The files of all disks that are written as files lie in one file system. */
	if ((inode->i_mode & S_IFMT) == S_IFBLK)
		key.dev = inode->i_rdev;
	sum = bpf_map_lookup_elem(&dirtied, &key);
	if (!sum) {
		bpf_map_update_elem(&dirtied, &key, &no_dirtied, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&dirtied, &key);
		if (!sum)
			return;
		fill_ref(&sum->process, current);
	}
	__sync_fetch_and_add(&sum->pages, steps << STEP_SHIFT);
}

static __always_inline int count_dirtied(__u64 *ctx)
{
	struct cache_pages pages = compat_cache_pages(ctx);
	__u64 ino = pages.inode->i_ino, step = steps_before(pages.index + ino);
	__u64 end = steps_before(pages.index + ino + pages.count);
	struct task_struct *current;

	if (likely(step == end))
		return 0;
	current = compat_current();
	/* A thread of the kernel has no files of its own. */
	if (!(task_field(current, flags) & PF_KTHREAD))
		add_dirtied(current, pages.inode, end - step);
	return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int folio_dirtied(__u64 *ctx)
{
	return count_dirtied(ctx);
}

/* Its name before 5.16. */
SEC("tp_btf/writeback_dirty_page")
int page_dirtied(__u64 *ctx)
{
	return count_dirtied(ctx);
}
