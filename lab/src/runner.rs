//! One case from the stage to the verdict; and all of them, one after the other.
//!
//! Order matters for undoing: the fault's guards go first (a frozen file system thaws, a slow disk
//! is quick again), then the workload, then the stage. Only one lab runs on a host at a time,
//! because two would see each other's faults: a lock file says so.

use crate::ask::{Answer, Holdup, differences};
use crate::baseline::{Sayings, Watch};
use crate::draw::Draw;
use crate::fault::{Ctx, Fault, Injected, Spawn, Started, Stopped};
use crate::scenario::{Scenario, Start, Target, WorkloadSpec, fill_all};
use crate::score::{Case, Outcome};
use crate::undo::{Guards, Journal, Undo};
use crate::verdict::{Truth, alarms, finding_line};
use crate::workload::{self, Running};
use crate::{faults, proc, say, warn};
use anyhow::{Context, Result, bail};
use holdup_reason::findings::Severity;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a workload is watched for its baseline.
const BASELINE: Duration = Duration::from_millis(1500);
/// The least loss that admits a fault.
const LEAST_LOSS: f64 = 0.2;

/// What all cases share.
pub struct Lab {
    /// holdup; absent to try the injectors alone.
    pub holdup: Option<Holdup>,
    /// The multi-call workload program.
    pub load_exe: PathBuf,
    /// Where journals and scratch directories lie.
    pub dir: PathBuf,
    /// Set by SIGINT and SIGTERM.
    pub stop: Arc<AtomicBool>,
    /// Where recordings are kept.
    pub keep_recordings: Option<PathBuf>,
    /// Overrides the scenarios' own look.
    pub look_seconds: Option<f64>,
}

/// What a look at a workload gave.
#[derive(Default)]
struct Look {
    answer: Option<Answer>,
    loss: Option<f64>,
    watch_cost: Option<f64>,
    replay_differences: Option<Vec<String>>,
    /// Why the fault is not admitted.
    refused: Option<String>,
    baselines: Sayings,
    /// What the lab saw with its own eyes.
    seen: String,
}

impl Lab {
    /// Runs one case; what goes wrong becomes its outcome. An error means that the user stops.
    pub fn run_case(&self, scenario: &Scenario, seed: u64, faulted: bool) -> Result<Case> {
        let mut case = Case {
            scenario: if faulted || scenario.fault.is_none() {
                scenario.name.clone()
            } else {
                format!("{} (healthy twin)", scenario.name)
            },
            seed,
            code: String::new(),
            truth: String::new(),
            said: Vec::new(),
            outcome: Outcome::Healthy(Vec::new()),
            answer_seconds: None,
            replay_differences: None,
            loss: None,
            baselines: Vec::new(),
            watch_cost: None,
        };
        let journal = Journal::open(&self.dir)?;
        let result = self.open(&journal, scenario, seed).and_then(|(mut ctx, _scratch)| {
            let twin = if faulted || scenario.fault.is_none() { "" } else { "-healthy" };
            ctx.set("kept_name", format!("{}{twin}-{seed}", scenario.name));
            let outcome = self.stage(&mut ctx, scenario, faulted, &mut case);
            if std::env::var_os("HOLDUP_LAB_SHOW").is_some() {
                say(&format!("{:#?}", ctx.variables));
            }
            outcome
        });
        journal.close();
        match result {
            Ok(outcome) => case.outcome = outcome,
            Err(error) if error.is::<Stopped>() => return Err(error),
            Err(error) => case.outcome = Outcome::Broken(format!("{error:#}")),
        }
        Ok(case)
    }

