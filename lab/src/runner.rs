//! One trial from the stage to the judgement; and all of them, one after the other.
//!
//! Order matters for undoing: the fault's guards go first (a frozen file system thaws, a slow disk
//! is quick again), then the load, then the stage. Only one lab runs on a host at a time,
//! because two would see each other's faults: a lock file says so.

use crate::admission::{against_twin, undisturbed};
use crate::distractor::{self, Distractor};
use crate::fault::{Ctx, Stopped};
use crate::holdup_client::Holdup;
use crate::judgement::{Truth, alarms, finding_line};
use crate::look::{Asked, Look};
use crate::scenario::{Scenario, Variables};
use crate::seeded_draw::Draw;
use crate::trial::{Laps, Outcome, Trial, Tried};
use crate::undo::{Guards, Journal, Undo};
use crate::{faults, say, warn};
use anyhow::{Context, Result};
use holdup_reason::answer::Report;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What all trials share.
pub struct Lab {
    /// holdup; absent to try the injectors alone.
    pub holdup: Option<Holdup>,
    /// The multi-call load program.
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

impl Lab {
    /// Runs one trial; what goes wrong becomes its outcome. An error means that the user stops.
    pub fn run_trial(&self, scenario: &Scenario, seed: u64, faulted: bool) -> Result<Trial> {
        let twin = !faulted && scenario.fault.is_some();
        let name =
            if twin { format!("{} (healthy twin)", scenario.name) } else { scenario.name.clone() };
        let mut trial = Trial::new(&name, seed);
        let mut laps = Laps::default();
        let journal = Journal::open(&self.dir)?;
        let (draw, variables) = Self::drawn(scenario, seed);
        let result = self.open(&journal, draw, variables).and_then(|(mut ctx, _scratch)| {
            let twin = if twin { "-healthy" } else { "" };
            ctx.set("kept_name", format!("{}{twin}-{seed}", scenario.name));
            let outcome = self.stage(&mut ctx, scenario, faulted, &mut trial, &mut laps);
            if std::env::var_os("HOLDUP_LAB_SHOW").is_some() {
                say(&format!("{:#?}", ctx.variables));
            }
            outcome
        });
        journal.close();
        laps.lap("undoing");
        trial.spent = laps.spent();
        match result {
            Ok(outcome) => trial.outcome = undisturbed(outcome, trial.stolen),
            Err(error) if error.is::<Stopped>() => return Err(error),
            Err(error) => trial.outcome = Outcome::Broken(format!("{error:#}")),
        }
        Ok(trial)
    }

    /// Runs one trial; a second time, whatever came of it, if the host was held up meanwhile.
    fn run_trial_again(&self, scenario: &Scenario, seed: u64, faulted: bool) -> Result<Trial> {
        let begin = Instant::now();
        let trial = self.run_trial(scenario, seed, faulted)?;
        if !matches!(trial.outcome, Outcome::Disturbed(_)) {
            return Ok(trial);
        }
        say(&progress(&trial, begin.elapsed()));
        self.run_trial(scenario, seed, faulted)
    }

