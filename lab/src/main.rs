//! `holdup-lab`: run it as root. See lab/README.md.
//!
//! Owns the command line and the order of a run: clean, list, run, score, write. What a trial is, is in
//! `runner.rs`; what is right, in `judgement/`.

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use holdup_lab::holdup_client::Holdup;
use holdup_lab::judgement::ends;
use holdup_lab::runner::Lab;
use holdup_lab::scenario::Scenario;
use holdup_lab::trial::Trial;
use holdup_lab::{
    baseline, brief, distractor, document, dying, faults, load, say, score, undo, vm, warn,
};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

#[derive(Parser)]
#[command(about = "Makes faults on purpose and checks holdup's answers")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Name the scenarios, the faults and the loads
    List {
        /// Name what this seed puts beside each scenario instead
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Run scenarios and print the score
    Run(Run),
    /// Print the score of trials that were saved
    Score(Saved),
    /// Undo what a killed run has left
    Clean,
    /// Undo what a journal of the field has behind a number, last first
    Undo {
        /// The journal
        journal: PathBuf,
        /// Only what was written after this number
        #[arg(long, default_value_t = 0)]
        after: u64,
    },
    /// Judge answers about cases of the field: a line of JSON in (truth, report, sayings), a line out
    Judge,
    /// Watch counters until standard input ends, and print as JSON what simple rules say of them
    Watch,
    /// Boot stock kernels in QEMU and ask holdup in each
    Vm(Vm),
    /// Ask while the host is dying, and print how late the answers are
    Dying(Dying),
    /// Watch a busy host, make brief faults, and print which were named
    Brief(Brief),
}

#[derive(clap::Args)]
struct Run {
    /// Only scenarios whose name begins so (may be repeated)
    #[arg(long)]
    scenario: Vec<String>,
    /// What every number and name is drawn from (may be repeated)
    #[arg(long)]
    seed: Vec<u64>,
    /// Only the scenarios marked quick, with a look of 3 s
    #[arg(long)]
    quick: bool,
    /// No healthy twins
    #[arg(long)]
    no_twins: bool,
    /// Only healthy trials
    #[arg(long)]
    twins_only: bool,
    /// Try the injectors and loads alone, without holdup
    #[arg(long)]
    inject_only: bool,
    /// The binary to ask
    #[arg(long, value_name = "PATH")]
    holdup: Option<PathBuf>,
    /// Keep every recording there
    #[arg(long, value_name = "DIR")]
    keep_recordings: Option<PathBuf>,
    /// Fail unless strict top-1 (macro average) reaches this, and every replay equals its live answer
    #[arg(long, value_name = "PERCENT")]
    at_least: Option<f64>,
    /// Append each trial to a file as it ends, for `score`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write docs/accuracy.md
    #[arg(long)]
    write_docs: bool,
}

#[derive(clap::Args)]
struct Vm {
    /// Kernels, disks and results are kept there
    #[arg(long, value_name = "DIR", default_value = "target/lab-vm")]
    folder: PathBuf,
    /// The binary to ask, linked statically
    #[arg(long, value_name = "PATH", default_value = "target/holdup")]
    holdup: PathBuf,
    /// The loads, linked statically
    #[arg(long, value_name = "PATH", default_value = "target/holdup-lab-load")]
    load: PathBuf,
    /// Only this kernel: 5.10, 6.1, 6.12 or newest (may be repeated)
    #[arg(long)]
    kernel: Vec<String>,
    /// Only this check (may be repeated)
    #[arg(long)]
    check: Vec<String>,
    /// Print the matrix as JSON
    #[arg(long)]
    json: bool,
    /// Write docs/kernels.md
    #[arg(long)]
    write_docs: bool,
}

impl Vm {
    fn plan(&self) -> vm::Plan {
        vm::Plan {
            folder: self.folder.clone(),
            holdup: self.holdup.clone(),
            load: self.load.clone(),
            kernels: self.kernel.clone(),
            checks: self.check.clone(),
            json: self.json,
            page: self.write_docs.then(|| home().join("../docs/kernels.md")),
        }
    }
}

