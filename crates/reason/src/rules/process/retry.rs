//! process.retry: a call is refused again and again, with sleeps in between, until somebody makes it possible.
//!
//! Mostly connections to a server that is not there (ECONNREFUSED), or to where nothing leads (ENETUNREACH, EHOSTUNREACH), and a server whose address another has (EADDRINUSE), or this
//! host has not (EADDRNOTAVAIL); also
//! writes to a file system without room; what the caller has no right to (refused_right.rs); and whole programs that fail
//! (failed_program.rs), and sessions that a server ends at once (turned_away.rs). Locks and limits have rules of their own before this one. The two facts are the refusals
//! and the sleeps between them, of two interfaces. Must not: name whoever should listen there; nobody is there to be seen.

use super::{ended_connection, failed_program, refused_right, turned_away};
use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::address_owner::owner;
use crate::measure::refusals::Tries;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::net::ways_out::{ToolWithin, command_in};
use crate::rules::own_pace;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;
use std::net::SocketAddr;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.retry",
    title: "A refused call is tried again and again",
    theory: "Where nobody listens, connect returns ECONNREFUSED at once; where another has the address, bind returns \
             EADDRINUSE; where a file system is full, write returns ENOSPC; without the \
             right to it, a call returns EPERM, EACCES or EROFS. Programs and scripts that expect this to pass sleep and try again. Nobody tells them when it has passed, so they \
             lose the rest of their sleep too, and with sleeps that grow most of it.",
    needs: &[
        "the same call was refused for the same address, path or file system again and again",
        "a sleep stands between the tries, and takes most of the time between them",
        "where no call was seen to be refused: a program that was begun again and again ended badly each time but the last, or a server \
         that begins a process for each connection did so at each try, and that ended badly at once",
    ],
    refuted_by: &[
        Refutation::new(
            "it was refused once, and not tried again",
            "a_connection_that_was_refused_once_is_not_tried_again",
        ),
        Refutation::new(
            "the program that was refused ended well: it found what it needed at another address",
            "a_client_that_ended_well_found_another_address",
        ),
        Refutation::new(
            "a program that was begun again and again ended well in between: it is run now and then",
            "what_ends_well_now_and_then_is_not_tried",
        ),
        Refutation::new(
            "the program was run for its answer (grep, pgrep, test), and that was no: it is a note",
            "an_answer_is_no_failure_and_who_dies_each_time_stays_found",
        ),
        Refutation::new(
            "the process that a server began for the connection ended well, or lived on: it was a session",
            "who_connects_and_whose_session_ends_badly_at_once_is_turned_away",
        ),
        Refutation::new(
            "a right was refused in passing: other work lies between it and the sleep, or many are refused",
            "whoever_is_refused_many_rights_looks_around",
        ),
        Refutation::new(
            "an IPv6 address was refused, after which an IPv4 one is tried",
            "an_ipv6_address_may_not_be_the_last_that_was_tried",
        ),
        Refutation::new(
            "an event loop that listens tries, and no client of it waits for an answer (a note: it checks its backends)",
            "a_server_that_checks_its_backends_is_not_held_up",
        ),
    ],
    remedies: &[
        "see whether the server runs, and at which address it listens",
        "let it start before its clients, or hand it its socket (socket activation)",
        "end whoever has the address, or take another",
        "make room on the file system",
        "give the program the capability or the file's mode that it lacks, or let its seccomp filter pass the call",
    ],
    stories: &["S1.4"],
    thresholds: &[&refusal_words::SLEPT_MIN, &own_pace::STANDS],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    use WaitClass::{
        FailedProgram, NoAddress, NoRoute, RefusedConnection, RefusedLimit, RefusedRight,
        TakenAddress,
    };
    match end.class {
        FailedProgram => {
            return failed_program::matched(measures, end)
                .or_else(|| turned_away::matched(measures, end));
        }
        RefusedRight => return refused_right::matched(measures, end),
        _ => {}
    }
    if !matches!(end.class, RefusedConnection | RefusedLimit | TakenAddress | NoAddress | NoRoute) {
        return None;
    }
    let tries = refusal_words::tries(measures, end)?;
    if let Some(ended) = tries.last.ended_by_peer() {
        return Some(ended_connection::matched(measures, end, tries, ended));
    }
    let name = measures.model.name_of(&end.object).name;
    let by = match (end.class, has_it(measures, end, &tries)) {
        (RefusedConnection | NoRoute, _) => Culprit::peer(name.clone(), name),
        (TakenAddress, Some(owner)) => culprit(measures.model, owner),
        _ => Culprit { name, ..Culprit::default() },
    };
    let proof = if tries.reported > 1 { Proof::TwoWitnesses } else { Proof::OneWitness };
    let is_own_pace = own_pace::is_at_own_pace(measures, end, &tries.last.thread);
    let matched = Match::new(by, proof, move |loss| {
        let wording = explain(measures, end, &tries, loss);
        if is_own_pace { checks(measures, end, &tries, wording) } else { wording }
    });
    let severity_max = if is_own_pace { Severity::Note } else { matched.severity_max };
    Some(Match { severity_max, ..matched })
}

