//! disk.own_throttle: the wait is before the device, at a limit that a cgroup was given.
//!
//! blk-throttle holds bios back so that the group stays under its configured rate. On 6.18 it does so before
//! block_bio_queue, so no request event shows the wait. The proof is an identity: a group that waits for longer than the
//! device works waits before the device, and under a limit of which it uses a noticeable part that has no other reason.
//! Where others keep the device at work, one after the other (commits of a journal), the same holds of the group's own
//! requests: were they the longest of all that the device had, they would take less time than the group waits for its data.
//!
//! A commit of the journal waits for the data that is in it: it may stand at the limit of a group that none of those who
//! wait for the commit is in. They are held up by the limit all the same. So is whoever waits until all that is dirty is written
//! (sync, umount, a truncation): the pages that were submitted within the limit are not his.
//!
//! The disk that is waited for may be made of the limited one: then its requests are in flight while the one below has nothing to do.
//!
//! Must not: ask for a band (60 % to 135 % of the limit). The kernel hands out whole requests by slices of a tenth of a
//! second, so a group that may write 5 to 12 times a second beside a journal reaches 57 % to 170 %, and waits for nothing
//! else. Rejected: measuring the gap between bio and request (it shows microseconds).

use super::raised_limit::{growth, raise};
use super::waited::{self, SLOW};
use super::wording;
use crate::graph::chains::ChainLink;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::disk_limits::{self, INSIDE_UPPER, LimitUse};
use crate::measure::disk_view::DiskView;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

static USED: Threshold = Threshold::new(
    0.25,
    "1",
    "a limit of which less is used holds nobody: a call may make two operations of which one is counted, and the disk \
     and the journal take their time between two of them",
    "lab: 5 to 12 writes a second beside a journal reach 57 % to 170 %",
);
static BEFORE: Threshold = Threshold::new(
    0.5,
    "1",
    "the part of a group's waiting that passes while the device has nothing to do; more than half is most of it",
    "chosen: the device's time is an upper bound, so what is left is a lower one",
);
static MET: Threshold = Threshold::new(
    0.85,
    "1",
    "where the device is slow for everybody, the group must meet its limit",
    "lab: disk-own-throttle-*, seeds 1 and 4401-4403, reach 95 % and more",
);
static MOSTLY: Threshold = Threshold::new(
    0.5,
    "1",
    "who is not of the group and waits this part of his time for the disk himself is none of its victims",
    "chosen: most",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "disk.own_throttle",
    title: "A cgroup's own I/O limit holds its requests back before the disk",
    theory: "A cgroup may be given a limit of operations or bytes a second on a device \
             (blkio.throttle.* in cgroup v1, io.max in v2). The kernel holds back what exceeds it \
             before it reaches the device, so the disk looks idle and quick while the group's \
             threads sleep in state D.",
    needs: &[
        "threads of the group wait for the disk, or a journal's commit does that others wait for, or others wait for pages that are being written",
        "a limit is set for the group, or for one above it, on this device, and a quarter of it or more is used, or bios of the group \
         are seen held back",
        "most of that waiting passes while the device has nothing to do; or the group's own requests take less than half of \
         the time that it waits for data, and the device is quick or the limit is met",
    ],
    refuted_by: &[
        Refutation::new(
            "the device works while the group waits, and the limit is not met",
            "a_busy_disk_beside_a_limit_that_is_not_met_is_not_throttled",
        ),
        Refutation::new(
            "next to nothing of the limit is used",
            "a_limit_of_which_little_is_used_holds_nobody",
        ),
        Refutation::new(
            "no limit is set on the device for the group or any group above it",
            "a_limit_of_another_group_or_device_is_no_reason",
        ),
        Refutation::new(
            "the disk that is waited for is made of the limited one, and has nothing in flight meanwhile",
            "who_waits_before_the_disk_that_is_made_of_it_is_not_held_up_below",
        ),
    ],
    remedies: &["raise or remove the limit", "spread the work, or make fewer, larger requests"],
    stories: &["S1.1", "S0.6"],
    thresholds: &[&USED, &BEFORE, &SLOW, &MET, &MOSTLY, &INSIDE_UPPER],
    finds: Finds::Look(find),
};