#[derive(clap::Args)]
struct Dying {
    /// Only causes whose name begins so: hogs, memory (may be repeated)
    #[arg(long)]
    cause: Vec<String>,
    /// Looks during each
    #[arg(long, value_name = "N", default_value_t = 7)]
    times: usize,
    /// The binary to ask
    #[arg(long, value_name = "PATH")]
    holdup: Option<PathBuf>,
    /// Write docs/dying.md
    #[arg(long)]
    write_docs: bool,
}

#[derive(clap::Args)]
struct Brief {
    /// Only faults of scenarios whose name begins so (may be repeated)
    #[arg(long)]
    scenario: Vec<String>,
    /// Faults to make, one kind after the other
    #[arg(long, value_name = "N", default_value_t = 20)]
    times: usize,
    /// Seconds between two of them, on average
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    every: f64,
    /// How long each stands
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 300)]
    hold: u64,
    /// Length of a window
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    window: f64,
    /// Then so long without faults
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
    healthy: f64,
    /// Only this of the ordinary loads, where the host is busy by itself (may be repeated)
    #[arg(long, value_name = "SCENARIO")]
    beside: Vec<String>,
    /// A trouble that this host has besides: findings with this in their title are counted apart (may be repeated)
    #[arg(long, value_name = "TEXT")]
    known: Vec<String>,
    /// What every number and name is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What looking may take, percent of one CPU, where a debug build is asked
    #[arg(long, value_name = "PERCENT")]
    budget: Option<f64>,
    /// Copy the ring and what was said there
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The binary to ask
    #[arg(long, value_name = "PATH")]
    holdup: Option<PathBuf>,
}

impl Brief {
    fn plan(&self) -> brief::Plan {
        brief::Plan {
            times: self.times,
            every: Duration::from_secs_f64(self.every),
            hold: Duration::from_millis(self.hold),
            window: Duration::from_secs_f64(self.window),
            healthy: Duration::from_secs_f64(self.healthy * 60.0),
            only: self.scenario.clone(),
            beside: self.beside.clone(),
            known: self.known.clone(),
            seed: self.seed,
            budget: self.budget,
            keep: self.keep.clone(),
        }
    }
}

#[derive(clap::Args)]
struct Saved {
    /// Files that `run --save` has written
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write docs/accuracy.md
    #[arg(long)]
    write_docs: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::List { seed: None } => list(),
        Command::List { seed: Some(seed) } => list_beside(*seed),
        Command::Clean => clean(),
        Command::Undo { journal, after } => undo_journal(journal, *after),
        Command::Judge => judge(),
        Command::Watch => watch(),
        Command::Vm(wanted) => vm::run(home(), &wanted.plan()),
        Command::Run(run) => measure(run),
        Command::Dying(wanted) => ask_while_dying(wanted),
        Command::Brief(wanted) => watch_brief_faults(wanted),
        Command::Score(saved) => score_saved(saved),
    }
}

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn list() -> Result<()> {
    for scenario in Scenario::read_all(&home().join("scenarios"))? {
        let codes = scenario.truth.as_ref().map_or("nothing".into(), |t| t.code.clone());
        say(&format!("{:32} {:28} {}", scenario.name, codes, scenario.about));
    }
    say(&format!("\nfaults: {}", faults::names().join(", ")));
    say(&format!("loads: {}", load::names().join(", ")));
    Ok(())
}

fn list_beside(seed: u64) -> Result<()> {
    for scenario in Scenario::read_all(&home().join("scenarios"))? {
        say(&format!("{:32} {}", scenario.name, distractor::drawn(&scenario, seed)));
    }
    Ok(())
}

fn clean() -> Result<()> {
    let (undone, failed) = undo::clean(Path::new(undo::JOURNAL_DIR))?;
    for one in &undone {
        say(&format!("undone: {one:?}"));
    }
    if !failed.is_empty() {
        bail!("not undone: {}", failed.join("; "));
    }
    say(&format!("{} things undone", undone.len()));
    Ok(())
}

fn undo_journal(journal: &Path, after: u64) -> Result<()> {
    let failed = undo::undo_after(journal, after)?;
    if !failed.is_empty() {
        bail!("not undone: {}", failed.join("; "));
    }
    Ok(())
}

