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

use crate::facts::InetRef;
use crate::measure::doors;
use crate::model::Model;
use crate::programs::lock_kind::LockKind;
use crate::programs::{self, Program, stacks_with_warning};
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out;
use crate::rules::wording::Remedy;

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

/// Whether a process is of a program each of whose processes serves one session, of which the others know more than its calls tell.
pub fn is_of_sessions(model: &Model, pid: u32) -> bool {
    programs::of(&model.threads.process_name(pid)).is_some_and(|it| it.session.is_some())
}

/// The command that shows one connection as the kernel has it: what was sent and not acknowledged, and for how long
/// nothing came.
pub fn of_socket(model: &Model, socket: &InetRef) -> Remedy {
    let ss = ways_out::command_in(model, socket.netns, "ss");
    // Of datagrams the kernel keeps no turn, but memory and drops.
    let flags = if socket.is_tcp() { "-tinp" } else { "-uamnp" };
    let asks = Action::look(Question::State);
    Remedy::default()
        .command(format!("{ss} {} 'src {} and dst {}'", flags, socket.local, socket.remote))
        .acting(asks.through(ss.through.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, Host, ObjectRef, Thread};
    use crate::rules::scenes::{descriptor, host};
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
            let thread = crate::rules::scenes::thread(7, comm);
            let uid = Some(999);
            let known = Thread { thread, inner_pid: Some(1), uid, ..Thread::default() };
            let listens = descriptor(7, 3, comm, unix("/run/.s.PGSQL.5432"));
            let facts = vec![crate::rules::scenes::identity(known), listens];
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
                let thread = crate::rules::scenes::thread(pid, "shop");
                let known = Thread { thread, netns, inner_pid, ..Thread::default() };
                crate::rules::scenes::identity(known)
            };
            let me = Host { own_pid: 99, ..Host::default() };
            let facts = vec![
                crate::rules::scenes::fact(Body::Host(me)),
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
    fn a_connection_is_shown_alone() {
        let one = connection("10.0.0.1:40000", "192.0.2.1:80", 1);
        let asked = of_socket(&listening("app", Vec::new()), &one).command;
        assert_eq!(asked, "ss -tinp 'src 10.0.0.1:40000 and dst 192.0.2.1:80'");
        let one = InetRef { protocol: "udp".into(), ..one };
        let asked = of_socket(&listening("app", Vec::new()), &one).command;
        assert_eq!(asked, "ss -uamnp 'src 10.0.0.1:40000 and dst 192.0.2.1:80'");
    }
}
