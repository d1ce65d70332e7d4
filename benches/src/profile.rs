//! Where a look's own time goes: holdup under `perf record`, by function.
//!
//! The shipped binary has no symbols; the one that it was stripped from lies where cargo built it, and is the same
//! code. Sampled by the CPU clock, because virtual machines often offer no cycle counter. Kernel functions that work
//! for holdup (loading programs, reading /proc) are holdup's cost too. The programs that it attaches run on
//! other threads' time and are not in here: kernel.rs measures those.

use crate::child::{Ctx, words};
use crate::growth;
use crate::loads;
use crate::results::{Profile, ProfileRow};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Samples a second of CPU time: 0.2 ms each, and no multiple of a timer's rate.
const SAMPLES_PER_SECOND: u32 = 4_999;
/// Seconds of a look.
const LOOK: &str = "5s";
/// How long perf may take to write and to read.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Rows that are kept; below a part in a hundred a row says nothing.
const ROWS_MAX: usize = 16;
const PERCENT_MIN: f64 = 1.0;

/// A look at many sleeping threads, and one at as many switches as messages make.
pub fn all(ctx: &Ctx) -> Result<Vec<Profile>> {
    let symbols = with_symbols()?;
    let sleeping = {
        let _load = growth::own_load(ctx, &["sleepers", "2000"])?;
        of_a_look(ctx, &symbols, "2,000 sleeping threads")?
    };
    let load = loads::KINDS[1].make(ctx)?;
    let busy = std::thread::scope(|scope| {
        let (ended, end) = std::sync::mpsc::channel::<()>();
        let busy = scope.spawn(move || {
            while end.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                if load.run(ctx).is_err() {
                    break;
                }
            }
        });
        let found = of_a_look(ctx, &symbols, loads::KINDS[1].what);
        drop(ended);
        drop(busy.join());
        found
    })?;
    Ok(vec![sleeping, busy])
}

/// The binary before it was stripped.
pub fn with_symbols() -> Result<PathBuf> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let path = Path::new(&target).join(triple).join("release/holdup");
    std::fs::canonicalize(&path).with_context(|| {
        format!("no binary with symbols at {}: `make build` leaves it there", path.display())
    })
}

fn of_a_look(ctx: &Ctx, holdup: &Path, what: &str) -> Result<Profile> {
    let (data, answer) = (ctx.path("profile.data"), ctx.path("profile.json"));
    let rate = SAMPLES_PER_SECOND.to_string();
    let mut record = words(&["perf", "record", "-q", "-e", "cpu-clock", "-F", &rate, "-o"]);
    record.extend([data.to_string_lossy().into_owned(), "--".into()]);
    record.push(holdup.to_string_lossy().into_owned());
    record.extend(words(&["--for", LOOK, "--json", "-o", &answer.to_string_lossy()]));
    ctx.complete(&record, TIMEOUT)?.well("perf record")?;
    let mut report = words(&["perf", "report", "-q", "--stdio", "--no-children", "-g", "none"]);
    report.extend(words(&["-n", "--sort", "symbol", "-i", &data.to_string_lossy()]));
    let report = ctx.complete(&report, TIMEOUT)?.well("perf report")?;
    let (samples, rows) = read(&report.out);
    Ok(Profile {
        what: what.into(),
        cpu_seconds: samples as f64 / f64::from(SAMPLES_PER_SECOND),
        rows,
    })
}

/// Lines of `perf report -n --sort symbol`: `  12.34%   617  [k] function`.
fn read(text: &str) -> (u64, Vec<ProfileRow>) {
    let mut samples = 0;
    let mut rows = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let percent = words.next().and_then(|word| word.strip_suffix('%')?.parse::<f64>().ok());
        let count = words.next().and_then(|word| word.parse::<u64>().ok());
        let (Some(percent), Some(count), Some(side)) = (percent, count, words.next()) else {
            continue;
        };
        samples += count;
        if percent >= PERCENT_MIN && rows.len() < ROWS_MAX {
            // Some versions end a line in two empty columns.
            let words: Vec<&str> = words.filter(|word| *word != "-").collect();
            let function = words.join(" ");
            rows.push(ProfileRow { percent, kernel: side == "[k]", function });
        }
    }
    (samples, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_table_is_read() {
        let text = "    41.20%           412  [k] seq_printf\n     3.00%            30  [.] <a::B as c::D>::e f   -   -\n\
                    \x20    0.10%             1  [.] rare\n\n";
        let (samples, rows) = read(text);
        assert_eq!(samples, 443);
        let reported: Vec<_> = rows.iter().map(|row| (row.kernel, row.function.as_str())).collect();
        assert_eq!(reported, [(true, "seq_printf"), (false, "<a::B as c::D>::e f")]);
    }
}
