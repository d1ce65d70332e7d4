//! The words for a crashed process whose core a program is to take (kernel.core_pattern with `|`) and does not: of process.pipe_peer.
//!
//! A process that dumps its core stands until all of it is taken, with its memory, its ports and its locks. Must not: decide who takes it
//! (graph/ways/held/core_dump.rs).

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::model::object::{CORE_DUMP, Object};
use crate::rules::action::{Action, Question};
use crate::rules::wording::Remedy;
use crate::waits::WaitClass;

/// Whether an end is of a core that is not taken.
pub(super) fn is_one(end: &End) -> bool {
    end.object == Object::Service(CORE_DUMP)
}

/// The title, of a waiter and whoever takes it, by name with what it does.
pub(super) fn title(waiter: &str, taker: Option<&str>) -> String {
    let begin = format!("{waiter} has crashed and cannot end before its core dump is taken");
    match taker {
        Some(taker) => format!("{begin}: {taker}"),
        None => format!("{begin}, and who takes it was not seen"),
    }
}

/// The ways out.
pub(super) fn ways_out(end: &End, taker: Option<(&ThreadRef, &str)>) -> Vec<Remedy> {
    let pattern = || {
        Remedy::to("see which program the kernel hands core dumps to")
            .command("sysctl kernel.core_pattern")
            .acting(Action::look(Question::State))
    };
    let Some((taker, name)) = taker else { return vec![pattern()] };
    if end.holder_mostly() == Some(WaitClass::Stopped) {
        return vec![Remedy::to("continue the program that takes it").go_on(taker)];
    }
    vec![
        Remedy::to(format!("see why {name} does not read its standard input")).kernel_stack(taker),
        Remedy::to(format!(
            "do without the core: end {name}, then the crashed process ends as well"
        ))
        .end(taker),
    ]
}
