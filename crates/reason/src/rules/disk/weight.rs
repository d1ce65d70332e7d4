//! disk.weight: a group with a bigger I/O weight gets the disk first.
//!
//! bfq and io.cost divide a busy disk by weights. That is what was asked for; it is said because the light group's
//! users see a slow disk, and because the weights are the way out. Of groups within groups the two count in which the ways to them part: a weight
//! divides among siblings alone. Must not: speak where the scheduler honours no weights, whatever they are set to.

use super::neighbour::{self, Neighbour, neighbour, victim_beside};
use super::{waited, wording};
use crate::facts::{Cgroup, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_view::DiskView;
use crate::model::membership::is_below;
use crate::model::{Model, words};
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;

static HEAVIER: Threshold = Threshold::new(
    2.0,
    "1",
    "a weight that is so many times greater gives two thirds of a busy disk or more",
    "bfq and io.cost divide a disk in proportion to the weights",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "disk.weight",
    title: "A neighbour with a bigger I/O weight gets the disk first",
    theory: "Where the scheduler honours weights (bfq, io.cost), a busy disk is divided by the weights of the groups that want \
             it. A light group then waits although it asks for little.",
    needs: &[
        "threads of a group wait for a busy disk whose scheduler honours weights",
        "another group asks for most of the work and has at least twice the weight",
    ],
    refuted_by: &[
        Refutation::new("equal weights", "groups_of_equal_weight_have_equal_parts"),
        Refutation::new(
            "a scheduler that does not honour weights",
            "a_scheduler_that_honours_no_weights_divides_by_none",
        ),
    ],
    remedies: &["raise the light group's weight, or lower the heavy one's"],
    stories: &["S3.7"],
    thresholds: &[&HEAVIER, &neighbour::SHARE, &neighbour::SUFFERS],
    finds: Finds::End(find),
};

/// Two groups that the weights part.
struct Weights<'m> {
    heavy: &'m Cgroup,
    light: &'m Cgroup,
    more: u64,
    less: u64,
    by: Neighbour<'m>,
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let view = waited::slow_disk(measures, end)?;
    let by = neighbour(measures, end, view)?;
    let who = by.who;
    let weights = weights(measures, end, view, by)?;
    let (heavy, file) = (&weights.heavy.path, file(weights.light, &view.disk.scheduler));
    let by = Culprit {
        container: Some(heavy.clone()),
        pid: Some(who.pid),
        ..Culprit::setting(heavy.clone(), file)
    };
    let explain = move |loss: &Loss<'_>| explain(measures, view, &weights, loss);
    Some(Match::new(by, Proof::Inferred, explain))
}

/// The neighbour's group has a greater weight than a victim's, under a scheduler that honours it.
fn weights<'m>(
    measures: &'m Measures<'m>,
    end: &End,
    view: &DiskView<'_>,
    by: Neighbour<'m>,
) -> Option<Weights<'m>> {
    let model = measures.model;
    let has_cost =
        || model.containers.cgroups.iter().any(|g| g.path == "/" && g.io_weight.is_some());
    if view.disk.scheduler != "bfq" && !has_cost() {
        return None;
    }
    let group = |thread: &ThreadRef| {
        model.cgroup_of(thread, "blkio").or_else(|| model.cgroup_of(thread, "io"))
    };
    let others = end.victims.values().filter(|(thread, _)| !by.is_one(thread.pid));
    let (most, _) = others.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.pid.cmp(&a.0.pid)))?;
    let (of_neighbour, of_victim) = (group(by.who)?, group(most)?);
    let heavy = outermost_apart(model, of_neighbour, of_victim)?;
    let light = outermost_apart(model, of_victim, of_neighbour)?;
    let (more, less) = (heavy.io_weight?, light.io_weight?);
    let is_heavier = heavy.path != light.path && more as f64 >= HEAVIER.value * less.max(1) as f64;
    is_heavier.then_some(Weights { heavy, light, more, less, by })
}

/// The outermost group around one of two that is not around the other.
fn outermost_apart<'m>(model: &'m Model, own: &Cgroup, other: &Cgroup) -> Option<&'m Cgroup> {
    let apart = model.containers.cgroups.iter().filter(|group| {
        group.controllers == own.controllers
            && is_below(&own.path, &group.path)
            && !is_below(&other.path, &group.path)
    });
    apart.min_by_key(|group| group.path.len())
}

/// The file that sets a group's weight.
fn file(group: &Cgroup, scheduler: &str) -> String {
    let file = match (group.controllers.is_empty(), scheduler) {
        (true, "bfq") => "io.bfq.weight",
        // The controller io.cost has one of its own.
        (true, _) => "io.weight",
        (false, _) => "blkio.bfq.weight",
    };
    format!("{}/{file}", group.directory.trim_end_matches('/'))
}

