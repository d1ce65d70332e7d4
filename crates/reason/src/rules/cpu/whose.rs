//! To whom a process that uses CPUs belongs: a container, or else a user of the host.
//!
//! Root's own processes belong to nobody that could be asked. Must not: name a user where a container says more, whose users
//! may be numbered anew.

use crate::facts::ThreadRef;
use crate::measure::cpu_users::Use;
use crate::model::Model;
use crate::rules::culprit;
use std::collections::BTreeMap;

/// ` of shop`, ` of user anna`; nothing where it is root's, or not known.
pub(super) fn place(model: &Model, thread: &ThreadRef) -> String {
    match (culprit(model, thread).container, user(model, thread)) {
        (Some(container), _) => format!(" of {container}"),
        (None, Some(user)) if user != ROOT => format!(" of user {user}"),
        _ => String::new(),
    }
}

/// CPU used by each user, seconds, the most first; nothing if some are not known, or there is one alone.
pub(super) fn by_user(model: &Model, uses: &[&Use]) -> Vec<(String, f64)> {
    let mut users: BTreeMap<String, f64> = BTreeMap::new();
    for used in uses {
        let Some(user) = user(model, &used.process) else { return Vec::new() };
        *users.entry(user).or_default() += used.run;
    }
    let mut users: Vec<(String, f64)> = users.into_iter().collect();
    users.sort_by(|a, b| b.1.total_cmp(&a.1));
    if users.len() < 2 { Vec::new() } else { users }
}

const ROOT: &str = "root";

/// The name of a user, or its number.
fn user(model: &Model, thread: &ThreadRef) -> Option<String> {
    let known = model.identity(thread)?;
    match (&known.user, known.uid?) {
        (Some(name), _) => Some(name.clone()),
        (None, 0) => Some(ROOT.into()),
        (None, uid) => Some(uid.to_string()),
    }
}
