//! What a reader must know beside the findings: what could not be seen, what was only counted, and what makes waits
//! without being anybody's fault.
//!
//! A caveat is a sentence with a stable word. It names no culprit, raises no alarm and has no way out; what has one of
//! these is a case's. Must not: say again what a finding says.
//!
//! Edit together: docs/json.md (the words), report's text/verdict.rs (which of them mean that a cause may be missed).

use crate::answer::report::*;
use crate::answer::{standing, unwoken};
use crate::facts::*;
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::measure::cpu_users::Competitor;
use crate::measure::disk_queue;
use crate::model::Model;
use crate::model::words;
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// Events came too fast to be reported one by one: from which length on they were, and who made most.
fn thinned(model: &Model) -> Option<String> {
    /// From here on waits are reported when they are few.
    const THRESHOLD_NS: Ns = 1_000_000;
    let end = &model.look.window_end;
    let is_process = model.look.target.as_ref().is_some_and(|it| it.kind == TargetKind::Process);
    let (whose, threshold_ns) = match (end.traced_threshold_ns, end.threshold_ns) {
        (_, ns) if ns > THRESHOLD_NS => ("waits", ns),
        (0, _) => return None,
        (ns, _) if is_process => ("its waits", ns),
        (ns, _) => ("waits of the command", ns),
    };
    if end.least_ns >= threshold_ns {
        let milliseconds = threshold_ns as f64 / 1e6;
        return Some(format!(
            "looking took more than it may: waits under {milliseconds} ms were only counted"
        ));
    }
    let taken = match end.traced_threshold_ns > 0 {
        true => ", and are taken to be for what those of the same thread were that were reported",
        false => "",
    };
    let by = end.flood_by.as_ref().map_or_else(String::new, |thread| {
        format!("; most came from {} (pid {})", thread.comm, thread.pid)
    });
    let milliseconds = threshold_ns as f64 / 1e6;
    Some(format!(
        "{whose} came too fast to be reported one by one: those under {milliseconds} ms were at times only \
         counted{taken}{by}"
    ))
}

/// So many switches that their own cost is felt: how many, and whose. Nobody need be a victim of it, so it is
/// no finding, but who reads a report of such a host must know that most waits stand in the sums alone.
fn switch_flood(model: &Model) -> Option<String> {
    /// A switch of two processes over a pipe takes 2.5 us of CPU, both calls included (reference machine, getrusage,
    /// nobody watching): from here on an eighth of each CPU goes into it.
    const PER_CPU_SECOND: f64 = 50_000.0;
    let per_second = |switches: u64| switches as f64 / model.look.seconds().max(1e-9);
    let mut by_name: BTreeMap<&str, (u64, BTreeMap<u32, u64>)> = BTreeMap::new();
    for time in model.threads.times.iter().filter(|time| time.thread.pid != 0) {
        let of = by_name.entry(time.thread.comm.as_str()).or_default();
        of.0 += time.switches;
        *of.1.entry(time.thread.pid).or_default() += time.switches;
    }
    let all = per_second(by_name.values().map(|(switches, _)| switches).sum());
    if all < PER_CPU_SECOND * f64::from(model.look.host.cpus.max(1)) {
        return None;
    }
    let (name, (switches, processes)) =
        by_name.iter().max_by_key(|(_, (switches, _))| *switches)?;
    let (pid, _) = processes.iter().max_by_key(|(_, switches)| **switches)?;
    let others = match processes.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more of that name"),
    };
    Some(format!(
        "{:.0} thousand switches a second, {:.0} % of them by {name} (pid {pid}{others}): their waits are too short \
         to be reported one by one and stand in the sums",
        all / 1e3,
        100.0 * per_second(*switches) / all,
    ))
}

