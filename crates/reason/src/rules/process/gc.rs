//! process.gc: a program of a language with a collector spends its time on collecting garbage.
//!
//! A Java machine gives its own threads names. While the VM thread carries out a collection all threads of the program stand
//! still, and while the workers of a collection run the VM thread waits for them. So the time of the VM thread, and of the
//! worker that ran longest, is time in which nothing else of the program ran: a lower bound, by the scheduler's sums. Marking in the
//! background stops nobody, but where CPUs are few it takes them from the program and from those who collect, and the time that
//! these wait is in no sum of theirs. So the collector's CPU time as a whole counts too, if the program stands as well. Must not: read a heap (the program's own tools do), or know other runtimes: those of
//! CPython (gc_interpreted.rs), V8 and Go (gc_sampled.rs) run on the program's own threads.

use super::gc_interpreted::{self, COLLECTS_MIN, COLLECTS_READINGS_MIN};
use super::gc_sampled::{self, COLLECTOR_MIN, COLLECTOR_MIN_OF_GO, COLLECTOR_SAMPLES_MIN};
use crate::facts::{ThreadRef, ThreadTime};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::programs::java::{self, OwnThread};
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::own_time::{COST_MIN, Cost, PART_MIN, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;

static STOOD_MIN: Threshold = Threshold::new(
    0.4,
    "1",
    "of a command's wall time, or of the time that a program runs, that in which all its threads stood still for collections",
    "reference machine, JDK 17, heap of 64 MB: a program that does nothing but allocate and keeps next to nothing stands for \
     up to 0.32 of it, one that keeps two thirds of its heap for 0.8 and more",
);
static MOST_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "of the CPU time of the process, what these threads took together with those that mark in the background, if it also stood for \
     PART_MIN of the time",
    "chosen: most of it; lab, seed 6113: 0.55 on two CPUs, where the program did half of its work",
);
static NOTICED_MIN: Threshold = Threshold::new(
    0.3,
    "s",
    "what it took altogether; less is no delay that a person notices, and a virtual machine that begins and ends takes as much",
    "reference machine, JDK 17: a program of 0.35 s stood for 0.15 s",
);
static OF_ALL_MIN: Threshold = Threshold::new(
    0.25,
    "1",
    "of the CPU time of the process, what these threads took",
    "chosen: collectors aim at a twelfth at most (G1's GCTimeRatio is 12, that of the parallel one 99); three times that",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.gc",
    title: "A program spends its time on collecting garbage",
    theory: "When the heap of a Java program is nearly full, each collection frees little and the next one comes soon. All threads of \
             the program stand still while the VM thread and its workers collect, so the program uses a whole CPU and \
             gets on slowly. The same threads of a program with room in its heap take a few percent. CPython's collector runs on the thread \
             that has the interpreter's lock, whenever so many objects were made, and looks at all that live. V8 and Go collect on threads of their own beside the \
             program, and on its own threads where they do not keep up.",
    needs: &[
        "a process with the JVM's VM thread",
        "that thread and the workers of its collections ran for two fifths of the program's time, and a quarter of its CPU time; or \
         for a sixth, and with those that mark in the background for half of its CPU time",
        "or a process of CPython whose interpreter was met collecting in a quarter of the readings",
        "or a process with functions of V8's or Go's collector, and a fifth (V8) or a third (Go) of its on-CPU samples in them",
    ],
    refuted_by: &[
        Refutation::new(
            "the program's own threads have the time",
            "a_program_with_room_in_its_heap_is_healthy",
        ),
        Refutation::new(
            "it marks in the background, and nobody stands still meanwhile",
            "marking_in_the_background_stops_nobody",
        ),
        Refutation::new(
            "threads are called so in a process that is no virtual machine",
            "without_a_vm_thread_names_say_nothing",
        ),
        Refutation::new(
            "the interpreter is seldom met collecting: it comes with all objects that are made",
            "a_python_program_that_seldom_collects_works",
        ),
        Refutation::new(
            "few samples are in functions of a collector: every program with one has some",
            "a_little_of_it_is_healthy",
        ),
    ],
    remedies: &[
        "give it more heap (-Xmx, -XX:MaxRAMPercentage), if the host or the container has it",
        "look what fills the heap: jcmd PID GC.class_histogram",
        "of Node: --max-old-space-size; of Go: GOGC, GOMEMLIMIT",
        "of Python: gc.freeze once it has started, a higher gc.set_threshold, gc.disable while much is built",
    ],
    stories: &[],
    thresholds: &[
        &STOOD_MIN,
        &NOTICED_MIN,
        &OF_ALL_MIN,
        &PART_MIN,
        &MOST_MIN,
        &COST_MIN,
        &COLLECTS_MIN,
        &COLLECTS_READINGS_MIN,
        &COLLECTOR_MIN,
        &COLLECTOR_MIN_OF_GO,
        &COLLECTOR_SAMPLES_MIN,
    ],
    finds: Finds::End(find),
};

