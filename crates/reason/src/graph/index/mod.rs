//! Who was connected with whom: what the ways from a waiter to whoever must act are found in. Read-only once it is built.
//!
//! One notion a file: the waits of threads (waits.rs), who began whom (families.rs), the ends of connections (connections.rs) and the waits on them (waited.rs),
//! listeners that were only inherited (inherited.rs), who serves a device (devices.rs), questions to name servers (questions.rs), who does tasks of pools (tasks.rs), whose waits a process ended (woken.rs), who has had the last word (said.rs), who owes an answer (graph/debts.rs) and whose is under way (graph/under_way.rs). Each has its
//! own type, whose methods stand in that file alone. Must not: choose between candidates, or follow anything (ways/).

pub mod connections;
pub mod devices;
pub mod families;
mod inherited;
pub mod questions;
pub mod said;
pub mod tasks;
pub mod waited;
pub mod waits;
pub mod woken;

use super::debts::Debts;
use super::under_way::UnderWay;
use crate::facts::{InetRef, Ns, ThreadRef};
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::{Timelines, WaitSpan};
use connections::Connections;
use devices::Devices;
use families::Families;
use questions::Questions;
use said::Said;
use tasks::Tasks;
use waits::Waits;
use woken::Woken;

/// The index of a look.
pub struct Index<'a> {
    /// What was observed.
    pub(super) model: &'a Model,
    /// What each thread did when.
    pub(super) timelines: &'a Timelines,
    /// Waits by thread.
    pub(super) waits: Waits<'a>,
    /// Who began whom.
    pub(super) families: Families<'a>,
    /// Who is at the other end of what.
    pub(super) connections: Connections<'a>,
    /// Who serves a device.
    pub(super) devices: Devices<'a>,
    /// Questions to name servers.
    pub(super) questions: Questions<'a>,
    /// Who does what kind of task.
    pub(super) tasks: Tasks,
    /// Whose waits each process ended.
    pub(super) woken: Woken<'a>,
    /// Who owes whom an answer.
    pub(super) debts: Debts,
    /// Who has had the last word where.
    pub(super) said: Said,
    /// What was written and is under way.
    pub(super) under_way: UnderWay,
}

impl<'a> Index<'a> {
    /// Of a look.
    pub fn new(model: &'a Model, timelines: &'a Timelines) -> Self {
        let waits = Waits::new(model, timelines);
        let families = Families::new(model, timelines);
        let connections = Connections::new(model, timelines, &families);
        let accepted = |socket: &InetRef| {
            (!connections::is_to_itself(&connections, socket))
                .then(|| connections.is_accepted(socket))
        };
        let mut debts = Debts::of(model, accepted, |socket| connections.far_turn(socket));
        debts.add_owed_before(model, accepted, |pid| stood_until(model, &waits, &families, pid));
        debts.add_awaited_before(model, accepted);
        debts.add_greetings(model, timelines.waits().filter_map(reads_alone), |ino| {
            let far = model.called.socket(ino).map(|socket| connections.far_ends(socket));
            let far = far.into_iter().flatten();
            far.map(|end| (end.process.pid, end.object_ino())).collect()
        });
        let (devices, questions) = (Devices::new(model), Questions::new(model));
        let (woken, said) = (Woken::new(timelines), Said::new(model, &connections));
        let under_way = UnderWay::of(model);
        Self {
            model,
            timelines,
            waits,
            families,
            connections,
            devices,
            questions,
            tasks: Tasks::default(),
            woken,
            debts,
            said,
            under_way,
        }
    }
}

/// The process and the connection of a wait that stands, for data on that connection alone.
fn reads_alone(wait: &WaitSpan) -> Option<(u32, u64)> {
    let Object::Inet(ino) = wait.object else { return None };
    let is_alone = !wait.place.is_for_several() || wait.place.polled.len() == 1;
    let reads = wait.standing && !wait.kernel && wait.class == WaitClass::SocketRead;
    (reads && is_alone).then_some((wait.thread.pid, ino))
}

/// Until when no thread of a process ran since the look began; the begin of the look, if one was not seen to wait.
fn stood_until(model: &Model, waits: &Waits<'_>, families: &Families<'_>, pid: u32) -> Ns {
    let begin_ns = model.look.begin_ns;
    let waits_until = |thread: &&&ThreadRef| {
        let before = waits.of(thread).iter().take_while(|wait| wait.begin_ns <= begin_ns);
        before.map(|wait| wait.end_ns).max().unwrap_or(begin_ns).max(begin_ns)
    };
    let there = families.named_threads(pid).iter().filter(|thread| thread.start_ns <= begin_ns);
    there.map(|thread| waits_until(&thread)).min().unwrap_or(begin_ns)
}