/// Loop devices that somebody waits for and whose workers have no CPU.
fn starved_disks(model: &Model, accounting: &Accounting) -> impl Iterator<Item = String> {
    let waited_for = |disk: &&Disk| {
        let is_it = |object: &ObjectName| object.kind == "disk" && object.name == disk.name;
        accounting.parts.iter().any(|part| is_it(&part.object))
    };
    model.disk.all.values().filter(waited_for).filter_map(|disk| {
        let ready = disk_queue::worker_ready_seconds(model, disk)?;
        Some(format!(
            "disk {} is served by kernel workers, which could run and had no CPU for {ready:.2} s: it is slow for \
             want of a CPU",
            disk.name,
        ))
    })
}

/// All CPUs are in use and whoever is looked at waits for one, as long as would be a warning if one other took it from
/// him; but no case names such a one. How full, how long, and who uses most.
fn full_cpus(
    measures: &Measures<'_>,
    accounting: &Accounting,
    findings: &[Finding],
) -> Option<String> {
    let spent = |class: WaitClass| -> f64 {
        let of_class = accounting.parts.iter().filter(|part| part.class == class.word());
        of_class.map(|part| part.seconds).sum()
    };
    let (ran, waited) = (spent(WaitClass::Running), spent(WaitClass::RunQueue));
    let wall = measures.wall_seconds().max(1e-9);
    let impact = Impact {
        wait_seconds_per_second: waited / wall,
        share: waited / (ran + waited).max(1e-9),
        moment: None,
    };
    let cpus = measures.cpu.busy.len();
    let busy = measures.cpu.mean_busy(&[])?;
    let is_explained = findings.iter().any(|finding| finding.object.kind == "run queue");
    if is_explained || !measures.cpu.are_full() || Severity::of(&impact) == Severity::Note {
        return None;
    }
    let target = measures.model.look.target.as_ref();
    let whose = match target.map_or(TargetKind::Host, |it| it.kind) {
        TargetKind::Host => "threads",
        TargetKind::Command => "the command",
        TargetKind::Process | TargetKind::Container => "its threads",
    };
    Some(format!(
        "{} in use for {} of the time, and {whose} waited {} for one (/proc/stat, scheduler sums): {}",
        if cpus == 1 { "the only CPU was".into() } else { format!("all {cpus} CPUs were") },
        words::percent(busy),
        words::seconds(waited),
        who_uses_most(measures, target.map_or(0, |it| it.pid))?,
    ))
}

/// The three that use most of the time of the CPUs that a process may use (0: of all), each with how long it waits itself.
fn who_uses_most(measures: &Measures<'_>, asked_pid: u32) -> Option<String> {
    let cpus = measures.cpu.job(asked_pid).map_or(&[][..], |one| &one.cpus);
    let all = measures.cpu.among(cpus);
    let count = if cpus.is_empty() { measures.cpu.busy.len() } else { cpus.len() };
    let capacity = count as f64 * measures.cpu.counted_seconds;
    let share = |one: &Competitor| words::percent(one.run / capacity.max(1e-9));
    let reported = all.iter().take(3).filter_map(|one| {
        let others = match one.processes.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let who = words::who(&one.greatest()?.process);
        Some(format!("{who}{others} {} (waited {})", share(one), words::seconds(one.ready)))
    });
    let reported = reported.collect::<Vec<_>>().join(", ");
    let first = all.first()?;
    let of = match cpus {
        [] => "them".to_string(),
        some => format!("CPU {}, which it may use", words::cpus(some)),
    };
    Some(match first.run < capacity / 2.0 {
        true => {
            format!("nobody uses more than {} of {of}; who uses most: {reported}", share(first))
        }
        false => format!("who uses most of {of}: {reported}"),
    })
}

/// Whether something unseen can be missed in this answer: it is not only about processes that are neither looked at
/// nor named.
fn concerns(model: &Model, findings: &[Finding], blind: &Blind) -> bool {
    let command = command_root(model).map(|root| root.pid);
    let is_looked_at = |pid: u32| match command {
        Some(root) => {
            pid == root || model.threads.forks.iter().any(|(_, fork)| fork.child.pid == pid)
        }
        None => model.in_target(&model.threads.thread_ref(pid)),
    };
    let is_named = |finding: &Finding, pid: u32| {
        finding.culprit.pid == Some(pid)
            || finding.victims.iter().any(|victim| victim.pid == pid)
            || finding.chain.iter().any(|link| link.who.pid == Some(pid))
    };
    let meets = |pid: &u32| is_looked_at(*pid) || findings.iter().any(|it| is_named(it, *pid));
    blind.pids.is_empty() || blind.pids.iter().any(meets)
}