/// What collecting took.
struct Collecting {
    process: ThreadRef,
    /// Seconds of the VM thread, of the worker that ran longest, and of all workers together.
    vm: f64,
    longest_worker: f64,
    workers: f64,
    /// Of those that mark in the background.
    behind: f64,
    /// CPU time of the process.
    all: f64,
}

impl Collecting {
    /// Of a process that is a virtual machine.
    fn of(measures: &Measures<'_>, pid: u32) -> Option<Self> {
        let its = || measures.times_of(pid);
        its().find(|time| java::is_machine(&time.thread.comm))?;
        let seconds = |time: &ThreadTime| time.run_ns as f64 / 1e9;
        let that = |does: OwnThread| {
            its().filter(move |it| java::own_thread(&it.thread.comm) == Some(does))
        };
        Some(Self {
            process: measures.model.threads.thread_ref(pid),
            vm: that(OwnThread::Machine).map(seconds).sum(),
            longest_worker: that(OwnThread::Collects).map(seconds).fold(0.0, f64::max),
            workers: that(OwnThread::Collects).map(seconds).sum(),
            behind: that(OwnThread::Marks).map(seconds).sum(),
            all: its().map(seconds).sum(),
        })
    }

    /// Seconds in which the program stood still, at least.
    fn stood(&self) -> f64 {
        self.vm + self.longest_worker
    }

    /// That, of the time that the program runs or stands for it.
    fn share(&self) -> f64 {
        let own = self.all - self.vm - self.workers - self.behind;
        self.stood() / (self.stood() + own.max(0.0)).max(1e-9)
    }

    /// What all of it takes of the process's CPU time.
    fn of_all(&self) -> f64 {
        (self.vm + self.workers) / self.all.max(1e-9)
    }

    /// CPU time of all that collect, seconds.
    fn seconds(&self) -> f64 {
        self.vm + self.workers + self.behind
    }

    /// That, of the CPU time of the process.
    fn of_all_with_marking(&self) -> f64 {
        self.seconds() / self.all.max(1e-9)
    }

    /// Whether the program spends its time on standing still for it, given the share of that.
    fn stands(&self, share: f64) -> bool {
        share >= STOOD_MIN.value && self.of_all() >= OF_ALL_MIN.value
    }

    /// Whether it does not, and yet most of its CPU time goes into it.
    fn is_outrun(&self, share: f64) -> bool {
        share >= PART_MIN.value && self.of_all_with_marking() >= MOST_MIN.value
    }

    /// Its title and the sentence with its figures.
    fn words(&self, share: f64, loss: &Loss<'_>) -> (String, String) {
        let who = words::who(&self.process);
        let of_window = words::of_window(loss.seconds, loss.wall_seconds);
        if self.stands(share) {
            return (
                format!("{who} collects garbage for {} of its time", words::percent(share)),
                format!(
                    "At least {of_window} all threads of the program stood still for its collections, which took {} of its \
                     CPU time.",
                    words::percent(self.of_all()),
                ),
            );
        }
        (
            format!(
                "{who} spends {} of its CPU time on collecting garbage",
                words::percent(self.of_all_with_marking())
            ),
            format!(
                "{of_window} go into it, {} of that into marking in the background, which takes the CPUs from the program; for at \
                 least {} all its threads stood still.",
                words::seconds(self.behind),
                words::seconds(self.stood()),
            ),
        )
    }

    fn explain(&self, share: f64, loss: &Loss<'_>) -> Wording {
        let (title, text) = self.words(share, loss);
        let pid = self.process.pid;
        let source = "scheduler sums by thread name";
        let mut evidence = vec![
            Evidence::new("CPU time of the VM thread", self.vm, "s", source),
            Evidence::new("CPU time of the workers of its collections", self.workers, "s", source),
            Evidence::new("share of the CPU time of the process", self.of_all(), "1", source),
        ];
        if self.behind > 0.0 {
            evidence.push(Evidence::new(
                "CPU time of marking in the background",
                self.behind,
                "s",
                source,
            ));
        }
        Wording {
            title,
            text: format!(
                "{text} A heap that is nearly full is collected again and again, and each time little is freed."
            ),
            evidence,
            remedy: vec![Remedy {
                text: "see how full its heap is; give it more (-Xmx), or keep less in it (jcmd: GC.class_histogram)".into(),
                ..Remedy::default()
            }
            .ask(Question::Program, &self.process, java::heap_question(pid))],
        }
    }
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    of_a_virtual_machine(measures, end)
        .or_else(|| gc_interpreted::find(measures, end))
        .or_else(|| gc_sampled::find(measures, end))
}

