//! The user stack of a thread that stood still: functions of the program, where the kernel's own stack ends.
//!
//! Names only, as far as the program's files have them. Whole in time: the thread was seen blocked before and after, and had not
//! switched in between. Must not: carry arguments or memory, which are the program's content.

use super::{Ns, ThreadRef};
use serde::{Deserialize, Serialize};

/// Where in its program a thread waits. Source: its registers by the task iterator, its stack by process_vm_readv.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserStack {
    /// Who.
    pub thread: ThreadRef,
    /// It has not switched since then; of a wait that is older than the look, since it was first seen.
    pub since_ns: Ns,
    /// The innermost first.
    pub frames: Vec<UserFrame>,
    /// Down to where the thread or its program began; else only the inner part is known.
    pub complete: bool,
}

/// A function of a user stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserFrame {
    /// Its name as people write it (`ObjectMonitor::enter`); empty if the file does not name it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// The file that its code is in, without the folder; of Python and Java its source, what is their own below `python3/` and
    /// `jdk/`; empty of code that was made at run time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// The line of that file that it is in, from 1 on; of JavaScript the one on which it begins; 0 if the language does not tell.
    #[serde(skip_serializing_if = "is_zero")]
    pub line: u32,
}

impl UserFrame {
    /// Its file, with the line where that is known: `shop.py:41`.
    pub fn place(&self) -> String {
        match self.line {
            0 => self.module.clone(),
            line => format!("{}:{line}", self.module),
        }
    }
}

/// The lock of an interpreter, at one instant: one thread of the process at a time runs the program. Source: the process's memory,
/// process_vm_readv.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterpreterLock {
    /// The process.
    pub pid: u32,
    /// The interpreter, with its release: `CPython 3.11`.
    pub interpreter: String,
    /// Where the lock is: who sleeps on a word from here on waits for it.
    pub begin: u64,
    /// Behind its last word.
    pub end: u64,
    /// The thread that has it; 0 if nobody has.
    pub holder_tid: u32,
    /// The interpreter collects garbage: on that thread, as nothing else of the program runs meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub collecting: bool,
    /// What that thread runs, the innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<UserFrame>,
}

fn is_zero(line: &u32) -> bool {
    *line == 0
}

#[cfg(test)]
mod tests {
    use crate::facts::{Body, Fact, UserStack};

    #[test]
    fn what_a_recording_does_not_have_is_left_open() {
        let read: Fact = serde_json::from_str(r#"{"t":1,"f":"user_stack","v":{}}"#).unwrap();
        assert_eq!(read.body, Body::UserStack(UserStack::default()));
        let read: Fact = serde_json::from_str(
            r#"{"t":1,"f":"user_stack","v":{"frames":[{"function":"f","new":1},{"module":"x"}]}}"#,
        )
        .unwrap();
        let Body::UserStack(stack) = read.body else { panic!("another fact") };
        assert_eq!((&*stack.frames[0].function, &*stack.frames[1].module), ("f", "x"));
    }
}
