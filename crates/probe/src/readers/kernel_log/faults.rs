//! A fault of the kernel that happened in a kernel program of holdup's own, by what the kernel prints of it.
//!
//! A report begins with what went wrong, and some lines later says at which instruction: `RIP: 0010:bpf_prog_TAG_NAME+0x1a/0x2b`, on
//! arm64 `pc : bpf_prog_TAG_NAME+0x1a/0x2b` (arch/x86/kernel/dumpstack.c, arch/arm64/kernel/process.c). The tag says whose program it is.
//! A stall or a backtrace that somebody asked for prints that line too, after other first lines: those are no faults. Must not:
//! take another's program for an own one; a program in the call trace alone did not fault.

use holdup_reason::facts::Ns;
use std::collections::BTreeSet;

/// What a report of a fault begins with: arch/x86/mm/fault.c, arch/x86/kernel/traps.c, arch/arm64/mm/fault.c, arch/arm64/kernel/traps.c.
const BEGINS: &[&str] = &[
    "BUG: unable to handle ",
    "BUG: kernel NULL pointer dereference",
    "BUG: stack guard page was hit",
    "general protection fault",
    "Oops: ",
    "Unable to handle kernel ",
    "Internal error: Oops",
];
/// It ends with this line; what comes later is another report's.
const END: &str = "---[ end trace";

/// A report says so soon after its begin where the fault was, also over a slow serial console. What prints that line later is another's, of
/// which the first line was not seen.
const REPORT_NS: Ns = 10_000_000_000;

/// Reports of faults, line by line.
#[derive(Debug, Default)]
pub(super) struct Faults {
    own: BTreeSet<[u8; 8]>,
    begun_ns: Option<Ns>,
}

impl Faults {
    /// Of programs that have these tags, within a report that has begun then, if any.
    pub(super) fn of(own: BTreeSet<[u8; 8]>, begun_ns: Option<Ns>) -> Self {
        Self { own, begun_ns }
    }

    /// When a report has begun that has not said yet where it happened: the next reading says that.
    pub(super) fn begun_ns(&self) -> Option<Ns> {
        self.begun_ns
    }

    /// Lines are missing, and the rest of a report may be among them.
    pub(super) fn forget(&mut self) {
        self.begun_ns = None;
    }

    /// The own program in which the fault happened, if this line says that.
    pub(super) fn take<'a>(&mut self, at_ns: Ns, text: &'a str) -> Option<&'a str> {
        if BEGINS.iter().any(|begin| text.starts_with(begin)) {
            self.begun_ns = Some(at_ns);
        } else if text.starts_with(END) {
            self.begun_ns = None;
        }
        // Lines of several CPUs may come a little out of order.
        self.begun_ns = self.begun_ns.filter(|begun| at_ns.saturating_sub(*begun) <= REPORT_NS);
        let at = instruction(text).filter(|_| self.begun_ns.is_some())?;
        self.begun_ns = None;
        let (tag, name) = program(at)?;
        self.own.contains(&tag).then_some(name)
    }
}

/// The function at whose instruction it happened: the kernel's segment, or that of a paravirtual guest of Xen. User space has another one,
/// and no names.
fn instruction(text: &str) -> Option<&str> {
    const BEFORE: [&str; 3] = ["RIP: 0010:", "RIP: e030:", "pc : "];
    BEFORE.iter().find_map(|before| text.strip_prefix(before))?.split('+').next()
}