/// A limit that holds somebody up.
#[derive(Clone, Copy)]
struct Held<'m> {
    limit: &'m LimitUse<'m>,
    /// Time that is waited for the disk, seconds.
    waited: f64,
    /// Of that, at least so much passes before the device.
    before: f64,
    /// It holds the group's own threads.
    own: bool,
    /// It holds a commit that others wait for.
    journal: bool,
    /// It holds pages that others wait for.
    writeback: bool,
}

fn find<'m>(measures: &'m Measures<'m>, open: &'m [End]) -> Vec<Match<'m>> {
    let mut found = Vec::new();
    for view in measures.disks.views.values() {
        let mut held: Vec<Held<'m>> =
            view.limits.uses.iter().filter_map(|limit| held(measures, view, limit)).collect();
        held.sort_by(|a, b| b.limit.used().total_cmp(&a.limit.used()));
        if held.is_empty() {
            continue;
        }
        let waits = Waits::of(measures, view);
        let mut taken: BTreeSet<(usize, u32)> = BTreeSet::new();
        for one in held {
            found.extend(matched(measures, view, one, open, &waits, &mut taken));
        }
    }
    found
}

fn held<'m>(
    measures: &'m Measures<'m>,
    view: &'m DiskView<'m>,
    limit: &'m LimitUse<'m>,
) -> Option<Held<'m>> {
    // A long request is counted when the last of it has passed.
    if !view.is_counted || limit.used() < USED.value && !limit.holds_bios {
        return None;
    }
    let device = view.worked_seconds(measures.model.look.seconds());
    let is_before =
        |waited: f64, inside: f64| waited > 0.0 && waited - inside >= BEFORE.value * waited;
    let idle = is_before(limit.waited_seconds, device);
    let requests = own_requests(view, limit);
    let data = requests.is_some_and(|requests| is_before(limit.data_seconds, requests));
    let journal = is_before(limit.journal_seconds, device);
    let writeback = is_before(limit.writeback_seconds, device);
    let (waited, inside) = match (idle, requests) {
        (true, _) => (limit.waited_seconds, device),
        (false, Some(requests)) if data => (limit.data_seconds, requests),
        _ if journal => (limit.journal_seconds, device),
        _ => (limit.writeback_seconds, device),
    };
    let before = waited - inside;
    let own = idle || data;
    (own || journal || writeback).then_some(Held { limit, waited, before, own, journal, writeback })
}

/// For how long the group's own requests were in the device or its queue, at most, where that can be held against its
/// waiting: the device answers at once, so that nobody throttles its writers, or the limit is met all the same.
fn own_requests(view: &DiskView<'_>, limit: &LimitUse<'_>) -> Option<f64> {
    let service = view.service.as_ref()?;
    let is_quick = view.inside_seconds_max() < SLOW.value;
    let queued = limit.completed as f64 * service.queued_mean;
    (limit.is_own_count && (is_quick || limit.used() >= MET.value))
        .then(|| service.longest_seconds(limit.completed) + queued)
}

/// What each process itself waits for on a disk, seconds.
#[derive(Default)]
struct Waits {
    direct: BTreeMap<u32, f64>,
    journal: BTreeMap<u32, f64>,
    /// Of the direct ones those for pages that are being written, of who is in no limited group himself.
    writeback: BTreeMap<u32, f64>,
}

impl Waits {
    fn of(measures: &Measures<'_>, view: &DiskView<'_>) -> Self {
        let model = measures.model;
        let mut waits = Self::default();
        for wait in measures.waits().filter(|wait| !wait.kernel) {
            let sums = match (wait.class, &wait.object) {
                (WaitClass::Disk | WaitClass::PageFault, Object::Disk(on))
                    if view.limits.may_hold(*on) =>
                {
                    &mut waits.direct
                }
                (WaitClass::Journal, Object::Journal(on)) if view.limits.may_hold(*on) => {
                    &mut waits.journal
                }
                _ => continue,
            };
            let (pid, is_direct) = (wait.thread.pid, wait.class != WaitClass::Journal);
            let seconds = wait.within_ns(model.look.begin_ns, model.look.end_ns) as f64 / 1e9;
            *sums.entry(pid).or_default() += seconds;
            let is_limited = || view.limits.uses.iter().any(|limit| limit.members.contains(&pid));
            if is_direct && disk_limits::is_for_writeback(model, wait) && !is_limited() {
                *waits.writeback.entry(pid).or_default() += seconds;
            }
        }
        waits
    }

