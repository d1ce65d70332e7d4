//! What each check of the virtual machine lab must be answered, judged from what the guest sent home.
//!
//! Four verdicts: `ok`; `wrong`; `lacks`, when holdup does not name the cause and says what it cannot see
//! instead; `refused`, when the fault's own proof shows that it did not bite, so that no answer counts.
//! Must not: know a kernel's version. Edit together: lab/vm/checks (a file for each name of the list).

use holdup_reason::answer::{Finding, Report, Severity};
use serde::Serialize;
use std::path::Path;

/// What a check must be answered.
pub(super) enum Truth {
    /// `holdup doctor` sees kernel events.
    Doctor,
    /// Nothing above a note.
    Silence,
    /// This code stands first, and its object and its culprit contain these words.
    First { code: &'static str, object: &'static str, culprit: &'static str },
}

/// A check is a file of lab/vm/checks, and its truth.
pub(super) struct Check {
    pub name: &'static str,
    pub truth: Truth,
    /// The guest runs the printed way out, and measures before and after it (NAME.cured).
    pub way_out: bool,
    /// Which boot it is asked in.
    pub boot: Boot,
}

/// How a guest is booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boot {
    /// Every kernel, as it is.
    Plain,
    /// One kernel, with its second CPU kept free of whatever is not put there, and a node of memory for each CPU.
    Isolated,
}

impl Boot {
    /// What its kernel is given besides.
    pub(super) const fn parameters(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Isolated => "isolcpus=1",
        }
    }

    /// What the machine is made of besides.
    pub(super) const fn machine(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &[],
            Self::Isolated => &[
                "-object",
                "memory-backend-ram,id=m0,size=768M",
                "-object",
                "memory-backend-ram,id=m1,size=768M",
                "-numa",
                "node,nodeid=0,cpus=0,memdev=m0",
                "-numa",
                "node,nodeid=1,cpus=1,memdev=m1",
                "-numa",
                "dist,src=0,dst=1,val=21",
            ],
        }
    }
}

const fn first(
    name: &'static str,
    code: &'static str,
    object: &'static str,
    culprit: &'static str,
) -> Check {
    Check { name, truth: Truth::First { code, object, culprit }, way_out: false, boot: Boot::Plain }
}

const fn silence(name: &'static str) -> Check {
    Check { name, truth: Truth::Silence, way_out: false, boot: Boot::Plain }
}

const fn isolated(check: Check) -> Check {
    Check { boot: Boot::Isolated, ..check }
}

const fn with_way_out(check: Check) -> Check {
    Check { way_out: true, ..check }
}

/// In the order of the guest; one line each.
pub(super) const CHECKS: &[Check] = &[
    Check { truth: Truth::Doctor, ..silence("doctor") },
    silence("idle"),
    silence("run"),
    first("flock", "lock.file", "/tmp/held", "flock"),
    first("flock-run", "lock.file", "/tmp/held2", "flock"),
    first("stopped", "process.stopped", "", "holdup-lab-load"),
    first("futex", "lock.futex", "", ""),
    // Who waits without a descriptor of his own to tell it: the programs' longest walks.
    first("polled", "process.socket_peer", "", "pricing"),
    first("frozen", "fs.frozen", "/tmp/shop", ""),
    // cgroup v2
    first("quota", "cpu.quota", "", "/webshop/cpu.max"),
    first("io-max", "disk.own_throttle", "nullb0", "/journal/io.max"),
    first("memory-high", "memory.limit", "report", "/report/memory.high"),
    first("memory-max", "memory.limit", "cache", "/cache/memory.max"),
    with_way_out(first("compaction", "memory.compaction", "", "transparent_hugepage.defrag")),
    // Queueing disciplines
    first("netem-rate", "net.local_queue", "near0", "holdup-lab-load"),
    with_way_out(first("netem-delay", "net.local_queue", "near0", "netem delay")),
    first("netem-loss", "net.loss", "", "10.78.0.2"),
    with_way_out(first("fq-codel", "net.local_queue", "near0", "holdup-lab-load")),
    // modules
    first("cache-miss", "disk.cache_miss", "dm-", "cached"),
    first("raid1-stream", "disk.raid_imbalance", "md0", "md0 (raid1)"),
    first("nfs-lock", "net.dns_timeout", "127.0.0.1:53", "python3"),
    // A boot of their own
    isolated(first("isolated", "cpu.kernel_work_on_isolated", "1", "")),
    isolated(silence("isolated-empty")),
    isolated(with_way_out(first("remote-node", "memory.remote_node", "", "/model/cpuset.mems"))),
];

/// The verdict on one check.
#[derive(Debug, Serialize)]
pub(super) struct Seen {
    /// `ok`, `wrong`, `lacks` or `refused`.
    pub verdict: &'static str,
    /// The line of holdup that decided.
    pub said: String,
    /// What the fault itself showed.
    pub effect: String,
}

