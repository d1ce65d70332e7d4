//! What only a program itself knows: the question to ask it, as a command with the process and its address filled in.
//!
//! For ends behind which nothing can be seen from outside: a row lock, a pool, a turn. What a program answers is in its file
//! (programs/); one that has none gets the stacks of its threads. A question is one that was tried against the real program (lab/field/questions.py),
//! by root of the same host, as Debian sets the program up. Nothing of it is ever run by holdup. Here, and not with the answer, because
//! rules give the question as a way out too.
//!
//! Rejected: a signal that makes a program print its state (some end of it), a debugger where the program answers by
//! itself, `strace -p` (it stops each call, and of one that stands already shows no arguments).
//!
//! Edit together: lab/field/questions.py, programs/, measure/doors.rs.

use crate::facts::{Endpoint, GIVEN_PORTS, InetRef, ObjectRef, ThreadRef};
use crate::measure::doors;
use crate::model::{Model, lifetimes};
use crate::programs::lock_kind::LockKind;
use crate::programs::{self, Program, stacks_with_warning};
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out;
use crate::rules::wording::Remedy;
use crate::waits::goroutines;

/// The command that asks a process what it waits for.
pub fn question(model: &Model, pid: u32) -> String {
    let program = programs::of(&model.threads.process_name(pid));
    program.map_or_else(|| stacks_with_warning(pid), |it| question_of(model, it, pid))
}

/// The same of a process that waits for something inside of its server.
pub fn question_about(model: &Model, pid: u32, kind: Option<LockKind>) -> String {
    let program = programs::of(&model.threads.process_name(pid));
    let of_kind =
        program.zip(kind).and_then(|(it, kind)| (it.question_about)(&doors::of(model, pid), kind));
    of_kind.unwrap_or_else(|| question(model, pid))
}

/// The same of a process that is known to be of a program, whatever it calls itself.
pub fn question_of(model: &Model, program: &Program, pid: u32) -> String {
    program.question(&doors::of(model, pid), pid)
}

/// How to see what a process does between a question and its answer: by its program's own word first, which knows whose question it is. Its calls or
/// functions are what is left where it has none, or beside it where it is at work.
pub fn between_answers(model: &Model, who: &ThreadRef, is_at_work: bool) -> Vec<Remedy> {
    let way = || {
        Remedy::to(format!("see what {} does between question and answer", model.threads.who(who)))
    };
    // Its threads run any goroutine: their calls say nothing of the one that was asked.
    if goroutines::are_known(model, who.pid) {
        let stacks = || question_of(model, &programs::go::GO, who.pid);
        return vec![match is_at_work {
            true => way().profile(who),
            false => way().ask(Question::Program, who, stacks()),
        }];
    }
    let own = programs::of(&model.threads.process_name(who.pid))
        .filter(|it| it.question.is_some())
        .map(|it| way().ask(Question::Program, who, question_of(model, it, who.pid)));
    let calls = match is_at_work {
        true => Some(Remedy::to("see in which functions it is at work").profile(who)),
        false if own.is_none() => Some(way().sleeps(who)),
        false => None,
    };
    own.into_iter().chain(calls).collect()
}

/// The command that shows one connection as the kernel has it: what was sent and not acknowledged, and for how long
/// nothing came. Of one that has ended with whoever had it open: those of the next time, which will have another port on the side that connects.
pub fn of_socket(model: &Model, socket: &InetRef, text: &str) -> Remedy {
    let ss = ways_out::command_in(model, socket.netns, "ss");
    // Of datagrams the kernel keeps no turn, but memory and drops.
    let flags = if socket.is_tcp() { "-tinp" } else { "-uamnp" };
    let (own, far) = (socket.local.port(), socket.remote.port());
    let is_served = || {
        model.called.served_ports().contains(&(socket.netns, own))
            || (1..GIVEN_PORTS).contains(&own) && far >= GIVEN_PORTS
    };
    let (which, text) = match has_ended(model, socket) {
        false => (format!("src {} and dst {}", socket.local, socket.remote), text.to_string()),
        true => {
            let which = match is_served() {
                true => format!("src {}", socket.local),
                false => format!("dst {}", socket.remote),
            };
            (which, format!("the connection has ended; the next time, {text}"))
        }
    };
    let asks = Action::look(Question::State);
    Remedy::to(text)
        .command(format!("{ss} {flags} '{which}'"))
        .acting(asks.through(ss.through.as_ref()))
}

