//! What is known of one trial when it is over: plain data, written down line by line as a run goes on.
//!
//! Owns the shape that `score`, `document` and the files of `--save` share; it judges nothing. Fields are
//! only ever added, each with a default, so that older files stay readable.
//!
//! Edit together: `runner.rs`, which fills it.

use crate::baseline::Sayings;
use crate::judgement::Judgement;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

/// What became of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "what", rename_all = "snake_case")]
pub enum Outcome {
    /// A fault that hurt, and the answer judged.
    Faulted(Judgement),
    /// No fault (or one that should not hurt), and the findings above note.
    Healthy(Vec<String>),
    /// The fault did not hurt, or could not be made.
    Refused {
        /// Why.
        why: String,
        /// Findings above note: the trial is a healthy one then. Absent if holdup was not asked.
        alarms: Option<Vec<String>>,
    },
    /// holdup was not asked; what the lab itself saw.
    Unasked(String),
    /// The host itself was held up during the look, by what the lab did not make: nothing is proven. Why.
    Disturbed(String),
    /// The lab or holdup broke.
    Broken(String),
}

/// What became of the printed way out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Tried {
    /// The right finding prints no command.
    NoCommand,
    /// All its commands only look.
    LooksOnly {
        /// The first of them.
        command: String,
    },
    /// The lab would not run it.
    NotApplied {
        /// The command.
        command: String,
        /// Why.
        why: String,
    },
    /// It was run while the fault stood.
    Applied {
        /// The command.
        command: String,
        /// Share of the loss that came back; absent if there is no figure to tell by.
        recovered: Option<f64>,
        /// What went wrong with it, or is worth knowing.
        #[serde(rename = "note")]
        remark: String,
        /// The command's own undo brought the state back; absent if it prints none.
        undone: Option<bool>,
    },
}

/// What there was beside the fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// A loud but harmless neighbour.
    pub neighbour: Option<String>,
    /// The neighbour was named as a culprit or an object above note.
    pub neighbour_named: Option<String>,
    /// The code of a second, smaller fault.
    pub second: Option<String>,
    /// The place of the second fault among the findings, from 1.
    pub second_place: Option<usize>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trial {
    /// Scenario.
    pub scenario: String,
    /// Seed.
    pub seed: u64,
    /// The true code; empty for healthy trials.
    pub code: String,
    /// The truth in one line.
    pub truth: String,
    /// The first findings, in one line each.
    pub said: Vec<String>,
    /// Findings above note, in one line each.
    pub alarms: Vec<String>,
    /// How sure holdup was of each of the first findings, 0 to 1.
    pub confidence: Vec<f64>,
    /// How sure of each finding above note.
    pub alarm_confidence: Vec<f64>,
    /// What became of it.
    pub outcome: Outcome,
    /// Start of holdup to its answer, beyond the window that was asked for.
    pub answer_seconds: Option<f64>,
    /// Fields in which the replay of the recording differs; absent if it was not replayed.
    pub replay_differences: Option<Vec<String>>,
    /// Relative loss of the load under the fault, against the same run before it.
    pub loss: Option<f64>,
    /// The same against the healthy twin.
    pub twin_loss: Option<f64>,
    /// The load has a figure that admits its fault; else the injector's own check alone did.
    pub has_figure: bool,
    /// The load's figure while holdup looked: operations per second, or seconds of wall time.
    pub figure: Option<f64>,
    /// The figure is a time: less is better.
    pub figure_is_time: bool,
    /// What simple rules say of the same look.
    pub baselines: Sayings,
    /// Share of all CPUs that the hypervisor took while holdup looked, 0 to 1: steal in /proc/stat.
    pub stolen: f64,
    /// The process that the raw wait graph points to, for people.
    pub knot: String,
    /// The truth names a process: whether holdup's first finding, and the knot, name it.
    pub process_named: Option<(bool, bool)>,
    /// Relative slowdown of the load while holdup watched.
    pub watch_cost: Option<f64>,
    /// The printed way out.
    pub tried: Option<Tried>,
    /// What there was beside the fault.
    pub beside: Beside,
    /// Where the time went, seconds by phase.
    pub spent: BTreeMap<String, f64>,
}

impl Default for Trial {
    fn default() -> Self {
        Self::new("", 0)
    }
}

impl Trial {
    /// One of which nothing is known yet.
    pub fn new(scenario: &str, seed: u64) -> Self {
        Self {
            scenario: scenario.into(),
            seed,
            code: String::new(),
            truth: String::new(),
            said: Vec::new(),
            alarms: Vec::new(),
            confidence: Vec::new(),
            alarm_confidence: Vec::new(),
            outcome: Outcome::Healthy(Vec::new()),
            answer_seconds: None,
            replay_differences: None,
            loss: None,
            twin_loss: None,
            has_figure: false,
            figure: None,
            figure_is_time: false,
            baselines: Vec::new(),
            stolen: 0.0,
            knot: String::new(),
            process_named: None,
            watch_cost: None,
            tried: None,
            beside: Beside::default(),
            spent: BTreeMap::new(),
        }
    }

    /// The code of the first finding; `nothing` if there is none.
    pub fn said_first(&self) -> &str {
        self.said.first().and_then(|said| said.split(' ').next()).unwrap_or("nothing")
    }
}

/// Takes the time of one phase after the other.
pub struct Laps {
    last: Instant,
    spent: BTreeMap<String, f64>,
}

impl Default for Laps {
    fn default() -> Self {
        Self { last: Instant::now(), spent: BTreeMap::new() }
    }
}

impl Laps {
    /// What passed since the last call was this phase.
    pub fn lap(&mut self, phase: &str) {
        let now = Instant::now();
        *self.spent.entry(phase.into()).or_default() += now.duration_since(self.last).as_secs_f64();
        self.last = now;
    }

    /// All of it.
    pub fn spent(self) -> BTreeMap<String, f64> {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_read_back_as_it_was_written() {
        let mut trial = Trial::new("disk-journal", 7);
        trial.outcome = Outcome::Refused { why: "too little".into(), alarms: Some(vec![]) };
        trial.tried = Some(Tried::Applied {
            command: "kill 1".into(),
            recovered: Some(0.5),
            remark: String::new(),
            undone: None,
        });
        trial.process_named = Some((true, false));
        let line = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<Trial>(&line).unwrap(), trial);
        assert_eq!(serde_json::from_str::<Trial>("{\"seed\": 3}").unwrap().seed, 3);
    }
}
