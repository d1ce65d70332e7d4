//! The tables as people see them: of recordings of real faults, held under `snapshots/`, and of rows made by hand with hostile names.
//!
//! `INSTA_UPDATE=always cargo test -p holdup` writes the snapshots anew: read the difference. Must not: look at a host.

use super::*;
use crate::job::Aim;
use crate::main_loop;
use holdup_reason::answer::network::{Counter, NamedCause, Neighbour, NotRead, SCHEMA, Table};
use holdup_reason::answer::{ReportHost, Severity, Tool, Window};
use std::path::Path;
use unicode_width::UnicodeWidthStr;

/// Recordings, each of another table's fault.
const RECORDINGS: [&str; 9] = [
    "net-accept-queue-4402",
    "net-backlog-full-7",
    "net-conntrack-full-1",
    "net-filter-drop-1",
    "net-loss-4403",
    "net-neighbour-failed-3",
    "net-passing-queue-6",
    "net-reverse-path-1",
    "net-tap-full-1",
];
const HOSTILE: &str = "e\u{1b}[31mth\n0\u{202e}";

fn recorded(name: &str) -> Network {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings");
    let mut facts =
        main_loop::facts_of(&folder.join(format!("{name}.rec")), &Aim::Host).expect("facts");
    holdup_reason::network_of_model(&mut facts)
}

fn rendered(net: &Network, verbose: bool) -> String {
    let mut page = Page::new(80, false);
    render(net, verbose, &mut page);
    page.finish()
}

fn is_harmless(text: &str, name: &str) {
    let hostile = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
    assert_eq!(hostile, None, "{name}");
    assert_eq!(text.lines().find(|line| line.width() > 80), None, "{name}");
}

#[test]
fn texts_of_recorded_faults_are_the_kept_ones() {
    for name in RECORDINGS {
        let net = recorded(name);
        insta::assert_snapshot!(format!("network_{name}"), rendered(&net, false));
        is_harmless(&rendered(&net, true), name);
    }
}

/// Nothing was read, and nothing is there.
fn empty() -> Network {
    Network {
        schema: SCHEMA,
        tool: Tool { name: "holdup".into(), version: "0".into() },
        host: ReportHost { name: "web".into(), ..ReportHost::default() },
        window: Window { begin_unix_ns: 0, seconds: 5.0 },
        findings: Vec::new(),
        interfaces: None,
        interfaces_at_rest: 0,
        drops: None,
        neighbours: None,
        tables: Vec::new(),
        sockets: None,
        counters: None,
        not_read: Vec::new(),
        left_out: Vec::new(),
    }
}

#[test]
fn what_was_not_read_is_not_said_to_be_nothing() {
    let mut net = empty();
    let text = rendered(&net, false);
    assert!(text.contains("dropped was not seen.") && text.contains("Sockets were not read."));
    assert!(!text.contains("No packet"), "{text}");
    (net.interfaces, net.drops, net.neighbours) = (Some(vec![]), Some(vec![]), Some(vec![]));
    (net.sockets, net.counters) = (Some(vec![]), Some(vec![]));
    let text = rendered(&net, false);
    assert!(
        text.contains("No packet was seen to be dropped.") && !text.contains("not read"),
        "{text}"
    );
    assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 6, "{text}");
}

fn workload() -> Workload {
    Workload { name: Some(HOSTILE.into()), runtime: Some("docker".into()), ..Workload::default() }
}

fn somebody() -> Who {
    Who { name: HOSTILE.into(), pid: Some(812), workload: workload(), ..Who::default() }
}

fn waits() -> Vec<Victim> {
    let of = |pid| Victim {
        pid,
        inner_pid: None,
        comm: HOSTILE.into(),
        container: None,
        workload: workload(),
        wait_seconds: 1.5,
    };
    (1..=5).map(of).collect()
}

/// A row of each table, in which every name is hostile and what may be unknown is.
// LONG FUNCTION: a row a table.
fn hostile() -> Network {
    let at = || Namespace { netns: 7, namespace: HOSTILE.into() };
    let name = || HOSTILE.to_string();
    let flow = Flow {
        protocol: name(),
        from: "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff]:40000".parse().expect("an address"),
        to: "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:fffe]:443".parse().expect("an address"),
        packets: 9,
        last_seconds_before_end: 0.5,
        sender: Some(somebody()),
        receiver: Some(somebody()),
    };
    let queue = Queue { kind: name(), handle: name(), waiting: waits(), ..Queue::default() };
    let interface = Interface {
        at: at(),
        name: name(),
        kind: name(),
        lost: vec![Lost { counter: name(), packets: 5, per_second: 1.0 }],
        queues: vec![Queue { backlog: Default::default(), overlimits: Some(4), ..queue }],
        ..Interface::default()
    };
    let drops = Drops {
        at: at(),
        interface: name(),
        reason: "NOT_SPECIFIED".into(),
        function: name(),
        packets: 12_345,
        flows: vec![flow.clone()],
        waiting: waits(),
        ..Drops::default()
    };
    let socket = Socket {
        at: at(),
        protocol: name(),
        state: name(),
        local: flow.from,
        remote: Some(flow.to),
        owner: somebody(),
        troubles: vec![Trouble::SentAgain],
        buffers: None,
        tcp: None,
        waiting: waits(),
        waiting_seconds: 7.5,
    };
    let neighbour = Neighbour {
        at: at(),
        interface: name(),
        address: flow.from.ip(),
        state: name(),
        state_seconds: 2.0,
        destination: flow.to.ip(),
        waiting: waits(),
    };
    let counter = Counter { at: at(), counter: name(), count: 7, per_second: 1.4, meaning: name() };
    let cause = NamedCause { code: name(), title: name(), severity: Severity::Warning };
    Network {
        host: ReportHost { name: name(), ..ReportHost::default() },
        findings: vec![cause],
        interfaces: Some(vec![interface]),
        drops: Some(vec![drops]),
        neighbours: Some(vec![neighbour]),
        tables: vec![Table { at: at(), table: name(), ..Table::default() }],
        sockets: Some(vec![socket]),
        counters: Some(vec![counter]),
        not_read: vec![NotRead { table: name(), text: name() }],
        ..empty()
    }
}

#[test]
fn hostile_names_are_spelled_out_and_unknown_figures_are_no_zeros() {
    let net = hostile();
    for verbose in [false, true] {
        is_harmless(&rendered(&net, verbose), "by hand");
    }
    let text = rendered(&net, false);
    assert!(text.contains(r"e\x1b[31mth"), "{text}");
    let unknown = format!("?{}?", " ".repeat(12));
    assert!(text.contains(&unknown), "a rate that is not known: {text}");
    assert!(text.contains("drops not known"), "{text}");
    assert!(text.contains("more, 7.50 s together"), "{text}");
}

/// docs/net.md is the contract: each field that can be printed stands in it.
#[test]
fn every_field_is_documented() {
    let docs = include_str!("../../../../docs/net.md");
    for name in RECORDINGS {
        let mut keys = Vec::new();
        let value = serde_json::to_value(recorded(name)).expect("JSON");
        crate::text::tests::keys_of(&value, &mut keys);
        for key in keys {
            let written = ["`{}`", "`{}.", ".{}`"].map(|it| it.replace("{}", &key));
            assert!(written.iter().any(|it| docs.contains(it.as_str())), "{name}: {key}");
        }
    }
}
