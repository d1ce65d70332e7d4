//! Walks the ladders: each end is claimed by the first rule that matches it; what is lost, how bad that is and how sure
//! is computed here for all rules alike.
//!
//! A claim may be of some victims only: the rest of the end goes on down the ladder. Rules that look at everything at once
//! (a group's memory, a hog) claim several ends. What no rule claims stays an end without a name, which answer/ says as
//! what it is. Must not: know a rule, word a sentence, or make text of an identity.
//!
//! Rejected: rules that look at each other's findings (the order of a ladder says the same, in one place).

pub use super::rule::{Loss, step};
use super::wording::{Culprit, Impact, ImpactMoment, Severity, Wording};
use super::{Claim, Finds, LADDERS, Losses, Match, Rule, Step, continued, lasting, own_pace};
use crate::facts::{TargetKind, ThreadRef};
use crate::graph::ends::{End, EndKind};
use crate::measure::Measures;
use crate::measure::moment::{self, Moment};
use crate::measure::pools;
use crate::model::object::Object;
use crate::model::words;
use std::collections::{BTreeMap, BTreeSet};

/// An end with a name.
pub struct Named {
    /// By which rule.
    pub rule: &'static Rule,
    /// What is waited for.
    pub object: Object,
    /// Who holds it up.
    pub culprit: Culprit,
    /// 0 to 1.
    pub confidence: f64,
    /// How bad.
    pub severity: Severity,
    /// Somebody was killed or waits for ever: no seconds say how much that is.
    pub is_final: bool,
    /// How much it matters.
    pub impact: Impact,
    /// Who loses, longest first, seconds.
    pub victims: Vec<(ThreadRef, f64)>,
    /// The longest chain, from victim to root.
    pub chain: Vec<Step>,
    /// In words.
    pub wording: Wording,
    /// The ends that it claimed, by index into the graph's, with the victims whose part it is.
    pub claimed: Vec<Claim>,
}

/// Names what can be named.
pub fn name(measures: &Measures<'_>) -> Vec<Named> {
    let mut open: Vec<End> = measures.graph.ends.clone();
    let mut named = Vec::new();
    for rule in LADDERS.iter().flat_map(|ladder| ladder.iter().copied()) {
        match rule.finds {
            Finds::End(find) => {
                for at in 0..open.len() {
                    // Claimed by a rule before this one.
                    if open[at].victims.is_empty() {
                        continue;
                    }
                    let claim = find(measures, &open[at]).map(|matched| {
                        let claims = vec![Claim { end: at, victims: matched.victims.clone() }];
                        settle(measures, rule, &open, claims, matched)
                    });
                    if let Some(one) = claim {
                        take(&mut open, &one.claimed);
                        named.push(one);
                    }
                }
            }
            Finds::Look(find) => {
                let found: Vec<Named> = find(measures, &open)
                    .into_iter()
                    .map(|matched| {
                        let claims = matched.claims.clone();
                        settle(measures, rule, &open, claims, matched)
                    })
                    .collect();
                for one in &found {
                    take(&mut open, &one.claimed);
                }
                named.extend(found);
            }
        }
    }
    named
}

/// Removes what was claimed.
fn take(open: &mut [End], claims: &[Claim]) {
    for claim in claims {
        let left = match &claim.victims {
            None => open[claim.end].of_victims(|_| false),
            Some(own) => open[claim.end].of_victims(|pid| !own.contains(&pid)),
        };
        open[claim.end] = left;
    }
}

/// The claimed parts as one end.
fn claimed(open: &[End], claims: &[Claim]) -> Option<End> {
    let parts: Vec<End> = claims
        .iter()
        .map(|claim| match &claim.victims {
            None => open[claim.end].clone(),
            Some(own) => open[claim.end].of_victims(|pid| own.contains(&pid)),
        })
        .collect();
    End::merged(parts.iter())
}

