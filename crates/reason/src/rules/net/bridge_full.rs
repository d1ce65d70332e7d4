//! net.bridge_full: an interface is to be a port of a bridge that has as many as a bridge can have.
//!
//! The kernel refuses it at once (EXFULL), so whoever wants it tries again. It is refused in an answer of netlink, which no exit of a system
//! call shows: the witnesses are a program that is called for just that and fails each time, and the bridge's own ports, counted as the look ends.
//! Must not: fire where the interface is not there, or another bridge of that name has room. Rejected: a bridge that is full as such (nobody
//! waits).

use crate::facts::{Exit, Link};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::figures::count;
use crate::model::object::Object;
use crate::model::{Model, words};
use crate::programs::BridgePort;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::net::ways_out::command_in;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// Ports of a bridge.
static PORTS: Threshold = Threshold::new(
    1_023.0,
    "1",
    "ports that a bridge can have: the next one is refused",
    "kernel: BR_MAX_PORTS is 1,024, and number 0 is nobody's (net/bridge/br_private.h, find_portno)",
);

const BRIDGE: &str = "bridge";

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.bridge_full",
    title: "A bridge has as many ports as it can have",
    theory: "A bridge numbers its ports from 1 to 1,023. Whoever wants to attach one more (a container's veth, a guest's tap) is refused \
             with EXFULL, \"Exchange full\", at once, until another is taken away. Nobody waits in the kernel: scripts and \
             managers sleep and try again.",
    needs: &[
        "a program that is called to make an interface a port of the bridge fails again and again, with sleeps in between",
        "1,023 interfaces are ports of that bridge as the look ends",
    ],
    refuted_by: &[
        Refutation::new("the bridge has room", "a_bridge_with_room_refuses_for_another_reason"),
        Refutation::new(
            "no such interface is there",
            "an_interface_that_is_missing_is_no_full_bridge",
        ),
        Refutation::new(
            "what fails attaches nothing",
            "a_program_that_only_names_the_bridge_is_not_refused_by_it",
        ),
        Refutation::new(
            "another bridge of that name, which may be meant, has room",
            "of_two_bridges_of_a_name_both_must_be_full",
        ),
    ],
    remedies: &[
        "take away ports that nobody uses any more",
        "a second bridge, joined with this one by a veth pair, or routed",
        "macvlan or ipvlan in place of bridge ports, which have no such limit",
    ],
    stories: &["S1.5"],
    thresholds: &[&PORTS],
    finds: Finds::End(find),
};

/// A bridge that is full, and who was refused.
struct Full<'m> {
    bridge: &'m Link,
    ports: usize,
    /// The program that is called.
    program: &'m str,
    failures: usize,
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let Object::Processes(program) = &end.object else { return None };
    if end.class != WaitClass::FailedProgram {
        return None;
    }
    let full = full(measures, end, program)?;
    let by = Culprit::device(full.bridge.name.clone());
    Some(Match::new(by, Proof::TwoWitnesses, move |loss| wording(measures, &full, loss)))
}

/// The bridge that a program wanted a port of each time that it failed, of those who wait for it.
fn full<'m>(measures: &'m Measures<'m>, end: &End, program: &'m str) -> Option<Full<'m>> {
    let model = measures.model;
    let waits = |pid: u32| end.links.iter().any(|link| link.who.pid == pid);
    let is_for_them = |exit: &Exit| measures.ancestry.line(exit.thread.pid).skip(1).any(waits);
    let fails = |exit: &Exit| {
        exit.thread.tid == exit.thread.pid
            && exit.thread.comm == program
            && exit.code.is_some_and(|code| code != 0)
            && is_for_them(exit)
    };
    let failed = model.threads.exits.iter().filter(|(_, exit)| fails(exit));
    let links = last_readings(model);
    let (mut bridge, mut failures) = (None, 0);
    for (_, exit) in failed {
        // Of one that was called before the look its words are not known.
        let Some(exec) = model.threads.executed(exit.thread.pid) else { continue };
        let wanted = BridgePort::of(&exec.words)?;
        let its = refuses(&links, &wanted)?;
        if bridge.is_some_and(|known: &Link| known.name != its.name) {
            return None;
        }
        bridge = Some(its);
        failures += 1;
    }
    let bridge = bridge?;
    Some(Full { bridge, ports: ports(&links, bridge), program, failures })
}

type Links<'m> = BTreeMap<(u32, u32), &'m Link>;

fn last_readings(model: &Model) -> Links<'_> {
    model.net.links.iter().map(|link| ((link.netns, link.index), link)).collect()
}

fn ports(links: &Links<'_>, bridge: &Link) -> usize {
    let is_its = |it: &&&Link| it.netns == bridge.netns && it.master == Some(bridge.index);
    links.values().filter(is_its).count()
}

/// The bridge that has no room for it: every one that may be meant is full, and the interface is there and not its port.
fn refuses<'m>(links: &Links<'m>, wanted: &BridgePort<'_>) -> Option<&'m Link> {
    let is_meant = |it: &&&Link| {
        it.kind == BRIDGE
            && it.name == wanted.bridge
            && wanted.namespace.is_none_or(|name| it.netns_name == name)
    };
    let all: Vec<&'m Link> = links.values().filter(is_meant).copied().collect();
    let is_full = |bridge: &&'m Link| ports(links, bridge) >= PORTS.count();
    let may_join = |bridge: &Link| {
        let mut here = links.values().filter(|it| it.netns == bridge.netns);
        wanted.is_new || here.any(|it| wanted.names(&it.name) && it.master != Some(bridge.index))
    };
    let first = all.first().copied()?;
    (all.iter().all(is_full) && all.iter().any(|it| may_join(it))).then_some(first)
}