fn explain(
    measures: &Measures<'_>,
    view: &DiskView<'_>,
    weights: &Weights<'_>,
    loss: &Loss<'_>,
) -> Wording {
    let name = &view.disk.name;
    let Weights { heavy, light, more, less, by } = weights;
    let of = |group: &Cgroup, weight: u64| {
        let what = format!("weight of {}", measures.model.containers.group_in_words(&group.path));
        Evidence::new(what, weight as f64, "1", "cgroup I/O weight")
    };
    let mut evidence = vec![of(heavy, *more), of(light, *less)];
    evidence.extend(wording::evidence(view));
    Wording {
        title: format!(
            "{} waits for disk {name}, which serves the heavier {} first",
            victim_beside(measures, loss, by),
            measures.model.containers.group_in_words(&heavy.path)
        ),
        text: format!(
            "The {} has weight {less}, the {} has {more} and asks for most ({}); {name} is {} busy, and {} \
             pass in waits for it.",
            measures.model.containers.group_in_words(&light.path),
            measures.model.containers.group_in_words(&heavy.path),
            by.name(measures.model),
            words::percent(view.queue.busy),
            words::of_window(loss.seconds, loss.wall_seconds),
        ),
        evidence,
        remedy: vec![Remedy::to("give the light group the same weight").write(
            &file(light, &view.disk.scheduler),
            more,
            less,
        )],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::disk::scenes::*;
    use crate::rules::scenes::*;

    fn facts(scheduler: &str, heavy: u64, light: u64) -> Vec<Fact> {
        let rate = Rate { per_second: 50, ms: 40, in_flight: 2, busy: 100 };
        let mut facts = disk(Disk { scheduler: scheduler.into(), ..named("sda") }, rate);
        for (pid, comm, path, weight, writes) in
            [(10, "app", "/light", light, 10), (20, "copy", "/heavy", heavy, 240)]
        {
            facts.extend(waiter(pid, comm, &[(0, 4_900)]));
            facts.extend([member(pid, comm, path), used(pid, comm, writes, 1)]);
            facts.push(fact(Body::Cgroup(Cgroup {
                path: path.into(),
                controllers: vec!["blkio".into()],
                io_weight: Some(weight),
                ..Cgroup::default()
            })));
        }
        facts
    }

    fn found(scheduler: &str, heavy: u64, light: u64) -> Vec<String> {
        codes(facts(scheduler, heavy, light))
    }

    #[test]
    fn the_heavier_group_is_served_first() {
        assert_eq!(found("bfq", 1000, 10), ["disk.weight"]);
    }

    #[test]
    fn the_weight_that_bfq_honours_is_written() {
        let mut unified = facts("bfq", 1000, 10);
        for fact in &mut unified {
            match &mut fact.body {
                Body::Cgroup(group) => group.controllers.clear(),
                Body::Thread(thread) => {
                    thread.cgroups.iter_mut().for_each(|it| it.controllers.clear());
                }
                _ => {}
            }
        }
        let file = |facts| explain(facts).findings[0].culprit.setting.clone().unwrap_or_default();
        assert!(file(unified.clone()).ends_with("/io.bfq.weight"), "{}", file(unified));
        assert!(file(facts("bfq", 1000, 10)).ends_with("/blkio.bfq.weight"));
    }

    #[test]
    fn groups_of_equal_weight_have_equal_parts() {
        assert_eq!(found("bfq", 100, 100), ["disk.saturated"]);
    }

    #[test]
    fn of_groups_within_groups_those_count_in_which_they_part() {
        let group = |path: &str, weight| {
            let controllers = vec!["blkio".into()];
            let (path, io_weight) = (path.into(), Some(weight));
            fact(Body::Cgroup(Cgroup { path, controllers, io_weight, ..Cgroup::default() }))
        };
        let within = |heavy, light| {
            let mut facts = facts("bfq", 1000, 10);
            for fact in &mut facts {
                match &mut fact.body {
                    Body::Cgroup(it) => it.path = format!("/of{}{}", &it.path[1..], it.path),
                    Body::Thread(it) => {
                        it.cgroups
                            .iter_mut()
                            .for_each(|m| m.path = format!("/of{}{}", &m.path[1..], m.path));
                    }
                    _ => {}
                }
            }
            facts.extend([group("/ofheavy", heavy), group("/oflight", light)]);
            explain(facts).findings.remove(0)
        };
        assert_eq!(within(100, 100).code, "disk.saturated", "the two slices have equal parts");
        let found = within(1000, 10);
        assert_eq!(
            (&*found.code, found.culprit.container.as_deref()),
            ("disk.weight", Some("/ofheavy"))
        );
    }

    #[test]
    fn a_scheduler_that_honours_no_weights_divides_by_none() {
        assert_eq!(found("mq-deadline", 1000, 10), ["disk.saturated"]);
    }

    #[test]
    fn the_heavier_group_is_named_with_its_process() {
        let found = explain(facts("bfq", 1000, 10)).findings;
        let by = &found[0].culprit;
        assert_eq!((by.container.as_deref(), by.pid), (Some("/heavy"), Some(20)));
    }
}
