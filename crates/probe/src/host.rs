//! What this kernel and these privileges offer: reads, no rules.
//!
//! One look at the start: BTF, which tracepoints the kernel's BTF declares, capabilities, lockdown.
//! Deciding what to do with it is `plan.rs`; this file must not attach anything.
//! Rejected: testing the kernel's version. Distributions backport; BTF tells what is there.

use crate::system::clock::scheduler_hz;
use crate::system::own::capabilities;
use crate::system::view;
use libbpf_rs::btf::{Btf, ReferencesType, TypeId, types};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// What the host offers to kernel programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// Why BPF cannot be used at all; none if it can be tried.
    pub no_bpf: Option<NoBpf>,
    /// Tracepoints that the kernel's BTF declares, of those asked for.
    pub tracepoints: BTreeSet<String>,
    /// sched_switch tells the previous state as its fourth argument (5.18).
    pub switch_has_state: bool,
    /// block_rq_* pass the queue before the request (until 5.10).
    pub request_after_queue: bool,
    /// block_bio_queue passes the queue before the bio (until 5.10).
    pub bio_after_queue: bool,
    /// Number of arguments of balance_dirty_pages, without the context.
    pub dirty_arguments: u32,
    /// mark_victim tells the task itself (6.8), not its number.
    pub victim_is_task: bool,
    /// Tracing programs have no task storage (before 5.12): their states go into a hash.
    pub thread_states_in_hash: bool,
    /// The scheduler keeps how long each task was queued (CONFIG_SCHED_INFO, and not switched off at boot).
    pub reports_queued: bool,
    /// Where x86 keeps the preempt count, in bytes from the run queue of the same CPU; 0 if unknown.
    pub preempt_count_from_runqueue: i64,
    /// Where a CPU's kernel_cpustat lies, in bytes from its run queue; 0 if unknown.
    pub cpustat_from_runqueue: i64,
    /// Ticks a second that `pause` of balance_dirty_pages counts in.
    pub config_hz: u32,
    /// BPF programs may look up the mapping at an address (5.17).
    pub find_vma: bool,
    /// The kernel's reasons for dropping a packet, by number, without their prefix; none: it gives no reasons (before 5.17).
    pub drop_reasons: BTreeMap<u32, String>,
    /// kfree_skb has the socket that was to have it (6.11).
    pub drop_has_receiver: bool,
    /// Effective capabilities.
    pub capabilities: u64,
    /// Effective user id.
    pub euid: u32,
}

/// Why there is no BPF, and what to do for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoBpf {
    /// Half a sentence.
    pub why: String,
    /// The same.
    pub remedy: &'static str,
}

impl NoBpf {
    /// Where the right to it, or the kernel's description of itself, is missing.
    pub fn refused(why: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: "run it as root on a kernel with BTF (5.10 or later)" }
    }

    /// Where its numbers of threads would be those of others.
    fn other_numbers() -> Self {
        Self {
            why: "it numbers threads as the first PID namespace does, and this is another".into(),
            remedy: "give it the host's PID namespace (docs/containers.md)",
        }
    }
}

/// The types of the running kernel.
pub(crate) const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_BPF: u64 = 1 << 39;
const CAP_PERFMON: u64 = 1 << 38;

/// Reads what the host offers, for the tracepoints named.
pub fn look(tracepoints: &[&str]) -> Offer {
    let mut offer = Offer {
        capabilities: capabilities::effective(),
        config_hz: scheduler_hz().unwrap_or(0),
        reports_queued: std::fs::read_to_string("/proc/self/schedstat")
            .is_ok_and(|text| is_counted(&text)),
        ..Offer::default()
    };
    offer.euid = rustix::process::geteuid().as_raw();
    let bpf = CAP_BPF | CAP_PERFMON;
    if !view::numbers_as_the_kernel() {
        offer.no_bpf = Some(NoBpf::other_numbers());
        return offer;
    }
    if offer.capabilities & CAP_SYS_ADMIN == 0 && offer.capabilities & bpf != bpf {
        offer.no_bpf = Some(NoBpf::refused("it needs root, or CAP_BPF and CAP_PERFMON"));
        return offer;
    }
    if !Path::new(KERNEL_BTF).exists() {
        let why = format!("the kernel has no BTF ({KERNEL_BTF}; CONFIG_DEBUG_INFO_BTF)");
        offer.no_bpf = Some(NoBpf::refused(why));
        return offer;
    }
    match Btf::from_vmlinux() {
        Err(error) => {
            offer.no_bpf =
                Some(NoBpf::refused(format!("the kernel's BTF cannot be read: {error}")));
        }
        Ok(btf) => {
            let arguments = arguments_by_tracepoint(&btf);
            let at_least =
                |name: &str, count: u32| arguments.get(name).is_some_and(|has| *has >= count);
            let offered = tracepoints.iter().filter(|name| arguments.contains_key(**name));
            offer.tracepoints = offered.map(|name| (*name).to_string()).collect();
            offer.switch_has_state = at_least("sched_switch", 4);
            offer.request_after_queue = at_least("block_rq_issue", 2);
            offer.bio_after_queue = at_least("block_bio_queue", 2);
            offer.preempt_count_from_runqueue = preempt_count_from_runqueue(&btf)
                .or_else(|| preempt_count_by_symbols(Path::new("/proc/kallsyms")))
                .unwrap_or(0);
            offer.cpustat_from_runqueue = cpustat_from_runqueue(&btf).unwrap_or(0);
            offer.find_vma = has_helper(&btf, "BPF_FUNC_find_vma");
            offer.victim_is_task = at_least("mark_victim", 2);
            offer.thread_states_in_hash = !has_helper(&btf, "BPF_FUNC_task_storage_get");
            if at_least("kfree_skb", 3) {
                offer.drop_reasons = drop_reasons(&btf);
            }
            offer.drop_has_receiver = at_least("kfree_skb", 4);
            offer.dirty_arguments = arguments.get("balance_dirty_pages").copied().unwrap_or(0);
        }
    }
    offer
}

