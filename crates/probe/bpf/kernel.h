/*
 * kernel.h: the kernel structs that the programs read, and of each only the fields that are read.
 *
 * Offsets are fixed up at load (CO-RE), so a field's place here means nothing; its name and type do.
 * A full vmlinux.h is 2.8 MB and hides what is depended on. Fields that were renamed or moved between
 * kernels are in compat.bpf.h, not here.
 *
 * LONG FILE: one struct after the other and no code; to part it by subsystem would part what they share.
 */
#ifndef HOLDUP_KERNEL_H
#define HOLDUP_KERNEL_H

#include <stdbool.h>

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __le16;
typedef __u32 __le32;
typedef __u64 __le64;
typedef __u32 __wsum;
typedef __u16 __sum16;

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2, BPF_RB_AVAIL_DATA = 0 };

/* Of the helpers' numbers, those that not every kernel has. */
enum bpf_func_id {
	BPF_FUNC_task_storage_get = 156,
	BPF_FUNC_get_current_task_btf = 158,
	BPF_FUNC_task_pt_regs = 175,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	/* x86_64 */
	unsigned long bp, r10, r9, r8, dx, si, di, orig_ax, ip;
	/* both */
	unsigned long sp;
	/* arm64 */
	unsigned long regs[31];
	__u64 orig_x0;
	__s32 syscallno;
	unsigned long pc;
	__u64 pstate;
};

struct kernfs_node {
	__u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
};
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};
struct kernel_cpustat;
struct cpuacct {
	struct cgroup_subsys_state css;
	struct kernel_cpustat *cpustat; /* per CPU */
};
struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
};
enum cgroup_subsys_id {
	cpu_cgrp_id = 0,
	memory_cgrp_id = 1,
	io_cgrp_id = 2,
	cpuacct_cgrp_id = 3,
	pids_cgrp_id = 4,
};

typedef struct {
	int counter;
} atomic_t;
typedef struct {
	__s64 counter;
} atomic64_t;
struct percpu_counter {
	__s64 count;
};
enum rss_counter {
	MM_FILEPAGES,
	MM_ANONPAGES,
	MM_SWAPENTS,
	MM_SHMEMPAGES,
};
struct hlist_node {
	struct hlist_node *next;
};
struct hlist_head {
	struct hlist_node *first;
};
struct mutex {
	atomic64_t owner;
};
struct rw_semaphore {
	atomic64_t owner;
};

struct file_system_type {
	const char *name;
};
struct sb_writers {
	short unsigned int frozen;
};
struct super_block {
	struct rw_semaphore s_umount;
	unsigned long s_magic;
	struct dentry *s_root;
	__u32 s_dev;
	struct file_system_type *s_type;
	struct sb_writers s_writers;
};
struct pipe_inode_info {
	unsigned int readers;
};
struct address_space {
	struct inode *host;
	struct rw_semaphore i_mmap_rwsem;
};
/* Of a page of the cache, or of the several that are one since 5.16. */
struct folio {
	struct address_space *mapping;
	unsigned long index;
};
struct page {
	struct address_space *mapping;
	unsigned long index;
};
struct inode {
	struct rw_semaphore i_rwsem;
	struct hlist_head i_dentry;
	struct address_space i_data;
	__u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_rdev;
	struct pipe_inode_info *i_pipe;
};
struct qstr {
	const unsigned char *name;
};
struct dentry {
	struct dentry *d_parent;
	const struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
	union {
		struct hlist_node d_alias;
	} d_u;
};
struct vfsmount;
struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};
struct file {
	__u32 f_mode;
	__u32 f_flags;
	void *private_data;
	struct inode *f_inode;
	const struct path f_path;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};

struct rq {
	__u64 clock;
	struct task_struct *curr;
};
struct cfs_rq {
	struct rq *rq;
	int throttle_count;
};
struct sched_entity {
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};
struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};
typedef struct {
	__u64 val;
} kernel_cap_t;
struct cred {
	kernel_cap_t cap_effective;
};
struct vm_area_struct {
	unsigned long vm_start, vm_end;
	struct file *vm_file;
	unsigned long vm_pgoff;
};

