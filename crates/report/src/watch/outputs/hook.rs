//! Starts the program of the settings when something begins, changes or ends, with the event on its standard input.
//!
//! The words of the settings are its arguments as they are: no shell reads them, and nothing of a finding is among them. It has ten
//! seconds, then it is killed; at most four run at once, later events wait for their turn. Its failure is said, and the event is not
//! given to it again: nobody knows how far it came.

use super::child;
use super::{Failed, Output, Taken, Work};
use std::time::Duration;

/// Started at once at most.
pub(super) const AT_ONCE: usize = 4;
/// What one may take.
const LASTS_MAX: Duration = Duration::from_secs(10);

/// Its words.
pub(super) struct Hook(pub(super) Vec<String>);

impl Output for Hook {
    fn take(&mut self, work: &Work) -> Result<Taken, Failed> {
        let (Work::Event(message), Some((program, arguments))) = (work, self.0.split_first())
        else {
            return Ok(Taken::Sent);
        };
        let input = format!("{}\n", message.line).into_bytes();
        child::run(program, arguments, input, LASTS_MAX).map_err(Failed::Never)?;
        Ok(Taken::Sent)
    }
}

/// Runs it once with a line, and waits for it; nothing if there are no words.
pub(crate) fn run(words: &[String], line: String) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    child::run(program, arguments, line.into_bytes(), LASTS_MAX)
        .map_err(|why| format!("the hook {why}"))
}
