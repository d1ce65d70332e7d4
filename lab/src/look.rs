//! One look at a load: its figure before, the fault, holdup's answer, the way out.
//!
//! Owns the order of things while a trial's stage stands; the stage, and what the answer is worth, are in
//! `runner.rs`. The answer is judged at once, before a way out may change who the victim is. A fault that does
//! not hurt is asked about all the same: it is a healthy trial then.

use crate::admission::{LEAST_LOSS, loss_of_rate, loss_of_time, recovered, refuses};
use crate::baseline::{Sayings, Watch};
use crate::distractor::{self, Distractor, Standing};
use crate::fault::{Ctx, Fault, Injected, Spawn, Stopped};
use crate::holdup_client::{Answer, Holdup, differences};
use crate::judgement::{Judgement, Truth};
use crate::load::{self, Running};
use crate::procfs;
use crate::remedy::{self, ENOUGH, Variables};
use crate::runner::Lab;
use crate::scenario::{LoadSpec, Scenario, Start, Target, fill_all};
use crate::trial::{Laps, Tried};
use crate::wait_graph_baseline::{self, Knot};
use anyhow::{Context, Result, bail};
use holdup_reason::answer::{Finding, Severity};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a load is watched for its baseline.
const BASELINE: Duration = Duration::from_millis(1500);

/// What is looked at.
pub struct Asked<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The variant of its load that was drawn.
    pub spec: &'a LoadSpec,
    /// The fault; none in a healthy trial.
    pub inject: Option<&'a dyn Fault>,
    /// What is beside it.
    pub distractor: Distractor,
    /// The seed.
    pub seed: u64,
}

/// What a look at a load gave.
#[derive(Default)]
pub struct Look {
    /// The answer.
    pub answer: Option<Answer>,
    /// The truth, with the names of the time of the look.
    pub truth: Option<Truth>,
    /// The answer judged by it.
    pub judgement: Option<Judgement>,
    /// The load's figure while holdup looked.
    pub figure: Option<f64>,
    /// What it lost against the same run before the fault.
    pub loss: Option<f64>,
    /// What watching cost it.
    pub watch_cost: Option<f64>,
    /// Fields in which the replay differs.
    pub replay_differences: Option<Vec<String>>,
    /// Why the fault is not admitted.
    pub refused: Option<String>,
    /// What simple rules say.
    pub baselines: Sayings,
    /// Share of all CPUs that the hypervisor took meanwhile, 0 to 1.
    pub stolen: f64,
    /// What the raw wait graph points to.
    pub knot: Option<Knot>,
    /// The second fault, if it stood.
    pub second: Option<Standing>,
    /// What became of the way out.
    pub tried: Option<Tried>,
    /// What the lab saw with its own eyes.
    pub seen: String,
}

impl Lab {
    /// A load that runs on its own while holdup looks.
    pub(crate) fn look_at_running(
        &self,
        ctx: &mut Ctx,
        asked: &Asked<'_>,
        laps: &mut Laps,
    ) -> Result<Look> {
        let scenario = asked.scenario;
        let mut running = load::start(ctx, asked.spec)?;
        running.wait_ready(ctx, Duration::from_secs(20))?;
        let baseline = running.rate(ctx, BASELINE)?;
        laps.lap("baseline");
        let mut look = Look::default();
        let mut unwatched = baseline;
        let mut injected = Injected::default();
        if let Some(fault) = asked.inject {
            injected = self.inject(ctx, asked, fault, &mut running)?;
            let (rate, why) = self.wait_for_bite(ctx, scenario, fault, &running, baseline)?;
            look.loss = loss_of_rate(baseline, rate);
            unwatched = rate;
            laps.lap("bite");
            if let Some(Why::NotThere(why)) = why {
                look.refused = Some(why);
                return Ok(look);
            }
            look.refused = why.map(|(Why::NotThere(why) | Why::NoHurt(why))| why);
            if look.refused.is_none() && look.loss.is_some_and(|loss| loss >= distractor::BIG) {
                let second = distractor::second(ctx, asked.seed, asked.distractor)?;
                look.second = matches!(asked.distractor, Distractor::Second(_)).then_some(second);
            }
            ctx.sleep(Duration::from_secs_f64(scenario.settle_seconds))?;
            laps.lap("settle");
        }
        if self.holdup.is_none() {
            let now = running.rate(ctx, BASELINE)?;
            let places = whereabouts(ctx, &running)?;
            look.seen = format!("{baseline:.1}/s, then {now:.1}/s; threads: {places}");
            return Ok(look);
        }
        let (begin, before) = (Instant::now(), running.done());
        self.question(ctx, asked, &mut look, laps, || {
            (running.done() - before) as f64 / begin.elapsed().as_secs_f64()
        })?;
        let watched = look.figure.unwrap_or(0.0);
        if look.answer.is_some() && unwatched > 20.0 {
            look.watch_cost = Some(1.0 - watched / unwatched);
        }
        if scenario.must_hurt && asked.inject.is_some() {
            // What the look itself saw is the longer and the surer measurement of the two.
            look.refused = look.refused.or(refuses(loss_of_rate(baseline, watched)));
        }
        look.tried = self.way_out(ctx, asked, &look, &mut running, (baseline, watched))?;
        laps.lap("way out");
        drop(injected);
        drop(running);
        Ok(look)
    }

