//! fs.fuse_daemon: a file system's server process is the one that does not answer.
//!
//! Every operation on a FUSE mount is a message to a process. If that process is slow, stuck or stopped, its
//! clients sleep in the kernel; the disk has nothing to do with it. If the daemon itself waits for something that
//! has a name, that is the finding and the daemon a link of the chain.
//!
//! A message and its answer are two switches and two copies: a daemon that answers as quickly as that allows is not slow,
//! and is a note until those who wait for it lose a good part of their time. Rejected: the share alone, which many quick
//! answers reach on a slow host.

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::{lifetimes, words};
use crate::rules::action::Question;
use crate::rules::ask;
use crate::rules::engine::Loss;
use crate::rules::holder_doing;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

static ROUND_TRIP: Threshold = Threshold::new(
    1e-3,
    "s",
    "an answer that takes less is no slow one",
    "reference machine: a round trip takes some tenths of a millisecond where its switches wait for a CPU",
);
static QUICK_RATE: Threshold = Threshold::new(
    0.25,
    "1",
    "seconds a second that are lost to quick answers, up to which they are a note",
    "the rate from which on a loss may be critical",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "fs.fuse_daemon",
    title: "A FUSE file system's daemon does not answer",
    theory: "Operations on a FUSE mount are requests to a user process. Whoever opens, reads or locks a file there \
             waits for its answer; a slow or stuck daemon looks like a slow disk.",
    needs: &[
        "threads wait for an answer of a FUSE connection",
        "the process that has this connection's device open is known",
        "answers within a millisecond are a note, unless a quarter of the time goes there",
    ],
    refuted_by: &[
        Refutation::new(
            "the daemon is itself held up by something with a name",
            "a_daemon_that_waits_for_a_disk_is_a_link_of_the_chain",
        ),
        Refutation::new(
            "the file system is served by the kernel",
            "a_file_of_another_file_system_has_no_daemon",
        ),
    ],
    remedies: &[
        "look at what the daemon does; restart it",
        "abort the connection (/sys/fs/fuse/connections/N/abort)",
    ],
    stories: &["S4.3"],
    thresholds: &[&ROUND_TRIP, &QUICK_RATE],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    if end.class != WaitClass::FuseDaemon || end.victims.is_empty() {
        return None;
    }
    let daemon = end.holder();
    let beyond = daemon.and_then(|daemon| beyond(measures, end, daemon));
    let by = beyond.or(daemon).map_or_else(Culprit::default, |who| culprit(measures.model, who));
    // The stack says that a daemon is waited for; the open device says which.
    let proof = if daemon.is_some() { Proof::TwoWitnesses } else { Proof::OneWitness };
    let mut matched =
        Match::new(by, proof, move |loss| explain(measures, end, (daemon, beyond), loss));
    if answers_quickly(measures, end) {
        matched.severity_max = Severity::Note;
    }
    Some(matched)
}

/// Who sleeps or works at the end of the chain, where the daemon waits for another process: what is seen there is that one's.
fn beyond<'e>(measures: &Measures<'_>, end: &'e End, daemon: &ThreadRef) -> Option<&'e ThreadRef> {
    let root = &end.links.last()?.who;
    let acts = matches!(
        holder_doing::mostly(measures, end)?,
        WaitClass::Timer | WaitClass::Running | WaitClass::Unseen
    );
    let is_another = root.pid != daemon.pid && end.links.len() > end.named + 2;
    let is_it = acts && is_another && lifetimes::is_there_at_end(measures.model, root);
    is_it.then_some(root)
}

fn answers_quickly(measures: &Measures<'_>, end: &End) -> bool {
    // Where events came too fast, the quickest answers were only counted, and the mean is of the others.
    let counted_seconds = measures.model.look.window_end.threshold_ns as f64 / 1e9;
    end.seconds < ROUND_TRIP.value.max(counted_seconds) * end.count as f64
        && end.seconds < QUICK_RATE.value * measures.wall_seconds()
}

