//! Which ends the disk rules are asked about, and the numbers that several of them compare with.
//!
//! A loop device whose kernel workers have no CPU is slow for want of a CPU, which is no disk's fault: all rules that judge
//! a device's time are silent about it. Must not: name a cause.

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_view::DiskView;
use crate::model::object::Object;
use crate::rules::engine::Loss;
use crate::rules::{Match, engine};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// Mean time of a request.
pub(super) static SLOW: Threshold = Threshold::new(
    0.004,
    "s",
    "below this mean time a request is not worth a complaint, whatever the queue",
    "chosen: a short seek of a platter",
);
/// Requests in flight.
pub(super) static QUEUED: Threshold = Threshold::new(
    1.5,
    "1",
    "fewer in flight on average are no queue: one that waits for each, and a bit",
    "Little's law: a caller that waits for each request keeps one in flight",
);
/// Long requests.
pub(super) static CONSTANT_REQUESTS: Threshold = Threshold::new(
    12.0,
    "1",
    "with fewer long requests their times say nothing about what they depend on",
    "chosen: a spread of a dozen values is known to a fifth",
);
/// Spread of the depth.
pub(super) static CONSTANT_DEPTH: Threshold = Threshold::new(
    0.3,
    "1",
    "it takes requests that met different depths to say that the depth does not matter",
    "chosen: one, two and three in flight by turns have a spread of 0.4",
);
/// Spread of the time.
pub(super) static CONSTANT_TIME: Threshold = Threshold::new(
    0.1,
    "1",
    "a time that varies less than this while the depth varies does not depend on it",
    "chosen: a third of the spread that the depth must have",
);
/// How much of the work they are.
pub(super) static CONSTANT_PART: Threshold = Threshold::new(
    0.9,
    "1",
    "the requests that are compared make up at least this part of all time inside: long ones alone are alike because they \
     are long, and what else was in flight is unknown",
    "lab: disk-weight, seed 33029; disk-saturated-job, seeds 7102 and 7103, where a full queue took each request for just about the \
     time from which one is reported: 0.53",
);

/// The disk that an end is, if it was measured and anybody still waits for it.
pub(super) fn disk_of<'m>(measures: &'m Measures<'m>, end: &End) -> Option<&'m DiskView<'m>> {
    let Object::Disk(Some(dev)) = end.object else { return None };
    let is_wait = matches!(end.class, WaitClass::Disk | WaitClass::PageFault);
    let view = measures.disk(dev)?;
    (is_wait && view.is_counted && !end.victims.is_empty()).then_some(view)
}

/// The same where the time that the disk takes is its own.
pub(super) fn slow_disk<'m>(measures: &'m Measures<'m>, end: &End) -> Option<&'m DiskView<'m>> {
    disk_of(measures, end).filter(|view| view.workers_ready_seconds.is_none())
}

/// The same of the layer that is slow, where the disk is made of another one.
pub(super) fn slow_layer<'m>(measures: &'m Measures<'m>, end: &End) -> Option<&'m DiskView<'m>> {
    let upper = slow_disk(measures, end)?;
    let layer = measures.disks.slow_layer(upper.disk.dev)?;
    layer.workers_ready_seconds.is_none().then_some(layer)
}

/// Says of a match that its disk is the layer below the one that is waited for.
pub(super) fn of_layer<'m>(
    measures: &'m Measures<'m>,
    end: &End,
    layer: &'m DiskView<'m>,
    matched: Match<'m>,
) -> Match<'m> {
    let upper = disk_of(measures, end).filter(|upper| upper.disk.dev != layer.disk.dev);
    let Some(upper) = upper.map(|view| view.disk) else { return matched };
    let explain = matched.explain;
    let explain = move |loss: &Loss<'_>| {
        let mut wording = explain(loss);
        let on = match &upper.backing_file {
            Some(file) => format!("lies on it, in {file}"),
            None => "is made of it".into(),
        };
        wording.text.push_str(&format!(" Disk {}, which is waited for, {on}.", upper.name));
        wording
    };
    Match { explain: Box::new(explain), ..matched }.on(Object::Disk(Some(layer.disk.dev)))
}

/// Every request takes about the same long time however many are in flight: slow, not capped.
pub(super) fn is_constant_time(view: &DiskView<'_>) -> bool {
    let constant =
        |(depth, time): (f64, f64)| depth > CONSTANT_DEPTH.value && time < CONSTANT_TIME.value;
    let compared: f64 = view.requests.iter().map(|request| request.seconds).sum();
    let all = view.service.as_ref().map_or(compared, |service| service.all_seconds);
    view.requests.len() >= CONSTANT_REQUESTS.count()
        && compared >= CONSTANT_PART.value * all
        && view.spread_of_depth_and_time().is_some_and(constant)
}

/// The part of an end that some processes lose by their own waits, with a chain that one of them begins. None of a
/// command, whose path is one.
pub(super) fn part_of(
    measures: &Measures<'_>,
    end: &End,
    wanted: impl Fn(u32) -> bool,
) -> Option<End> {
    let (begin, until) = (measures.model.look.begin_ns, measures.model.look.end_ns);
    let is_theirs = |wait: &&WaitSpan| {
        let pid = wait.thread.pid;
        wanted(pid) && end.victims.contains_key(&pid) && wait.class.is_demand() && !wait.kernel
    };
    let leaves: Vec<_> = measures
        .waits()
        .filter(is_theirs)
        .flat_map(|wait| measures.graph.chains.follow_wait(wait, (begin, until), false))
        .filter_map(|leaf| leaf.named().map(|named| (leaf, named)))
        .filter(|(leaf, named)| leaf.links[*named].object == end.object)
        .collect();
    End::gathered(end.class, end.object.clone(), &leaves).filter(|_| !measures.is_command())
}

/// Says of a match what is lost by that part instead of what the ends tell.
pub(super) fn of_part(mut matched: Match<'_>, part: End) -> Match<'_> {
    matched.chain = Some(part.links.iter().filter_map(|link| engine::step(link)).collect());
    matched.path_seconds = Some(part.seconds);
    matched.losses = Some(part.victims);
    matched
}
