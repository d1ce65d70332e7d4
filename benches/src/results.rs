//! What a run of the bench found: the shape of `--json FILE`, and what table and document are made from.
//!
//! Units are in the names. What was not measured is absent; why a peer has no figure stands beside it.

use crate::machine::Machine;
use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    /// On what.
    pub machine: Machine,
    /// The command line.
    pub command: String,
    /// Rounds of what goals compare that were wanted.
    pub rounds: usize,
    /// Seconds that a load was to take.
    pub load_seconds: f64,
    /// Seconds of a slice of one.
    #[serde(default)]
    pub slice_seconds: Option<f64>,
    /// How long all of it took.
    pub seconds: f64,
    /// Loads under lookers.
    pub pairs: Vec<Pair>,
    /// What looking takes, counted.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// Kernel programs under the ping-pong.
    pub programs: Vec<Program>,
    /// An idle host.
    pub idle: Option<Idle>,
    /// What is run all the time.
    #[serde(default)]
    pub daemons: Vec<Daemon>,
    /// User stacks of threads that wait.
    #[serde(default)]
    pub stacks: Vec<Stacks>,
    /// Cost against size.
    pub growth: Vec<Series>,
    /// Floods.
    pub floods: Vec<Flood>,
    /// Rates of holdup's parts.
    pub micro: Vec<Micro>,
    /// Recordings of everything that a command did.
    pub recordings: Vec<Recording>,
    /// Where looks spend their own time.
    #[serde(default)]
    pub profiles: Vec<Profile>,
    /// Size of the shipped binary.
    pub binary_bytes: u64,
    /// What it consists of.
    #[serde(default)]
    pub size: Vec<SizePart>,
    /// What went wrong, in words.
    pub trouble: Vec<String>,
}

/// One load under one looker, over all rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Name of the load.
    pub load: String,
    /// Name of the looker.
    pub looker: String,
    /// Time for a unit of work, divided by that of the slices beside it that nobody looked at. Those of what goals
    /// compare belong together round by round.
    pub ratios: Vec<f64>,
    /// CPU seconds of the looker's own process, median.
    pub cpu_seconds: Option<f64>,
    /// Largest resident set.
    pub rss_bytes: Option<u64>,
    /// Bytes that it wrote, median.
    pub bytes: Option<f64>,
    /// Events that it took, median.
    pub events: Option<f64>,
    /// Events that it lost, sum of all rounds.
    pub lost: Option<u64>,
    /// From the end of its window to its answer, worst.
    pub answer_seconds: Option<f64>,
    /// Why there is no figure.
    pub refusal: Option<String>,
}

/// What holdup took of a load's CPU time, by counting (counted.rs).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Name of the load.
    pub load: String,
    /// CPU seconds that the machine was busy with all of it.
    pub busy_seconds: f64,
    /// Of these, holdup's own process.
    pub own_seconds: f64,
    /// Nanoseconds to a program and back.
    pub way_ns: f64,
    /// Nanoseconds that BPF statistics say of an empty program.
    pub empty_ns: f64,
    /// Kernel programs that ran on others' time, as the statistics tell them.
    pub programs: Vec<Program>,
}

impl Counted {
    /// What a run of a program takes, nanoseconds.
    pub fn run_ns(&self, program: &Program) -> f64 {
        self.way_ns + (program.ns - self.empty_ns).max(0.0)
    }

    /// What all programs took.
    pub fn programs_seconds(&self) -> f64 {
        self.programs.iter().map(|it| self.run_ns(it) * it.runs as f64).sum::<f64>() / 1e9
    }

    /// CPU time with holdup over CPU time without.
    pub fn ratio(&self) -> f64 {
        self.busy_seconds / self.unwatched_seconds()
    }

    /// The same if none of the programs did anything: only the ways to where holdup looks.
    pub fn ratio_empty(&self) -> f64 {
        let runs: u64 = self.programs.iter().map(|it| it.runs).sum();
        1.0 + self.way_ns * runs as f64 / 1e9 / self.unwatched_seconds()
    }

    /// What it took beyond empty programs, as a part of the CPU time without it. Hardly a matter of what the way to a
    /// program takes.
    pub fn beyond_empty(&self) -> f64 {
        self.ratio() - self.ratio_empty()
    }

    fn unwatched_seconds(&self) -> f64 {
        self.busy_seconds - self.programs_seconds() - self.own_seconds
    }
}

/// A kernel program under the ping-pong.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Whose: `floor`, `access`, `holdup`.
    pub of: String,
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// Mean nanoseconds.
    pub ns: f64,
}

/// An idle host with threads and cgroups.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Idle {
    /// Sleeping threads.
    pub threads: usize,
    /// Cgroups.
    pub cgroups: usize,
    /// Of the steady part, when the begin was over.
    pub seconds: f64,
    /// CPU seconds of holdup's process in it.
    pub own_seconds: f64,
    /// Kernel programs' seconds in it.
    pub bpf_seconds: f64,
    /// CPU seconds of everybody else in it, of /proc/stat; none in results of before this was measured.
    pub others_seconds: Option<f64>,
    /// CPU seconds of the process before and after it.
    pub rest_seconds: f64,
    /// Largest resident set.
    pub rss_bytes: u64,
}

