//! Facts to a report: the whole reasoning, in its order.
//!
//! Index, follow, name, rank, account, say what limits the answer. Must not know a single rule.
//! Ranking: worse severity first, then more demand wait; an effect never stands next to its cause, because an end is
//! claimed by one rule (rules/engine.rs).

pub mod accounting;
mod awaited_end;
mod bounded;
pub mod bounds;
mod card;
mod caveats;
mod child_looked_for;
pub mod compare;
pub mod container_card;
mod container_start;
mod datagram;
mod debugger;
pub mod export;
mod inside;
mod kernel_log;
mod left_pipe;
mod listening;
mod looked_at;
mod masters;
mod naming;
pub mod network;
mod nobodys_lock;
mod one_by_one;
mod only_server;
mod open_transaction;
mod owing;
mod own;
mod own_threads;
mod paced;
pub mod picture;
mod pipe_end;
mod places;
mod received;
pub mod report;
mod resting;
mod saved;
mod semaphores;
mod sentences;
mod sockets;
mod standing;
mod tried_lock;
mod tried_once;
mod unwoken;
mod verdict;
mod whole;

use crate::facts::{Fact, Host, SWITCHES_UNREPORTED, TargetKind};
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use crate::rules::{Claim, engine};
use crate::waits::timeline::Timelines;
use accounting::account;
use bounded::bounded;
use caveats::caveats;
use export::Export;
use export::path::OfPath;
use naming::{add_workload, link, victim};
use network::{Network, Pieces};
use picture::Picture;
use picture::gather::Gathered;
pub use report::*;
use saved::Saved;
use std::collections::BTreeSet;
use verdict::Origin;

/// Explains a look.
pub fn explain(facts: Vec<Fact>) -> Report {
    explain_model(&mut Model::new(facts))
}

/// The same of facts that were taken in one by one and not kept beside it.
pub fn explain_model(model: &mut Model) -> Report {
    model.finish();
    let timelines = Timelines::take(model);
    let measures = Measures::of(model, &timelines);
    bounded(judge(&measures, named(&measures)).report)
}

/// What is wanted beside a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beside {
    /// What drawing it takes.
    pub picture: bool,
    /// What other tools can show of it.
    pub export: bool,
    /// What comparing it with another look takes.
    pub look: bool,
}

/// A report, and what was wanted beside it.
pub struct Explained {
    /// The answer.
    pub report: Report,
    /// What drawing it takes.
    pub picture: Option<Picture>,
    /// What other tools can show of it.
    pub export: Option<Export>,
    /// What comparing it with another look takes.
    pub look: Option<compare::Look>,
}

/// The same, with more beside it.
pub fn explain_beside(model: &mut Model, beside: Beside) -> Explained {
    if beside == Beside::default() {
        return Explained { report: explain_model(model), picture: None, export: None, look: None };
    }
    model.finish();
    let timelines = Timelines::take(model);
    let (mut gathered, mut path) = (Gathered::new(model), OfPath::new(model, &timelines));
    let measures = Measures::watched(model, &timelines, &mut |lost| {
        gathered.add(lost);
        path.add(lost);
    });
    let named = named(&measures);
    let objects = objects(&named);
    let Judged { report, claims, origins } = judge(&measures, named);
    let look = beside.look.then(|| compare::Look::of(&measures, report.clone(), &claims, &objects));
    let (stacks, folded) = export::stacks::stacks(&measures, &path);
    let picture = beside
        .picture
        .then(|| Picture::of(&measures, gathered, (&report, origins.as_slice()), &stacks));
    let export = beside.export.then(|| Export::of(&measures, stacks, folded));
    Explained { report: bounded(report), picture, export, look }
}

/// The same, ready to be compared with another look.
pub fn look_at_model(model: &mut Model) -> compare::Look {
    model.finish();
    let timelines = Timelines::take(model);
    let measures = Measures::of(model, &timelines);
    let named = named(&measures);
    let objects = objects(&named);
    let Judged { report, claims, .. } = judge(&measures, named);
    compare::Look::of(&measures, report, &claims, &objects)
}

/// The tables of the network of a look, joined with who waits.
pub fn network_of_model(model: &mut Model) -> Network {
    model.finish();
    let timelines = Timelines::take(model);
    let mut pieces = Pieces::default();
    let measures = Measures::watched(model, &timelines, &mut |lost| pieces.add(lost));
    let (mut findings, mut claimed) = (Vec::new(), BTreeSet::new());
    for (finding, claims, _) in named(&measures) {
        findings.push(finding);
        claimed.extend(claims.iter().map(|claim| claim.end));
    }
    network::network(&measures, pieces, &claimed, &findings)
}

/// A finding, what it claims, and what it is about.
type NamedEnd = (Finding, Vec<Claim>, Object);

/// A report, and what it was made from.
struct Judged {
    report: Report,
    /// What each finding claims.
    claims: Vec<Vec<Claim>>,
    /// Of each end of the answer, which ends of the graph it is made of.
    origins: Vec<Vec<Origin>>,
}

/// What each finding is about.
fn objects(named: &[NamedEnd]) -> Vec<Object> {
    named.iter().map(|(_, _, object)| object.clone()).collect()
}

