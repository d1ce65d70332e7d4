//! To whom a process that uses CPUs belongs: a container, or else a user of the host.
//!
//! Root's own processes belong to nobody that could be asked. Must not: name a user where a container says more, whose users
//! may be numbered anew.

use crate::facts::ThreadRef;
use crate::measure::cpu_users::Use;
use crate::model::Model;
use std::collections::BTreeMap;

/// ` of shop`, ` of user anna`; nothing where it is root's, not known, or the container of the victim as well: where all is in one
/// container, its name says of nobody who it is.
pub(super) fn place(model: &Model, thread: &ThreadRef, victim: Option<&ThreadRef>) -> String {
    let known = model.container_of(thread);
    if known.is_some() && victim.and_then(|victim| model.container_of(victim)) == known {
        return String::new();
    }
    match (known.map(|known| model.containers.called(known)), user(model, thread)) {
        (Some(container), _) => format!(" of {container}"),
        (None, Some(user)) if user != ROOT => format!(" of user {user}"),
        _ => String::new(),
    }
}

/// CPU used by each user, seconds, the most first; nothing if most of it is one user's, or of nobody knows whom. Programs that came and went
/// have no user that was read.
pub(super) fn by_user(model: &Model, uses: &[&Use]) -> Vec<(String, f64)> {
    let all: f64 = uses.iter().map(|used| used.run).sum();
    let mut users: BTreeMap<String, f64> = BTreeMap::new();
    for used in uses {
        if let Some(user) = user(model, &used.process) {
            *users.entry(user).or_default() += used.run;
        }
    }
    let known: f64 = users.values().sum();
    let mut users: Vec<(String, f64)> = users.into_iter().collect();
    users.retain(|(_, run)| *run >= WORTH_A_WORD * all);
    users.sort_by(|a, b| b.1.total_cmp(&a.1));
    if users.len() < 2 || known < MOSTLY * all { Vec::new() } else { users }
}

/// WORDING: who uses a smaller part is not listed.
const WORTH_A_WORD: f64 = 0.02;
/// WORDING: with less of it known, a list by user would say little.
const MOSTLY: f64 = 0.8;

const ROOT: &str = "root";

/// The name of a user, or its number.
fn user(model: &Model, thread: &ThreadRef) -> Option<String> {
    let known = model.threads.identity(thread)?;
    match (&known.user, known.uid?) {
        (Some(name), _) => Some(name.clone()),
        (None, 0) => Some(ROOT.into()),
        (None, uid) => Some(uid.to_string()),
    }
}