    /// A limit holds up a victim of an end: of its own group, through a commit, or through somebody of the group.
    fn is_victim(&self, held: &Held<'_>, pid: u32, lost: f64) -> bool {
        let of = |sums: &BTreeMap<u32, f64>| sums.get(&pid).copied().unwrap_or(0.0);
        if held.limit.members.contains(&pid) {
            return held.own;
        }
        let (direct, journal) = (of(&self.direct), of(&self.journal));
        match () {
            () if direct >= MOSTLY.value * lost => {
                held.writeback && of(&self.writeback) >= MOSTLY.value * direct
            }
            () if journal >= MOSTLY.value * lost => held.journal,
            () => held.own,
        }
    }
}

/// An end is the disk, or a commit on it that waits for a request which no event showed.
fn is_on(view: &DiskView<'_>, end: &End) -> bool {
    let through_journal = |link: &ChainLink| match link.object {
        Object::Journal(on) => view.limits.may_hold(on),
        _ => false,
    };
    let is_wait = matches!(end.class, WaitClass::Disk | WaitClass::PageFault);
    is_wait
        && match end.object {
            Object::Disk(None) => end.links.iter().any(|link| through_journal(link)),
            Object::Disk(on) => view.limits.may_hold(on),
            _ => false,
        }
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    view: &'m DiskView<'m>,
    held: Held<'m>,
    open: &'m [End],
    waits: &Waits,
    taken: &mut BTreeSet<(usize, u32)>,
) -> Option<Match<'m>> {
    let limit = held.limit;
    let group = limit.group.path.clone();
    let mut by =
        Culprit { container: Some(group.clone()), ..Culprit::setting(group, setting(limit)) };
    if alike(view, limit).iter().any(|it| setting(it) != setting(limit)) {
        by.setting = None;
    }
    let explain = move |loss: &Loss<'_>| explain(measures, view, &held, loss);
    let mut matched = Match::new(by, Proof::Read, explain).on(Object::Disk(Some(view.disk.dev)));
    let (mut parts, mut upper) = (Vec::new(), None);
    for (at, end) in open.iter().enumerate().filter(|(_, end)| is_on(view, end)) {
        let is_free = |pid: &u32| !taken.contains(&(at, *pid));
        let lost = end.victims.iter().filter(|(pid, _)| is_free(pid));
        let own: BTreeSet<u32> = lost
            .filter(|(pid, (_, seconds))| waits.is_victim(&held, **pid, *seconds))
            .map(|(pid, _)| *pid)
            .collect();
        if own.is_empty() {
            continue;
        }
        taken.extend(own.iter().map(|pid| (at, *pid)));
        let all = own.len() == end.victims.len();
        parts.extend(waited::part_of(measures, end, |pid| own.contains(&pid)));
        matched = matched.claiming(at, (!all).then_some(own));
        let is_upper = matches!(end.object, Object::Disk(Some(on)) if on != view.disk.dev);
        upper = upper.or(is_upper.then_some(end));
    }
    if matched.claims.is_empty() {
        return None;
    }
    if let Some(end) = upper {
        matched = waited::of_layer(measures, end, view, matched);
        matched.proof = Proof::TwoWitnesses;
    }
    Some(match End::merged(&parts) {
        Some(part) => waited::of_part(matched, part),
        None => matched,
    })
}

/// The file of a limit.
fn setting(limit: &LimitUse<'_>) -> String {
    format!("{}/{}", limit.group.directory.trim_end_matches('/'), limit.limit.file)
}

/// `5.0 write requests/s`, `1.0 MiB/s of reads`.
fn limit_text(kind: &str, per_second: f64) -> String {
    match kind {
        "read_iops" => format!("{} read requests/s", words::rate(per_second)),
        "write_iops" => format!("{} write requests/s", words::rate(per_second)),
        "read_bps" => format!("{}/s of reads", words::bytes(per_second)),
        _ => format!("{}/s of writes", words::bytes(per_second)),
    }
}

