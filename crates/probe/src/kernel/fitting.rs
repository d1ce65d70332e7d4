//! What is set in the opened object before it is loaded: constants, which maps and programs exist, sizes.
//!
//! Owns how the kernel programs are fitted to what the host offers; constants are known to the verifier, which drops
//! what they exclude. Must not: read the host (host.rs) or choose what to look at (plan.rs). Edit together:
//! bpf/common.bpf.h, bpf/compat.bpf.h, bpf/async.bpf.h (the constants).

use crate::host::Offer;
use crate::plan;
use crate::refusal::{self, Refusal};
use crate::skel::OpenHoldupSkel;
use libbpf_rs::skel::OpenSkel;
use std::collections::BTreeMap;

/// Fits the object to this host, with the programs named and the iterators.
pub(super) fn fit(
    open: &mut OpenHoldupSkel<'_>,
    offer: &Offer,
    names: &[&str],
    ring_bytes: u32,
) -> Result<(), Refusal> {
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.has_prev_state_argument = u32::from(offer.switch_has_state);
        constants.request_argument_index = u32::from(offer.request_after_queue);
        constants.bio_argument_index = u32::from(offer.bio_after_queue);
        constants.victim_is_task = u32::from(offer.victim_is_task);
        constants.thread_states_in_hash = u32::from(offer.thread_states_in_hash);
        constants.dates_later = u32::from(offer.reports_queued && !offer.thread_states_in_hash);
        constants.drop_has_reason = u32::from(!offer.drop_reasons.is_empty());
        constants.drop_has_receiver = u32::from(offer.drop_has_receiver);
        constants.drop_ignored = ignored_drops(&offer.drop_reasons);
        let mut reasons = offer.drop_reasons.iter();
        constants.drop_too_long =
            reasons.find(|(_, name)| *name == "PKT_TOO_BIG").map_or(0, |(number, _)| *number);
        constants.dirty_pause_index = offer.dirty_arguments.saturating_sub(2);
        constants.preempt_count_from_runqueue = offer.preempt_count_from_runqueue;
        constants.cpustat_from_runqueue = offer.cpustat_from_runqueue;
        constants.cpus_online = crate::system::cpus::online_cpus().len() as u32;
        constants.ring_alarm_bytes = u64::from(ring_bytes) / 4;
        constants.nanoseconds_per_jiffy = 1_000_000_000 / u64::from(offer.config_hz.max(1));
    }
    let (maps, hash) = (&mut open.maps, offer.thread_states_in_hash);
    for (map, used) in [(&mut maps.thread_states, !hash), (&mut maps.thread_states_by_tid, hash)] {
        map.set_autocreate(used).map_err(refusal::of("choose the map of thread states"))?;
    }
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let iterator = name == "threads" || name == "endpoints";
        let sampler = names.contains(&plan::SAMPLE)
            && name == if offer.find_vma { plan::SAMPLE_CODE } else { plan::SAMPLE };
        let sampled = name == plan::SAMPLE || name == plan::SAMPLE_CODE;
        let wanted = if sampled { sampler } else { names.contains(&&name[..]) };
        program.set_autoload(iterator || wanted);
    }
    open.maps.ring.set_max_entries(ring_bytes).map_err(refusal::of("size the ring"))
}

/// Words of reasons in mask.
const WORDS: usize = 8;
/// What ends a packet in the ordinary course of things: it arrived, its connection or program ended, it came twice, or it was
/// for another host. Of TCP only what its state machine does to packets that it has understood.
const ORDINARY: [&str; 32] = [
    "NOT_DROPPED_YET",
    "CONSUMED",
    "SOCKET_CLOSE",
    "UNIX_DISCONNECT",
    "UNIX_SKIP_OOB",
    "OTHERHOST",
    "UNICAST_IN_L2_MULTICAST",
    "TCP_FLAGS",
    "TCP_ABORT_ON_DATA",
    "TCP_OLD_DATA",
    "TCP_OFOMERGE",
    "TCP_RFC7323_PAWS",
    "TCP_RFC7323_PAWS_ACK",
    "TCP_RFC7323_TW_PAWS",
    "TCP_RFC7323_TSECR",
    "TCP_OLD_SEQUENCE",
    "TCP_INVALID_SEQUENCE",
    "TCP_INVALID_END_SEQUENCE",
    "TCP_INVALID_ACK_SEQUENCE",
    "TCP_RESET",
    "TCP_INVALID_SYN",
    "TCP_CLOSE",
    "TCP_FASTOPEN",
    "TCP_OLD_ACK",
    "TCP_TOO_OLD_ACK",
    "TCP_ACK_UNSENT_DATA",
    "IPV6_NDISC_NS_OTHERHOST",
    "QUEUE_PURGE",
    "DUP_FRAG",
    "UNHANDLED_PROTO",
    // Copies of what is flooded: a tap's filter of addresses, and a tunnel's own frames that come back.
    "TAP_TXFILTER",
    "LOCAL_MAC",
];

/// A bit for each reason that is not counted.
fn ignored_drops(reasons: &BTreeMap<u32, String>) -> [u64; WORDS] {
    let mut mask = [0; WORDS];
    for (number, _) in reasons.iter().filter(|(_, name)| ORDINARY.contains(&&***name)) {
        if let Some(word) = mask.get_mut(*number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skel::HoldupSkelBuilder;
    use libbpf_rs::skel::SkelBuilder;
    use std::mem::MaybeUninit;

    const CALL: u8 = 0x85;
    const MOVE_CONSTANT: u8 = 0xb7;
    const TASK_STORAGE_GET: i32 = 156;

    /// The flags of each call for task storage in a program.
    fn storage_flags(instructions: &[libbpf_rs::libbpf_sys::bpf_insn]) -> Vec<Option<i32>> {
        let calls = instructions.iter().enumerate();
        calls
            .filter(|(_, call)| {
                call.code == CALL && call.src_reg() == 0 && call.imm == TASK_STORAGE_GET
            })
            .map(|(at, _)| {
                let fourth = instructions[..at].iter().rev().find(|before| before.dst_reg() == 4);
                fourth.filter(|set| set.code == MOVE_CONSTANT).map(|set| set.imm)
            })
            .collect()
    }

    #[test]
    fn no_memory_is_taken_under_the_locks_of_the_scheduler() {
        let mut storage = MaybeUninit::uninit();
        let mut open = HoldupSkelBuilder::default().open(&mut storage).unwrap();
        let (mut looks, mut makes) = (Vec::new(), Vec::new());
        for program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let flags = storage_flags(program.insns());
            assert!(flags.iter().all(Option::is_some), "{name}: {flags:?}");
            if flags.contains(&Some(0)) {
                looks.push(name.clone());
            }
            if flags.contains(&Some(1)) {
                makes.push(name);
            }
        }
        for locked in ["sched_switch", "sched_waking"] {
            assert!(looks.iter().any(|name| name == locked), "{looks:?}");
            assert!(!makes.iter().any(|name| name == locked), "{makes:?}");
        }
        assert!(makes.iter().any(|name| name == "task_newtask"), "{makes:?}");
        assert!(makes.iter().any(|name| name == "threads"), "{makes:?}");
    }
}
