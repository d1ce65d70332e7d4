//! process.descriptor_trend: a process opens more descriptors than it closes, and has no more of them within a day.
//!
//! The kernel's own count of them against RLIMIT_NOFILE. Must not: say what it opens, which is not read.

use crate::facts::Resource;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::Question;
use crate::rules::trend::{
    LEFT_MAX, PRESSING, SEEN_MIN, SEEN_SHARE, STEADY_MIN, Trend, Words, trends,
};
use crate::rules::wording::Remedy;
use crate::rules::{Finds, Match, Refutation, Rule, culprit};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.descriptor_trend",
    title: "A process opens more than it closes, and will have no descriptor left within a day",
    theory: "Each open file and each connection takes a descriptor, and RLIMIT_NOFILE says how many a process may have. One that is not closed \
             on some way out of the code (an error, a timeout) is lost for good, and after hours or days nothing can be opened any more (EMFILE): \
             no file, no connection, no accept. A pool that fills and stays is none.",
    needs: &[
        "open descriptors of the process in window after window: they grew in each third of a stretch, at rates not far apart",
        "at that rate RLIMIT_NOFILE is met within a day, and the stretch is a quarter as long as the time that is left, or longer",
    ],
    refuted_by: &[Refutation::new(
        "it was as high before and came down by itself, or one third of the time grew much less than another",
        "a_sawtooth_is_no_trend",
    )],
    remedies: &[
        "see which descriptors it has, and close those that it leaks",
        "raise RLIMIT_NOFILE",
        "start it anew at a time of one's own choice",
    ],
    stories: &["N2"],
    thresholds: &[&SEEN_MIN, &SEEN_SHARE, &LEFT_MAX, &STEADY_MIN, &PRESSING],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    let all = trends(measures, &[Resource::Descriptors]);
    all.into_iter().filter_map(|trend| matched(measures, trend)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, trend: Trend<'m>) -> Option<Match<'m>> {
    let who = trend.usage.process.as_ref()?;
    let (pid, twice) = (who.pid, trend.twice());
    let remedy = vec![
        Remedy::to("see what it has open most of").ask(
            Question::State,
            who,
            format!("ls -l /proc/{pid}/fd | sed 's/.*-> //' | sort | uniq -c | sort -n | tail"),
        ),
        // The hard limit is not known here, and where it is the same the soft one alone cannot be raised.
        Remedy::to(format!(
            "give it more time, until it is started anew: raise its soft limit to {twice}, and its hard one too if that is lower \
             (`prlimit --pid {pid} --nofile` shows both)"
        )),
    ];
    let name = words::who(who);
    let words = Words {
        ends: format!("{name} has no descriptor left"),
        is_over: format!("{name} has no descriptor left"),
        unit: "descriptors",
        source: "/proc/PID/fd, RLIMIT_NOFILE",
        by: String::new(),
        remedy,
    };
    let culprit = culprit(measures.model, who);
    Some(trend.found(culprit, Object::Process(pid), words))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::rules::trend::tests::{found, of_sawtooth};
    use crate::rules::wording::Severity;

    fn usage() -> Usage {
        let process = Some(thread(41, "leaker"));
        Usage { of: Resource::Descriptors, process, ..Usage::default() }
    }

    fn process() -> Vec<Fact> {
        vec![identity(Thread { thread: thread(41, "leaker"), ..Thread::default() })]
    }

    #[test]
    fn a_leak_is_said_of_its_process_and_known_without_its_number() {
        let found = found(usage(), 9, process());
        assert_eq!((found.len(), &*found[0].code), (1, "process.descriptor_trend"));
        let title = "leaker 41 has no descriptor left in 1 min 48 s to 2 min 12 s: 120,000 of 200,000 descriptors are left";
        assert_eq!((&*found[0].title, found[0].severity), (title, Severity::Critical));
        assert_eq!(found[0].key, "process.descriptor_trend on process of leaker by leaker");
        assert_eq!(found[0].victims.len(), 0);
    }

    #[test]
    fn a_sawtooth_is_no_trend() {
        assert!(of_sawtooth(usage(), process()).is_empty());
    }
}
