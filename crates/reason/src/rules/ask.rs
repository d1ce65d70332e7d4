//! What only a program itself knows: the question to ask it, as a command with the process filled in.
//!
//! For ends behind which nothing can be seen from outside: a row lock, a pool, a turn. One table by the program's name; a program
//! that is not in it gets the stacks of its threads. Nothing of it is ever run by holdup. Here, and not with the answer, because
//! rules give the question as a way out too.

/// The command that asks a process what it waits for.
pub fn question(comm: &str, pid: u32) -> String {
    match comm {
        "postgres" => format!(
            "psql -c \"select pid, wait_event_type, wait_event, pg_blocking_pids(pid), left(query, 60) \
             from pg_stat_activity where pid = {pid} or pid = any(pg_blocking_pids({pid}))\""
        ),
        "mariadbd" | "mysqld" => {
            "mysql -e \"show processlist; select * from information_schema.innodb_lock_waits\""
                .into()
        }
        "redis-server" => "redis-cli client list; redis-cli slowlog get 5".into(),
        "pgbouncer" => "psql -p 6432 pgbouncer -c 'show pools' -c 'show clients'".into(),
        "java" => format!("jcmd {pid} Thread.print"),
        _ if comm.starts_with("python") || comm.starts_with("gunicorn") => {
            format!("py-spy dump --pid {pid}")
        }
        _ if comm.starts_with("php-fpm") => format!("strace -f -p {pid} -e trace=network,desc"),
        _ => format!("gdb -p {pid} -batch -ex 'thread apply all bt'   # stops it for a moment"),
    }
}

/// The command that has a Go program list its goroutines: it answers only if the program was built with net/http/pprof and
/// serves it, by its own address. A debugger stops it, and a signal that prints stacks ends it.
pub fn go_question(pid: u32) -> String {
    format!(
        "ss -tlnp | grep pid={pid}, then curl -s 'http://ADDRESS/debug/pprof/goroutine?debug=2'   # dlv attach {pid} stops \
         it; never kill -QUIT, which ends it"
    )
}

#[cfg(test)]
mod tests {
    use super::{go_question, question};

    #[test]
    fn a_go_program_is_asked_without_a_stop() {
        let asked = go_question(7);
        assert!(asked.starts_with("ss -tlnp | grep pid=7,") && asked.contains("pprof/goroutine"));
    }

    #[test]
    fn a_known_program_is_asked_in_its_own_words_and_any_other_for_its_stacks() {
        assert!(question("postgres", 456).contains("pg_blocking_pids(456)"));
        assert_eq!(question("java", 7), "jcmd 7 Thread.print");
        assert!(question("own-server", 7).starts_with("gdb -p 7 "));
    }
}
