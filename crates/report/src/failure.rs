//! Why holdup could not answer: what, where, why, and what to do; and the exit status for it.
//!
//! One type for every way to fail, so that main has one place that prints and exits. It must not
//! hold findings: a host in trouble is an answer, not a failure.

use crate::text::escape;
use holdup_probe::SourceError;
use std::io;
use std::path::Path;

/// Wrong usage.
pub(crate) const USAGE: u8 = 2;
/// Could not look.
pub(crate) const COULD_NOT_LOOK: u8 = 3;

/// The kernel met a fault in a program that holdup had loaded into it.
pub(crate) const OWN_FAULT: u8 = 4;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit status.
    pub status: u8,
    /// What failed, where and why: one sentence without a full stop.
    what: String,
    /// What to do, one sentence; empty if nothing can be advised.
    advice: String,
    /// What the system said, if it said something.
    cause: Option<io::Error>,
}

impl Failure {
    /// The command line makes no sense.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self {
            status: USAGE,
            what: what.into(),
            advice: "`holdup --help` shows the flags.".into(),
            cause: None,
        }
    }

    /// The look, or the answer, failed.
    pub(crate) fn look(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: COULD_NOT_LOOK, what: what.into(), advice: advice.into(), cause: None }
    }

    /// A kernel program of holdup's own harmed the host: whoever looks on and on must end.
    pub(crate) fn own_fault(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: OWN_FAULT, ..Self::look(what, advice) }
    }

    /// A file of the user's could not be read or written.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        let what = format!("cannot {doing} {}: {}", path.display(), reason(error));
        Self::look(what, advice_for(error))
    }

    /// The same with another status, for commands that could not be started.
    pub(crate) fn with_status(mut self, status: u8) -> Self {
        self.status = status;
        self
    }

    /// What the system said, if it said something.
    pub(crate) fn cause(&self) -> Option<&io::Error> {
        self.cause.as_ref()
    }

    /// The same with other advice.
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// For the terminal: names escaped, advice on its own line.
    pub(crate) fn message(&self) -> String {
        let what = escape::line(&self.what);
        match self.advice.is_empty() {
            true => format!("holdup: {what}\n"),
            false => format!("holdup: {what}\n  {}\n", escape::line(&self.advice)),
        }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let advice = match &error {
            SourceError::Recording { .. } => {
                "A recording is made with `holdup record FILE`.".to_owned()
            }
            SourceError::CutShort { .. } => {
                "Whoever recorded was killed, or the copy is not whole: copy it again, or \
                                             record again with `holdup record FILE`."
                    .to_owned()
            }
            SourceError::System { error, .. } => advice_for(error),
            SourceError::Bpf { .. } => "`holdup doctor` says what can be seen here.".to_owned(),
        };
        let what = match &error {
            SourceError::Recording { path, what } => format!("cannot answer from {path}: {what}"),
            SourceError::CutShort { path } => {
                format!("cannot answer from {path}: it is cut off before its first facts")
            }
            SourceError::System { doing, error } => format!("cannot {doing}: {}", reason(error)),
            SourceError::Bpf { doing, error } => format!("cannot {doing}: {error}"),
        };
        let cause = match error {
            SourceError::System { error, .. } => Some(error),
            _ => None,
        };
        Self { cause, ..Self::look(what, advice) }
    }
}

/// The system's words without Rust's ` (os error 2)`.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let mut words = text[..end].chars();
    words.next().map_or_else(String::new, |first| first.to_lowercase().chain(words).collect())
}

fn advice_for(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "Run it as root, or as somebody who may.",
        io::ErrorKind::NotFound => "Look at the spelling, and whether it still exists.",
        io::ErrorKind::IsADirectory => "Name a file in it.",
        io::ErrorKind::StorageFull => "Make room, or write elsewhere.",
        _ => "",
    }
    .into()
}
