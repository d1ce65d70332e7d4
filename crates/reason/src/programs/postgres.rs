//! PostgreSQL: a process for each session, which writes into its title what the session does.
//!
//! A lock of its table of locks sleeps in `ProcSleep`; who wanted it stands further out. Names are those of the sources (storage/lmgr,
//! utils/misc/ps_status.c), read of 15. Edit together: pgbouncer.rs, which is spoken to in the same way.

use super::doors::Doors;
use super::lock_kind::LockKind;
use super::program::{Functions, Program, ReplicaSetting};
use super::session::Session;
use crate::model::words;

/// See the head of the file.
pub(super) static POSTGRES: Program = Program {
    names: &["postgres"],
    functions: Functions {
        locks: &[
            (LockKind::BufferPin, &["LockBufferForCleanup"]),
            (LockKind::Replica, &["SyncRepWaitForLSN"]),
            (LockKind::ServerLock, &["LWLockAcquire", "LWLockAcquireOrWait", "LWLockWaitForVar"]),
        ],
        behind: Some((PROC_SLEEP, WANTED_BY)),
        plain: &[(LockKind::Semaphore, &["PGSemaphoreLock"])],
        idle: &[
            "BackgroundWriterMain",
            "CheckpointerMain",
            "WalWriterMain",
            "AutoVacLauncherMain",
            "ApplyLauncherMain",
            "PgArchiverMain",
            "ServerLoop",
            "secure_read",
        ],
        plumbing: &[
            "WaitEventSetWait",
            "WaitEventSetWaitBlock",
            "WaitLatch",
            "WaitLatchOrSocket",
            "WaitOnLock",
            "LockAcquire",
            "LockAcquireExtended",
            "ConditionVariableSleep",
            "ConditionVariableTimedSleep",
        ],
        ..Functions::NONE
    },
    question: Some(question),
    session: Some(session),
    question_about,
    connections: Some(|doors| {
        format!("{} -c 'show max_connections' -c '{CONNECTIONS}'", psql(doors))
    }),
    replica: Some(REPLICA),
    brings_about,
    prepared: Some(|doors| format!("{} -c '{PREPARED}'", psql(doors))),
    ..Program::UNKNOWN
};

/// A checkpoint is spread over time, unless it is asked for; an archive that fails says since when.
fn question_about(doors: &Doors, kind: LockKind) -> Option<String> {
    let asks = match kind {
        LockKind::Checkpoint => {
            "-c 'show checkpoint_timeout' -c 'show checkpoint_completion_target'"
        }
        LockKind::Archive => {
            "-c 'show archive_command' -c 'select last_archived_time, last_failed_wal, last_failed_time from pg_stat_archiver'"
        }
        _ => return None,
    };
    Some(format!("{} {asks}", psql(doors)))
}

const STANDBYS: &str = "synchronous_standby_names";

const REPLICA: ReplicaSetting = ReplicaSetting {
    name: STANDBYS,
    sender: Some(sends),
    question: |doors| {
        let asks = "select application_name, client_addr, state, sync_state, replay_lag from pg_stat_replication";
        format!(
            "{} -c \"select setting, source, sourcefile from pg_settings where name = '{STANDBYS}'\" -c '{asks}'",
            psql(doors)
        )
    },
    off: |doors| {
        let (psql, file) = (psql(doors), saved(doors));
        format!(
            "{{ [ -s {file} ] || {psql} -Atc \"{BACK}\" > {file}; }} && {psql} -c \"alter system set {STANDBYS} = ''\" -c '{RELOAD}'"
        )
    },
    on: |doors| {
        let file = saved(doors);
        format!("{} -c \"$(cat {file})\" -c '{RELOAD}' && rm {file}", psql(doors))
    },
};

const RELOAD: &str = "select pg_reload_conf()";

/// The statement that brings the setting back. What ALTER SYSTEM sets stands in a file of its own, above postgresql.conf: a value that did not stand
/// there comes back as that line is taken away.
const BACK: &str = "select case when sourcefile like '%.auto.conf' then format('alter system set %I = %L', name, setting) \
                    else format('alter system reset %I', name) end from pg_settings where name = 'synchronous_standby_names'";