    fn inject(
        &self,
        ctx: &mut Ctx,
        asked: &Asked<'_>,
        fault: &dyn Fault,
        running: &mut Running,
    ) -> Result<Injected> {
        if asked.scenario.start != Start::After {
            return fault.inject(ctx).context("inject");
        }
        running.end()?;
        let injected = fault.inject(ctx).context("inject")?;
        *running = load::start(ctx, asked.spec)?;
        // Under a fault the first operation may never come.
        let limit = Duration::from_secs_f64(asked.scenario.bite_seconds);
        if let Err(error) = running.wait_ready(ctx, limit)
            && error.is::<Stopped>()
        {
            return Err(error);
        }
        Ok(injected)
    }

    /// Waits until the fault is seen by the injector's own check and by the load's figure; says
    /// why not, if it is not in time.
    fn wait_for_bite(
        &self,
        ctx: &mut Ctx,
        scenario: &Scenario,
        fault: &dyn Fault,
        running: &Running,
        baseline: f64,
    ) -> Result<(f64, Option<Why>)> {
        let until = Instant::now() + Duration::from_secs_f64(scenario.bite_seconds);
        loop {
            let rate = running.rate(ctx, Duration::from_millis(1000))?;
            if !running.lives() {
                bail!("the load has ended: {}", running.errors(ctx));
            }
            let hurts = !scenario.must_hurt || rate <= baseline * (1.0 - LEAST_LOSS);
            let there = fault.bites(ctx)?.unwrap_or(true);
            if hurts && there {
                return Ok((rate, None));
            }
            if Instant::now() > until {
                let rates = format!("({rate:.1}/s, before {baseline:.1}/s)");
                return Ok((
                    rate,
                    Some(if there {
                        Why::NoHurt(format!("the load is as quick as before {rates}"))
                    } else {
                        Why::NotThere(format!("the injector's own check does not see it {rates}"))
                    }),
                ));
            }
        }
    }

    /// Asks holdup about the target, judges the answer, and replays the recording of the same look.
    fn question(
        &self,
        ctx: &mut Ctx,
        asked: &Asked<'_>,
        look: &mut Look,
        laps: &mut Laps,
        figure: impl FnOnce() -> f64,
    ) -> Result<()> {
        let seconds = self.seconds(asked.scenario);
        let Some(holdup) = &self.holdup else { return Ok(()) };
        let recording = ctx.scratch.join("look.rec");
        let mut arguments = vec!["record".into(), recording.to_string_lossy().into_owned()];
        if let Target::Arguments(words) = &asked.scenario.target {
            arguments.extend(fill_all(words, &ctx.variables)?);
        }
        arguments.extend(["--for".into(), format!("{}ms", (seconds * 1000.0).round())]);
        let limit = Duration::from_secs_f64(seconds + 30.0);
        let watch = Watch::begin();
        let answer = holdup.ask(ctx, &arguments, &[], &[], limit);
        let watched = watch.end();
        (look.baselines, look.stolen) = (watched.sayings, watched.stolen);
        look.figure = Some(figure());
        laps.lap("look");
        self.read_answer(ctx, asked, look, answer?, &recording)?;
        laps.lap("replay");
        Ok(())
    }

