//! process.unit_job: whoever asked the manager of units for a start, a stop or the like waits for a process of that unit.
//!
//! The manager says itself which job is being done, in which state its unit is, since when, and for which process it waits; the chain goes on to what that
//! process does. Where it waits for something with a name (a disk, a lock, a quota), that is the finding, and stands before this one in the
//! ladders. Must not: choose the job (waits/unit_job.rs), or call a start of a few seconds late on a host that nobody asked about.

use crate::facts::{Ns, TargetKind, ThreadRef};
use crate::graph::chains::ChainLink;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::process_names::present;
use crate::model::Model;
use crate::model::object::Object;
use crate::model::words;
use crate::programs::systemd::{self, AsksManager};
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::holder_doing::in_wait;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::unit_job::{self, Awaited};

static WAITS_MIN: Threshold = Threshold::new(
    0.3,
    "s",
    "what is waited for the job in the look; less is no delay that a person notices",
    "chosen: a round trip around the world, as for net.slow_peer",
);
static LONG_MIN: Threshold = Threshold::new(
    5.0,
    "s",
    "for how long the unit is in its state, or the client has waited, on a host that was not asked about it: services take some seconds to start or stop",
    "chosen: well above the starts of the services of a Debian, and below a tenth of the usual timeout of 90 s",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.unit_job",
    title: "The start or stop of a unit, or the event of a device, waits for a process",
    theory: "A manager of units does one job for each: it starts processes, and the job is done once these have done what the unit's type \
             says (said READY=1, gone to the background, taken a name, ended). Until then whoever asked waits, and so do jobs that are \
             ordered behind it; after a timeout the manager gives up. Who waits for all devices waits for the programs of their rules. \
             The kernel sees a manager that waits for events.",
    needs: &[
        "the manager's own list has the job, and it is being done; the client named its unit, or made it and it is the only one",
        "a client waits for the manager meanwhile",
        "the process that the manager waits for was there and alive, and waits for nothing with a name of its own",
    ],
    refuted_by: &[
        Refutation::new(
            "the client asked for no job: its wait is for an answer, or for other events",
            "a_client_that_asks_for_no_job_waits_for_none",
        ),
        Refutation::new(
            "on a host: the unit came into its state only a moment ago, and so did the client",
            "a_start_that_has_only_begun_is_not_late_on_a_host",
        ),
        Refutation::new(
            "the process of the unit is held up by something with a name (then that is the finding)",
            "a_process_that_was_stopped_is_that_finding",
        ),
    ],
    remedies: &[
        "see in the unit's log what its process waits for",
        "have the service say that it is ready (sd_notify), or give the unit the type that it is of",
        "end the job, if nobody needs it (systemctl cancel)",
    ],
    stories: &[],
    thresholds: &[&WAITS_MIN, &LONG_MIN, &unit_job::READ_AGAIN_MAX],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    if end.seconds < WAITS_MIN.value {
        return None;
    }
    let job = Job::of(measures.model, end)?;
    let target = measures.model.look.target.as_ref();
    let is_host = target.is_none_or(|target| target.kind == TargetKind::Host);
    if is_host && job.waited < LONG_MIN.value {
        return None;
    }
    let by = match &job.process {
        Some(process) => culprit(measures.model, process),
        None => Culprit { name: job.awaited.running.unit().into(), ..Culprit::default() },
    };
    let is_oneshot = job.awaited.running.service_type == "oneshot";
    let mut matched = Match::new(by, Proof::Read, move |loss| job.explain(measures, loss));
    // What takes the time to start is mostly work, and a start is asked for.
    matched.severity_max = match end.kind {
        EndKind::Works => Severity::Note,
        // It is meant to take as long as its work does.
        _ if is_host && is_oneshot => Severity::Note,
        _ if is_host => Severity::Warning,
        _ => Severity::Critical,
    };
    Some(matched)
}

/// The job that an end's chain leads through.
struct Job<'m> {
    awaited: Awaited<'m>,
    process: Option<ThreadRef>,
    /// Who stands at the end of the chain, and what for, if that is beyond the manager.
    root: Option<&'m ChainLink>,
    /// For how long the unit has been in its state, seconds.
    lasted: Option<f64>,
    /// For how long the first thread of the chain has waited, seconds.
    waited: f64,
}

