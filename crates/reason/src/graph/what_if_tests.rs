//! What a command would save without an end: of children side by side, one after the other, and of any lives at random.
//!
//! Beside what_if.rs, which has no room for it. The lives at random hold what holds for every recording: nothing is saved that
//! the end does not have, nothing below zero, and all together no more than the wall.

use super::*;
use crate::facts::*;
use crate::graph::end::EndKind;
use crate::rules::scenes::thread;
use crate::waits::WaitClass;
use crate::waits::timeline::Observed;
use proptest::prelude::*;

const SECOND: Ns = 1_000_000_000;

fn at(at_ns: Ns, body: Body) -> Fact {
    Fact { at_ns, body }
}

fn place(syscall: &str, pid: u32) -> Place {
    let mut place = Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
    place.args[0] = u64::from(pid);
    place
}

/// What a child of process 10 does in its life: sleeps so long from then, and then works so long.
#[derive(Debug, Clone, Copy)]
struct Child {
    pid: u32,
    born: Ns,
    sleeps: Ns,
    works: Ns,
}

impl Child {
    fn end(&self) -> Ns {
        self.born + self.sleeps + self.works
    }

    fn facts(&self) -> Vec<Fact> {
        let me = thread(self.pid, &format!("job{}", self.pid));
        let (slept, end) = (self.born + self.sleeps, self.end());
        let mut facts = vec![at(
            self.born,
            Body::Fork(Fork { parent: thread(10, "sh"), child: me.clone(), flags: 0 }),
        )];
        if self.sleeps > 0 {
            let context = WakeContext::HardInterrupt;
            let wait = Wait {
                thread: me.clone(),
                begin_ns: self.born,
                end_ns: slept,
                place: place("clock_nanosleep", 0),
                wake: Some(Wake { at_ns: slept, context, ..Wake::default() }),
                ..Wait::default()
            };
            facts.push(at(slept, Body::Wait(wait)));
        }
        if self.works > 0 {
            let ran = Ran { thread: me.clone(), begin_ns: slept, end_ns: end, cpu: 0 };
            facts.push(at(end, Body::Ran(ran)));
        }
        facts.push(at(end, Body::Exit(Exit { thread: me, last: true, code: Some(0) })));
        facts
    }
}

/// Process 10 begins children, waits for each in turn, works after that, and ends.
fn command(children: &[Child], works: Ns) -> Vec<Fact> {
    command_with_pauses(children, works, 0)
}

/// The same with work between the waits; without, whoever ends last counts for all of them (parallel.rs).
fn command_with_pauses(children: &[Child], works: Ns, between: Ns) -> Vec<Fact> {
    let me = thread(10, "sh");
    let target = Target {
        kind: TargetKind::Command,
        name: "sh".into(),
        pid: 10,
        cgroups: Vec::new(),
        words: Vec::new(),
    };
    let mut facts =
        vec![at(0, Body::Target(target)), at(0, Body::WindowBegin(WindowBegin { unix_ns: 1 }))];
    let mut now = children.iter().map(|child| child.born).max().unwrap_or(0);
    if now > 0 {
        facts
            .push(at(now, Body::Ran(Ran { thread: me.clone(), begin_ns: 0, end_ns: now, cpu: 1 })));
    }
    for child in children {
        facts.extend(child.facts());
        let end = child.end();
        // Who has ended already is reaped without a wait.
        if end > now {
            let by = thread(child.pid, &format!("job{}", child.pid));
            let wait = Wait {
                thread: me.clone(),
                begin_ns: now,
                end_ns: end,
                place: place("wait4", child.pid),
                wake: Some(Wake { at_ns: end, context: WakeContext::Task, by, ..Wake::default() }),
                ..Wait::default()
            };
            facts.push(at(end, Body::Wait(wait)));
            now = end + between;
            if between > 0 {
                let ran = Ran { thread: me.clone(), begin_ns: end, end_ns: now, cpu: 0 };
                facts.push(at(now, Body::Ran(ran)));
            }
        }
    }
    let end = now + works;
    if works > 0 {
        facts.push(at(
            end,
            Body::Ran(Ran { thread: me.clone(), begin_ns: now, end_ns: end, cpu: 0 }),
        ));
    }
    facts.push(at(end, Body::Exit(Exit { thread: me, last: true, code: Some(0) })));
    facts.push(at(end, Body::CommandEnd(CommandEnd { pid: 10, exit_status: 0, signal: 0 })));
    facts.push(at(end, Body::WindowEnd(WindowEnd::default())));
    facts
}

/// Longer than between two waits of one series.
const PAUSE: Ns = SECOND / 20;

/// An end: whose, of what kind, its seconds, what is saved without it, and who takes as long.
type Asked = (String, EndKind, f64, f64, Option<(String, f64)>);

