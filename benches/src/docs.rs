//! docs/cost.md, docs/cost.svg and docs/cost.json: the last run that was kept.
//!
//! The document is made from the JSON alone, so that a test can make it again and compare: nobody fixes a
//! figure by hand. What is prose stands here; it may explain a figure, not praise it.

use crate::growth::QUICK;
use crate::loads::KINDS;
use crate::lookers::MORE;
use crate::pairs::{MORE_ROUNDS, SECONDS_MAX};
use crate::plot;
use crate::results::Results;
use crate::table;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The document.
pub fn page(results: &Results) -> String {
    let mut text = String::from(
        "# What looking costs\n\nWritten by `make bench ARGS=--write-docs` from [cost.json](cost.json); not to be \
         edited by hand.\n\n",
    );
    let _ = writeln!(text, "Machine: {}.\n", results.machine.sentence());
    let slices = results.slice_seconds.map(|length| format!("slices of {length:.1} s, "));
    let _ = writeln!(
        text,
        "Run: `{}`, {} rounds, {}loads of {:.1} s, {:.0} s in all.\n",
        results.command,
        results.rounds,
        slices.unwrap_or_default(),
        results.load_seconds,
        results.seconds
    );
    text.push_str(
        "```console untested=takes-up-to-20-minutes-and-a-quiet-machine\n$ make bench\n$ make bench \
         ARGS=\"--only pingpong --rounds 40\"\n$ make bench ARGS=--write-docs\n$ cargo bench -p holdup-bench\n```\n\n",
    );
    section(&mut text, "Goals", GOALS, &table::goals(results));
    section(&mut text, "Loads under lookers", &pairs(), &table::pairs(results));
    if !results.counted.is_empty() {
        section(&mut text, "Counted", COUNTED, &table::counted(results));
    }
    section(&mut text, "In the kernel", PROGRAMS, &table::programs(results));
    if !results.growth.is_empty() {
        section(&mut text, "Growth", &growth(results), &table::growth(results));
        text.push_str("![Cost against threads, cgroups and switches a second](cost.svg)\n\n");
    }
    section(&mut text, "Where its own time goes", PROFILE, &table::profiles(results));
    section(&mut text, "Size", SIZE, &table::size(results));
    section(&mut text, "The rest", REST, &table::rest(results));
    format!("{}\n", text.trim_end())
}

fn section(text: &mut String, title: &str, prose: &str, block: &str) {
    if !block.trim().is_empty() {
        let _ = writeln!(text, "## {title}\n\n{prose}\n\n```text\n{}\n```\n", block.trim_end());
    }
}

/// How loads are measured, and what they are.
fn pairs() -> String {
    let mut text = String::from(PAIRS);
    for kind in KINDS {
        let _ = write!(text, "\n- *{}*: {}", kind.name, kind.what);
    }
    text
}

fn growth(results: &Results) -> String {
    let looks = results.growth.iter().flat_map(|series| &series.points).map(|point| point.looks);
    match looks.max() {
        Some(looks @ 2..) => format!(
            "{GROWTH} Of up to {looks} looks at each\nsize the one in the middle by CPU time is reported: one alone swings \
             by what thousands of threads cost."
        ),
        _ => GROWTH.into(),
    }
}

const GOALS: &str = "A ratio is time with the looker over time with nothing; the figure is the median over the rounds. \
    *95 %* is the\ninterval that holds the true median 95 times in a hundred. A ratio's goal is *met* if all of the \
    interval keeps it,\n*MISSED* if none of it does. Else the ratio cannot tell, however good the median looks, and \
    what was counted (below)\ndecides: *by count*. *With every program empty* is what the count would be if holdup's \
    programs did nothing: no\nBPF program at these moments can cost less. The ping-pong's is judged by what the \
    look loses beyond 1.5 times the floor's\nloss, drawn again 4,000 times from whole rounds (bootstrap). Where \
    *nothing again*, the control, misses 1, all intervals of\nthe load are widened by as much. The ping-pong gets more \
    rounds than the others, as its goal is about two small losses.";