/// Tag and name of a program, of its name in the kernel's table of symbols.
fn program(symbol: &str) -> Option<([u8; 8], &str)> {
    let (tag, name) = symbol.strip_prefix("bpf_prog_")?.split_at_checked(16)?;
    let tag = u64::from_str_radix(tag, 16).ok()?.to_be_bytes();
    Some((tag, name.strip_prefix('_').unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 8] = [0x0a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f, 0x60, 0x71];

    fn of(lines: &[&str]) -> Option<String> {
        let mut faults = Faults::of([OWN].into(), None);
        lines.iter().find_map(|line| faults.take(0, line)).map(str::to_owned)
    }

    #[test]
    fn a_report_whose_rest_never_came_is_none_of_what_is_printed_later() {
        let own = "RIP: 0010:bpf_prog_0a1b2c3d4e5f6071_sched_switch+0x1a3/0x5c0";
        let found = |begun_ns, at_ns| {
            let mut faults = Faults::of([OWN].into(), Some(begun_ns));
            faults.take(at_ns, own).is_some()
        };
        assert!(found(5, 5) && found(5, 5 + REPORT_NS), "its own line");
        assert!(found(5, 4), "another CPU's clock is behind");
        assert!(!found(5, 6 + REPORT_NS), "a stall's, hours later");
        let mut faults = Faults::of([OWN].into(), Some(5));
        faults.forget();
        assert_eq!(faults.take(5, own), None, "lines are missing in between");
    }

    #[test]
    fn a_fault_in_an_own_program_is_named() {
        let x86 = [
            "BUG: unable to handle page fault for address: 0000000100000058",
            "#PF: supervisor read access in kernel mode",
            "#PF: error_code(0x0000) - not-present page",
            "PGD 0 P4D 0 ",
            "Oops: Oops: 0000 [#1] SMP NOPTI",
            "CPU: 1 UID: 0 PID: 812 Comm: curl Not tainted 6.18.5 #1 PREEMPT(none) ",
            "RIP: 0010:bpf_prog_0a1b2c3d4e5f6071_inet_sock_set_s+0x1a3/0x5c0",
            "RIP: 0033:0x7f2d0c5018e0",
        ];
        assert_eq!(of(&x86).as_deref(), Some("inet_sock_set_s"));
        let arm64 = [
            "Unable to handle kernel paging request at virtual address 0000000100000058",
            "Internal error: Oops: 0000000096000004 [#1] SMP",
            "pc : bpf_prog_0a1b2c3d4e5f6071_take_packet+0x54/0x9c",
            "lr : bpf_prog_0a1b2c3d4e5f6071_net_dev_xmit+0x20/0x9c",
        ];
        assert_eq!(of(&arm64).as_deref(), Some("take_packet"));
    }

    #[test]
    fn another_s_program_and_the_kernel_s_own_code_are_not_ours() {
        let begin = "BUG: kernel NULL pointer dereference, address: 0000000000000008";
        for line in [
            "RIP: 0010:bpf_prog_ffffffffffffffff_inet_sock_set_s+0x1a3/0x5c0",
            "RIP: 0010:ext4_find_entry+0x1a3/0x5c0",
            "RIP: 0010:bpf_prog_0a1b",
            "RIP: 0010:bpf_prog_zz1b2c3d4e5f6071_x+0x1/0x2",
            " bpf_prog_0a1b2c3d4e5f6071_inet_sock_set_s+0x1a3/0x5c0",
        ] {
            assert_eq!(of(&[begin, line]), None, "{line}");
        }
        let own = "RIP: 0010:bpf_prog_0a1b2c3d4e5f6071_x+0x1/0x2";
        let kernel = "RIP: 0010:ext4_find_entry+0x1a3/0x5c0";
        assert_eq!(of(&[begin, kernel, own]), None, "the first says where");
    }

    #[test]
    fn a_backtrace_that_is_no_fault_stays_silent() {
        let own = "RIP: 0010:bpf_prog_0a1b2c3d4e5f6071_sched_switch+0x1a3/0x5c0";
        for begin in [
            "NMI backtrace for cpu 1",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [burn:412]",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "BUG: scheduling while atomic: burn/412/0x00000002",
        ] {
            assert_eq!(of(&[begin, own]), None, "{begin}");
        }
        let ended = ["Oops: 0000 [#1] SMP", "---[ end trace 0000000000000000 ]---", own];
        assert_eq!(of(&ended), None);
    }
}