fn explain(
    measures: &Measures<'_>,
    end: &End,
    (daemon, beyond): (Option<&ThreadRef>, Option<&ThreadRef>),
    loss: &Loss<'_>,
) -> Wording {
    let who = |it: &ThreadRef| measures.model.threads.who(it);
    let by = daemon.map_or_else(|| "its daemon".to_string(), who);
    let mount = measures.model.name_of(&end.object).or("a FUSE file system");
    let doing = match holder_doing::mostly(measures, end) {
        Some(WaitClass::Stopped) => "is stopped",
        Some(WaitClass::FrozenCgroup) => "is frozen",
        Some(WaitClass::Timer) => "sleeps",
        Some(WaitClass::Running | WaitClass::Unseen) => "is at work",
        Some(_) if daemon.is_some() => "waits itself",
        _ => "was not seen itself",
    };
    let is_known = f64::from(u8::from(daemon.is_some()));
    let process = beyond.map(|it| measures.model.threads.thread_ref(it.pid));
    let (title, doing) = match process.as_ref().map(who) {
        Some(root) => (
            format!("{} waits through {by}, the daemon of {mount}, for {root}", loss.victim),
            format!("The daemon waits for {root}, which {doing}"),
        ),
        None => (
            format!("{} waits for {by}, the daemon of {mount}", loss.victim),
            format!("The daemon {doing}"),
        ),
    };
    Wording {
        title,
        text: format!(
            "{} pass in {} requests to the daemon of {mount}; the longest took {}. {doing}.",
            words::of_window(loss.seconds, loss.wall_seconds),
            end.count,
            words::seconds(end.longest_seconds),
        ),
        evidence: vec![
            Evidence::new("wait for the daemon", loss.seconds, "s", "kernel stacks (FUSE request)"),
            Evidence::new("requests waited for", end.count as f64, "1", "sched_switch"),
            Evidence::new("daemon known by its open device", is_known, "1", "descriptor iterator"),
        ],
        remedy: vec![match &process {
            Some(process) => {
                let asks = ask::question(measures.model, process.pid);
                let see = Remedy::to(format!("see what {} does", words::who(process)));
                see.ask(Question::Program, process, asks)
            }
            None => remedy(end, daemon),
        }],
    }
}