/// Where that statement is held, by the port of the server. One that is there already is of before an earlier change, and is what is to come back.
fn saved(doors: &Doors) -> String {
    let of_path = |path: &String| path.rsplit_once(".s.PGSQL.").map(|(_, port)| port.to_string());
    let port = doors.unix.iter().find_map(of_path);
    let port = port.or_else(|| doors.tcp.first().map(|at| at.port().to_string()));
    words::shell(&format!("/run/holdup-standbys-{}", port.unwrap_or_else(|| "postgres".into())))
}

/// Whether it is a sender of the log; the second is what it was called before release 11.
fn sends(title: &str) -> bool {
    own_title(title)
        .is_some_and(|own| own.starts_with("walsender ") || own.starts_with("wal sender process "))
}

/// These two serve no client: each server has one of the first, and of the second where it archives.
fn brings_about(title: &str) -> Option<LockKind> {
    // A client's user may be called so.
    if parts(title).is_some() {
        return None;
    }
    match own_title(title)?.split(' ').next()? {
        "checkpointer" => Some(LockKind::Checkpoint),
        "archiver" => Some(LockKind::Archive),
        _ => None,
    }
}

/// Transactions that were prepared, the oldest first.
const PREPARED: &str =
    "select gid, prepared, owner, database from pg_prepared_xacts order by prepared";

/// Who has its connections: the superuser has a few reserved for such a question (superuser_reserved_connections).
const CONNECTIONS: &str = "select usename, datname, application_name, client_addr, state, count(*) from pg_stat_activity \
                           where client_port is not null group by 1, 2, 3, 4, 5 order by 6 desc";

const PROC_SLEEP: &str = "ProcSleep";
const WANTED_BY: &[(LockKind, &[&str])] = &[
    (
        LockKind::RowLock,
        &["XactLockTableWait", "LockTuple", "heap_lock_tuple", "heap_acquire_tuplock"],
    ),
    (LockKind::TableLock, &["LockRelationOid", "LockRelation", "LockRelationForExtension"]),
    (
        LockKind::AdvisoryLock,
        &[
            "pg_advisory_lock_int8",
            "pg_advisory_lock_int4",
            "pg_advisory_xact_lock_int8",
            "pg_advisory_xact_lock_int4",
        ],
    ),
    (LockKind::DatabaseLock, &[PROC_SLEEP]),
];

/// The sessions that have a transaction open, the oldest first: who waits for whom, since when, and what each did last.
const SESSIONS: &str = "select pid, pg_blocking_pids(pid) as waits_for, state, xact_start, client_port, left(query, 60) \
                        from pg_stat_activity where xact_start is not null or pid = ";

fn question(doors: &Doors, pid: u32) -> String {
    format!("{} -c \"{SESSIONS}{} order by xact_start\"", psql(doors), doors.number(pid))
}

/// psql as the superuser of a server of this kind: over its own socket that user needs no password.
pub(super) fn psql(doors: &Doors) -> String {
    let own = doors.unix.iter().find_map(|path| path.split_once("/.s.PGSQL."));
    let at = match (own, doors.tcp.first()) {
        (Some((folder, port)), _) => {
            format!(" -h {} -p {}", words::shell(folder), words::shell(port))
        }
        (None, Some(at)) => format!(" -h {} -p {}", at.ip(), at.port()),
        (None, None) => String::new(),
    };
    doors.own_client_as("postgres", &format!("psql{at}"))
}

/// Of `postgres: [cluster: ]user database host activity`, or of a worker without a client that changes rows and vacuums tables.
fn session(title: &str) -> Option<Session<'_>> {
    if let Some((database, waits)) = own_title(title).and_then(worker) {
        return Some(Session { database, waits, may_hold: !waits, rests: false });
    }
    let (database, activity) = parts(title)?;
    let waits = activity.ends_with(" waiting");
    let ended = matches!(activity, "" | "idle" | "idle in transaction (aborted)");
    let begins = matches!(activity, "authentication" | "startup" | "initializing");
    let rests = activity == "idle";
    Some(Session { database, waits, may_hold: !ended && !begins && !waits, rests })
}

