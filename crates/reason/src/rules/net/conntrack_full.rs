//! net.conntrack_full: the table of connections is full, and packets that begin a new one are dropped.
//!
//! Two witnesses: the namespace's own count of packets that found no room grows, and the kernel counts that packets of the waiter's very
//! socket were dropped by netfilter there. Must not: fire on a table that is full and drops nothing (it lets go of old entries).
//! Rejected: the count of entries alone.

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{
    LOST_ONE, Losing, NOTICED, is_noticed, losing, waited_for,
};
use crate::rules::net::filter_drop::REASON;
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use std::collections::BTreeMap;

const MAX: &str = "net.netfilter.nf_conntrack_max";
const DROPS: &str = "nf_conntrack.drop";

/// Entries that a host of a gigabyte has room for by default.
const USUAL: u64 = 65_536;

/// Part of the room that is taken.
static FULL: Threshold = Threshold::new(
    0.9,
    "1",
    "entries for each that there is room for, as the look ends: connections end meanwhile, but not so many at once",
    "chosen: the kernel begins to drop at 1",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.conntrack_full",
    title: "The table of connections is full: new ones are dropped",
    theory: "Where a rule asks for the state of a connection, or addresses are translated, the kernel keeps an entry of each. There is \
             room for net.netfilter.nf_conntrack_max of them; once it is taken the packet that begins a new connection is dropped \
             without a word, and its sender takes it for lost. Connections that are there go on.",
    needs: &[
        "somebody waits for a connection or an answer for 0.2 s or more",
        "packets of that very socket were dropped by netfilter within the look",
        "the namespace's count of packets that found no room in the table grew, and nine tenths of it are taken",
    ],
    refuted_by: &[
        Refutation::new(
            "nothing was dropped for want of room",
            "a_count_that_stands_still_is_a_rule_of_the_filter",
        ),
        Refutation::new("there is room", "a_table_with_room_is_not_full"),
    ],
    remedies: &["more room (net.netfilter.nf_conntrack_max)", "see whose connections they are"],
    stories: &[],
    thresholds: &[&LOST_ONE, &NOTICED, &FULL],
    finds: Finds::Look(find),
};

/// A table that is full, by its namespace.
struct Table<'m> {
    losing: Vec<Losing<'m>>,
    netns: u32,
    dropped: u64,
    entries: u64,
    max: u64,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<u32, Table<'m>> = BTreeMap::new();
    for losing in losing(measures, ends, REASON) {
        let netns = losing.dropped[0].kind.netns;
        if let Some(table) = full(measures, netns) {
            all.entry(netns).or_insert(table).losing.push(losing);
        }
    }
    all.into_values().filter_map(|table| matched(measures, ends, table)).collect()
}

fn full<'m>(measures: &Measures<'_>, netns: u32) -> Option<Table<'m>> {
    let model = measures.model;
    let dropped = growth(model, netns, DROPS).filter(|grown| *grown > 0)?;
    let max: u64 = model.net.sysctls.get(MAX)?.parse().ok()?;
    let last = &model.net.counters.get(&netns)?.last()?.1;
    let entries = last.counters.get("nf_conntrack.entries").copied()?;
    let is_full = entries as f64 >= FULL.value * max as f64;
    is_full.then_some(Table { losing: Vec::new(), netns, dropped, entries, max })
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], table: Table<'m>) -> Option<Match<'m>> {
    let end = End::merged(table.losing.iter().map(|losing| &ends[losing.end]))?;
    if !is_noticed(measures, &end) {
        return None;
    }
    let claimed: Vec<usize> = table.losing.iter().map(|losing| losing.end).collect();
    let wording = wording(measures, &end, &table);
    let by = Culprit::setting(format!("nf_conntrack_max {}", table.max), MAX);
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(claimed.into_iter().fold(matched, |matched, at| matched.claiming(at, None)))
}

fn wording(measures: &Measures<'_>, end: &End, table: &Table<'_>) -> Wording {
    let waits = who_waits(measures, end);
    let waited = waited_for(&table.losing[0], &table.losing);
    let (entries, max) = (table.entries, table.max);
    let dropped = words::count(table.dropped as usize, "packet", "packets");
    let raised = max.saturating_mul(2).max(USUAL);
    let set = |value: u64| format!("sysctl -w {MAX}={value}");
    let conntrack = command_in(measures.model, table.netns, "head");
    let more = Remedy::to("give it more room").set(
        Action::sysctl(MAX, raised, max),
        set(raised),
        set(max),
    );
    let see = Remedy {
        text: "see whose connections they are, and how long each entry stays yet (the fifth column, seconds)".into(),
        command: format!("{conntrack} -50 /proc/net/nf_conntrack"),
        action: Some(Action::look(Question::State).through(conntrack.through.as_ref())),
        ..Remedy::default()
    };
    Wording {
        title: format!(
            "{waits} {waited}, but the table of connections is full: {entries} of {max}"
        ),
        text: format!(
            "{} pass so. Whatever would begin a new connection is dropped on this host, {dropped} within the look; nothing of it comes to \
             the other end. Connections that have an entry go on.",
            words::of_window(end.seconds, measures.wall_seconds()),
        ),
        evidence: vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(
                "entries in the table",
                entries as f64,
                "1",
                "/proc/net/stat/nf_conntrack",
            ),
            Evidence::new("room in the table", max as f64, "1", MAX),
            Evidence::new(
                "packets dropped for want of room",
                table.dropped as f64,
                "1",
                "/proc/net/stat/nf_conntrack drop",
            ),
        ],
        remedy: vec![more, see],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;

    const CODE: &str = "net.conntrack_full";

    fn connects(drops: u64, entries: u64) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 2);
        let sysctl = Sysctl { name: MAX.into(), value: "8".into() };
        let mut facts = vec![
            wait(10, "curl", "connect", object, 0, 48),
            dropped(REASON, "tcp", "10.0.0.1:40000", "192.0.2.1:80", 4),
            fact(Body::Sysctl(sysctl)),
        ];
        facts.extend(counters(&[(DROPS, 3, 3 + drops), ("nf_conntrack.entries", 8, entries)]));
        facts
    }

    #[test]
    fn a_connect_that_finds_no_room_in_the_table_ends_there() {
        let found = findings(connects(4, 8));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "nf_conntrack_max 8"));
        assert_eq!(
            found[0].title,
            "curl waits for a connection to 192.0.2.1:80, but the table of connections is full: 8 of 8"
        );
        assert_eq!(found[0].remedy[0].command, format!("sysctl -w {MAX}=65536"));
        assert_eq!(found[0].remedy[0].undo, format!("sysctl -w {MAX}=8"));
    }

    #[test]
    fn a_count_that_stands_still_is_a_rule_of_the_filter() {
        assert_eq!(codes(connects(0, 8)), ["net.filter_drop"]);
    }

    #[test]
    fn a_table_with_room_is_not_full() {
        assert_eq!(codes(connects(4, 3)), ["net.filter_drop"]);
    }
}
