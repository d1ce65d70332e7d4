//! The order of the facts of a look is that of tests/fixtures/order.txt, with kernel events and without, whatever is looked at; and a
//! look leaves the process as it was.
//!
//! On the running host and on a checked-in tree. Kernel events need root; without it the looks are those of an ordinary user.

use super::Session;
use super::opening::{Ground, open_on};
use crate::Source;
use crate::host::{self, NoBpf, Offer};
use crate::plan::{self, Target};
use crate::system::Roots;
use holdup_reason::facts::{Body, Fact};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const ORDER: &str = include_str!("../../tests/fixtures/order.txt");

/// The kinds of a part of the fixture.
fn order(part: &str) -> Vec<&'static str> {
    let lines = ORDER.lines().skip_while(|line| *line != format!("{part}:")).skip(1);
    lines.take_while(|line| !line.is_empty()).flat_map(str::split_whitespace).collect()
}

fn kind(fact: &Fact) -> String {
    if let Body::Blind(blind) = &fact.body {
        // Of many alike the number or name stands behind.
        const MANY: [(&str, &str); 4] = [
            ("netns.", "blind.netns"),
            ("net.counters.", "net_counters"),
            ("program.", "blind.program"),
            ("tracepoint.", "blind.tracepoint"),
        ];
        let of_many = MANY.iter().find(|(begin, _)| blind.what.starts_with(begin));
        return of_many.map_or_else(|| format!("blind.{}", blind.what), |(_, kind)| (*kind).into());
    }
    let value = serde_json::to_value(fact).expect("a fact is JSON");
    value["f"].as_str().expect("its kind").to_string()
}

/// The kinds of facts, those beside each other once.
fn kinds<'f>(facts: impl Iterator<Item = &'f Fact>) -> Vec<String> {
    let mut kinds: Vec<String> = facts.map(kind).collect();
    kinds.dedup();
    kinds
}

/// Which of some kinds is out of the order, if one is.
fn out_of(order: &[&'static str], kinds: &[String]) -> Option<String> {
    let mut rest = order.iter();
    let is_in = |rest: &mut std::slice::Iter<'_, &str>, kind: &String| rest.any(|it| it == kind);
    let (_, wrong) = (0..).zip(kinds).find(|(_, kind)| !is_in(&mut rest, kind))?;
    Some(format!("{wrong} in {}", kinds.join(" ")))
}

fn all(mut session: Session) -> Vec<Fact> {
    let mut facts = Vec::new();
    while session.drain(&mut facts).expect("facts") {}
    facts
}

fn is_window(fact: &Fact) -> bool {
    matches!(fact.body, Body::WindowBegin(_))
}

fn is_end(fact: &Fact) -> bool {
    matches!(fact.body, Body::WindowEnd(_) | Body::CommandEnd(_))
}

fn is_in_order(facts: &[Fact]) {
    let begin = facts.iter().position(is_window).expect("a begin");
    let end = facts.iter().position(is_end).expect("an end");
    assert_eq!(out_of(&order("opening"), &kinds(facts[..=begin].iter())), None);
    assert_eq!(out_of(&order("closing"), &kinds(facts[end..].iter())), None);
}

/// A look that reads these files, on a host that offers this.
fn look_on(at: &Target, roots: Roots, offer: Offer, seconds: f64) -> Vec<Fact> {
    let opened = open_on(at, None, Ground { roots, hidden: Vec::new(), offer }).expect("opened");
    let stop = Arc::new(AtomicBool::new(false));
    all(Session::of(opened, Some(seconds), stop))
}

fn without_events() -> Offer {
    Offer { no_bpf: Some(NoBpf::refused("a test")), ..Offer::default() }
}

#[test]
fn a_kind_out_of_its_place_is_found() {
    let order = ["host", "disk", "target", "disk"];
    let of = |kinds: &[&str]| kinds.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(out_of(&order, &of(&["host", "target", "disk"])), None);
    assert_eq!(out_of(&order, &of(&["target", "host"])), Some("host in target host".into()));
    assert!(out_of(&order, &of(&["host", "link"])).is_some());
}

#[test]
fn a_tree_of_files_is_read_in_order() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    let facts = look_on(&Target::Host, Roots::under(&fixtures), without_events(), 0.2);
    is_in_order(&facts);
    let opening = kinds(facts.iter().take_while(|fact| !is_window(fact)));
    for read in ["cgroup", "target", "cgroup_sample", "disk_sample", "net_counters", "blocked"] {
        assert!(opening.iter().any(|kind| kind == read), "{read} in {opening:?}");
    }
}

#[test]
fn the_running_host_is_read_in_order_without_kernel_events() {
    is_in_order(&look_on(&Target::Host, Roots::default(), without_events(), 0.3));
}

#[test]
fn whatever_is_looked_at_is_read_in_order() {
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().expect("started");
    let has_events = host::look(&plan::tracepoints()).no_bpf.is_none();
    let words = ["sh", "-c", "sleep 0.2; ls /proc > /dev/null"].map(Into::into);
    let targets = [
        (Target::Host, Some(1.2)),
        (Target::Process(sleeper.id()), Some(0.6)),
        (Target::Command(words.to_vec()), None),
    ];
    for (target, seconds) in targets {
        // What the walks over a family saw comes in the order in which it was seen.
        if !has_events && target != Target::Host {
            continue;
        }
        let facts = all(Session::start(&target, seconds).expect("a look"));
        is_in_order(&facts);
        let closing: Vec<String> =
            kinds(facts.iter().skip_while(|fact| !matches!(fact.body, Body::WindowEnd(_))));
        for read in ["window_end", "thread_time", "disk", "net_counters", "cost"] {
            assert!(closing.iter().any(|kind| kind == read), "{read} in {closing:?}");
        }
    }
    sleeper.kill().expect("killed");
    sleeper.wait().expect("gone");
}