    /// The context of a case, and the guard of its scratch directory.
    fn open(
        &self,
        journal: &Arc<Journal>,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(Ctx, Guards)> {
        let mut draw = Draw::new(seed, &scenario.name);
        // No scenario's name: a path is seen by holdup.
        let scratch = self.dir.join(format!("{}", std::process::id()));
        let mut guards = Guards::new();
        guards.push(journal.guard(Undo::Remove { path: scratch.clone() })?);
        std::fs::create_dir_all(&scratch).with_context(|| format!("make {}", scratch.display()))?;
        let mut variables = scenario.draw(&mut draw);
        variables.insert("scratch".into(), scratch.to_string_lossy().into_owned());
        variables.insert("seed".into(), seed.to_string());
        variables.insert("workload_name".into(), draw.name());
        let ctx = Ctx {
            journal: Arc::clone(journal),
            draw,
            scratch,
            load_exe: self.load_exe.clone(),
            variables,
            stop: Arc::clone(&self.stop),
        };
        Ok((ctx, guards))
    }

    fn stage(
        &self,
        ctx: &mut Ctx,
        scenario: &Scenario,
        faulted: bool,
        case: &mut Case,
    ) -> Result<Outcome> {
        let fault = match &scenario.fault {
            Some(name) => Some(faults::find(name).with_context(|| format!("no fault {name}"))?),
            None => None,
        };
        let spec = scenario.workload[ctx.draw.index(scenario.workload.len())].clone();
        let mut stage = Guards::new();
        if let Some(fault) = fault {
            stage.append(fault.set_up(ctx).context("set up")?);
        }
        let inject = fault.filter(|_| faulted);
        let bystander = self.bystander(ctx)?;
        let look = if scenario.is_run() {
            self.look_at_command(ctx, &spec, inject)?
        } else {
            self.look_at_running(ctx, scenario, &spec, inject)?
        };
        case.loss = look.loss;
        case.watch_cost = look.watch_cost;
        case.baselines = look.baselines;
        case.replay_differences = look.replay_differences;
        if let (Some(truth), true) = (&scenario.truth, faulted) {
            let truth = Truth::new(truth, &ctx.variables);
            case.code = truth.code();
            case.truth = truth.line()?;
        }
        if let (Some(_), true, Some(loss)) = (inject, scenario.must_hurt, look.loss)
            && loss < LEAST_LOSS
        {
            return Ok(Outcome::Refused(format!("the workload lost only {:.0} %", loss * 100.0)));
        }
        if let Some(why) = look.refused {
            return Ok(Outcome::Refused(why));
        }
        drop(bystander);
        let Some(answer) = look.answer else {
            let drawn = scenario.parameters.keys().filter_map(|k| ctx.variables.get_key_value(k));
            let drawn: Vec<_> = drawn.map(|(k, v)| format!("{k}={v}")).collect();
            return Ok(Outcome::Unasked(format!("{} ({})", look.seen, drawn.join(" "))));
        };
        case.said = answer.report.findings.iter().take(3).map(finding_line).collect();
        let waited = if scenario.is_run() {
            answer.report.accounting.wall_seconds
        } else {
            self.seconds(scenario)
        };
        case.answer_seconds = Some((answer.seconds - waited).max(0.0));
        Ok(match (&scenario.truth, inject) {
            (Some(truth), Some(_)) => {
                let mut verdict = Truth::new(truth, &ctx.variables).judge(&answer.report)?;
                verdict.forbidden.extend(self.blamed_bystander(ctx, &answer));
                Outcome::Faulted(verdict)
            }
            _ => Outcome::Healthy(alarms(&answer.report).into_iter().map(finding_line).collect()),
        })
    }

    /// One run in four has a loud but harmless neighbour, in the baseline as well; it must not be
    /// named.
    fn bystander(&self, ctx: &mut Ctx) -> Result<Option<Started>> {
        if !ctx.draw.chance(0.25) {
            return Ok(None);
        }
        let kinds: [&[&str]; 3] = [
            &["compute", "--work-us", "2000", "--rest-us", "9000"],
            &["pool", "--threads", "20", "--jobs-per-second", "300"],
            &["pipeline", "--path", "/dev/null", "--rest-us", "900"],
        ];
        let arguments =
            kinds[ctx.draw.index(kinds.len())].iter().map(|w| (*w).to_string()).collect();
        let spawn = Spawn { name: ctx.draw.name(), arguments, ..Spawn::default() };
        let started = ctx.spawn(&spawn)?;
        ctx.set("bystander_pid", started.pid);
        Ok(Some(started))
    }

    fn blamed_bystander(&self, ctx: &Ctx, answer: &Answer) -> Option<String> {
        let pid: u32 = ctx.variables.get("bystander_pid")?.parse().ok()?;
        let blamed = alarms(&answer.report).into_iter().find(|f| f.culprit.pid == Some(pid))?;
        Some(format!("the harmless neighbour as culprit of {}", blamed.code))
    }

    fn seconds(&self, scenario: &Scenario) -> f64 {
        self.look_seconds.unwrap_or(scenario.look_seconds)
    }

    /// A workload that runs on its own while holdup looks.
    fn look_at_running(
        &self,
        ctx: &mut Ctx,
        scenario: &Scenario,
        spec: &WorkloadSpec,
        inject: Option<&dyn Fault>,
    ) -> Result<Look> {
        let mut running = workload::start(ctx, spec)?;
        running.wait_ready(ctx, Duration::from_secs(20))?;
        let baseline = running.rate(ctx, BASELINE)?;
        let injected = match inject {
            Some(fault) => {
                if scenario.start == Start::After {
                    drop(running);
                    let injected = fault.inject(ctx).context("inject")?;
                    running = workload::start(ctx, spec)?;
                    // Under a fault the first operation may never come.
                    let limit = Duration::from_secs_f64(scenario.bite_seconds);
                    if let Err(error) = running.wait_ready(ctx, limit)
                        && error.is::<Stopped>()
                    {
                        return Err(error);
                    }
                    injected
                } else {
                    fault.inject(ctx).context("inject")?
                }
            }
            None => Injected::default(),
        };
        let mut look = Look::default();
        let mut unwatched = baseline;
        if let Some(fault) = inject {
            let (bitten, rate) = self.wait_for_bite(ctx, scenario, fault, &running, baseline)?;
            look.loss = Some(1.0 - rate / baseline.max(1e-9));
            unwatched = rate;
            if !bitten {
                look.refused = Some(ctx.text("refused")?);
                return Ok(look);
            }
            ctx.sleep(Duration::from_secs_f64(scenario.settle_seconds))?;
        }
        if self.holdup.is_none() {
            let now = running.rate(ctx, BASELINE)?;
            let places = whereabouts(ctx, &running)?;
            look.seen = format!("{baseline:.1}/s, then {now:.1}/s; threads: {places}");
            return Ok(look);
        }
        let (begin, before) = (Instant::now(), running.done());
        self.question(ctx, scenario, &mut look)?;
        let watched = (running.done() - before) as f64 / begin.elapsed().as_secs_f64();
        if look.answer.is_some() && unwatched > 20.0 {
            look.watch_cost = Some(1.0 - watched / unwatched);
        }
        drop(injected);
        drop(running);
        Ok(look)
    }

    /// Waits until the fault is seen by the injector's own check and by the workload's figure.
    fn wait_for_bite(
        &self,
        ctx: &mut Ctx,
        scenario: &Scenario,
        fault: &dyn Fault,
        running: &Running,
        baseline: f64,
    ) -> Result<(bool, f64)> {
        let until = Instant::now() + Duration::from_secs_f64(scenario.bite_seconds);
        loop {
            let rate = running.rate(ctx, Duration::from_millis(1000))?;
            if !running.lives() {
                bail!("the workload has ended: {}", running.errors(ctx));
            }
            let hurts = !scenario.must_hurt || rate <= baseline * (1.0 - LEAST_LOSS);
            let there = fault.bites(ctx)?;
            if hurts && there.unwrap_or(true) {
                return Ok((true, rate));
            }
            if Instant::now() > until {
                let why = if hurts {
                    "the injector's own check does not see it"
                } else {
                    "the workload is as quick as before"
                };
                ctx.set("refused", format!("{why} ({rate:.1}/s, before {baseline:.1}/s)"));
                return Ok((false, rate));
            }
        }
    }

    /// Asks holdup about the target and replays the recording of the same look.
    fn question(&self, ctx: &mut Ctx, scenario: &Scenario, look: &mut Look) -> Result<()> {
        let seconds = self.seconds(scenario);
        let Some(holdup) = &self.holdup else { return Ok(()) };
        let recording = ctx.scratch.join("look.rec");
        let mut arguments = vec!["record".into(), recording.to_string_lossy().into_owned()];
        if let Target::Arguments(words) = &scenario.target {
            arguments.extend(fill_all(words, &ctx.variables)?);
        }
        arguments.extend(["--for".into(), format!("{}ms", (seconds * 1000.0).round())]);
        let limit = Duration::from_secs_f64(seconds + 30.0);
        let watch = Watch::begin();
        let answer = holdup.ask(ctx, &arguments, &[], &[], limit);
        look.baselines = watch.end();
        let answer = answer?;
        look.replay_differences = self.replay(ctx, holdup, &answer, &recording)?;
        look.answer = Some(answer);
        Ok(())
    }

    fn replay(
        &self,
        ctx: &Ctx,
        holdup: &Holdup,
        answer: &Answer,
        recording: &Path,
    ) -> Result<Option<Vec<String>>> {
        if !recording.exists() {
            return Ok(Some(vec!["recording (there is none)".into()]));
        }
        if let Some(keep) = &self.keep_recordings {
            std::fs::create_dir_all(keep)?;
            let name = ctx.text("kept_name")?;
            std::fs::copy(recording, keep.join(format!("{name}.rec")))?;
            std::fs::write(keep.join(format!("{name}.json")), first_finding(answer)?)?;
        }
        match holdup.replay(ctx, recording) {
            Ok(again) => Ok(Some(differences(&answer.report, &again.report)?)),
            Err(error) if error.is::<Stopped>() => Err(error),
            Err(error) => Ok(Some(vec![format!("{error:#}")])),
        }
    }

    /// A workload that holdup itself runs to its end; the baseline is the same command without it.
    fn look_at_command(
        &self,
        ctx: &mut Ctx,
        spec: &WorkloadSpec,
        inject: Option<&dyn Fault>,
    ) -> Result<Look> {
        let figure = ctx.scratch.join("figure");
        let mut spawn = workload::command(ctx, spec, &figure, true)?;
        let time = |ctx: &mut Ctx, spawn: &Spawn| -> Result<f64> {
            let begin = Instant::now();
            let started = ctx.spawn(spawn)?;
            let pid = started.pid;
            ctx.wait_for("the command's end", Duration::from_secs(120), || {
                proc::state(pid).is_none_or(|s| s == 'Z')
            })?;
            Ok(begin.elapsed().as_secs_f64())
        };
        let quick = time(ctx, &spawn)?;
        let injected = match inject {
            Some(fault) => fault.inject(ctx).context("inject")?,
            None => Injected::default(),
        };
        // The fault may have changed what the command is given.
        spawn = workload::command(ctx, spec, &figure, true)?;
        let mut look = Look::default();
        let Some(holdup) = &self.holdup else {
            let slow = time(ctx, &spawn)?;
            look.loss = inject.is_some().then_some(slow / quick - 1.0);
            look.seen = format!("{quick:.2} s, then {slow:.2} s");
            drop(injected);
            return Ok(look);
        };
        let recording = ctx.scratch.join("look.rec");
        let program = ctx.program_of(&spawn)?;
        let arguments = ["record".into(), recording.to_string_lossy().into_owned()];
        let mut words = join_first(&spawn.cgroups);
        words.push(program.to_string_lossy().into_owned());
        words.extend(spawn.arguments.iter().cloned());
        let environment: Vec<_> = spawn.environment.clone().into_iter().collect();
        let limit = Duration::from_secs(150);
        let watch = Watch::begin();
        let answer = holdup.ask(ctx, &arguments, &words, &environment, limit);
        look.baselines = watch.end();
        let answer = answer?;
        ctx.set("victim_pid", answer.report.target.pid.unwrap_or(0));
        ctx.set("victim", program.file_name().unwrap_or_default().to_string_lossy());
        let wall = answer.report.accounting.wall_seconds.max(answer.report.window.seconds);
        look.loss = inject.is_some().then_some(wall / quick - 1.0);
        if inject.is_none() {
            look.watch_cost = Some(wall / quick - 1.0);
        }
        look.replay_differences = self.replay(ctx, holdup, &answer, &recording)?;
        look.answer = Some(answer);
        drop(injected);
        Ok(look)
    }

    /// Runs all scenarios with their twins under one seed, and tells each as it ends.
    pub fn run_all(&self, scenarios: &[Scenario], seed: u64, twins: bool) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        for scenario in scenarios {
            let kinds: &[bool] = match (&scenario.fault, scenario.twin && twins) {
                (Some(_), true) => &[true, false],
                (Some(_), false) => &[true],
                (None, _) => &[false],
            };
            for faulted in kinds {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(cases);
                }
                let begin = Instant::now();
                match self.run_case(scenario, seed, *faulted) {
                    Ok(case) => {
                        say(&progress(&case, begin.elapsed()));
                        cases.push(case);
                    }
                    Err(error) => {
                        warn(&format!("{error:#}"));
                        return Ok(cases);
                    }
                }
            }
        }
        Ok(cases)
    }
}