fn explain(
    measures: &Measures<'_>,
    view: &DiskView<'_>,
    held: &Held<'_>,
    loss: &Loss<'_>,
) -> Wording {
    let group = held.limit.group;
    let (name, alike) = (&view.disk.name, alike(view, held.limit));
    let s = if alike.len() > 1 { "s" } else { "" };
    let first = loss.victims.first().map(|(victim, _)| victim.pid);
    // A command may wait for a server whose limit it is.
    let stands = |end: &End| {
        let who = &end.links[end.named].who;
        measures.concerns(who) && held.limit.members.contains(&who.pid)
    };
    let is_own = match measures.is_command() {
        true => loss.end.is_none_or(stands),
        false => first.is_some_and(|pid| held.limit.members.contains(&pid)),
    };
    let whose = match is_own {
        true => format!("its own I/O limit{s}"),
        false => {
            format!("the I/O limit{s} of {}", measures.model.containers.group_in_words(&group.path))
        }
    };
    let through = match loss.end.and_then(|end| end.via.get(&WaitClass::Journal)) {
        Some(seconds) if held.journal && !is_own => {
            format!(" Commits of the journal wait for its writes ({}).", words::seconds(*seconds))
        }
        _ if held.writeback && !is_own => {
            " Pages that are being written are waited for, and the group writes there.".into()
        }
        _ => String::new(),
    };
    // Where the disk had no request in the look, nobody knows how it answers.
    let answers = match view.inside_seconds() {
        inside if inside > 0.0 => format!("answers in {} and is", words::seconds(inside)),
        _ => "is".to_string(),
    };
    let growth = growth(view, loss.seconds / loss.wall_seconds.max(1e-9));
    let way = |limit: &&LimitUse<'_>| raise(measures.model, (limit.group, limit.limit), growth);
    Wording {
        title: format!("{} is held up by {whose}", loss.victim),
        text: format!(
            "{} before disk {name}, not inside it: {}; {name} itself {answers} {} busy.{through}",
            words::of_time(loss.impact.share, loss.seconds, loss.wall_seconds),
            allowance(measures, held.limit, &alike),
            words::percent(view.queue.busy),
        ),
        evidence: evidence(view, held, &alike),
        remedy: alike.iter().map(way).collect(),
    }
}

/// The limits that it may be. Of several of which little is used, and whose group has bios held back, none is known to be the one.
fn alike<'v>(view: &'v DiskView<'_>, limit: &'v LimitUse<'v>) -> Vec<&'v LimitUse<'v>> {
    let is_unclear = |it: &LimitUse<'_>| it.used() < USED.value && it.holds_bios;
    let is_other = |it: &&LimitUse<'_>| {
        is_unclear(it) && !std::ptr::eq(*it, limit) && !it.members.is_disjoint(&limit.members)
    };
    let others = view.limits.uses.iter().filter(is_other);
    std::iter::once(limit).chain(others.filter(|_| is_unclear(limit))).collect()
}

