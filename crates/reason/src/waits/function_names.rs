//! Names of functions, matched with the tables of lock_functions.rs.
//!
//! A look at one process has tens of thousands of stacks, and each frame is asked for in hundreds of names. So the frames
//! whose functions stand in any table at all are found first, by the last part of their paths: mostly none or two of twenty.
//!
//! Must not: know what a name means (user_stack.rs). Rejected: a kind that is kept beside each stack: the tables are asked in
//! several ways, each of which would need a field. Edit together: `all_names` in lock_functions.rs, which has each table.

use super::lock_functions::{JAVA_FILES, JAVAS_OWN, METHODS, all_names};
use super::lock_kind::LockKind;
use crate::facts::UserFrame;
use std::collections::HashSet;
use std::sync::LazyLock;

/// The last parts of all names.
static ENDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| all_names().map(last_part).collect());

/// Without what marks a function as the C library's own: `__GI___pthread_mutex_lock`.
fn bare(function: &str) -> &str {
    let inner = function.trim_start_matches('_');
    inner.strip_prefix("GI_").unwrap_or(inner).trim_start_matches('_')
}

fn last_part(path: &str) -> &str {
    path.rsplit([':', '.', '>']).next().unwrap_or(path)
}

/// Whole, or as the end of a path.
pub(super) fn is_one_of(function: &str, names: &[&str]) -> bool {
    let ends = |function: &str, name: &str| {
        function.strip_suffix(name).is_some_and(|before| {
            before.is_empty()
                || before.ends_with("::")
                || before.ends_with('.')
                || before.ends_with('>')
        })
    };
    let its = |name: &&&str| function.ends_with(**name);
    let mut candidates = names.iter().filter(its);
    if candidates.any(|name| ends(function, name) || ends(bare(function), name)) {
        return true;
    }
    // Of `<std::sync::Mutex>::lock` the brackets are left out.
    let plain = function.contains('<').then(|| function.replace(['<', '>'], ""));
    plain.is_some_and(|plain| names.iter().any(|name| ends(&plain, name)))
}

/// Whether a function may stand in a table. One whose path ends in a bracket is looked up in full.
pub(super) fn may_be_named(function: &str) -> bool {
    function.ends_with('>')
        || ENDS.contains(last_part(function))
        || ENDS.contains(last_part(bare(function)))
}

/// Of a program in one of the Java machine's languages. What it calls its own says nothing of functions of other languages.
pub(super) fn is_a_method(frame: &UserFrame) -> bool {
    is_javas_own(frame) || JAVA_FILES.iter().any(|end| frame.module.ends_with(end))
}

pub(super) fn is_javas_own(frame: &UserFrame) -> bool {
    frame.module.starts_with(JAVAS_OWN)
}

/// With its class, where a release of Python leaves that out.
fn full_name(frame: &UserFrame) -> &str {
    let mut known = METHODS.iter();
    let row = known.find(|(name, file, _)| *name == frame.function && *file == frame.module);
    row.map_or(frame.function.as_str(), |(_, _, full)| full)
}

/// The functions of a stack that may stand in a table, with their places in it.
pub(super) struct NamedFrames<'f>(Vec<(usize, &'f str)>);

impl<'f> NamedFrames<'f> {
    pub(super) fn of(frames: &'f [UserFrame]) -> Self {
        let names = frames.iter().map(full_name).enumerate();
        let may = |(at, name): &(usize, &str)| may_be_named(name) && !is_a_method(&frames[*at]);
        Self(names.filter(may).collect())
    }

    /// The place of the innermost that has one of these names.
    pub(super) fn position(&self, names: &[&str]) -> Option<usize> {
        debug_assert!(names.first().is_none_or(|it| may_be_named(it)), "all_names lacks a table");
        self.0.iter().find(|(_, function)| is_one_of(function, names)).map(|(at, _)| *at)
    }

    /// The kind of the first row that has a name of the stack.
    pub(super) fn first(&self, rows: &[(LockKind, &[&str])]) -> Option<LockKind> {
        if self.0.is_empty() {
            return None;
        }
        rows.iter().find(|(_, names)| self.position(names).is_some()).map(|(kind, _)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_matches_whole_or_as_the_end_of_a_path() {
        let is = |function, name| is_one_of(function, &[name]);
        assert!(is("__GI___pthread_mutex_lock", "pthread_mutex_lock"));
        assert!(is("tokio::runtime::Context::park_internal", "Context::park_internal"));
        assert!(!is("my_pthread_mutex_lock", "pthread_mutex_lock"));
        assert!(!is("pthread_mutex_lock_slow", "pthread_mutex_lock"));
    }

    #[test]
    fn every_form_of_a_name_is_looked_up() {
        for function in [
            "pthread_mutex_lock",
            "__GI___pthread_mutex_lock",
            "<MDL_context>::acquire_lock",
            "ns::VMThread::wait_until_executed",
        ] {
            assert!(may_be_named(function), "{function}");
        }
        assert!(!may_be_named("handle_request"));
    }
}
