//! How often something was refused, from when to when, and by what limit: the figures behind a wait between tries.
//!
//! Must not: say what a refusal is for (waits/retries.rs), or put it into words (rules/refusal_words.rs).

use crate::facts::{Denied, Ns};
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::retries::refused;

/// Refusals of one thing.
#[derive(Debug, Clone, Copy)]
pub struct Tries<'m> {
    /// How many, those included that were only counted.
    pub times: u64,
    /// How many of them were reported.
    pub reported: usize,
    /// The first.
    pub first_ns: Ns,
    /// The last.
    pub last_ns: Ns,
    /// The last itself.
    pub last: &'m Denied,
}

impl<'m> Tries<'m> {
    /// Of what a wait of this class is for: those of one process, if it is named and has made any of them, or else whoever made them.
    pub fn of(
        model: &'m Model,
        class: WaitClass,
        object: &Object,
        by: Option<u32>,
    ) -> Option<Self> {
        let is_it = |denied: &Denied| {
            refused(model, denied).is_some_and(|what| what.0 == class && what.1 == *object)
        };
        let all = || model.threads.denied.iter().filter(|(_, denied)| is_it(denied));
        let is_by = |denied: &Denied| by == Some(denied.thread.pid);
        let has_any = all().any(|(_, denied)| is_by(denied));
        let mut all = all().filter(|(_, denied)| !has_any || is_by(denied));
        let (first_ns, first) = all.next()?;
        let mut tries = Self {
            times: first.unreported.saturating_add(1),
            reported: 1,
            first_ns: *first_ns,
            last_ns: *first_ns,
            last: first,
        };
        for (at_ns, denied) in all {
            tries.times = tries.times.saturating_add(denied.unreported).saturating_add(1);
            tries.reported += 1;
            tries.first_ns = tries.first_ns.min(*at_ns);
            if *at_ns >= tries.last_ns {
                (tries.last_ns, tries.last) = (*at_ns, denied);
            }
        }
        Some(tries)
    }

    /// From the first to the last, seconds.
    pub fn seconds(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact};
    use crate::rules::scenes::{host, thread};
    use crate::waits::timeline::Observed;

    #[test]
    fn of_a_process_its_own_tries_are_counted_and_no_others_for_the_same() {
        let address: std::net::SocketAddr = "127.0.0.1:80".parse().unwrap();
        let refusal = |pid: u32, at_ns| {
            let denied = Denied {
                thread: thread(pid, "server"),
                syscall: "bind".into(),
                errno: 98,
                address: Some(address),
                ..Denied::default()
            };
            Fact { at_ns, body: Body::Denied(denied) }
        };
        let facts = vec![refusal(10, 1_000), refusal(10, 2_000), refusal(20, 3_000)];
        let Observed { model, .. } = Observed::new([host(), facts].concat());
        let of = |pid| {
            let (class, object) = (WaitClass::TakenAddress, Object::Address(address));
            let tries = Tries::of(&model, class, &object, pid).unwrap();
            (tries.times, tries.last.thread.pid)
        };
        assert_eq!(of(Some(10)), (2, 10));
        assert_eq!(of(Some(30)), (3, 20), "its children tried");
        assert_eq!(of(None), (3, 20));
    }
}