fn remedy(end: &End, daemon: Option<&ThreadRef>) -> Remedy {
    let is_stopped = end.holder_mostly() == Some(WaitClass::Stopped);
    match daemon {
        Some(daemon) if is_stopped => Remedy::to("continue the daemon").go_on(daemon),
        Some(daemon) => Remedy::to(format!("see what {} does", words::who(daemon))).ask(
            Question::Stacks,
            daemon,
            format!("cat /proc/{}/task/*/stack", daemon.pid),
        ),
        None => Remedy { text: "see what its daemon does".into(), ..Remedy::default() },
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// A client that waits for the daemon so often, so long each time.
    fn severity(count: u64, length_us: u64) -> Severity {
        severity_of_reported(count, length_us, 0)
    }

    /// The same where shorter waits than this were at times not reported.
    fn severity_of_reported(count: u64, length_us: u64, threshold_ns: u64) -> Severity {
        let end = WindowEnd { threshold_ns, ..WindowEnd::default() };
        let end = vec![Fact { at_ns: LOOK_NS, body: Body::WindowEnd(end) }];
        found([waits(count, LOOK_NS, length_us), end].concat()).expect("the daemon")
    }

    /// What its daemon is, if it is said.
    fn found(facts: Vec<Fact>) -> Option<Severity> {
        let report = explain([host(), facts].concat());
        let finding = report.findings.iter().find(|f| f.code == "fs.fuse_daemon")?;
        assert_eq!(finding.culprit.pid, Some(20));
        Some(finding.severity)
    }

    /// So many waits of a client within a time.
    fn waits(count: u64, within_ns: Ns, length_us: u64) -> Vec<Fact> {
        let frames = ["request_wait_answer", "__fuse_simple_request", "fuse_file_read_iter"];
        let frames = frames.iter().map(|f| (*f).to_string()).collect();
        let dev = DeviceNumber { major: 0, minor: 51 };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "pread64".into(),
            stack: 1,
            object: Some(ObjectRef::File(FileRef { dev, ..FileRef::default() })),
            ..Place::default()
        };
        let mut facts = vec![fact(Body::Stack(Stack { id: 1, frames }))];
        facts.push(endpoint(20, "archived", ObjectRef::FuseServer { dev }));
        facts.extend((0..count).map(|at| {
            let begin_ns = at * (within_ns / count);
            let end_ns = begin_ns + length_us * 1000;
            let (thread, place) = (thread(10, "reader"), place.clone());
            let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        }));
        facts
    }

    #[test]
    fn a_command_of_milliseconds_loses_nothing_that_counts() {
        let of_command = |end_ms: u64| {
            let end_ns = end_ms * 1_000_000;
            let mut target = of_process(10, "reader");
            if let Body::Target(target) = &mut target.body {
                target.kind = TargetKind::Command;
            }
            let end = CommandEnd { pid: 10, exit_status: 0, signal: 0 };
            let exit = Exit { thread: thread(10, "reader"), last: true, code: Some(0) };
            let at = |body| Fact { at_ns: end_ns, body };
            let ended = vec![target, at(Body::Exit(exit)), at(Body::CommandEnd(end))];
            found([ended, waits(1, end_ns, end_ms * 800)].concat())
        };
        assert_eq!(of_command(10), Some(Severity::Note), "8 ms of 10");
        assert!(of_command(100) >= Some(Severity::Warning), "80 ms of 100");
    }

    #[test]
    fn a_daemon_that_sleeps_over_a_request_is_not_idle() {
        let sleeps = blocked(20, "archived", WaitState::Sleep, "clock_nanosleep");
        let asked = |more: Vec<Fact>| {
            let own = vec![of_process(20, "archived"), sleeps.clone()];
            let ends = explain([host(), own, more].concat()).answer.ends;
            ends.iter().any(|end| end.who.as_ref().and_then(|by| by.pid) == Some(20))
        };
        assert!(asked(waits(1, LOOK_NS, LOOK_NS / 1_000)));
        assert!(!asked(Vec::new()), "nobody asks it");
    }

    #[test]
    fn a_daemon_that_answers_late_is_reported() {
        assert!(severity(7, 40_000) >= Severity::Warning);
        assert!(severity(100, 3_000) >= Severity::Warning);
    }

    #[test]
    fn one_that_answers_at_once_is_a_note_unless_much_time_goes_there() {
        assert_eq!(severity(586, 430), Severity::Note);
        assert!(severity(5_000, 430) >= Severity::Warning);
    }

    #[test]
    fn quick_answers_that_were_only_counted_are_thought_of() {
        assert!(severity_of_reported(493, 1_036, 0) >= Severity::Warning);
        assert_eq!(severity_of_reported(493, 1_036, 2_000_000), Severity::Note);
        assert!(severity_of_reported(100, 3_000, 2_000_000) >= Severity::Warning);
    }

    /// A client that waits in a read of a file, and a daemon that is in some place.
    fn codes(frames: &[&str], daemon: Place) -> Vec<String> {
        let frames = frames.iter().map(|frame| (*frame).to_string()).collect();
        let dev = DeviceNumber { major: 0, minor: 51 };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "pread64".into(),
            stack: 1,
            object: Some(ObjectRef::File(FileRef { dev, ..FileRef::default() })),
            ..Place::default()
        };
        let mut facts = host();
        facts.push(fact(Body::Stack(Stack { id: 1, frames })));
        facts.push(endpoint(20, "archived", ObjectRef::FuseServer { dev }));
        facts.push(at_place(10, "reader", place));
        facts.push(at_place(20, "archived", daemon));
        explain(facts).findings.into_iter().map(|finding| finding.code).collect()
    }

    const REQUEST: &[&str] =
        &["request_wait_answer", "__fuse_simple_request", "fuse_file_read_iter"];

    #[test]
    fn a_daemon_that_waits_for_a_disk_is_a_link_of_the_chain() {
        let sleeps = Place {
            state: WaitState::Sleep,
            syscall: "clock_nanosleep".into(),
            ..Place::default()
        };
        assert_eq!(codes(REQUEST, sleeps), ["fs.fuse_daemon"]);
        let reads = reads_from(DeviceNumber { major: 8, minor: 0 });
        assert!(codes(REQUEST, reads).is_empty(), "the disk's, which no rule names here");
    }

    #[test]
    fn of_a_daemon_that_nobody_knows_nothing_is_said() {
        let frames = REQUEST.iter().map(|frame| (*frame).to_string()).collect();
        let dev = DeviceNumber { major: 0, minor: 51 };
        let object = Some(ObjectRef::File(FileRef { dev, ..FileRef::default() }));
        let (state, syscall) = (WaitState::Sleep, "pread64".into());
        let place = Place { state, syscall, stack: 1, object, ..Place::default() };
        let mut facts = host();
        facts.push(fact(Body::Stack(Stack { id: 1, frames })));
        facts.push(at_place(10, "reader", place));
        let found = explain(facts).findings.remove(0);
        assert!(found.text.ends_with("The daemon was not seen itself."), "{}", found.text);
        assert_eq!((&*found.code, found.culprit.pid), ("fs.fuse_daemon", None));
    }

    #[test]
    fn who_sleeps_while_the_daemon_waits_for_it_is_named() {
        let frames = REQUEST.iter().map(|frame| (*frame).to_string()).collect();
        let dev = DeviceNumber { major: 0, minor: 51 };
        let file = ObjectRef::File(FileRef { dev, ..FileRef::default() });
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: Some("/run/s".into()) };
        let waits = |syscall: &str, stack, object| Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            stack,
            object: Some(object),
            ..Place::default()
        };
        let mut facts = host();
        facts.extend([
            fact(Body::Stack(Stack { id: 1, frames })),
            endpoint(20, "archived", ObjectRef::FuseServer { dev }),
            descriptor(20, 4, "archived", near.clone()),
            descriptor(30, 3, "store", far),
            at_place(10, "reader", waits("pread64", 1, file)),
            at_place(20, "archived", waits("read", 0, near)),
            blocked(30, "store", WaitState::Sleep, "clock_nanosleep"),
        ]);
        let findings = explain(facts).findings;
        let found = findings.iter().find(|it| it.code == "fs.fuse_daemon").expect("the end");
        assert_eq!(found.culprit.pid, Some(30));
        assert!(found.title.contains("through archived 20, the daemon of"), "{}", found.title);
        assert!(found.text.contains("waits for store 30, which sleeps"), "{}", found.text);
        assert!(!found.remedy[0].command.contains("20"), "{:?}", found.remedy);
    }

    #[test]
    fn a_file_of_another_file_system_has_no_daemon() {
        let idle = Place { state: WaitState::Sleep, syscall: "read".into(), ..Place::default() };
        assert!(codes(&["folio_wait_bit", "filemap_read", "ext4_file_read_iter"], idle).is_empty());
    }
}