/// Judges one check by the files in `results`.
pub(super) fn judge(check: &Check, results: &Path) -> Seen {
    let Check { name: check, truth, way_out, .. } = check;
    let text = |ending: &str| {
        std::fs::read_to_string(results.join(format!("{check}.{ending}"))).unwrap_or_default()
    };
    let effect = text("effect").trim().to_string();
    let seen = |verdict, said: String| Seen { verdict, said, effect: effect.clone() };
    if matches!(truth, Truth::Doctor) {
        return doctor(&text("out"), seen);
    }
    let report: Report = match serde_json::from_str(&text("json")) {
        Ok(report) => report,
        Err(_) => return seen("wrong", format!("no answer: {}", text("err").trim())),
    };
    let reported = report.findings.first().map_or("(nothing found)", |first| &first.title);
    let Truth::First { code, object, culprit } = truth else {
        let alarm = report.findings.iter().find(|f| f.severity != Severity::Note);
        return match alarm {
            Some(alarm) => seen("wrong", alarm.title.clone()),
            None => seen("ok", "(nothing found)".into()),
        };
    };
    if let Some(first) = report.findings.first().filter(|first| first.code == *code)
        && let Some(differs) = differing(first, &text("figures"))
    {
        return seen("wrong", differs);
    }
    let right = report.findings.first().is_some_and(|first| {
        let named = [Some(first.culprit.name.as_str()), first.culprit.setting.as_deref()];
        first.code == *code
            && first.object.name.contains(object)
            && named.iter().flatten().any(|name| name.contains(culprit))
    });
    // A fault that did not bite proves nothing, whatever was answered.
    let without_effect = effect.is_empty() || effect.split(' ').any(|word| word == "0");
    let sights = ["blind.kernel_events", sight(code)];
    let blind = report.caveats.iter().find(|c| sights.iter().any(|at| c.code.starts_with(at)));
    match (right, without_effect, blind) {
        (_, true, _) => seen("refused", reported.into()),
        (true, false, _) if *way_out => match cure(&text("cured")) {
            Some((before, after, unit)) if after * 2 <= before => {
                seen("ok", format!("{reported}; its way out: {before} {unit}, then {after} {unit}"))
            }
            cure => seen("wrong", format!("the way out did not help: {cure:?}")),
        },
        (true, false, _) => seen("ok", reported.into()),
        (false, false, Some(blind)) => seen("lacks", blind.text.clone()),
        (false, false, None) => seen("wrong", reported.into()),
    }
}

/// What else a code cannot be decided without.
fn sight(code: &str) -> &'static str {
    match code {
        "net.local_queue" => "blind.tracepoint.qdisc_enqueue",
        _ => "blind.kernel_events",
    }
}

/// What was measured before and after, and its unit: milliseconds where none is named. None if either was not measured, and
/// no time is none.
fn cure(text: &str) -> Option<(u64, u64, &str)> {
    let mut words = text.split_whitespace();
    let (before, after) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let unit = words.next().unwrap_or("ms");
    (before > 0 && (after > 0 || unit != "ms")).then_some((before, after, unit))
}

/// The first figure of the guest that the finding does not tell, or tells otherwise.
fn differing(finding: &Finding, figures: &str) -> Option<String> {
    figures.lines().find_map(|line| {
        let mut fields = line.split('\t');
        let fact = fields.next()?;
        let number = |text: Option<&str>| text?.trim().parse::<f64>().ok();
        let (value, tolerance) = (number(fields.next()), number(fields.next()));
        let reported = finding.evidence.iter().find(|evidence| evidence.fact == fact);
        let reported = reported.map(|evidence| evidence.value);
        match (reported, value, tolerance) {
            (Some(reported), Some(value), Some(tolerance))
                if (reported - value).abs() <= tolerance =>
            {
                None
            }
            _ => Some(format!("\"{fact}\": {reported:?}, but the guest counts {value:?}")),
        }
    })
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
        let seen = judge(&CHECKS[0], &folder);
        std::fs::remove_dir_all(&folder).unwrap();
        seen
    }

    #[test]
    fn each_check_is_a_file_of_the_guest_and_each_file_is_judged() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vm/checks");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut names: Vec<String> =
            CHECKS.iter().map(|check| format!("{}.sh", check.name)).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names);
    }

    #[test]
    fn a_way_out_that_was_not_measured_is_none() {
        assert_eq!(cure("613 4\n"), Some((613, 4, "ms")));
        assert_eq!(cure("613 0 stalls\n"), Some((613, 0, "stalls")));
        assert_eq!(cure("613 0\n"), None, "nothing came back");
        assert_eq!(cure("613 "), None);
    }

    #[test]
    fn a_figure_that_is_missing_or_beyond_its_tolerance_differs() {
        let evidence = r#"{"fact": "hits", "value": 24.8, "unit": "%", "source": "s"}"#;
        let finding: Finding = serde_json::from_str(&format!(
            r#"{{"code": "disk.cache_miss", "title": "t", "severity": "warning", "confidence": 1,
                "object": {{"kind": "disk", "name": "d"}}, "culprit": {{"kind": "none", "name": ""}},
                "victims": [], "impact": {{"wait_seconds_per_second": 1, "share": 1}}, "chain": [],
                "evidence": [{evidence}], "remedy": [], "stories": []}}"#
        ))
        .unwrap();
        assert_eq!(differing(&finding, "hits\t25.0\t0.5\n"), None);
        assert_eq!(differing(&finding, ""), None);
        for wrong in ["hits\t26\t0.5", "misses\t1\t9", "hits\t\t1", "hits\t24.8"] {
            assert!(differing(&finding, wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_kernel_without_events_is_wrong_and_one_without_a_tracepoint_lacks_it() {
        assert_eq!(said("whole", "holdup sees all it can use on guest.\n").verdict, "ok");
        assert_eq!(said("less", "One\n  hidden  tracepoint.qdisc_enqueue: no\n").verdict, "lacks");
        assert_eq!(said("none", "One\n  hidden  kernel_events: refused\n").verdict, "wrong");
        assert_eq!(said("dead", "").verdict, "wrong");
    }
}
