//! process.stopped: a process stands still because of a stop signal.
//!
//! SIGSTOP, ctrl-Z, or a background job that touched its terminal. The scheduler state T is the witness; who
//! sent the signal is said when it came within the look. A stopped process that nobody waits for is a note. Must not: say
//! it of one whose pipe or lock the others wait for (that is claimed with what they wait for).

use super::standstill::{NOTICED, Standstill};
use crate::facts::{Signal, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::{kernel_threads, words};
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;
use std::ops::RangeInclusive;

/// SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
const STOP_SIGNALS: RangeInclusive<i32> = 19..=22;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.stopped",
    title: "A process is stopped by a signal",
    theory: "SIGSTOP, ctrl-Z (SIGTSTP), or reading the terminal from the background (SIGTTIN) stops every thread of a \
             process until SIGCONT. Its connections stay open and its locks stay held, so whoever talks to it waits as \
             if it were merely slow.",
    needs: &[
        "threads of the process are in state T",
        "others wait for its answer, its lock or its reading (else it is only a note), or it is the target",
    ],
    refuted_by: &[
        Refutation::new("the process runs or sleeps", "a_sleeping_server_is_not_stopped"),
        Refutation::new(
            "state t: it is held by a tracer",
            "one_in_the_hands_of_a_tracer_is_not_stopped_by_a_signal",
        ),
        Refutation::new("its cgroup is frozen", "one_in_a_frozen_group_is_not_stopped_by_a_signal"),
    ],
    remedies: &["continue it (SIGCONT)", "end it"],
    stories: &["S0.4"],
    thresholds: &[&NOTICED],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let stands = Standstill::of(measures, end, WaitClass::Stopped)?;
    let stopped = stands.process(measures)?;
    let by = culprit(measures.model, &stopped);
    let words = explain(measures, &stands, &stopped);
    let matched = Match::new(by, Proof::Read, move |_| words.clone());
    Some(stands.weigh(measures, matched))
}

fn explain(measures: &Measures<'_>, stands: &Standstill<'_>, stopped: &ThreadRef) -> Wording {
    let who = words::who(stopped);
    let signal = stop_signal(measures, stopped);
    let by_terminal = signal.is_some_and(is_typed);
    let by = match signal {
        Some(_) if by_terminal => "Its terminal sent it SIGTSTP (ctrl-Z).".into(),
        Some(signal) => {
            format!(
                "{} sent it {}.",
                measures.model.threads.who(&signal.from),
                signal_name(signal.signal)
            )
        }
        None if measures.model.look.host.kernel_events => {
            "Who stopped it is not known: it was before the look.".into()
        }
        None => "Who stopped it is not known: signals are not seen here.".into(),
    };
    let title = match stands.has_victims() {
        false => format!("{who} is stopped by a signal"),
        true => {
            format!("{} waits for {who}, which is stopped by a signal", stands.victim(measures))
        }
    };
    let fact = format!("{who} is in state T (stopped), since");
    let who_waited = stands.who_waited(measures);
    let stands_at_it = || at_shared_semaphore(measures, stopped).filter(|_| !stands.has_victims());
    let who_waited = stands_at_it().unwrap_or(who_waited);
    let mut evidence = wait_words::longest_evidence(&stands.longest, &fact);
    if let Some(signal) = signal {
        let from = match by_terminal {
            true => "its terminal".to_string(),
            false => measures.model.threads.who(&signal.from),
        };
        let sent = format!("{} sent by {from}", signal_name(signal.signal));
        evidence.push(Evidence::new(sent, 1.0, "1", "signal_generate"));
    }
    evidence.extend(stands.others_evidence(&who));
    let since = wait_words::duration(&stands.longest);
    Wording {
        title,
        text: format!("{who} has stood still for {since}. {by} {who_waited}"),
        evidence,
        remedy: ways_out(measures, signal, stopped),
    }
}

/// Who has stood all the look at a semaphore, or at a word of shared memory, that the stopped one was at last or has mapped too, as a sentence: nobody
/// knows who would have to give it, but that one cannot.
fn at_shared_semaphore(measures: &Measures<'_>, stopped: &ThreadRef) -> Option<String> {
    let held = &measures.model.held;
    let is_it = |it: &ThreadRef| it.pid == stopped.pid;
    let of_sets = held.semaphores.iter().map(|(_, it)| it);
    let of_sets = of_sets.filter(|it| it.last.as_ref().is_some_and(is_it)).map(|it| &it.waiter);
    let of_words = held.shared_words.iter().map(|(_, it)| it);
    let of_words = of_words.filter(|it| it.users.iter().any(is_it)).map(|it| &it.waiter);
    let stands = |waiter: &&ThreadRef| {
        let last = measures.graph.waits_of(waiter).last();
        let since = last.filter(|wait| wait.standing).map(|wait| wait.begin_ns);
        since.is_some_and(|since| measures.model.look.began_before(since)) && !is_it(waiter)
    };
    let waiter = of_sets.chain(of_words).find(stands)?;
    Some(format!(
        "{} has waited all the time for a semaphore or a word of memory that it may have to give: holdup -p {} follows it.",
        measures.model.threads.who(waiter),
        waiter.pid
    ))
}