    /// The context of a trial, and the guard of its scratch directory.
    pub fn open(
        &self,
        journal: &Arc<Journal>,
        draw: Draw,
        mut variables: Variables,
    ) -> Result<(Ctx, Guards)> {
        // No scenario's name: a path is seen by holdup.
        let scratch = self.dir.join(format!("{}", std::process::id()));
        let mut guards = Guards::new();
        guards.push(journal.guard(Undo::Remove { path: scratch.clone() })?);
        std::fs::create_dir_all(&scratch).with_context(|| format!("make {}", scratch.display()))?;
        variables.insert("scratch".into(), scratch.to_string_lossy().into_owned());
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

    /// What a scenario's seed draws.
    fn drawn(scenario: &Scenario, seed: u64) -> (Draw, Variables) {
        let mut draw = Draw::new(seed, &scenario.name);
        let mut variables = scenario.draw(&mut draw);
        variables.insert("seed".into(), seed.to_string());
        variables.insert("load_name".into(), draw.name());
        (draw, variables)
    }

    fn stage(
        &self,
        ctx: &mut Ctx,
        scenario: &Scenario,
        faulted: bool,
        trial: &mut Trial,
        laps: &mut Laps,
    ) -> Result<Outcome> {
        let fault = match scenario.fault.as_ref().or(scenario.stage.as_ref()) {
            Some(name) => Some(faults::find(name).with_context(|| format!("no fault {name}"))?),
            None => None,
        };
        let spec = scenario.load[ctx.draw.index(scenario.load.len())].clone();
        let mut stage = Guards::new();
        if let Some(fault) = fault {
            stage.append(fault.set_up(ctx).context("set up")?);
        }
        let mut distractor = distractor::drawn(scenario, trial.seed);
        let neighbour =
            distractor::neighbour(ctx, trial.seed, distractor).context("the neighbour")?;
        laps.lap("stage");
        let inject = fault.filter(|_| faulted);
        let asked = Asked { scenario, spec: &spec, inject, distractor, seed: trial.seed };
        let mut look = if scenario.is_run() {
            self.look_at_command(ctx, &asked, laps)?
        } else {
            self.look_at_running(ctx, &asked, laps)?
        };
        if matches!(distractor, Distractor::Second(_)) && look.second.is_none() {
            distractor = Distractor::None;
        }
        fill_in_look(trial, scenario, inject.is_some(), &mut look);
        if let Some(truth) = look.truth.take().or_else(|| {
            let spec = scenario.truth.as_ref().filter(|_| faulted)?;
            Some(Truth::new(spec, &ctx.variables))
        }) {
            trial.code = truth.code();
            // Without an answer not all names of the truth need be known.
            trial.truth = truth
                .line()
                .or_else(|e| if look.answer.is_none() { Ok(String::new()) } else { Err(e) })?;
            let pids = truth.culprit_pids().unwrap_or_default();
            if let Some(answer) = &look.answer {
                trial.process_named = named_process(&pids, &answer.report, &look);
            }
        }
        let Some(answer) = &look.answer else {
            if let Some(why) = look.refused {
                return Ok(Outcome::Refused { why, alarms: None });
            }
            let drawn = scenario.parameters.keys().filter_map(|k| ctx.variables.get_key_value(k));
            let drawn: Vec<_> = drawn.map(|(k, v)| format!("{k}={v}")).collect();
            return Ok(Outcome::Unasked(format!("{} ({})", look.seen, drawn.join(" "))));
        };
        let report = &answer.report;
        let standing = look.second.as_ref().unwrap_or(&neighbour);
        trial.beside = distractor::judge(distractor, standing, report);
        fill_in_answer(trial, report);
        let waited =
            if scenario.is_run() { report.accounting.wall_seconds } else { self.seconds(scenario) };
        trial.answer_seconds = Some((answer.seconds - waited).max(0.0));
        if let Some(why) = look.refused {
            return Ok(Outcome::Refused { why, alarms: Some(trial.alarms.clone()) });
        }
        Ok(match look.judgement {
            Some(judgement) => Outcome::Faulted(judgement),
            None => Outcome::Healthy(trial.alarms.clone()),
        })
    }

    /// How long holdup looks.
    pub(crate) fn seconds(&self, scenario: &Scenario) -> f64 {
        self.look_seconds.unwrap_or(scenario.look_seconds)
    }

    /// About how long a run takes, seconds.
    pub fn seconds_expected(&self, scenarios: &[Scenario], twins: bool) -> f64 {
        let pairs = scenarios.iter().flat_map(|s| kinds(s, twins).iter().map(move |f| (s, *f)));
        pairs
            .map(|(s, faulted)| s.seconds_expected(self.seconds(s), faulted && s.fault.is_some()))
            .sum()
    }

    /// Runs all scenarios with their twins under one seed, tells each as it ends, and hands it over.
    pub fn run_all(
        &self,
        scenarios: &[Scenario],
        seed: u64,
        twins: bool,
        keep: &mut dyn FnMut(Trial),
    ) {
        for scenario in scenarios {
            let mut pair: Vec<Trial> = Vec::new();
            for faulted in kinds(scenario, twins) {
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
                let begin = Instant::now();
                match self.run_trial_again(scenario, seed, *faulted) {
                    Ok(trial) => {
                        say(&progress(&trial, begin.elapsed()));
                        pair.push(trial);
                    }
                    Err(error) => {
                        warn(&format!("{error:#}"));
                        break;
                    }
                }
            }
            if let [faulted, twin] = pair.as_mut_slice()
                && against_twin(faulted, twin)
                && let Outcome::Refused { why, .. } = &faulted.outcome
            {
                say(&format!("{:48} refused after all: {why}", faulted.scenario));
            }
            pair.into_iter().for_each(&mut *keep);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// The trials of a scenario: with its fault, then its healthy twin.
fn kinds(scenario: &Scenario, twins: bool) -> &'static [bool] {
    match (&scenario.fault, scenario.twin && twins) {
        (Some(_), true) => &[true, false],
        (Some(_), false) => &[true],
        (None, _) => &[false],
    }
}

fn fill_in_answer(trial: &mut Trial, report: &Report) {
    let (first, above_note) = (report.findings.iter().take(3), alarms(report));
    trial.said = first.clone().map(finding_line).collect();
    trial.confidence = first.map(|finding| finding.confidence).collect();
    trial.alarm_confidence = above_note.iter().map(|finding| finding.confidence).collect();
    trial.alarms = above_note.into_iter().map(finding_line).collect();
}

fn fill_in_look(trial: &mut Trial, scenario: &Scenario, faulted: bool, look: &mut Look) {
    trial.loss = look.loss;
    trial.has_figure = scenario.must_hurt && faulted;
    trial.figure = look.figure;
    trial.figure_is_time = scenario.is_run();
    trial.watch_cost = look.watch_cost;
    trial.baselines = std::mem::take(&mut look.baselines);
    trial.stolen = look.stolen;
    trial.knot = look.knot.as_ref().map(|knot| knot.line()).unwrap_or_default();
    trial.replay_differences = look.replay_differences.take();
    trial.tried = look.tried.take();
}

/// Whether the first finding, and the knot, name a process of the truth; none if the truth names none.
fn named_process(pids: &[String], report: &Report, look: &Look) -> Option<(bool, bool)> {
    let is = |pid: Option<u32>| pid.is_some_and(|pid| pids.contains(&pid.to_string()));
    let by_holdup = report
        .findings
        .first()
        .is_some_and(|finding| is(finding.culprit.pid) || is(finding.culprit.tid));
    let by_knot = is(look.knot.as_ref().map(|knot| knot.pid));
    (!pids.is_empty()).then_some((by_holdup, by_knot))
}

fn progress(trial: &Trial, took: Duration) -> String {
    let word = match &trial.outcome {
        Outcome::Faulted(v) if v.top1 => "right".into(),
        Outcome::Faulted(v) if v.top3 => "in the first three".into(),
        Outcome::Faulted(v) => format!("WRONG: {}", v.wrong.join(", ")),
        Outcome::Healthy(alarms) if alarms.is_empty() => "quiet".into(),
        Outcome::Healthy(alarms) => format!("FALSE ALARM: {}", alarms.join("; ")),
        Outcome::Refused { why, .. } => format!("refused: {why}"),
        Outcome::Unasked(seen) => seen.clone(),
        Outcome::Disturbed(why) => format!("DISTURBED: {why}"),
        Outcome::Broken(why) => format!("BROKEN: {why}"),
    };
    let mut line = format!("{:48} {:5.1} s", trial.scenario, took.as_secs_f64());
    if let Some(loss) = trial.loss {
        line += &format!(", loss {:.0} %", loss * 100.0);
    }
    line += &format!("  {word}");
    if let Some(Tried::Applied { recovered, undone, .. }) = &trial.tried {
        let back = recovered.map_or("no figure".into(), |r| format!("{:.0} % back", r * 100.0));
        let undone = match undone {
            Some(true) => ", undone",
            Some(false) => ", NOT UNDONE",
            None => "",
        };
        line += &format!("; way out: {back}{undone}");
    }
    if let Some(Tried::NotApplied { command, why }) = &trial.tried {
        line += &format!("; way out not applied ({why}): {command}");
    }
    let beside = &trial.beside;
    for what in [&beside.neighbour, &beside.second].into_iter().flatten() {
        line += &format!("; beside it {what}");
    }
    if let Some(code) = &beside.neighbour_named {
        line += &format!(", NAMED in {code}");
    }
    line.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