/// Number of arguments of each tracepoint, without the context. In one pass: a look for one name goes through all types.
fn arguments_by_tracepoint<'a>(btf: &'a Btf<'_>) -> HashMap<&'a str, u32> {
    let of = |id: u32| {
        let alias = btf.type_by_id::<types::Typedef<'_>>(TypeId::from(id))?;
        let name = alias.name()?.to_str()?.strip_prefix("btf_trace_")?;
        let pointer: types::Ptr<'_> = alias.referenced_type().try_into().ok()?;
        let function: types::FuncProto<'_> = pointer.referenced_type().try_into().ok()?;
        Some((name, (function.iter().count() as u32).saturating_sub(1)))
    };
    (1..btf.len() as u32).filter_map(of).collect()
}

/// Whether BPF programs may call a helper.
fn has_helper(btf: &Btf<'_>, name: &str) -> bool {
    let helpers: Option<types::Enum<'_>> = btf.type_by_name("bpf_func_id");
    helpers.is_some_and(|all| all.iter().any(|member| member.name.is_some_and(|n| n == name)))
}

/// Why packets are dropped, where kfree_skb says so.
fn drop_reasons(btf: &Btf<'_>) -> BTreeMap<u32, String> {
    let reasons: Option<types::Enum<'_>> = btf.type_by_name("skb_drop_reason");
    let members = reasons.iter().flat_map(|all| all.iter());
    let named = members.filter_map(|member| {
        let name = member.name?.to_str()?;
        let short = name.strip_prefix("SKB_DROP_REASON_").or_else(|| name.strip_prefix("SKB_"))?;
        Some((member.value as u32, short.to_string()))
    });
    named.collect()
}

/// Offset of a per-CPU variable in its section.
fn per_cpu_offset(btf: &Btf<'_>, name: &str) -> Option<i64> {
    let section: types::DataSec<'_> = btf.type_by_name(".data..percpu")?;
    section.iter().find_map(|variable| {
        let of = btf.type_by_id::<libbpf_rs::btf::BtfType<'_>>(variable.ty)?;
        (of.name()? == name).then_some(i64::from(variable.offset))
    })
}

fn cpustat_from_runqueue(btf: &Btf<'_>) -> Option<i64> {
    Some(per_cpu_offset(btf, "kernel_cpustat")? - per_cpu_offset(btf, "runqueues")?)
}

/// Distance of two per-CPU variables, by their offsets in the per-CPU section.
fn preempt_count_from_runqueue(btf: &Btf<'_>) -> Option<i64> {
    let offset_of = |name: &str| per_cpu_offset(btf, name);
    let runqueues = offset_of("runqueues")?;
    if let Some(count) = offset_of("__preempt_count") {
        return Some(count - runqueues);
    }
    let hot: types::Composite<'_> = btf.type_by_name("pcpu_hot")?;
    // pcpu_hot keeps its fields in an anonymous struct inside an anonymous union.
    let inside = member_offset(btf, &hot, "preempt_count")?;
    Some(offset_of("pcpu_hot")? + inside - runqueues)
}

/// The same by the kernel's symbols, for a BTF that tells no per-CPU variables (pahole before 1.22).
fn preempt_count_by_symbols(path: &Path) -> Option<i64> {
    let symbols = std::fs::read_to_string(path).ok()?;
    let address_of = |name: &str| {
        symbols.lines().find_map(|line| {
            let mut words = line.split(' ');
            let address = i64::from_str_radix(words.next()?, 16).ok()?;
            (words.nth(1)? == name && address != 0).then_some(address)
        })
    };
    Some(address_of("__preempt_count")? - address_of("runqueues")?)
}

/// Byte offset of a member, looked for through anonymous structs and unions.
fn member_offset(btf: &Btf<'_>, of: &types::Composite<'_>, name: &str) -> Option<i64> {
    for member in of.iter() {
        let at = match member.attr {
            types::MemberAttr::Normal { offset } => i64::from(offset / 8),
            types::MemberAttr::BitField { .. } => continue,
        };
        if member.name.is_some_and(|n| n == name) {
            return Some(at);
        }
        if member.name.is_none_or(|n| n.is_empty())
            && let Some(inner) = btf.type_by_id::<types::Composite<'_>>(member.ty)
            && let Some(inside) = member_offset(btf, &inner, name)
        {
            return Some(at + inside);
        }
    }
    None
}

/// Of `run_ns wait_ns times`: a thread that runs has been given a CPU at least once, if anybody counts.
fn is_counted(schedstat: &str) -> bool {
    schedstat.split_whitespace().nth(2).is_some_and(|times| times != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_that_counts_nothing_says_no_queue() {
        assert!(is_counted("1071600 5300 12\n"));
        // `nodelayacct` before 5.14.
        assert!(!is_counted("0 0 0\n"));
        assert!(!is_counted(""));
    }
}
