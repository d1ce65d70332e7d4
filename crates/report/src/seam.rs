//! What this crate takes from its neighbours, in one place.
//!
//! The live source and the reasoning are not joined yet: until they are, a look fails with status 3,
//! and a recording is answered with its window, its cost and a caveat that says so. The signatures
//! are final.

use holdup_probe::{Source, SourceError};
use holdup_reason::facts::{Blind, Body, Fact, TargetKind};
use holdup_reason::findings::{
    Accounting, Caveat, Finding, Report, ReportCost, ReportTarget, SCHEMA, Tool, Window,
};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// At what to look.
pub enum What {
    /// All of it.
    Host,
    /// One process.
    Process(u32),
    /// One container.
    Container(String),
    /// A command to start.
    Command(Vec<OsString>),
}

/// One look.
pub struct Look {
    /// At what.
    pub what: What,
    /// How long; none: until the command ends.
    pub seconds: Option<f64>,
}

/// A live source.
pub enum Live {}

impl Live {
    /// Begins to look.
    pub fn start(look: Look) -> Result<Self, SourceError> {
        let whom = match look.what {
            What::Host => "host".to_owned(),
            What::Process(pid) => format!("process {pid}"),
            What::Container(name) => format!("container {name}"),
            What::Command(words) => format!("command of {} words", words.len()),
        };
        let seconds = look.seconds.map_or_else(String::new, |seconds| format!(" for {seconds} s"));
        Err(SourceError::System {
            doing: format!("look at a live {whom}{seconds}"),
            error: std::io::Error::other("this build only answers from recordings (--from)"),
        })
    }

    /// Set it to end early.
    pub fn stopper(&self) -> Arc<AtomicBool> {
        match *self {}
    }

    /// Of the command.
    pub fn exit_status(&self) -> Option<i32> {
        match *self {}
    }
}

impl Source for Live {
    fn drain(&mut self, _facts: &mut Vec<Fact>) -> Result<bool, SourceError> {
        match *self {}
    }
}

/// Facts to a report.
pub fn explain(facts: Vec<Fact>) -> Report {
    let mut report = Report {
        schema: SCHEMA,
        tool: Tool { name: "holdup".into(), version: env!("CARGO_PKG_VERSION").into() },
        target: ReportTarget {
            kind: TargetKind::Host,
            name: String::new(),
            pid: None,
            exit_status: None,
        },
        window: Window { begin_unix_ns: 0, seconds: 0.0 },
        accounting: Accounting::default(),
        findings: Vec::new(),
        caveats: vec![Caveat {
            code: "no_reasoning".into(),
            text: "this build does not reason yet: no finding means nothing here".into(),
        }],
        cost: ReportCost::default(),
    };
    let mut begin = None;
    for fact in &facts {
        match &fact.body {
            Body::Target(target) => {
                report.target.kind = target.kind;
                report.target.name = target.name.clone();
                report.target.pid = (target.pid != 0).then_some(target.pid);
            }
            Body::WindowBegin(window) => {
                begin = Some(fact.at_ns);
                report.window.begin_unix_ns = window.unix_ns;
            }
            Body::WindowEnd(_) => {
                let length = fact.at_ns.saturating_sub(begin.unwrap_or(fact.at_ns));
                report.window.seconds = length as f64 / 1e9;
            }
            Body::CommandEnd(end) => report.target.exit_status = Some(end.exit_status),
            Body::Cost(cost) => report.cost = cost.into(),
            _ => {}
        }
    }
    report
}

/// The registry of causes.
pub mod cases {
    use super::Finding;

    /// One cause.
    pub struct Case {
        /// `area.cause`.
        pub code: &'static str,
        /// In a few words.
        pub title: &'static str,
        /// How it comes about.
        pub theory: &'static str,
        /// The evidence that must be there.
        pub needs: &'static [&'static str],
        /// What would refute it.
        pub refuted_by: &'static [&'static str],
        /// Ways out.
        pub remedies: &'static [&'static str],
        /// Stories it answers.
        pub stories: &'static [&'static str],
        /// The rule.
        #[allow(dead_code, reason = "the reasoning calls it, this crate does not")]
        pub find: fn(&()) -> Vec<Finding>,
    }

    /// All of them.
    pub const CASES: &[&Case] = &[];
}

/// Facts of what this host lets be seen.
pub fn doctor() -> Vec<Fact> {
    let blind = Blind {
        what: "live".into(),
        why: "this build only answers from recordings".into(),
        remedy: String::new(),
        therefore: "looks at this host".into(),
    };
    vec![Fact { at_ns: 0, body: Body::Blind(blind) }]
}

/// What, whether it can be seen, by which interface.
pub fn offers() -> Vec<(String, bool, String)> {
    Vec::new()
}
