//! process.device_event: whoever waits until the manager of devices has nothing more to do waits for a program that a rule runs for a device.
//!
//! The environment of that program says which device it is run for, and its parent, a worker of the manager, that it is such a program. What
//! it does itself is the end of the chain, and has its own finding where that has a name. Must not: be asked where nobody waits so: a rule's
//! program that takes its time holds up the events of its device alone.

use crate::facts::DeviceEvent;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::process_names::present;
use crate::model::words;
use crate::programs::systemd;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::device_event;

static WAITS_MIN: Threshold = Threshold::new(
    0.3,
    "s",
    "what is waited for the program in the look; less is no delay that a person notices",
    "chosen: a round trip around the world, as for net.slow_peer",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.device_event",
    title: "A program that a rule runs for a device holds up whoever waits for all devices",
    theory: "The manager of devices handles each event of a device in a worker, which runs the programs of the rules that match (PROGRAM, \
             IMPORT, RUN) one after another and waits for each. Until the last event is done, whoever waits for the devices waits: at boot, \
             in an installer, in a script that has made a disk. A program that takes long is killed after event_timeout, 3 minutes.",
    needs: &[
        "what was asked about waits until all events of devices are done",
        "a worker of the manager of devices has a child, whose environment names the device",
        "that child was there before most of the wait, and waits for nothing with a name of its own",
    ],
    refuted_by: &[Refutation::new(
        "whoever waits does so for other events",
        "who_watches_devices_waits_for_no_program",
    )],
    remedies: &[
        "see what the program waits for",
        "find the rule that runs it, and have what takes long done by a unit that the rule asks for (SYSTEMD_WANTS)",
    ],
    stories: &[],
    thresholds: &[&WAITS_MIN],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let mut links = end.links.iter();
    let link = links.find(|link| link.because == Some(device_event::BECAUSE))?;
    if end.seconds < WAITS_MIN.value {
        return None;
    }
    let event = device_event::awaited(measures.model, (link.begin_ns, link.end_ns))?;
    let by = culprit(measures.model, &present(measures.model, &event.program));
    Some(Match::new(by, Proof::Read, move |loss| explain(measures, event, loss)))
}

fn explain(measures: &Measures<'_>, event: &DeviceEvent, loss: &Loss<'_>) -> Wording {
    let program = present(measures.model, &event.program);
    let (who, DeviceEvent { device, action, .. }) = (words::who(&program), event);
    let look = |text: String, command: String| {
        Remedy::to(text).command(command).acting(Action::look(Question::State))
    };
    let rules = format!(
        "grep -rn {} /etc/udev/rules.d /run/udev/rules.d /usr/lib/udev/rules.d",
        words::shell(&program.comm)
    );
    Wording {
        title: format!(
            "{} waits for {who}, which a rule runs for {device} ({action})",
            loss.victim
        ),
        text: format!(
            "{} pass so: the event of the device is done when that program has ended.",
            words::of_window(loss.seconds, loss.wall_seconds)
        ),
        evidence: vec![
            Evidence::new("time waited for the program", loss.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("{who} has {device} in its environment, and this worker as its parent"),
                f64::from(event.worker_pid),
                "pid",
                "/proc/PID/environ",
            ),
        ],
        remedy: vec![
            Remedy::to(format!("see what {who} waits for")).look(&program),
            look("see which rule runs it".into(), rules),
            look("see what is known of the device".into(), systemd::device(device)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// Process 10 was called so and waits for events, while worker 20 has program 30 run for a disk, which sleeps.
    fn titles(command: &str) -> Vec<String> {
        let (waiter, command) = (thread(10, "udevadm"), command.to_string());
        let event = DeviceEvent {
            worker_pid: 20,
            program: thread(30, "mdadm"),
            device: "/dev/sdb".into(),
            action: "add".into(),
        };
        let mut facts = host();
        facts.extend([
            of_process(10, "udevadm"),
            identity(Thread { thread: waiter, command, ..Thread::default() }),
            blocked(10, "udevadm", WaitState::Sleep, "epoll_wait"),
            blocked(20, "(udev-worker)", WaitState::Sleep, "epoll_wait"),
            blocked(30, "mdadm", WaitState::Sleep, "clock_nanosleep"),
            Fact { at_ns: LOOK_NS + 1, body: Body::DeviceEvent(event) },
        ]);
        let found = explain(facts).findings.into_iter();
        found.filter(|it| it.code == "process.device_event").map(|it| it.title).collect()
    }

    #[test]
    fn who_waits_for_all_devices_waits_for_the_program_of_a_rule() {
        let wanted = "udevadm waits for mdadm 30, which a rule runs for /dev/sdb (add)";
        assert_eq!(titles("/usr/bin/udevadm settle"), [wanted]);
    }

    #[test]
    fn who_watches_devices_waits_for_no_program() {
        assert!(titles("/usr/bin/udevadm monitor").is_empty());
    }
}
