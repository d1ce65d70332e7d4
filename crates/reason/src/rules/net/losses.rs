//! Losses that a measure knows better than the ends: the time of packets in a queue, clients of a full socket.
//!
//! Who waits for a reply looks like an idle process, so its time is in nobody's demand: the loss is held against the look
//! itself, not against the little else that the process did. Must not: decide whether a loss matters.

use crate::facts::ThreadRef;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::wording::{Impact, Severity};
use crate::rules::{Losses, Match, Step};
use std::collections::{BTreeMap, BTreeSet};

/// Only those who belong to what is looked at. Of a command, what its path waited for them: who merely brushed it, and loses
/// much elsewhere, is no loss of the command's.
pub(super) fn in_target(measures: &Measures<'_>, losses: Losses) -> Losses {
    let model = measures.model;
    if !measures.is_command() {
        let wanted = |pid: &u32, of: &(ThreadRef, f64)| {
            model.in_target(&of.0) && *pid != model.look.host.own_pid
        };
        return losses.into_iter().filter(|(pid, of)| wanted(pid, of)).collect();
    }
    let mut on_path: BTreeMap<u32, f64> = BTreeMap::new();
    for leaf in &measures.graph.path {
        let through: BTreeSet<u32> = leaf.links.iter().map(|link| link.who.pid).collect();
        for pid in through {
            *on_path.entry(pid).or_default() += leaf.ns() as f64 / 1e9;
        }
    }
    losses
        .into_iter()
        .filter_map(|(pid, (thread, seconds))| {
            let path = on_path.get(&pid)?;
            Some((pid, (thread, seconds.min(*path))))
        })
        .collect()
}

/// Who loses most.
pub(super) fn most(losses: &Losses) -> Option<&(ThreadRef, f64)> {
    losses.values().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// A match with losses of a measure, and a chain from who loses most to who holds the object.
pub(super) fn of_measure<'m>(
    measures: &Measures<'_>,
    mut matched: Match<'m>,
    object: Object,
    losses: Losses,
    holder: Option<(&ThreadRef, &'static str, String)>,
) -> Match<'m> {
    let wall = measures.wall_seconds().max(1e-9);
    let lost: f64 = losses.values().map(|(_, seconds)| seconds).sum();
    let mut chain = Vec::new();
    if let Some((who, seconds)) = most(&losses) {
        let (on, seconds) = (object.clone(), *seconds);
        chain.push(Step { who: who.clone(), on, doing: None, seconds, when: None, because: None });
        if let Some((holder, kind, doing)) = holder {
            let doing = Some((kind, doing));
            chain.push(Step {
                who: holder.clone(),
                on: Object::Nothing,
                doing,
                seconds,
                when: None,
                because: None,
            });
        }
        // What else a victim did is little: next to that, any loss would be all of it.
        let of_look = Impact {
            wait_seconds_per_second: lost / wall,
            share: (seconds / wall).min(1.0),
            moment: None,
        };
        matched.severity_max = Severity::of(&of_look);
        matched.path_seconds = measures.is_command().then_some(seconds);
    }
    matched.chain = Some(chain);
    matched.losses = Some(losses);
    matched.on(object)
}