/// SIGTTIN, SIGTTOU.
const OF_TERMINAL: [i32; 2] = [21, 22];
/// SIGTSTP.
const TYPED: i32 = 20;

/// Continued in the background, who was stopped for its terminal asks for that again.
fn ways_out(measures: &Measures<'_>, signal: Option<&Signal>, stopped: &ThreadRef) -> Vec<Remedy> {
    match signal {
        Some(signal) if OF_TERMINAL.contains(&signal.signal) => vec![Remedy::to(
            "bring it to the foreground in its shell (fg), or start it with its input from /dev/null: continued in the background it is \
             stopped again at once",
        )],
        None if is_behind(measures, stopped) => vec![
            Remedy::to(
                "bring it to the foreground in its shell (fg): it is in the background of its terminal",
            ),
            Remedy::to("continue it where it is: it stops again as soon as it needs its terminal (to read from it, to set it, or under tostop to write)")
                .go_on(stopped),
        ],
        _ => vec![Remedy::to("continue it").go_on(stopped)],
    }
}

/// Whether its terminal has another process group in the foreground (job control, termios(3)).
fn is_behind(measures: &Measures<'_>, stopped: &ThreadRef) -> bool {
    let known = measures.model.threads.identity(stopped);
    known.is_some_and(|own| own.foreground_group.is_some_and(|group| group != own.process_group))
}

/// The terminal's own work sends what is typed (isig, drivers/tty/n_tty.c), in a thread of the kernel.
fn is_typed(signal: &Signal) -> bool {
    signal.signal == TYPED && kernel_threads::is_worker(&signal.from)
}

