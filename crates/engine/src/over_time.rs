//! Findings over time: of one answer after another, what began, what changed and what has ended.
//!
//! A trouble is known by its finding's key: code, object, culprit's program and group. It begins once it was found in two
//! of three windows, or at once if it is critical, and has ended after three windows without it. Another culprit of the same object
//! is a change, and no second alert; so is one that is seen only later, and a warning that becomes critical. What comes and goes again and
//! again is said once, as flapping, until it stays away. All of it is one value that can be written down and read again, so that a restart
//! alerts nobody a second time. Pure.
//!
//! Must not: know when it is (the windows say so), or how people are reached. Rejected: a trouble an alert each window (nobody reads the
//! second); thresholds of its own (a finding has passed its rule's).

use holdup_reason::answer::{Finding, ObjectName, Report, Severity};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Windows of which two must have it.
const RECENT: u32 = 3;
/// Windows in a row without it after which it has ended.
const ABSENT: u32 = 3;
/// Begins within [`FLAPPING_NS`] after which it is said to flap.
const BEGINS: usize = 3;
/// See [`BEGINS`]; also for how long it must stay away until it may begin anew.
const FLAPPING_NS: u64 = 30 * 60 * 1_000_000_000;
/// Troubles that are followed at once; of more the latest are left out, and counted.
const TROUBLES_MAX: usize = 500;

/// What happened to a trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    /// It holds somebody up from now on.
    Began,
    /// Somebody else does it now, or it is done in another way, or it has become critical.
    Changed,
    /// It was not found any more.
    Ended,
    /// It began again and again: nothing more is said of it until it stays away.
    Flapping,
}

/// A finding as it was said, and what of it is asked for again. The whole of it is written and read as the text that it is: nobody looks
/// into it here, and to read it typed would take half a megabyte of code.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Said {
    /// Its code.
    pub code: String,
    /// One sentence.
    pub title: String,
    /// What is waited for.
    pub object: ObjectName,
    /// How bad.
    pub severity: Severity,
    /// Seconds lost a second.
    pub lost_per_second: f64,
    /// All of it, as JSON.
    pub finding: Box<RawValue>,
}

impl Said {
    /// Of a finding.
    pub fn of(finding: &Finding) -> Self {
        let text = serde_json::value::to_raw_value(finding);
        Self {
            code: finding.code.clone(),
            title: finding.title.clone(),
            object: finding.object.clone(),
            severity: finding.severity,
            lost_per_second: finding.impact.wait_seconds_per_second,
            // What is made of plain values can always be written.
            finding: text.unwrap_or_else(|_| RawValue::NULL.to_owned()),
        }
    }

    /// How bad, to be compared.
    pub fn badness(&self) -> (Severity, f64) {
        (self.severity, self.lost_per_second)
    }
}

impl PartialEq for Said {
    fn eq(&self, other: &Self) -> bool {
        self.finding.get() == other.finding.get()
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What happened.
    pub event: Happened,
    /// The finding's key.
    pub key: String,
    /// When: the end of the window that showed it, nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// When the trouble was first found: the begin of that window.
    pub since_unix_ns: u64,
    /// When it was last found: the end of that window.
    pub until_unix_ns: u64,
    /// In how many windows it was found so far.
    pub windows: u64,
    /// Of a change of the key, the one before.
    pub was: Option<String>,
    /// The finding as it is now; of what has ended, as it was at its worst, where nothing is lost the last time that it was as bad.
    pub said: Said,
}

/// A trouble that is followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Trouble {
    /// The last windows, the latest in the lowest bit.
    recent: u32,
    /// Windows since it was last found.
    absent: u32,
    since_unix_ns: u64,
    seen_unix_ns: u64,
    windows: u64,
    /// Its begin was said.
    is_raised: bool,
    /// Nothing more is said of it.
    is_flapping: bool,
    /// When it began, lately.
    begins: Vec<u64>,
    worst: Said,
}

/// See the head of the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OverTime {
    troubles: BTreeMap<String, Trouble>,
    /// Troubles that were left out, because too many were there.
    pub left_out: u64,
}