/// Whether a link is that of a manager, or the bus before it, that waits in a job.
fn is_in_a_job(link: &ChainLink) -> bool {
    let inside = link.class == WaitClass::FutexWait && link.object == Object::Inside(link.who.pid);
    link.because == Some(unit_job::BECAUSE) || inside
}

impl<'m> Job<'m> {
    fn of(model: &'m Model, end: &'m End) -> Option<Self> {
        let at = end.links.iter().position(|link| is_in_a_job(link))?;
        let link = &end.links[at];
        let client = at.checked_sub(1).map(|before| &end.links[before].who);
        let within = (link.begin_ns, link.end_ns);
        let awaited = unit_job::awaited(model, &link.who, client, within)?;
        let process = awaited.process().map(|process| present(model, process));
        let root = end.links.last().filter(|_| at + 1 < end.links.len()).map(|link| &**link);
        let seconds = |from: Ns, to: Ns| to.saturating_sub(from) as f64 / 1e9;
        let lasted = awaited.running.since_ns.map(|since_ns| seconds(since_ns, link.end_ns));
        let first = end.links.first()?;
        let waited = seconds(first.since_ns, first.end_ns);
        Some(Self { awaited, process, root, lasted, waited })
    }

    fn title(&self, victim: &str) -> String {
        let Awaited { asked, running, .. } = self.awaited;
        let behind = match asked.id == running.id {
            true => String::new(),
            false => format!(", which waits for {}", systemd::job(running)),
        };
        let owes = systemd::owes(running);
        let why = match &self.process {
            Some(process) => format!(", whose {} {owes}", words::who(process)),
            None => format!(": {owes}"),
        };
        format!("{victim} waits for {}{behind}{why}", systemd::job(asked))
    }

    /// The state of the unit, since when, what ends it, and what whoever stands at the end of the chain does.
    fn state(&self) -> String {
        let running = self.awaited.running;
        let mut text = match running.kind == systemd::EVENT {
            true => format!("A rule for {} runs that program", running.unit()),
            false => format!("{} has been {}", running.unit(), running.state),
        };
        if let Some(lasted) = self.lasted {
            text += &format!(" for {}", words::seconds(lasted));
        }
        if let Some(ns) = running.timeout_ns {
            let setting = systemd::timeout(running);
            text += &match ns {
                Ns::MAX => format!("; no {setting} ends that"),
                ns => format!("; {setting} ends that after {}", words::seconds(ns as f64 / 1e9)),
            };
        }
        let does = self.root.map(|root| match root.class {
            WaitClass::Unseen => "was not seen",
            WaitClass::Running => "is at work",
            class => in_wait(class),
        });
        if let Some((root, does)) = self.root.zip(does) {
            text += &format!(". {} {does} meanwhile", words::who(&root.who));
        }
        text
    }

