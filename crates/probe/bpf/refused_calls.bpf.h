/*
 * refused_calls.bpf.h: system calls by their numbers, which differ between architectures: what each does that refused.bpf.c asks for, and where its
 * path or address stands among its arguments.
 *
 * Must not: know an error, or what a refusal is for. Rejected: the tracepoint of each call (sys_exit_connect and its like are not there on every kernel).
 *
 * Edit together: refused.bpf.c, src/decode/refused.rs (the same calls by name).
 */
#ifndef HOLDUP_REFUSED_CALLS_H
#define HOLDUP_REFUSED_CALLS_H

/* Where a path stands among the arguments, and the folder that it begins in if it is relative. */
enum name_at {
	NAME_NOWHERE,
	NAME_FIRST,
	NAME_SECOND,
	NAME_SECOND_IN_FIRST,
	NAME_THIRD_IN_SECOND,
	NAME_FOURTH_IN_THIRD,
};

#if defined(__TARGET_ARCH_x86)
/* Read directly: it is asked of each call that succeeds. */
static __always_inline bool is_kill(struct pt_regs *regs)
{
	return regs->orig_ax == 62;
}
/* wait4; read directly as well */
static __always_inline bool is_reap(struct pt_regs *regs)
{
	return regs->orig_ax == 61;
}
/* read, readv, recvfrom, recvmsg; read directly as well */
static __always_inline bool is_reading(struct pt_regs *regs)
{
	return regs->orig_ax == 0 || regs->orig_ax == 19 || regs->orig_ax == 45 || regs->orig_ax == 47;
}
/* open, stat, lstat, access, openat, newfstatat, faccessat, statx, faccessat2; read directly as well */
static __always_inline bool is_look(struct pt_regs *regs)
{
	switch (regs->orig_ax) {
	case 2: case 4: case 6: case 21: case 257: case 262: case 269: case 332: case 439:
		return true;
	}
	return false;
}
static __always_inline bool is_fcntl(__s64 number)
{
	return number == 72;
}
static __always_inline bool is_flock(__s64 number)
{
	return number == 73;
}
/* clone, fork, vfork, clone3 */
static __always_inline bool begins_process(__s64 number)
{
	return number == 56 || number == 57 || number == 58 || number == 435;
}
static __always_inline bool connects(__s64 number)
{
	return number == 42;
}
static __always_inline bool sends_to(__s64 number)
{
	return number == 44;
}
/* sendmsg, sendmmsg */
static __always_inline bool sends_message(__s64 number)
{
	return number == 46 || number == 307;
}
static __always_inline bool binds(__s64 number)
{
	return number == 49;
}
/* write, pwrite64, writev, fallocate, pwritev, pwritev2 */
static __always_inline bool writes(__s64 number)
{
	return number == 1 || number == 18 || number == 20 || number == 285 || number == 296 || number == 328;
}
static __always_inline enum name_at name_at(__s64 number)
{
	switch (number) {
	case 2: case 83: case 133: /* open, mkdir, mknod */
		return NAME_FIRST;
	case 86: case 88: /* link, symlink */
		return NAME_SECOND;
	case 257: case 258: case 259: case 437: /* openat, mkdirat, mknodat, openat2 */
		return NAME_SECOND_IN_FIRST;
	case 266: /* symlinkat */
		return NAME_THIRD_IN_SECOND;
	case 265: case 316: /* linkat, renameat2 */
		return NAME_FOURTH_IN_THIRD;
	}
	return NAME_NOWHERE;
}
/* Of a call that makes nothing new. */
static __always_inline enum name_at path_at(__s64 number)
{
	switch (number) {
	case 4: case 6: /* stat, lstat */
	case 21: case 59: case 76: case 80: case 82: /* access, execve, truncate, chdir, rename */
	case 84: case 85: case 87: case 90: case 92: case 94: /* rmdir, creat, unlink, chmod, chown, lchown */
	case 161: case 166: case 167: case 188: /* chroot, umount2, swapon, setxattr */
		return NAME_FIRST;
	case 155: case 165: /* pivot_root, mount */
		return NAME_SECOND;
	case 260: case 261: case 263: case 264: case 268: /* fchownat, futimesat, unlinkat, renameat, fchmodat */
	case 269: case 280: case 322: case 439: case 452: /* faccessat, utimensat, execveat, faccessat2, fchmodat2 */
	case 262: case 332: /* newfstatat, statx */
		return NAME_SECOND_IN_FIRST;
	}
	return name_at(number);
}
/* fsync, ftruncate, fchmod, fchown, ioctl */
static __always_inline bool is_of_file(__s64 number)
{
	return number == 74 || number == 77 || number == 91 || number == 93 || number == 16;
}
#else
static __always_inline bool is_kill(struct pt_regs *regs)
{
	return regs->syscallno == 129;
}
static __always_inline bool is_reap(struct pt_regs *regs)
{
	return regs->syscallno == 260;
}
static __always_inline bool is_reading(struct pt_regs *regs)
{
	return regs->syscallno == 63 || regs->syscallno == 65 || regs->syscallno == 207 || regs->syscallno == 212;
}
/* faccessat, openat, newfstatat, statx, faccessat2 */
static __always_inline bool is_look(struct pt_regs *regs)
{
	switch (regs->syscallno) {
	case 48: case 56: case 79: case 291: case 439:
		return true;
	}
	return false;
}
static __always_inline bool is_fcntl(__s64 number)
{
	return number == 25;
}
static __always_inline bool is_flock(__s64 number)
{
	return number == 32;
}
static __always_inline bool begins_process(__s64 number)
{
	return number == 220 || number == 435;
}
static __always_inline bool connects(__s64 number)
{
	return number == 203;
}
static __always_inline bool sends_to(__s64 number)
{
	return number == 206;
}
/* sendmsg, sendmmsg */
static __always_inline bool sends_message(__s64 number)
{
	return number == 211 || number == 269;
}
static __always_inline bool binds(__s64 number)
{
	return number == 200;
}
static __always_inline bool writes(__s64 number)
{
	return number == 47 || number == 64 || number == 66 || number == 68 || number == 70 || number == 287;
}
static __always_inline enum name_at name_at(__s64 number)
{
	switch (number) {
	case 33: case 34: case 56: case 437: /* mknodat, mkdirat, openat, openat2 */
		return NAME_SECOND_IN_FIRST;
	case 36: /* symlinkat */
		return NAME_THIRD_IN_SECOND;
	case 37: case 276: /* linkat, renameat2 */
		return NAME_FOURTH_IN_THIRD;
	}
	return NAME_NOWHERE;
}
static __always_inline enum name_at path_at(__s64 number)
{
	switch (number) {
	case 5: case 39: case 45: case 49: case 51: /* setxattr, umount2, truncate, chdir, chroot */
	case 221: case 224: /* execve, swapon */
		return NAME_FIRST;
	case 40: case 41: /* mount, pivot_root */
		return NAME_SECOND;
	case 35: case 38: case 48: case 53: case 54: /* unlinkat, renameat, faccessat, fchmodat, fchownat */
	case 79: case 88: case 281: case 291: case 439: case 452: /* newfstatat, utimensat, execveat, statx, faccessat2, fchmodat2 */
		return NAME_SECOND_IN_FIRST;
	}
	return name_at(number);
}
static __always_inline bool is_of_file(__s64 number)
{
	return number == 82 || number == 46 || number == 52 || number == 55 || number == 29;
}
#endif

/* Whether it is about an address: of a datagram each call looks for a route. */
static __always_inline bool has_address(__s64 number)
{
	return connects(number) || binds(number) || sends_to(number) || sends_message(number);
}

#endif