impl Idle {
    /// Share of a core that each further second of a look takes.
    pub fn steady_share(&self) -> f64 {
        (self.own_seconds + self.bpf_seconds) / self.seconds
    }

    /// Share of a core that others took meanwhile, if that is more than a host does that is idle: the daemons of a virtual
    /// machine took 0.02 to 0.05, one build 1 to 2.
    pub fn disturbed(&self) -> Option<f64> {
        const IDLE_SHARE_MAX: f64 = 0.1;
        let share = self.others_seconds? / self.seconds;
        (share > IDLE_SHARE_MAX).then_some(share)
    }
}

/// A program that is run all the time, on an idle host with threads and cgroups.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Daemon {
    /// Its name.
    pub name: String,
    /// Sleeping threads.
    pub threads: usize,
    /// Cgroups.
    pub cgroups: usize,
    /// For how long it was measured, begin and end left out.
    pub seconds: f64,
    /// CPU seconds of it and of all below it.
    pub cpu_seconds: f64,
    /// Its kernel programs' seconds.
    pub bpf_seconds: f64,
    /// CPU seconds of everybody else.
    pub others_seconds: f64,
    /// Resident: of holdup the peak, of others at the end, summed over their processes.
    pub rss_bytes: u64,
    /// Bytes given to write(2).
    pub written_bytes: u64,
    /// Of holdup: troubles that it said.
    pub alarms: u64,
    /// Why there is no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl Daemon {
    /// Share of a core that it takes all the time.
    pub fn share(&self) -> f64 {
        (self.cpu_seconds + self.bpf_seconds) / self.seconds.max(1e-9)
    }

    /// Bytes that it writes in an hour.
    pub fn hourly_bytes(&self) -> f64 {
        self.written_bytes as f64 / self.seconds.max(1e-9) * 3600.0
    }
}

/// What a look took to read user stacks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stacks {
    /// A look at what: `host`, `process`.
    pub of: String,
    /// Processes with threads that wait.
    pub processes: usize,
    /// Those threads.
    pub threads: usize,
    /// Window, seconds.
    pub seconds: f64,
    /// Stacks that were read.
    pub read: u64,
    /// Threads whose stack was not, for want of time.
    pub left_out: u64,
    /// CPU seconds of reading.
    pub cpu_seconds: f64,
}

impl Stacks {
    /// Part of a CPU while the look lasted.
    pub fn share(&self) -> f64 {
        self.cpu_seconds / self.seconds.max(1e-9)
    }
}

/// Cost against one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Size of what: `threads`, `cgroups`, `switches/s`.
    pub of: String,
    /// In rising order.
    pub points: Vec<Point>,
}

/// One look at one size, the one in the middle of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The size.
    pub size: f64,
    /// Looks of which it is the one in the middle by CPU time; 0 in results from when there was one.
    #[serde(default)]
    pub looks: usize,
    /// Window, seconds.
    pub seconds: f64,
    /// CPU seconds of holdup.
    pub cpu_seconds: f64,
    /// CPU seconds of its kernel programs.
    pub bpf_seconds: f64,
    /// Nanoseconds per run of them, all together.
    pub bpf_ns: f64,
    /// Largest resident set.
    pub rss_bytes: u64,
    /// Events taken.
    pub events: u64,
    /// Events lost.
    pub lost: u64,
}

/// A flood, looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Flood {
    /// Of what.
    pub of: String,
    /// Who made it, as the kernel names it.
    pub author: String,
    /// How many a second.
    pub per_second: f64,
    /// Events taken.
    pub events: u64,
    /// Events lost, as reported.
    pub lost: u64,
    /// CPU seconds of holdup, and the window.
    pub cpu_seconds: f64,
    /// Window, seconds.
    pub seconds: f64,
    /// Time not accounted for, of the window's wall time.
    pub residual_share: f64,
    /// What the report named: code, object, culprit.
    pub named: Vec<String>,
    /// The report names the author.
    pub author_named: bool,
}

/// Rate of one part of holdup on one core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Micro {
    /// The part.
    pub name: String,
    /// Of what: `events`, `facts`, `looks`.
    pub unit: String,
    /// How many a second, best of several.
    pub per_second: f64,
}

/// A recording of a command, where every wait is reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Which load.
    pub load: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Events in it.
    pub events: u64,
    /// Events lost.
    pub lost: u64,
}

/// A part of the shipped binary.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SizePart {
    /// What it is.
    pub name: String,
    /// What it takes of the file.
    pub bytes: u64,
}

/// One look's own CPU time, by function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What was looked at.
    pub what: String,
    /// CPU seconds of the look, begin and end included, by samples.
    pub cpu_seconds: f64,
    /// In falling order.
    pub rows: Vec<ProfileRow>,
}

/// One function's part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileRow {
    /// Of the look's samples.
    pub percent: f64,
    /// In the kernel, working for holdup.
    pub kernel: bool,
    /// Its name.
    pub function: String,
}