fn settle(
    measures: &Measures<'_>,
    rule: &'static Rule,
    open: &[End],
    claims: Vec<Claim>,
    matched: Match<'_>,
) -> Named {
    let end = claimed(open, &claims);
    let wall = measures.wall_seconds().max(1e-9);
    let losses: Losses = match (&matched.losses, &end) {
        (Some(losses), _) => losses.clone(),
        (None, Some(end)) => end.victims.clone(),
        (None, None) => BTreeMap::new(),
    };
    // The sum of nothing is -0.0.
    let lost = 0.0 + losses.values().map(|(_, seconds)| seconds).sum::<f64>();
    let seconds = match (matched.path_seconds, &matched.losses, &end) {
        (Some(seconds), _, _) => seconds,
        (None, None, Some(end)) => end.seconds,
        _ => lost,
    };
    let mut impact = impact(measures, (seconds, lost), matched.demand_seconds, &losses);
    let (severity, moment) = weighed(measures, end.as_ref(), &matched, &impact);
    impact.moment = moment.as_ref().map(|it| in_contract(measures, it));
    let mut victims: Vec<(ThreadRef, f64)> = losses.into_values().collect();
    victims.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.pid.cmp(&b.0.pid)));
    let first = match (&end, &matched.losses) {
        (Some(end), None) => Some(end.first_victim()),
        _ => victims.first().map(|(who, _)| who),
    };
    let victim = first.map_or_else(String::new, |who| measures.subject(who));
    let name = first.map_or_else(String::new, |who| measures.process_name(who));
    let object = match (matched.object, &end) {
        (Some(object), _) => object,
        (None, Some(end)) => end.object.clone(),
        (None, None) => Object::Nothing,
    };
    let chain = match (matched.chain, &end) {
        (Some(chain), _) => chain,
        (None, Some(end)) => end.links.iter().filter_map(|link| step(link)).collect(),
        (None, None) => Vec::new(),
    };
    let loss =
        Loss { end: end.as_ref(), impact, seconds, wall_seconds: wall, victims, victim, name };
    let mut wording = (matched.explain)(&loss);
    let ways = continued::while_stopped(measures, std::mem::take(&mut wording.remedy));
    wording.remedy = lasting::lasting(measures.model, ways);
    if let Some(moment) = &moment {
        wording.text.push_str(&in_words(measures, moment));
    }
    wording.text.push_str(&pools::led_by_answers(measures, led_by_answers(&chain)));
    Named {
        rule,
        object,
        culprit: matched.culprit,
        confidence: matched.proof.confidence(),
        // What nobody loses anything to yet is not final, however near it is.
        is_final: matched.severity_min == Severity::Critical && !loss.victims.is_empty(),
        severity,
        impact,
        victims: loss.victims,
        chain,
        wording,
        claimed: claims,
    }
}

/// The processes of a chain, each with whether the step before waits for its answer, or for it to take what is sent.
fn led_by_answers(chain: &[Step]) -> impl Iterator<Item = (u32, bool)> + '_ {
    let is_asked = |step: &Step| {
        matches!(step.on, Object::Inet(_) | Object::Unix(_) | Object::Pipe(_) | Object::Inside(_))
    };
    let before = std::iter::once(false).chain(chain.iter().map(is_asked));
    chain.iter().zip(before).map(|(step, is_asked)| (step.who.pid, is_asked))
}

/// How bad a loss is, and the moment that makes it so, if its share of the window does not.
fn weighed(
    measures: &Measures<'_>,
    end: Option<&End>,
    matched: &Match<'_>,
    impact: &Impact,
) -> (Severity, Option<Moment>) {
    let severity_max = match end {
        Some(end) if is_brief(measures, end) || is_a_check(measures, end) => Severity::Note,
        // What was refused is no matter of time.
        Some(_) if matched.severity_min == Severity::Note && is_unnoticed(measures, impact) => {
            Severity::Note
        }
        _ => matched.severity_max,
    };
    let of_window =
        Severity::of(impact).clamp(matched.severity_min.min(severity_max), severity_max);
    // A moment is worth a warning at most: whom it is to alarm is decided by how often it comes.
    let of_moment = Severity::Warning.min(severity_max);
    let moment = end.filter(|_| of_moment > of_window).and_then(|end| moment::of(measures, end));
    let severity = if moment.is_some() { of_moment } else { of_window };
    (severity, moment)
}

