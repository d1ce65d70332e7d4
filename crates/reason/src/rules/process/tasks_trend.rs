//! process.tasks_trend: a group has more and more processes and threads, and may have no more of them within a day.
//!
//! pids.current of a group with a pids.max. Must not: speak of a host's limit, which nothing counts for whoever asks.

use crate::facts::{Cgroup, Resource};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::{CgroupKey, Object};
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::group_limits;
use crate::rules::trend::{
    LEFT_MAX, PRESSING, SEEN_MIN, SEEN_SHARE, STEADY_MIN, Trend, Words, trends,
};
use crate::rules::wording::{Culprit, Remedy};
use crate::rules::{Finds, Match, Refutation, Rule};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.tasks_trend",
    title: "A group has more and more processes, and will be full within a day",
    theory: "Each process and each thread of a cgroup counts against its pids.max, zombies too. Once it is met fork and clone fail (EAGAIN): a \
             shell cannot run a program, a server cannot begin a thread. Children that nobody waits for, or threads that are begun for \
             each request and never end, come there steadily.",
    needs: &[
        "pids.current of the group in window after window: it grew in each third of a stretch, at rates not far apart",
        "at that rate pids.max is met within a day, and the stretch is a quarter as long as the time that is left, or longer",
    ],
    refuted_by: &[Refutation::new(
        "it was as high before and came down by itself, or one third of the time grew much less than another",
        "a_sawtooth_is_no_trend",
    )],
    remedies: &["see which program the processes are of, and who begins them", "raise pids.max"],
    stories: &["N2"],
    thresholds: &[&SEEN_MIN, &SEEN_SHARE, &LEFT_MAX, &STEADY_MIN, &PRESSING],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    let all = trends(measures, &[Resource::Tasks]);
    all.into_iter().filter_map(|trend| matched(measures, trend)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, trend: Trend<'m>) -> Option<Match<'m>> {
    let model = measures.model;
    let is_it = |group: &&Cgroup| group.path == trend.usage.path && group.pids_limit.is_some();
    let group = model.containers.cgroups.iter().find(is_it)?;
    let name = model.containers.group_in_words(&group.path);
    let folder = group.directory.trim_end_matches('/');
    let file = format!("{folder}/pids.max");
    let see = format!(
        "find {} -name cgroup.procs -exec cat {{}} + | xargs -r ps -o comm=,stat= -p | sort | uniq -c | sort -n | tail",
        words::shell(folder)
    );
    let remedy = vec![
        Remedy {
            text: "see of which programs they are (Z: ended, and not waited for by its parent)"
                .into(),
            command: see,
            action: Some(Action::look(Question::State)),
            ..Remedy::default()
        },
        group_limits::raise_processes(
            model,
            group,
            "let the group have twice as many",
            trend.twice(),
        ),
    ];
    let culprit = Culprit {
        container: Some(group.path.clone()),
        ..Culprit::setting(group.path.clone(), file)
    };
    let words = Words {
        ends: format!("{name} may begin no process any more"),
        is_over: format!("{name} may begin no process any more"),
        unit: "processes and threads",
        source: "pids.current",
        by: String::new(),
        remedy,
    };
    Some(trend.found(culprit, Object::Cgroup(CgroupKey::of(group)), words))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::rules::trend::tests::{found, of_sawtooth};

    fn usage() -> Usage {
        Usage { of: Resource::Tasks, path: "/job".into(), ..Usage::default() }
    }

    fn group() -> Vec<Fact> {
        vec![fact(Body::Cgroup(Cgroup {
            path: "/job".into(),
            directory: "/sys/fs/cgroup/job".into(),
            pids_limit: Some(200_000),
            ..Cgroup::default()
        }))]
    }

    #[test]
    fn a_group_that_has_more_and_more_is_said() {
        let found = found(usage(), 9, group());
        assert_eq!((found.len(), &*found[0].code), (1, "process.tasks_trend"));
        assert!(found[0].title.starts_with("cgroup /job may begin no process any more in"));
        assert_eq!(found[0].key, "process.tasks_trend on cgroup /job by /job");
    }

    #[test]
    fn a_sawtooth_is_no_trend() {
        assert!(of_sawtooth(usage(), group()).is_empty());
    }
}
