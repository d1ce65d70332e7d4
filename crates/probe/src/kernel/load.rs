//! How the programs come into the kernel: chosen, loaded, given their parameters, attached, and one walk over every thread.
//!
//! Must not: read anything after the begin (live.rs). Edit together: plan.rs (which programs), wire.h (their parameters).

use crate::SourceError;
use crate::decode::wire::wire_control;
use crate::host::Offer;
use crate::kernel::Programs;
use crate::plan::{self, Purpose};
use crate::readers::netlink::Netlink;
use crate::session::wait_threshold::{Traced, WaitThreshold};
use crate::session::{What, now};
use crate::system::Roots;
use crate::system::clock::clock_ns;
use crate::system::cpus;
use holdup_reason::facts::*;
use std::time::Duration;

/// A request this many times as long as a wait that is reported is reported in full.
const REQUEST_TO_WAIT: u64 = 5;
/// Room for records between two readings, for each eight CPUs; the ring is mapped twice.
const RING_BYTES: u32 = 2 << 20;
/// The same for a command, whose every wait is reported. Both are powers of two, as the kernel wants it.
const RUN_RING_BYTES: u32 = 8 << 20;
const RING_BYTES_MAX: u32 = 32 << 20;

/// Has packets looked at for DNS from now on, if a name server is asked.
pub(crate) fn follow_names(programs: &mut Programs, is_asked: bool) -> Result<(), SourceError> {
    let refused = programs.follow_names(is_asked)?;
    let reported = refused.into_iter().map(|it| Fact { at_ns: now(), body: Body::Blind(it) });
    programs.inbox.borrow_mut().facts.extend(reported);
    Ok(())
}

/// Loads what the plan names; where the kernel refuses, the plan gives way step by step.
pub(crate) fn load(
    offer: &Offer,
    purpose: Purpose,
) -> (Option<Programs>, Vec<&'static str>, Vec<Blind>) {
    let mut offer = offer.clone();
    let mut plan = plan::plan(&offer, purpose);
    if plan.programs.is_empty() {
        return (None, plan.programs, plan.blind);
    }
    let ring_bytes = ring_bytes(purpose, cpus::online_cpus().len());
    loop {
        let refusal = match Programs::load(&offer, &plan.programs, ring_bytes) {
            Ok(programs) => return (Some(programs), plan.programs, plan.blind),
            Err(refusal) => refusal,
        };
        if !plan::give_way(&mut plan, &mut offer, purpose, &refusal) {
            plan.blind.push(plan::no_events(&refusal.why, ""));
            return (None, Vec::new(), plan.blind);
        }
    }
}

fn ring_bytes(purpose: Purpose, cpus: usize) -> u32 {
    let least = if purpose == Purpose::Run { RUN_RING_BYTES } else { RING_BYTES };
    let eights = (cpus as u32).div_ceil(8).clamp(1, 64).next_power_of_two();
    least.saturating_mul(eights).min(RING_BYTES_MAX)
}

/// Whose waits are reported from a lower threshold on.
pub(crate) fn traced(what: &What) -> Traced {
    match what {
        What::Host | What::Container(_) => Traced::Nobody,
        What::Process(_) => Traced::Process,
        What::Command(_) => Traced::Command,
    }
}

pub(crate) fn set_thresholds(control: &mut wire_control, wait_threshold: &WaitThreshold) {
    control.threshold_ns = wait_threshold.threshold_ns();
    control.traced_threshold_ns = wait_threshold.traced_threshold_ns();
    control.request_threshold_ns = wait_threshold.threshold_ns() * REQUEST_TO_WAIT;
}

pub(crate) fn open_netlink(roots: &Roots, put: &mut impl FnMut(Body)) -> Option<Netlink> {
    match Netlink::open(roots) {
        Ok((mut netlink, reported)) => {
            reported.into_iter().for_each(&mut *put);
            netlink.links().into_iter().for_each(&mut *put);
            netlink.qdiscs().into_iter().for_each(put);
            Some(netlink)
        }
        Err(error) => {
            put(Body::Blind(Blind {
                what: "netlink".into(),
                why: error.to_string(),
                therefore: "queueing disciplines are not seen".into(),
                ..Blind::default()
            }));
            None
        }
    }
}

/// What decoding needs to know, and the process that is asked about, 0 for none.
pub(crate) struct Decoding {
    pub mounts: Vec<Mount>,
    pub hz: u32,
    pub asked_about: u32,
}

/// Of what is looked at: what for, and the process that is asked about, 0 for none.
pub(crate) fn purpose(what: &What) -> (Purpose, u32) {
    match what {
        What::Command(_) => (Purpose::Run, 0),
        What::Process(pid) => (Purpose::Process, *pid),
        _ => (Purpose::Look, 0),
    }
}

/// Attaches, and walks every thread once so that what already stands is known.
pub(crate) fn begin(
    programs: &mut Programs,
    names: &[&'static str],
    decoding: Decoding,
    what: &What,
    command: Option<u32>,
    put: &mut impl FnMut(Body),
) -> Result<(), SourceError> {
    {
        let decoder = &mut programs.inbox.borrow_mut().decoder;
        decoder.mounts = decoding.mounts;
        decoder.mounts_of = Some(|pid| {
            crate::system::mounts::mounts_of(&Roots::default(), &pid.to_string())
                .unwrap_or_default()
        });
        decoder.hz = decoding.hz;
        decoder.page_bytes = crate::system::units::page_bytes();
    }
    if let Some(control) = programs.control() {
        let cpus = cpus::online_cpus().len();
        set_thresholds(control, &WaitThreshold::new(traced(what), cpus));
        control.window_begin_ns = now();
        control.own_tgid = std::process::id();
        control.follow_wakers = u32::from(command.is_some());
        control.trace_tgid = match what {
            What::Process(pid) => *pid,
            _ => command.unwrap_or(0),
        };
        control.refused_tgid = decoding.asked_about;
    }
    programs.attach(names)?.into_iter().for_each(|blind| put(Body::Blind(blind)));
    if let Some(control) = programs.control() {
        control.attached_ns = now();
    }
    // One sleep gives this thread a note with the time of its switch-in, which the scheduler clock's
    // offset is learnt from.
    std::thread::sleep(Duration::from_millis(1));
    let mut facts = Vec::new();
    programs.threads(false, |at_ns, record| {
        facts.extend(record.blocked.map(|it| Fact { at_ns, body: Body::Blocked(it) }));
    })?;
    programs.inbox.borrow_mut().facts.append(&mut facts);
    Ok(())
}

pub(crate) fn completed(mut host: Host, kernel_events: bool) -> Host {
    let monotonic = now();
    host.tool_version = env!("CARGO_PKG_VERSION").into();
    host.unix_offset_ns = clock_ns(libc::CLOCK_REALTIME) as i64 - monotonic as i64;
    host.boot_offset_ns = clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(monotonic);
    host.own_pid = std::process::id();
    host.kernel_events = kernel_events;
    host
}
