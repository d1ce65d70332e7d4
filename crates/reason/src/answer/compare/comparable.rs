//! Which looks can be compared, and what a reader must know of those that can.
//!
//! Two sides must be of one kind and of one program: else the difference says nothing, and it is refused with what to do.
//! What makes a difference less sure (another kernel, another window, other privileges, events lost) is a caveat. Must not:
//! compare figures.

use super::look::Look;
use crate::answer::report::Caveat;
use crate::facts::TargetKind;
use crate::model::words;
use std::collections::BTreeSet;

/// A look of a side, with the name of its recording.
pub struct Named {
    /// The recording, as it was given.
    pub recording: String,
    /// The look.
    pub look: Look,
}

/// Why two looks cannot be compared, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One sentence without a full stop.
    pub why: String,
    /// One sentence.
    pub advice: String,
}

fn kind(look: &Look) -> TargetKind {
    look.report.target.kind
}

fn kind_words(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Host => "a host",
        TargetKind::Container => "a container",
        TargetKind::Process => "a process",
        TargetKind::Command => "a command",
    }
}

/// The file name of the first word.
fn first_word(look: &Look) -> &str {
    let first = look.report.target.name.split(' ').next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or(first)
}

/// Refuses what cannot be compared.
pub(super) fn check(before: &[Named], after: &[Named]) -> Result<(), Refusal> {
    let all: Vec<&Named> = before.iter().chain(after).collect();
    let (Some(first), false, false) = (all.first(), before.is_empty(), after.is_empty()) else {
        return Err(Refusal {
            why: "a side has no recording".into(),
            advice: "Give at least one recording for each side.".into(),
        });
    };
    for other in &all[1..] {
        let (one, two) = (kind(&first.look), kind(&other.look));
        if one != two {
            return Err(Refusal {
                why: format!(
                    "{} is of {} and {} of {}: their seconds do not mean the same",
                    first.recording,
                    kind_words(one),
                    other.recording,
                    kind_words(two)
                ),
                advice: "Record both in the same way: `holdup record FILE -- CMD` for a command, -p for a process, \
                         -c for a container."
                    .into(),
            });
        }
        let is_program = matches!(one, TargetKind::Command | TargetKind::Process);
        let differs = first.look.program != other.look.program
            && (one == TargetKind::Process || first_word(&first.look) != first_word(&other.look));
        if is_program && differs {
            return Err(Refusal {
                why: format!(
                    "{} is of {} and {} of {}: another program does other work",
                    first.recording,
                    program(&first.look),
                    other.recording,
                    program(&other.look)
                ),
                advice: "Record the same program on both sides; its arguments may differ.".into(),
            });
        }
    }
    all.into_iter().find_map(unusable).map_or(Ok(()), Err)
}

/// A look that cannot be compared with anything.
fn unusable(Named { recording, look }: &Named) -> Option<Refusal> {
    if is_cut_off(look) {
        return Some(Refusal {
            why: format!(
                "{recording} was cut off before its command ended: what the command's time was lost to is not in it"
            ),
            advice: "Whoever recorded was killed, or the copy is not whole: copy it again, or record again."
                .into(),
        });
    }
    is_empty(look).then(|| Refusal {
        why: format!("{recording} has no time in it: nothing was seen"),
        advice: "`holdup --from FILE` says what limited that look; record again.".into(),
    })
}

/// A command that was looked at says which process it was when it ends; before that no path of it is known.
fn is_cut_off(look: &Look) -> bool {
    look.is_command() && look.program.is_empty() && look.report.target.exit_status.is_none()
}

/// Neither the sums of threads nor a wait were seen.
fn is_empty(look: &Look) -> bool {
    look.report.accounting.wall_seconds <= 0.0 && look.ends.is_empty()
}

fn program(look: &Look) -> String {
    match (kind(look), first_word(look)) {
        (TargetKind::Command, word) if word != look.program && !look.program.is_empty() => {
            format!("{word} ({})", look.program)
        }
        (TargetKind::Command, word) => word.into(),
        _ => look.program.clone(),
    }
}