struct task_io_accounting {
	__u64 rchar, wchar, syscr, syscw;
};
struct nameidata {
	struct path path;
};
struct kioctx_table {
	unsigned int nr;
	struct kioctx *table[0];
};
struct mm_struct {
	struct rw_semaphore mmap_lock;
	struct task_struct *owner;
	struct kioctx_table *ioctx_table;
	unsigned long data_vm;
	unsigned long arg_start;
	unsigned long arg_end;
	struct percpu_counter rss_stat[4];
};

struct fs_struct {
	struct path pwd;
};
struct rlimit {
	unsigned long rlim_cur;
	unsigned long rlim_max;
};
struct signal_struct {
	atomic_t live;
	unsigned int flags;
	struct rlimit rlim[16];
};

/* One bit for each call that a filter lets pass whatever its arguments are; from 5.11 on. */
struct action_cache {
	unsigned long allow_native[8];
};
struct seccomp_filter {
	struct action_cache cache;
};
struct seccomp {
	int mode;
	struct seccomp_filter *filter;
};

struct task_struct {
	struct mm_struct *mm;
	const struct cred *cred;
	struct task_io_accounting ioac;
	unsigned long min_flt, maj_flt;
	void *stack;
	unsigned int flags;
	int on_cpu;
	unsigned int policy;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned long nvcsw, nivcsw;
	int exit_state;
	int exit_code;
	unsigned int in_iowait : 1;
	unsigned int frozen : 1;
	__s32 pid;
	__s32 tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 start_time;
	char comm[16];
	struct fs_struct *fs;
	struct files_struct *files;
	struct signal_struct *signal;
	struct io_uring_task *io_uring;
	struct nameidata *nameidata;
	struct css_set *cgroups;
	struct seccomp seccomp;
};

struct refcount_struct {
	atomic_t refs;
};
struct pids_cgroup {
	struct cgroup_subsys_state css;
	atomic64_t counter;
	atomic64_t limit;
};
struct ns_common {
	unsigned int inum;
};
struct netns_ipv4 {
	int sysctl_max_syn_backlog;
	__u8 sysctl_tcp_syncookies;
};
struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};
struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	short unsigned int skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	unsigned long skc_flags;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};
struct socket;
struct sk_buff_head {
	__u32 qlen;
};
struct upid {
	int nr;
};
struct pid {
	struct upid numbers[1];
};
struct sock {
	struct sock_common __sk_common;
	atomic_t sk_drops;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	int sk_rcvbuf;
	int sk_sndbuf;
	int sk_wmem_queued;
	struct sk_buff_head sk_receive_queue;
	__u16 sk_protocol;
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog;
	struct socket *sk_socket;
	int sk_err;
	struct pid *sk_peer_pid;
};
struct socket {
	struct file *file;
	struct sock *sk;
};
struct minmax_sample {
	__u32 t;
	__u32 v;
};
struct minmax {
	struct minmax_sample s[3];
};
struct request_sock {
	struct sock *sk;
};
struct request_sock_queue {
	atomic_t qlen;
	struct request_sock *rskq_accept_head;
};
struct inet_connection_sock {
	struct request_sock_queue icsk_accept_queue;
	struct {
		__u32 lrcvtime;
	} icsk_ack;
};
struct tcp_sock {
	__u32 copied_seq;
	__u32 rcv_nxt;
	__u32 rcv_tstamp;
	__u32 lsndtime;
	__u32 snd_una;
	__u32 snd_wl1;
	__u32 snd_sml;
	__u32 packets_out;
	__u8 nonagle : 4;
	__u64 first_tx_mstamp;
	__u64 delivered_mstamp;
	__u32 snd_wnd;
	__u32 mss_cache;
	__u32 snd_cwnd;
	__u8 chrono_type : 2;
	__u32 chrono_start;
	__u32 chrono_stat[3];
	__u32 write_seq;
	__u32 snd_nxt;
	__u32 srtt_us;
	__u32 delivered;
	__u32 total_retrans;
	__u64 bytes_received;
	__u64 bytes_acked;
	struct minmax rtt_min;
};
struct sockaddr_un {
	char sun_path[108];
};
struct unix_address {
	int len;
	struct sockaddr_un name[0];
};
struct unix_sock {
	struct sock sk;
	struct unix_address *addr;
	struct sock *peer;
	struct sock *listener; /* since 6.10: of one that nobody has accepted yet */
};