/// The least part of the time for which it is worth a line that its lock is not known.
const UNKNOWN_PART_MIN: f64 = 0.1;

/// A lock whose kind is not known, where a stack that was not read for want of time could have said it.
fn stacks_left_out(measures: &Measures<'_>, ends: &[AnswerEnd]) -> Option<String> {
    let left_out = measures.model.look.cost.user_stacks_left_out;
    let is_unknown = |end: &AnswerEnd| {
        matches!(end.end, EndKind::Lock | EndKind::Open)
            && end.lock_kind.is_none()
            && end.seconds >= UNKNOWN_PART_MIN * measures.wall_seconds()
    };
    if left_out == 0 || !ends.iter().any(is_unknown) {
        return None;
    }
    let which = match left_out {
        1 => "the stack of a thread that waits was".into(),
        more => format!("the stacks of {more} threads that wait were"),
    };
    Some(format!(
        "{which} not read, which would have taken more than 0.5 % of a CPU: a longer look reads more of them, and may say \
         which lock it is"
    ))
}

/// Of fewer intervals than one in so many no figure that is shown would change.
const INTERVALS_EACH: u64 = 100;

/// Whether so many intervals are enough of all that were seen to be said.
fn moves_a_figure(measures: &Measures<'_>, intervals: u64) -> bool {
    intervals.saturating_mul(INTERVALS_EACH) > measures.waits().count() as u64
}

/// What a count of lost events means for the figures.
fn lost_events(source: &str, count: u64) -> String {
    match source {
        CLOCKS_APART => format!(
            "{} ended before they began, as two CPUs' clocks date them: each counts as 0 s",
            words::count(usize::try_from(count).unwrap_or(usize::MAX), "interval", "intervals"),
        ),
        _ => format!("{count} lost ({source}): figures that need them are lower bounds"),
    }
}