impl OverTime {
    /// Takes the answer of the next window.
    pub fn take(&mut self, report: &Report) -> Vec<Event> {
        let begin_ns = report.window.begin_unix_ns;
        let end_ns = begin_ns + (report.window.seconds * 1e9) as u64;
        for trouble in self.troubles.values_mut() {
            trouble.recent = trouble.recent << 1 & ((1 << RECENT) - 1);
            trouble.absent += 1;
        }
        let pressing = |finding: &&Finding| finding.severity > Severity::Note;
        let findings: Vec<&Finding> = report.findings.iter().filter(pressing).collect();
        let keys: Vec<&str> = findings.iter().map(|it| &*it.key).collect();
        let mut changed = BTreeMap::new();
        for finding in findings {
            if let Some((key, was)) = self.found(finding, &keys, (begin_ns, end_ns)) {
                changed.entry(key).or_insert(was);
            }
        }
        let mut events = self.ended(end_ns);
        // A change takes the place of an end that would come later.
        events.extend(self.began(end_ns));
        events.extend(self.changed(changed, end_ns));
        self.troubles.retain(|_, it| it.is_raised || it.recent != 0 || it.remembers(end_ns));
        events
    }

    /// The clock was set, by so many nanoseconds: what is remembered moves with it, so that it has lasted as long as before.
    pub fn clock_was_set(&mut self, by_ns: i64) {
        for trouble in self.troubles.values_mut() {
            let own = [&mut trouble.since_unix_ns, &mut trouble.seen_unix_ns];
            for at_ns in own.into_iter().chain(&mut trouble.begins) {
                *at_ns = at_ns.saturating_add_signed(by_ns);
            }
        }
    }

    /// The troubles whose begin was said and whose end was not.
    pub fn open(&self) -> impl Iterator<Item = (&str, &Said)> {
        self.troubles.iter().filter(|(_, it)| it.is_raised).map(|(key, it)| (&**key, &it.worst))
    }

    /// Takes over what was said after this was written down: it is not said again.
    pub fn said(&mut self, event: &Event) {
        if event.event == Happened::Ended {
            self.troubles.remove(&event.key);
            return;
        }
        if let Some(was) = &event.was {
            self.troubles.remove(was);
        }
        let trouble = Trouble {
            recent: 1,
            absent: 0,
            since_unix_ns: event.since_unix_ns,
            seen_unix_ns: event.at_unix_ns,
            windows: event.windows,
            is_raised: true,
            is_flapping: event.event == Happened::Flapping,
            begins: vec![event.at_unix_ns],
            worst: event.said.clone(),
        };
        self.troubles.insert(event.key.clone(), trouble);
    }

    /// Takes a finding of a window that has these keys. If it changes a trouble whose begin was said: the key, and the one before if that
    /// was another.
    fn found(
        &mut self,
        finding: &Finding,
        keys: &[&str],
        (begin_ns, end_ns): (u64, u64),
    ) -> Option<(String, Option<String>)> {
        let (key, was) = self.key_of(&finding.key, keys);
        if let Some(mut renamed) = was.as_ref().and_then(|was| self.troubles.remove(was)) {
            renamed.worst = Said::of(finding);
            self.troubles.insert(key.clone(), renamed);
        }
        if let Some(known) = self.troubles.get_mut(&key) {
            if known.windows == 0 {
                (known.since_unix_ns, known.worst) = (begin_ns, Said::of(finding));
            }
            if known.absent > 0 {
                known.recent |= 1;
                known.windows += 1;
            }
            (known.absent, known.seen_unix_ns) = (0, end_ns);
            let lost = finding.impact.wait_seconds_per_second;
            let (badness, before) = ((finding.severity, lost), known.worst.badness());
            // Where nothing is lost yet, what is said is how much is left: the latest counts.
            if badness > before || (lost <= 0.0 && badness >= before) {
                known.worst = Said::of(finding);
            }
            let is_critical_now = before.0 < Severity::Critical && badness.0 == Severity::Critical;
            let is_change = was.is_some() || is_critical_now;
            return (is_change && known.is_raised && !known.is_flapping).then_some((key, was));
        } else if self.troubles.len() >= TROUBLES_MAX {
            self.left_out += 1;
        } else {
            let trouble = Trouble {
                recent: 1,
                absent: 0,
                since_unix_ns: begin_ns,
                seen_unix_ns: end_ns,
                windows: 1,
                is_raised: false,
                is_flapping: false,
                begins: Vec::new(),
                worst: Said::of(finding),
            };
            self.troubles.insert(key, trouble);
        }
        None
    }

