//! `scenarios/<name>/scenario.toml`: what is done to which load, and what holdup must say.
//!
//! This file owns the format (README.md tells it to people) and the filling in of `{variables}`.
//! A truth names things by variables that the injector sets while it makes them, so that it holds
//! the names as really made. Rejected: expressions in the file (a number that depends on another
//! is worked out by the injector, in Rust, where it is checked).
//!
//! Edit together: README.md, `fault.rs` (which variables there are always).

use crate::seeded_draw::Draw;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Variables by name, as text.
pub type Variables = BTreeMap<String, String>;

/// One word or several.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// None given.
    #[default]
    None,
    /// One.
    One(String),
    /// Any of several.
    Any(Vec<String>),
}

impl Words {
    /// All of them.
    pub fn all(&self) -> &[String] {
        match self {
            Self::None => &[],
            Self::One(word) => std::slice::from_ref(word),
            Self::Any(words) => words,
        }
    }
}

/// A whole scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of its folder.
    #[serde(skip)]
    pub name: String,
    /// What it is about, one sentence.
    pub about: String,
    /// Name of the fault in the registry; absent for a scenario that is healthy by nature.
    #[serde(default)]
    pub fault: Option<String>,
    /// Name of a fault whose stage a healthy scenario stands on; nothing is injected.
    #[serde(default)]
    pub stage: Option<String>,
    /// Stories that it stands for.
    #[serde(default)]
    pub stories: Vec<String>,
    /// Part of the short pass.
    #[serde(default)]
    pub quick: bool,
    /// What holdup is asked.
    #[serde(default)]
    pub target: Target,
    /// How long holdup looks.
    #[serde(default = "five")]
    pub look_seconds: f64,
    /// When the load that is looked at starts.
    #[serde(default)]
    pub start: Start,
    /// How long the fault may take to bite.
    #[serde(default = "eight")]
    pub bite_seconds: f64,
    /// How long to wait after it bites before holdup looks.
    #[serde(default)]
    pub settle_seconds: f64,
    /// Whether the load's own figure must be worse; else only the injector's own check counts.
    #[serde(default = "yes")]
    pub must_hurt: bool,
    /// The same load without the fault is run as a healthy trial too.
    #[serde(default = "yes")]
    pub twin: bool,
    /// A second, smaller fault may stand beside this one: its size is a wait.
    #[serde(default = "yes")]
    pub double: bool,
    /// The load takes all CPUs without the fault too, so that a neighbour that runs would really wait.
    #[serde(default)]
    pub fills_cpus: bool,
    /// What the seed draws.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// Variants, of which the seed draws one.
    pub load: Vec<LoadSpec>,
    /// What holdup must say; absent for healthy scenarios.
    #[serde(default)]
    pub truth: Option<TruthSpec>,
}

fn five() -> f64 {
    5.0
}

fn eight() -> f64 {
    8.0
}

fn yes() -> bool {
    true
}

/// What holdup is asked.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Target {
    /// The whole host.
    #[default]
    Unsaid,
    /// `host`, or `run`: the load is run by holdup to its end.
    Word(TargetWord),
    /// Arguments of holdup, with variables: `["-p", "{victim_pid}"]`.
    Arguments(Vec<String>),
}

/// Targets without arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetWord {
    /// The whole host.
    Host,
    /// The load as holdup's command.
    Run,
}

/// When the load starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Before the fault; the same processes are hit.
    #[default]
    Before,
    /// Once before the fault, for the baseline, and again after it.
    After,
}

/// What the seed draws.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A number.
    Range {
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
        /// Evenly by its logarithm.
        #[serde(default)]
        log: bool,
        /// Rounded to a whole number.
        #[serde(default)]
        whole: bool,
    },
    /// One of these words or numbers.
    Choice {
        /// The words.
        choice: Vec<toml::Value>,
    },
}

/// A load, one variant.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// `rust` (a kind of holdup-lab-load), or a file in `lab/load`: `python`, `sh`, `c`.
    #[serde(default = "rust")]
    pub language: String,
    /// Kind, or the file's name.
    pub kind: String,
    /// Arguments, with variables.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Directories of cgroups to join, with variables.
    #[serde(default)]
    pub cgroups: Vec<String>,
    /// Network namespace to run in, with variables.
    #[serde(default)]
    pub netns: Option<String>,
    /// Arguments that make it end by itself, for `target = "run"`.
    #[serde(default)]
    pub finite: Vec<String>,
}

fn rust() -> String {
    "rust".into()
}

/// What holdup must say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TruthSpec {
    /// The code: one trial has one truth.
    pub code: String,
    /// The object.
    #[serde(default)]
    pub object: Named,
    /// The culprit.
    #[serde(default)]
    pub culprit: Named,
    /// The size.
    #[serde(default)]
    pub size: Option<Size>,
    /// Links that the chain must have.
    #[serde(default)]
    pub chain: Vec<LinkSpec>,
    /// Codes that must not be said above note.
    #[serde(default)]
    pub forbidden: Vec<String>,
}

