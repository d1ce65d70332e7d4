//! Ways out of a name server that does not answer: another server, no question, a shorter wait, each where the asker reads it.
//!
//! Who asks decides where it is configured: the C library reads resolv.conf and hosts; a resolver of its own, and a local
//! server that asks others, have a configuration of their own. Must not: change a file that the asker does not read.

use super::dns_answered::{Answers, LATE, asked_name};
use crate::facts::{InetRef, ObjectRef, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::action::{Action, ActionKind, ActionTarget, Question};
use crate::rules::file_of;
use crate::rules::net::ways_out::command_in;
use crate::rules::wording::Remedy;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The least that a question without an answer costs.
pub(super) static LEAST_TIMEOUT: Threshold = Threshold::new(
    1.5,
    "s",
    "longest wait from which a shorter timeout is proposed: the least that resolv.conf can make a question cost, and a bit",
    "resolv.conf(5): timeout:1",
);

/// The port of name servers.
const PORT: u16 = 53;
/// The address of a host's own name, where it has no lasting one (Debian Reference, 5.1.1).
const OWN_ADDRESS: &str = "127.0.1.1";
/// The type of question that turns an address into a name.
const POINTER: u16 = 12;

/// Who asked the server.
pub(super) struct Asker<'e> {
    /// The thread.
    pub thread: &'e ThreadRef,
    /// It was asked itself: a local server (dnsmasq, systemd-resolved, unbound).
    pub forwards: bool,
    /// It has a resolver of its own.
    own_resolver: bool,
}

impl<'e> Asker<'e> {
    /// Of an end: whose wait names it.
    pub(super) fn of(measures: &Measures<'_>, end: &'e End) -> Self {
        let thread = &end.links[end.named].who;
        let asked = end.links[..end.named].iter().any(|link| link.class == WaitClass::Dns);
        let forwards = thread.pid != end.first_victim().pid && (asked || serves(measures, thread));
        Self { thread, forwards, own_resolver: waits_in_recv(measures, thread) }
    }
}

/// It answers DNS questions itself.
fn serves(measures: &Measures<'_>, thread: &ThreadRef) -> bool {
    let mut own = measures.model.held.endpoints.iter().filter(|end| end.process.pid == thread.pid);
    own.any(|end| {
        matches!(&end.object, ObjectRef::Inet(socket)
            if socket.local.port() == PORT || socket.protocol == "udp" && answers_at(measures, socket))
    })
}

/// Somebody asked for a name at a socket's port, wherever a name server may listen.
fn answers_at(measures: &Measures<'_>, socket: &InetRef) -> bool {
    let mut asked = measures.model.net.dns_queries.iter();
    let is_own = |ip: IpAddr| socket.local.ip().is_unspecified() || socket.local.ip() == ip;
    asked.any(|(_, query)| query.server.port() == socket.local.port() && is_own(query.server.ip()))
}

/// The C libraries wait for an answer in poll. Who waits in the receiving itself has a resolver of its own.
fn waits_in_recv(measures: &Measures<'_>, asker: &ThreadRef) -> bool {
    let mut calls = measures
        .waits()
        .filter(|wait| wait.class == WaitClass::Dns && wait.thread.pid == asker.pid)
        .map(|wait| wait.place.syscall.as_str())
        .peekable();
    calls.peek().is_some()
        && calls.all(|call| matches!(call, "recvfrom" | "recvmsg" | "recvmmsg" | "read"))
}

/// The ways out, best first.
pub(super) fn remedies(
    measures: &Measures<'_>,
    answers: &Answers<'_>,
    end: &End,
    server: Option<SocketAddr>,
    asker: &Asker<'_>,
) -> Vec<Remedy> {
    let name = match asked_name(end) {
        "" => ".",
        name => name,
    };
    let at = server.map_or_else(String::new, |server| match server.port() {
        PORT => format!("@{} ", server.ip()),
        port => format!("@{} -p {port} ", server.ip()),
    });
    let netns = measures.model.threads.identity(asker.thread).map_or(0, |known| known.netns);
    let dig = command_in(measures.model, netns, "dig");
    let mut remedies = vec![Remedy {
        text: "ask the server yourself, then repair it or name another in resolv.conf".into(),
        // Behind -q a name that begins like an option is a name: what is asked for may come from anywhere.
        command: format!("{dig} {at}-q {} +time=1 +tries=1", words::shell(name)),
        action: Some(Action::look(Question::State).through(dig.through.as_ref())),
        ..Remedy::default()
    }];
    // resolv.conf names no port.
    let is_elsewhere = server.is_some_and(|server| server.port() != PORT);
    if asker.forwards || is_elsewhere {
        remedies[0].text = "ask that server yourself, then repair it".into();
    }
    if asker.forwards {
        remedies.push(elsewhere_configured(measures, asker, server));
    } else if is_elsewhere {
        remedies.push(Remedy::to(format!(
            "name another server where {} has that port from",
            measures.model.threads.who(asker.thread)
        )));
    } else if asker.own_resolver {
        remedies.push(Remedy {
            text: format!(
                "{} asks with a resolver of its own (it waits in recv, where the C library's waits in poll), which most \
                 likely reads neither resolv.conf nor hosts: name another server or a shorter timeout where it is \
                 configured",
                measures.model.threads.who(asker.thread)
            ),
            ..Remedy::default()
        });
    } else {
        remedies.extend(in_its_files(measures, answers, end, server, asker.thread));
    }
    if answers.unanswered.iter().any(|question| question.query.question_type == POINTER) {
        remedies.push(Remedy {
            text: "the question turns an address into a name: turn that lookup off in the asker if only logs need it"
                .into(),
            ..Remedy::default()
        });
    }
    remedies
}