/// Each end of the command.
fn asked(facts: Vec<Fact>) -> Vec<Asked> {
    let Observed { model, timelines } = Observed::new(facts);
    let graph = Graph::of(&model, &timelines, &mut |_| {});
    let what_if = WhatIf::of(&graph).expect("a command");
    let one = |end: &End| {
        let without = what_if.without(&[end.key()])?;
        let who = end.who.as_ref().map_or_else(String::new, |who| who.comm.clone());
        let beside = without.beside.map(|(who, seconds)| (who.comm, seconds));
        Some((who, end.kind, end.seconds, without.seconds_max, beside))
    };
    graph.ends.iter().filter_map(one).collect()
}

fn sleeps(pid: u32, seconds: u64) -> Child {
    Child { pid, born: SECOND / 10, sleeps: seconds * SECOND, works: 0 }
}

fn saved(all: &[Asked], who: &str) -> f64 {
    let found = all.iter().find(|it| it.0 == who && it.1 == EndKind::Sleep);
    found.map(|it| it.3).unwrap_or_else(|| panic!("{who}: {all:?}"))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

#[test]
fn of_two_children_side_by_side_the_longer_one_costs_the_difference() {
    // The longer is waited for first: all of its 3 s are on the path.
    let all = asked(command(&[sleeps(20, 3), sleeps(30, 2)], 0));
    assert!(near(all[0].2, 3.0) && near(saved(&all, "job20"), 1.0), "{all:?}");
    let beside = all[0].4.clone().expect("the other");
    assert!(beside.0 == "job30" && near(beside.1, 2.0), "{beside:?}");
}

#[test]
fn the_shorter_of_two_children_costs_nothing() {
    // The shorter is waited for first: its 2 s are on the path, and the other takes 3 s all the same.
    let all = asked(command_with_pauses(&[sleeps(30, 2), sleeps(20, 3)], 0, PAUSE));
    assert!(near(saved(&all, "job30"), 0.0), "{all:?}");
    assert!(near(saved(&all, "job20"), 1.0 - 0.05), "{all:?}");
    // Without work between the waits it is none of the ends.
    let all = asked(command(&[sleeps(30, 2), sleeps(20, 3)], 0));
    assert!(near(saved(&all, "job20"), 1.0), "{all:?}");
}

#[test]
fn alone_an_end_costs_all_of_its_time() {
    let all = asked(command(&[sleeps(20, 3)], SECOND));
    assert!(near(saved(&all, "job20"), 3.0), "{all:?}");
    let later = Child { born: 4 * SECOND, ..sleeps(30, 2) };
    // One after the other: the second begins when the parent has come so far.
    let all = asked(command(&[sleeps(20, 3), later], SECOND));
    assert!(near(saved(&all, "job30"), 2.0), "{all:?}");
}

#[test]
fn what_comes_after_both_is_not_run_beside_them() {
    // The parent works 2 s after the long child. Nothing shows that it needed the short one before that.
    let all = asked(command(&[sleeps(20, 3), sleeps(30, 2)], 2 * SECOND));
    assert!(near(saved(&all, "job20"), 3.0), "{all:?}");
    // If it waited for the other afterwards, that is seen: the path goes on through it.
    let all = asked(command(&[sleeps(30, 2), sleeps(20, 3)], 2 * SECOND));
    assert!(near(saved(&all, "job20"), 1.0), "{all:?}");
}

#[test]
fn who_was_ended_by_a_signal_is_not_needed() {
    let mut facts = command(&[sleeps(20, 3), sleeps(30, 2)], 0);
    for fact in &mut facts {
        if let Body::Exit(exit) = &mut fact.body
            && exit.thread.pid == 30
        {
            exit.code = Some(15);
        }
    }
    assert!(near(saved(&asked(facts), "job20"), 3.0));
}

/// Two processes of one program are one end: all of it, and each alone.
#[test]
fn of_one_program_side_by_side_one_process_costs_less_than_all() {
    let mut facts = command(&[sleeps(20, 3), sleeps(30, 2)], 0);
    for fact in &mut facts {
        match &mut fact.body {
            Body::Fork(fork) => fork.child.comm = "job".into(),
            Body::Wait(wait) if wait.thread.pid != 10 => wait.thread.comm = "job".into(),
            Body::Exit(exit) if exit.thread.pid != 10 => exit.thread.comm = "job".into(),
            _ => {}
        }
    }
    let Observed { model, timelines } = Observed::new(facts);
    let graph = Graph::of(&model, &timelines, &mut |_| {});
    let what_if = WhatIf::of(&graph).expect("a command");
    let key = graph.ends[0].key();
    let all = what_if.without(std::slice::from_ref(&key)).expect("asked");
    let of = |pid| {
        what_if.without_one(&key, model.threads.key(&thread(pid, "job"))).expect("side by side")
    };
    assert!(near(all.seconds_max, 3.0), "{all:?}");
    assert!(near(of(20).seconds_max, 1.0) && near(of(30).seconds_max, 0.0));
    let one = Observed::new(command(&[sleeps(20, 3)], 0));
    let graph = Graph::of(&one.model, &one.timelines, &mut |_| {});
    let alone = WhatIf::of(&graph).expect("a command");
    assert_eq!(
        alone.without_one(&graph.ends[0].key(), one.model.threads.key(&thread(20, "job"))),
        None
    );
}

/// A runtime's own thread sleeps beside the child, and nobody is seen to wait for it; or works.
#[test]
fn a_helper_thread_that_only_sleeps_is_not_known_to_be_needed() {
    let without = |works: bool| {
        let mut facts = command(&[sleeps(20, 3)], SECOND);
        let (begin_ns, end_ns) = (SECOND / 20, 3 * SECOND);
        let me = ThreadRef { tid: 12, ..thread(10, "helper") };
        let forked = Fork { parent: thread(10, "sh"), child: me.clone(), flags: 0 };
        facts.push(at(begin_ns, Body::Fork(forked)));
        let context = WakeContext::HardInterrupt;
        let wait = Wait {
            thread: me.clone(),
            begin_ns,
            end_ns,
            place: place("clock_nanosleep", 0),
            wake: Some(Wake { at_ns: end_ns, context, ..Wake::default() }),
            ..Wait::default()
        };
        let ran = Ran { thread: me.clone(), begin_ns, end_ns, cpu: 1 };
        facts.push(at(end_ns, if works { Body::Ran(ran) } else { Body::Wait(wait) }));
        facts.push(at(end_ns, Body::Exit(Exit { thread: me, last: false, code: Some(0) })));
        let Observed { model, timelines } = Observed::new(facts);
        let graph = Graph::of(&model, &timelines, &mut |_| {});
        let what_if = WhatIf::of(&graph).expect("a command");
        let slept = graph.ends.iter().find(|end| end.kind == EndKind::Sleep).expect("the child");
        let without = what_if.without(&[slept.key()]).expect("asked");
        (without.beside.map(|(who, _)| who.comm), without.is_needed)
    };
    assert_eq!(without(true), (Some("helper".into()), true));
    assert_eq!(without(false), (Some("helper".into()), false));
}

/// A runtime's own thread works beside the child, and ends with the process or by itself before.
#[test]
fn a_thread_that_ends_with_its_process_is_not_what_the_command_needs() {
    let saved = |before: Ns| {
        let mut facts = command(&[sleeps(20, 3)], SECOND);
        let end = facts.last().map_or(0, |fact| fact.at_ns);
        let me = ThreadRef { tid: 12, ..thread(10, "sysmon") };
        let forked = Fork { parent: thread(10, "sh"), child: me.clone(), flags: 0 };
        let ran = Ran { thread: me.clone(), begin_ns: 0, end_ns: end - before, cpu: 1 };
        facts.push(at(0, Body::Fork(forked)));
        facts.push(at(end, Body::Ran(ran)));
        let exit = Exit { thread: me, last: before == 0, code: Some(0) };
        facts.push(at(end - before, Body::Exit(exit)));
        let asked = asked(facts);
        asked.iter().find(|it| it.1 == EndKind::Sleep).map_or(0.0, |it| it.3)
    };
    assert!(near(saved(0), 3.0), "{}", saved(0));
    let alike = saved(1_000_000);
    assert!(near(alike, 3.0), "killed with it, and gone before the first thread: {alike}");
    assert!(saved(20_000_000) < 0.1, "{}", saved(20_000_000));
}

/// A runtime's own thread is at rest, or sleeps, until the command wakes it at its end and waits for it.
#[test]
fn a_thread_that_rests_until_it_is_woken_needs_no_time_itself() {
    let saved = |syscall: &str, args: [u64; 6], context: WakeContext, asks: bool| {
        let mut facts = command(&[sleeps(20, 3)], SECOND);
        let end = facts.last().map_or(0, |fact| fact.at_ns);
        let wakes = end - SECOND / 10;
        let (main, me) = (thread(10, "sh"), ThreadRef { tid: 12, ..thread(10, "pool") });
        let forked = Fork { parent: main.clone(), child: me.clone(), flags: 0 };
        facts.retain_mut(|fact| {
            if let Body::Ran(ran) = &mut fact.body
                && ran.end_ns == end
            {
                (ran.end_ns, fact.at_ns) = (wakes, wakes);
            }
            true
        });
        let wait = |who: &ThreadRef, by: &ThreadRef, (from, to), (syscall, args), context| {
            let place = Place { args, ..place(syscall, 0) };
            let wake = Some(Wake { at_ns: to, context, by: by.clone(), ..Wake::default() });
            let thread = who.clone();
            let (begin_ns, end_ns) = (from, to);
            at(to, Body::Wait(Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() }))
        };
        let futex = ("futex", [0x7000, 128, 0, 0, 0, 0]);
        facts.push(at(1, Body::Fork(forked)));
        facts.push(wait(&me, &main, (1, wakes), (syscall, args), context));
        facts.push(wait(&main, &me, (wakes, end), futex, WakeContext::Task));
        // Its process has asked a name server that does not answer.
        let (server, local) = ("10.0.0.2:53".parse(), "10.0.0.1:40000".parse());
        let query = DnsQuery {
            thread: main.clone(),
            server: server.expect("an address"),
            local: local.expect("an address"),
            id: 1,
            name: "db.test".into(),
            question_type: 1,
            socket_ino: 0,
        };
        facts.extend(asks.then_some(at(2, Body::DnsQuery(query))));
        let ran = Ran { thread: me.clone(), begin_ns: wakes, end_ns: end, cpu: 1 };
        facts.push(at(end, Body::Ran(ran)));
        facts.push(at(end, Body::Exit(Exit { thread: me, last: false, code: Some(0) })));
        let asked = asked(facts);
        let child = asked.iter().find(|it| it.0 == "job20").map(|it| it.3);
        child.unwrap_or_else(|| panic!("{asked:?}"))
    };
    let (task, clock) = (WakeContext::Task, WakeContext::HardInterrupt);
    for asks in [false, true] {
        let rests = saved("epoll_pwait", [9, 1, 1024, u64::from(u32::MAX), 0, 8], task, asks);
        assert!(near(rests, 3.0), "{asks}: {rests}");
    }
    let sleeps = saved("clock_nanosleep", [0; 6], clock, false);
    assert!(sleeps < 0.1, "it needs the time: {sleeps}");
}

