//! How the cost grows: an idle host, and looks against threads, cgroups and event rate.
//!
//! Threads sleep (they cost a walk at both ends of the look, and readings), cgroups are empty groups of the
//! cpu controller, events are pairs of threads that wait two milliseconds for each other: above the threshold, so
//! each would be reported. BPF statistics are on, so that the kernel's part is counted too.
//!
//! One look's CPU time swings by a tenth of a second where other machines share the caches, which is as much as ten
//! thousand threads cost. So each size is looked at several times, and the look in the middle stands for it.
//!
//! Whether something grows faster than linear is asked of the part above the smallest size, because
//! what a look costs on an empty host is not growth. A line that begins below that is a line too: the peak of memory
//! is the greatest of several, of which most do not grow. And a vector that has just doubled is no trend.
//! So a range of sizes must be wide (16 times and more above what is hidden) to tell a power from a line.

use crate::child::{Ctx, Running, words};
use crate::counted::{Spent, busy_seconds};
use crate::kernel::{look_at, look_during, statistics, sum};
use crate::results::{Idle, Point, Series};
use crate::say;
use anyhow::{Context, Result, bail};
use holdup_lab::undo::{Guards, Undo};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Seconds of a look at each size.
const WINDOW_SECONDS: f64 = 2.0;

/// Sizes at which is looked.
pub struct Sizes {
    /// Looks at each size, an odd number.
    pub looks: usize,
    /// Sleeping threads.
    pub threads: &'static [usize],
    /// Cgroups.
    pub cgroups: &'static [usize],
    /// Pairs of threads that wait for each other.
    pub pairs: &'static [usize],
    /// Steady part of a look at the idle host, seconds.
    pub idle_seconds: f64,
}

/// What `make bench` looks at.
pub const FULL: Sizes = Sizes {
    looks: 5,
    threads: &[100, 500, 2_000, 5_000, 10_000, 20_000],
    cgroups: &[10, 100, 500, 2_000, 8_000],
    pairs: &[1, 4, 16, 64, 160],
    idle_seconds: 20.0,
};

/// What `--quick` looks at.
pub const QUICK: Sizes = Sizes {
    looks: 1,
    threads: &[100, 2_000, 10_000],
    cgroups: &[10, 500],
    pairs: &[1, 16, 100],
    idle_seconds: 5.0,
};

/// Starts one of the bench's own loads and waits until it stands.
pub fn own_load(ctx: &Ctx, more: &[&str]) -> Result<Running> {
    let mut command = vec![ctx.own_load()];
    command.extend(words(more));
    let load = ctx.start(&command)?;
    for _ in 0..600 {
        if load.output().contains("ready") {
            return Ok(load);
        }
        if !load.output().is_empty() {
            break;
        }
        ctx.sleep(Duration::from_millis(25))?;
    }
    bail!("bench-load {}: {}", more.join(" "), crate::child::first_words(&load.output()))
}

/// Threads that sleep, in several processes: a thread takes four mappings, of which a process may have 65,530
/// (vm.max_map_count).
fn sleepers(ctx: &Ctx, count: usize) -> Result<Vec<Running>> {
    const EACH_MAX: usize = 5_000;
    let processes = count.div_ceil(EACH_MAX);
    let each = (count / processes.max(1)).to_string();
    (0..processes).map(|_| own_load(ctx, &["sleepers", &each])).collect()
}

/// Makes empty groups of the cpu controller (v1), or of the one hierarchy (v2).
pub fn cgroups(ctx: &Ctx, count: usize) -> Result<Guards> {
    let parent = hierarchy()?.join(format!("holdup-bench-{}", std::process::id()));
    let mut guards = Guards::new();
    guards.push(ctx.journal.guard(Undo::Cgroup { path: parent.clone() })?);
    fs::create_dir_all(&parent).with_context(|| format!("make {}", parent.display()))?;
    for number in 1..count {
        let path = parent.join(format!("group-{number}"));
        guards.push(ctx.journal.guard(Undo::Cgroup { path: path.clone() })?);
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
    }
    Ok(guards)
}

