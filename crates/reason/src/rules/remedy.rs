//! A way out: a sentence, the commands that do it and take it back, and the same typed.
//!
//! Part of the JSON contract (docs/json.md): fields are only ever added. Commands that act on a process are made here together with their action, so that
//! the two cannot differ, and so that the engine can leave out who is gone. Must not: run anything, or decide when a way out fits.
//!
//! Edit together: action.rs, docs/json.md.

use super::action::{Action, ActionKind, Question};
use crate::facts::ThreadRef;
use crate::model::words;
use serde::{Deserialize, Serialize};

/// A way out. Nothing of it is ever run by holdup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// What to do, one sentence.
    pub text: String,
    /// The command that does it; empty if there is none.
    #[serde(default)]
    pub command: String,
    /// The command that takes it back; empty if it cannot be taken back or needs no undo.
    #[serde(default)]
    pub undo: String,
    /// What it does, typed; none where that is not typed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
}

impl Remedy {
    /// Something to do without a command.
    pub fn to(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// With a command that changes nothing.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    /// With what it does, typed.
    pub fn acting(mut self, action: Action) -> Self {
        self.action = Some(action);
        self
    }

    /// Sends a signal.
    pub fn signal(self, signal: &str, undo: Option<&str>, whom: &[ThreadRef]) -> Self {
        let action = Action {
            value: Some(signal.into()),
            undo: undo.map(String::from),
            ..Action::on(ActionKind::Signal, whom)
        };
        let (command, undo) = (action.signal_command(), action.signal_undo());
        Self { command, undo, ..self }.acting(action)
    }

    /// Lets a stopped process go on.
    pub fn go_on(self, whom: &ThreadRef) -> Self {
        self.signal("CONT", Some("STOP"), std::slice::from_ref(whom))
    }

    /// Stops a process until it is let go on.
    pub fn pause(self, whom: &ThreadRef) -> Self {
        self.signal("STOP", Some("CONT"), std::slice::from_ref(whom))
    }

    /// Asks a process for its end.
    pub fn end(self, whom: &ThreadRef) -> Self {
        self.signal("TERM", None, std::slice::from_ref(whom))
    }

    /// Looks at a process with a command of its own.
    pub fn ask(self, question: Question, whom: &ThreadRef, command: impl Into<String>) -> Self {
        self.command(command).acting(Action::ask(question, whom))
    }

    /// Looks at the system calls of a process.
    pub fn calls(self, whom: &ThreadRef, filter: &str) -> Self {
        let filter_word = words::shell(&format!("trace={filter}"));
        let command = format!("strace -f -p {} -e {filter_word}", whom.pid);
        let action = Action { value: Some(filter.into()), ..Action::ask(Question::Calls, whom) };
        self.command(command).acting(action)
    }

    /// Looks in which calls a process sleeps, whatever the C library calls them on its architecture, and to whom it tries to connect in between: who is
    /// refused sleeps before it tries again.
    pub fn sleeps(self, whom: &ThreadRef) -> Self {
        const SLEEPS: &str = "?nanosleep,clock_nanosleep,?poll,ppoll,?select,pselect6,?epoll_wait,epoll_pwait,connect";
        self.calls(whom, SLEEPS)
    }

    /// Looks where a process spends its CPU time.
    pub fn profile(self, whom: &ThreadRef) -> Self {
        self.ask(Question::Profile, whom, format!("perf top -p {}", whom.pid))
    }

    /// Looks where a thread stands in the kernel.
    pub fn kernel_stack(self, whom: &ThreadRef) -> Self {
        let file = format!("cat /proc/{}/task/{}/stack", whom.pid, whom.tid);
        self.ask(Question::Stacks, whom, file)
    }

    /// Looks at a process with holdup.
    pub fn look(self, whom: &ThreadRef) -> Self {
        self.ask(Question::Look, whom, format!("holdup pid {}", whom.pid))
    }

    /// Sets something of a process, by two commands.
    pub fn set(mut self, action: Action, command: String, undo: String) -> Self {
        (self.command, self.undo, self.action) = (command, undo, Some(action));
        self
    }

    /// With another file that is to be written before it, and written back after it. One action cannot say both.
    pub fn after_write(self, path: &str, value: impl ToString, undo: impl ToString) -> Self {
        let before = Self::default().write(path, value, undo);
        Self {
            command: format!("{} && {}", before.command, self.command),
            undo: format!("{} && {}", self.undo, before.undo),
            action: None,
            ..self
        }
    }

    /// Writes a value into a file.
    pub fn write(self, path: &str, value: impl ToString, undo: impl ToString) -> Self {
        let action = Action::write(path, value, undo);
        let echo = |value: &Option<String>| {
            let value = value.as_deref().unwrap_or_default();
            // Of several words the kernel's own are read more easily so.
            let is_plain =
                value.split(' ').all(|word| !word.is_empty() && words::shell(word) == word);
            let quoted = match value.contains(' ') && is_plain {
                true => format!("\"{value}\""),
                false => words::shell(value),
            };
            format!("echo {quoted} > {}", words::shell(path))
        };
        let (command, undo) = (echo(&action.value), echo(&action.undo));
        self.set(action, command, undo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::scenes::thread;

    #[test]
    fn commands_and_actions_say_the_same() {
        let whom = [thread(10, "a"), thread(11, "b")];
        let way = Remedy::to("stop").signal("STOP", Some("CONT"), &whom);
        assert_eq!((&*way.command, &*way.undo), ("kill -STOP 10 11", "kill -CONT 10 11"));
        let way = Remedy::to("end").end(&whom[0]);
        assert_eq!((&*way.command, &*way.undo), ("kill 10", ""));
        let way = Remedy::to("more").write("/sys/fs/cgroup/a b/cpu.max", "20 10", "10 10");
        assert_eq!(way.command, "echo \"20 10\" > '/sys/fs/cgroup/a b/cpu.max'");
        assert_eq!(way.action.and_then(|action| action.undo).as_deref(), Some("10 10"));
        let way = Remedy::to("more").write("/sys/x", "a $(b)", "c;d");
        assert_eq!((&*way.command, &*way.undo), ("echo 'a $(b)' > /sys/x", "echo 'c;d' > /sys/x"));
    }

    #[test]
    fn an_action_is_read_as_it_was_written() {
        let way = Remedy::to("look").calls(&thread(10, "a"), "read");
        let text = serde_json::to_string(&way).expect("JSON");
        assert_eq!(serde_json::from_str::<Remedy>(&text).expect("a way out"), way);
        assert!(
            text.contains(r#""kind":"ask""#) && text.contains(r#""question":"calls""#),
            "{text}"
        );
    }
}