#[test]
fn both_together_cost_more_than_one_by_one() {
    let Observed { model, timelines } =
        Observed::new(command_with_pauses(&[sleeps(30, 2), sleeps(20, 3)], SECOND, PAUSE));
    let graph = Graph::of(&model, &timelines, &mut |_| {});
    let what_if = WhatIf::of(&graph).expect("a command");
    let sleeps: Vec<EndKey> =
        graph.ends.iter().filter(|end| end.kind == EndKind::Sleep).map(End::key).collect();
    let without = what_if.without(&sleeps).expect("asked");
    assert_eq!(sleeps.len(), 2);
    assert!(near(without.seconds_max, 3.0 - 0.05), "{without:?}");
    assert_eq!(what_if.without(&[(EndKind::Lock, WaitClass::FileLock, sleeps[0].2.clone())]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn nothing_is_saved_that_is_not_there(
        lives in prop::collection::vec((0_u64..3000, 0_u64..3000, 0_u64..3000), 1..8),
        works in 0_u64..2000,
    ) {
        let children: Vec<Child> = lives
            .iter()
            .zip(20..)
            .map(|((born, sleeps, works), pid)| Child {
                pid,
                born: born * 1_000_000,
                sleeps: sleeps * 1_000_000,
                works: works * 1_000_000,
            })
            .collect();
        let facts = command(&children, works * 1_000_000);
        let wall = facts.iter().map(|fact| fact.at_ns).max().unwrap_or(0) as f64 / 1e9;
        let all = asked(facts);
        let mut sum = 0.0;
        for (who, _, seconds, saved, _) in &all {
            prop_assert!(*saved >= 0.0 && *saved <= seconds + 1e-9, "{who}: {saved} of {seconds}");
            sum += saved;
        }
        prop_assert!(sum <= wall + 1e-6, "{sum} of {wall}");
        // Nobody ends before the one who sleeps and works longest without what is taken away.
        for (who, kind, _, saved, _) in &all {
            let left = |child: &Child| {
                let mine = *who == format!("job{}", child.pid);
                let sleeps = if mine && *kind == EndKind::Sleep { 0 } else { child.sleeps };
                let works = if mine && *kind == EndKind::Works { 0 } else { child.works };
                let born = if *who == "sh" && *kind == EndKind::Works { 0 } else { child.born };
                born + sleeps + works
            };
            let longest = children.iter().map(left).max().unwrap_or(0) as f64 / 1e9;
            prop_assert!(wall - saved >= longest - 1e-6, "{who} {kind:?}: {saved} of {wall}, {longest}");
        }
    }
}
