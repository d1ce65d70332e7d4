/*
 * holdup.bpf.c: the kernel programs as one object, one subsystem a file.
 *
 * They share maps (the ring, the thread states), which separate objects could only do by pinning or by passing
 * descriptors; which of them are attached is decided by src/plan.rs.
 */
#include "common.bpf.h"
#include "place.bpf.h"
#include "thread_state.bpf.h"
#include "switch_clock.bpf.h"
#include "sums.bpf.h"
#include "contention.bpf.h"
/* In this order: later files use the helpers of earlier ones. */
#include "wake.bpf.c"
#include "sched.bpf.c"
#include "block.bpf.c"
#include "mem.bpf.c"
#include "cache.bpf.c"
#include "net.bpf.c"
#include "sent.bpf.c"
#include "drops.bpf.c"
#include "lock.bpf.c"
#include "refused.bpf.c"
#include "sample.bpf.c"
#include "iter.bpf.c"

/* Types that cross only as bytes: named here so that their BTF reaches the generated reader types. */
struct wire_types {
	struct wire_wait wait;
	struct wire_fork fork;
	struct wire_exec exec;
	struct wire_exit exit;
	struct wire_thread thread;
	struct wire_endpoint endpoint;
	struct wire_registers registers;
	struct wire_request request;
	struct wire_oom oom;
	struct wire_signal signal;
	struct wire_dns dns;
	struct wire_denied denied;
	struct wire_disk_key disk_key;
	struct wire_disk_latency disk_latency;
	struct wire_disk_latency_slot disk_latency_slot;
	struct wire_disk_use_key disk_use_key;
	struct wire_disk_use disk_use;
	struct wire_disk_use_slot disk_use_slot;
	struct wire_reclaim_key reclaim_key;
	struct wire_reclaim reclaim;
	struct wire_cache_key cache_key;
	struct wire_cache cache;
	struct wire_refault_key refault_key;
	struct wire_refault refault;
	struct wire_dirtied_key dirtied_key;
	struct wire_dirtied dirtied;
	struct wire_dirty_key dirty_key;
	struct wire_dirty dirty;
	struct wire_qdisc_key qdisc_key;
	struct wire_qdisc qdisc;
	struct wire_flow_key flow_key;
	struct wire_flow flow;
	struct wire_drop_key drop_key;
	struct wire_drop drop;
	struct wire_dropped_flow_key dropped_flow_key;
	struct wire_dropped_flow dropped_flow;
	struct wire_messages messages;
	struct wire_sent_key sent_key;
	struct wire_sent sent;
	struct wire_sample_key sample_key;
	struct wire_sample sample;
	struct wire_work_key work_key;
	struct wire_work work;
	struct wire_point_key point_key;
	struct wire_effort_key effort_key;
	struct wire_effort effort;
};
struct wire_types *wire_types = 0;
enum wire_kind wire_kind = 0;
enum wire_object_kind wire_object_kind = 0;
enum wire_flag wire_flag = 0;
enum wire_context wire_context = 0;
enum wire_mode wire_mode = 0;
enum wire_effort_counter wire_effort_counter = 0;
enum wire_message_call wire_message_call = 0;
enum wire_limit wire_limit = 0;
enum wire_lock_guards wire_lock_guards = 0;

char LICENSE[] SEC("license") = "Dual MIT/GPL";
