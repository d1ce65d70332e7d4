//! Builders of scenes with one sampled process, for the tests of the rules that read samples.
//!
//! Owns only builders; process 10 is `app`, and a sample stands for 5 ms. No rule here.

use crate::facts::*;
pub(crate) use crate::rules::scenes::*;

const HZ: u32 = 200;

/// A look in which process 10 was sampled in these kernel stacks; an empty one is its own code. It sleeps
/// for the rest of the look.
pub(crate) fn sampled(stacks: &[(&[&str], u64)]) -> Vec<Fact> {
    let mut facts = host();
    for (at, (frames, count)) in stacks.iter().enumerate() {
        let id = if frames.is_empty() { 0 } else { at as u32 + 1 };
        let frames = frames.iter().map(|f| (*f).to_string()).collect();
        facts.push(fact(Body::Stack(Stack { id: at as u32 + 1, frames })));
        facts.push(fact(Body::Samples(Samples {
            process: thread(10, "app"),
            stack: id,
            count: *count,
            frequency_hz: HZ,
        })));
    }
    let samples: u64 = stacks.iter().map(|(_, count)| count).sum();
    let run_ns = samples * 1_000_000_000 / u64::from(HZ);
    facts.push(fact(Body::ThreadTime(ThreadTime {
        thread: thread(10, "app"),
        until_ns: LOOK_NS,
        run_ns,
        sleep_ns: LOOK_NS - run_ns,
        ..ThreadTime::default()
    })));
    facts
}

/// Samples of it in a system call.
pub(crate) fn in_call(syscall: &str, path: &str, count: u64, asked_bytes: u64) -> Fact {
    let work = Work { syscall: syscall.into(), path: path.into(), asked_bytes, ..of(count) };
    fact(Body::Work(work))
}

/// Samples of it in the code of a file.
pub(crate) fn in_code(code: &str, count: u64) -> Fact {
    fact(Body::Work(Work { code: code.into(), ..of(count) }))
}

fn of(count: u64) -> Work {
    let process = thread(10, "app");
    Work { process, count, same_name: count, frequency_hz: HZ, ..Work::default() }
}

/// Its thread's counters over the whole look.
pub(crate) fn effort(effort: Effort) -> Fact {
    fact(Body::Effort(Effort {
        thread: thread(10, "app"),
        since_ns: 0,
        until_ns: LOOK_NS,
        ..effort
    }))
}
