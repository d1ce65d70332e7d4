//! Collectors of which a process's own facts speak: an interpreter's readings, and functions that the CPU clock hit.
//!
//! Owns the scenes of process.gc beside those of the Java machine, whose threads are in the rule's own file (gc.rs): each is one
//! process that computes all the time of a look. Must not: test the engine, or a rule that has room for its tests beside it.

use crate::answer::explain;
use crate::facts::*;
use crate::rules::scenes::*;

/// Process 10 computes all the time; so many readings met its collector, and so many its program.
fn readings(collecting: usize, running: usize) -> Vec<Fact> {
    const SAMPLES_A_SECOND: u32 = 99;
    let process = ThreadRef { tid: 10, pid: 10, start_ns: 1, comm: "app".into() };
    let run_ns = LOOK_NS;
    let time =
        ThreadTime { thread: process.clone(), until_ns: LOOK_NS, run_ns, ..ThreadTime::default() };
    let mut facts = [host(), vec![of_process(10, "app")]].concat();
    facts.push(Fact { at_ns: LOOK_NS, body: Body::ThreadTime(time) });
    facts.push(Fact {
        at_ns: LOOK_NS,
        body: Body::Samples(Samples {
            process,
            stack: 0,
            count: u64::from(SAMPLES_A_SECOND) * LOOK_NS / 1_000_000_000,
            frequency_hz: SAMPLES_A_SECOND,
        }),
    });
    for at in 0..collecting + running {
        let (function, module) = ("build".into(), "app.py".into());
        let lock = InterpreterLock {
            pid: 10,
            interpreter: "CPython 3.12".into(),
            holder_tid: 10,
            collecting: at < collecting,
            frames: vec![UserFrame { function, module, line: 7 }],
            ..InterpreterLock::default()
        };
        let at_ns = 1_000_000 * (1 + at as u64);
        facts.push(Fact { at_ns, body: Body::InterpreterLock(lock) });
    }
    facts
}

fn codes(facts: Vec<Fact>) -> Vec<String> {
    explain(facts).findings.into_iter().map(|finding| finding.code).collect()
}

#[test]
fn a_python_program_that_collects_is_said_to() {
    let report = explain(readings(12, 8));
    let finding = &report.findings[0];
    assert_eq!(finding.code, "process.gc");
    assert_eq!(finding.title, "app 10 collects garbage for 60 % of its time");
    let said = "met in 12 of 20 readings, mostly in build() of app.py:7";
    assert!(finding.text.contains(said), "{}", finding.text);
    assert!(finding.text.contains("3 s of 5 s"), "{}", finding.text);
}

#[test]
fn a_python_program_that_seldom_collects_works() {
    assert!(codes(readings(4, 16)).is_empty(), "a fifth");
    assert!(codes(readings(3, 3)).is_empty(), "too few readings");
}

#[test]
fn the_function_of_an_interpreted_program_is_where_it_works() {
    let report = explain(readings(0, 20));
    let end = report.answer.ends.first().map(|end| end.who.clone());
    let function = end.flatten().and_then(|who| who.function);
    assert_eq!(function.as_deref(), Some("build() of app.py:7 100 %"));
}

fn codes_of(functions: &[(&str, u64)]) -> Vec<String> {
    codes(sampled(functions))
}

/// Process 10 computes all the time of the look of five seconds, 100 samples a second, so many of them in these functions.
fn sampled(functions: &[(&str, u64)]) -> Vec<Fact> {
    const HZ: u32 = 100;
    let process = ThreadRef { tid: 10, pid: 10, start_ns: 1, comm: "app".into() };
    let count = u64::from(HZ) * LOOK_NS / 1_000_000_000;
    let time = ThreadTime {
        thread: process.clone(),
        until_ns: LOOK_NS,
        run_ns: LOOK_NS,
        ..ThreadTime::default()
    };
    let named = |(name, count): &(&str, u64)| Function {
        name: (*name).into(),
        count: *count,
        ..Function::default()
    };
    let work = Work {
        process: process.clone(),
        code: "app".into(),
        count,
        same_name: count,
        frequency_hz: HZ,
        functions: functions.iter().map(named).collect(),
        ..Work::default()
    };
    let samples = Samples { process, stack: 0, count, frequency_hz: HZ };
    let bodies = [Body::ThreadTime(time), Body::Samples(samples), Body::Work(work)];
    let facts = bodies.map(|body| Fact { at_ns: LOOK_NS, body });
    [host(), vec![of_process(10, "app")], facts.to_vec()].concat()
}

#[test]
fn a_program_whose_collector_runs_is_said_to_collect() {
    let of_v8 = [
        ("Builtins_MapPrototypeSet", 250),
        ("v8::internal::MarkingVisitorBase::ProcessStrongHeapObject", 150),
        ("v8::internal::Sweeper::RawSweep", 50),
    ];
    let report = explain(sampled(&of_v8));
    let finding = &report.findings[0];
    assert_eq!(finding.code, "process.gc");
    assert_eq!(finding.title, "app 10 collects garbage for 40 % of its CPU time");
    assert!(finding.text.contains("2 s of 5 s"), "{}", finding.text);
    assert!(finding.text.contains("collector of V8"), "{}", finding.text);
    let of_go = [("runtime.scanobject", 160), ("runtime.gcDrain", 40), ("main.build", 200)];
    assert_eq!(codes_of(&of_go), ["process.gc"]);
}

#[test]
fn a_little_of_it_is_healthy() {
    assert!(codes_of(&[("v8::internal::Sweeper::RawSweep", 80)]).is_empty());
    assert!(codes_of(&[("main.build", 340), ("runtime.scanobject", 160)]).is_empty());
    assert!(codes_of(&[("runtime.mallocgc", 400)]).is_empty(), "allocation is the program's");
}

#[test]
fn the_function_of_most_samples_is_where_it_works() {
    let function = |functions: &[(&str, u64)]| {
        let report = explain(sampled(functions));
        let end = report.answer.ends.first().and_then(|end| end.who.clone());
        end.and_then(|who| who.function)
    };
    assert_eq!(function(&[("spin", 300)]).as_deref(), Some("spin() of app 60 %"));
    assert_eq!(function(&[("spin", 200)]).as_deref(), Some("app 100 %"), "not half of it");
}

#[test]
fn a_function_that_was_made_at_run_time_is_where_it_works() {
    let function = |place: &str| {
        let mut facts = sampled(&[("crunch", 400)]);
        for fact in &mut facts {
            if let Body::Work(work) = &mut fact.body {
                work.code.clear();
                work.functions[0].place = place.into();
            }
        }
        let report = explain(facts);
        let end = report.answer.ends.first().and_then(|end| end.who.clone());
        end.and_then(|who| who.function)
    };
    assert_eq!(function("server.js:12").as_deref(), Some("crunch() of server.js:12 80 %"));
    assert_eq!(function("").as_deref(), Some("crunch() 80 %"));
}
