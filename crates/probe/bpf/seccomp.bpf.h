/*
 * seccomp.bpf.h: whether a filter of system calls may have refused one.
 *
 * Nothing says that a filter did: it may answer with any error. Of a call that it lets pass whatever the arguments are the kernel keeps a
 * bit (since 5.11), so that it need not ask the filter; of all others it may have.
 *
 * Must not: run the filter, or say what it answered. Rejected: seccomp's own log, which only some actions write.
 *
 * Edit together: refused.bpf.c, kernel.h (struct seccomp_filter).
 */
#ifndef HOLDUP_SECCOMP_H
#define HOLDUP_SECCOMP_H

#include "common.bpf.h"

/* Of include/uapi/linux/seccomp.h, and the calls that are looked up in what it has cached. */
#define SECCOMP_MODE_FILTER 2
#define FILTERED_CALLS 512

/* Whether a filter may have refused the call. */
static __always_inline bool is_filtered(struct task_struct *task, __s64 number)
{
	struct seccomp_filter *filter;
	unsigned long *calls, passes = 0;

	if (!bpf_core_field_exists(task->seccomp.filter) || BPF_CORE_READ(task, seccomp.mode) != SECCOMP_MODE_FILTER)
		return false;
	filter = BPF_CORE_READ(task, seccomp.filter);
	if (!filter || !bpf_core_field_exists(filter->cache.allow_native) || number < 0 || number >= FILTERED_CALLS)
		return filter;
	calls = (unsigned long *)((void *)filter + bpf_core_field_offset(filter->cache.allow_native));
	bpf_probe_read_kernel(&passes, sizeof(passes), &calls[number / 64]);
	return !(passes >> (number & 63) & 1);
}

#endif
