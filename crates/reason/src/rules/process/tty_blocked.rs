//! process.tty_blocked: a writer waits because its terminal takes no more.
//!
//! Either somebody typed ctrl-S, or the program that holds the master side (screen, sshd, a terminal window) does
//! not read. The kernel knows of ctrl-S (`flow.stopped`); without that it is the master's fault, unless it reads at the pace
//! of a screen or is at work. Rejected: naming the shell that waits for the one who prints.

use crate::facts::{ObjectRef, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::terminal::Terminal;
use crate::model::words;
use crate::rules::action::Action;
use crate::rules::engine::Loss;
use crate::rules::file_of;
use crate::rules::holder_doing::{self, AT_WORK, Meanwhile, meanwhile};
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

static PACE: Threshold = Threshold::new(
    0.1,
    "s",
    "longest wait for room; programs that show a terminal take its output some ten to sixty times a second, and a wait \
     below that is their pace",
    "chosen: the slowest refresh of the terminals that were tried",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.tty_blocked",
    title: "A terminal takes no more output",
    theory: "A terminal has a small buffer. When ctrl-S was typed, or the program behind it (a terminal window, screen, \
             sshd) stops reading, whoever prints to it sleeps in write(2) with no sign on the screen but silence.",
    needs: &[
        "a thread waits in write on a terminal (n_tty_write)",
        "output is stopped by ctrl-S, or the process that holds the master side does not read",
    ],
    refuted_by: &[
        Refutation::new(
            "the master's holder is at work all the time, and reads",
            "a_screen_that_works_is_no_fault",
        ),
        Refutation::new(
            "no wait is longer than a tenth of a second: the output is taken at the pace of a screen",
            "a_screen_that_takes_the_output_at_its_pace_is_no_fault",
        ),
    ],
    remedies: &[
        "type ctrl-Q",
        "let the terminal program read again",
        "redirect the output to a file",
    ],
    stories: &["S0.11"],
    thresholds: &[&PACE, &AT_WORK],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let of_end = |(at, end): (usize, &'m End)| {
        let stopped = end.class == WaitClass::TtyStopped || output_stopped(measures, end);
        let doing = meanwhile(measures, end);
        let is_pace = wait_words::longest(measures, end).seconds < PACE.value;
        if !stopped && (doing.at_work || is_pace) {
            return None;
        }
        let master = shows(measures, end);
        let proof = match (stopped, &master) {
            (true, _) => Proof::Read,
            (false, Some(_)) => Proof::TwoWitnesses,
            (false, None) => Proof::OneWitness,
        };
        let by = master.map_or_else(Culprit::default, |master| culprit(measures.model, &master));
        let explain = move |loss: &Loss<'_>| explain(measures, end, &doing, stopped, loss);
        Some(holder_doing::claim(Match::new(by, proof, explain), ends, at))
    };
    let classes = [WaitClass::TtyWrite, WaitClass::TtyStopped].into_iter();
    classes.flat_map(|class| holder_doing::open(ends, class)).filter_map(of_end).collect()
}

fn explain(
    measures: &Measures<'_>,
    end: &End,
    doing: &Meanwhile,
    stopped: bool,
    loss: &Loss<'_>,
) -> Wording {
    let victim = wait_words::waiter(measures, end);
    let tty = &measures.model.name_of(&end.object).name;
    let master = shows(measures, end);
    let by = master.as_ref().map_or_else(
        || "whoever holds its other side".to_string(),
        |it| measures.model.threads.who(it),
    );
    let longest = wait_words::longest(measures, end);
    let why = match stopped {
        true => format!("Somebody typed ctrl-S there; {by} shows the terminal."),
        false if master.is_none() => {
            "Either somebody typed ctrl-S there, or whoever shows the terminal does not read it: who that is was not seen."
                .into()
        }
        false => format!("{by}, which shows the terminal, {} instead of reading it.", doing.does),
    };
    let waits = end.count as usize;
    let mut evidence =
        wait_words::wait_evidence(loss.seconds, waits, &longest, "room in the terminal");
    evidence.extend([
        Evidence::new(
            "output stopped by ctrl-S",
            f64::from(u8::from(stopped)),
            "1",
            "tty_struct::flow.stopped",
        ),
        Evidence::new(
            format!("share of that time in which {by} {}", doing.does),
            doing.share,
            "1",
            "sched_switch and the task iterator",
        ),
    ]);
    Wording {
        title: match stopped {
            true => format!("{victim} waits to print to {tty}: its output is stopped by ctrl-S"),
            false if master.is_none() => format!(
                "{victim} waits to print to {tty}, which was stopped with ctrl-S or is not read"
            ),
            false => format!("{victim} waits to print to {tty}, which {by} does not read"),
        },
        text: format!(
            "{} pass in waits for room in the terminal; the longest {}. {why}",
            words::of_window(loss.seconds, loss.wall_seconds),
            wait_words::lasted(&longest),
        ),
        evidence,
        remedy: remedy(measures, end, stopped),
    }
}

/// Who holds the other side of the terminal: the holder, or of a stopped one, which nobody holds up, whoever has it open.
fn shows(measures: &Measures<'_>, end: &End) -> Option<ThreadRef> {
    let Object::Tty(dev) = end.object else { return None };
    let master = || {
        let used = Terminal::of(measures.model.called.terminal_name(dev)?);
        let is_master = |object: &ObjectRef| matches!(object, ObjectRef::Tty { name, .. } if Terminal::of(name).shows(used));
        let end = measures.model.held.endpoints.iter().find(|end| is_master(&end.object))?;
        Some(wait_words::main_thread(measures, end.process.pid))
    };
    wait_words::holder(measures, end).or_else(master)
}

/// Some descriptor on the terminal says that its output is stopped.
fn output_stopped(measures: &Measures<'_>, end: &End) -> bool {
    let Object::Tty(dev) = end.object else { return false };
    let Some(tty) = measures.model.called.terminal_name(dev) else { return false };
    let is_side = |name: &str| name == tty || Terminal::of(name).shows(Terminal::of(tty));
    measures.model.held.endpoints.iter().any(|end| {
        end.output_stopped && matches!(&end.object, ObjectRef::Tty { name, .. } if is_side(name))
    })
}

fn remedy(measures: &Measures<'_>, end: &End, stopped: bool) -> Vec<Remedy> {
    if stopped {
        return vec![resume(measures, end)];
    }
    match (wait_words::holder(measures, end), end.holder_mostly()) {
        (Some(master), Some(WaitClass::Stopped)) => {
            vec![Remedy::to("continue the program that shows the terminal").go_on(&master)]
        }
        (Some(master), _) => vec![
            Remedy::to(format!("see why {} does not read", measures.model.threads.who(&master)))
                .kernel_stack(&master),
            Remedy { text: "send the output to a file instead".into(), ..Remedy::default() },
        ],
        (None, _) => vec![
            Remedy { text: "type ctrl-Q in that terminal".into(), ..Remedy::default() },
            Remedy { text: "send the output to a file instead".into(), ..Remedy::default() },
        ],
    }
}

/// Taking ctrl-S its meaning lets the output go on. Without waiting for that output first (`-drain`): it does not
/// come, and the kernel would spin beside the blocked writer until that ends.
fn resume(measures: &Measures<'_>, end: &End) -> Remedy {
    let text = "type ctrl-Q in that terminal, or take ctrl-S its meaning there";
    let writer = &end.links[end.named].who;
    let name = &measures.model.name_of(&end.object).name;
    if !name.starts_with("/dev/pts/") {
        return Remedy { text: "type ctrl-Q in that terminal".into(), ..Remedy::default() };
    }
    let Some(seen) = file_of(measures.model, writer, name) else {
        return Remedy { text: "type ctrl-Q in that terminal".into(), ..Remedy::default() };
    };
    let file = words::shell(&seen.path);
    let action = Action::write(&seen.path, "-ixon", "ixon").through(seen.through.as_ref());
    Remedy::to(text).set(
        action,
        format!("stty -F {file} -drain -ixon"),
        format!("stty -F {file} -drain ixon"),
    )
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    fn terminal(stopped: bool, screen: Fact) -> Vec<Fact> {
        let dev = DeviceNumber { major: 136, minor: 3 };
        let slave = ObjectRef::Tty { name: "pts/3".into(), dev };
        let master = ObjectRef::Tty { name: "ptm/3".into(), dev };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "write".into(),
            object: Some(slave.clone()),
            ..Place::default()
        };
        let mut end = endpoint(20, "screen", master);
        if let Body::Endpoint(end) = &mut end.body {
            end.output_stopped = stopped;
        }
        let mut facts = host();
        facts.extend([end, at_place(10, "job", place), screen]);
        facts
    }

    #[test]
    fn ctrl_s_is_parted_from_a_reader_that_does_not_read() {
        let idle = || blocked(20, "screen", WaitState::Sleep, "epoll_wait");
        let typed = explain(terminal(true, idle()));
        let finding = &typed.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.tty_blocked", Severity::Critical));
        assert!(finding.title.contains("ctrl-S"), "{}", finding.title);
        assert_eq!(finding.object.name, "/dev/pts/3");
        assert_eq!(finding.remedy[0].command, "stty -F /dev/pts/3 -drain -ixon");
        assert_eq!(finding.remedy[0].undo, "stty -F /dev/pts/3 -drain ixon");
        let unread = explain(terminal(false, idle()));
        assert!(unread.findings[0].title.contains("screen 20 does not read"));
        assert_eq!(unread.findings[0].culprit.pid, Some(20));
    }

    #[test]
    fn ctrl_s_that_was_seen_while_it_stood_is_a_persons() {
        let mut facts = terminal(false, blocked(20, "screen", WaitState::Sleep, "epoll_wait"));
        for fact in &mut facts {
            if let Body::Blocked(stands) = &mut fact.body {
                stands.place.output_stopped = stands.thread.pid == 10;
            }
        }
        let report = explain(facts);
        assert!(report.findings[0].title.contains("stopped by ctrl-S"));
        assert_eq!(report.findings[0].culprit.pid, Some(20));
        assert_eq!(report.answer.ends[0].end, EndKind::Person);
    }

    #[test]
    fn a_window_whose_other_side_is_not_seen_is_at_a_persons_end() {
        let mut facts = terminal(false, blocked(20, "screen", WaitState::Sleep, "epoll_wait"));
        facts.retain(|fact| !matches!(&fact.body, Body::Endpoint(_)));
        let report = explain(facts);
        assert!(report.findings[0].title.ends_with("stopped with ctrl-S or is not read"));
        assert_eq!(report.answer.ends[0].end, EndKind::Person);
    }

    /// Whether a terminal that makes a job wait for so long at a time, 30 times, is a fault.
    fn is_blocked_by_waits_of(each_ms: Ns) -> bool {
        let mut facts = terminal(false, blocked(20, "screen", WaitState::Sleep, "epoll_wait"));
        let Some(Fact { body: Body::Blocked(stands), .. }) = facts
            .iter()
            .find(|f| matches!(&f.body, Body::Blocked(b) if b.thread.pid == 10))
            .cloned()
        else {
            panic!("the job waits")
        };
        facts.retain(|f| !matches!(&f.body, Body::Blocked(b) if b.thread.pid == 10));
        for at in 0..30 {
            let begin_ns = at * LOOK_NS / 30;
            let end_ns = begin_ns + each_ms * 1_000_000;
            facts.push(fact(Body::Wait(Wait {
                thread: thread(10, "job"),
                begin_ns,
                end_ns,
                place: stands.place.clone(),
                wake: Some(Wake { at_ns: end_ns, ..Wake::default() }),
                ..Wait::default()
            })));
        }
        explain(facts).findings.iter().any(|f| f.code == "process.tty_blocked")
    }

    #[test]
    fn a_screen_that_takes_the_output_at_its_pace_is_no_fault() {
        assert!(!is_blocked_by_waits_of(99));
        assert!(is_blocked_by_waits_of(100), "no screen that shows ten pictures a second");
    }

    #[test]
    fn a_screen_that_works_is_no_fault() {
        let ran = Ran { thread: thread(20, "screen"), begin_ns: 0, end_ns: LOOK_NS, cpu: 0 };
        let report = explain(terminal(false, fact(Body::Ran(ran))));
        assert!(report.findings.iter().all(|f| f.code != "process.tty_blocked"));
    }
}