/// All that there is to know beside the findings and the ends.
pub(super) fn caveats(
    measures: &Measures<'_>,
    accounting: &Accounting,
    findings: &[Finding],
    ends: &[AnswerEnd],
) -> Vec<Caveat> {
    let model = measures.model;
    let mut caveats = Vec::new();
    let mut add = |code: &str, text: String| caveats.push(Caveat { code: code.into(), text });
    for blind in model.look.blind.iter().filter(|blind| concerns(model, findings, blind)) {
        let therefore = match blind.therefore.as_str() {
            "" => String::new(),
            therefore => format!(": {therefore}"),
        };
        add(
            &format!("blind.{}", blind.what),
            format!("cannot see {} ({}){therefore}", blind.what, blind.why),
        );
    }
    for (source, count) in model.look.lost.iter().filter(|(source, count)| {
        *source != SWITCHES_UNREPORTED
            && (*source != CLOCKS_APART || moves_a_figure(measures, **count))
    }) {
        add("events_lost", lost_events(source, *count));
    }
    if let Some(text) = thinned(model) {
        add("events_thinned", text);
    }
    if let Some(text) = switch_flood(model) {
        add("switch_flood", text);
    }
    for text in starved_disks(model, accounting) {
        add("disk_starved", text);
    }
    if let Some(text) = full_cpus(measures, accounting, findings) {
        add("cpu_full", text);
    }
    if let Some(text) = standing::beside(measures, ends) {
        add("awaited", text);
    }
    if let Some(text) = unwoken::beside(measures) {
        add("awaited", text);
    }
    if let Some(text) = stacks_left_out(measures, ends) {
        add("stacks_left_out", text);
    }
    if model.look.window_end.interrupted {
        add("ended_early", "the look was ended early".into());
    }
    if accounting.residual_seconds.abs() > accounting.wall_seconds * 0.001 {
        let why = match model.look.lost.get(SWITCHES_UNREPORTED) {
            Some(count) => {
                format!(": {count} switches to a thread were not reported by the kernel")
            }
            None => String::new(),
        };
        add(
            "residual",
            format!(
                "{:.3} of {:.3} s are not accounted for{why}",
                accounting.residual_seconds, accounting.wall_seconds
            ),
        );
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::explain;
    use crate::measure::cpu_users::tests::{cpus, time};
    use crate::rules::scenes::of_process;

    fn report(switches: &[(u32, &str, u64)]) -> Report {
        let host = Host { cpus: 2, ..Host::default() };
        let mut facts = vec![
            Fact { at_ns: 0, body: Body::Host(host) },
            Fact { at_ns: 0, body: Body::WindowBegin(WindowBegin { unix_ns: 0 }) },
            Fact { at_ns: 5_000_000_000, body: Body::WindowEnd(WindowEnd::default()) },
        ];
        for (pid, comm, switches) in switches {
            let thread = ThreadRef { tid: *pid, pid: *pid, start_ns: 0, comm: (*comm).into() };
            let time = ThreadTime { thread, switches: *switches, ..ThreadTime::default() };
            facts.push(Fact { at_ns: 5_000_000_000, body: Body::ThreadTime(time) });
        }
        explain(facts)
    }

    #[test]
    fn waits_that_the_price_of_looking_left_out_are_no_flood() {
        let thinned = |threshold_ns, least_ns| {
            let end = WindowEnd { threshold_ns, least_ns, ..WindowEnd::default() };
            let facts = vec![
                Fact { at_ns: 0, body: Body::WindowBegin(WindowBegin { unix_ns: 0 }) },
                Fact { at_ns: 5_000_000_000, body: Body::WindowEnd(end) },
            ];
            let caveats = explain(facts).caveats;
            caveats.into_iter().find(|it| it.code == "events_thinned").map(|it| it.text)
        };
        assert_eq!(thinned(1_000_000, 0), None);
        let text = thinned(4_000_000, 4_000_000).expect("a caveat");
        assert_eq!(text, "looking took more than it may: waits under 4 ms were only counted");
        let text = thinned(8_000_000, 4_000_000).expect("a caveat");
        assert!(text.contains("came too fast"), "{text}");
    }

    fn flood(report: &Report) -> Option<&str> {
        report.caveats.iter().find(|it| it.code == "switch_flood").map(|it| it.text.as_str())
    }

    #[test]
    fn who_floods_with_switches_is_reported_with_his_part() {
        let reported =
            report(&[(7, "pinger", 900_000), (8, "pinger", 600_000), (9, "web", 500_000)]);
        let text = flood(&reported).expect("400,000 switches a second are a flood");
        assert!(
            text.starts_with("400 thousand switches a second, 75 % of them by pinger"),
            "{text}"
        );
        assert!(text.contains("(pid 7 and 1 more of that name)"), "{text}");
    }

    #[test]
    fn what_single_processes_hide_is_said_to_who_looks_at_them_or_is_led_to_them() {
        use crate::rules::scenes::*;
        let reported = |target: Fact, pids: Vec<u32>, server: WaitState| {
            let (what, why) = ("netns".into(), "permission denied".into());
            let hidden = Blind { what, why, pids, ..Blind::default() };
            let mut facts = host();
            facts.extend(client_and_server(blocked(20, "server", server, "")));
            facts.extend([target, fact(Body::Blind(hidden))]);
            explain(facts).caveats.iter().any(|caveat| caveat.code == "blind.netns")
        };
        let of_client = || of_process(10, "client");
        assert!(reported(of_client(), vec![], WaitState::Sleep));
        assert!(reported(of_client(), vec![1, 10], WaitState::Sleep));
        assert!(!reported(of_client(), vec![1, 20], WaitState::Sleep));
        assert!(reported(of_client(), vec![1, 20], WaitState::Stopped));
        let host = Target {
            kind: TargetKind::Host,
            name: "web".into(),
            pid: 0,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        assert!(reported(fact(Body::Target(host)), vec![1], WaitState::Sleep));
        let command = Target {
            kind: TargetKind::Command,
            name: "client".into(),
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        assert!(!reported(fact(Body::Target(command)), vec![1], WaitState::Sleep));
    }

    /// Eight programs that run and wait for so long, seconds, on two CPUs that were in use for this part of the time;
    /// and what else there is.
    fn crowd(used: f64, run: f64, ready: f64, more: Vec<Fact>) -> Report {
        let mut facts = cpus([used, used]);
        facts.extend((10..18).map(|pid| time(pid, "worker", run, ready)));
        facts.extend(more);
        explain(facts)
    }

    fn full(report: &Report) -> Option<&str> {
        report.caveats.iter().find(|it| it.code == "cpu_full").map(|it| it.text.as_str())
    }

    #[test]
    fn cpus_that_many_use_up_together_are_reported_without_a_culprit() {
        let own = crowd(0.98, 1.2, 1.5, vec![of_process(12, "worker")]);
        assert_eq!(own.findings, []);
        let text = full(&own).expect("1.5 s of waiting in 1.2 s of CPU time");
        let begin = "all 2 CPUs were in use for 98 % of the time, and its threads waited 1.50 s";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("nobody uses more than 12 % of them"), "{text}");
        assert!(text.contains("worker 10 12 % (waited 1.50 s), worker 11"), "{text}");
        let of_host = crowd(0.98, 1.2, 1.5, vec![]);
        assert_eq!((of_host.findings[0].code.as_str(), full(&of_host)), ("cpu.crowded", None));
    }

    #[test]
    fn full_cpus_are_no_caveat_where_few_wait_or_a_finding_says_why() {
        assert_eq!(full(&crowd(0.98, 1.2, 0.2, vec![])), None);
        assert_eq!(full(&crowd(0.6, 0.7, 0.4, vec![])), None);
        let hogged = crowd(1.0, 0.3, 1.5, vec![time(20, "miner", 7.6, 11.0)]);
        assert_eq!(hogged.findings[0].code, "cpu.saturated");
        assert_eq!(full(&hogged), None);
    }

    #[test]
    fn stacks_that_were_not_read_are_reported_where_they_could_have_said_more() {
        use crate::rules::scenes::*;
        let reported = |ns: Ns, left_out: u64| {
            let args = [0x1000, 128, 2, 0, 0, 0];
            let state = WaitState::Sleep;
            let place = Place { state, syscall: "futex".into(), args, ..Place::default() };
            let wake = Some(Wake { at_ns: LOOK_NS, by: thread(11, "server"), ..Wake::default() });
            let (thread, begin_ns, end_ns) = (thread(11, "server"), LOOK_NS - ns, LOOK_NS);
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            let wait = Fact { at_ns: end_ns, body: Body::Wait(wait) };
            let mut facts = host();
            let cost = Cost { user_stacks_left_out: left_out, ..Cost::default() };
            facts.extend([wait, of_process(11, "server"), fact(Body::Cost(cost))]);
            let report = explain(facts);
            let caveat = report.caveats.iter().find(|it| it.code == "stacks_left_out");
            caveat.map(|it| it.text.clone())
        };
        assert!(
            reported(LOOK_NS, 7).is_some_and(|text| text.starts_with("the stacks of 7 threads"))
        );
        assert_eq!(reported(LOOK_NS, 0), None, "all were read");
        assert_eq!(reported(LOOK_NS / 50, 7), None, "next to nothing is not known");
    }

    #[test]
    fn a_busy_host_is_no_flood() {
        assert_eq!(flood(&report(&[(7, "redis-server", 300_000), (9, "web", 100_000)])), None);
    }
}