const PAIRS: &str = "In each round *empty programs*, *holdup* and *nothing again* look at a slice of the load by turns; \
    who is first goes\nround. Before and after each lies a slice that nobody looks at, and the ratio is against the \
    mean of these two. A load\nthat can runs all the time, and its rate is read from the kernel or its server at \
    both ends of a slice; messaging and\ncompile are run anew for each slice, and their own figure taken. A looker \
    is attached and quiet before its slice begins\nand ends after it, so begin and end (some 0.2 s of CPU for holdup) \
    are in *own CPU* and not in the ratio. holdup looks\nfor twice as long as the others, so that what it does each \
    second is in its slice. The other lookers have few rounds;\n*holdup run* is measured on whole loads, start and \
    end included.\n\n*95 %* is the interval of the ratio's median; with too few rounds for one, lowest and highest stand \
    in brackets. *n* is\nthe number of rounds. *own CPU* and *peak* are of the looker's process, its kernel side is \
    in the ratio. *written* is\nits recording (or what a peer wrote), *answer* the seconds from the window's end to \
    the report, while the load goes on.\n*empty programs* is the floor: nothing that looks at every switch and \
    wake-up can be cheaper.\n";
const COUNTED: &str = "A cost of one percent is hidden by a machine whose pace drifts by several; a count is not. Of each load's \
    CPU time\n(all CPUs, while holdup looked for some seconds): every run of a kernel program times what a run takes, and holdup's \
    own\nCPU time. A run takes what BPF statistics say of it less what they say of an empty program, and the way to \
    a program and\nback, which was measured on a thread that renames itself. That is less than it takes amid a load, and \
    swings: so the\nping-pong's goal asks of a count only what holdup takes beyond empty programs, and compares it with half \
    of what the\nfloor's ratio says. Not counted: what a program pushes out of the caches, and the sampling clock's interrupt.";
const PROGRAMS: &str = "By BPF statistics, under the ping-pong. The statistics count some of their own time: subtract \
    what the empty\nprograms (`floor_`) take. Each `with_` program does one thing more than they: reads the clock, \
    looks into a per-CPU\narray, a hash, the task's storage, or reserves 256 bytes of a ring.";
const GROWTH: &str = "A look of 2 s at each size, BPF statistics on. Threads sleep, cgroups are empty, switches come from \
    threads that\nwait 2 ms for each other, each of which is long enough to be reported.";
const PROFILE: &str = "CPU time of a look of 5 s, its begin and end included, sampled by `perf record`; `k` stands for the \
    kernel at\nwork for it. What its programs take on other threads' time is in the table of the kernel.";
const SIZE: &str = "What the parts of the shipped binary take (`make bench ARGS=\"--only size\"`, a second). Code is counted by symbol, and a \
    function of the\nstandard library that was compiled for a type of ours as ours. `holdup_probe` without more is what no row above it has, and so is \
    `holdup`.";
const REST: &str =
    "Rates of parts are the best of several, on one core, fed with the recordings of the tests.";

