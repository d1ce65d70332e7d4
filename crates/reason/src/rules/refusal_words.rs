//! What the rules on refused calls share: when it is worth a sentence, how the tries are said, and their evidence.
//!
//! Must not: name codes, or decide what a refusal is for (waits/retries.rs).

use crate::facts::{TargetKind, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::refusals::Tries;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::wording::Evidence;
use crate::threshold::Threshold;

/// Part of the look that is slept between tries.
pub(crate) static SLEPT_MIN: Threshold = Threshold::new(
    0.05,
    "1",
    "seconds slept between tries for each second of the look; less is not worth a sentence",
    "chosen: a twentieth is below what a person notices",
);

/// The tries behind an end, if enough is lost between them.
pub(crate) fn tries<'m>(measures: &'m Measures<'m>, end: &End) -> Option<Tries<'m>> {
    let slept = end.seconds / measures.wall_seconds().max(1e-9);
    if slept < SLEPT_MIN.value {
        return None;
    }
    of_end(measures, end)
}

/// The tries behind an end, however little is lost between them: of a process that was asked about, or whom it waits for, no others' for the same.
pub(crate) fn of_end<'m>(measures: &'m Measures<'m>, end: &End) -> Option<Tries<'m>> {
    let target = measures.model.look.target.as_ref();
    let is_process = target.is_some_and(|it| it.kind == TargetKind::Process);
    let by = is_process.then(|| end.links[end.named].who.pid);
    Tries::of(measures.model, end.class, &end.object, by)
}

/// `2.60 s of 2.64 s pass in sleeps between 13 tries, each refused (mkdir: EEXIST).`
pub(crate) fn between(tries: &Tries<'_>, seconds: f64, wall_seconds: f64) -> String {
    let spent = words::of_window(seconds, wall_seconds);
    let call = call(tries);
    match tries.times {
        1 => format!("{spent} pass asleep after a try that was refused ({call})."),
        times => format!("{spent} pass in sleeps between {times} tries, each refused ({call})."),
    }
}

/// The call and its error, or that no call said so.
pub(crate) fn call(tries: &Tries<'_>) -> String {
    match tries.last.by_packet {
        true => "seen by its packet".into(),
        false => format!("{}: {}", tries.last.syscall, errno_name(tries.last.errno)),
    }
}

/// Who was refused, as the subject of a title: of whoever only waits for it that one's name.
pub(crate) fn subject(measures: &Measures<'_>, tries: &Tries<'_>, loss: &Loss<'_>) -> String {
    let refused = &tries.last.thread;
    let is_it = |(who, _): &(ThreadRef, f64)| who.pid == refused.pid;
    match loss.victims.is_empty() || loss.victims.iter().any(is_it) {
        true => loss.victim.clone(),
        false => measures.process_name(refused),
    }
}

/// How often, for how long, and how much was slept.
pub(crate) fn evidence(tries: &Tries<'_>, seconds: f64) -> Vec<Evidence> {
    let (what, source) = match tries.last.by_packet {
        true => ("packets of tries that were refused".to_string(), "kfree_skb"),
        false => {
            let error = errno_name(tries.last.errno);
            (format!("times {} returned {error}", tries.last.syscall), "sys_exit")
        }
    };
    vec![
        Evidence::new(what, tries.times as f64, "1", source),
        Evidence::new("from the first to the last", tries.seconds(), "s", source),
        Evidence::new("time slept between them", seconds, "s", "sched_switch"),
    ]
}

/// The kernel's name of an error.
pub(crate) fn errno_name(errno: i32) -> String {
    let name = match errno {
        1 => "EPERM",
        11 => "EAGAIN",
        12 => "ENOMEM",
        13 => "EACCES",
        16 => "EBUSY",
        17 => "EEXIST",
        22 => "EINVAL",
        23 => "ENFILE",
        24 => "EMFILE",
        27 => "EFBIG",
        28 => "ENOSPC",
        30 => "EROFS",
        98 => "EADDRINUSE",
        99 => "EADDRNOTAVAIL",
        0 => "end of file",
        101 => "ENETUNREACH",
        104 => "ECONNRESET",
        107 => "ENOTCONN",
        111 => "ECONNREFUSED",
        113 => "EHOSTUNREACH",
        116 => "ESTALE",
        122 => "EDQUOT",
        other => return format!("error {other}"),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::{host, of_process, refusal, slept};

    #[test]
    fn a_refusal_that_only_its_packet_shows_is_said_so() {
        const SECOND: Ns = 1_000_000_000;
        let said = |by_packet| {
            let mut facts = host();
            facts.push(of_process(10, "client"));
            for at in 1..=3 {
                let address = "10.0.0.7:5432".parse().ok();
                let one = refusal(10, "client", "connect");
                let one = Denied { by_packet, errno: 111, address, ..one };
                facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(one) });
                facts.push(slept(10, "client", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
            }
            let found = explain(facts).findings.remove(0);
            let of_calls = found.evidence[..2].iter().all(|it| it.source == "sys_exit");
            (found.text.contains("connect: ECONNREFUSED"), of_calls)
        };
        assert_eq!((said(false), said(true)), ((true, true), (false, false)));
    }
}
