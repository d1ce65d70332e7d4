//! What `tc` can do about a queue that stands or a rate that is used up: a queue for each flow, a shorter one, a delay taken away,
//! twice the rate, which alone helps him whose own bytes are all that stands there; each with its way back.
//!
//! Only what is put back whole can be replaced: with any other kind of discipline its settings, classes or filters would be
//! lost. Must not: say that a queue stands, or whose fault it is.

use crate::facts::QdiscSample;
use crate::measure::packet_queue::Queue;
use crate::model::words;
use crate::rules::action::Action;
use crate::rules::net::standing_queue::{FRAME_BYTES, TARGET};
use crate::rules::net::ways_out::ToolWithin;
use crate::rules::wording::Remedy;

/// Bits in a byte.
const BITS: u64 = 8;
/// Nanoseconds in tc's units of time.
const MILLISECOND_NS: u64 = 1_000_000;
const MICROSECOND_NS: u64 = 1_000;

/// Where a discipline stands, as tc wants it.
fn place(last: &QdiscSample) -> String {
    if last.parent == "root" { "root".into() } else { format!("parent {}", last.parent) }
}

/// A way out by what is given to tc.
fn by(tc: &ToolWithin, last: &QdiscSample, text: &str, words: &str, undo: &str) -> Remedy {
    let action = Action::tc(last.netns, &last.interface, words, undo).through(tc.through.as_ref());
    Remedy::to(text).set(action, format!("{tc} {words}"), format!("{tc} {undo}"))
}

/// A queue for each flow in place of a plain one. Only what is put back whole can be replaced: with any other kind
/// its settings, classes or filters would be lost.
pub(super) fn apart(tc: &ToolWithin, last: &QdiscSample) -> Option<Remedy> {
    // The kernel's own root of an adapter with several queues: a place below it has no handle that tc would find.
    if last.parent.starts_with("0:") {
        return None;
    }
    let device = words::shell(&last.interface);
    let limit = last.limit.map_or_else(String::new, |limit| format!(" limit {limit}"));
    let (place, before) = match last.kind.as_str() {
        // The shaper stays; its packets queue below it.
        "tbf" => (format!("parent {}1", last.handle), format!("bfifo{limit}")),
        "pfifo_fast" => (place(last), "pfifo_fast".into()),
        "pfifo" | "bfifo" | "pfifo_head_drop" => (place(last), format!("{}{limit}", last.kind)),
        _ => return None,
    };
    let words = |kind: &str| format!("qdisc replace dev {device} {place} {kind}");
    let text = "give each flow its own queue, so that a bulk flow delays only itself";
    Some(by(tc, last, text, &words("fq_codel"), &words(&before)))
}

/// The delay taken away. `change` leaves what it is not given, but for limit, delay, losses and duplicates.
pub(super) fn undelayed(tc: &ToolWithin, held: &QdiscSample) -> Remedy {
    let (Some(without), Some(with)) = (netem(held, None, false), netem(held, None, true)) else {
        return Remedy {
            text: format!(
                "take netem's delay away with `tc qdisc change`, and give its loss model again, which that forgets (`{tc} \
                 qdisc show dev {}` shows it)",
                words::shell(&held.interface)
            ),
            ..Remedy::default()
        };
    };
    by(tc, held, "take the delay away; what else netem does stays", &without, &with)
}

/// What sets netem to what it is, with another limit or without its delay. None where its words are not
/// enough.
fn netem(last: &QdiscSample, limit: Option<u64>, delay: bool) -> Option<String> {
    let netem = last.netem.as_ref()?;
    let time = |ns: u64| match ns {
        _ if ns.is_multiple_of(MILLISECOND_NS) => format!("{}ms", ns / MILLISECOND_NS),
        _ if ns.is_multiple_of(MICROSECOND_NS) => format!("{}us", ns / MICROSECOND_NS),
        _ => format!("{ns}ns"),
    };
    let mut command = format!(
        "qdisc change dev {} {} handle {} netem limit {}",
        words::shell(&last.interface),
        place(last),
        last.handle,
        limit.or(last.limit)?
    );
    if delay && netem.delay_ns > 0 {
        command += &format!(" delay {}", time(netem.delay_ns));
        if netem.jitter_ns > 0 {
            command += &format!(" {}", time(netem.jitter_ns));
        }
        // Without a delay nothing can overtake, and tc refuses it.
        if !netem.reorder.is_empty() {
            command += &format!(" {}", netem.reorder);
        }
    }
    let other = netem.other.as_ref()?;
    Some(if other.is_empty() { command } else { format!("{command} {other}") })
}

/// What sets tbf to this rate, burst and limit, bytes.
fn tbf(last: &QdiscSample, rate: u64, burst: u64, limit: u64) -> Option<String> {
    // tc cuts the time of a burst to whole ticks: of a quick rate, one that was read would be set a tick shorter.
    let burst = if rate as f64 > 1e6 { burst + 1 } else { burst };
    (last.kind == "tbf").then(|| {
        format!(
            "qdisc change dev {} {} handle {} tbf rate {}bit burst {burst} limit {limit}",
            words::shell(&last.interface),
            place(last),
            last.handle,
            rate * BITS
        )
    })
}

/// Twice the rate of a shaper, with as much longer a burst and queue, which last as long as before.
pub(super) fn quicker(tc: &ToolWithin, last: &QdiscSample) -> Option<Remedy> {
    let (rate, burst, limit) = (last.rate_bytes?, last.burst_bytes?, last.limit?);
    let set = |times: u64| tbf(last, rate * times, burst * times, limit * times);
    let text = "let the shaper pass twice as much, if the line behind it carries that: set too high, the queue forms there";
    Some(by(tc, last, text, &set(2)?, &set(1)?))
}

/// Whose own bytes are all that stands in a queue, sent or read, has them through sooner only by a greater rate, or a greater part of it.
pub(super) fn sooner(tc: &ToolWithin, queue: &Queue<'_>, sent: &str) -> Remedy {
    quicker(tc, queue.last).unwrap_or_else(|| {
        Remedy::to(format!(
            "let more through there, or send less: a shorter queue brings nothing sooner. Where others send over it too, a class of its own \
             (htb) with an assured rate gives {sent} its part"
        ))
    })
}

/// Where flows cannot be kept apart, a queue no longer than a good one: two frames, or what leaves within CoDel's target,
/// and half a frame more, in which small packets still find room when a full one does not. netem counts packets, those
/// that it holds for its delay too.
pub(super) fn shorter(tc: &ToolWithin, queue: &Queue<'_>) -> Option<Remedy> {
    let last = queue.last;
    let (rate, limit) = (last.rate_bytes?, last.limit?);
    let wanted = TARGET.value + queue.delay_seconds();
    let frames = ((queue.flow_rate() * wanted / FRAME_BYTES).ceil() as u64).max(2);
    let frame = FRAME_BYTES as u64;
    let bytes = frames * frame + frame / 2;
    let tbf = |bytes: u64| tbf(last, rate, last.burst_bytes?, bytes);
    let (short, length, change): (u64, String, &dyn Fn(u64) -> Option<String>) = match last
        .kind
        .as_str()
    {
        "tbf" => (bytes, words::bytes(bytes as f64), &tbf),
        "netem" => (frames, format!("{frames} packets"), &|limit| netem(last, Some(limit), true)),
        _ => return None,
    };
    if short >= limit {
        return None;
    }
    let text = format!(
        "keep the queue short, {length}: nobody waits long in it, and what is sent too fast is dropped (TCP slows down by \
         that, a UDP flood loses packets)"
    );
    Some(by(tc, last, &text, &change(short)?, &change(limit)?))
}
