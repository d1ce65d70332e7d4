//! memory.limit_trend: a group's memory that cannot be dropped grows towards its limit, and meets it within a day.
//!
//! Page cache is no part of it: a group that reads fills its limit with it and is well. Must not: count what may be swapped as lost before
//! swap is.

use crate::facts::{Cgroup, Resource};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::{CgroupKey, Object};
use crate::rules::action::{Action, Question};
use crate::rules::group_limits;
use crate::rules::trend::{
    LEFT_MAX, PRESSING, SEEN_LONG_MIN, SEEN_SHARE, STEADY_MIN, Trend, Words, trends,
};
use crate::rules::wording::{Culprit, Remedy};
use crate::rules::{Finds, Match, Refutation, Rule};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.limit_trend",
    title: "A group's memory grows, and will meet its limit within a day",
    theory: "A cgroup at its memory limit drops page cache first, and that costs little. Anonymous and shared memory cannot be dropped: it is \
             swapped where that is allowed, and once there is no more of both the kernel kills a process of the group. What leaks grows steadily \
             until then. A collector that lets garbage lie for a while makes a sawtooth, which is none.",
    needs: &[
        "anonymous and shared memory of the group, and what it has swapped where it may, grew in each third of a stretch of three minutes or \
         more, at rates not far apart",
        "at that rate it meets the limit (with swap, where it may) within a day, and the stretch is a quarter as long as the time that is left, \
         or longer",
    ],
    refuted_by: &[
        Refutation::new(
            "it was as high before and came down by itself, or one third of the time grew much less than another",
            "a_sawtooth_is_no_trend",
        ),
        Refutation::new("what grows is page cache", "cache_that_grows_is_no_trend"),
    ],
    remedies: &[
        "see which process of the group grows, and start it anew before the kernel kills it",
        "raise the limit",
    ],
    stories: &["N2"],
    thresholds: &[&SEEN_LONG_MIN, &SEEN_SHARE, &LEFT_MAX, &STEADY_MIN, &PRESSING],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    let all = trends(measures, &[Resource::Memory]);
    all.into_iter().filter_map(|trend| matched(measures, trend)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, trend: Trend<'m>) -> Option<Match<'m>> {
    let model = measures.model;
    let is_it =
        |group: &&Cgroup| group.path == trend.usage.path && group.memory_limit_bytes.is_some();
    let group = model.containers.cgroups.iter().find(is_it)?;
    let limit = group.memory_limit_bytes?;
    let name = model.containers.group_in_words(&group.path);
    let folder = group.directory.trim_end_matches('/');
    let file = if group.controllers.is_empty() { "memory.max" } else { "memory.limit_in_bytes" };
    let has_swap = trend.usage.limit > limit;
    let what = if has_swap { "its limit of memory and swap" } else { "its memory limit" };
    let see = format!(
        "find {} -name cgroup.procs -exec cat {{}} + | xargs -r ps -o pid,rss,comm --sort=-rss -p | head",
        crate::model::words::shell(folder)
    );
    let remedy = vec![
        Remedy {
            text: "see which of its processes has the memory; what leaks must be started anew, which takes nothing from the others".into(),
            command: see,
            action: Some(Action::look(Question::State)),
            ..Remedy::default()
        },
        group_limits::raise_memory(
            model,
            group,
            file,
            ("give it more time by a higher limit", limit.saturating_mul(2)),
        ),
    ];
    let culprit = Culprit {
        container: Some(group.path.clone()),
        ..Culprit::setting(group.path.clone(), format!("{folder}/{file}"))
    };
    let words = Words {
        ends: format!("{name} meets {what}"),
        is_over: format!("{name} has met {what}"),
        unit: "",
        source: "memory.stat",
        by: String::new(),
        remedy,
    };
    Some(trend.found(culprit, Object::Memory(Some(CgroupKey::of(group))), words))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::rules::trend::tests::{found, of_sawtooth};

    fn usage() -> Usage {
        Usage { of: Resource::Memory, path: "/job".into(), ..Usage::default() }
    }

    fn group() -> Vec<Fact> {
        let group = Cgroup {
            path: "/job".into(),
            directory: "/sys/fs/cgroup/job".into(),
            memory_limit_bytes: Some(200_000 << 10),
            ..Cgroup::default()
        };
        let sample = CgroupSample {
            path: "/job".into(),
            memory_file_bytes: Some(190_000 << 10),
            memory_anon_bytes: Some(1 << 20),
            ..CgroupSample::default()
        };
        vec![fact(Body::Cgroup(group)), fact(Body::CgroupSample(sample))]
    }

    #[test]
    fn a_leak_is_said_with_its_group_after_minutes() {
        assert!(found(usage(), 18, group()).is_empty(), "170 s were seen");
        let found = found(usage(), 20, group());
        assert_eq!((found.len(), &*found[0].code), (1, "memory.limit_trend"));
        let title =
            "cgroup /job meets its memory limit in 9 s to 11 s: 9.77 MiB of 195 MiB are left";
        assert_eq!(found[0].title, title);
        assert_eq!(found[0].key, "memory.limit_trend on memory /job by /job");
        assert!(
            found[0].remedy[1]
                .command
                .starts_with("echo 409600000 > /sys/fs/cgroup/job/memory.max")
        );
    }

    #[test]
    fn cache_that_grows_is_no_trend() {
        let model = crate::model::Model::new([host(), group()].concat());
        let all = crate::measure::usages::usages(&model);
        assert_eq!(all.iter().map(|(_, it)| it.used).collect::<Vec<_>>(), [1 << 20]);
    }

    #[test]
    fn a_sawtooth_is_no_trend() {
        assert!(of_sawtooth(usage(), group()).is_empty());
    }
}
