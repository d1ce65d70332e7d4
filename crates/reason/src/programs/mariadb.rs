//! MariaDB and MySQL: a thread for each session.
//!
//! A stripped server has no names for the functions of its engines: an engine below the server's handler that sleeps in a condition
//! does so for a row of its own table of locks. Names were read of MariaDB 10.11, and else are those of the sources.

use super::doors::Doors;
use super::lock_kind::LockKind;
use super::program::{Functions, Program, ReplicaSetting};
use crate::model::words;

/// MariaDB, and what both have in common.
pub(super) static MARIADB: Program = Program {
    names: &["mariadbd"],
    functions: Functions {
        locks: &[
            // A user lock is taken as a metadata lock: who wanted it stands further out.
            (LockKind::AdvisoryLock, &["Item_func_get_lock::val_int"]),
            (LockKind::MetadataLock, &["MDL_context::acquire_lock"]),
            (LockKind::Replica, &["Repl_semi_sync_master::commit_trx"]),
            (LockKind::RowLock, &["lock_wait", "lock_wait_suspend_thread"]),
        ],
        engine_begins: "handler::ha_",
        idle: &[
            "tpool::thread_pool_generic::wait_for_tasks",
            "tpool::aio_linux::getevent_thread_routine",
            "handle_manager",
        ],
        // SELECT SLEEP(n).
        sleeps: &["Item_func_sleep::val_int"],
        plumbing: &[
            "Interruptible_wait::wait",
            "psi_cond_wait",
            "inline_mysql_cond_wait",
            "safe_cond_wait",
            "safe_cond_timedwait",
            "MDL_wait::timed_wait",
            "my_cond_timedwait",
            "my_cond_wait",
            "safe_mutex_lock",
            "psi_mutex_lock",
            "inline_mysql_mutex_lock",
        ],
        ..Functions::NONE
    },
    files: super::program::Files { plumbing_paths: &["tpool::"], ..super::program::Files::NONE },
    question: Some(|doors, _| question("mariadb", doors)),
    question_about: |doors, kind| question_about("mariadb", doors, kind),
    prepared: Some(|doors| says("mariadb", doors, PREPARED)),
    replica: Some(REPLICA),
    ..Program::UNKNOWN
};

/// MySQL: its client has another name.
pub(super) static MYSQL: Program = Program {
    names: &["mysqld"],
    question: Some(|doors, _| question("mysql", doors)),
    question_about: |doors, kind| question_about("mysql", doors, kind),
    prepared: Some(|doors| says("mysql", doors, PREPARED)),
    ..Program::UNKNOWN
};

/// The sessions with their clients, the open transactions, and whose row locks are in whose way.
const SESSIONS: &str = "show full processlist; \
    select trx_mysql_thread_id as id, trx_state, trx_started, trx_query from information_schema.innodb_trx; \
    select waiting_pid, waiting_query, blocking_pid, blocking_trx_age, sql_kill_blocking_connection from sys.innodb_lock_waits";

/// Whose each user lock is that a session waits for, by the name in its statement, and the sessions with their clients. It needs neither
/// the plugin nor the instruments that list locks, which are off unless somebody has asked for them.
const USER_LOCKS: &str = "select id, info, is_used_lock(substring_index(substring_index(info, '(''', -1), '''', 1)) as held_by \
    from information_schema.processlist where state = 'User lock'; show full processlist";

/// Transactions that were prepared, by the names that XA COMMIT and XA ROLLBACK take.
const PREPARED: &str = "xa recover";

const REPLICA: ReplicaSetting = ReplicaSetting {
    name: "rpl_semi_sync_master_enabled",
    sender: None,
    question: |doors| {
        let asks = "show status like 'rpl_semi_sync_master%'; show variables like 'rpl_semi_sync_master%'; show slave hosts";
        says("mariadb", doors, asks)
    },
    off: |doors| says("mariadb", doors, "set global rpl_semi_sync_master_enabled = off"),
    on: |doors| says("mariadb", doors, "set global rpl_semi_sync_master_enabled = on"),
};

fn question(client: &str, doors: &Doors) -> String {
    says(client, doors, SESSIONS)
}

fn question_about(client: &str, doors: &Doors, kind: LockKind) -> Option<String> {
    (kind == LockKind::AdvisoryLock).then(|| says(client, doors, USER_LOCKS))
}

fn says(client: &str, doors: &Doors, sql: &str) -> String {
    let at = match (doors.unix.first(), doors.tcp.first()) {
        (Some(path), _) => format!(" -S {}", words::shell(path)),
        (None, Some(at)) => format!(" -h {} -P {}", at.ip(), at.port()),
        (None, None) => String::new(),
    };
    format!("{}{at} -e \"{sql}\"", doors.own_client(client))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_transactions_are_prepared_is_asked_of_both() {
        for program in [&MARIADB, &MYSQL] {
            let asks = program.prepared.map(|asks| asks(&Doors::default()));
            assert!(asks.is_some_and(|asks| asks.ends_with("-e \"xa recover\"")));
        }
    }

    #[test]
    fn of_a_user_lock_the_server_is_asked_whose_it_is() {
        let asks = question_about("mariadb", &Doors::default(), LockKind::AdvisoryLock);
        assert!(asks.is_some_and(|asks| asks.contains("is_used_lock(")));
        assert_eq!(question_about("mysql", &Doors::default(), LockKind::RowLock), None);
    }
}