/// A command that loses less is as quick as one that loses nothing, whatever part of its milliseconds that is.
const UNNOTICED_SECONDS: f64 = 0.02;

/// Whether a command lost less than whoever waits for it would see.
fn is_unnoticed(measures: &Measures<'_>, impact: &Impact) -> bool {
    let seconds = impact.wait_seconds_per_second * measures.wall_seconds();
    measures.is_command() && seconds < UNNOTICED_SECONDS
}

/// Whether an end is a connection that a server tries to make, and that nobody waits for.
fn is_a_check(measures: &Measures<'_>, end: &End) -> bool {
    let who = end.links.get(end.named).map(|link| &link.who);
    who.is_some_and(|who| own_pace::is_at_own_pace(measures, end, who))
}

/// A wait below this is seen of a process that was asked about alone.
const BRIEF_SECONDS: f64 = 0.001;
/// WORDING: and is of no weight where it costs each thread that has it less than this part of its time, as for every warning.
const BRIEF_SHARE: f64 = 1.0 / 6.0;

/// Whether an end of a process that was asked about is made of waits each too short for any other look, which cost each
/// thread that has them little: what sharing a lock or a pipe costs at its best.
fn is_brief(measures: &Measures<'_>, end: &End) -> bool {
    let target = measures.model.look.target.as_ref();
    let is_process = target.is_some_and(|target| target.kind == TargetKind::Process);
    if !is_process || end.seconds > BRIEF_SECONDS * end.count as f64 {
        return false;
    }
    let its = measures
        .waits()
        .filter(|wait| wait.class == end.class && end.victims.contains_key(&wait.thread.pid));
    let threads: BTreeSet<u32> = its.map(|wait| wait.thread.tid).collect();
    end.seconds < BRIEF_SHARE * measures.wall_seconds() * threads.len().max(1) as f64
}

/// Of a command: the share of its path. Else of the victims' time that was not idle; of who was asked about, what it waits for others is none.
fn impact(
    measures: &Measures<'_>,
    (seconds, lost): (f64, f64),
    known_demand: Option<f64>,
    losses: &Losses,
) -> Impact {
    let wall = measures.wall_seconds().max(1e-9);
    let of_one = |pid: u32, lost: f64| {
        (measures.demand_seconds(pid) + asked_seconds(measures, pid)).max(lost)
    };
    let of_all = || losses.iter().map(|(pid, (_, lost))| of_one(*pid, *lost)).sum();
    let demand: f64 = known_demand.unwrap_or_else(of_all);
    let share = if measures.is_command() {
        seconds / wall
    } else if demand > 0.0 {
        lost / demand
    } else {
        0.0
    };
    let share = share.clamp(0.0, 1.0);
    Impact { wait_seconds_per_second: seconds / wall, share, moment: None }
}

/// What a process that was asked about waits for other processes, seconds; of a host that is nobody's loss by itself.
fn asked_seconds(measures: &Measures<'_>, pid: u32) -> f64 {
    let target = measures.model.look.target.as_ref();
    // Asked of each who loses, and there may be thousands, with as many ends.
    if target.is_none_or(|it| it.kind != TargetKind::Process) {
        return 0.0;
    }
    let is_for_another = |end: &&End| {
        use EndKind::{Lock, Open, Person, Remote, Sleep};
        let asks = end.links.first().is_some_and(|link| link.class.is_for_somebody());
        let leads_away = end.links.last().is_some_and(|root| root.who.pid != pid);
        asks && leads_away && matches!(end.kind, Lock | Open | Person | Remote | Sleep)
    };
    let ends = measures.graph.ends.iter().filter(is_for_another);
    ends.map(|end| end.counted_seconds(pid)).sum()
}

fn in_contract(measures: &Measures<'_>, moment: &Moment) -> ImpactMoment {
    let look = &measures.model.look;
    ImpactMoment {
        at_unix_ns: (look.begin_unix_ns + moment.begin_ns).saturating_sub(look.begin_ns),
        pid: moment.who.pid,
        seconds: moment.seconds,
        share: moment.share,
    }
}