fn hierarchy() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let of = |wanted: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            wanted(kind, options).then(|| PathBuf::from(path))
        })
    };
    of(&|kind, options| kind == "cgroup" && options.split(',').any(|option| option == "cpu"))
        .or_else(|| of(&|kind, _| kind == "cgroup2"))
        .context("no cgroups are mounted")
}

/// Switches of the host since it began.
pub fn switches() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
}

/// Some looks, of which the one in the middle by CPU time is reported, with the switches a second while it lasted.
fn point(ctx: &Ctx, looks: usize) -> Result<(Point, f64)> {
    let all: Result<Vec<_>> = (0..looks).map(|_| one_look(ctx, WINDOW_SECONDS)).collect();
    let (point, rate) = middle(all?).context("no look was asked for")?;
    Ok((Point { looks, ..point }, rate))
}

fn middle(mut looks: Vec<(Point, f64)>) -> Option<(Point, f64)> {
    let cost = |look: &(Point, f64)| look.0.cpu_seconds + look.0.bpf_seconds;
    looks.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    (!looks.is_empty()).then(|| looks.swap_remove(looks.len() / 2))
}

/// One look, and the switches a second while it lasted.
fn one_look(ctx: &Ctx, seconds: f64) -> Result<(Point, f64)> {
    let mut rate = 0.0;
    let (looked, programs) = look_during(ctx, &[], || {
        let before = switches();
        ctx.sleep(Duration::from_secs_f64(seconds))?;
        rate = (switches() - before) as f64 / seconds;
        Ok(())
    })?;
    let (bpf_seconds, bpf_ns) = sum(&programs);
    let point = Point {
        size: 0.0,
        looks: 1,
        seconds: looked.report.window.seconds,
        cpu_seconds: looked.ended.cpu_seconds,
        bpf_seconds,
        bpf_ns,
        rss_bytes: looked.ended.rss_bytes,
        events: looked.report.cost.events,
        lost: looked.report.cost.events_lost,
    };
    Ok((point, rate))
}

/// Two thousand sleeping threads and a hundred groups: what each further second of a look takes, and what the rest of
/// it does. Both of one look, by the kernel's own clocks: the difference of two looks swings by more than the goal. On a
/// host where others work meanwhile it is another host, so that is measured too, and the look taken again.
pub fn idle(ctx: &Ctx, sizes: &Sizes) -> Result<Idle> {
    let (threads, groups) = (2_000, 100);
    let _on = statistics(ctx)?;
    let _groups = cgroups(ctx, groups)?;
    let _load = own_load(ctx, &["sleepers", &threads.to_string()])?;
    let mut least = idle_look(ctx, sizes)?;
    for _ in 1..IDLE_LOOKS_MAX {
        let Some(share) = least.disturbed() else { break };
        say(&format!("the host is not idle, others took {:.0} % of a core: again", share * 100.0));
        let again = idle_look(ctx, sizes)?;
        if again.others_seconds < least.others_seconds {
            least = again;
        }
    }
    Ok(Idle { threads, cgroups: groups, ..least })
}

/// Looks at a host that is meant to be idle, until one is at an idle one.
const IDLE_LOOKS_MAX: usize = 3;

fn idle_look(ctx: &Ctx, sizes: &Sizes) -> Result<Idle> {
    let mut idle = Idle::default();
    let looked = look_at(ctx, &[], |pid| {
        // The first readings are of the begin.
        ctx.sleep(Duration::from_secs(1))?;
        let (spent, busy) = (Spent::since(pid)?, busy_seconds()?);
        ctx.sleep(Duration::from_secs_f64(sizes.idle_seconds))?;
        let (seconds, own_seconds, programs) = spent.until_now()?;
        (idle.seconds, idle.own_seconds) = (seconds, own_seconds);
        idle.bpf_seconds = sum(&programs).0;
        let others_seconds = busy_seconds()? - busy - idle.own_seconds;
        idle.others_seconds = Some(others_seconds.max(0.0));
        Ok(())
    })?;
    idle.rest_seconds = looked.ended.cpu_seconds - idle.own_seconds;
    idle.rss_bytes = looked.ended.rss_bytes;
    Ok(idle)
}

