//! lock.goroutine: goroutines of a Go program wait for a mutex, while somebody waits for the program.
//!
//! The kernel sees threads that have nothing to run. Which goroutine stands before which mutex is read of the runtime's own
//! tables, some times a second; who has it only where one goroutine alone can (waits/goroutines.rs). Must not: name a
//! holder among several, or take a channel for a lock.

use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::programs::go;
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, ask, culprit};
use crate::rules::{holder_doing, wait_words};
use crate::waits::WaitClass;
use crate::waits::goroutines::{self, Waiting};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.goroutine",
    title: "Goroutines of a Go program wait for a mutex",
    theory: "A sync.Mutex is had by one goroutine at a time. While that one sleeps, asks another server or writes a file under it, \
             all others that want it are parked, and with them the requests that they serve. The threads of the program have \
             nothing to run meanwhile: to the kernel it looks idle.",
    needs: &[
        "a goroutine stands in the functions that lock a sync.Mutex or a sync.RWMutex, at each reading for half of the wait",
        "somebody waits for the program: it is a command, or owes an answer to a question that came just before",
    ],
    refuted_by: &[
        Refutation::new(
            "it waits for a channel, a condition or other goroutines: that is work that comes late",
            "a_goroutine_that_waits_for_a_channel_waits_for_no_mutex",
        ),
        Refutation::new(
            "it stood there before the question came: another request is held up",
            "who_stood_before_the_question_is_not_whom_it_waits_for",
        ),
        Refutation::new(
            "nobody is owed anything by the program",
            "a_program_that_owes_nobody_anything_may_wait",
        ),
    ],
    remedies: &[
        "hold it for less: no sleep, no I/O and no question to another server between Lock and Unlock",
        "split the mutex, or let readers share it (sync.RWMutex)",
    ],
    stories: &[],
    thresholds: &[],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let open = holder_doing::open(ends, WaitClass::FutexLock);
    let of_end = |(at, end): (usize, &'m End)| {
        let waiting = end.goroutines(measures.model)?;
        let process = wait_words::main_thread(measures, end.links[end.named].who.pid);
        let proof = match waiting.holder {
            Some(_) => Proof::TwoWitnesses,
            None => Proof::OneWitness,
        };
        // Whoever has it is a goroutine of the same process.
        let by = culprit(measures.model, &process);
        let matched = Match::new(by, proof, move |loss| explain(measures, end, &waiting, loss));
        Some(holder_doing::claim(matched, ends, at))
    };
    open.filter_map(of_end).collect()
}

/// `main.(*Shop).Count()`.
fn place(of: &crate::facts::Goroutine) -> Option<String> {
    goroutines::function(of).map(|function| format!("{function}()"))
}