fn in_words(measures: &Measures<'_>, moment: &Moment) -> String {
    let look_ns = measures.model.look.begin_ns;
    let apart = words::seconds(moment.begin_ns.abs_diff(look_ns) as f64 / 1e9);
    let process = ThreadRef { tid: moment.who.pid, ..moment.who.clone() };
    format!(
        " {} lost {} within a second, {apart} {} the window began.",
        words::who(&process),
        words::seconds(moment.seconds),
        if moment.begin_ns < look_ns { "before" } else { "after" },
    )
}

/// Processes of a set of claims, for rules that claim part of an end.
pub fn pids<'a>(of: impl IntoIterator<Item = &'a u32>) -> BTreeSet<u32> {
    of.into_iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// How bad it is that three threads of a process wait so often, 400 us each, for a mutex that a fourth has.
    fn severity(waits: u64) -> Option<Severity> {
        let mut facts = host();
        facts.push(of_process(10, "app"));
        let of = |tid| ThreadRef { tid, ..thread(10, "app") };
        for (tid, n) in (11..14).flat_map(|tid| (0..waits).map(move |n| (tid, n))) {
            let begin_ns = 1_000_000 + n * LOOK_NS / (waits + 1);
            let place = Place {
                state: WaitState::Sleep,
                syscall: "futex".into(),
                args: [0x1000, 128, 2, 0, 0, 0],
                ..Place::default()
            };
            let (thread, end_ns) = (of(tid), begin_ns + 400_000);
            let (by, context) = (of(14), WakeContext::Task);
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            facts.push(fact(Body::Wait(wait)));
        }
        for tid in 11..15 {
            facts.push(fact(Body::ThreadTime(ThreadTime {
                thread: of(tid),
                until_ns: LOOK_NS,
                run_ns: LOOK_NS / 50,
                sleep_ns: LOOK_NS / 50 * 49,
                ..ThreadTime::default()
            })));
        }
        let found = explain(facts).findings;
        found.iter().find(|it| it.code == "lock.futex").map(|it| it.severity)
    }

    #[test]
    fn brief_waits_of_a_process_count_by_what_they_cost_each_thread() {
        assert_eq!(severity(800), Some(Severity::Note), "6 % of each thread's time");
        assert!(severity(8_000) > Some(Severity::Note), "64 %");
    }

    /// How bad it is for process 10 that one of its threads waits for half a second for a mutex, alone or while its main thread waits for a child
    /// that sleeps.
    fn beside_a_child(waits_for_it: bool) -> Option<Severity> {
        let (half_ns, sleep) = (500_000_000, thread(30, "sleep"));
        let of = |tid| ThreadRef { tid, ..thread(10, "app") };
        let place = |syscall: &str, args| Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            args,
            ..Place::default()
        };
        let (by, context) = (of(14), WakeContext::Task);
        let wake = Some(Wake { at_ns: half_ns, context, by, ..Wake::default() });
        let (thread, place_of_lock) = (of(11), place("futex", [0x1000, 128, 2, 0, 0, 0]));
        let lock = Wait { thread, end_ns: half_ns, place: place_of_lock, wake, ..Wait::default() };
        let mut facts = host();
        facts.extend([of_process(10, "app"), Fact { at_ns: half_ns, body: Body::Wait(lock) }]);
        if waits_for_it {
            let child = Thread { thread: sleep, parent_pid: 10, ..Thread::default() };
            facts.extend([
                identity(child),
                blocked(30, "sleep", WaitState::Sleep, "clock_nanosleep"),
                at_place(10, "app", place("wait4", [30, 0, 0, 0, 0, 0])),
            ]);
        }
        let found = explain(facts).findings;
        found.iter().find(|it| it.code == "lock.futex").map(|it| it.severity)
    }

    #[test]
    fn a_small_part_of_what_is_waited_for_is_a_note() {
        assert_eq!(beside_a_child(false), Some(Severity::Warning));
        assert_eq!(beside_a_child(true), Some(Severity::Note));
    }
}
