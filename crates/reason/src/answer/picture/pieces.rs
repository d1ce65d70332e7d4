//! Pieces of a line of time, as many as can be seen: what is too short for a pixel is drawn together with its neighbours.
//!
//! A piece that lasts long enough stands alone; shorter ones that follow each other become one, which says how many they are and
//! has the state of most of that time and the words of the longest in that state. Gaps stay gaps. Labels stand once in a table,
//! which is bounded. Must not: know what a piece is about.

use super::bounds::{WORDS, clipped};
use crate::facts::Ns;
use serde::Serialize;
use std::collections::HashMap;

/// What a thread does in a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "u8")]
pub enum State {
    /// On a CPU.
    Running,
    /// Ready for one.
    Runnable,
    /// Blocked.
    Blocked,
    /// Not seen one by one: it ran, or waited briefly.
    Unseen,
}

impl From<State> for u8 {
    fn from(state: State) -> Self {
        match state {
            State::Running => 0,
            State::Runnable => 1,
            State::Blocked => 2,
            State::Unseen => 3,
        }
    }
}

/// One piece as it stands in the page: begin and length in microseconds from the begin, state, index of its words, how many
/// pieces it is, who woke it at its end (the index of a line, -1 if that was not seen, or -2 minus an index of words), and whose it
/// is (an index of words, -1 if the line's own), and why it is waited for (an index of words, -1 if the lane says that).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Piece(pub u64, pub u64, pub State, pub usize, pub u32, pub i32, pub i32, pub i32);

/// A piece before it is thinned.
#[derive(Debug, Clone)]
pub(super) struct Raw<T> {
    /// From.
    pub begin_ns: Ns,
    /// To.
    pub end_ns: Ns,
    /// What.
    pub state: State,
    /// What its words are made of.
    pub about: T,
}

/// The longest of the short pieces of one state.
struct Longest<T> {
    ns: Ns,
    state: State,
    about: T,
}

/// Short pieces that follow each other.
struct Short<T> {
    begin_ns: Ns,
    end_ns: Ns,
    count: u32,
    /// By state: how long together, and the longest of them.
    states: [(Ns, Option<Longest<T>>); 4],
}

impl<T> Short<T> {
    fn new(begin_ns: Ns) -> Self {
        Self {
            begin_ns,
            end_ns: begin_ns,
            count: 0,
            states: [(0, None), (0, None), (0, None), (0, None)],
        }
    }

    fn push(&mut self, piece: Raw<T>) {
        let ns = piece.end_ns - piece.begin_ns;
        self.end_ns = piece.end_ns;
        self.count += 1;
        let (sum, longest) = &mut self.states[usize::from(u8::from(piece.state))];
        *sum += ns;
        if longest.as_ref().is_none_or(|known| ns > known.ns) {
            *longest = Some(Longest { ns, state: piece.state, about: piece.about });
        }
    }

    /// As one piece, of the state in which most of the time went.
    fn piece(self) -> Option<(Raw<T>, u32)> {
        let most = self.states.into_iter().max_by_key(|(sum, longest)| (*sum, longest.is_some()));
        let Longest { state, about, .. } = most?.1?;
        let (begin_ns, end_ns) = (self.begin_ns, self.end_ns);
        Some((Raw { begin_ns, end_ns, state, about }, self.count))
    }
}

/// Gathers pieces in order of time.
pub(super) struct Thinner<T> {
    least_ns: Ns,
    all: Vec<(Raw<T>, u32)>,
    short: Option<Short<T>>,
}

impl<T> Thinner<T> {
    /// One that lets pieces of this length stand alone.
    pub(super) fn new(least_ns: Ns) -> Self {
        Self { least_ns: least_ns.max(1), all: Vec::new(), short: None }
    }

    /// The next piece.
    pub(super) fn push(&mut self, piece: Raw<T>) {
        /// Short pieces are gathered up to so many times what can be seen.
        const GATHERED: Ns = 4;
        if piece.end_ns - piece.begin_ns >= self.least_ns {
            self.flush();
            self.all.push((piece, 1));
            return;
        }
        let (least_ns, begin_ns) = (self.least_ns, piece.begin_ns);
        let goes_on = |short: &&Short<T>| {
            begin_ns < short.end_ns + least_ns
                && short.end_ns - short.begin_ns < GATHERED * least_ns
        };
        if self.short.as_ref().filter(goes_on).is_none() {
            self.flush();
        }
        self.short.get_or_insert_with(|| Short::new(begin_ns)).push(piece);
    }

    fn flush(&mut self) {
        self.all.extend(self.short.take().and_then(Short::piece));
    }

    /// All pieces; with each how many it was.
    pub(super) fn finish(mut self) -> Vec<(Raw<T>, u32)> {
        self.flush();
        self.all
    }
}

/// Labels, each once.
#[derive(Debug, Default)]
pub(super) struct Words {
    all: Vec<String>,
    index: HashMap<String, usize>,
    /// How many found no room.
    pub left_out: usize,
}

impl Words {
    /// The index of a label; `plain` is what is said once there is no room for another.
    pub(super) fn index(&mut self, label: String, plain: &str) -> usize {
        let label = clipped(&label);
        if let Some(known) = self.index.get(&label) {
            return *known;
        }
        let label = match self.all.len() < WORDS {
            true => label,
            false => {
                self.left_out += 1;
                plain.to_string()
            }
        };
        *self.index.entry(label).or_insert_with_key(|label| {
            self.all.push(label.clone());
            self.all.len() - 1
        })
    }

    /// All of them.
    pub(super) fn finish(self) -> Vec<String> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(begin_ns: Ns, end_ns: Ns) -> Raw<Ns> {
        Raw { begin_ns, end_ns, state: State::Blocked, about: end_ns - begin_ns }
    }

    fn thinned(pieces: impl IntoIterator<Item = Raw<Ns>>, least_ns: Ns) -> Vec<(Raw<Ns>, u32)> {
        let mut thinner = Thinner::new(least_ns);
        pieces.into_iter().for_each(|piece| thinner.push(piece));
        thinner.finish()
    }

    #[test]
    fn short_pieces_become_one_that_counts_them() {
        let pieces = [raw(0, 100), raw(100, 103), raw(103, 109), raw(109, 110), raw(110, 200)];
        let thin = thinned(pieces, 10);
        let said: Vec<_> =
            thin.iter().map(|(p, count)| (p.begin_ns, p.end_ns, p.about, *count)).collect();
        assert_eq!(said, [(0, 100, 100, 1), (100, 110, 6, 3), (110, 200, 90, 1)]);
    }

    #[test]
    fn gaps_stay_and_the_number_is_bounded() {
        let many = (0..100_000).map(|at| raw(at * 10, at * 10 + 5));
        let thin = thinned(many, 10_000);
        assert!((25..=60).contains(&thin.len()), "{}", thin.len());
        assert_eq!(thin.iter().map(|(_, count)| *count).sum::<u32>(), 100_000);
        let apart = thinned([raw(0, 5), raw(500, 505)], 10);
        assert_eq!(apart.len(), 2);
    }

    #[test]
    fn words_stand_once_and_are_bounded() {
        let mut words = Words::default();
        let first = words.index("sleeps".into(), "waits");
        for at in 0..2 * WORDS {
            words.index(format!("waits for the lock on /tmp/{at}"), "waits for a file lock");
        }
        assert_eq!(words.index("sleeps".into(), "waits"), first);
        assert_eq!(words.left_out, WORDS + 1);
        assert_eq!(words.finish().len(), WORDS + 1);
    }
}