fn judge() -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let answered: ends::Answered = serde_json::from_str(&line?)?;
        say(&serde_json::to_string(&ends::judge(&answered))?);
    }
    Ok(())
}

/// The first line says that it has begun.
fn watch() -> Result<()> {
    let watch = baseline::Watch::begin();
    say("begun");
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    let watched = watch.end();
    let mut sayings: BTreeMap<String, serde_json::Value> =
        watched.sayings.into_iter().map(|(rule, area)| (rule, area.into())).collect();
    sayings.insert("busiest process".into(), serde_json::to_value(watched.busiest)?);
    say(&serde_json::json!({"sayings": sayings, "stolen": watched.stolen}).to_string());
    Ok(())
}

/// The host's one lab: waits for another to end. It asks now and then instead of blocking, because
/// a blocked lab is a wait that the other lab's holdup would rightly report.
fn lock() -> Result<std::fs::File> {
    let path = Path::new(undo::JOURNAL_DIR).join("lock");
    std::fs::create_dir_all(undo::JOURNAL_DIR)?;
    let file = std::fs::File::create(&path).with_context(|| format!("make {}", path.display()))?;
    if file.try_lock().is_err() {
        warn("another lab runs; waiting for its end");
        while file.try_lock().is_err() {
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
    }
    Ok(file)
}

/// The signals that end a run, the lock of the only one, and a host on which nothing is left of another.
fn begin() -> Result<(Arc<AtomicBool>, std::fs::File)> {
    if !nix::unistd::geteuid().is_root() {
        bail!("injecting faults needs root");
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let only = lock()?;
    clean_before()?;
    Ok((stop, only))
}

/// The lab of a run that has no recordings of its own.
fn lab(holdup: Option<&Path>, stop: Arc<AtomicBool>) -> Result<Lab> {
    Ok(Lab {
        holdup: Some(find_holdup(holdup)?),
        load_exe: beside("holdup-lab-load")?,
        dir: undo::JOURNAL_DIR.into(),
        stop,
        keep_recordings: None,
        look_seconds: None,
    })
}

fn ask_while_dying(wanted: &Dying) -> Result<()> {
    let (stop, _only) = begin()?;
    let lab = lab(wanted.holdup.as_deref(), stop)?;
    let table = dying::run(&lab, &wanted.cause, wanted.times)?;
    say(&format!("\n{table}"));
    if !wanted.write_docs {
        return Ok(());
    }
    let path = home().join("../docs/dying.md");
    std::fs::write(&path, dying::page(&table, &origin()?))
        .with_context(|| format!("write {}", path.display()))
}

fn watch_brief_faults(wanted: &Brief) -> Result<()> {
    let (stop, _only) = begin()?;
    let lab = lab(wanted.holdup.as_deref(), stop)?;
    let page = brief::run(&lab, &home().join("scenarios"), &wanted.plan())?;
    say(&format!("\n{page}"));
    Ok(())
}

fn origin() -> Result<document::Origin> {
    let date = std::process::Command::new("date").arg("+%Y-%m-%d").output()?;
    Ok(document::Origin {
        date: String::from_utf8_lossy(&date.stdout).trim().into(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().into(),
        cpus: std::thread::available_parallelism()?.get(),
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

fn measure(run: &Run) -> Result<()> {
    let (stop, _only) = begin()?;
    let mut scenarios = Scenario::read_all(&home().join("scenarios"))?;
    scenarios.retain(|s| {
        (run.scenario.is_empty() || run.scenario.iter().any(|n| s.name.starts_with(n)))
            && (!run.quick || s.quick)
    });
    if scenarios.is_empty() {
        bail!("no such scenario");
    }
    if run.twins_only {
        scenarios.retain(|s| s.fault.is_none());
    }
    let lab = Lab {
        holdup: if run.inject_only { None } else { Some(find_holdup(run.holdup.as_deref())?) },
        load_exe: beside("holdup-lab-load")?,
        dir: undo::JOURNAL_DIR.into(),
        stop,
        keep_recordings: run.keep_recordings.clone(),
        look_seconds: run.quick.then_some(3.0),
    };
    let trials = run_seeds(&lab, run, &scenarios)?;
    if run.inject_only {
        return Ok(());
    }
    print_score(&trials, run.write_docs)?;
    match run.at_least.map(|bar| score::below(&trials, bar)) {
        Some(why) if !why.is_empty() => bail!("below the bar: {}", why.join("; ")),
        _ => Ok(()),
    }
}

fn run_seeds(lab: &Lab, run: &Run, scenarios: &[Scenario]) -> Result<Vec<Trial>> {
    let begin = Instant::now();
    let seeds = if run.seed.is_empty() { vec![1] } else { run.seed.clone() };
    let expected = lab.seconds_expected(scenarios, !run.no_twins) / 60.0;
    let (count, of_all) = (scenarios.len(), expected * seeds.len() as f64);
    say(&format!("{count} scenarios: about {expected:.0} minutes a seed, {of_all:.0} in all"));
    let mut saved = match &run.save {
        Some(path) => Some(
            std::fs::File::options()
                .create(true)
                .append(true)
                .open(path)
                .with_context(|| path.display().to_string())?,
        ),
        None => None,
    };
    let mut trials = Vec::new();
    let mut failed = None;
    for seed in &seeds {
        if lab.stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        say(&format!("seed {seed}"));
        lab.run_all(scenarios, *seed, !run.no_twins, &mut |trial| {
            if let Some(file) = &mut saved
                && let Err(error) = save(file, &trial)
            {
                failed = Some(error);
            }
            trials.push(trial);
        });
    }
    if let Some(error) = failed {
        warn(&format!("not all trials are saved: {error:#}"));
    }
    say(&format!("{} trials in {:.0} s", trials.len(), begin.elapsed().as_secs_f64()));
    Ok(trials)
}

fn save(file: &mut std::fs::File, trial: &Trial) -> Result<()> {
    let mut line = serde_json::to_vec(trial)?;
    line.push(b'\n');
    Ok(file.write_all(&line)?)
}

fn score_saved(saved: &Saved) -> Result<()> {
    let mut trials = Vec::new();
    for path in &saved.files {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        for (at, line) in text.lines().enumerate() {
            let trial: Trial = serde_json::from_str(line)
                .with_context(|| format!("{} line {}", path.display(), at + 1))?;
            trials.push(trial);
        }
    }
    print_score(&trials, saved.write_docs)
}

/// Prints the whole score, and writes the page if it is wanted.
fn print_score(trials: &[Trial], write_docs: bool) -> Result<()> {
    let by_hand = std::fs::read_to_string(home().join("misses.md")).unwrap_or_default();
    let causes = document::causes(&by_hand);
    say(&format!("\n{}", document::text(trials, &causes)));
    if !write_docs {
        return Ok(());
    }
    let path = home().join("../docs/accuracy.md");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let page = document::with_field_section(document::accuracy(trials, &causes, &origin()?), &old);
    std::fs::write(&path, page).with_context(|| format!("write {}", path.display()))
}

fn clean_before() -> Result<()> {
    let (undone, failed) = undo::clean(Path::new(undo::JOURNAL_DIR))?;
    if !undone.is_empty() {
        warn(&format!("{} things of a killed run undone", undone.len()));
    }
    if !failed.is_empty() {
        bail!("a killed run left what cannot be undone: {}", failed.join("; "));
    }
    Ok(())
}

/// A program that lies beside this one.
fn beside(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if !path.exists() {
        bail!("{} is not built: cargo build -p holdup-lab", path.display());
    }
    Ok(path)
}

fn find_holdup(given: Option<&Path>) -> Result<Holdup> {
    let target = std::env::current_exe()?;
    let built = target.parent().and_then(Path::parent).map(|t| t.join("release/holdup"));
    let program = match (given, built) {
        (Some(path), _) => path.canonicalize().with_context(|| path.display().to_string())?,
        (None, Some(path)) if path.exists() => path,
        _ => bail!("no release build of holdup: cargo build --release -p holdup, or --holdup PATH"),
    };
    Ok(Holdup { program })
}