/// All three series. What cannot be made (a limit on threads) ends its series and is reported.
pub fn series(ctx: &Ctx, sizes: &Sizes, trouble: &mut Vec<String>) -> Result<Vec<Series>> {
    let _on = statistics(ctx)?;
    let mut threads = Series { of: "threads".into(), points: Vec::new() };
    for &count in sizes.threads {
        let made = sleepers(ctx, count);
        at(ctx, sizes.looks, &mut threads, count, made, trouble)?;
    }
    let mut groups = Series { of: "cgroups".into(), points: Vec::new() };
    for &count in sizes.cgroups {
        let made = cgroups(ctx, count);
        at(ctx, sizes.looks, &mut groups, count, made, trouble)?;
    }
    let mut rates = Series { of: "switches/s".into(), points: Vec::new() };
    for &pairs in sizes.pairs {
        let made = own_load(ctx, &["handovers", &pairs.to_string()]);
        at(ctx, sizes.looks, &mut rates, 0, made, trouble)?;
    }
    rates.points.sort_by(|a, b| a.size.total_cmp(&b.size));
    Ok(vec![threads, groups, rates])
}

/// Looks at what was made; size 0 stands for the switches a second.
fn at<T>(
    ctx: &Ctx,
    looks: usize,
    series: &mut Series,
    size: usize,
    made: Result<T>,
    trouble: &mut Vec<String>,
) -> Result<()> {
    let looked = made.and_then(|standing| {
        let looked = point(ctx, looks);
        drop(standing);
        looked
    });
    match looked {
        Ok((point, rate)) => {
            let size = if size == 0 { rate } else { size as f64 };
            say(&format!(
                "  {} {size:.0}: {:.3} s + {:.3} s in the kernel, {:.1} MB",
                series.of,
                point.cpu_seconds,
                point.bpf_seconds,
                point.rss_bytes as f64 / 1e6
            ));
            series.points.push(Point { size, ..point });
        }
        Err(error) => {
            ctx.check_interrupted()?;
            trouble.push(format!("growth over {} at {size}: {error:#}", series.of));
        }
    }
    Ok(())
}

/// By what a cost may be off its trend: a vector holds room for once to twice of what is in it.
const OFF_TREND: f64 = 0.15;

/// How much faster than linear a cost grows: of all exponents that explain the costs above the smallest size's, the one
/// nearest to 1; at most 1 is linear. None with too few points, or with growth too small to tell from noise.
pub fn exponent(points: &[Point], cost: fn(&Point) -> f64, noise: f64) -> Option<f64> {
    const STEPS: i32 = 200;
    let first = points.first()?;
    let above: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (point.size, cost(point) - cost(first)))
        .filter(|(size, cost)| *size > first.size && *cost > noise)
        .collect();
    if above.len() < 2 {
        return None;
    }
    let tried = (0..STEPS).flat_map(|step| [f64::from(step), f64::from(-step)]);
    let tried = tried.map(|step| 1.0 + step / 100.0).filter(|exponent| *exponent > 0.0);
    let mut best = (f64::INFINITY, 1.0);
    for exponent in tried {
        let off = off_trend(&above, first.size, noise, exponent);
        if off <= 1.0 {
            return Some(exponent);
        }
        if off < best.0 {
            best = (off, exponent);
        }
    }
    Some(best.1)
}