fn of_a_virtual_machine<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let pid = worker(measures, end)?;
    let collecting = Collecting::of(measures, pid)?;
    let process = &collecting.process;
    let stood = Cost::of_one(measures, process, collecting.stood(), end);
    let share = if measures.is_command() { stood.share } else { collecting.share() };
    let cost = match (collecting.stands(share), collecting.is_outrun(share)) {
        (true, _) => stood,
        (_, true) => Cost::of_one(measures, process, collecting.seconds(), end),
        _ => return None,
    };
    if cost.seconds < NOTICED_MIN.value.max(COST_MIN.value * measures.wall_seconds()) {
        return None;
    }
    let by = culprit(measures.model, process);
    let proof = match collecting.workers > 0.0 {
        true => Proof::TwoWitnesses,
        false => Proof::OneWitness,
    };
    let does = ("garbage", "collection".to_string());
    let matched = Match::new(by, proof, move |loss| collecting.explain(share, loss));
    Some(cost.charge(matched.on(Object::Process(pid)), does))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// A process whose threads ran so many milliseconds in a look of five seconds.
    fn threads(ran: &[(&str, u64)]) -> Vec<Fact> {
        let mut facts = [host(), vec![of_process(10, "java")]].concat();
        for (tid, (comm, ms)) in (10..).zip(ran) {
            let thread = ThreadRef { tid, pid: 10, start_ns: 1, comm: (*comm).into() };
            let run_ns = ms * 1_000_000;
            let until_ns = LOOK_NS;
            let time = ThreadTime { thread, until_ns, run_ns, ..ThreadTime::default() };
            facts.push(Fact { at_ns: LOOK_NS, body: Body::ThreadTime(time) });
        }
        facts
    }

    fn codes(ran: &[(&str, u64)]) -> Vec<String> {
        explain(threads(ran)).findings.into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_program_that_collects_most_of_the_time_is_said_to() {
        let report = explain(threads(&[("java", 0), ("java", 900), ("VM Thread", 4000)]));
        let finding = &report.findings[0];
        assert_eq!(finding.code, "process.gc");
        assert_eq!(finding.title, "java 10 collects garbage for 82 % of its time");
        assert!(finding.text.contains("4 s of 5 s"), "{}", finding.text);
    }

    #[test]
    fn of_workers_side_by_side_the_longest_counts() {
        let ran =
            [("java", 1000), ("VM Thread", 200), ("GC Thread#0", 2500), ("GC Thread#1", 2400)];
        let report = explain(threads(&ran));
        assert!(report.findings[0].text.contains("2.70 s of 5 s"), "{}", report.findings[0].text);
    }

    #[test]
    fn a_program_with_room_in_its_heap_is_healthy() {
        assert!(codes(&[("java", 4500), ("VM Thread", 100), ("GC Thread#0", 150)]).is_empty());
    }

    #[test]
    fn a_program_that_only_allocates_is_healthy() {
        assert!(codes(&[("java", 3000), ("VM Thread", 1400)]).is_empty());
    }

    #[test]
    fn marking_in_the_background_stops_nobody() {
        assert!(codes(&[("java", 2500), ("VM Thread", 50), ("G1 Conc#0", 2500)]).is_empty());
    }

    #[test]
    fn marking_that_takes_the_cpus_from_a_program_that_also_stands_counts() {
        let threads_ran = |marking| {
            [("java", 2800), ("VM Thread", 320), ("GC Thread#0", 630), ("G1 Conc#0", marking)]
        };
        assert_eq!(codes(&threads_ran(1900)), ["process.gc"]);
        assert!(codes(&threads_ran(1500)).is_empty());
    }

    #[test]
    fn without_a_vm_thread_names_say_nothing() {
        assert!(codes(&[("game", 1000), ("GC Thread#0", 4000)]).is_empty());
    }

    #[test]
    fn a_program_that_does_nearly_nothing_loses_nothing() {
        assert!(codes(&[("java", 10), ("VM Thread", 90)]).is_empty());
    }
}
