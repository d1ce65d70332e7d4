//! What only a program itself knows: the question to ask it, as a command with the process and its address filled in.
//!
//! For ends behind which nothing can be seen from outside: a row lock, a pool, a turn. One table by the program's name; a program
//! that is not in it gets the stacks of its threads. A row is one that was tried against the real program (lab/field/questions.py),
//! by root of the same host, as Debian sets the program up. Nothing of it is ever run by holdup. Here, and not with the answer, because
//! rules give the question as a way out too.
//!
//! Rejected: a signal that makes a program print its state (some end of it), a debugger where the program answers by
//! itself, `strace -p` (it stops each call, and of one that stands already shows no arguments).
//!
//! Edit together: lab/field/questions.py, measure/doors.rs.

use crate::facts::InetRef;
use crate::measure::doors::{self, Doors};
use crate::model::{Model, words};
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out;
use crate::rules::wording::Remedy;
use std::net::SocketAddr;

/// The sessions that have a transaction open, the oldest first: who waits for whom, since when, and what each did last.
const POSTGRES_SESSIONS: &str = "select pid, pg_blocking_pids(pid) as waits_for, state, xact_start, client_port, left(query, 60) \
                                 from pg_stat_activity where xact_start is not null or pid = ";
/// The sessions with their clients, the open transactions, and whose row locks are in whose way.
const MARIADB_SESSIONS: &str = "show full processlist; \
    select trx_mysql_thread_id as id, trx_state, trx_started, trx_query from information_schema.innodb_trx; \
    select waiting_pid, waiting_query, blocking_pid, blocking_trx_age, sql_kill_blocking_connection from sys.innodb_lock_waits";

/// The command that asks a process what it waits for.
pub fn question(model: &Model, pid: u32) -> String {
    question_as(model, &model.threads.process_name(pid), pid)
}

/// The same of a process that is known to be of a program, whatever it calls itself.
pub fn question_as(model: &Model, program: &str, pid: u32) -> String {
    let doors = doors::of(model, pid);
    match program {
        "postgres" => {
            let psql = psql(&doors, "postgres");
            format!("{psql} -c \"{POSTGRES_SESSIONS}{pid} order by xact_start\"")
        }
        "pgbouncer" => {
            let psql = psql(&doors, "pgbouncer");
            // Whoever has a `link` has a connection to the server.
            format!("{psql} -x -c 'show pools' -c 'show clients'")
        }
        "mariadbd" => format!("mariadb{} -e \"{MARIADB_SESSIONS}\"", of_mariadb(&doors)),
        "mysqld" => format!("mysql{} -e \"{MARIADB_SESSIONS}\"", of_mariadb(&doors)),
        "redis-server" => {
            let cli = format!("redis-cli{}", of_redis(&doors));
            format!("{cli} client list; {cli} slowlog get 5")
        }
        "java" => format!("jcmd {pid} Thread.print"),
        _ if program.starts_with("python") || program.starts_with("gunicorn") => {
            python_question(pid)
        }
        // The script is open while it runs.
        _ if program.starts_with("php-fpm") => format!("ls -l /proc/{pid}/fd; {}", stacks(pid)),
        _ => stacks(pid),
    }
}

fn stacks(pid: u32) -> String {
    format!("gdb -p {pid} -batch -ex 'thread apply all bt'   # stops it for a moment")
}

/// psql as the superuser of a server of PostgreSQL's kind: over its own socket that user needs no password.
fn psql(doors: &Doors, user: &str) -> String {
    let own = doors.unix.iter().find_map(|path| path.split_once("/.s.PGSQL."));
    let at = match (own, doors.tcp.first()) {
        (Some((folder, port)), _) => format!(" -h {} -p {port}", words::shell(folder)),
        (None, Some(at)) => format!(" -h {} -p {}", at.ip(), at.port()),
        (None, None) => String::new(),
    };
    match user {
        "postgres" => format!("runuser -u postgres -- psql{at}"),
        // Its console: a database of that name, for whoever runs it.
        _ => format!("runuser -u postgres -- psql{at} -U {user} {user}"),
    }
}

fn of_mariadb(doors: &Doors) -> String {
    match (doors.unix.first(), doors.tcp.first()) {
        (Some(path), _) => format!(" -S {}", words::shell(path)),
        (None, Some(at)) => format!(" -h {} -P {}", at.ip(), at.port()),
        (None, None) => String::new(),
    }
}

fn of_redis(doors: &Doors) -> String {
    match (doors.tcp.first(), doors.unix.first()) {
        (Some(at), _) => format!(" -h {} -p {}", at.ip(), at.port()),
        (None, Some(path)) => format!(" -s {}", words::shell(path)),
        (None, None) => String::new(),
    }
}

/// The command that lists the Python functions of a process's threads, without a stop.
pub fn python_question(pid: u32) -> String {
    format!("py-spy dump --nonblocking --pid {pid}   # pipx install py-spy")
}

/// The command that has a Go program list its goroutines: it answers only if the program was built with net/http/pprof and
/// serves it, by its own address. A debugger stops it, and a signal that prints stacks ends it.
pub fn go_question(model: &Model, pid: u32) -> String {
    let url = |at: &SocketAddr| format!("'http://{at}/debug/pprof/goroutine?debug=2'");
    let urls: Vec<String> = doors::of(model, pid).tcp.iter().map(url).collect();
    let warning = format!(
        "if it has net/http/pprof; dlv attach {pid} stops it; never kill -QUIT, which ends it"
    );
    match urls.is_empty() {
        true => format!(
            "ss -tlnp | grep pid={pid}   # then curl -s 'http://ADDRESS/debug/pprof/goroutine?debug=2', {warning}"
        ),
        false => format!("curl -s -m 5 {}   # {warning}", urls.join(" ")),
    }
}

/// The command that shows one connection as the kernel has it: what was sent and not acknowledged, and for how long
/// nothing came.
pub fn of_socket(model: &Model, socket: &InetRef) -> Remedy {
    let ss = ways_out::command_in(model, socket.netns, "ss");
    let asks = Action::look(Question::State);
    Remedy::default()
        .command(format!("{ss} -tinp 'src {} and dst {}'", socket.local, socket.remote))
        .acting(asks.through(ss.through.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Fact, ObjectRef};
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
        question_as(&listening(comm, at), comm, 7)
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
        let asked = go_question(&two, 7);
        assert!(asked.contains("'http://127.0.0.1:8080/debug/pprof/goroutine?debug=2'"), "{asked}");
        assert!(asked.contains("'http://[::1]:6060/debug/pprof/goroutine?debug=2'"), "{asked}");
        let nowhere = go_question(&listening("shop", Vec::new()), 7);
        assert!(nowhere.starts_with("ss -tlnp | grep pid=7   # then curl "), "{nowhere}");
    }

    #[test]
    fn a_connection_is_shown_alone() {
        let one = connection("10.0.0.1:40000", "192.0.2.1:80", 1);
        let asked = of_socket(&listening("app", Vec::new()), &one).command;
        assert_eq!(asked, "ss -tinp 'src 10.0.0.1:40000 and dst 192.0.2.1:80'");
    }
}