fn explain(measures: &Measures<'_>, end: &End, waiting: &Waiting<'_>, loss: &Loss<'_>) -> Wording {
    let pid = end.links[end.named].who.pid;
    let program = measures.model.threads.process_name(pid);
    let at = place(waiting.first).map_or_else(String::new, |at| format!(" in {at}"));
    let has = waiting.holder.map(|one| (one, goroutines::holder_does(one), place(one)));
    let (by, held) = match &has {
        Some((one, does, place)) => {
            let place = place.as_deref().unwrap_or("a function without a name");
            let how = match one.refers.is_empty() {
                false => {
                    "Its address, which is that of a struct that begins with it too, lies on the stack of one goroutine alone that was read and does not wait for it"
                }
                true => {
                    "Beside those that wait for it the program has one goroutine alone that does something"
                }
            };
            let text = format!("{how}: goroutine {}, which {does} in {place}.", one.id);
            (format!(" that goroutine {} seems to have, which {does} in {place}", one.id), text)
        }
        None => {
            let text = "Which goroutine has it is not known: the runtime writes no owner down, and either several can \
                        have it or the one that has it runs.";
            (String::new(), text.to_string())
        }
    };
    let longest = wait_words::longest(measures, end);
    let (standing, read) = (waiting.count as f64, waiting.reading.read as f64);
    let mut evidence = vec![
        Evidence::new("wait for it", loss.seconds, "s", "process_vm_readv, sched_switch"),
        Evidence::new("goroutines that wait for it", standing, "1", "process_vm_readv"),
        Evidence::new("goroutines that were read", read, "1", "process_vm_readv"),
    ];
    evidence.extend(wait_words::longest_evidence(&longest, "longest wait of a thread meanwhile"));
    Wording {
        title: format!("{program} {pid} waits{at} for a mutex{by}"),
        text: format!(
            "{} pass while {} of {program} {pid} ({}) {at}for the mutex {}. {held}",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(waiting.count, "goroutine", "goroutines"),
            waiting.reading.release,
            measures.model.name_of(&end.object).name,
            at = match waiting.count {
                1 => format!("waits{at} "),
                _ => format!("wait, one of them{at}, "),
            },
        ),
        evidence,
        remedy: vec![Remedy {
            text: "see what every goroutine does: the program's own list, if it has net/http/pprof"
                .into(),
            ..Remedy::default()
        }
        .ask(
            Question::Program,
            &measures.model.threads.thread_ref(pid),
            ask::question_of(measures.model, &go::GO, pid),
        )],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::{EndKind, explain};
    use crate::facts::*;
    use crate::programs::lock_kind::LockKind;
    use crate::rules::scenes::*;

    const LOCK: &[&str] =
        &["runtime.gopark", "internal/sync.(*Mutex).lockSlow", "main.(*Shop).Count", "main.serve"];
    const CHANNEL: &[&str] = &["runtime.gopark", "runtime.chanrecv", "main.(*Pool).Get"];
    const SLEEP: &[&str] = &["runtime.gopark", "time.Sleep", "main.(*Shop).Order"];

    fn goroutine(id: u64, since_ns: Ns, functions: &[&str]) -> Goroutine {
        let frame = |name: &&str| UserFrame {
            function: (*name).into(),
            module: "shop".into(),
            ..UserFrame::default()
        };
        let frames = functions.iter().map(frame).collect();
        Goroutine { id, since_ns, frames, ..Goroutine::default() }
    }

    /// A client that asks a Go program all the time, of which a thread has nothing to run; and its goroutines.
    fn shop(standing: &[Goroutine]) -> Vec<Fact> {
        let idle = blocked(20, "shop", WaitState::Sleep, "futex");
        let mut facts = [host(), client_and_server(idle), vec![of_process(10, "client")]].concat();
        for at_ns in (0..LOOK_NS).step_by(1_000_000_000) {
            let (count, read) = (standing.len() as u64, standing.len() as u64);
            let standing = standing.to_vec();
            let release = "go1.26".into();
            let all = Goroutines { pid: 20, release, count, read, standing, some_run: false };
            facts.push(Fact { at_ns, body: Body::Goroutines(all) });
        }
        facts
    }

    fn waits(lock: u64) -> Goroutine {
        Goroutine { lock, ..goroutine(7, 10_000_000, LOCK) }
    }

    #[test]
    fn a_client_waits_for_the_goroutine_that_has_the_mutex() {
        let has = Goroutine { refers: vec![0x9000], ..goroutine(8, 0, SLEEP) };
        let report = explain(shop(&[waits(0x9000), has]));
        let end = &report.answer.ends[0];
        assert_eq!((end.end, end.lock_kind), (EndKind::Lock, Some(LockKind::Mutex)));
        assert_eq!(end.object.name, "0x9000 of shop");
        let finding = &report.findings[0];
        assert_eq!(finding.code, "lock.goroutine");
        let said = "waits in main.(*Shop).Count() for a mutex that goroutine 8 seems to have, which sleeps in main.(*Shop).Order()";
        assert!(finding.title.contains(said), "{}", finding.title);
        assert!(finding.remedy[0].command.contains("pprof/goroutine"));
    }

    #[test]
    fn of_several_that_can_have_it_none_is_named() {
        let report = explain(shop(&[
            waits(0x9000),
            Goroutine { refers: vec![0x9000], ..goroutine(8, 0, SLEEP) },
            Goroutine { refers: vec![0x9000], ..goroutine(9, 0, CHANNEL) },
        ]));
        assert!(report.findings[0].text.contains("is not known"), "{}", report.findings[0].text);
    }

    #[test]
    fn a_goroutine_that_waits_for_a_channel_waits_for_no_mutex() {
        let report = explain(shop(&[goroutine(7, 10_000_000, CHANNEL)]));
        assert!(report.findings.iter().all(|finding| finding.code != "lock.goroutine"));
    }

    #[test]
    fn who_stood_before_the_question_is_not_whom_it_waits_for() {
        let mut facts = shop(&[waits(0x9000)]);
        for fact in &mut facts {
            if let Body::Blocked(blocked) = &mut fact.body {
                blocked.since_ns = 1_000_000_000;
            }
        }
        assert!(explain(facts).findings.iter().all(|finding| finding.code != "lock.goroutine"));
    }

    #[test]
    fn a_program_that_owes_nobody_anything_may_wait() {
        let mut facts = shop(&[waits(0x9000)]);
        facts.retain(|fact| !matches!(&fact.body, Body::Blocked(it) if it.thread.pid == 10));
        facts.push(of_process(20, "shop"));
        assert!(explain(facts).findings.iter().all(|finding| finding.code != "lock.goroutine"));
    }
}
