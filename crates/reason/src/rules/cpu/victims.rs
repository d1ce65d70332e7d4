//! Who counts as a victim of full CPUs, and who as a partner of whoever fills them: what one hog and a crowd are judged by.
//!
//! Must not: name anybody as the culprit (saturated.rs, crowd.rs). Apart from both, so that neither needs the other for it.
//!
//! Edit together: saturated.rs, which prints these numbers as its own.

use super::come_last;
use super::cpu_waits::{SCHED_BATCH, SCHED_IDLE};
use crate::facts::{ThreadRef, WakeContext};
use crate::measure::Measures;
use crate::measure::cpu_users::Competitor;
use crate::model::Model;
use crate::model::membership::is_below;
use crate::threshold::Threshold;
use crate::waits::WaitClass;

pub(super) static WAIT_TO_RUN_MIN: Threshold = Threshold::new(
    0.25,
    "1",
    "waiting that is a smaller part of a victim's own running is what sharing a CPU costs",
    "chosen",
);
pub(super) static WAIT_PER_SECOND_MIN: Threshold = Threshold::new(
    0.05,
    "s/s",
    "nobody is a victim who waits less in a second",
    "chosen: where a wait becomes a warning",
);
pub(super) static RUN_PER_SECOND_MIN: Threshold = Threshold::new(
    0.05,
    "s/s",
    "on a host, nor who runs less in a second and sleeps meanwhile: what only ticks is late on any busy host, and loses no \
     work by it",
    "chosen",
);
pub(super) static WANTED_BY_ONE_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "a thread that ran or was ready to for this part of the look does not tick: it has work all the time. That it ran for \
     little is then the harm itself, the greater the heavier the culprit's group is",
    "chosen",
);
pub(super) static RUN_STARVED_PER_SECOND_MIN: Threshold = Threshold::new(
    0.01,
    "s/s",
    "but for so little as this in a second it has no work: a tick that comes seconds late is a tick",
    "chosen",
);
pub(super) static CULPRIT_OF_ALL_MIN: Threshold = Threshold::new(
    0.4,
    "1",
    "and at least this part of all that is used (a heavier group), or of all that is asked for, running or ready to (more \
     threads): who has less of both is one of many",
    "chosen",
);
pub(super) static PARTNER_PART_MIN: Threshold =
    Threshold::new(0.3, "1", "two that end so many of each other's waits work together", "chosen");
pub(super) static NICE_MIN: Threshold = Threshold::new(
    10.0,
    "nice",
    "who runs at this nice value or above asked to come last, and is no victim if it does",
    "kernel: sched_prio_to_weight, at 10 a tenth of the usual weight",
);

/// It asked to come last, or is in a group of the least weight, which somebody meant to.
pub(crate) fn is_polite(model: &Model, process: &ThreadRef) -> bool {
    let by_itself = model.threads.identity(process).is_some_and(|known| {
        f64::from(known.nice) >= NICE_MIN.value || matches!(known.policy, SCHED_BATCH | SCHED_IDLE)
    });
    by_itself || is_in_least_group(model, process)
}

fn is_in_least_group(model: &Model, process: &ThreadRef) -> bool {
    let Some(own) = model.cgroup_of(process, "cpu").filter(|own| own.path != "/") else {
        return false;
    };
    let mut around =
        model.containers.cgroups.iter().filter(|group| {
            group.controllers == own.controllers && is_below(&own.path, &group.path)
        });
    around.any(|group| group.cpu_weight.is_some_and(|weight| weight <= come_last::least(group).1))
}

/// On a host: what only now and then has work, and is late with it.
pub(super) fn ticks(measures: &Measures<'_>, one: &Competitor) -> bool {
    let is_asked_for = measures.model.look.is_asked_about();
    let wall = measures.wall_seconds();
    let starves = one.run >= RUN_STARVED_PER_SECOND_MIN.value * wall
        && one.wanted_by_one >= WANTED_BY_ONE_MIN.value * wall;
    !is_asked_for && one.run < RUN_PER_SECOND_MIN.value * wall && !starves
}

/// Whether somebody waits for CPUs for a noticeable part of the look and of its own running, seconds.
pub(super) fn waits_much(measures: &Measures<'_>, run: f64, ready: f64) -> bool {
    ready >= WAIT_PER_SECOND_MIN.value * measures.wall_seconds()
        && ready >= WAIT_TO_RUN_MIN.value * run
}

/// One works for the other: a client and its server, two ends of a pipe.
pub(super) fn are_partners(measures: &Measures<'_>, one: &Competitor, other: &Competitor) -> bool {
    let ended_by = |one: &Competitor, other: &Competitor| {
        let (mut all, mut by_other) = (0_u32, 0_u32);
        for wait in measures.waits() {
            let counts = one.processes.contains_key(&wait.thread.pid)
                && !matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota);
            let Some(wake) = wait.wake.as_ref().filter(|_| counts) else { continue };
            all += 1;
            // A timer's interrupt hits whoever runs, and that is mostly the culprit.
            let meant = wake.context == WakeContext::Task
                || wake.context == WakeContext::SoftInterrupt
                    && matches!(wait.class, WaitClass::SocketRead | WaitClass::SocketWrite);
            by_other += u32::from(meant && other.processes.contains_key(&wake.by.pid));
        }
        all > 0 && f64::from(by_other) >= PARTNER_PART_MIN.value * f64::from(all)
    };
    ended_by(one, other) || ended_by(other, one)
}
