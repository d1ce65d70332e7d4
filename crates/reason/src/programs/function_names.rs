//! Functions of a stack, matched with what is known of all programs.
//!
//! A look at one process has tens of thousands of stacks, and each frame is asked for in hundreds of names. So the frames
//! whose functions stand in any table at all are found first, by the last part of their paths: mostly none or two of twenty.
//!
//! Must not: know what a name means for a wait (waits/user_stack.rs). Rejected: a kind that is stored beside each stack: the tables are
//! asked in several ways, each of which would need a field.

use super::all::{self, ALL};
use super::cpython;
use super::function_path::{bare, is_one_of, last_part};
use super::java;
use super::lock_kind::LockKind;
use crate::facts::UserFrame;
use std::collections::HashSet;
use std::sync::LazyLock;

/// The last parts of all names.
static ENDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| all::function_names().map(last_part).collect());

/// Whether a function may stand in a table. One whose path ends in a bracket is looked up in full.
fn may_be_named(function: &str) -> bool {
    function.ends_with('>')
        || ENDS.contains(last_part(function))
        || ENDS.contains(last_part(bare(function)))
}

/// Whether a function is known of some program: on the way to a lock, or idle.
pub fn is_known(frame: &UserFrame) -> bool {
    let name = frame.function.as_str();
    !java::is_a_method(frame)
        && may_be_named(name)
        && all::plumbing().any(|names| is_one_of(name, names))
}

/// The functions of a stack that may stand in a table, with their places in it.
pub struct NamedFrames<'f>(Vec<(usize, &'f str)>);

impl<'f> NamedFrames<'f> {
    /// Of a stack, the innermost first.
    pub fn of(frames: &'f [UserFrame]) -> Self {
        let full = |frame: &'f UserFrame| cpython::full_name(&frame.function, &frame.module);
        let names = frames.iter().map(full).enumerate();
        let may =
            |(at, name): &(usize, &str)| may_be_named(name) && !java::is_a_method(&frames[*at]);
        Self(names.filter(may).collect())
    }

    /// The place of the innermost that has one of these names.
    fn position(&self, names: &[&str]) -> Option<usize> {
        debug_assert!(names.first().is_none_or(|it| may_be_named(it)), "a table is left out");
        self.0.iter().find(|(_, function)| is_one_of(function, names)).map(|(at, _)| *at)
    }

    /// The same, of several tables.
    fn first_of(&self, tables: impl Iterator<Item = &'static [&'static str]>) -> Option<usize> {
        if self.0.is_empty() {
            return None;
        }
        tables.filter_map(|names| self.position(names)).min()
    }

    /// The kind of the first row that has a name of the stack.
    fn kind<'r>(
        &self,
        mut rows: impl Iterator<Item = &'r (LockKind, &'static [&'static str])>,
    ) -> Option<LockKind> {
        if self.0.is_empty() {
            return None;
        }
        rows.find(|(_, names)| self.position(names).is_some()).map(|(kind, _)| *kind)
    }

    /// What a program wanted of its own table of locks, in whose function the thread sleeps; none if it sleeps in none.
    pub fn wanted_of_a_table(&self) -> Option<Option<LockKind>> {
        let mut tables = ALL.iter().filter_map(|it| it.functions.behind);
        let sleeps = |(function, _): &(&'static str, _)| self.position(&[*function]).is_some();
        tables.find(sleeps).map(|(_, rows)| self.kind(rows.iter()))
    }

    /// Whether it wants a mutex that another has, of a runtime whose function for that runs what is done under it as well.
    pub fn wants_mutex(&self) -> bool {
        ALL.iter().map(|it| it.functions.takes_and_runs).any(|(takes, runs)| {
            let takes = self.position(takes);
            takes.is_some_and(|takes| self.position(runs).is_none_or(|runs| runs >= takes))
        })
    }

    /// What it waits for by a function that says so wherever it is.
    pub fn locked(&self) -> Option<LockKind> {
        self.kind(all::LOCKS.iter())
    }

    /// What it waits for by a plain way to sleep.
    pub fn plain(&self) -> Option<LockKind> {
        self.kind(all::PLAIN.iter())
    }

    /// The place of a function that waits for work.
    pub fn idle(&self) -> Option<usize> {
        self.first_of(ALL.iter().map(|it| it.functions.idle))
    }

    /// Whether it runs a loop of events until a child has ended.
    pub fn has_child_loop(&self) -> bool {
        self.first_of(ALL.iter().map(|it| it.functions.child)).is_some()
    }

    /// Whether it is a thread that a program began for work of its own.
    pub fn is_worker(&self) -> bool {
        self.first_of(ALL.iter().map(|it| it.functions.worker)).is_some()
    }

    /// Whether it lets time pass.
    pub fn sleeps(&self) -> bool {
        self.first_of(ALL.iter().map(|it| it.functions.sleeps)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