fn stop_signal<'a>(measures: &'a Measures<'_>, stopped: &ThreadRef) -> Option<&'a Signal> {
    measures
        .model
        .threads
        .signals
        .iter()
        .rev()
        .map(|(_, signal)| signal)
        .find(|signal| signal.to.pid == stopped.pid && STOP_SIGNALS.contains(&signal.signal))
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        19 => "SIGSTOP",
        20 => "SIGTSTP (ctrl-Z)",
        21 => "SIGTTIN (it read the terminal from the background)",
        22 => "SIGTTOU (it wrote to its terminal, or set it up, from the background)",
        _ => "a stop signal",
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    #[test]
    fn a_stopped_server_is_named_to_its_client() {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Stopped, "")));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.stopped", Severity::Critical));
        assert_eq!((finding.culprit.pid, &*finding.object.id), (Some(20), "20"));
        assert_eq!(finding.victims.len(), 1, "the stopped one is no victim");
        assert_eq!(finding.remedy[0].command, "kill -CONT 20");
        assert!(finding.title.starts_with("client waits for server 20"), "{}", finding.title);
    }

    #[test]
    fn a_job_that_nobody_waits_for_is_a_note_and_names_who_stopped_it() {
        let mut facts = host();
        facts.push(blocked(20, "vim", WaitState::Stopped, ""));
        let signal = Signal {
            from: thread(5, "bash"),
            to: thread(20, "vim"),
            signal: 19,
            ignored: false,
            inner_pid: None,
        };
        facts.push(Fact { at_ns: 1_000, body: Body::Signal(signal) });
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.stopped", Severity::Note));
        assert!(finding.text.contains("bash 5 sent it SIGSTOP"), "{}", finding.text);
    }

    #[test]
    fn who_stands_at_a_semaphore_that_it_may_give_is_said_with_the_note() {
        let text = |users: &[u32]| {
            let args = [0x7f00_0000_1000, 9 | 256, 0, 0, 0, 0];
            let state = WaitState::Sleep;
            let place = Place { state, syscall: "futex".into(), args, ..Place::default() };
            let users = users.iter().map(|pid| thread(*pid, "job")).collect();
            let (waiter, address, path) = (thread(10, "job"), args[0], "/dev/shm/sem.x".into());
            let word = SharedWord { waiter, address, path, users, is_whole: true };
            let mut facts = host();
            facts.push(blocked(20, "job", WaitState::Stopped, ""));
            facts.push(at_place(10, "job", place));
            facts.push(Fact { at_ns: LOOK_NS, body: Body::SharedWord(word) });
            let report = explain(facts);
            let finding = &report.findings[0];
            assert_eq!((&*finding.code, finding.severity), ("process.stopped", Severity::Note));
            finding.text.clone()
        };
        let shares = text(&[20, 21]);
        assert!(shares.contains("job 10 has waited all the time for a semaphore"), "{shares}");
        assert!(!shares.contains("Nobody was seen"), "{shares}");
        let other = text(&[21]);
        assert!(other.contains("Nobody was seen to wait for it."), "{other}");
    }

    #[test]
    fn who_met_it_for_a_moment_does_not_take_the_note_away() {
        let said = |waited_ms: u64| {
            let mut facts = host();
            facts.extend(client_and_server(blocked(20, "vim", WaitState::Stopped, "")));
            for Fact { body, .. } in &mut facts {
                if let Body::Blocked(client) = body
                    && client.thread.pid == 10
                {
                    client.since_ns = LOOK_NS - waited_ms * 1_000_000;
                }
            }
            let finding = explain(facts).findings.remove(0);
            (finding.severity, finding.victims.len(), finding.title)
        };
        let note = (Severity::Note, 0, "vim 20 is stopped by a signal".to_string());
        assert_eq!(said(5), note);
        let (severity, victims, title) = said(4_900);
        assert_eq!((severity, victims), (Severity::Critical, 1), "{title}");
    }

    /// What is said of a job that somebody stopped by a signal.
    fn stopped_by(from: ThreadRef, signal: i32) -> (String, String) {
        let mut facts = host();
        facts.push(blocked(20, "vim", WaitState::Stopped, ""));
        let to = thread(20, "vim");
        let signal = Signal { from, to, signal, ignored: false, inner_pid: None };
        facts.push(Fact { at_ns: 1_000, body: Body::Signal(signal) });
        let mut finding = explain(facts).findings.remove(0);
        (finding.text, finding.remedy.remove(0).command)
    }

    #[test]
    fn who_was_stopped_for_its_terminal_is_not_continued_in_the_background() {
        let (_, command) = stopped_by(thread(20, "vim"), 21);
        assert_eq!(command, "", "it would be stopped again");
        let (_, command) = stopped_by(thread(5, "bash"), 19);
        assert_eq!(command, "kill -CONT 20");
    }

    #[test]
    fn who_was_stopped_before_the_look_in_the_background_of_a_terminal_is_brought_to_the_foreground_first()
     {
        let command = |foreground_group| {
            let job = Thread {
                thread: thread(20, "vim"),
                process_group: 20,
                foreground_group,
                ..Thread::default()
            };
            let mut facts = host();
            facts.extend([identity(job), blocked(20, "vim", WaitState::Stopped, "")]);
            let ways = explain(facts).findings.remove(0).remedy;
            ways.into_iter().map(|way| way.command).collect::<Vec<_>>()
        };
        assert_eq!(command(Some(5)), ["", "kill -CONT 20"], "there it may stop again");
        assert_eq!(command(Some(20)), ["kill -CONT 20"]);
        assert_eq!(command(None), ["kill -CONT 20"], "a daemon");
    }

    #[test]
    fn what_is_typed_at_a_terminal_comes_from_no_worker_of_the_kernel_s() {
        let (text, _) = stopped_by(thread(9, "kworker/u8:1"), 20);
        assert!(text.contains("Its terminal sent it SIGTSTP"), "{text}");
        let (text, _) = stopped_by(thread(5, "bash"), 20);
        assert!(text.contains("bash 5 sent it SIGTSTP"), "{text}");
    }

    #[test]
    fn asked_about_by_pid_it_is_a_warning() {
        let mut facts = host();
        facts.push(of_process(20, "vim"));
        facts.push(blocked(20, "vim", WaitState::Stopped, ""));
        let report = explain(facts);
        assert_eq!(report.findings[0].severity, Severity::Warning);
    }

    #[test]
    fn one_in_the_hands_of_a_tracer_is_not_stopped_by_a_signal() {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Traced, "")));
        assert!(explain(facts).findings.iter().all(|f| f.code != "process.stopped"));
    }

    #[test]
    fn one_in_a_frozen_group_is_not_stopped_by_a_signal() {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Frozen, "")));
        assert!(explain(facts).findings.iter().all(|f| f.code != "process.stopped"));
    }

    #[test]
    fn a_sleeping_server_is_not_stopped() {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Sleep, "epoll_wait")));
        assert!(explain(facts).findings.is_empty());
    }
}