/// What the group may do, and what it does.
fn allowance(measures: &Measures<'_>, limit: &LimitUse<'_>, alike: &[&LimitUse<'_>]) -> String {
    let group = measures.model.containers.group_in_words(&limit.group.path);
    let may = |it: &LimitUse<'_>| limit_text(&it.limit.kind, it.limit.per_second as f64);
    if alike.len() > 1 {
        let all: Vec<String> =
            alike.iter().map(|it| format!("{} ({})", may(it), setting(it))).collect();
        return format!(
            "requests of {group} are held back, at which of these limits is not known: {}",
            all.join(", ")
        );
    }
    let does = match limit.reached > 0.0 {
        true => format!(" and does {}", limit_text(&limit.limit.kind, limit.reached)),
        false => String::new(),
    };
    format!("{group} may do {} ({}){does}", may(limit), limit.limit.file)
}

fn evidence(view: &DiskView<'_>, held: &Held<'_>, alike: &[&LimitUse<'_>]) -> Vec<Evidence> {
    let waits = "sched_switch, less the requests' own time";
    let mut evidence = Vec::new();
    for one in alike {
        let (limit, counters) = (one.limit, "cgroup I/O counters");
        let unit = if limit.kind.ends_with("iops") { "1/s" } else { "bytes/s" };
        evidence.extend([
            Evidence::new("limit set", limit.per_second as f64, unit, setting(one)),
            Evidence::new("reached by the group", one.reached, unit, counters),
        ]);
    }
    evidence.extend([
        Evidence::new("time in which it waits for the disk", held.waited, "s", "sched_switch"),
        Evidence::new("of that before the disk, at least", held.before, "s", waits),
        Evidence::new("disk busy", view.queue.busy * 100.0, "%", "/proc/diskstats"),
    ]);
    evidence.extend((view.inside_seconds() > 0.0).then(|| wording::inside(view)));
    evidence
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::explain as answer;
    use crate::facts::*;
    use crate::measure::disk_limits::Limited;
    use crate::measure::disk_queue::{DiskQueue, Service};
    use crate::rules::disk::raised_limit::{GROWTH_MAX, GROWTH_MIN};
    use crate::rules::disk::scenes::*;
    use crate::rules::scenes::{LOOK_NS, fact, reads_from, thread};

    const IDLE: Rate = Rate { per_second: 40, ms: 1, in_flight: 0, busy: 5 };
    const OFTEN: &[(Ns, Ns)] = &[(0, 1_200), (1_300, 2_500), (2_600, 3_800), (3_900, 4_990)];

    /// A writer in a group that may write 8 times a second.
    fn facts(rate: Rate, wrote: u64) -> Vec<Fact> {
        let mut facts = disk(named("sda"), rate);
        facts.extend(group("/g", DEV, 8, wrote));
        facts.push(member(10, "app", "/g"));
        facts.extend(waiter(10, "app", OFTEN));
        facts
    }

    #[test]
    fn who_waits_before_an_idle_disk_waits_for_the_limit_however_much_of_it_he_gets() {
        // 57 % and 170 %: the kernel hands out whole requests.
        for wrote in [23, 68] {
            let report = answer(facts(IDLE, wrote));
            let finding = &report.findings[0];
            assert_eq!(finding.code, "disk.own_throttle", "{wrote}");
            assert_eq!(finding.title, "app is held up by its own I/O limit");
            let setting = finding.culprit.setting.as_deref();
            assert_eq!(setting, Some("/sys/fs/cgroup/blkio/g/blkio.throttle.write_iops_device"));
        }
    }

    #[test]
    fn commits_of_others_that_keep_a_quick_disk_at_work_do_not_hide_it() {
        let journal = Rate { per_second: 950, in_flight: 1, busy: 95, ..IDLE };
        assert_eq!(codes(facts(journal, 23)), ["disk.own_throttle"]);
    }

    #[test]
    fn a_commit_that_waits_for_the_groups_data_is_held_up_by_its_limit() {
        let mut facts = disk(named("sda"), IDLE);
        facts.extend(group("/g", DEV, 8, 23));
        facts.push(used(20, "batch", 23, 77));
        facts.extend(committer(10, "db", OFTEN));
        let report = answer(facts);
        let finding = &report.findings[0];
        assert_eq!(finding.code, "disk.own_throttle");
        assert_eq!(finding.title, "db is held up by the I/O limit of cgroup /g");
        assert_eq!(finding.victims[0].pid, 10);
        assert!(finding.text.contains("Commits of the journal wait for its writes"));
    }

    #[test]
    fn somebody_else_who_waits_for_the_disk_is_no_victim_of_the_limit() {
        let mut facts = facts(IDLE, 23);
        facts.extend(waiter(30, "other", &[(0, 3_000)]));
        let report = answer(facts);
        let victims: Vec<u32> = report.findings[0].victims.iter().map(|one| one.pid).collect();
        assert_eq!(victims, [10]);
    }

    #[test]
    fn a_busy_disk_beside_a_limit_that_is_not_met_is_not_throttled() {
        let slow = Rate { per_second: 50, ms: 40, in_flight: 2, busy: 100 };
        assert_eq!(codes(facts(slow, 23)), ["disk.device_cap"]);
    }

    #[test]
    fn a_limit_of_which_little_is_used_holds_nobody() {
        assert!(codes(facts(IDLE, 4)).is_empty());
    }

    #[test]
    fn a_limit_of_another_group_or_device_is_no_reason() {
        let other = DeviceNumber { major: 8, minor: 16 };
        for (path, dev) in [("/other", DEV), ("/g", other), ("/g/below", DEV)] {
            let mut facts = disk(named("sda"), IDLE);
            facts.extend(group(path, dev, 8, 23));
            facts.push(member(10, "app", "/g"));
            facts.extend(waiter(10, "app", OFTEN));
            assert!(codes(facts).is_empty(), "{path} {dev}");
        }
    }

    /// The writer waits for a loop device whose file lies on the limited disk; so many percent of the time it has a request in flight.
    fn on_a_loop(busy: u64, wrote: u64) -> Vec<Fact> {
        let dev = DeviceNumber { major: 7, minor: 0 };
        let (name, backing_file) = ("loop0".into(), Some("/img".into()));
        let upper = Disk { dev, name, below: vec![DEV], backing_file, ..Disk::default() };
        let mut facts = disk(named("sda"), IDLE);
        facts.extend(group("/g", DEV, 8, wrote));
        facts.extend([member(10, "app", "/g"), fact(Body::Disk(upper))]);
        for tenth in 0..=50 {
            let busy_ms = busy * tenth;
            let sample = DiskSample { dev, busy_ms, in_flight: 1, ..DiskSample::default() };
            facts.push(Fact { at_ns: tenth * LOOK_NS / 50, body: Body::DiskSample(sample) });
        }
        facts.extend(waits(thread(10, "app"), false, &reads_from(dev), OFTEN));
        facts
    }

    #[test]
    fn a_limit_on_the_disk_below_holds_up_who_waits_for_the_one_made_of_it() {
        let report = answer(on_a_loop(100, 23));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, &*finding.object.name), ("disk.own_throttle", "sda"));
        assert!(finding.text.ends_with("Disk loop0, which is waited for, lies on it, in /img."));
    }

    #[test]
    fn who_waits_before_the_disk_that_is_made_of_it_is_not_held_up_below() {
        assert!(codes(on_a_loop(10, 23)).is_empty());
        assert!(codes(on_a_loop(100, 4)).is_empty(), "little of the limit is used");
    }

    fn grown(service: Option<f64>, waiting: f64) -> f64 {
        let disk = Disk::default();
        let view = DiskView {
            disk: &disk,
            is_counted: true,
            queue: DiskQueue { per_second: 40.0, busy: 0.05, ..DiskQueue::default() },
            service: service.map(|mean| Service { mean, ..Service::default() }),
            workers_ready_seconds: None,
            best_bytes_per_second: 0.0,
            requests: Vec::new(),
            users: Vec::new(),
            written_back: Vec::new(),
            limits: Limited::default(),
        };
        growth(&view, waiting)
    }

    #[test]
    fn the_limit_is_raised_to_what_waits_and_to_what_the_disk_gives() {
        // 40 requests of 0.1 ms take 0.4 % of the disk, of 1 ms 4 %, whatever its clock says.
        assert!((grown(Some(1e-4), 3.0) - GROWTH_MAX).abs() < 1e-6);
        assert!((grown(Some(1e-3), 0.2) - 5.0).abs() < 1e-6);
        assert!((grown(None, 0.4) - 8.0).abs() < 1e-6);
        assert!((grown(Some(1e-4), 0.001) - GROWTH_MIN).abs() < 1e-6);
    }

    #[test]
    fn a_limit_is_raised_to_a_value_that_somebody_would_set() {
        assert_eq!(words::rounded_up(2_108_308_463.0, true), 2_100 << 20);
        assert_eq!(words::rounded_up(12_345_678.0, true), 12 << 20);
        assert_eq!(words::rounded_up(2_051.0, false), 2_100);
        assert_eq!(words::rounded_up(7.3, false), 8);
    }

    /// The group may read as often as it may write, and reads nothing.
    fn limited_both_ways(wrote: u64) -> Vec<Fact> {
        let mut facts = facts(IDLE, wrote);
        for fact in &mut facts {
            if let Body::Cgroup(group) = &mut fact.body {
                let file = "blkio.throttle.read_iops_device".into();
                let read = IoLimit { kind: "read_iops".into(), file, ..group.io_limits[0].clone() };
                group.io_limits.insert(0, read);
            }
        }
        facts
    }

    #[test]
    fn of_two_limits_the_one_that_is_met_is_named_with_its_way_out() {
        for wrote in [23, 40, 68] {
            let report = answer(limited_both_ways(wrote));
            let finding = &report.findings[0];
            assert_eq!(finding.code, "disk.own_throttle");
            assert!(finding.text.contains("write requests/s"), "{}", finding.text);
            assert!(
                finding.remedy[0].command.contains("write_iops"),
                "{}",
                finding.remedy[0].command
            );
        }
    }

    #[test]
    fn where_no_group_counts_the_disks_own_writes_are_held_against_the_limit_of_writes() {
        let mut facts = limited_both_ways(40);
        facts.retain(|fact| !matches!(fact.body, Body::CgroupSample(_)));
        let report = answer(facts);
        assert!(
            report.findings[0].text.contains("write requests/s"),
            "{}",
            report.findings[0].text
        );
    }
}
