//! net.class_ceiling: a class of a shaper sends as fast as its ceiling allows, and more waits.
//!
//! The wait is configured. The class's own counters tell the rate that it reached; the ceiling may be its own or
//! that of a class above it. Must not fire for a class that borrows below its ceiling, or whose queue empties.

use crate::answer::report::{Culprit, Evidence, Finding, ObjectName, Remedy};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::net::{self, Ceiling, Losses, Queue};
use crate::rules::old::{Rule, Verdict, words};

/// The case.
pub static RULE: Rule = Rule {
    code: "net.class_ceiling",
    title: "A traffic class is at its ceiling",
    theory: "A shaper such as HTB divides a link into classes; none may send more than its ceiling, even if the \
             link idles. What exceeds it waits in the class's queue, then in the socket, and then the program \
             sleeps until there is room.",
    needs: &[
        "packets wait in the class in four of five readings",
        "the class, or one above it, sends at least 85 % of its ceiling",
        "a process of the target waits to send through it",
    ],
    refuted_by: &[
        Refutation::new("the class stays below its ceiling", ""),
        Refutation::new("its queue empties now and then", ""),
    ],
    remedies: &["raise the ceiling", "move the flow to another class", "send less"],
    stories: &["S0.15"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let queues = net::standing_queues(measures.model);
    let streams = net::streams(measures, &queues);
    let mut findings = Vec::new();
    for (at, queue) in queues.iter().enumerate() {
        if let Some(ceiling) = &queue.ceiling {
            findings.extend(finding(measures, at, queue, ceiling, &streams));
        }
    }
    findings
}

// LONG FUNCTION: the sentences of one verdict, in the order in which they are read.
fn finding(
    measures: &Measures<'_>,
    at: usize,
    queue: &Queue<'_>,
    ceiling: &Ceiling<'_>,
    streams: &[net::Stream<'_>],
) -> Option<Finding> {
    let (class, interface) = (ceiling.class, &ceiling.class.interface);
    let mine: Vec<&net::Stream<'_>> =
        streams.iter().filter(|s| s.wrong == Some(net::Wrong::Queue(at))).collect();
    let (victim, lost) = if mine.is_empty() {
        let losses = net::in_target(measures, delayed(measures, queue));
        let (_, (thread, seconds)) = losses.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        (words::who(thread), *seconds)
    } else {
        (net::writer(&mine), net::lost(&mine))
    };
    let set = net::bits(ceiling.ceiling);
    let drain = ceiling.backlog / ceiling.sent.max(1.0);
    let steered = match class.filters.first() {
        Some(filter) => format!(" The filter \"{filter}\" steers it there."),
        None => String::new(),
    };
    let verdict = Verdict {
        title: format!(
            "{victim} is held back by class {} of {interface}, which may send {set}",
            class.handle
        ),
        text: format!(
            "{} pass in waits to send. The class sends {} of its {set}; {} wait in it, {} worth of sending.{steered}",
            words::of_window(lost, measures.wall_seconds()),
            net::bits(ceiling.sent),
            words::bytes(ceiling.backlog),
            words::seconds(drain),
        ),
        confidence: 0.96,
        culprit: Culprit::setting(
            format!("{} class {} of {interface}", class.kind, class.handle),
            format!("tc class dev {interface} classid {} ceil {set}", class.handle),
        ),
        evidence: vec![
            Evidence::new("ceiling set", ceiling.ceiling, "bytes/s", "rtnetlink"),
            Evidence::new("sent by the class", ceiling.sent, "bytes/s", "rtnetlink TCA_STATS2"),
            Evidence::new(
                "mean backlog of the class",
                ceiling.backlog,
                "bytes",
                "rtnetlink TCA_STATS2",
            ),
            Evidence::new(
                "time to send that backlog",
                drain * 1e3,
                "ms",
                "backlog divided by rate",
            ),
        ],
        remedy: remedy(measures, ceiling),
    };
    let object =
        ObjectName::new("class", format!("{interface} {}", class.handle)).with_id(&*class.handle);
    if let Some(end) = End::merged(mine.iter().filter_map(|s| s.end)) {
        let mut finding = RULE.finding(measures, &end, verdict);
        finding.object = object;
        // The reader behind the socket waits too, but for this.
        finding.chain.truncate(end.named + 1);
        return Some(finding);
    }
    let losses = net::in_target(measures, delayed(measures, queue));
    (!losses.is_empty()).then(|| net::finding(&RULE, measures, object, &losses, None, verdict))
}

/// Who has packets in the queue for longer than they would wait in a good one.
fn delayed(measures: &Measures<'_>, queue: &Queue<'_>) -> Losses {
    let mut losses = Losses::new();
    for flow in &queue.flows {
        let slow = net::flow_seconds(flow).is_some_and(|s| s * 1e9 >= net::TARGET_NS);
        if let (Some(process), true) = (&flow.process, slow) {
            let waited = (flow.sojourn_ns as f64 / 1e9).min(measures.model.seconds());
            let loss = losses.entry(process.pid).or_insert_with(|| (process.clone(), 0.0));
            loss.1 = loss.1.max(waited);
        }
    }
    losses
}

fn remedy(measures: &Measures<'_>, ceiling: &Ceiling<'_>) -> Vec<Remedy> {
    let class = ceiling.class;
    let tc = net::command_in(measures.model, class.netns, "tc");
    let assured = class.assured_rate_bytes.map_or(ceiling.ceiling, |rate| rate as f64);
    // Without a parent class there is nobody to borrow from: the assured rate is the ceiling.
    let lends = class.parent != "root";
    let change = |rate: f64, ceil: f64| {
        format!(
            "{tc} class change dev {} parent {} classid {} {} rate {} ceil {}",
            words::shell(&class.interface),
            if lends {
                class.parent.clone()
            } else {
                class.handle.split(':').next().map_or_else(String::new, |major| format!("{major}:"))
            },
            class.handle,
            class.kind,
            net::bits(rate),
            net::bits(ceil),
        )
    };
    // How much more is wanted cannot be seen behind the ceiling: an order of magnitude tells.
    let raised = ceiling.ceiling * 10.0;
    vec![Remedy {
        text: "raise the ceiling, if the link has room".into(),
        command: change(if lends { assured } else { raised }, raised),
        undo: change(assured, ceiling.ceiling),
    }]
}