/// Writes the three files.
pub fn write(results: &Results, folder: &Path) -> Result<()> {
    let results = &of_no_machine(results);
    let mut json = serde_json::to_string_pretty(results)?;
    json.push('\n');
    for (name, text) in [
        ("cost.json", json),
        ("cost.md", page(results)),
        ("cost.svg", plot::growth(&results.growth)),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Parts that may be of another run than the rest: a size needs no machine that is quiet, and what is run all the time is compared
/// within its own part alone.
pub const ALONE: &[&str] = &["size", "watch"];

/// The figures in `folder` with one of these parts out of `new`.
///
/// # Errors
/// `cost.json` is not there or of another form.
pub fn with_alone(folder: &Path, part: &str, new: Results) -> Result<Results> {
    let path = folder.join("cost.json");
    let json = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let old: Results = serde_json::from_slice(&json)
        .with_context(|| format!("{}: not of this form: measure all of it", path.display()))?;
    Ok(match part {
        "watch" => Results { daemons: new.daemons, ..old },
        _ => Results { binary_bytes: new.binary_bytes, size: new.size, ..old },
    })
}

/// The same without the places of this machine, which stand in what programs said.
fn of_no_machine(results: &Results) -> Results {
    let mut results = results.clone();
    let reported = results.trouble.iter_mut();
    let reported =
        reported.chain(results.pairs.iter_mut().filter_map(|pair| pair.refusal.as_mut()));
    let reported =
        reported.chain(results.floods.iter_mut().flat_map(|flood| flood.named.iter_mut()));
    reported.chain([&mut results.command]).for_each(|text| *text = without_places(text));
    results
}

/// Of a path its last name, but of the kernel's own files, which are the same everywhere.
fn without_places(text: &str) -> String {
    let word = |word: &str| -> String {
        let Some(begin) = word.find('/').filter(|at| {
            // Not the stroke of `k/s` or `1/2`, nor of a relative path of the repository.
            !word[..*at].ends_with(|before: char| before.is_alphanumeric())
        }) else {
            return word.into();
        };
        let path = &word[begin..];
        if ["/proc/", "/sys/", "/dev/"].iter().any(|own| path.starts_with(own)) {
            return word.into();
        }
        format!("{}{}", &word[..begin], path.rsplit('/').next().unwrap_or_default())
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A guess at how long a run takes, seconds.
pub fn estimate(
    loads: usize,
    rounds: usize,
    (load_seconds, slice_seconds): (f64, f64),
    parts: usize,
    quick: bool,
) -> f64 {
    // A slice settles for some time; a looker takes some to be ready and to end.
    let slice = slice_seconds + 0.07;
    let round = 5.0 * slice + 2.0 * slice_seconds + 0.9;
    let others = MORE.len() as f64 * (2.0 * slice + 1.6) + slice_seconds + 3.0 * load_seconds + 3.0;
    let each = rounds as f64 * round + rounds.min(MORE_ROUNDS) as f64 * others + load_seconds + 2.0;
    let part = if quick { 5.0 + QUICK.threads.len() as f64 * 2.0 } else { 32.0 };
    (loads as f64 * each).min(SECONDS_MAX) + parts as f64 * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_document_is_what_its_figures_say() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let Ok(json) = fs::read_to_string(docs.join("cost.json")) else {
            panic!("docs/cost.json is missing: make bench ARGS=--write-docs")
        };
        let results: Results = serde_json::from_str(&json).unwrap();
        assert!(!results.pairs.is_empty() && !results.machine.kernel.is_empty());
        let checked_in = fs::read_to_string(docs.join("cost.md")).unwrap();
        assert!(checked_in == page(&results), "docs/cost.md is not made from docs/cost.json");
        let checked_in = fs::read_to_string(docs.join("cost.svg")).unwrap();
        assert!(checked_in == plot::growth(&results.growth), "docs/cost.svg is not made from it");
    }

    #[test]
    fn a_size_of_another_run_takes_nothing_else_out() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let old: Results =
            serde_json::from_slice(&fs::read(docs.join("cost.json")).unwrap()).unwrap();
        let new = Results { binary_bytes: old.binary_bytes + 1, ..Results::default() };
        let merged = with_alone(&docs, "size", new).unwrap();
        assert_eq!((merged.binary_bytes, merged.size.len()), (old.binary_bytes + 1, 0));
        assert_eq!((merged.pairs, merged.growth.len()), (old.pairs, old.growth.len()));
        let daemons = vec![crate::results::Daemon::default()];
        let merged = with_alone(&docs, "watch", Results { daemons, ..Results::default() }).unwrap();
        assert_eq!((merged.daemons.len(), merged.binary_bytes), (1, old.binary_bytes));
        assert!(with_alone(Path::new("/nowhere"), "size", Results::default()).is_err());
    }

    #[test]
    fn a_whole_run_fits_its_time() {
        use crate::pairs::{LOAD_SECONDS, ROUNDS, SLICE_SECONDS};
        let seconds = estimate(KINDS.len(), ROUNDS, (LOAD_SECONDS, SLICE_SECONDS), 6, false);
        assert!(seconds < 16.0 * 60.0, "{seconds}");
        let loads = estimate(KINDS.len(), ROUNDS, (LOAD_SECONDS, SLICE_SECONDS), 0, false);
        assert!(loads < SECONDS_MAX, "rounds would be left out: {loads}");
    }

    #[test]
    fn no_place_of_the_machine_is_reported() {
        assert_eq!(
            without_places("run /home/me/x/holdup: no (/tmp/a/b.img)"),
            "run holdup: no (b.img)"
        );
        assert_eq!(
            without_places("581 k/s of /proc/sys/kernel/x"),
            "581 k/s of /proc/sys/kernel/x"
        );
        let trouble = vec!["open /home/me/secret/place: no".into()];
        let refusal = Some("no /home/me/bin/perf".into());
        let pairs = vec![crate::results::Pair { refusal, ..Default::default() }];
        let page = page(&of_no_machine(&Results { trouble, pairs, ..Results::default() }));
        assert!(page.contains("open place") && !page.contains("/home"), "{page}");
    }
}
