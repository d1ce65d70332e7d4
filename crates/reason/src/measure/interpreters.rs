//! What a program runs that an interpreter executes: by the readings of the interpreter's lock, ten a second.
//!
//! Who has the lock runs the program, so the readings in which somebody has it are samples of the program's own functions, and
//! of its collector. What is computed without the lock is in none of them: if that is most, nothing is said of functions.
//! Must not: name codes, or say what waits for the lock (rules/lock/interpreter.rs).

use crate::facts::{InterpreterLock, UserFrame};
use crate::model::Model;
use crate::threshold::Threshold;
use crate::waits::user_stack;
use std::collections::BTreeMap;

/// By fewer readings nothing is said of functions.
const READINGS_MIN: usize = 5;
/// Of the CPU time of a process, what must be under the lock for functions to stand for it.
static UNDER_LOCK_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "part of a process's CPU time in which it had the lock: with less the functions under the lock do not stand for it",
    "chosen",
);

/// A function of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub function: String,
    /// Its file, and the line that it was in most often, where that is known.
    pub file: String,
}

impl Place {
    /// `crunch() of app.py:12`; of what is no function by its own name, `<module> of app.py:3`.
    pub fn words(&self) -> String {
        let is_function = !self.function.starts_with('<');
        format!("{}{} of {}", self.function, if is_function { "()" } else { "" }, self.file)
    }

    /// The function that was met most often, and how often.
    pub fn most<'f>(stacks: impl Iterator<Item = &'f [UserFrame]>) -> Option<(Self, usize)> {
        let mut counts: BTreeMap<(&str, &str), BTreeMap<u32, usize>> = BTreeMap::new();
        for frame in stacks.filter_map(user_stack::frame) {
            let lines = counts.entry((&frame.function, &frame.module)).or_default();
            *lines.entry(frame.line).or_default() += 1;
        }
        let count = |lines: &BTreeMap<u32, usize>| lines.values().sum::<usize>();
        let most = counts.into_iter().rev().max_by_key(|(_, lines)| count(lines))?;
        let ((function, module), lines) = most;
        let line = lines.iter().rev().max_by_key(|(_, count)| **count).map_or(0, |(line, _)| *line);
        let (function, module) = (function.into(), module.into());
        let frame = UserFrame { function, module, line };
        let place = Self { file: frame.place(), function: frame.function };
        Some((place, count(&lines)))
    }
}

/// What was read of a process.
#[derive(Debug, Clone)]
pub struct Interpreted<'m> {
    /// All readings.
    pub readings: usize,
    /// Those in which somebody had the lock.
    held: Vec<&'m InterpreterLock>,
}

impl<'m> Interpreted<'m> {
    /// Of a process; none if it was read too seldom.
    pub fn of(model: &'m Model, pid: u32) -> Option<Self> {
        let read = model.stacks.interpreter_locks.get(&pid)?;
        let held: Vec<&InterpreterLock> =
            read.iter().map(|(_, lock)| lock).filter(|lock| lock.holder_tid != 0).collect();
        (held.len() >= READINGS_MIN).then_some(Self { readings: read.len(), held })
    }

    /// `CPython 3.12`.
    pub fn interpreter(&self) -> &'m str {
        self.held.last().map_or("", |lock| &lock.interpreter)
    }

    /// Readings in which somebody had the lock.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Of those, in how many the interpreter collected garbage.
    pub fn collecting(&self) -> usize {
        self.held.iter().filter(|lock| lock.collecting).count()
    }

    /// The function that had the lock most often, and how often.
    pub fn place(&self) -> Option<(Place, usize)> {
        Place::most(self.held.iter().map(|lock| lock.frames.as_slice()))
    }

    /// What had the lock, reading by reading, where its frames were read.
    pub fn stacks(&self) -> impl Iterator<Item = &'m [UserFrame]> {
        let stacks = self.held.iter().map(|lock| lock.frames.as_slice());
        stacks.filter(|frames| !frames.is_empty())
    }

    /// The same while garbage was collected: who allocates, or asked for it.
    pub fn place_collecting(&self) -> Option<(Place, usize)> {
        let collecting = self.held.iter().filter(|lock| lock.collecting);
        Place::most(collecting.map(|lock| lock.frames.as_slice()))
    }

    /// Whether the readings stand for the CPU time of the process, which used so much of one CPU.
    pub fn stands_for(&self, cpu_share: f64) -> bool {
        self.held.len() as f64 / self.readings.max(1) as f64
            >= UNDER_LOCK_MIN.value * cpu_share.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[u32], free: usize) -> Model {
        let frame = |line| UserFrame { function: "crunch".into(), module: "app.py".into(), line };
        let held = lines.iter().map(|line| InterpreterLock {
            pid: 10,
            holder_tid: 10,
            collecting: *line > 20,
            frames: vec![frame(*line)],
            ..InterpreterLock::default()
        });
        let free = (0..free).map(|_| InterpreterLock { pid: 10, ..InterpreterLock::default() });
        let mut model = Model::default();
        let all = (1..).zip(held.chain(free)).collect();
        model.stacks.interpreter_locks.insert(10, all);
        model
    }

    #[test]
    fn the_function_is_named_with_the_line_of_most_readings() {
        let model = read(&[12, 12, 14, 12, 25, 26], 0);
        let interpreted = Interpreted::of(&model, 10).unwrap();
        let (place, times) = interpreted.place().unwrap();
        assert_eq!((place.words().as_str(), times), ("crunch() of app.py:12", 6));
        assert_eq!((interpreted.collecting(), interpreted.held()), (2, 6));
        assert!(Interpreted::of(&read(&[1, 2], 9), 10).is_none(), "too few");
    }

    #[test]
    fn what_runs_without_the_lock_is_not_known() {
        let model = read(&[12; 5], 15);
        let interpreted = Interpreted::of(&model, 10).unwrap();
        assert!(interpreted.stands_for(0.3), "it sleeps the rest of the time");
        assert!(!interpreted.stands_for(1.0));
    }
}