/// The findings, worst first.
fn named(measures: &Measures<'_>) -> Vec<NamedEnd> {
    let model = measures.model;
    let made = |named: engine::Named| (named.is_final, finding(model, named));
    let mut named: Vec<(bool, NamedEnd)> = engine::name(measures).into_iter().map(made).collect();
    named.retain(|(_, (finding, ..))| finding.severity > Severity::Note || matters(finding));
    named.sort_by(|(a_final, (a, ..)), (b_final, (b, ..))| {
        b_final
            .cmp(a_final)
            .then_with(|| b.severity.cmp(&a.severity))
            .then_with(|| {
                b.impact.wait_seconds_per_second.total_cmp(&a.impact.wait_seconds_per_second)
            })
            .then_with(|| a.code.cmp(&b.code))
            .then_with(|| a.object.cmp(&b.object))
    });
    named.into_iter().map(|(_, named)| named).collect()
}

fn judge(measures: &Measures<'_>, named: Vec<NamedEnd>) -> Judged {
    let model = measures.model;
    let (mut findings, mut claims) = (Vec::new(), Vec::new());
    for (mut finding, own, object) in named {
        add_inner_pids(model, &mut finding);
        add_workload(model, &mut finding);
        finding.key = compare::key(measures, &finding, &object);
        findings.push(finding);
        claims.push(own);
    }
    let kernel_log = kernel_log::attach(model, &mut findings);
    let saved = Saved::of(measures);
    for (finding, claims) in findings.iter_mut().zip(&claims) {
        finding.without_it = saved.by_claims(measures, claims, &finding.impact);
    }
    let (answer, origins) = verdict::answer(measures, &claims, &findings, &saved);
    let accounting = account(measures);
    let caveats = caveats(measures, &accounting, &findings, &answer.ends);
    let report = Report {
        schema: SCHEMA,
        tool: Tool { name: "holdup".into(), version: model.look.host.tool_version.clone() },
        host: host(model),
        target: target(model),
        window: Window {
            begin_unix_ns: model.look.begin_unix_ns,
            seconds: measures.wall_seconds(),
        },
        accounting,
        answer,
        findings,
        container: card::card(model),
        container_start: container_start::start(measures),
        kernel_log,
        own_fault: kernel_log::own_fault(model),
        left_out: Vec::new(),
        caveats,
        cost: ReportCost {
            events_lost: (model.look.lost.iter())
                .filter(|(source, _)| *source != SWITCHES_UNREPORTED)
                .map(|(_, count)| count)
                .sum(),
            ..ReportCost::from(&model.look.cost)
        },
    };
    Judged { report, claims, origins }
}

/// A named end in the words of the contract.
fn finding(model: &Model, named: engine::Named) -> NamedEnd {
    let finding = Finding {
        code: named.rule.code.into(),
        key: String::new(),
        title: named.wording.title,
        text: named.wording.text,
        severity: named.severity,
        confidence: named.confidence,
        object: model.name_of(&named.object),
        culprit: named.culprit,
        victims: named.victims.iter().map(|(who, seconds)| victim(model, who, *seconds)).collect(),
        impact: named.impact,
        without_it: WithoutIt::default(),
        chain: named.chain.iter().map(|step| link(model, step)).collect(),
        evidence: named.wording.evidence,
        kernel_log: Vec::new(),
        remedy: named.wording.remedy,
        stories: named.rule.stories.iter().map(|s| (*s).to_string()).collect(),
    };
    (finding, named.claimed, named.object)
}

/// Inside a container a process has another number, which is the one that its own tools and logs show.
fn add_inner_pids(model: &Model, finding: &mut Finding) {
    let inner = |pid: u32| model.threads.by_id.get(&pid)?.inner_pid.filter(|inner| *inner != pid);
    for victim in &mut finding.victims {
        victim.inner_pid = inner(victim.pid);
    }
    for link in &mut finding.chain {
        link.who.inner_pid = link.who.pid.and_then(inner);
    }
    finding.culprit.inner_pid = finding.culprit.pid.and_then(inner);
}

/// A note about a moment's wait is noise: every busy host has thousands.
fn matters(note: &Finding) -> bool {
    note.chain.is_empty() || note.impact.wait_seconds_per_second >= 0.05
}

fn host(model: &Model) -> ReportHost {
    let Host { hostname, kernel, machine, boot_id, cpus, machine_id_hash, addresses, .. } =
        &model.look.host;
    ReportHost {
        name: hostname.clone(),
        kernel: kernel.clone(),
        machine: machine.clone(),
        boot_id: boot_id.clone(),
        machine_id_hash: machine_id_hash.clone(),
        addresses: addresses.iter().take(bounds::ADDRESSES_MAX).cloned().collect(),
        listening: listening::listening(model),
        cpus: *cpus,
    }
}

fn target(model: &Model) -> ReportTarget {
    let Some(target) = &model.look.target else {
        return ReportTarget {
            kind: TargetKind::Host,
            name: model.look.host.hostname.clone(),
            pid: None,
            exit_status: None,
        };
    };
    let command = model.look.command_end.as_ref().map(|(_, end)| end);
    let pid = command.map_or(target.pid, |end| end.pid);
    ReportTarget {
        kind: target.kind,
        name: target.name.clone(),
        pid: (pid != 0).then_some(pid),
        exit_status: command.map(|end| end.exit_status),
    }
}
