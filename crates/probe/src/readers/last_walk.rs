//! What was read at the moment in which a window ended: every thread once more, and what the programs had added up by then.
//!
//! All that takes time is read after it, and what came before it too: so the events of the last tick may repeat what the walk has
//! reported. Must not: read anything itself.

use holdup_reason::facts::*;
use holdup_stacks::{Left, Point};
use std::collections::{HashMap, HashSet};

/// The end of the window, and what the last walk found.
#[derive(Default)]
pub struct LastWalk {
    /// When the window ended.
    pub end_ns: Ns,
    /// Somebody ended it before its time.
    pub interrupted: bool,
    /// Sums of all threads.
    pub times: Vec<Fact>,
    /// Standing waits.
    pub waits: Vec<Fact>,
    /// Where blocked threads left user space, if there was time to ask.
    pub left: Option<Vec<Left>>,
    /// The latest stretches of traced threads on a CPU.
    pub stretches: Vec<(Ns, Ran)>,
    /// Whose time was reported, by thread id and begin, and until when.
    pub reported: HashMap<(u32, Ns), Ns>,
    /// CPU time that the walk took.
    pub walk_ns: Ns,
    /// What the kernel programs have added up.
    pub sums: Vec<Body>,
    /// Where the CPU clock hit code, and of which file.
    pub points: Vec<(Point, String)>,
    /// What they had no room for.
    pub lost: Vec<Lost>,
    /// All open descriptors, and when they were read.
    pub endpoints: Option<(Ns, Vec<Endpoint>)>,
}

impl LastWalk {
    /// Events that came since some time before the walk, and the stretches that none of them reported. Of a thread that
    /// ended between the walk and the end of all events, the time that was reported by the walk is the window's.
    pub fn without_repeats(&mut self, mut events: Vec<Fact>) -> Vec<Fact> {
        events.retain(|fact| match &fact.body {
            Body::ThreadTime(time) => {
                let reported = self.reported.get(&(time.thread.tid, time.thread.start_ns));
                reported.is_none_or(|until_ns| time.until_ns <= *until_ns)
            }
            _ => true,
        });
        let known: HashSet<(u32, Ns)> = events
            .iter()
            .filter_map(|fact| match &fact.body {
                Body::Ran(ran) => Some((ran.thread.tid, ran.begin_ns)),
                _ => None,
            })
            .collect();
        self.stretches.retain(|(_, ran)| !known.contains(&(ran.thread.tid, ran.begin_ns)));
        let missing = self.stretches.drain(..);
        events.extend(missing.map(|(at_ns, ran)| Fact { at_ns, body: Body::Ran(ran) }));
        events
    }
}
