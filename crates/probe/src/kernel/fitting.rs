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
use libbpf_rs::{MapType, OpenObject};
use std::collections::BTreeMap;

/// Fits the object to this host, with the programs named and the iterators.
pub(super) fn fit(
    open: &mut OpenHoldupSkel<'_>,
    offer: &Offer,
    names: &[&str],
    ring_bytes: u32,
) -> Result<(), Refusal> {
    let cpus = crate::system::cpus::online_cpus().len() as u32;
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
        constants.drop_too_long = drop_reason(&offer.drop_reasons, "PKT_TOO_BIG");
        constants.drop_unspecified = drop_reason(&offer.drop_reasons, "NOT_SPECIFIED");
        constants.dirty_pause_index = offer.dirty_arguments.saturating_sub(2);
        constants.preempt_count_from_runqueue = offer.preempt_count_from_runqueue;
        constants.cpustat_from_runqueue = offer.cpustat_from_runqueue;
        constants.cpus_online = cpus;
        // Of a host each datagram would cost a look into it.
        constants.names_at_any_port = u32::from(names.contains(&plan::OF_WHOM_IS_ASKED));
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
    make_room(open.open_object_mut(), cpus)?;
    open.maps.ring.set_max_entries(ring_bytes).map_err(refusal::of("size the ring"))
}

/// Free entries that each CPU keeps for itself of a map that forgets (LOCAL_FREE_TARGET of kernel/bpf/bpf_lru_list.c; fewer of a small
/// map since 6.17).
const RESERVED_EACH: u32 = 128;
/// Where a map would need more than this its CPUs share less: all its memory is taken as it is made.
const ROOM_BYTES_MAX: u32 = 4 << 20;
/// Of each entry beside its key and value (struct htab_elem).
const ENTRY_BYTES: u32 = 64;

/// Room for what CPUs keep for themselves, in each map that forgets: else the last CPUs have one entry each, and use it again and
/// again. By those that are online: no other takes any.
fn make_room(open: &mut OpenObject, cpus: u32) -> Result<(), Refusal> {
    for mut map in open.maps_mut().filter(|map| map.map_type() == MapType::LruHash) {
        let entry_bytes = map.key_size() + map.value_size() + ENTRY_BYTES;
        let entries = room(map.max_entries(), entry_bytes, cpus);
        map.set_max_entries(entries).map_err(refusal::of("size a map"))?;
    }
    Ok(())
}

/// Entries of a map that is to hold so many, whichever CPUs write them.
fn room(entries: u32, entry_bytes: u32, cpus: u32) -> u32 {
    let whole = entries.saturating_add(cpus.saturating_mul(RESERVED_EACH));
    whole.min(ROOM_BYTES_MAX / entry_bytes).max(entries)
}

/// The number of a reason in the running kernel; 0 if it has none of that name.
fn drop_reason(reasons: &BTreeMap<u32, String>, name: &str) -> u32 {
    reasons.iter().find(|(_, it)| *it == name).map_or(0, |(number, _)| *number)
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
    fn a_map_that_forgets_holds_what_it_is_made_for_on_many_cpus() {
        let mut storage = MaybeUninit::uninit();
        let mut open = HoldupSkelBuilder::default().open(&mut storage).unwrap();
        let flows = open.maps.dropped_flows.max_entries();
        make_room(open.open_object_mut(), 16).unwrap();
        assert_eq!(open.maps.dropped_flows.max_entries(), flows + 16 * RESERVED_EACH);
        let samples = open.maps.samples.max_entries();
        make_room(open.open_object_mut(), 8192).unwrap();
        assert_eq!(open.maps.samples.max_entries(), samples, "it forgets nothing");
        let maps = open.open_object_mut().maps_mut();
        for map in maps.filter(|map| map.map_type() == MapType::LruHash) {
            let bytes = (map.key_size() + map.value_size() + ENTRY_BYTES) * map.max_entries();
            assert!(bytes <= ROOM_BYTES_MAX, "{:?}: {bytes}", map.name());
        }
    }

    #[test]
    fn the_reason_that_says_nothing_is_known_by_its_name() {
        let of = |number| BTreeMap::from([(number, "NOT_SPECIFIED".to_string())]);
        assert_eq!([0, 1, 2].map(|it| drop_reason(&of(it), "NOT_SPECIFIED")), [0, 1, 2]);
        assert_eq!(drop_reason(&BTreeMap::new(), "NOT_SPECIFIED"), 0);
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