    /// The key under which a trouble is known from now on, and the one until now if that was another: of a culprit that has ended its group
    /// may not be known any more, who fills something may not be seen in each window, and it is the same. Who is seen only later gives it
    /// the name, unless the window has another one who may be it, or what has none.
    fn key_of(&self, key: &str, in_window: &[&str]) -> (String, Option<String>) {
        if self.troubles.contains_key(key) {
            return (key.into(), None);
        }
        let may_be = |known: &str, it: &str| {
            it == known || (it.len() > known.len() && is_same_trouble(known, it))
        };
        let is_only = |known: &str| in_window.iter().all(|it| *it == key || !may_be(known, it));
        let is_it = |known: &str| {
            is_same_trouble(known, key) && (known.len() > key.len() || is_only(known))
        };
        let known = self.troubles.iter().filter(|(known, _)| is_it(known));
        match known.max_by_key(|(_, it)| it.is_raised) {
            Some((known, _)) if known.len() > key.len() => (known.clone(), None),
            Some((known, _)) => (key.into(), Some(known.clone())),
            None => (key.into(), None),
        }
    }

    /// The events of what changed: by its key, the one before if that was another.
    fn changed(&self, changed: BTreeMap<String, Option<String>>, end_ns: u64) -> Vec<Event> {
        let event = |(key, was): (String, Option<String>)| {
            let event = self.troubles.get(&key)?.event(Happened::Changed, &key, end_ns);
            Some(Event { was, ..event })
        };
        changed.into_iter().filter_map(event).collect()
    }

    fn ended(&mut self, end_ns: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for (key, trouble) in &mut self.troubles {
            if trouble.is_raised && trouble.absent >= ABSENT {
                trouble.is_raised = false;
                if !trouble.is_flapping {
                    events.push(trouble.event(Happened::Ended, key, end_ns));
                }
                trouble.windows = 0;
            }
        }
        events
    }

    fn began(&mut self, end_ns: u64) -> Vec<Event> {
        let mut events = Vec::new();
        let is_due = |it: &Trouble| {
            let at_once = it.worst.severity == Severity::Critical;
            !it.is_raised && it.absent == 0 && (at_once || it.recent.count_ones() >= 2)
        };
        let due = self.troubles.iter().filter(|(_, it)| is_due(it)).map(|(key, _)| key.clone());
        for key in due.collect::<Vec<_>>() {
            let was = self.takes_over(&key);
            let Some(trouble) = self.troubles.get_mut(&key) else { continue };
            trouble.is_raised = true;
            trouble.begins.retain(|at| end_ns.saturating_sub(*at) < FLAPPING_NS);
            if trouble.begins.is_empty() {
                trouble.is_flapping = false;
            }
            trouble.begins.push(end_ns);
            let happened = match (&was, trouble.begins.len() >= BEGINS) {
                (Some(_), _) => Happened::Changed,
                (None, true) => Happened::Flapping,
                (None, false) => Happened::Began,
            };
            if !trouble.is_flapping {
                let event = trouble.event(happened, &key, end_ns);
                trouble.is_flapping = happened == Happened::Flapping;
                events.push(Event { was, ..event });
            }
        }
        events
    }

    /// The trouble of the same kind with the same object that is not found any more, since this one is.
    fn takes_over(&mut self, key: &str) -> Option<String> {
        let new = &self.troubles.get(key)?.worst;
        let (code, object) = (new.code.clone(), new.object.clone());
        let same = |it: &Trouble| it.worst.code == code && it.worst.object == object;
        let before = self.troubles.iter_mut();
        let (was, before) = before
            .filter(|(_, it)| it.is_raised && it.absent > 0 && same(it))
            .max_by_key(|(_, it)| it.seen_unix_ns)?;
        (before.is_raised, before.windows) = (false, 0);
        Some(was.clone())
    }
}

impl Trouble {
    fn event(&self, event: Happened, key: &str, at_unix_ns: u64) -> Event {
        Event {
            event,
            key: key.to_string(),
            at_unix_ns,
            since_unix_ns: self.since_unix_ns,
            until_unix_ns: self.seen_unix_ns,
            windows: self.windows,
            was: None,
            said: self.worst.clone(),
        }
    }

    /// Whether its begins still count.
    fn remembers(&self, end_ns: u64) -> bool {
        self.begins.iter().any(|at| end_ns.saturating_sub(*at) < FLAPPING_NS)
    }
}

