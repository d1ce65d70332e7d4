//! Commands that the ways out of this area share: where a tool must run, whose file is meant, how to quieten a sender.
//!
//! An interface is named together with its network namespace, so the tool must be run there. Must not: run anything, or
//! say when a way out fits.

use crate::facts::ThreadRef;
use crate::model::{Model, words};
use crate::rules::wording::Remedy;

/// Bits in a byte.
const BITS: f64 = 8.0;
/// Digits of gigabits and megabits that tc does not lose.
const GIGABIT_DIGITS: usize = 4;
const MEGABIT_DIGITS: usize = 3;

/// How a person runs a command where an interface is: `tc`, `tc -n NAME`, `nsenter -t PID -n tc`.
pub fn command_in(model: &Model, netns: u32, tool: &str) -> String {
    let name = model.links.iter().find(|l| l.netns == netns).map_or("", |l| &l.netns_name);
    match name.strip_prefix("pid:") {
        _ if name.is_empty() => tool.to_string(),
        Some(pid) => format!("nsenter -t {pid} -n {tool}"),
        None if matches!(tool, "tc" | "ip") => format!("{tool} -n {}", words::shell(name)),
        None => format!("ip netns exec {} {tool}", words::shell(name)),
    }
}

/// Stops a process until it is continued, for who is only too loud.
pub fn pause(who: &ThreadRef) -> Remedy {
    Remedy {
        text: format!(
            "pause {}: it sends nothing more, and does nothing else, until it is continued",
            words::who(who)
        ),
        command: format!("kill -STOP {}", who.pid),
        undo: format!("kill -CONT {}", who.pid),
    }
}

/// A rate as tc writes it.
pub fn bits(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * BITS;
    let short = |value: f64, digits: usize, unit: &str| {
        let text = format!("{value:.digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_string() + unit
    };
    match bits {
        _ if bits >= 1e9 => short(bits / 1e9, GIGABIT_DIGITS, "gbit"),
        _ if bits >= 1e6 => short(bits / 1e6, MEGABIT_DIGITS, "mbit"),
        _ => format!("{:.0}kbit", bits / 1e3),
    }
}
