//! A wait for the next question of somebody who connected: nobody here has to act.
//!
//! Not if the asker himself is at that connection: then it has his question already. Must not: stand above what its process was seen to
//! have asked.

use crate::graph::next::Next;
use crate::graph::question::{is_asked_by, is_for_a_question};
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};

/// The way.
pub(super) static WAY: Way = Way {
    name: "next question",
    because: "it waits for whoever asks next",
    of: FOR_EVENTS,
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let is_idle = is_for_a_question(at.index, at.wait) && !is_asked_by(at.index, at.wait, at.asker);
    is_idle.then_some(Next::Nobody)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{descriptor, endpoint};

    #[test]
    fn who_accepted_a_connection_waits_for_its_next_question() {
        let accepted = inet("tcp", 5, "127.0.0.1:80", "127.0.0.1:5000", 1);
        let listens = inet("tcp", 6, "127.0.0.1:80", "0.0.0.0:0", 10);
        let polls = Place { polled: vec![3], ..place("poll", NO_ARGS, None) };
        let facts = |more: Vec<Fact>| {
            let own =
                vec![endpoint(10, "app", accepted.clone()), stands(of_ten(10), polls.clone())];
            led([own, more].concat()).0
        };
        assert_eq!(facts(vec![descriptor(10, 4, "app", listens)]), "next question");
        assert_ne!(
            facts(Vec::new()),
            "next question",
            "nobody listens: it has made the connection"
        );
    }
}