/// Whether everybody who was seen to have a socket open has ended.
fn has_ended(model: &Model, socket: &InetRef) -> bool {
    let before = model.held.endpoints_before.iter().map(|(_, end)| end);
    let all = model.held.endpoints.iter().chain(before);
    let is_own =
        |end: &&Endpoint| matches!(&end.object, ObjectRef::Inet(it) if it.ino == socket.ino);
    let mut own = all.filter(is_own).peekable();
    own.peek().is_some() && own.all(|end| !lifetimes::is_there_at_end(model, &end.process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Exit, Fact, Host, Thread};
    use crate::rules::scenes::{self, descriptor, host};
    use crate::waits::poll_intent::TCP_LISTEN;

    fn tcp(at: &str) -> ObjectRef {
        ObjectRef::Inet(connection(at, "0.0.0.0:0", TCP_LISTEN))
    }

    fn connection(local: &str, remote: &str, state: u8) -> InetRef {
        let (local, remote) =
            (local.parse().expect("an address"), remote.parse().expect("an address"));
        InetRef { ino: 7, netns: 1, protocol: "tcp".into(), local, remote, state }
    }

    fn unix(path: &str) -> ObjectRef {
        ObjectRef::Unix { ino: 8, peer_ino: 0, path: Some(path.into()) }
    }

    fn listening(comm: &str, at: Vec<ObjectRef>) -> Model {
        let at = (3..).zip(at).map(|(fd, object)| descriptor(7, fd, comm, object));
        Model::new([host(), at.collect::<Vec<Fact>>()].concat())
    }

    fn asked(comm: &str, at: Vec<ObjectRef>) -> String {
        programs::of(comm)
            .map_or_else(|| stacks_with_warning(7), |it| question_of(&listening(comm, at), it, 7))
    }

    #[test]
    fn a_known_program_is_asked_in_its_own_words_where_it_listens() {
        let both = |path| vec![tcp("0.0.0.0:5432"), unix(path)];
        let postgres = asked("postgres", both("/run/a b/.s.PGSQL.5433"));
        assert!(postgres.starts_with("runuser -u postgres -- psql -h '/run/a b' -p 5433 -c"));
        assert!(postgres.contains("or pid = 7 order by"), "{postgres}");
        let bouncer = asked("pgbouncer", vec![tcp("0.0.0.0:6432")]);
        assert!(bouncer.contains("psql -h 127.0.0.1 -p 6432 -U pgbouncer pgbouncer"), "{bouncer}");
        let maria = asked("mariadbd", both("/run/mysqld/mysqld.sock"));
        assert!(maria.starts_with("mariadb -S /run/mysqld/mysqld.sock -e"), "{maria}");
        let redis = asked("redis-server", vec![tcp("10.0.0.1:6400")]);
        assert!(redis.starts_with("redis-cli -h 10.0.0.1 -p 6400 client list;"), "{redis}");
        assert_eq!(asked("java", Vec::new()), "jcmd 7 Thread.print");
        assert!(asked("python3.11", Vec::new()).starts_with("py-spy dump "));
    }

    #[test]
    fn a_server_in_a_container_is_asked_in_there_by_its_number_there() {
        let asked = |comm: &str| {
            let thread = scenes::thread(7, comm);
            let uid = Some(999);
            let known = Thread { thread, inner_pid: Some(1), uid, ..Thread::default() };
            let listens = descriptor(7, 3, comm, unix("/run/.s.PGSQL.5432"));
            let facts = vec![scenes::identity(known), listens];
            question(&Model::new([host(), facts].concat()), 7)
        };
        let postgres = asked("postgres");
        assert!(
            postgres.starts_with("nsenter -t 7 -m -n -p -S 999 psql -h /run -p 5432 -c"),
            "{postgres}"
        );
        assert!(postgres.contains("or pid = 1 order by"), "{postgres}");
        assert!(asked("own-server").starts_with("gdb -p 7 "), "a debugger is the host's");
        let redis = asked("redis-server");
        assert_eq!(redis.matches("nsenter -t 7 -m -n -p redis-cli -s").count(), 2, "{redis}");
    }

    #[test]
    fn a_tool_that_an_image_need_not_have_is_the_hosts_within_the_network() {
        let asked = |inner_pid: Option<u32>| {
            let own = |pid: u32, netns: u32, inner_pid: Option<u32>| {
                let thread = scenes::thread(pid, "shop");
                let known = Thread { thread, netns, inner_pid, ..Thread::default() };
                scenes::identity(known)
            };
            let me = Host { own_pid: 99, ..Host::default() };
            let facts = vec![
                scenes::fact(Body::Host(me)),
                own(7, 2, inner_pid),
                own(99, 1, None),
                descriptor(7, 3, "shop", tcp("0.0.0.0:6060")),
            ];
            question_of(&Model::new(facts), &programs::go::GO, 7)
        };
        for inner_pid in [Some(1), None] {
            let asks = asked(inner_pid);
            assert!(
                asks.starts_with("nsenter -t 7 -n curl -s -m 5 'http://127.0.0.1:6060"),
                "{asks}"
            );
        }
    }

    #[test]
    fn where_nobody_was_seen_to_listen_a_program_is_asked_at_its_usual_place() {
        assert!(asked("mariadbd", Vec::new()).starts_with("mariadb -e"));
        assert!(asked("redis-server", Vec::new()).starts_with("redis-cli client list;"));
        assert!(asked("postgres", Vec::new()).starts_with("runuser -u postgres -- psql -c"));
    }

    #[test]
    fn any_other_program_is_asked_for_its_stacks_and_a_script_of_php_for_its_name() {
        assert!(asked("own-server", vec![tcp("0.0.0.0:80")]).starts_with("gdb -p 7 "));
        assert!(asked("php-fpm8.2", Vec::new()).starts_with("ls -l /proc/7/fd; gdb -p 7 "));
    }

    #[test]
    fn a_go_program_is_asked_without_a_stop_wherever_it_listens() {
        let two = listening("shop", vec![tcp("127.0.0.1:8080"), tcp("[::]:6060")]);
        let asked = question_of(&two, &programs::go::GO, 7);
        assert!(asked.contains("'http://127.0.0.1:8080/debug/pprof/goroutine?debug=2'"), "{asked}");
        assert!(asked.contains("'http://[::1]:6060/debug/pprof/goroutine?debug=2'"), "{asked}");
        let nowhere = question_of(&listening("shop", Vec::new()), &programs::go::GO, 7);
        assert!(nowhere.starts_with("ss -tlnp | grep pid=7   # then curl "), "{nowhere}");
    }

    #[test]
    fn whose_answer_is_waited_for_is_asked_by_its_own_word_before_its_calls() {
        let ways = |comm: &str, is_at_work| -> Vec<String> {
            let known = Thread { thread: scenes::thread(7, comm), ..Thread::default() };
            let at = descriptor(7, 3, comm, tcp("127.0.0.1:6379"));
            let model = Model::new([host(), vec![scenes::identity(known), at]].concat());
            let all = between_answers(&model, &scenes::thread(7, comm), is_at_work);
            all.into_iter()
                .map(|way| way.command.split(' ').take(2).collect::<Vec<_>>().join(" "))
                .collect()
        };
        assert_eq!(ways("redis-server", true), ["redis-cli -h", "perf top"]);
        assert_eq!(ways("redis-server", false), ["redis-cli -h"]);
        assert_eq!(ways("nginx", false), ["nginx -T"]);
        assert_eq!(ways("own-server", true), ["perf top"]);
        assert_eq!(ways("own-server", false), ["strace -f"]);
    }

    #[test]
    fn a_connection_is_shown_alone() {
        let one = connection("10.0.0.1:40000", "192.0.2.1:80", 1);
        let asked = of_socket(&listening("app", Vec::new()), &one, "").command;
        assert_eq!(asked, "ss -tinp 'src 10.0.0.1:40000 and dst 192.0.2.1:80'");
        let one = InetRef { protocol: "udp".into(), ..one };
        let asked = of_socket(&listening("app", Vec::new()), &one, "").command;
        assert_eq!(asked, "ss -uamnp 'src 10.0.0.1:40000 and dst 192.0.2.1:80'");
    }
    #[test]
    fn of_a_connection_that_ended_with_its_owner_those_of_the_next_time_are_shown() {
        let one = connection("10.0.0.1:40000", "192.0.2.1:80", 1);
        let asked = |is_over: bool| {
            let own = descriptor(7, 3, "curl", ObjectRef::Inet(one.clone()));
            let exit = Exit { thread: scenes::thread(7, "curl"), last: true, code: Some(0) };
            let is_seen = Thread { thread: scenes::thread(7, "curl"), ..Thread::default() };
            let mut facts = [host(), vec![scenes::identity(is_seen), own]].concat();
            facts
                .extend(is_over.then_some(Fact { at_ns: scenes::LOOK_NS, body: Body::Exit(exit) }));
            let mut model = Model::new(facts);
            model.finish();
            of_socket(&model, &one, "see it")
        };
        assert_eq!(asked(false).text, "see it");
        let asked = asked(true);
        assert_eq!(asked.text, "the connection has ended; the next time, see it");
        assert_eq!(asked.command, "ss -tinp 'dst 192.0.2.1:80'");
    }
}
