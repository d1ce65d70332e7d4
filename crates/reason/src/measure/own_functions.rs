//! The functions of a program in which its time goes: where it computes, and where it stands.
//!
//! Of work the samples say it, or the interpreter; of a wait the user stack, or of a Go program, whose threads run any goroutine,
//! the goroutine that sleeps. One function that a person knows. Must not: say why it is there.

use crate::facts::{Function, Ns, ThreadRef, Work};
use crate::measure::Measures;
use crate::measure::cpu_profile::SAMPLES_MIN;
use crate::measure::interpreters::Interpreted;
use crate::model::{Model, words};
use crate::programs::go;
use crate::threshold::Threshold;
use crate::waits::{goroutines, user_stack};
use std::collections::BTreeMap;

/// Where a process spends its CPU time: the function of its program, where its interpreter tells, or else the system call or
/// the file of its code that most samples hit.
pub fn works_in(measures: &Measures<'_>, pid: u32) -> Option<String> {
    interpreted_in(measures, pid).or_else(|| sampled_in(measures, pid))
}

/// The function of an interpreted program, or its collector.
fn interpreted_in(measures: &Measures<'_>, pid: u32) -> Option<String> {
    let interpreted = Interpreted::of(measures.model, pid)?;
    // Where nothing is sampled, the scheduler's sums are there all the same.
    let counted = || measures.times_of(pid).map(|time| time.run_ns as f64 / 1e9).sum();
    let sampled = measures.profile.spent(pid).map(|spent| spent.seconds(spent.samples));
    let seconds: f64 = sampled.unwrap_or_else(counted);
    if !interpreted.stands_for(seconds / measures.wall_seconds().max(1e-9)) {
        return None;
    }
    let share = |times: usize| words::percent(times as f64 / interpreted.held() as f64);
    let collecting = interpreted.collecting();
    if collecting * 2 > interpreted.held() {
        return Some(format!("its garbage collection {}", share(collecting)));
    }
    let (place, times) = interpreted.place()?;
    Some(format!("{} {}", place.words(), share(times)))
}

/// Of the samples, below which a function is not worth a word.
static ALSO_MIN: Threshold = Threshold::new(
    0.03,
    "1",
    "part of the samples that a function has: with less it is not worth a word",
    "chosen",
);
/// Functions that are named beside the first.
const ALSO_MAX: usize = 3;

/// Where else it works: the functions, system calls and files that most samples hit after the one that is `named`.
pub fn also_works_in(measures: &Measures<'_>, pid: u32, named: &str) -> Vec<String> {
    let is_interpreted = interpreted_in(measures, pid).is_some();
    let works = measures.profile.work(pid);
    let all: u64 = works.iter().map(|work| work.count).sum();
    if is_interpreted || all < SAMPLES_MIN {
        return Vec::new();
    }
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    for work in works {
        if !work.syscall.is_empty() {
            *places.entry(format!("{}()", work.syscall)).or_default() += work.count;
        }
        for function in work.functions.iter().filter(|_| work.syscall.is_empty()) {
            *places.entry(of_file(function, &work.code)).or_default() += function.count;
        }
    }
    let mut places: Vec<(String, u64)> = places.into_iter().collect();
    places.sort_by(|(a_name, a), (b_name, b)| b.cmp(a).then_with(|| a_name.cmp(b_name)));
    let share = |count: u64| count as f64 / all as f64;
    let others = places.into_iter().filter(|(place, count)| {
        share(*count) >= ALSO_MIN.value && !named.starts_with(place.as_str())
    });
    others
        .take(ALSO_MAX)
        .map(|(place, count)| format!("{place} {}", words::percent(share(count))))
        .collect()
}

fn sampled_in(measures: &Measures<'_>, pid: u32) -> Option<String> {
    let of_it = || measures.model.cpu.work.iter().filter(|work| work.process.pid == pid);
    let all: u64 = of_it().map(|work| work.count).sum();
    let most = of_it().max_by_key(|work| work.count)?;
    let (place, count) = match (most.syscall.as_str(), most.code.as_str()) {
        ("", code) => match (outstanding(most), code) {
            (Some(function), code) => (of_file(function, code), function.count),
            (None, "") => return faults_in(measures, &most.process, all),
            (None, code) => (code.to_string(), most.count),
        },
        (call, _) => (format!("{call}()"), most.count),
    };
    (all >= SAMPLES_MIN).then(|| format!("{place} {}", words::percent(count as f64 / all as f64)))
}