/// A kind, and what identifies it. Any of the kinds and any of the marks must match; what is not
/// given is not asked.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Kinds.
    #[serde(default)]
    pub kind: Words,
    /// Marks: the name or id itself, or, for paths and settings, a part of them.
    #[serde(default)]
    pub name: Words,
    /// The process.
    #[serde(default)]
    pub pid: Words,
}

/// Which figure of the finding must be how large.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// `impact` (wait seconds per second), `share`, or `evidence`.
    pub figure: String,
    /// For evidence: a part of the fact's sentence.
    #[serde(default)]
    pub fact: Words,
    /// For evidence: its unit.
    #[serde(default)]
    pub unit: String,
    /// What it is in truth, with variables.
    pub expect: String,
    /// The relative error that still counts as right in the list of misses.
    #[serde(default = "tenth")]
    pub tolerance: f64,
}

fn tenth() -> f64 {
    0.1
}

/// A link of the chain.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Name or pid of who waits, with variables; empty for anybody.
    #[serde(default)]
    pub who: String,
    /// Kind of what it waits on; empty for anything.
    #[serde(default)]
    pub on: Words,
}

impl Scenario {
    /// Reads one folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("scenario.toml");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let mut scenario: Self =
            toml::from_str(&text).with_context(|| path.display().to_string())?;
        scenario.name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if scenario.load.is_empty() {
            bail!("{}: no load", path.display());
        }
        if scenario.fault.is_some() != scenario.truth.is_some() {
            bail!("{}: a fault needs a truth, and a truth a fault", path.display());
        }
        if scenario.fault.is_some() && scenario.stage.is_some() {
            bail!("{}: a fault makes its own stage", path.display());
        }
        Ok(scenario)
    }

    /// Reads all folders below `root`, by name.
    pub fn read_all(root: &Path) -> Result<Vec<Self>> {
        let mut folders: Vec<_> = std::fs::read_dir(root)
            .with_context(|| format!("read {}", root.display()))?
            .filter_map(|entry| entry.ok().map(|e| e.path()))
            .filter(|path| path.join("scenario.toml").exists())
            .collect();
        folders.sort();
        folders.iter().map(|folder| Self::read(folder)).collect()
    }

    /// Draws the parameters.
    pub fn draw(&self, draw: &mut Draw) -> Variables {
        let mut variables = Variables::new();
        for (name, parameter) in &self.parameters {
            let value = match parameter {
                Parameter::Range { min, max, log, whole } => {
                    let number = draw.number(*min, *max, *log);
                    if *whole { format!("{}", number.round()) } else { format!("{number:.4}") }
                }
                Parameter::Choice { choice } => match choice.get(draw.index(choice.len())) {
                    Some(toml::Value::String(word)) => word.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                },
            };
            variables.insert(name.clone(), value);
        }
        variables
    }

    /// About how long a trial takes, seconds: stage, baseline, bite, look, replay, way out, undoing.
    pub fn seconds_expected(&self, look_seconds: f64, faulted: bool) -> f64 {
        let look = if self.is_run() { 8.0 } else { look_seconds };
        let fault = if faulted { 1.2 + self.settle_seconds + 3.0 } else { 0.0 };
        3.5 + look + fault
    }

    /// Holdup runs the load itself.
    pub fn is_run(&self) -> bool {
        self.target == Target::Word(TargetWord::Run)
    }
}

/// Fills in `{variables}`; one that is not set is an error, so that no truth is checked by half.
pub fn fill(template: &str, variables: &Variables) -> Result<String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (name, tail) =
            after.split_once('}').with_context(|| format!("{template}: no closing brace"))?;
        let value =
            variables.get(name).with_context(|| format!("{template}: {name} is not set"))?;
        out.push_str(value);
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

/// Fills in each of several templates.
pub fn fill_all(templates: &[String], variables: &Variables) -> Result<Vec<String>> {
    templates.iter().map(|t| fill(t, variables)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_missing_ones_reported() {
        let v = Variables::from([("a".into(), "1".into()), ("b".into(), "{x}".into())]);
        assert_eq!(fill("x{a}y{b}", &v).unwrap(), "x1y{x}");
        assert!(fill("{c}", &v).is_err());
        assert!(fill("{a", &v).is_err());
    }

    #[test]
    fn every_scenario_of_the_tree_reads_and_names_a_known_fault() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let scenarios = Scenario::read_all(&root).unwrap();
        assert!(!scenarios.is_empty());
        for scenario in scenarios {
            for fault in scenario.fault.iter().chain(&scenario.stage) {
                assert!(crate::faults::find(fault).is_some(), "{}: {fault}", scenario.name);
            }
            for variant in &scenario.load {
                if variant.language == "rust" {
                    assert!(
                        crate::load::find(&variant.kind).is_some(),
                        "{}: {}",
                        scenario.name,
                        variant.kind
                    );
                } else {
                    let file =
                        Path::new(env!("CARGO_MANIFEST_DIR")).join("load").join(&variant.kind);
                    assert!(file.exists(), "{}: {}", scenario.name, file.display());
                }
            }
        }
    }
}
