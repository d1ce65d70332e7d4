//! Brief faults on a busy host that somebody watches: is each named in the window that it fell in, with its recording, and is
//! nothing said while all is well?
//!
//! Owns the order of a run: ordinary loads and the stages of all faults stand at once, `holdup watch` runs beside them with a state
//! folder of its own, now and then one fault is made for a moment, and then the ring is judged. Faults, stages and truths are those
//! of the scenarios (stands.rs); what the ring says is read by asking holdup for each recording (ring.rs), as whoever comes in the
//! morning would. Must not: tell holdup anything of a fault.
//!
//! Edit together: docs/watch.md (its figures), lab/README.md.

mod ring;
mod stands;

use crate::fault::{Ctx, die_with_the_lab_in};
use crate::runner::Lab;
use crate::scenario::Variables;
use crate::seeded_draw::Draw;
use crate::undo::{Guard, Journal, Undo};
use crate::{procfs, say, warn};
use anyhow::{Context, Result, bail};
use holdup_reason::answer::Finding;
use ring::{Saved, Window};
use stands::Stand;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What loading the programs and settling takes before anything counts.
const SETTLE: Duration = Duration::from_secs(15);
/// What whoever watches writes after a finding: the ring's `after`, and a little more.
const AFTER: Duration = Duration::from_secs(35);

/// What is wanted.
pub struct Plan {
    /// Faults to make.
    pub times: usize,
    /// Between two of them, on average.
    pub every: Duration,
    /// How long each stands.
    pub hold: Duration,
    /// Length of a window.
    pub window: Duration,
    /// Then the same host without faults, for so long.
    pub healthy: Duration,
    /// Only faults of scenarios whose name begins so.
    pub only: Vec<String>,
    /// Only these of the ordinary loads; none: all.
    pub beside: Vec<String>,
    /// Troubles that this host has besides: findings with this in their title are counted apart.
    pub known: Vec<String>,
    /// What numbers and names are drawn from.
    pub seed: u64,
    /// What looking may take, percent of one CPU; none: as shipped.
    pub budget: Option<f64>,
    /// Where the ring and what was said are copied to.
    pub keep: Option<PathBuf>,
}

/// A fault that was made.
pub struct Made {
    /// Its scenario.
    pub scenario: String,
    /// From when on it stood, by its own proof, nanoseconds since 1970.
    pub begin_unix_ns: u64,
    /// Until when.
    pub end_unix_ns: u64,
    /// What must be said of it.
    pub truth: crate::judgement::Truth,
}

impl Made {
    fn is_in(&self, begin_unix_ns: u64, end_unix_ns: u64) -> bool {
        self.begin_unix_ns < end_unix_ns && self.end_unix_ns > begin_unix_ns
    }
}

/// Runs it, and gives the page of what came of it.
pub fn run(lab: &Lab, scenarios: &Path, plan: &Plan) -> Result<String> {
    let journal = Journal::open(&lab.dir)?;
    let page = under(lab, scenarios, plan, &journal);
    journal.close();
    page
}

fn under(
    lab: &Lab,
    scenarios: &Path,
    plan: &Plan,
    journal: &std::sync::Arc<Journal>,
) -> Result<String> {
    let draw = Draw::new(plan.seed, "brief");
    let (mut ctx, _scratch) = lab.open(journal, draw, Variables::default())?;
    let program = &lab.holdup.as_ref().context("no holdup to ask")?.program;
    let _loads = stands::ordinary_loads(&ctx, scenarios, plan)?;
    let mut all = stands::all(&ctx, scenarios, plan)?;
    if all.is_empty() {
        bail!("no such fault");
    }
    let (state, said) = (ctx.directory("state")?, ctx.scratch.join("said"));
    let (mut watch, _guard) = watch(&ctx, program, plan, &state, &said)?;
    ctx.sleep(SETTLE)?;
    let begin_unix_ns = now_unix_ns()?;
    let made = faults(&mut ctx, &mut all, plan)?;
    let faults_until = now_unix_ns()?;
    say(&format!("{} faults made; now {:.0} s without", made.len(), plan.healthy.as_secs_f64()));
    ctx.sleep(AFTER.max(plan.healthy))?;
    let end_unix_ns = now_unix_ns()?;
    end(&mut watch)?;
    drop(all);
    let saved = Saved::read(program, &state, &said)?;
    if let Some(keep) = &plan.keep {
        std::fs::create_dir_all(keep)?;
        ctx.tool(
            "cp",
            &["-r", &state.to_string_lossy(), &said.to_string_lossy(), &keep.to_string_lossy()],
        )?;
    }
    let times = Times { begin_unix_ns, faults_until, end_unix_ns };
    judged(&made, &saved, plan, &times)
}

/// When the parts of a run were.
struct Times {
    begin_unix_ns: u64,
    faults_until: u64,
    end_unix_ns: u64,
}