/// How far some costs lie off `a + b * size^exponent` at most, in parts of what they may: by weighted least squares, the
/// trend being nothing or less at the smallest size.
fn off_trend(above: &[(f64, f64)], smallest: f64, noise: f64, exponent: f64) -> f64 {
    let power = |size: f64| (size / smallest).powf(exponent);
    let may = |cost: f64| (OFF_TREND * cost).max(noise);
    let mean = |part: &dyn Fn(f64, f64) -> f64| {
        let weighed = above.iter().map(|&(size, cost)| part(power(size), cost) / may(cost).powi(2));
        weighed.sum::<f64>() / above.iter().map(|&(_, cost)| may(cost).powi(-2)).sum::<f64>()
    };
    let (x, y) = (mean(&|x, _| x), mean(&|_, y| y));
    let mut b = mean(&|px, py| (px - x) * (py - y)) / mean(&|px, _| (px - x).powi(2));
    let mut a = y - b * x;
    if a + b > noise {
        b = mean(&|px, py| (px - 1.0) * py) / mean(&|px, _| (px - 1.0).powi(2));
        a = -b;
    }
    let off = |&(size, cost): &(f64, f64)| (a + b * power(size) - cost).abs() / may(cost);
    above.iter().map(off).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: &[usize] = FULL.threads;
    const CGROUPS: &[usize] = FULL.cgroups;

    fn of(sizes: &[usize], cost: impl Fn(f64) -> f64) -> Option<f64> {
        let point = |&size: &usize| {
            let size = size as f64;
            Point { size, cpu_seconds: cost(size), ..Point::default() }
        };
        let points: Vec<Point> = sizes.iter().map(point).collect();
        exponent(&points, |point| point.cpu_seconds, 0.01)
    }

    #[test]
    fn the_look_in_the_middle_stands_for_a_size() {
        let look = |cpu_seconds: f64, bpf_seconds: f64, rate: f64| {
            (Point { cpu_seconds, bpf_seconds, ..Point::default() }, rate)
        };
        let looks = vec![look(0.9, 0.0, 1.0), look(0.2, 0.0, 2.0), look(0.1, 0.2, 3.0)];
        assert_eq!(middle(looks).map(|(_, rate)| rate), Some(3.0));
        assert!(middle(Vec::new()).is_none());
    }

    #[test]
    fn linear_and_worse_are_distinguished() {
        for sizes in [THREADS, CGROUPS] {
            let linear = of(sizes, |size| 0.15 + size * 1e-4).unwrap();
            assert!((linear - 1.0).abs() < 0.01, "{linear}");
            let worse = of(sizes, |size| 0.15 + size.powf(1.5) * 1e-5).unwrap();
            assert!(worse > 1.2, "{worse}");
            let square = of(sizes, |size| 0.15 + size * size * 1e-6).unwrap();
            assert!(square > 1.7, "{square}");
            let root = of(sizes, |size| 0.15 + size.sqrt() * 0.1).unwrap();
            assert!(root < 0.8, "{root}");
        }
        assert_eq!(of(THREADS, |_| 0.15), None);
        assert_eq!(of(&[], |_| 0.15), None);
    }

    #[test]
    fn what_is_hidden_at_first_or_has_just_doubled_is_linear() {
        for sizes in [THREADS, CGROUPS] {
            // Another peak is higher, until what grows reaches it.
            let hidden = of(sizes, |size| (0.05 + size * 1e-4).max(0.10)).unwrap();
            assert!((hidden - 1.0).abs() < 0.01, "{hidden}");
            for room in [1.0, 1.3, 1.7] {
                let doubled = |size: f64| (size * room).log2().ceil().exp2();
                let found = of(sizes, |size| 0.15 + size * 1e-4 + doubled(size) * 5e-5).unwrap();
                assert!((0.8..=1.1).contains(&found), "{found} with room {room}");
                // And it hides nothing: the same vectors, and a square beside them.
                let worse = |size: f64| 0.15 + size * size * 1e-7 + doubled(size) * 1e-5;
                let found = of(sizes, worse).unwrap();
                assert!(found > 1.3, "{found} with room {room}");
            }
        }
    }
}