/// The same of a server that tries at a pace of its own, while nobody waits for it.
fn checks(measures: &Measures<'_>, end: &End, tries: &Tries<'_>, wording: Wording) -> Wording {
    let name = measures.model.name_of(&end.object).name;
    let by = measures.model.threads.who(&tries.last.thread);
    let call = refusal_words::call(tries);
    let times = words::count(tries.times as usize, "try", "tries");
    let how = match end.class {
        WaitClass::NoRoute => "cannot be reached from here",
        _ => "refuses its connections: nobody listens there, or a firewall's rule says so (REJECT)",
    };
    Wording {
        title: format!("{name} does not answer the checks of {by}: {times}, each refused"),
        text: format!(
            "{name} {how} ({call}). {by} looks at a pace of its own whether that server is there: no client of it \
             was seen to wait for an answer."
        ),
        ..wording
    }
}

/// The process that has the address that was asked for.
fn has_it<'m>(measures: &'m Measures<'_>, end: &End, tries: &Tries<'_>) -> Option<&'m ThreadRef> {
    match (&end.object, end.class) {
        (Object::Address(address), WaitClass::TakenAddress) => {
            owner(measures.model, (*address, tries.last.object.as_ref()), &tries.last.thread)
        }
        _ => None,
    }
}

fn explain(measures: &Measures<'_>, end: &End, tries: &Tries<'_>, loss: &Loss<'_>) -> Wording {
    let (title, text, remedy) = match end.class {
        WaitClass::TakenAddress => taken(measures, end, tries, loss),
        _ => refused(measures, end, tries, loss),
    };
    Wording {
        title,
        text,
        evidence: refusal_words::evidence(tries, loss.seconds),
        remedy: vec![remedy],
    }
}

/// Another has the address.
fn taken(
    measures: &Measures<'_>,
    end: &End,
    tries: &Tries<'_>,
    loss: &Loss<'_>,
) -> (String, String, Remedy) {
    let name = measures.model.name_of(&end.object).name;
    let (victim, by) = (&loss.victim, measures.model.threads.who(&tries.last.thread));
    let slept = refusal_words::between(tries, loss.seconds, loss.wall_seconds);
    let owner = has_it(measures, end, tries).map(|it| measures.model.threads.who(it));
    let has = owner.clone().unwrap_or_else(|| "somebody who was not seen".into());
    let ss = within(measures, tries, "ss");
    let command = match &end.object {
        Object::Address(address) => format!("{ss} -tuanp 'sport = :{}'", address.port()),
        _ => format!("{ss} -xap src {}", words::shell(&name)),
    };
    (
        format!("{victim} waits for {name} to be free: {has} has that address"),
        format!("{slept} {by} was the last to try. Two cannot have one address, so each try ends at once."),
        Remedy {
            text: match owner {
                Some(owner) => format!("see whether {owner} is wanted there; end it, or take another address"),
                None => "see who has it: also connections that have ended keep it for a minute (TIME-WAIT)".into(),
            },
            command,
            action: Some(Action::look(Question::State).through(ss.through.as_ref())),
            ..Remedy::default()
        },
    )
}