/// What tests/recordings expect of a recording: code, object and culprit of the first finding above note.
fn first_finding(answer: &Answer) -> Result<String> {
    let first = answer.report.findings.iter().find(|f| f.severity > Severity::Note);
    let expected = first.map(|f| {
        serde_json::json!({
            "code": f.code,
            "object": f.object,
            "culprit": f.culprit,
        })
    });
    Ok(format!("{:#}\n", serde_json::json!({ "first": expected })))
}

/// Words before a command that make it join cgroups by itself: holdup must stay outside.
fn join_first(cgroups: &[PathBuf]) -> Vec<String> {
    if cgroups.is_empty() {
        return Vec::new();
    }
    let joins = cgroups.iter().map(|c| format!("echo $$ >'{}/cgroup.procs'; ", c.display()));
    let script = joins.collect::<String>() + "exec \"$@\"";
    vec!["/bin/sh".into(), "-c".into(), script, "sh".into()]
}

/// Where the threads of the workload are, by state and wait channel, sampled for half a second.
fn whereabouts(ctx: &Ctx, running: &Running) -> Result<String> {
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..25 {
        for place in proc::whereabouts(running.started.pid) {
            *counts.entry(place).or_default() += 1;
        }
        ctx.sleep(Duration::from_millis(20))?;
    }
    let mut places: Vec<_> = counts.into_iter().collect();
    places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<_> =
        places.iter().take(4).map(|(place, count)| format!("{place} x{count}")).collect();
    Ok(words.join(", "))
}

fn progress(case: &Case, took: Duration) -> String {
    let word = match &case.outcome {
        Outcome::Faulted(v) if v.top1 => "right".into(),
        Outcome::Faulted(v) if v.top3 => "in the first three".into(),
        Outcome::Faulted(v) => format!("WRONG: {}", v.wrong.join(", ")),
        Outcome::Healthy(alarms) if alarms.is_empty() => "quiet".into(),
        Outcome::Healthy(alarms) => format!("FALSE ALARM: {}", alarms.join("; ")),
        Outcome::Refused(why) => format!("refused: {why}"),
        Outcome::Unasked(seen) => seen.clone(),
        Outcome::Broken(why) => format!("BROKEN: {why}"),
    };
    let loss = case.loss.map(|l| format!(", loss {:.0} %", l * 100.0)).unwrap_or_default();
    format!("{:48} {:5.1} s{loss}  {word}", case.scenario, took.as_secs_f64())
}