/// A local server asks the servers of its own configuration.
fn elsewhere_configured(
    measures: &Measures<'_>,
    asker: &Asker<'_>,
    server: Option<SocketAddr>,
) -> Remedy {
    let resolver = measures.model.threads.who(asker.thread);
    let text = match answers_instead(measures, asker.thread, server) {
        Some((other, mean)) => format!(
            "let {resolver} ask {other} first, where its own servers are configured: it answers the same program in {} on \
             average",
            words::seconds(mean)
        ),
        None => format!("name another server where {resolver} has its own servers configured"),
    };
    Remedy { text, ..Remedy::default() }
}

/// What its resolv.conf and hosts can do, what helps most first: another server, no question, a shorter wait.
fn in_its_files(
    measures: &Measures<'_>,
    answers: &Answers<'_>,
    end: &End,
    server: Option<SocketAddr>,
    asker: &ThreadRef,
) -> Vec<Remedy> {
    let Some(seen) = file_of(measures.model, asker, "/etc/resolv.conf") else {
        return vec![without_its_files(measures, asker)];
    };
    let file = words::shell(&seen.path);
    let line = |line: &str| {
        Action {
            value: Some(line.into()),
            kind: ActionKind::WriteFile,
            target: ActionTarget { path: Some(seen.path.clone()), ..ActionTarget::default() },
            ..Action::default()
        }
        .through(seen.through.as_ref())
    };
    let mut ways = Vec::new();
    if let Some((other, mean)) = answers_instead(measures, asker, server) {
        ways.push(Remedy {
            text: format!(
                "ask {other} first: it answers the same program in {} on average",
                words::seconds(mean)
            ),
            // In place: in a container the file is a mount, which sed -i could not put another one over.
            command: format!("printf '%s\\n' 'nameserver {other}' \"$(cat {file})\" > {file}"),
            undo: format!(
                "printf '%s\\n' \"$(sed '1{{/^nameserver {other}$/d}}' {file})\" > {file}"
            ),
            action: Some(line(&format!("nameserver {other}"))),
        });
    }
    let in_hosts = |text: String, entry: String| {
        let seen = file_of(measures.model, asker, "/etc/hosts")?;
        let hosts = words::shell(&seen.path);
        let mut action = line(&entry);
        action.target.path = Some(seen.path);
        Some(Remedy {
            text,
            command: format!("echo '{entry}' >> {hosts}"),
            undo: format!("printf '%s\\n' \"$(sed '${{/^{entry}$/d}}' {hosts})\" > {hosts}"),
            action: Some(action),
        })
    };
    let asked: BTreeSet<&str> = answers.unanswered.iter().map(|q| &*q.query.name).collect();
    if let [name] = Vec::from_iter(asked)[..]
        && let Some(address) = asked_address(name)
    {
        let text = format!("give {address} a name of its own where no server is asked");
        ways.extend(in_hosts(text, format!("{address} host-{address}")));
    }
    if let Some(name) = own_name(&measures.model.look.host.hostname, answers, end) {
        let text = "it is this host's own name: let it be known where no server is asked".into();
        if let Some(way) = in_hosts(text, format!("{OWN_ADDRESS} {name}")) {
            ways.insert(0, way);
        }
    }
    let waits_long = end.longest_seconds >= LEAST_TIMEOUT.value && !answers.unanswered.is_empty();
    if waits_long || asks_again(answers) {
        ways.push(give_up_soon(&file, line("options timeout:1 attempts:1")));
    }
    ways
}

/// Who asked is gone, and nobody is left who is known to see the same files: in words, since a command would change another's.
fn without_its_files(measures: &Measures<'_>, asker: &ThreadRef) -> Remedy {
    Remedy::to(format!(
        "name another server, or a shorter wait (options timeout:1 attempts:1), in the resolv.conf that {} read: it has ended, and \
         whether anybody left sees the same file is not known (of a named network namespace it may be /etc/netns/NAME/resolv.conf)",
        measures.model.threads.who(asker)
    ))
}