    fn read_answer(
        &self,
        ctx: &Ctx,
        asked: &Asked<'_>,
        look: &mut Look,
        answer: Answer,
        recording: &Path,
    ) -> Result<()> {
        if let (Some(spec), true) = (&asked.scenario.truth, asked.inject.is_some()) {
            let truth = Truth::new(spec, &ctx.variables);
            look.judgement = Some(truth.judge(&answer.report)?);
            look.truth = Some(truth);
        }
        if let Some(holdup) = &self.holdup {
            look.replay_differences = self.replay(ctx, holdup, &answer, recording)?;
            if recording.exists() {
                look.knot = wait_graph_baseline::of_recording(&holdup.program, recording)?;
                let area = look.knot.as_ref().and_then(|knot| knot.area).map(String::from);
                look.baselines.push(("raw wait-graph knot".into(), area));
            }
        }
        look.answer = Some(answer);
        Ok(())
    }

    /// Runs the printed way out while the fault stands, if the first finding is right. `figures`: the
    /// load's rate before the fault, and under it.
    fn way_out(
        &self,
        ctx: &mut Ctx,
        asked: &Asked<'_>,
        look: &Look,
        running: &mut Running,
        figures: (f64, f64),
    ) -> Result<Option<Tried>> {
        let right = look.judgement.as_ref().is_some_and(|judgement| judgement.top1);
        let first = look.answer.as_ref().and_then(|answer| answer.report.findings.first());
        let (Some(finding), true, None) = (first, right, &look.refused) else { return Ok(None) };
        let (before, under) = figures;
        let has_figure = asked.scenario.must_hurt;
        let mut measure = |ctx: &mut Ctx, variables: &Variables| -> Result<(Option<f64>, String)> {
            let mut remark = String::new();
            if !variables.is_empty() {
                remark = "the load was started anew with it, as its supervisor would".into();
                running.end()?;
                *running = load::start_with(ctx, asked.spec, variables)?;
                running.wait_ready(ctx, Duration::from_secs(20)).ok();
            } else if !running.lives() {
                remark =
                    "the load itself was ended by it, and started anew as its supervisor would"
                        .into();
                *running = load::start(ctx, asked.spec)?;
            }
            let mut share = None;
            // What has piled up may need a moment, and who waits already waits to the end.
            for settle in [0.7, 2.5, 5.0] {
                ctx.sleep(Duration::from_secs_f64(settle))?;
                let rate = running.rate(ctx, Duration::from_secs(2))?;
                share = recovered(before, under, rate).filter(|_| has_figure);
                if share.is_none_or(|share| share >= ENOUGH) {
                    break;
                }
            }
            Ok((share, remark))
        };
        remedy::attempt(ctx, finding, &mut measure).map(Some)
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

    /// A load that holdup itself runs to its end; the baseline is the same command without it.
    pub(crate) fn look_at_command(
        &self,
        ctx: &mut Ctx,
        asked: &Asked<'_>,
        laps: &mut Laps,
    ) -> Result<Look> {
        let figure = ctx.scratch.join("figure");
        let spawn = counting_anew(ctx, asked, &figure)?;
        let quick = time(ctx, &spawn, Duration::from_secs(120))?;
        laps.lap("baseline");
        let injected = match asked.inject {
            Some(fault) => fault.inject(ctx).context("inject")?,
            None => Injected::default(),
        };
        // The fault may have changed what the command is given.
        let spawn = counting_anew(ctx, asked, &figure)?;
        let mut look = Look::default();
        if self.holdup.is_none() {
            let slow = time(ctx, &spawn, Duration::from_secs(120))?;
            look.loss = asked.inject.and_then(|_| loss_of_time(quick, slow));
            look.seen = format!("{quick:.2} s, then {slow:.2} s");
            return Ok(look);
        }
        laps.lap("bite");
        let wall = self.question_about_command(ctx, asked, &mut look, &spawn)?;
        laps.lap("look");
        look.figure = Some(wall);
        if asked.inject.is_some() {
            look.loss = loss_of_time(quick, wall);
            look.refused = refuses(look.loss).filter(|_| asked.scenario.must_hurt);
        } else {
            look.watch_cost = loss_of_time(quick, wall);
        }
        let right = look.judgement.as_ref().is_some_and(|judgement| judgement.top1);
        let first = look.answer.as_ref().and_then(|answer| answer.report.findings.first());
        if let (Some(finding), true, None) = (first, right, &look.refused) {
            let limit = Duration::from_secs_f64(wall + 2.0);
            let has_figure = asked.scenario.must_hurt;
            let mut spawn = counting_anew(ctx, asked, &figure)?;
            let mut measure = |ctx: &mut Ctx, variables: &Variables| {
                spawn.environment.extend(variables.iter().cloned());
                match time(ctx, &spawn, limit) {
                    Ok(again) => {
                        Ok((recovered(quick, wall, again).filter(|_| has_figure), String::new()))
                    }
                    Err(error) if error.is::<Stopped>() => Err(error),
                    Err(_) => Ok((Some(0.0), "the command is as slow as under the fault".into())),
                }
            };
            look.tried = Some(remedy::attempt(ctx, finding, &mut measure)?);
        }
        laps.lap("way out");
        drop(injected);
        Ok(look)
    }

    /// Lets holdup run the command; gives its wall time.
    fn question_about_command(
        &self,
        ctx: &mut Ctx,
        asked: &Asked<'_>,
        look: &mut Look,
        spawn: &Spawn,
    ) -> Result<f64> {
        let Some(holdup) = &self.holdup else { bail!("nobody to ask") };
        let recording = ctx.scratch.join("look.rec");
        let program = ctx.program_of(spawn)?;
        let arguments = ["record".into(), recording.to_string_lossy().into_owned()];
        let mut words = join_first(&spawn.cgroups);
        words.push(program.to_string_lossy().into_owned());
        words.extend(spawn.arguments.iter().cloned());
        let environment: Vec<_> = spawn.environment.clone().into_iter().collect();
        let watch = Watch::begin();
        let answer = holdup.ask(ctx, &arguments, &words, &environment, Duration::from_secs(150));
        let watched = watch.end();
        (look.baselines, look.stolen) = (watched.sayings, watched.stolen);
        let answer = answer?;
        ctx.set("victim_pid", answer.report.target.pid.unwrap_or(0));
        ctx.set("victim", program.file_name().unwrap_or_default().to_string_lossy());
        let wall = answer.report.accounting.wall_seconds.max(answer.report.window.seconds);
        self.read_answer(ctx, asked, look, answer, &recording)?;
        Ok(wall)
    }
}

/// Why a fault does not bite.
enum Why {
    /// It is not there: nothing can be asked.
    NotThere(String),
    /// It is there, and nobody suffers.
    NoHurt(String),
}

/// Runs a command to its end; gives the seconds.
/// The load as a command of its own. It counts from nothing: whoever finds a figure goes on with it, and has all done at once.
fn counting_anew(ctx: &mut Ctx, asked: &Asked<'_>, figure: &Path) -> Result<Spawn> {
    if figure.exists() {
        std::fs::remove_file(figure).with_context(|| format!("remove {}", figure.display()))?;
    }
    load::command(ctx, asked.spec, figure, true)
}

fn time(ctx: &mut Ctx, spawn: &Spawn, limit: Duration) -> Result<f64> {
    let begin = Instant::now();
    let started = ctx.spawn(spawn)?;
    let pid = started.pid;
    ctx.wait_for("the command's end", limit, || procfs::state(pid).is_none_or(|s| s == 'Z'))?;
    Ok(begin.elapsed().as_secs_f64())
}

/// What tests/recordings expect of a recording: code, object and culprit of the first finding above note.
fn first_finding(answer: &Answer) -> Result<String> {
    let findings = &answer.report.findings;
    let expected = |found: &Finding| {
        serde_json::json!({
            "code": found.code,
            "object": found.object,
            "culprit": found.culprit,
        })
    };
    let first = findings.iter().find(|it| it.severity > Severity::Note).map(expected);
    let mut kept = serde_json::json!({ "first": first });
    // A note is the answer where nothing is above it.
    if let (None, Some(note)) = (&first, findings.first()) {
        kept["note"] = expected(note);
    }
    Ok(format!("{kept:#}\n"))
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

/// Where the threads of the load are, by state and wait channel, sampled for half a second.
fn whereabouts(ctx: &Ctx, running: &Running) -> Result<String> {
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..25 {
        for place in procfs::whereabouts(running.started.pid) {
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