/// Whether two keys are the same but for a culprit, or a group of it, that one of them does not have.
pub fn is_same_trouble(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short)
        .is_some_and(|rest| [" in ", " by "].iter().any(|word| rest.starts_with(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_NS: u64 = 10_000_000_000;

    fn finding(by: &str, severity: Severity) -> Finding {
        let mut report: Report =
            serde_json::from_str(include_str!("../../report/tests/reports/file_lock.json"))
                .expect("a report");
        let mut finding = report.findings.remove(0);
        finding.key = format!("lock.file on file /x by {by}");
        finding.object = ObjectName { name: "/x".into(), ..finding.object };
        finding.severity = severity;
        finding
    }

    /// One window after another, each with these findings.
    fn events(over_time: &mut OverTime, at: &mut u64, windows: &[&[Finding]]) -> Vec<String> {
        let mut report: Report =
            serde_json::from_str(include_str!("../../report/tests/reports/file_lock.json"))
                .expect("a report");
        let mut all = Vec::new();
        for findings in windows {
            report.window.begin_unix_ns = *at;
            report.window.seconds = 10.0;
            report.findings = findings.to_vec();
            *at += WINDOW_NS;
            let taken = over_time.take(&report);
            all.extend(taken.into_iter().map(|it| {
                let by = it.key.rsplit(' ').next().unwrap_or_default().to_string();
                format!(
                    "{:?} {by} at {} since {}",
                    it.event,
                    it.at_unix_ns / WINDOW_NS,
                    it.since_unix_ns / WINDOW_NS
                )
            }));
        }
        all
    }

    #[test]
    fn a_trouble_begins_once_and_ends_once() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let it = &[finding("a", Severity::Warning)][..];
        let none: &[Finding] = &[];
        let all = events(
            &mut over_time,
            &mut at,
            &[it, none, none, it, it, it, none, it, none, none, none, none],
        );
        assert_eq!(all, ["Began a at 5 since 0", "Ended a at 11 since 0"]);
    }

    #[test]
    fn a_clock_that_is_set_makes_nothing_last_longer_or_shorter() {
        let (mut over_time, mut at) = (OverTime::default(), 1_000 * WINDOW_NS);
        let it = &[finding("a", Severity::Warning)][..];
        let none: &[Finding] = &[];
        let began = events(&mut over_time, &mut at, &[it, it]);
        assert_eq!(began, ["Began a at 1002 since 1000"]);
        over_time.clock_was_set(-900 * WINDOW_NS as i64);
        at -= 900 * WINDOW_NS;
        let ended = events(&mut over_time, &mut at, &[none, none, none]);
        assert_eq!(ended, ["Ended a at 105 since 100"]);
    }

    #[test]
    fn once_is_no_trouble_unless_it_is_critical() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let (warning, critical) =
            ([finding("a", Severity::Warning)], [finding("b", Severity::Critical)]);
        let note = [finding("c", Severity::Note)];
        let none: &[Finding] = &[];
        let all =
            events(&mut over_time, &mut at, &[&warning, none, none, &critical, &note, &note, none]);
        assert_eq!(all, ["Began b at 4 since 3", "Ended b at 7 since 3"]);
        assert!(over_time.open().next().is_none());
    }

    #[test]
    fn another_culprit_is_a_change() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let (a, b) = ([finding("a", Severity::Warning)], [finding("b", Severity::Warning)]);
        let all = events(&mut over_time, &mut at, &[&a, &a, &b, &b, &b, &b]);
        assert_eq!(all, ["Began a at 2 since 0", "Changed b at 4 since 2"]);
        let open: Vec<&str> = over_time.open().map(|(key, _)| key).collect();
        assert_eq!(open, ["lock.file on file /x by b"]);
    }

    #[test]
    fn a_culprit_whose_group_is_not_known_any_more_is_no_other() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let known = [finding("a in shop/web-0", Severity::Warning)];
        let ended = [finding("a", Severity::Warning)];
        let other = [finding("a in shop/web-1", Severity::Warning)];
        let all = events(&mut over_time, &mut at, &[&known, &known, &ended, &known, &ended]);
        assert_eq!(all.len(), 1, "{all:?}");
        let all = events(&mut over_time, &mut at, &[&other, &other]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].starts_with("Changed"), "{all:?}");
    }

    #[test]
    fn a_culprit_that_was_not_seen_in_a_window_is_no_other() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let known = [finding("a", Severity::Warning)];
        let mut unseen = known.clone();
        unseen[0].key = "lock.file on file /x".into();
        let all = events(&mut over_time, &mut at, &[&known, &known, &unseen, &unseen, &known]);
        assert_eq!(all, ["Began a at 2 since 0"]);
    }

    fn without_culprit() -> Finding {
        Finding { key: "lock.file on file /x".into(), ..finding("", Severity::Warning) }
    }

    #[test]
    fn a_culprit_that_is_seen_only_later_is_a_change_and_gives_the_trouble_its_name() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let (unseen, seen) = ([without_culprit()], [finding("a", Severity::Warning)]);
        let all = events(&mut over_time, &mut at, &[&unseen, &unseen, &seen, &unseen, &seen]);
        assert_eq!(all, ["Began /x at 2 since 0", "Changed a at 3 since 0"]);
        let open: Vec<&str> = over_time.open().map(|(key, _)| key).collect();
        assert_eq!(open, ["lock.file on file /x by a"]);
        // Before its begin was said, it begins with the name.
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let all = events(&mut over_time, &mut at, &[&unseen, &seen, &unseen]);
        assert_eq!(all, ["Began a at 2 since 0"]);
    }

    #[test]
    fn of_two_culprits_neither_is_the_one_that_was_not_seen() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let unseen = [without_culprit()];
        let both = ["a", "b"].map(|by| finding(by, Severity::Warning));
        let all = events(&mut over_time, &mut at, &[&unseen, &unseen, &both, &both]);
        assert_eq!(
            all,
            ["Began /x at 2 since 0", "Changed a at 4 since 2", "Began b at 4 since 2"]
        );
        // Nor is one beside what still has none.
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let beside = [finding("a", Severity::Warning), without_culprit()];
        let all = events(&mut over_time, &mut at, &[&unseen, &unseen, &beside, &beside]);
        assert_eq!(all, ["Began /x at 2 since 0", "Began a at 4 since 2"]);
    }

    #[test]
    fn a_warning_that_becomes_critical_is_a_change_once() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let [warning, critical] =
            [Severity::Warning, Severity::Critical].map(|severity| [finding("a", severity)]);
        let windows: [&[Finding]; 6] =
            [&warning, &warning, &critical, &critical, &warning, &critical];
        let all = events(&mut over_time, &mut at, &windows);
        assert_eq!(all, ["Began a at 2 since 0", "Changed a at 3 since 0"]);
        let (_, said) = over_time.open().next().expect("it is open");
        assert_eq!(said.severity, Severity::Critical);
    }

    #[test]
    fn of_what_costs_no_time_the_latest_is_said_and_else_the_worst() {
        let titled = |title: &str, lost| {
            let mut finding = finding("a", Severity::Warning);
            finding.title = title.into();
            finding.impact.wait_seconds_per_second = lost;
            [finding]
        };
        for (lost, said) in [(0.0, "an hour is left"), (0.5, "two hours are left")] {
            let (mut over_time, mut at) = (OverTime::default(), 0);
            let [one, other] = ["two hours are left", "an hour is left"].map(|it| titled(it, lost));
            assert_eq!(events(&mut over_time, &mut at, &[&one, &one, &other]).len(), 1);
            let open: Vec<&str> = over_time.open().map(|(_, it)| &*it.title).collect();
            assert_eq!(open, [said]);
        }
    }

    #[test]
    fn what_comes_and_goes_is_said_once_and_again_after_it_stayed_away() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let it = [finding("a", Severity::Critical)];
        let none: &[Finding] = &[];
        let round: &[&[Finding]] = &[&it, none, none, none];
        let all = events(&mut over_time, &mut at, &round.repeat(6));
        let said: Vec<&str> =
            all.iter().map(|it| it.split(' ').next().unwrap_or_default()).collect();
        assert_eq!(said, ["Began", "Ended", "Began", "Ended", "Flapping"]);
        let quiet: Vec<&[Finding]> = vec![none; 200];
        assert!(events(&mut over_time, &mut at, &quiet).is_empty());
        let all = events(&mut over_time, &mut at, round);
        assert_eq!(all.len(), 2, "{all:?}");
    }

    #[test]
    fn a_restart_alerts_nobody_a_second_time() {
        let (mut over_time, mut at) = (OverTime::default(), 0);
        let it = [finding("a", Severity::Critical)];
        assert_eq!(events(&mut over_time, &mut at, &[&it]).len(), 1);
        let written = serde_json::to_string(&over_time).expect("written");
        let mut again: OverTime = serde_json::from_str(&written).expect("read");
        assert_eq!(again, over_time);
        assert!(events(&mut again, &mut at, &[&it, &it]).is_empty());
    }
}