/// A shorter wait.
fn give_up_soon(file: &str, action: Action) -> Remedy {
    Remedy {
        text: "until then, lose no more than a second per question; there is still no answer"
            .into(),
        command: format!("echo 'options timeout:1 attempts:1' >> {file}"),
        // Only the last line: the same may have stood there before.
        undo: format!(
            "printf '%s\\n' \"$(sed '${{/^options timeout:1 attempts:1$/d}}' {file})\" > {file}"
        ),
        action: Some(action),
    }
}

/// Another server that the same process asks, and that answers what it is asked, with its mean time: resolvers
/// ask the next one when the first has let its time pass.
fn answers_instead(
    measures: &Measures<'_>,
    asker: &ThreadRef,
    server: Option<SocketAddr>,
) -> Option<(IpAddr, f64)> {
    let asked = measures.model.net.dns_queries.iter().map(|(_, query)| query);
    let others: BTreeSet<SocketAddr> = asked
        .filter(|query| query.thread.pid == asker.pid && query.server.port() == PORT)
        .filter(|query| Some(query.server) != server)
        .map(|query| query.server)
        .collect();
    let good = others.into_iter().filter_map(|other| {
        let of_it = Answers::of(measures, Some(other));
        let answers_all = of_it.unanswered.is_empty() && of_it.failed == 0;
        let quick = !of_it.seconds.is_empty() && of_it.mean() < LATE.value;
        (answers_all && quick).then(|| (other.ip(), of_it.mean()))
    });
    good.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The same question was sent again by the same thread.
fn asks_again(answers: &Answers<'_>) -> bool {
    let mut seen = BTreeSet::new();
    let mut questions = answers.unanswered.iter().map(|question| question.query);
    questions.any(|query| !seen.insert((query.thread.tid, query.id, &query.name)))
}

/// The host's own name, if it was asked for and nothing else was but with domains behind it, which resolv.conf adds where the bare name is not
/// found: a name that only begins alike is another's. None if it is not one that stands in a line as it is.
fn own_name(host: &str, answers: &Answers<'_>, end: &End) -> Option<String> {
    let label = host.split('.').next().filter(|label| !label.is_empty())?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let is = |name: &str, own: &str| name.trim_end_matches('.').eq_ignore_ascii_case(own);
    let begins =
        |name: &str| name.split('.').next().is_some_and(|first| first.eq_ignore_ascii_case(label));
    let mut asked: BTreeSet<&str> = answers.unanswered.iter().map(|q| &*q.query.name).collect();
    asked.insert(asked_name(end));
    asked.remove("");
    let is_sure = asked.iter().any(|name| is(name, label) || is(name, host));
    if !is_sure || !asked.iter().all(|name| begins(name)) || !host.chars().all(is_plain) {
        return None;
    }
    // The one that has the domain is the canonical one.
    Some(if host == label { label.to_string() } else { format!("{host} {label}") })
}

/// The address that a question for a name was asked of: `7.8.9.10.in-addr.arpa` is 10.9.8.7.
fn asked_address(name: &str) -> Option<Ipv4Addr> {
    let reversed: Ipv4Addr =
        name.trim_end_matches('.').strip_suffix(".in-addr.arpa")?.parse().ok()?;
    let mut octets = reversed.octets();
    octets.reverse();
    Some(octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;

    #[test]
    fn the_address_that_a_name_was_asked_for() {
        assert_eq!(asked_address("7.8.9.10.in-addr.arpa"), Some(Ipv4Addr::new(10, 9, 8, 7)));
        for other in ["8.9.10.in-addr.arpa", "x'y.8.9.10.in-addr.arpa", "example.org", ""] {
            assert_eq!(asked_address(other), None, "{other}");
        }
    }

    #[test]
    fn a_host_that_asks_for_its_own_name_needs_a_line_in_hosts() {
        let asked = |host: &str, name: &str| {
            let mut facts = dns(None);
            for fact in &mut facts {
                if let Body::DnsQuery(query) = &mut fact.body {
                    query.name = name.into();
                }
            }
            let named = Host { hostname: host.into(), cpus: 2, ..Host::default() };
            facts.push(crate::rules::scenes::fact(Body::Host(named)));
            commands(facts).into_iter().find(|command| command.starts_with("echo '127"))
        };
        let line = |names: &str| Some(format!("echo '127.0.1.1 {names}' >> /etc/hosts"));
        assert_eq!(asked("web", "web"), line("web"));
        assert_eq!(asked("web", "web.example.org"), None, "another's, by all that is known");
        assert_eq!(asked("web.example.org", "Web.example.org"), line("web.example.org web"));
        assert_eq!(asked("web.example.org", "web"), line("web.example.org web"));
        assert_eq!(asked("web", "db.example.org"), None);
        assert_eq!(asked("w'b", "w'b"), None, "no line as it is");
    }

    /// The commands of the ways out of the first finding.
    fn commands(facts: Vec<Fact>) -> Vec<String> {
        let found = findings(facts);
        found[0].remedy.iter().map(|way| way.command.clone()).collect()
    }

    #[test]
    fn a_server_that_answers_the_same_asker_is_to_be_asked_first() {
        let mut facts = dns(None);
        for query in dns(Some(2)) {
            // The same questions, of the next server of the same resolv.conf.
            let other = address("10.0.0.54:53");
            let body = match query.body {
                Body::DnsQuery(query) => Body::DnsQuery(DnsQuery { server: other, ..query }),
                Body::DnsReply(reply) => Body::DnsReply(DnsReply { server: other, ..reply }),
                _ => continue,
            };
            facts.push(Fact { at_ns: query.at_ns + 995_000_000, body });
        }
        let way = &commands(facts)[1];
        assert_eq!(
            way,
            "printf '%s\\n' 'nameserver 10.0.0.54' \"$(cat /etc/resolv.conf)\" > /etc/resolv.conf"
        );
        // Each question costs a second already, and is asked once.
        assert_eq!(commands(dns(None)).len(), 1);
    }

    #[test]
    fn files_are_not_changed_for_a_resolver_that_does_not_read_them() {
        for (syscall, changes) in [("poll", true), ("recvfrom", false)] {
            let mut facts = dns(None);
            for fact in &mut facts {
                match &mut fact.body {
                    Body::DnsQuery(query) => {
                        query.name = "7.8.9.10.in-addr.arpa".into();
                        query.question_type = 12;
                        query.id = 1;
                    }
                    Body::Wait(wait) => wait.place.syscall = syscall.into(),
                    _ => {}
                }
            }
            let commands = commands(facts);
            let of = |file: &str| commands.iter().position(|command| command.ends_with(file));
            assert_eq!(
                (of(">> /etc/hosts"), of(">> /etc/resolv.conf")),
                match changes {
                    true => (Some(1), Some(2)),
                    false => (None, None),
                }
            );
        }
    }

    /// The commands that change a file of client 10, which has ended: it was in network namespace 5, as another process is in `netns`, both in
    /// one group of a runtime.
    fn changes_for_the_gone(runtime: &str, netns_name: &str, netns: u32) -> Vec<String> {
        use crate::rules::scenes::{fact, thread};
        let mut facts = dns(None);
        for fact in &mut facts {
            if let Body::DnsQuery(query) = &mut fact.body {
                query.id = 1;
            }
        }
        let path = "/shop".to_string();
        let lives = |pid: u32, netns: u32| {
            let cgroups = vec![Membership { controllers: Vec::new(), path: path.clone() }];
            let thread = thread(pid, "client");
            fact(Body::Thread(Thread { thread, netns, cgroups, ..Thread::default() }))
        };
        let (name, cgroups) = ("shop".to_string(), vec![path.clone()]);
        let runtime = runtime.to_string();
        let end = Exit { thread: thread(10, "client"), last: true, code: Some(0) };
        facts.extend([
            lives(10, 5),
            lives(77, netns),
            fact(Body::Container(Container { name, runtime, cgroups, ..Container::default() })),
            fact(Body::Link(Link { netns: 5, netns_name: netns_name.into(), ..Link::default() })),
            fact(Body::Exit(end)),
        ]);
        let mut commands = commands(facts);
        commands.retain(|command| command.contains("resolv.conf"));
        commands
    }

    #[test]
    fn the_file_of_a_process_that_is_gone_is_changed_only_through_who_sees_the_same() {
        let through_77 = changes_for_the_gone("docker", "", 5);
        assert_eq!(through_77.len(), 1);
        assert!(through_77[0].contains("/proc/77/"), "{through_77:?}");
        let none: [&str; 0] = [];
        assert_eq!(changes_for_the_gone("docker", "", 6), none, "another network namespace");
        assert_eq!(changes_for_the_gone("cgroup", "shop", 5), none, "ip netns exec");
        let of_the_host = changes_for_the_gone("cgroup", "", 6);
        assert!(of_the_host[0].ends_with(">> /etc/resolv.conf"), "{of_the_host:?}");
    }

    #[test]
    fn a_name_that_looks_like_an_option_is_asked_for_as_a_name() {
        let mut facts = dns(None);
        for fact in &mut facts {
            if let Body::DnsQuery(query) = &mut fact.body {
                query.name = "-f/etc/shadow".into();
            }
        }
        let command = &findings(facts)[0].remedy[0].command;
        assert_eq!(command, "dig @10.0.0.53 -q -f/etc/shadow +time=1 +tries=1");
    }
}