/// What is blind on one side only, and could hide something there.
pub(super) fn blind_here(side: &[Named], other: &[Named]) -> Vec<String> {
    let blind = |side: &[Named]| -> BTreeSet<String> {
        let all = side.iter().flat_map(|it| &it.look.blind);
        let hides = |what: &str| what != "task_storage" && !what.starts_with("netns");
        all.filter(|it| it.pids.is_empty() && hides(&it.what)).map(|it| it.what.clone()).collect()
    };
    blind(side).difference(&blind(other)).cloned().collect()
}

/// What a reader must know.
pub(super) fn caveats(before: &[Named], after: &[Named]) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let mut add = |code: &str, text: String| caveats.push(Caveat { code: code.into(), text });
    let mut differs = |code: &str, what: &str, of: &dyn Fn(&Look) -> String| {
        let values = |side: &[Named]| -> Vec<String> {
            let all: BTreeSet<String> = side.iter().map(|it| of(&it.look)).collect();
            all.into_iter().collect()
        };
        let (was, is) = (values(before), values(after));
        if was != is {
            add(code, format!("{what}: {} before, {} after", was.join(" and "), is.join(" and ")));
        }
    };
    differs("other_machine", "not the same machine", &|look| look.host.hostname.clone());
    differs("other_kernel", "not the same kernel", &|look| look.host.kernel.clone());
    differs("other_cpus", "not as many CPUs", &|look| look.host.cpus.to_string());
    differs("other_target", "not the same words or name", &|look| match kind(look) {
        TargetKind::Host => String::new(),
        _ => look.report.target.name.clone(),
    });
    differs("other_exit_status", "not the same exit status", &|look| {
        let status = look.report.target.exit_status;
        status.map_or_else(|| "none".into(), |status| status.to_string())
    });
    differs("other_version", "not the same holdup", &|look| look.report.tool.version.clone());
    differs("other_sight", "not seen in the same way", &|look| match look.host.kernel_events {
        true => "kernel events".into(),
        false => "/proc alone".into(),
    });
    windows(before, after, &mut caveats);
    twice(before, after, &mut caveats);
    losses(before, "before", &mut caveats);
    losses(after, "after", &mut caveats);
    for (side, other, word) in [(before, after, "before"), (after, before, "after")] {
        let blind = blind_here(side, other);
        if !blind.is_empty() {
            let text = format!(
                "could not be seen {word}, and could on the other side: {}",
                blind.join(", ")
            );
            caveats.push(Caveat { code: "blind".into(), text });
        }
    }
    caveats
}

/// Windows of different length, which is why all figures are per second.
fn windows(before: &[Named], after: &[Named], caveats: &mut Vec<Caveat>) {
    let mean = |side: &[Named]| {
        let all: f64 = side.iter().map(|it| it.look.report.window.seconds).sum();
        all / side.len().max(1) as f64
    };
    let (was, is) = (mean(before), mean(after));
    let is_command = before.iter().any(|it| it.look.is_command());
    if !is_command && (was - is).abs() > was.max(is) / 100.0 {
        let text = format!(
            "not looked for as long: {} before, {} after; all figures are seconds in a second of the look",
            words::seconds(was),
            words::seconds(is)
        );
        caveats.push(Caveat { code: "other_window".into(), text });
    }
}

/// A recording that was given for both sides, perhaps by mistake.
fn twice(before: &[Named], after: &[Named], caveats: &mut Vec<Caveat>) {
    let names: BTreeSet<&str> = before.iter().map(|it| it.recording.as_str()).collect();
    let both = after.iter().map(|it| it.recording.as_str()).filter(|name| names.contains(name));
    let both: BTreeSet<&str> = both.collect();
    if !both.is_empty() {
        let all = both.into_iter().collect::<Vec<_>>().join(", ");
        let text = format!("on both sides, so that it does not differ from itself: {all}");
        caveats.push(Caveat { code: "same_recording".into(), text });
    }
}

fn losses(side: &[Named], word: &str, caveats: &mut Vec<Caveat>) {
    let lost: u64 = side.iter().map(|it| it.look.report.cost.events_lost).sum();
    if lost > 0 {
        let text = format!("{lost} events were lost {word}: figures there are lower bounds");
        caveats.push(Caveat { code: "events_lost".into(), text });
    }
    if side.iter().any(|it| it.look.is_cut()) {
        let text =
            format!("the look {word} ended before the command did: its wall time is a lower bound");
        caveats.push(Caveat { code: "ended_early".into(), text });
    }
}
