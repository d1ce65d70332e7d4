//! What each check of the virtual machine lab must be answered, judged from what the guest sent home.
//!
//! Four verdicts: `ok`; `wrong`; `lacks`, when holdup does not name the cause and says what it cannot see
//! instead; `refused`, when the fault's own proof shows that it did not bite, so that no answer counts.
//! Must not: know a kernel's version. Edit together: lab/vm/guest.

use holdup_reason::findings::{Report, Severity};
use serde::Serialize;
use std::path::Path;

/// In the order of the guest.
pub const NAMES: &[&str] = &[
    "doctor",
    "idle",
    "run",
    "flock",
    "flock-run",
    "stopped",
    "futex",
    "quota",
    "io-max",
    "memory-high",
    "memory-max",
];

/// The verdict on one check.
#[derive(Debug, Serialize)]
pub struct Seen {
    /// `ok`, `wrong`, `lacks` or `refused`.
    pub verdict: &'static str,
    /// The line of holdup that decided.
    pub said: String,
    /// What the fault itself showed.
    pub effect: String,
}

/// The code that must stand first, and what its culprit must name.
fn truth(check: &str) -> Option<(&'static str, &'static str)> {
    Some(match check {
        "flock" | "flock-run" => ("lock.file", "flock"),
        "stopped" => ("process.stopped", "holdup-lab-load"),
        "futex" => ("lock.futex", ""),
        "quota" => ("cpu.quota", "/webshop/cpu.max"),
        "io-max" => ("disk.own_throttle", "/journal/io.max"),
        "memory-high" => ("memory.limit", "/report/memory.high"),
        "memory-max" => ("memory.limit", "/cache/memory.max"),
        _ => return None,
    })
}

/// Judges one check by the files in `results`.
pub fn judge(check: &str, results: &Path) -> Seen {
    let text = |ending: &str| {
        std::fs::read_to_string(results.join(format!("{check}.{ending}"))).unwrap_or_default()
    };
    let effect = text("effect").trim().to_string();
    let seen = |verdict, said: String| Seen { verdict, said, effect: effect.clone() };
    if check == "doctor" {
        return doctor(&text("out"), seen);
    }
    let report: Report = match serde_json::from_str(&text("json")) {
        Ok(report) => report,
        Err(_) => return seen("wrong", format!("no answer: {}", text("err").trim())),
    };
    let told = report.findings.first().map_or("(nothing found)", |first| &first.title);
    let Some((code, culprit)) = truth(check) else {
        let alarm = report.findings.iter().find(|f| f.severity != Severity::Note);
        return match alarm {
            Some(alarm) => seen("wrong", alarm.title.clone()),
            None => seen("ok", "(nothing found)".into()),
        };
    };
    let right = report.findings.first().is_some_and(|first| {
        let named = [Some(first.culprit.name.as_str()), first.culprit.setting.as_deref()];
        first.code == code && named.iter().flatten().any(|name| name.contains(culprit))
    });
    // A proof that ends in "0", or begins with it, is one of no effect.
    let without_effect = effect.split(' ').any(|word| word == "0");
    let blind = report.caveats.iter().find(|caveat| caveat.code.starts_with("blind.kernel_events"));
    match (right, without_effect, blind) {
        (true, ..) => seen("ok", told.into()),
        (false, true, _) => seen("refused", told.into()),
        (false, false, Some(blind)) => seen("lacks", blind.text.clone()),
        (false, false, None) => seen("wrong", told.into()),
    }
}

fn doctor(out: &str, seen: impl Fn(&'static str, String) -> Seen) -> Seen {
    let hidden: Vec<&str> =
        out.lines().filter_map(|line| line.trim().strip_prefix("hidden  ")).collect();
    if out.is_empty() {
        return seen("wrong", "no answer".into());
    }
    let first = out.lines().next().unwrap_or_default();
    match hidden.as_slice() {
        [] => seen("ok", first.into()),
        hidden if hidden.iter().any(|what| what.starts_with("kernel_events")) => {
            seen("wrong", hidden.join("; "))
        }
        hidden => seen("lacks", hidden.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, lines: &str) -> Seen {
        let folder = std::env::temp_dir().join(format!("vm-checks-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("doctor.out"), lines).unwrap();
        let seen = judge("doctor", &folder);
        std::fs::remove_dir_all(&folder).unwrap();
        seen
    }

    #[test]
    fn a_kernel_without_events_is_wrong_and_one_without_a_tracepoint_lacks_it() {
        assert_eq!(said("whole", "holdup sees all it can use on guest.\n").verdict, "ok");
        assert_eq!(said("less", "One\n  hidden  tracepoint.qdisc_enqueue: no\n").verdict, "lacks");
        assert_eq!(said("none", "One\n  hidden  kernel_events: refused\n").verdict, "wrong");
        assert_eq!(said("dead", "").verdict, "wrong");
    }
}