fn wording(measures: &Measures<'_>, full: &Full<'_>, loss: &Loss<'_>) -> Wording {
    let (bridge, ports) = (&full.bridge.name, count(full.ports as u64));
    let ip = command_in(measures.model, full.bridge.netns, "ip");
    let failures = words::count(full.failures, "run", "runs");
    Wording {
        title: format!(
            "{} waits for a port of the bridge {bridge}, which has all {ports} that a bridge can have",
            loss.victim
        ),
        text: format!(
            "{} pass in sleeps between {failures} of {}, all of which failed. A bridge numbers its ports from 1 to {}; the next interface is refused \
             (EXFULL, \"Exchange full\") until another is taken away.",
            words::of_window(loss.seconds, loss.wall_seconds),
            full.program,
            count(PORTS.whole()),
        ),
        evidence: vec![
            Evidence::new(
                format!("interfaces that are ports of {bridge}"),
                full.ports as f64,
                "1",
                "rtnetlink IFLA_MASTER",
            ),
            Evidence::new("ports that a bridge can have", PORTS.value, "1", "BR_MAX_PORTS"),
            Evidence::new(
                format!("runs of {} that failed", full.program),
                full.failures as f64,
                "1",
                "sched_process_exit",
            ),
            Evidence::new("time slept between them", loss.seconds, "s", "sched_switch"),
        ],
        remedy: vec![
            Remedy {
                text: format!(
                    "see which of its ports nobody uses (state DOWN), and take one away: `{ip} link set PORT nomaster`, and back by \
                     `master {bridge}`"
                ),
                command: format!("{ip} -br link show master {}", words::shell(bridge)),
                action: Some(Action::look(Question::State).through(ip.through.as_ref())),
                ..Remedy::default()
            },
            Remedy::to(
                "attach what comes to a second bridge, joined with this one by a veth pair; macvlan and ipvlan have no such limit",
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const CODE: &str = "net.bridge_full";

    fn interface(netns: u32, index: u32, name: &str, kind: &str, master: Option<u32>) -> Fact {
        let (name, kind) = (name.to_string(), kind.to_string());
        fact(Body::Link(Link { netns, index, name, kind, master, ..Link::default() }))
    }

    /// A script whose calls of a program fail, beside a bridge with so many ports and an interface that is none of them.
    fn refused(call: &str, ports: u32) -> Vec<Fact> {
        let called: Vec<String> = call.split(' ').map(str::to_string).collect();
        let mut facts = script_whose_children_are_refused(&refusal(10, &called[0], "none"), 2 << 8);
        facts.retain(|fact| !matches!(fact.body, Body::Denied(_)));
        for pid in 21..24 {
            let thread = thread(pid, &called[0]);
            let exec = Exec { thread, words: called.clone(), ..Exec::default() };
            let at_ns = u64::from(pid - 20) * 1_000_000_000 + 1_000;
            facts.push(Fact { at_ns, body: Body::Exec(exec) });
        }
        facts.push(interface(1, 4, "br0", BRIDGE, None));
        facts.push(interface(1, 5, "veth7", "veth", None));
        facts.extend(
            (0..ports).map(|it| interface(1, 10 + it, &format!("p{it}"), "dummy", Some(4))),
        );
        let (name, cgroups, words) = ("sh".into(), Vec::new(), Vec::new());
        let target = Target { kind: TargetKind::Process, name, pid: 10, cgroups, words };
        facts.push(fact(Body::Target(target)));
        facts
    }

    fn found(facts: Vec<Fact>) -> Finding {
        explain(facts).findings.remove(0)
    }

    #[test]
    fn who_tries_to_attach_to_a_full_bridge_is_answered() {
        let found = found(refused("ip link set veth7 master br0", 1_023));
        assert_eq!((&*found.code, &*found.culprit.name), (CODE, "br0"));
        assert_eq!(
            found.title,
            "sh waits for a port of the bridge br0, which has all 1,023 that a bridge can have"
        );
        assert_eq!(found.remedy[0].command, "ip -br link show master br0");
        let found = super::tests::found(refused("ip link add v9 master br0 type veth", 1_023));
        assert_eq!(found.code, CODE);
    }

    #[test]
    fn what_others_call_in_vain_meanwhile_is_theirs() {
        let mut facts = refused("ip link set veth7 master br0", 1_023);
        let thread = thread(50, "ip");
        let words = ["ip", "route", "get", "x"].map(String::from).to_vec();
        let exec = Exec { thread: thread.clone(), words, ..Exec::default() };
        facts.push(Fact { at_ns: 1, body: Body::Exec(exec) });
        let exit = Exit { thread, last: true, code: Some(1 << 8) };
        facts.push(Fact { at_ns: 2, body: Body::Exit(exit) });
        assert_eq!(found(facts).code, CODE);
    }

    #[test]
    fn a_bridge_with_room_refuses_for_another_reason() {
        let found = found(refused("ip link set veth7 master br0", 1_022));
        assert_eq!(found.code, "process.retry");
    }

    #[test]
    fn an_interface_that_is_missing_is_no_full_bridge() {
        let found = found(refused("ip link set veth8 master br0", 1_023));
        assert_eq!(found.code, "process.retry");
    }

    #[test]
    fn a_program_that_only_names_the_bridge_is_not_refused_by_it() {
        let found = found(refused("ping -I br0 veth7", 1_023));
        assert_eq!(found.code, "process.retry");
    }

    #[test]
    fn of_two_bridges_of_a_name_both_must_be_full() {
        let mut facts = refused("ip link set veth7 master br0", 1_023);
        facts.push(interface(2, 4, "br0", BRIDGE, None));
        assert_eq!(found(facts).code, "process.retry");
    }
}
