//! `holdup-bench`: everything that `make bench` measures, in one go.
//!
//! Order: pairs, counted cost, kernel programs, idle host, growth, floods, profile, size, parts. A part that fails is reported under TROUBLE and
//! the others go on; Ctrl-C ends at once, and the guards take back what was made. Figures are printed as they
//! come, the tables at the end.

use anyhow::{Context, Result, bail};
use clap::Parser;
use holdup_bench::child::Ctx;
use holdup_bench::growth::{self, FULL, QUICK};
use holdup_bench::machine::Machine;
use holdup_bench::results::Results;
use holdup_bench::{
    counted, docs, flood, kernel, loads, lookers, micro, pairs, profile, say, size, stacks, table,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What the page is made of.
const TEMPLATE: &str = "crates/report/src/page/template";

/// What else is measured, by name.
const PARTS: &[(&str, &str)] = &[
    ("counted", "what looking takes of each load, by counting"),
    ("kernel", "nanoseconds of each kernel program under the ping-pong"),
    ("idle", "an idle host with 2,000 sleeping threads and 100 cgroups"),
    ("watch", "holdup watch and its peers, all the time on such a host"),
    ("stacks", "user stacks of 800 threads that wait, in looks of 2 s"),
    ("growth", "cost against threads, cgroups and switches a second"),
    ("flood", "as many switches, and packets, as the machine makes"),
    ("profile", "where a look's own time goes, by function"),
    ("size", "what each part of the binary takes of its bytes"),
    ("parts", "decode, waits, chains, rules, recording on one core"),
];

/// Measures what holdup costs, beside its peers. Needs root and a quiet machine.
#[derive(Parser)]
struct Cli {
    /// The binary to measure
    #[arg(long, default_value = "target/holdup")]
    holdup: PathBuf,
    /// Only this load or part; may be given more than once (see --list)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Rounds of what goals compare; the other lookers get two at most
    #[arg(long, default_value_t = pairs::ROUNDS)]
    rounds: usize,
    /// Seconds of a whole load
    #[arg(long, default_value_t = pairs::LOAD_SECONDS)]
    seconds: f64,
    /// Seconds of a slice of a load
    #[arg(long, default_value_t = pairs::SLICE_SECONDS)]
    slice: f64,
    /// Two short rounds and few sizes: does it work?
    #[arg(long)]
    quick: bool,
    /// Write all figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write docs/cost.md, docs/cost.svg and docs/cost.json; with --only size or watch, that in them
    #[arg(long)]
    write_docs: bool,
    /// Measure nothing: make tables and documents from figures that --json wrote
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Say what can be measured
    #[arg(long)]
    list: bool,
}

impl Cli {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn command(&self) -> String {
        command(std::env::args().skip(1))
    }
}

/// The command line to measure the same again: without the files that are read and written.
fn command(mut arguments: impl Iterator<Item = String>) -> String {
    let mut shown: Vec<String> = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.split_once('=').map_or(&*argument, |(flag, _)| flag) {
            "--holdup" | "--json" | "--from" if argument.contains('=') => {}
            "--holdup" | "--json" | "--from" => drop(arguments.next()),
            _ => shown.push(argument),
        }
    }
    match shown.join(" ") {
        arguments if arguments.is_empty() => "make bench".into(),
        arguments => format!("make bench ARGS=\"{arguments}\""),
    }
}

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    if cli.quick {
        (cli.rounds, cli.seconds) = (cli.rounds.min(2), cli.seconds.min(1.0));
        cli.slice = cli.slice.min(0.3);
    }
    if cli.list {
        loads::KINDS.iter().for_each(|kind| say(&format!("{:<10} {}", kind.name, kind.what)));
        PARTS.iter().for_each(|(name, what)| say(&format!("{name:<10} {what}")));
        return ExitCode::SUCCESS;
    }
    match whole(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn whole(cli: &Cli) -> Result<()> {
    let known = |name: &String| {
        loads::KINDS.iter().any(|kind| kind.name == name)
            || PARTS.iter().any(|(part, _)| part == name)
    };
    if let Some(unknown) = cli.only.iter().find(|name| !known(name)) {
        bail!("there is no load or part {unknown}; see --list");
    }
    let alone = docs::ALONE.iter().copied().find(|name| cli.only == [*name]);
    if cli.write_docs && cli.from.is_none() && !cli.only.is_empty() && alone.is_none() {
        bail!(
            "--write-docs with --only would take everything else out of docs/cost.md: measure all of it, or --only {}",
            docs::ALONE.join(", or --only ")
        );
    }
    let results = match &cli.from {
        Some(file) => serde_json::from_slice(&std::fs::read(file)?)?,
        None => measure(cli)?,
    };
    print(&results);
    if let Some(file) = &cli.json {
        std::fs::write(file, serde_json::to_string_pretty(&results)?)
            .with_context(|| format!("write {}", file.display()))?;
    }
    if cli.write_docs {
        let folder = Path::new("docs");
        let results = match alone {
            Some(name) => docs::with_alone(folder, name, results)?,
            None => results,
        };
        docs::write(&results, folder)?;
        say("bench: docs/cost.md, docs/cost.svg and docs/cost.json are written");
    }
    Ok(())
}

fn measure(cli: &Cli) -> Result<Results> {
    let began = Instant::now();
    if !nix::unistd::geteuid().is_root() {
        bail!("needs root: it attaches programs, mounts and makes cgroups and namespaces");
    }
    let holdup = std::fs::canonicalize(&cli.holdup)
        .with_context(|| format!("{}: `make build` makes it", cli.holdup.display()))?;
    let mut results = Results {
        machine: Machine::here(),
        command: cli.command(),
        rounds: cli.rounds,
        load_seconds: cli.seconds,
        slice_seconds: Some(cli.slice),
        binary_bytes: std::fs::metadata(&holdup)?.len(),
        ..Results::default()
    };
    let chosen: Vec<_> = loads::KINDS.iter().filter(|kind| cli.wants(kind.name)).collect();
    let parts = PARTS.iter().filter(|(name, _)| cli.wants(name)).count();
    let estimate =
        docs::estimate(chosen.len(), cli.rounds, (cli.seconds, cli.slice), parts, cli.quick);
    say(&format!("bench: {}", results.machine.sentence()));
    say(&format!(
        "bench: {} loads under {} lookers in {} rounds, {parts} parts: about {:.0} minutes",
        chosen.len(),
        lookers::LOOKERS.len(),
        cli.rounds,
        (estimate / 60.0).ceil()
    ));
    // What a killed run has left stands in its journal.
    drop(holdup_lab::undo::clean(Path::new(holdup_lab::undo::JOURNAL_DIR)));
    let (ctx, guards) = Ctx::open(holdup, (cli.seconds, cli.slice))?;
    let mut left = chosen.len() as f64;
    let mut done = Ok(());
    for kind in chosen {
        // What one load leaves of its share is for the others.
        let rest = (pairs::SECONDS_MAX - began.elapsed().as_secs_f64()).max(0.0);
        let share = Duration::from_secs_f64(rest / left);
        left -= 1.0;
        match pairs::on_load(&ctx, kind, cli.rounds, share) {
            Ok(found) => results.pairs.extend(found),
            Err(error) => {
                done = ctx.check_interrupted();
                results.trouble.push(format!("{}: {error:#}", kind.name));
            }
        }
        if done.is_err() {
            break;
        }
    }
    let done = done.and_then(|()| measure_parts(cli, &ctx, &mut results));
    drop(guards);
    ctx.journal.close();
    results.seconds = began.elapsed().as_secs_f64();
    done.map(|()| results)
}

fn measure_parts(cli: &Cli, ctx: &Ctx, results: &mut Results) -> Result<()> {
    let sizes = if cli.quick { &QUICK } else { &FULL };
    let mut trouble = Vec::new();
    for (name, what) in PARTS.iter().filter(|(name, _)| cli.wants(name)) {
        ctx.check_interrupted()?;
        say(&format!("  {name}: {what}"));
        let done = match *name {
            "counted" => {
                counted::all(ctx, loads::KINDS, &mut trouble).map(|found| results.counted = found)
            }
            "kernel" => kernel::under_pingpong(ctx).map(|found| results.programs = found),
            "idle" => growth::idle(ctx, sizes).map(|found| results.idle = Some(found)),
            "watch" => {
                let windows = if cli.quick { 1 } else { 6 };
                holdup_bench::watch::all(ctx, windows).map(|found| results.daemons = found)
            }
            "stacks" => stacks::all(ctx).map(|found| results.stacks = found),
            "growth" => {
                growth::series(ctx, sizes, &mut trouble).map(|found| results.growth = found)
            }
            "flood" => {
                let seconds = if cli.quick { 2.0 } else { 5.0 };
                flood::all(ctx, seconds, &mut trouble).map(|found| results.floods = found)
            }
            "profile" => profile::all(ctx).map(|found| results.profiles = found),
            "size" => size::all(&ctx.holdup, Path::new(TEMPLATE)).map(|found| results.size = found),
            _ => parts(cli, ctx, results),
        };
        if let Err(error) = done {
            ctx.check_interrupted()?;
            trouble.push(format!("{name}: {error:#}"));
        }
    }
    results.trouble.append(&mut trouble);
    Ok(())
}

fn parts(cli: &Cli, ctx: &Ctx, results: &mut Results) -> Result<()> {
    // First, because of what the facts below take: it would stand in the children's account.
    for kind in &loads::KINDS[..2] {
        results.recordings.push(kernel::recording(ctx, kind)?);
    }
    let inputs = micro::Inputs::read(&micro::folder())?;
    let each = Duration::from_millis(if cli.quick { 200 } else { 1_500 });
    results.micro = micro::all(&inputs, &ctx.scratch, each)?;
    Ok(())
}

fn print(results: &Results) {
    let titled = [
        ("LOADS UNDER LOOKERS", table::pairs(results)),
        ("COUNTED", table::counted(results)),
        ("IN THE KERNEL", table::programs(results)),
        ("GROWTH", table::growth(results)),
        ("PROFILE", table::profiles(results)),
        ("SIZE", table::size(results)),
        ("THE REST", table::rest(results)),
        ("GOALS", table::goals(results)),
    ];
    for (title, text) in titled {
        let empty = text.lines().count() <= 1 && title != "THE REST";
        if !empty && !text.trim().is_empty() {
            say(&format!("\n== {title}\n\n{}", text.trim_end()));
        }
    }
    say(&format!("\nbench: {:.0} s", results.seconds));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_reported_without_files() {
        let of = |line: &str| command(line.split_whitespace().map(String::from));
        assert_eq!(of("--holdup target/holdup"), "make bench");
        assert_eq!(
            of("--holdup target/holdup --rounds 3 --json /tmp/x --only fio --from=y"),
            "make bench ARGS=\"--rounds 3 --only fio\""
        );
    }
}