/// A worker's database, as far as its title has it, and whether it waits for a lock.
fn worker(own_title: &str) -> Option<(&str, bool)> {
    let (title, waits) = match own_title.trim_end().strip_suffix(" waiting") {
        Some(title) => (title, true),
        None => (own_title, false),
    };
    if let Some(database) = title.strip_prefix("autovacuum worker") {
        return Some((database.trim(), waits));
    }
    // "logical replication [apply|tablesync|parallel apply] worker for subscription N".
    let applies = title.strip_prefix("logical replication ")?.contains("worker for subscription");
    applies.then_some(("", waits))
}

/// What a process calls itself, without its cluster (cluster_name), which some distributions set for each server.
fn own_title(title: &str) -> Option<&str> {
    let own = title.strip_prefix("postgres: ")?;
    Some(own.split_once(": ").map_or(own, |(_, own)| own))
}

fn parts(title: &str) -> Option<(&str, &str)> {
    let mut words = own_title(title)?.splitn(4, ' ');
    let (_user, database, host) = (words.next()?, words.next()?, words.next()?);
    let is_host = host == "[local]" || host.ends_with(')');
    let activity = words.next().map(str::trim_end).filter(|_| is_host)?;
    Some((database, activity))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_title_says_where_a_session_is_and_what_it_does() {
        let waiting = "postgres: app sales 10.0.0.7(56592) UPDATE waiting";
        assert_eq!(parts(waiting), Some(("sales", "UPDATE waiting")));
        assert_eq!(parts("postgres: 15/main: app sales [local] idle"), Some(("sales", "idle")));
        assert_eq!(parts("postgres: app sales ::1(5000) SELECT"), Some(("sales", "SELECT")));
        for other in ["postgres: checkpointer ", "postgres: autovacuum worker sales", "bash -c x"] {
            assert_eq!(parts(other), None, "{other}");
        }
        let of = |activity: &str| {
            let title = format!("postgres: app sales [local] {activity}");
            session(&title).map(|it| (it.waits, it.may_hold))
        };
        assert_eq!(of("UPDATE waiting"), Some((true, false)));
        assert_eq!(of("idle in transaction"), Some((false, true)));
        assert_eq!(of("idle"), Some((false, false)));
        let rests = |activity: &str| {
            let title = format!("postgres: app sales [local] {activity}");
            session(&title).is_some_and(|it| it.rests)
        };
        assert!(rests("idle") && !rests("idle in transaction") && !rests("startup") && !rests(""));
        let worker =
            |title: &str| session(title).map(|it| (it.database.to_string(), it.waits, it.may_hold));
        let vacuums = Some(("sales".to_string(), false, true));
        assert_eq!(worker("postgres: 15/main: autovacuum worker sales"), vacuums);
        let applies = "postgres: logical replication worker for subscription 16394 waiting";
        assert_eq!(worker(applies), Some((String::new(), true, false)));
        assert_eq!(worker("postgres: logical replication launcher "), None);
        assert_eq!(brings_about("postgres: checkpointer sales [local] idle"), None, "a user");
    }

    #[test]
    fn a_server_s_own_processes_are_known_with_and_without_a_cluster() {
        for cluster in ["", "15/main: "] {
            let of = |title: &str| format!("postgres: {cluster}{title}");
            assert!(sends(&of("walsender app 10.0.0.9(4000) streaming 0/3000148")), "{cluster}");
            assert!(!sends(&of("walwriter ")), "{cluster}");
            assert_eq!(brings_about(&of("checkpointer ")), Some(LockKind::Checkpoint));
            assert_eq!(brings_about(&of("archiver last was 0001")), Some(LockKind::Archive));
            assert_eq!(brings_about(&of("app sales [local] CHECKPOINT")), None);
        }
    }
}
