//! What this kernel and these privileges let holdup see: the answer of `holdup doctor`.
//!
//! It tries for real: the programs are loaded and attached, one network namespace is asked, one kernel
//! stack is read. Must not reason, and leaves nothing behind.

use crate::host::{self, Offer};
use crate::kernel::Programs;
use crate::kernel::load::load;
use crate::kernel::thresholds::Thresholds;
use crate::plan;
use crate::readers::netlink::Netlink;
use crate::readers::no_netlink;
use crate::readers::settings;
use crate::session::completed;
use crate::system::clock::now;
use crate::system::view;
use holdup_reason::facts::*;

/// Room for records between two readings: nothing is reported.
const RING_BYTES: u32 = 2 << 20;

/// The host, and what of it cannot be seen.
pub fn doctor() -> Vec<Fact> {
    let (roots, hidden) = view::of_host();
    let mut facts = Vec::new();
    let mut put = |body| facts.push(Fact { at_ns: now(), body });
    hidden.into_iter().map(Body::Blind).for_each(&mut put);
    let offer = host::look(&plan::tracepoints());
    let (programs, names, blind) = load(&offer, &[], RING_BYTES);
    for body in settings::read(&roots).facts {
        match body {
            Body::Host(host) => put(Body::Host(completed(host, programs.is_some()))),
            Body::Blind(blind) => put(Body::Blind(blind)),
            _ => {}
        }
    }
    blind.into_iter().for_each(|blind| put(Body::Blind(blind)));
    if let Some(mut programs) = programs {
        let refused = attach(&mut programs, &names);
        refused.into_iter().for_each(|blind| put(Body::Blind(blind)));
    }
    match Netlink::open(&roots) {
        Ok((_, reported)) => {
            reported.into_iter().filter(|body| matches!(body, Body::Blind(_))).for_each(&mut put)
        }
        Err(error) => put(Body::Blind(no_netlink(&error))),
    }
    facts
}

fn attach(programs: &mut Programs, names: &[&'static str]) -> Vec<Blind> {
    // Nothing is reported, so that each switch until the end costs little.
    if let Some(control) = programs.control() {
        Thresholds::NOTHING.apply(control);
    }
    let at_once = programs.attach(names);
    let both = at_once.and_then(|()| {
        let later = programs.attach_for_names(true)?;
        Ok([programs.refused(), &later].concat())
    });
    both.unwrap_or_else(|error| vec![plan::no_events(&error.to_string(), "")])
}

/// What holdup uses: name, whether it is there, and by which interface.
pub fn offers() -> Vec<(String, bool, String)> {
    let offer = host::look(&plan::tracepoints());
    let events = offer.no_bpf.is_none();
    let tracepoint =
        |names: &[&str]| events && names.iter().all(|n| offer.tracepoints.contains(*n));
    let readable = |path: &str| std::fs::File::open(path).is_ok();
    let row = |what: &str, seen: bool, by: &str| (what.to_string(), seen, by.to_string());
    vec![
        row(
            "who waits, and who ended it",
            tracepoint(&["sched_switch", "sched_waking"]),
            "tp_btf sched_switch, sched_waking",
        ),
        row("what stands still", events, "BPF task and descriptor iterators"),
        row(
            "interrupt or task as waker",
            events && interrupts_known(&offer),
            "preempt count by BTF",
        ),
        row(
            "disk requests",
            tracepoint(&["block_rq_issue", "block_rq_complete"]),
            "tp_btf block_rq_*",
        ),
        row(
            "reclaim and dirty limit",
            tracepoint(&["mm_vmscan_direct_reclaim_begin", "balance_dirty_pages"]),
            "tp_btf vmscan, writeback",
        ),
        row(
            "packet queues",
            tracepoint(&["qdisc_enqueue", "qdisc_dequeue"]),
            "tp_btf qdisc_*, rtnetlink",
        ),
        row(
            "packets that are dropped",
            tracepoint(&["kfree_skb"]),
            match offer.drop_reasons.is_empty() {
                true => "tp_btf kfree_skb, by function: this kernel gives no reasons",
                false => "tp_btf kfree_skb",
            },
        ),
        row("DNS questions", tracepoint(&plan::DNS), "tp_btf net_dev_queue, netif_receive_skb"),
        row("refused system calls (run, -p)", tracepoint(&["sys_exit"]), "tp_btf sys_exit"),
        row("kernel stacks of others", readable("/proc/1/stack"), "/proc/PID/stack"),
        row("file locks", readable("/proc/locks"), "/proc/locks"),
        row("pressure", readable("/proc/pressure/cpu"), "/proc/pressure"),
    ]
}

fn interrupts_known(offer: &Offer) -> bool {
    cfg!(target_arch = "aarch64") || offer.preempt_count_from_runqueue != 0
}
