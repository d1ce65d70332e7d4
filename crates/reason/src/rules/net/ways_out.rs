//! Commands that the ways out of this area share: where a tool must run, whose file is meant, how to quieten a sender.
//!
//! An interface is named together with its network namespace, so the tool must be run there. Must not: run anything, or
//! say when a way out fits.

use crate::facts::ThreadRef;
use crate::model::{Model, words};
use crate::rules::rule::there_or_beside;
use crate::rules::wording::Remedy;

/// Bits in a byte.
const BITS: f64 = 8.0;
/// Digits of gigabits and megabits that tc does not lose.
const GIGABIT_DIGITS: usize = 4;
const MEGABIT_DIGITS: usize = 3;

/// A tool as it is run where an interface is.
pub(crate) struct ToolWithin {
    /// Its first words.
    words: String,
    /// Through which process the namespace is entered, if it has no name.
    pub through: Option<ThreadRef>,
}

impl std::fmt::Display for ToolWithin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

/// How a person runs a command where an interface is: `tc`, `tc -n NAME`, `nsenter -t PID -n tc`.
pub(crate) fn command_in(model: &Model, netns: u32, tool: &str) -> ToolWithin {
    let name = model.net.links.iter().find(|l| l.netns == netns).map_or("", |l| &l.netns_name);
    let pid = name.strip_prefix("pid:").and_then(|pid| pid.parse::<u32>().ok());
    let is_within =
        |other: &ThreadRef| model.threads.identity(other).is_some_and(|it| it.netns == netns);
    let through = pid.map(|pid| there_or_beside(model, &model.threads.thread_ref(pid), is_within));
    let words = match &through {
        _ if name.is_empty() => tool.to_string(),
        Some(by) => format!("nsenter -t {} -n {tool}", by.pid),
        None if matches!(tool, "tc" | "ip") => format!("{tool} -n {}", words::shell(name)),
        None => format!("ip netns exec {} {tool}", words::shell(name)),
    };
    ToolWithin { words, through }
}

/// A command over files of /sys/class/net, as it is run where an interface is. /sys shows the interfaces of the network namespace in which it was
/// mounted: `ip netns exec` mounts it anew, who enters by a process does so for itself.
pub(crate) fn sysfs_in(model: &Model, netns: u32, command: &str) -> ToolWithin {
    let shell = |command: &str| format!("sh -c {}", words::shell(command));
    let within = command_in(model, netns, &shell(command));
    let anew =
        || format!("unshare -m {}", shell(&format!("mount -t sysfs sysfs /sys && {command}")));
    match &within.through {
        Some(_) => command_in(model, netns, &anew()),
        None if within.words.starts_with("sh ") => {
            ToolWithin { words: command.to_string(), through: None }
        }
        None => within,
    }
}

/// Stops a process until it is continued, for who is only too loud.
pub(crate) fn pause(who: &ThreadRef) -> Remedy {
    let text = format!(
        "pause {}: it sends nothing more, and does nothing else, until it is continued",
        words::who(who)
    );
    Remedy::to(text).pause(who)
}

/// A rate as tc writes it.
pub(crate) fn bits(bytes_per_second: f64) -> String {
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
