//! net.table_trend: a table of the network fills (connections, neighbours), and has no room within a day.
//!
//! Entries are the kernel's own count against its sysctl; of neighbours without those that the limit does not count (permanent ones). Must not: say of whom the entries are, which only a dump tells.

use crate::facts::Resource;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out::command_in;
use crate::rules::trend::{
    LEFT_MAX, PRESSING, SEEN_LONG_MIN, SEEN_SHARE, STEADY_MIN, Trend, Words, trends,
};
use crate::rules::wording::{Culprit, Remedy};
use crate::rules::{Finds, Match, Refutation, Rule};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.table_trend",
    title: "A table of connections or neighbours fills, and will have no room within a day",
    theory: "The kernel has an entry for each connection that it follows (conntrack), up to nf_conntrack_max, and for each neighbour on its \
             links, up to gc_thresh3. Without room the packet that begins something new is dropped, and its sender takes it for lost. Entries \
             go by themselves, after minutes or (of an open TCP connection) days, so a table that has filled to what its traffic needs stays \
             there.",
    needs: &[
        "entries of the table in window after window: they grew in each third of a stretch of three minutes or more, at rates not far apart",
        "at that rate there is no room within a day, and the stretch is a quarter as long as the time that is left, or longer",
    ],
    refuted_by: &[Refutation::new(
        "it was as high before and came down by itself, or one third of the time grew much less than another",
        "a_sawtooth_is_no_trend",
    )],
    remedies: &["see whose entries they are", "more room (nf_conntrack_max, gc_thresh3)"],
    stories: &["N2"],
    thresholds: &[&SEEN_LONG_MIN, &SEEN_SHARE, &LEFT_MAX, &STEADY_MIN, &PRESSING],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    const OF: &[Resource] =
        &[Resource::Connections, Resource::NeighboursV4, Resource::NeighboursV6];
    trends(measures, OF).into_iter().filter_map(|trend| matched(measures, trend)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, trend: Trend<'m>) -> Option<Match<'m>> {
    let (table, key, see, source) = match trend.usage.of {
        Resource::Connections => (
            "the table of connections",
            "net.netfilter.nf_conntrack_max",
            "head -50 /proc/net/nf_conntrack",
            "/proc/net/stat/nf_conntrack",
        ),
        Resource::NeighboursV4 => (
            "the table of IPv4 neighbours",
            "net.ipv4.neigh.default.gc_thresh3",
            "ip -4 -s neigh",
            "/proc/net/stat/arp_cache",
        ),
        Resource::NeighboursV6 => (
            "the table of IPv6 neighbours",
            "net.ipv6.neigh.default.gc_thresh3",
            "ip -6 -s neigh",
            "/proc/net/stat/ndisc_cache",
        ),
        Resource::Space
        | Resource::Inodes
        | Resource::Memory
        | Resource::Tasks
        | Resource::Descriptors
        | Resource::Ports => return None,
    };
    let (tool, arguments) = see.split_once(' ')?;
    let tool = command_in(measures.model, trend.usage.netns, tool);
    let (twice, limit) = (trend.twice(), trend.end.limit);
    let set = |value: u64| format!("sysctl -w {key}={value}");
    let remedy = vec![
        Remedy {
            text: "see whose entries they are".into(),
            command: format!("{tool} {arguments}"),
            action: Some(Action::look(Question::State).through(tool.through.as_ref())),
            ..Remedy::default()
        },
        Remedy::to("give it more room").set(
            Action::sysctl(key, twice, limit),
            set(twice),
            set(limit),
        ),
    ];
    let name = key.rsplit('.').next().unwrap_or(key);
    let words = Words {
        ends: format!("{table} is full"),
        is_over: format!("{table} is full"),
        unit: "entries",
        source,
        by: String::new(),
        remedy,
    };
    let by = Culprit::setting(format!("{name} {limit}"), key);
    Some(trend.found(by, Object::Limit(key), words))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::trend::tests::{found, of_sawtooth};

    fn usage(of: Resource) -> Usage {
        Usage { of, ..Usage::default() }
    }

    #[test]
    fn a_table_that_fills_is_said_after_minutes() {
        assert!(found(usage(Resource::Connections), 18, Vec::new()).is_empty());
        let found = found(usage(Resource::NeighboursV4), 20, Vec::new());
        assert_eq!((found.len(), &*found[0].code), (1, "net.table_trend"));
        let title = "the table of IPv4 neighbours is full in 9 s to 11 s: 10,000 of 200,000 entries are left";
        assert_eq!(found[0].title, title);
        assert_eq!(found[0].remedy[1].undo, "sysctl -w net.ipv4.neigh.default.gc_thresh3=200000");
    }

    #[test]
    fn a_sawtooth_is_no_trend() {
        assert!(of_sawtooth(usage(Resource::Connections), Vec::new()).is_empty());
    }
}