fn faults(ctx: &mut Ctx, all: &mut [Stand], plan: &Plan) -> Result<Vec<Made>> {
    let mut made = Vec::new();
    for n in 0..plan.times {
        let (half, most) = (plan.every.mul_f64(0.5), plan.every.mul_f64(1.5));
        let rest = ctx.draw.duration(half, most);
        ctx.sleep(rest)?;
        let count = all.len();
        let stand = &mut all[n % count];
        match stand.make(plan.hold) {
            Ok(one) => {
                say(&format!(
                    "{:2} {} for {:.0} ms, until {:.1} s of the minute",
                    n + 1,
                    one.scenario,
                    (one.end_unix_ns - one.begin_unix_ns) as f64 / 1e6,
                    (one.end_unix_ns % 60_000_000_000) as f64 / 1e9
                ));
                made.push(one);
            }
            Err(error) if error.is::<crate::fault::Stopped>() => return Err(error),
            Err(error) => warn(&format!("{}: {error:#}", stand.name())),
        }
    }
    Ok(made)
}

fn watch(
    ctx: &Ctx,
    program: &Path,
    plan: &Plan,
    state: &Path,
    said: &Path,
) -> Result<(Child, Guard)> {
    let mut command = Command::new(program);
    let window = format!("{}s", plan.window.as_secs_f64());
    command.args(["watch", "--window", &window, "--state"]).arg(state);
    if let Some(budget) = plan.budget {
        let settings = ctx.scratch.join("settings.toml");
        std::fs::write(&settings, format!("budget_percent = {budget:.1}\n"))?;
        command.arg("--config").arg(settings);
    }
    let out = File::create(said)?;
    command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out).process_group(0);
    die_with_the_lab_in(&mut command, &[]);
    let child = command.spawn().with_context(|| format!("start {}", program.display()))?;
    let guard = ctx.journal.guard(Undo::process(child.id().cast_signed()))?;
    Ok((child, guard))
}

fn end(watch: &mut Child) -> Result<()> {
    procfs::signal(watch.id().cast_signed(), nix::sys::signal::Signal::SIGTERM);
    let status = watch.wait()?;
    if !status.success() {
        warn(&format!("holdup watch: {status}"));
    }
    Ok(())
}

pub(super) fn now_unix_ns() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

/// What came of each fault, and what was said besides.
fn judged(made: &[Made], saved: &Saved, plan: &Plan, times: &Times) -> Result<String> {
    let mut out = String::new();
    let mut named = 0;
    for fault in made {
        let windows: Vec<&Window> = saved
            .windows
            .iter()
            .filter(|it| fault.is_in(it.begin_unix_ns, it.end_unix_ns))
            .collect();
        let mut right = None;
        for window in &windows {
            for finding in &window.findings {
                if right.is_none() && fault.truth.is_named_by(finding)? {
                    right = Some((window.file.as_str(), finding));
                }
            }
        }
        named += usize::from(right.is_some());
        let line = match right {
            Some((file, finding)) => format!("named in {file}: {}", finding.title),
            None if windows.is_empty() => "MISSED, and no recording of its window".into(),
            None => {
                let said =
                    windows.iter().flat_map(|it| it.findings.iter().map(|f| f.title.clone()));
                format!("MISSED; said instead: {}", said.collect::<Vec<_>>().join("; "))
            }
        };
        let _ = writeln!(out, "{}: {line}", fault.scenario);
    }
    let minutes = |from: u64, to: u64| to.saturating_sub(from) as f64 / 60e9;
    let _ = writeln!(
        out,
        "\n{named} of {} faults of {:.0} ms named in their window of {:.0} s, with its recording, in {:.1} min; then {:.1} min without",
        made.len(),
        plan.hold.as_secs_f64() * 1e3,
        plan.window.as_secs_f64(),
        minutes(times.begin_unix_ns, times.faults_until),
        minutes(times.faults_until, times.end_unix_ns),
    );
    besides(&mut out, made, saved, plan, times);
    Ok(out)
}

/// What was found in windows without a fault, and whom it would have woken.
fn besides(out: &mut String, made: &[Made], saved: &Saved, plan: &Plan, times: &Times) {
    let is_known = |title: &str| plan.known.iter().any(|it| title.contains(it.as_str()));
    let is_other = |it: &&Window| {
        it.begin_unix_ns >= times.begin_unix_ns
            && !made.iter().any(|fault| fault.is_in(it.begin_unix_ns, it.end_unix_ns))
    };
    let other = saved.windows.iter().filter(is_other);
    let found: Vec<(&Window, &Finding)> =
        other.flat_map(|window| window.findings.iter().map(move |it| (window, it))).collect();
    let (known, found): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, finding)| is_known(&finding.title));
    let _ = writeln!(
        out,
        "{} findings in windows without a fault, and {} of troubles that this host has:",
        found.len(),
        known.len()
    );
    for (window, finding) in found {
        let moment = if finding.impact.moment.is_some() { "a moment" } else { "the window" };
        let _ = writeln!(out, "  {} ({moment}) {}: {}", window.file, finding.code, finding.title);
    }
    let (known, alarms): (Vec<_>, Vec<_>) =
        saved.alarms.iter().partition(|alarm| is_known(&alarm.title));
    let _ = writeln!(out, "{} alarms, and {} of what is known:", alarms.len(), known.len());
    for alarm in alarms {
        let near = made.iter().any(|it| it.is_in(alarm.since_unix_ns, alarm.at_unix_ns));
        let near = if near { "near a fault" } else { "without a fault" };
        let _ = writeln!(out, "  {} ({near}): {}", alarm.event, alarm.title);
    }
    for line in &saved.said {
        let _ = writeln!(out, "said: {line}");
    }
}
