//! What one name server was asked and answered, and what counts as late.
//!
//! Shared by the rule and by its ways out, which compare servers. Must not: blame a server.

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::dns_answers::Question;
use crate::model::object::Object;
use crate::threshold::Threshold;
use std::net::SocketAddr;

/// A question that is younger when the look ends may still be answered.
pub(super) static YOUNG: Threshold = Threshold::new(
    1.0,
    "s",
    "age of a question without an answer when the look ends, and of a wait whose question was not seen: younger, it may still \
     be answered",
    "resolv.conf(5): the shortest timeout that it can express",
);
/// A mean answer later than this is late.
pub(super) static LATE: Threshold = Threshold::new(
    0.05,
    "s",
    "mean time to an answer: caches answer within a millisecond, the far side of the world in 300 ms, but a resolver in \
     between asks it once and remembers",
    "chosen: a round trip across a continent",
);

/// A single answer later than this is late, if somebody lost a moment to it.
pub(super) static LATE_ONCE: Threshold = Threshold::new(
    0.2,
    "s",
    "slowest answer of a server that is quick otherwise: somebody lost a moment to it",
    "chosen: as long as a moment that counts",
);

/// Response codes of servers that could not, or would not answer.
const SERVFAIL: u8 = 2;
const REFUSED: u8 = 5;

/// What one server was asked and answered.
#[derive(Default)]
pub(super) struct Answers<'a> {
    /// Questions that were answered, or could have been.
    pub asked: usize,
    /// Those without an answer.
    pub unanswered: Vec<Question<'a>>,
    /// Answers that are failures.
    pub failed: usize,
    /// Times to the answers.
    pub seconds: Vec<f64>,
}

impl<'a> Answers<'a> {
    /// Of a server.
    pub(super) fn of(measures: &'a Measures<'_>, server: Option<SocketAddr>) -> Self {
        let mut answers = Self::default();
        let questions = server.and_then(|server| measures.dns_answers.get(&server));
        for question in questions.into_iter().flatten() {
            match question.answer {
                Some(answer) => {
                    answers.asked += 1;
                    answers.failed += usize::from(matches!(answer.rcode, SERVFAIL | REFUSED));
                    answers.seconds.push(answer.seconds);
                }
                None if question.age_seconds >= YOUNG.value => {
                    answers.asked += 1;
                    answers.unanswered.push(*question);
                }
                None => {}
            }
        }
        answers
    }

    /// Time to the slowest answer.
    pub(super) fn slowest(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }

    /// Mean time to an answer.
    pub(super) fn mean(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len().max(1) as f64
    }
}

/// The name that was asked for, as far as the end knows.
pub(super) fn asked_name(end: &End) -> &str {
    match &end.object {
        Object::DnsServer(_, name) => name,
        _ => "",
    }
}
