//! What a thread is to who waits for a task of a pool of its process, by the thread's stack.
//!
//! Each stack is read once for each kind of task: of a thousand threads that wait for tasks each asks about all the others. Must not: say who has
//! which task in hand (ways/owed/awaited_task.rs).

use crate::facts::UserStack;
use crate::programs::{AwaitedTask, InPool, awaited_task, does_task, ends_unseen, in_pool};
use std::collections::HashMap;
use std::ptr::from_ref;
use std::sync::{Mutex, PoisonError};

/// What is known of stacks of the model.
#[derive(Default)]
pub struct Tasks {
    /// By where the stack and the kind of task lie, which do not move while the index is there.
    known: Mutex<HashMap<(usize, usize), Seat>>,
}

impl Tasks {
    /// What whoever has a stack of the model is to who waits for such a task.
    pub(in crate::graph) fn seat(&self, stack: &UserStack, task: &'static AwaitedTask) -> Seat {
        let key = (from_ref(stack).addr(), from_ref(task).addr());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(key).or_insert_with(|| Seat::of(stack, task))
    }
}

/// What a thread is to who waits for a task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::graph) enum Seat {
    /// Its stack was not read: it may run such a task.
    Unread,
    /// It may end the wait though no stack shows the task.
    Ends,
    /// It does such a task.
    Does,
    /// It does such a task, and waits for one itself.
    Awaits,
    /// It waits for a task to do.
    Rests,
    /// It has nothing to do with it.
    Apart,
}

impl Seat {
    fn of(stack: &UserStack, task: &AwaitedTask) -> Self {
        let frames = &stack.frames;
        match () {
            () if ends_unseen(frames, task) => Self::Ends,
            () if !does_task(frames, task) => match in_pool(frames) {
                Some((InPool::Rest, _)) => Self::Rests,
                _ => Self::Apart,
            },
            () if awaited_task(frames).is_some() => Self::Awaits,
            () => Self::Does,
        }
    }
}
