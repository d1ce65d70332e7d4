//! How the programs come into the kernel: loaded as the plan says, given their parameters, attached, and one walk over every thread.
//!
//! Must not: read anything after the begin (readers/). Edit together: plan.rs (which programs), wire.h (their parameters).

use super::Programs;
use super::thresholds::Thresholds;
use crate::SourceError;
use crate::host::Offer;
use crate::plan;
use crate::system::clock::now;
use crate::system::cpus::online_cpus;
use crate::system::units::page_bytes;
use crate::system::{Roots, mounts};
use holdup_reason::facts::*;
use std::time::Duration;

const RING_BYTES_MAX: u32 = 32 << 20;

/// Loads what the plan names; where the kernel refuses, the plan gives way step by step.
pub(crate) fn load(
    offer: &Offer,
    spared: &[&str],
    ring_bytes_each: u32,
) -> (Option<Programs>, Vec<&'static str>, Vec<Blind>) {
    let mut offer = offer.clone();
    let mut plan = plan::plan(&offer, spared);
    if plan.programs.is_empty() {
        return (None, plan.programs, plan.blind);
    }
    let ring_bytes = ring_bytes(ring_bytes_each, online_cpus().len());
    loop {
        let refusal = match Programs::load(&offer, &plan.programs, ring_bytes) {
            Ok(programs) => return (Some(programs), plan.programs, plan.blind),
            Err(refusal) => refusal,
        };
        if !plan::give_way(&mut plan, &mut offer, spared, &refusal) {
            plan.blind.push(plan::no_events(&refusal.why, ""));
            return (None, Vec::new(), plan.blind);
        }
    }
}

fn ring_bytes(each: u32, cpus: usize) -> u32 {
    let eights = (cpus as u32).div_ceil(8).clamp(1, 64).next_power_of_two();
    each.saturating_mul(eights).min(RING_BYTES_MAX)
}

/// What the programs go by from the begin on.
pub(crate) struct Begin {
    /// Mounts, by which paths are made absolute.
    pub mounts: Vec<Mount>,
    /// Ticks a second in which TCP sums up what it waited for.
    pub hz: u32,
    /// The process that was asked about.
    pub asked_about: Option<u32>,
    /// The process of the command that is followed.
    pub command: Option<u32>,
    /// Which waits are reported.
    pub thresholds: Thresholds,
}

/// Begins another window where the last walk of the one before was: whatever stands since has its state, so nobody is walked.
pub(crate) fn go_on(programs: &mut Programs, mounts: Vec<Mount>, begin_ns: Ns) {
    programs.inbox.borrow_mut().decoder.next_window(mounts);
    if let Some(control) = programs.control() {
        control.window_begin_ns = begin_ns;
    }
}

/// Attaches, and walks every thread once so that what already stands is known.
pub(crate) fn begin(
    programs: &mut Programs,
    names: &[&'static str],
    begin: Begin,
) -> Result<(), SourceError> {
    {
        let decoder = &mut programs.inbox.borrow_mut().decoder;
        decoder.names.mounts.replace(begin.mounts);
        decoder.names.mounts.of =
            Some(|pid| mounts::mounts_of(&Roots::default(), &pid.to_string()).unwrap_or_default());
        decoder.hz = begin.hz;
        decoder.page_bytes = page_bytes();
    }
    if let Some(control) = programs.control() {
        begin.thresholds.apply(control);
        control.window_begin_ns = now();
        control.own_tgid = std::process::id();
        control.follow_wakers = u32::from(begin.command.is_some());
        control.trace_tgid = begin.asked_about.or(begin.command).unwrap_or(0);
        control.refused_tgid = begin.asked_about.unwrap_or(0);
    }
    programs.attach(names)?;
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