struct tty_struct {
	int index;
	char name[64];
	struct {
		_Bool stopped;
	} flow; /* before 5.14 a bit of its own, which is not read */
	struct tty_struct *link;
};
struct tty_file_private {
	struct tty_struct *tty;
};
struct fuse_conn {
	__u32 dev;
};
struct fuse_dev {
	struct fuse_conn *fc;
};

struct fsnotify_group {
	unsigned int priority;
};

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};
struct linux_binprm {
	const char *filename;
};

struct gendisk {
	int major;
	int first_minor;
};
struct block_device {
	__u32 bd_dev;
	struct gendisk *bd_disk;
};
struct bvec_iter {
	unsigned int bi_size;
	__u64 bi_sector;
};
struct bio {
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
};
struct request_queue {
	struct gendisk *disk;
};
struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
	__u64 start_time_ns;
};
struct backing_dev_info {
	char dev_name[64];
};
struct bdi_writeback {
	struct backing_dev_info *bdi;
};

struct net_device {
	char name[16];
	int ifindex;
	possible_net_t nd_net;
};
struct iphdr {
	__u8 protocol;
};
struct ipv6hdr {
	__u8 nexthdr;
};
struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	struct sock *sk;
	unsigned int len;
	unsigned int data_len;
	__u32 hash;
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};
struct Qdisc {
	unsigned int flags;
	__u32 handle;
	__u32 parent;
};
struct netdev_queue {
	struct net_device *dev;
};
struct kernel_siginfo;

struct flowi_common {
	int flowic_iif;
	__u8 flowic_proto;
};
union flowi_uli {
	struct {
		__be16 dport, sport;
	} ports;
};
struct flowi4 {
	struct flowi_common __fl_common;
	__be32 daddr;
	union flowi_uli uli;
};
struct flowi6 {
	struct flowi_common __fl_common;
	struct in6_addr daddr;
	union flowi_uli uli;
};
struct list_head {
	struct list_head *next, *prev;
};
struct wait_queue_entry {
	void *private;
	struct list_head entry;
};
struct poll_table_entry {
	struct file *filp;
	__u32 key;
	struct wait_queue_entry wait;
};
struct poll_wqueues {
	struct task_struct *polling_task;
	int inline_index;
	struct poll_table_entry inline_entries[9];
};
struct epoll_filefd {
	struct file *file;
};
struct epitem {
	struct list_head rdllink;
	struct epoll_filefd ffd;
};
struct eventpoll {
	struct list_head rdllist;
};

struct io_uring_task {
	struct file *registered_rings[16];
};
struct io_rings {
	__u32 sq_dropped;
};
struct io_ring_ctx {
	struct io_rings *rings;
	unsigned int cached_sq_head;
	unsigned int cached_cq_tail;
};
struct kioctx_cpu {
	unsigned int reqs_available;
};
struct kioctx {
	unsigned long user_id;
	struct kioctx_cpu *cpu; /* per CPU */
	unsigned int nr_events;
	atomic_t reqs_available;
	unsigned int completed_events;
};
struct blkg_policy_data;
struct blkcg_gq {
	struct request_queue *q;
	struct hlist_node blkcg_node;
	struct blkcg_gq *parent;
	struct blkg_policy_data *pd[6];
};
struct blkcg {
	struct cgroup_subsys_state css;
	struct hlist_head blkg_list;
};
struct throtl_data {
	struct request_queue *queue;
};
struct throtl_service_queue {
	unsigned int nr_queued_bps[2];
	unsigned int nr_queued_iops[2];
};
struct throtl_grp {
	struct throtl_data *td;
	struct throtl_service_queue service_queue;
};

#pragma clang attribute pop

#endif