/// A tool where whoever is refused is: a container has addresses and sockets of its own.
fn within(measures: &Measures<'_>, tries: &Tries<'_>, tool: &str) -> ToolWithin {
    let netns = measures.model.threads.identity(&tries.last.thread).map_or(0, |it| it.netns);
    command_in(measures.model, netns, tool)
}

/// Nobody listens there, or there is no room.
fn refused(
    measures: &Measures<'_>,
    end: &End,
    tries: &Tries<'_>,
    loss: &Loss<'_>,
) -> (String, String, Remedy) {
    let name = measures.model.name_of(&end.object).name;
    let (victim, by) = (&loss.victim, measures.model.threads.who(&tries.last.thread));
    let slept = refusal_words::between(tries, loss.seconds, loss.wall_seconds);
    let (ip, ss) = (within(measures, tries, "ip"), within(measures, tries, "ss"));
    let is_within =
        matches!(end.object, Object::Address(_)) || end.class == WaitClass::RefusedConnection;
    let through = ip.through.as_ref().filter(|_| is_within);
    let (title, text, remedy) = match (&end.object, end.class) {
        (Object::Address(address), WaitClass::NoAddress) => {
            no_address((victim, &by), &slept, *address, tries, (&ip, &ss))
        }
        (Object::Address(address), WaitClass::NoRoute) => {
            no_route((victim, &by), &slept, *address, tries, &ip)
        }
        (Object::Address(address), _) => (
            format!("{victim} waits for somebody to listen on {name}: its connections are refused"),
            format!(
                "{slept} {by} was the last to try. Nobody listens there, or a firewall's rule refuses it (REJECT): it is refused at once."
            ),
            (
                "see who listens on that port, on the host that has the address",
                format!("{ss} -ltnp 'sport = :{}'", address.port()),
            ),
        ),
        (_, WaitClass::RefusedConnection) => (
            format!("{victim} waits for somebody to listen on {name}: its connections are refused"),
            format!(
                "{slept} The socket is there, and nobody listens on it: whoever made it has ended, or has not begun."
            ),
            ("see who has the socket", format!("{ss} -axp | grep -F -- {}", words::shell(&name))),
        ),
        (Object::FileSystem(_) | Object::Path(_), _) => no_room(victim, &slept, &end.object, &name),
        (Object::Limit(setting), _) => (
            format!(
                "{victim} is refused {} again and again, and sleeps in between",
                tries.last.syscall
            ),
            format!(
                "{slept} {by} was the last to try. Its user has as many of them as {setting} allows, or the process has no descriptor left."
            ),
            ("see how many there may be", format!("sysctl {setting}")),
        ),
        _ => (
            format!("{victim} is refused {name} again and again, and sleeps in between"),
            format!("{slept} {by} was the last to try."),
            ("see what the kernel says of it", "dmesg | tail -n 20".to_string()),
        ),
    };
    let (doing, command) = remedy;
    (
        title,
        text,
        Remedy {
            text: doing.into(),
            command,
            action: Some(Action::look(Question::State).through(through)),
            ..Remedy::default()
        },
    )
}