/// In the kernel, and in no call: it touches memory that it has not got yet. How far it grew meanwhile tells whether that is
/// new.
fn faults_in(measures: &Measures<'_>, process: &ThreadRef, all: u64) -> Option<String> {
    let faults = measures.profile.in_page_faults(process.pid);
    let share = words::percent(faults as f64 / all as f64);
    let resident = words::bytes(measures.profile.rss_bytes_max(process) as f64);
    (all >= SAMPLES_MIN && 2 * faults >= all)
        .then(|| format!("page faults {share} (it has {resident})"))
}

/// A function and the file that its code is in.
fn of_file(Function { name, place, .. }: &Function, code: &str) -> String {
    match (place.as_str(), code) {
        ("", "") => format!("{name}()"),
        ("", code) => format!("{name}() of {code}"),
        (place, _) => format!("{name}() of {place}"),
    }
}

/// The function that half of a file's samples hit.
fn outstanding(work: &Work) -> Option<&Function> {
    work.functions.first().filter(|it| 2 * it.count >= work.count)
}

/// Where a thread stands within a time: `price() of shop.py:7`.
pub fn stands_in(model: &Model, thread: &ThreadRef, (from, to): (Ns, Ns)) -> Option<String> {
    let stack = model.user_stack(thread, from, to);
    if let Some(frame) = stack.and_then(|stack| user_stack::frame(&stack.frames)) {
        let file = if frame.line == 0 { String::new() } else { format!(" of {}", frame.place()) };
        return Some(format!("{}(){file}", frame.function));
    }
    let standing = goroutines::standing(model, thread.pid, (from, to));
    let mut asleep = standing.into_iter().filter(|one| go::sleeps(one));
    let only = asleep.next().filter(|_| asleep.next().is_none())?;
    goroutines::function(only).map(|function| format!("{function}()"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::measure::cpu_profile_tests::*;
    use crate::waits::timeline::Observed;

    #[test]
    fn an_interpreters_function_is_known_where_nothing_is_sampled() {
        let works = |readings| {
            let (thread, run_ns) = (thread(10, "python3"), LOOK_NS * 9 / 10);
            let time = ThreadTime { thread, until_ns: LOOK_NS, run_ns, ..ThreadTime::default() };
            let mut facts = host();
            facts.push(fact(Body::ThreadTime(time)));
            for at_ns in 0..readings {
                let frame =
                    UserFrame { function: "crunch".into(), module: "app.py".into(), line: 7 };
                let lock = InterpreterLock {
                    pid: 10,
                    holder_tid: 10,
                    frames: vec![frame],
                    ..InterpreterLock::default()
                };
                facts.push(Fact { at_ns, body: Body::InterpreterLock(lock) });
            }
            works_in(&Measures::of_observed(&Observed::new(facts)), 10)
        };
        assert_eq!(works(8).as_deref(), Some("crunch() of app.py:7 100 %"));
        assert_eq!(works(2), None, "too few");
    }

    #[test]
    fn a_program_that_grows_is_in_page_faults_with_what_it_has() {
        let works = |in_faults: u64| {
            let kernel: &[&str] = &["clear_page_erms", "handle_mm_fault"];
            let other: &[&str] = &["asm_sysvec_apic_timer_interrupt"];
            let mut facts = sampled(&[(kernel, in_faults), (other, 400 - in_faults), (&[], 100)]);
            for (code, count) in [("", 400), ("app", 100)] {
                let (process, code) = (thread(10, "app"), code.to_string());
                facts.push(fact(Body::Work(Work { process, code, count, ..Work::default() })));
            }
            facts.push(effort(Effort { rss_bytes_max: Some(3 << 29), ..Effort::default() }));
            works_in(&Measures::of_observed(&Observed::new(facts)), 10)
        };
        assert_eq!(works(400).as_deref(), Some("page faults 80 % (it has 1.50 GiB)"));
        assert_eq!(works(100), None);
    }

    #[test]
    fn the_functions_beside_the_first_are_named_too() {
        let mut facts = sampled(&[(&[], 100)]);
        let function =
            |name: &str, count| Function { name: name.into(), count, ..Function::default() };
        let functions = vec![function("deflate", 60), function("crc32", 20), function("copy", 1)];
        let (process, code) = (thread(10, "app"), "libz.so.1".to_string());
        let of = Work { process: process.clone(), code, count: 90, functions, ..Work::default() };
        facts.push(fact(Body::Work(of)));
        let call = Work { process, syscall: "write".into(), count: 10, ..Work::default() };
        facts.push(fact(Body::Work(call)));
        let observed = Observed::new(facts);
        let measures = Measures::of_observed(&observed);
        let named = works_in(&measures, 10).unwrap();
        assert_eq!(named, "deflate() of libz.so.1 60 %");
        let also = also_works_in(&measures, 10, &named);
        assert_eq!(also, ["crc32() of libz.so.1 20 %", "write() 10 %"]);
    }
}
