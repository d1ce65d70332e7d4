//! docs/cost.md, docs/cost.svg and docs/cost.json: the last run that was kept.
//!
//! The document is made from the JSON alone, so that a test can make it again and compare: nobody mends a
//! figure by hand. What is prose stands here; it may explain a figure, not praise it.

use crate::growth::QUICK;
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
    let _ = writeln!(
        text,
        "Run: `{}`, {} rounds, loads of {:.1} s, {:.0} s in all.\n",
        results.command, results.rounds, results.load_seconds, results.seconds
    );
    text.push_str(
        "```console untested=takes-up-to-20-minutes-and-a-quiet-machine\n$ make bench\n$ make bench \
         ARGS=\"--only pingpong --rounds 9\"\n$ make bench ARGS=--write-docs\n$ cargo bench -p holdup-bench\n```\n\n",
    );
    section(&mut text, "Goals", GOALS, &table::goals(results));
    section(&mut text, "Loads under lookers", PAIRS, &table::pairs(results));
    section(&mut text, "In the kernel", PROGRAMS, &table::programs(results));
    if !results.growth.is_empty() {
        section(&mut text, "Growth", GROWTH, &table::growth(results));
        text.push_str("![Cost against threads, cgroups and switches a second](cost.svg)\n\n");
    }
    section(&mut text, "Where its own time goes", PROFILE, &table::profiles(results));
    section(&mut text, "The rest", REST, &table::rest(results));
    format!("{}\n", text.trim_end())
}

fn section(text: &mut String, title: &str, prose: &str, block: &str) {
    if !block.trim().is_empty() {
        let _ = writeln!(text, "## {title}\n\n{prose}\n\n```text\n{}\n```\n", block.trim_end());
    }
}

const GOALS: &str = "A ratio is time with the looker over time with nothing. *Noise* is half the range of what two \
    equal runs of\nthe load differed by; a figure that is above its goal by less is told as within noise.";
const PAIRS: &str = "Ratios are taken within a round, against the mean of nothing at its begin and at its end; shown \
    are median, lowest,\nhighest and the number of rounds. *own CPU* and *peak* are of the looker's process, \
    its kernel side is in the ratio.\n*written* is its recording (or what a peer wrote), *answer* the seconds from the \
    window's end to the report.\n*empty programs* is the floor: nothing that looks at every switch and wake-up can be \
    cheaper.";
const PROGRAMS: &str = "By BPF statistics, under the ping-pong. The statistics count some of their own time: subtract \
    what the empty\nprograms (`floor_`) take. Each `with_` program does one thing more than they: reads the clock, \
    looks into a per-CPU\narray, a hash, the task's storage, or reserves 256 bytes of a ring.";
const GROWTH: &str = "A look of 2 s at each size, BPF statistics on. Threads sleep, cgroups are empty, switches come from \
    threads that\nwait 2 ms for each other, each of which is long enough to be told.";
const PROFILE: &str = "CPU time of a look of 5 s, its begin and end included, sampled by `perf record`; `k` stands for the \
    kernel at\nwork for it. What its programs take on other threads' time is in the table of the kernel.";
const REST: &str =
    "Rates of parts are the best of several, on one core, fed with the recordings of the tests.";

/// Writes the three files.
pub fn write(results: &Results, folder: &Path) -> Result<()> {
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

/// A guess at how long a run takes, seconds.
pub fn estimate(loads: usize, rounds: usize, load_seconds: f64, parts: usize, quick: bool) -> f64 {
    // What a looker takes to be ready and to end, beside the load.
    let plain = load_seconds + 0.2;
    let watched = load_seconds + 1.5;
    let peers = rounds.min(crate::pairs::PEER_ROUNDS) as f64 * 3.0 * (load_seconds + 4.0);
    let each = rounds as f64 * (3.0 * plain + 3.0 * watched) + peers + load_seconds + 1.0;
    let part = if quick { 5.0 + QUICK.threads.len() as f64 * 2.0 } else { 32.0 };
    loads as f64 * each + parts as f64 * part
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
        let kept = fs::read_to_string(docs.join("cost.md")).unwrap();
        assert!(kept == page(&results), "docs/cost.md is not made from docs/cost.json");
        let kept = fs::read_to_string(docs.join("cost.svg")).unwrap();
        assert!(kept == plot::growth(&results.growth), "docs/cost.svg is not made from it");
    }

    #[test]
    fn a_whole_run_fits_its_time() {
        use crate::pairs::{LOAD_SECONDS, ROUNDS};
        let (loads, parts) = (crate::loads::KINDS.len(), 6);
        let seconds = estimate(loads, ROUNDS, LOAD_SECONDS, parts, false);
        assert!(seconds < 20.0 * 60.0, "{seconds}");
    }
}