/// Title, text, and what to see by which command.
type Said = (String, String, (&'static str, String));

/// A file system is full: of what is in files, or of files.
fn no_room(victim: &str, slept: &str, object: &Object, name: &str) -> Said {
    let at = words::shell(name);
    let (why, lacks, command) = match object {
        Object::Path(_) => (
            format!("for another file in {name}: it is refused"),
            "no inode or no room left",
            format!("df -i {at}; df -h {at}"),
        ),
        _ => (format!("on {name}: its writes are refused"), "no room", format!("df -h {at}")),
    };
    let quota = "or the quota of the writer is used up.";
    let text = format!("{slept} The file system has {lacks}, {quota}");
    (format!("{victim} waits for room {why}"), text, ("see how much room there is", command))
}

/// Nothing leads to the address: by this host's own routes, or whoever is asked on the way says so.
fn no_route(
    (victim, by): (&str, &str),
    slept: &str,
    address: SocketAddr,
    tries: &Tries<'_>,
    ip: &ToolWithin,
) -> Said {
    const ENETUNREACH: i32 = 101;
    let why = match tries.last.errno {
        ENETUNREACH => "No route of its network namespace leads there, or one forbids it.",
        _ => {
            "A route there says that it cannot be reached, or a router does, or nobody answers for that address on the link."
        }
    };
    (
        format!("{victim} waits for a way to {address}: it cannot be reached from here"),
        format!("{slept} {by} was the last to try. {why}"),
        ("see which route is taken", format!("{ip} route get {}", address.ip())),
    )
}

/// It asked for an address that this host does not have, or for any port to reach one.
fn no_address(
    (victim, by): (&str, &str),
    slept: &str,
    address: SocketAddr,
    tries: &Tries<'_>,
    (ip, ss): (&ToolWithin, &ToolWithin),
) -> Said {
    match tries.last.syscall.as_str() {
        "connect" => (
            format!(
                "{victim} waits to connect to {address}: it is given no port or address for it"
            ),
            format!(
                "{slept} {by} was the last to try. The host has no address or no port left for such a connection."
            ),
            (
                "see how many connections there are to it, those that have ended included",
                format!("{ss} -tan dst {}", words::shell(&address.to_string())),
            ),
        ),
        _ => (
            format!("{victim} waits for the address {}: this host does not have it", address.ip()),
            format!(
                "{slept} {by} was the last to try. Nobody can listen on an address that no interface has, or not yet."
            ),
            ("see which addresses there are", format!("{ip} addr show")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Report;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;
    use crate::rules::wording::Severity;

    const SECOND: Ns = 1_000_000_000;
    const ECONNREFUSED: i32 = 111;
    const EACCES: i32 = 13;
    const ENOSPC: i32 = 28;

    #[test]
    fn whoever_is_refused_many_rights_looks_around() {
        let mut facts = host();
        facts.push(of_process(10, "ps"));
        for at in 1..=3 {
            for pid in 1..=4 {
                let path = Some(format!("/proc/{pid}/io"));
                let refused = Denied { errno: EACCES, path, ..refusal(10, "ps", "openat") };
                facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refused) });
            }
            facts.push(slept(10, "ps", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        assert!(explain(facts).findings.iter().all(|finding| finding.code != "process.retry"));
    }

    fn connect(address: &str) -> Denied {
        let address = Some(address.parse().expect("an address"));
        Denied { errno: ECONNREFUSED, address, ..refusal(10, "client", "connect") }
    }

    /// A client that is refused so often, and sleeps for a second each time.
    fn client(refusal: &Denied, times: u64) -> Report {
        let mut facts = host();
        facts.push(of_process(10, "client"));
        for at in 1..=times {
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refusal.clone()) });
            facts.push(slept(10, "client", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        explain(facts)
    }

    #[test]
    fn where_nobody_listens_the_address_is_what_is_waited_for() {
        let report = client(&connect("10.0.0.7:5432"), 3);
        let found = &report.findings[0];
        assert_eq!((&*found.code, &*found.object.name), ("process.retry", "10.0.0.7:5432"));
        assert_eq!(found.culprit.address.as_deref(), Some("10.0.0.7:5432"));
        assert_eq!(found.remedy[0].command, "ss -ltnp 'sport = :5432'");
        let end = &report.answer.ends[0];
        assert_eq!((end.end, end.who.as_ref().and_then(|by| by.pid)), (EndKind::Sleep, Some(10)));
    }

    #[test]
    fn a_full_file_system_is_waited_for_too() {
        let file = FileRef { dev: DeviceNumber { major: 8, minor: 1 }, ..FileRef::default() };
        let object = Some(ObjectRef::File(file));
        let report = client(&Denied { errno: ENOSPC, object, ..refusal(10, "client", "write") }, 3);
        let found = &report.findings[0];
        assert_eq!((&*found.code, &*found.culprit.name), ("process.retry", &*found.object.name));
        assert_eq!(report.answer.ends[0].end, EndKind::Limit);
    }

    #[test]
    fn no_inode_is_left_for_files_of_whatever_name() {
        let make = |path: &str, times| {
            let path = Some(path.into());
            client(&Denied { errno: ENOSPC, path, ..refusal(10, "client", "openat") }, times)
        };
        let report = make("/srv/spool/m.1", 3);
        let found = &report.findings[0];
        assert_eq!((&*found.code, &*found.object.name), ("process.retry", "/srv/spool"));
        assert_eq!(found.remedy[0].command, "df -i /srv/spool; df -h /srv/spool");
        assert!(make("/srv/spool/m.1", 1).findings.is_empty(), "once may be by chance");
    }

    #[test]
    fn of_an_address_that_another_has_its_owner_is_named() {
        const EADDRINUSE: i32 = 98;
        let bind = Denied { errno: EADDRINUSE, syscall: "bind".into(), ..connect("127.0.0.1:80") };
        let listens = |ip: &str| {
            endpoint(
                20,
                "nginx",
                ObjectRef::Inet(InetRef {
                    ino: 7,
                    netns: 1,
                    protocol: "tcp".into(),
                    local: format!("{ip}:80").parse().expect("an address"),
                    remote: "0.0.0.0:0".parse().expect("an address"),
                    state: 10,
                }),
            )
        };
        let of = |owner: Vec<Fact>| {
            explain([script_whose_children_are_refused(&bind, 256), owner].concat())
        };
        let report = of(vec![listens("0.0.0.0")]);
        let found = &report.findings[0];
        assert_eq!((&*found.code, found.culprit.pid), ("process.retry", Some(20)));
        assert!(found.title.ends_with("nginx 20 has that address"), "{}", found.title);
        assert_eq!(report.answer.ends[0].end, EndKind::Sleep);
        assert_eq!(of(vec![listens("127.0.0.2")]).findings[0].culprit.pid, None);
    }

    #[test]
    fn an_address_that_the_host_does_not_have_is_waited_for() {
        let without = |syscall: &str| {
            let syscall = syscall.into();
            Denied { errno: 99, syscall, ..connect("10.0.0.7:5432") }
        };
        let title = |syscall| client(&without(syscall), 3).findings[0].title.clone();
        assert!(title("bind").ends_with("the address 10.0.0.7: this host does not have it"));
        assert!(title("connect").ends_with("10.0.0.7:5432: it is given no port or address for it"));
    }

    #[test]
    fn where_nothing_leads_a_way_is_waited_for() {
        let said = |errno: i32| {
            let unreachable = Denied { errno, ..connect("10.9.9.9:80") };
            let report = client(&unreachable, 3);
            let found = report.findings.first().expect("a finding");
            (found.code.clone(), found.title.clone(), found.text.clone())
        };
        let (code, title, text) = said(101);
        assert_eq!(code, "process.retry");
        assert!(title.contains("waits for a way to 10.9.9.9:80"), "{title}");
        assert!(text.contains("No route of its network namespace leads there"), "{text}");
        assert!(said(113).2.contains("EHOSTUNREACH"));
    }

    /// A proxy of which somebody asks so, that is refused each second in this call, and sent its client something so many jiffies ago.
    fn proxy(kind: TargetKind, call: &str, listens: bool, served: Option<u32>) -> (bool, String) {
        let refused = Denied { thread: thread(10, "proxy"), ..connect("10.0.0.7:80") };
        let inet = |ino, local: &str, remote: &str, state| {
            let (local, remote) = (local.parse(), remote.parse());
            let (local, remote) = (local.expect("an address"), remote.expect("an address"));
            let protocol = "tcp".into();
            ObjectRef::Inet(InetRef { ino, netns: 1, protocol, local, remote, state })
        };
        let (name, cgroups, words) = ("proxy".to_string(), Vec::new(), Vec::new());
        let mut facts = host();
        facts.push(fact(Body::Target(Target { kind, name, pid: 10, cgroups, words })));
        if listens {
            facts.push(endpoint(10, "proxy", inet(7, "0.0.0.0:80", "0.0.0.0:0", 10)));
        }
        if let Some(sent_jiffies) = served {
            let turn = TcpTurn { sent_jiffies, jiffy_ns: 4_000_000, ..TcpTurn::default() };
            let state =
                SocketState { acked_bytes: 900, turn: Some(turn), ..SocketState::default() };
            let client = inet(8, "10.0.0.1:80", "10.0.0.9:4000", 1);
            let mut fact = descriptor(10, 9, "proxy", client);
            if let Body::Endpoint(endpoint) = &mut fact.body {
                endpoint.socket = Some(state);
            }
            facts.push(Fact { at_ns: LOOK_NS, ..fact });
        }
        for at in 1..=3 {
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refused.clone()) });
            let mut sleep = slept(10, "proxy", at * SECOND + 1_000, (at + 1) * SECOND - 1_000);
            if let Body::Wait(wait) = &mut sleep.body {
                wait.place.syscall = call.into();
            }
            facts.push(sleep);
        }
        let found = explain(facts).findings.remove(0);
        (found.severity > Severity::Note, found.title)
    }

    /// It waits for its clients in the same call as for the next try.
    #[test]
    fn a_server_that_checks_its_backends_is_not_held_up() {
        let said = |call, listens| proxy(TargetKind::Process, call, listens, Some(100));
        let (above, title) = said("epoll_wait", true);
        assert!(!above && title.starts_with("10.0.0.7:80 does not answer the checks"), "{title}");
        assert!(said("clock_nanosleep", true).0, "it does nothing else");
        assert!(said("epoll_wait", false).0, "nobody could ask it");
    }

    #[test]
    fn a_server_that_was_asked_about_and_serves_nobody_may_not_be_ready() {
        let is_held_up = |kind, served| proxy(kind, "epoll_wait", true, served).0;
        assert!(is_held_up(TargetKind::Process, None), "it has served nobody");
        assert!(is_held_up(TargetKind::Process, Some(9_000)), "it did so before");
        assert!(is_held_up(TargetKind::Command, Some(100)), "somebody waits for the command");
    }

    #[test]
    fn a_connection_that_was_refused_once_is_not_tried_again() {
        assert_eq!(client(&connect("10.0.0.7:5432"), 1).findings, []);
    }

    #[test]
    fn an_ipv6_address_may_not_be_the_last_that_was_tried() {
        assert_eq!(client(&connect("[::1]:5432"), 3).findings, []);
    }

    fn script(code: u32) -> Report {
        explain(script_whose_children_are_refused(&connect("127.0.0.1:80"), code))
    }

    #[test]
    fn a_script_waits_for_what_its_children_are_refused() {
        let report = script(256);
        assert_eq!(report.findings[0].code, "process.retry");
        let last = report.findings[0].chain.last().map(|link| link.waits_on.name.as_str());
        assert_eq!(last, Some("127.0.0.1:80"));
    }

    /// A script whose program ends so each second, and was refused nothing that is known.
    fn runs(codes: [u32; 3]) -> Report {
        let mut facts = script_whose_children_are_refused(&connect("[::1]:80"), 256);
        let mut codes = codes.into_iter();
        for fact in &mut facts {
            if let Body::Exit(exit) = &mut fact.body {
                exit.code = codes.next();
            }
        }
        let name = "sh".to_string();
        let kind = TargetKind::Process;
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        explain(facts)
    }

    #[test]
    fn a_program_that_fails_each_time_is_what_a_script_waits_for() {
        for codes in [[256, 256, 256], [256, 256, 0]] {
            let report = runs(codes);
            let found = &report.findings[0];
            assert_eq!((&*found.code, &*found.culprit.name), ("process.retry", "client"));
            assert!(found.title.contains("status 1"), "{}", found.title);
            assert_eq!(report.answer.ends[0].end, EndKind::Sleep);
        }
    }

    #[test]
    fn what_ends_well_now_and_then_is_not_tried() {
        for codes in [[256, 0, 256], [0, 0, 0], [256, 0, 0]] {
            assert_eq!(runs(codes).findings, []);
        }
    }

    #[test]
    fn a_client_that_ended_well_found_another_address() {
        assert_eq!(script(0).findings, []);
    }
}