    fn explain(&self, measures: &Measures<'_>, loss: &Loss<'_>) -> Wording {
        let running = self.awaited.running;
        let state = format!("{} is {}, since", running.unit(), running.state);
        let waited = Evidence::new("time waited for the job", loss.seconds, "s", "sched_switch");
        let stands =
            self.lasted.map(|it| Evidence::new(state, it, "s", "the manager's own list of jobs"));
        // The first process of a PID namespace is its system's manager, any other a user's.
        let manager = measures.model.threads.by_id.get(&self.awaited.all.manager_pid);
        let number = manager.map(|it| it.inner_pid.unwrap_or(it.thread.pid));
        let of_user = number.is_some_and(|number| number != 1);
        let own = measures.model.threads.by_id.get(&measures.model.look.host.own_pid);
        let uids = (manager.and_then(|it| it.uid), own.and_then(|it| it.uid));
        let by = match uids {
            _ if !of_user => AsksManager::OfSystem,
            (Some(user), own) if own != Some(user) => AsksManager::OfUser(user),
            _ => AsksManager::OwnUsers,
        };
        // The commands of this host would ask its own manager about a container's unit.
        let is_here = manager.is_none_or(|it| it.inner_pid.is_none_or(|pid| pid == it.thread.pid));
        let questions = systemd::questions(running, &by).into_iter().filter(|_| is_here);
        let asks = questions.map(|(text, command)| {
            Remedy::to(text).command(command).acting(Action::look(Question::Program))
        });
        let look = self.process.as_ref().map(|process| {
            Remedy::to(format!("see what {} waits for", words::who(process))).look(process)
        });
        Wording {
            title: self.title(&loss.victim),
            text: format!(
                "{} pass so. {}.",
                words::of_window(loss.seconds, loss.wall_seconds),
                self.state(),
            ),
            evidence: [Some(waited), stands].into_iter().flatten().collect(),
            remedy: asks.chain(look).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;

    /// Unit `hang`, which has been in its state for so long as the look ends.
    fn hang(for_ns: Ns, main: Option<ThreadRef>) -> UnitJob {
        UnitJob {
            id: 57,
            names: vec!["hang.service".into()],
            kind: "start".into(),
            is_running: true,
            state: "activating/start".into(),
            service_type: "notify".into(),
            since_ns: Some(LOOK_NS - for_ns.min(LOOK_NS)),
            processes: main.into_iter().collect(),
            timeout_ns: Some(90 * SECOND),
            ..UnitJob::default()
        }
    }

    /// Client 10, which was called so, waits for manager 20, which has these jobs and waits for events; 30 is process `hang`.
    fn scene(command: &str, jobs: Vec<UnitJob>, hangs: WaitState, call: &str) -> Vec<Fact> {
        let (client, command) = (thread(10, "client"), command.to_string());
        let all = UnitJobs { manager_pid: 20, jobs };
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "systemd", WaitState::Sleep, "epoll_wait")));
        facts.extend([
            identity(Thread { thread: client, command, ..Thread::default() }),
            identity(Thread { thread: thread(30, "hang"), parent_pid: 20, ..Thread::default() }),
            blocked(30, "hang", hangs, call),
            Fact { at_ns: LOOK_NS + 1, body: Body::UnitJobs(all) },
        ]);
        facts
    }

    fn found(facts: Vec<Fact>) -> Vec<Finding> {
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "process.unit_job");
        found
    }

    fn starts(for_ns: Ns) -> Vec<Fact> {
        let jobs = vec![hang(for_ns, Some(thread(30, "hang")))];
        scene("systemctl start hang", jobs, WaitState::Sleep, "clock_nanosleep")
    }

    #[test]
    fn a_start_that_nobody_says_is_done_is_named_with_its_process_and_its_timeout() {
        for asked in [None, Some(of_process(10, "client")), Some(of_process(20, "systemd"))] {
            let found = found(starts(LOOK_NS).into_iter().chain(asked).collect());
            assert_eq!(found.len(), 1);
            let Finding { title, text, culprit, remedy, .. } = &found[0];
            let whose = "waits for the start of hang.service, whose hang 30 has not said READY=1";
            assert!(title.contains(whose), "{title}");
            assert!(text.contains("hang.service has been activating/start for 5 s"), "{text}");
            assert!(text.contains("TimeoutStartSec= ends that after 90 s"), "{text}");
            assert!(text.contains("hang 30 sleeps meanwhile"), "{text}");
            assert_eq!(culprit.pid, Some(30));
            assert!(remedy[0].command.contains("journalctl -b -n 50 --no-pager -u hang.service"));
        }
    }

    #[test]
    fn a_job_that_waits_for_another_is_said_with_that() {
        let behind = UnitJob {
            id: 58,
            names: vec!["b.service".into()],
            kind: "start".into(),
            after: vec![57],
            ..UnitJob::default()
        };
        let jobs = vec![behind, hang(LOOK_NS, Some(thread(30, "hang")))];
        let found = found(scene("systemctl start b", jobs, WaitState::Sleep, "epoll_wait"));
        let whose = "the start of b.service, which waits for the start of hang.service, whose hang 30 has not";
        assert!(found[0].title.contains(whose), "{}", found[0].title);
    }

    #[test]
    fn a_device_that_does_not_appear_has_no_process() {
        let device = UnitJob { names: vec!["dev-sdz.device".into()], ..hang(LOOK_NS, None) };
        let facts = scene("systemctl start dev-sdz.device", vec![device], WaitState::Sleep, "");
        let asked = facts.into_iter().chain([of_process(10, "client")]).collect();
        let found = found(asked);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].title.ends_with("the start of dev-sdz.device: the device has not appeared")
        );
        assert!(found[0].text.contains("JobRunningTimeoutSec= ends that after 90 s"));
        let by = &found[0].culprit;
        assert_eq!((by.pid, &*by.name), (None, "dev-sdz.device"));
    }

    #[test]
    fn a_client_that_asks_for_no_job_waits_for_none() {
        let jobs = || vec![hang(LOOK_NS, Some(thread(30, "hang")))];
        let asks = |line| found(scene(line, jobs(), WaitState::Sleep, "clock_nanosleep"));
        let made = || vec![UnitJob { names: vec!["run-u7.service".into()], ..jobs().remove(0) }];
        assert!(asks("systemctl start other").is_empty());
        assert!(asks("a-program-of-its-own start hang").is_empty());
        assert!(asks("systemd-run --wait job").is_empty(), "it is another's");
        let of_it = scene("systemd-run --wait job", made(), WaitState::Sleep, "clock_nanosleep");
        assert_eq!(found(of_it).len(), 1);
        let other = UnitJob { id: 60, names: vec!["run-u8.service".into()], ..jobs().remove(0) };
        let two = [made(), vec![other]].concat();
        let of_two = scene("systemd-run --wait job", two, WaitState::Sleep, "clock_nanosleep");
        assert!(found(of_two).is_empty(), "of two nobody knows which");
    }

    #[test]
    fn who_waits_for_all_devices_waits_for_the_program_of_a_rule() {
        let titles = |command: &str| {
            let (waiter, command) = (thread(10, "udevadm"), command.to_string());
            let event = UnitJob {
                names: vec!["/dev/sdb".into()],
                kind: "event".into(),
                state: "add".into(),
                ..hang(LOOK_NS, Some(thread(30, "mdadm")))
            };
            let all = UnitJobs { manager_pid: 20, jobs: vec![event] };
            let mut facts = host();
            facts.extend([
                of_process(10, "udevadm"),
                identity(Thread { thread: waiter, command, ..Thread::default() }),
                blocked(10, "udevadm", WaitState::Sleep, "epoll_wait"),
                blocked(30, "mdadm", WaitState::Sleep, "clock_nanosleep"),
                Fact { at_ns: LOOK_NS + 1, body: Body::UnitJobs(all) },
            ]);
            found(facts).into_iter().map(|it| it.title).collect::<Vec<_>>()
        };
        let wanted = "udevadm waits for the event (add) of /dev/sdb, whose mdadm 30 has not ended";
        assert_eq!(titles("/usr/bin/udevadm settle"), [wanted]);
        assert!(titles("/usr/bin/udevadm monitor").is_empty());
    }

    #[test]
    fn a_start_that_has_only_begun_is_not_late_on_a_host() {
        let begun = || {
            let mut facts = starts(2 * SECOND);
            for fact in &mut facts {
                if let Body::Blocked(waits) = &mut fact.body {
                    waits.since_ns = LOOK_NS - 2 * SECOND;
                }
            }
            facts
        };
        assert!(found(begun()).is_empty());
        let asked = begun().into_iter().chain([of_process(10, "client")]).collect();
        assert_eq!(found(asked).len(), 1);
    }

    #[test]
    fn a_process_that_was_stopped_is_that_finding() {
        let jobs = vec![hang(LOOK_NS, Some(thread(30, "hang")))];
        let facts = scene("systemctl start hang", jobs, WaitState::Stopped, "");
        let codes: Vec<_> = explain(facts).findings.iter().map(|it| it.code.clone()).collect();
        assert!(codes.iter().any(|code| code == "process.stopped"), "{codes:?}");
        assert!(!codes.iter().any(|code| code == "process.unit_job"), "{codes:?}");
    }

    #[test]
    fn a_host_is_warned_of_a_start_and_notes_one_that_is_work() {
        let severity = |service_type: &str, asked: Option<Fact>| {
            let job = UnitJob {
                service_type: service_type.into(),
                ..hang(LOOK_NS, Some(thread(30, "hang")))
            };
            let sleeps = (WaitState::Sleep, "clock_nanosleep");
            let facts = scene("systemctl start hang", vec![job], sleeps.0, sleeps.1);
            found(facts.into_iter().chain(asked).collect())[0].severity
        };
        assert_eq!(severity("notify", None), Severity::Warning);
        assert_eq!(severity("oneshot", None), Severity::Note);
        for service_type in ["notify", "oneshot"] {
            let asked = Some(of_process(10, "client"));
            assert_eq!(severity(service_type, asked), Severity::Critical, "{service_type}");
        }
    }
}
