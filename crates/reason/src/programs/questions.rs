//! Programs that answer a question by the status with which they end: another than 0 is a no, and no failure.
//!
//! `until grep -q ready log; do sleep 1; done`, a supervisor that runs pgrep each second. Only statuses that mean nothing else: what
//! a program also ends with when it could not look (2 of grep) stays a failure. Must not: hold a program that does something besides asking.

/// Programs by name, with the statuses that are a no.
const QUESTIONS: &[(&[&str], &[u32])] = &[
    (&["grep", "egrep", "fgrep", "zgrep", "bzgrep", "xzgrep", "zstdgrep", "rg", "ag", "ack"], &[1]),
    (&["pgrep", "pidof", "fuser", "lsof"], &[1]),
    (&["test", "[", "expr", "cmp", "diff", "which", "id", "findmnt"], &[1]),
    (&["mountpoint"], &[1, 32]),
    (&["getent"], &[2]),
    (&["nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"], &[1]),
    (&["ping", "ping6", "fping", "arping"], &[1]),
    (&["pg_isready"], &[1, 2]),
    // `is-active` and `status` of a unit that is not active. A 4 is of a unit that is not there, and of a right that is missing as well.
    (&["systemctl"], &[3]),
];

/// Programs that ask another host, or may: their no says that somebody else is down or silent, and whoever runs them again waits for that.
const OF_OTHERS: &[&str] = &[
    "getent",
    "nc",
    "ncat",
    "netcat",
    "nc.openbsd",
    "nc.traditional",
    "ping",
    "ping6",
    "fping",
    "arping",
    "pg_isready",
];

/// Whether a program of this name asks for the state of its own host alone.
pub fn is_of_local_state(process: &str) -> bool {
    !OF_OTHERS.contains(&process)
}

/// Whether a process of this name that ends with this status has said no.
pub fn says_no(process: &str, status: u32) -> bool {
    let is_it = |(names, no): &&(&[&str], &[u32])| names.contains(&process) && no.contains(&status);
    QUESTIONS.iter().any(|it| is_it(&it))
}

#[cfg(test)]
mod tests {
    use super::{is_of_local_state, says_no};

    #[test]
    fn a_no_is_no_failure_and_a_failure_no_no() {
        assert!(says_no("grep", 1) && says_no("systemctl", 3) && says_no("nc", 1));
        assert!(!says_no("grep", 2), "it could not read");
        assert!(!says_no("systemctl", 1), "a unit that did not start");
        assert!(!says_no("systemctl", 4), "it may lack the right to ask");
        assert!(!says_no("psql", 1));
    }

    #[test]
    fn who_asks_another_host_asks_for_more_than_local_state() {
        assert!(["grep", "pgrep", "test", "mountpoint"].iter().all(|it| is_of_local_state(it)));
        assert!(!["nc", "ping", "pg_isready"].iter().any(|it| is_of_local_state(it)));
    }
}
