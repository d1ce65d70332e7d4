//! Which threads the facts speak of: their names, and the keys that tell them apart.
//!
//! Every question of a map by thread comes through here, and so do the names that facts mention. Must not: decide what makes
//! two mentions one thread (thread_key.rs).

use super::Model;
use super::thread_key::ThreadKey;
use crate::facts::{Ns, ThreadRef};

impl Model {
    /// Remembers a name; an empty or older one never replaces a known one.
    pub(super) fn name(&mut self, thread: &ThreadRef) {
        let Some(known) = self.names.get_mut(&thread.tid) else {
            self.names.insert(thread.tid, thread.clone());
            return;
        };
        // Nearly every mention says what is known.
        if known == thread {
            return;
        }
        let same = self.lives.learn(known, thread, self.begin_ns);
        if thread.comm.is_empty() {
            return;
        }
        if thread.start_ns >= known.start_ns {
            known.clone_from(thread);
        } else if same && known.comm.is_empty() {
            known.comm.clone_from(&thread.comm);
        }
    }

    /// A thread of which no name is asked, but which may be another life of its id.
    pub(super) fn mention(&mut self, thread: &ThreadRef) {
        if let Some(known) = self.names.get(&thread.tid) {
            self.lives.learn(known, thread, self.begin_ns);
        }
    }

    /// Which thread it is, said at a moment.
    pub fn key_at(&self, thread: &ThreadRef, at_ns: Ns) -> ThreadKey {
        self.key_of(thread.tid, thread.start_ns, at_ns)
    }

    /// Which thread it is; of an unknown start the last that had the id.
    pub fn key(&self, thread: &ThreadRef) -> ThreadKey {
        self.key_of(thread.tid, thread.start_ns, Ns::MAX)
    }

    /// The same from the parts of its name.
    pub fn key_of(&self, tid: u32, start_ns: Ns, at_ns: Ns) -> ThreadKey {
        self.lives.key(tid, start_ns, at_ns, self.begin_ns)
    }

    /// Whether two names are of one thread.
    pub fn is_same(&self, one: &ThreadRef, other: &ThreadRef) -> bool {
        one.tid == other.tid && self.key(one) == self.key(other)
    }

    /// Gives a thread of unknown start that of the life at a moment, for whoever asks later without the moment.
    pub fn settle(&self, thread: &mut ThreadRef, at_ns: Ns) {
        if thread.start_ns == 0
            && let Some(life) = self.lives.at(thread.tid, at_ns)
        {
            thread.start_ns = life.start_ns;
        }
    }

    /// The best known name of a thread.
    pub fn present(&self, thread: &ThreadRef) -> ThreadRef {
        match self.lives.all(thread.tid) {
            Some(_) => self.lives.named(self.key(thread)).unwrap_or(thread).clone(),
            None => self.thread_ref(thread.tid),
        }
    }

    /// Who had a thread id at a moment, if it was ever named.
    pub fn named_at(&self, tid: u32, at_ns: Ns) -> Option<&ThreadRef> {
        self.lives.at(tid, at_ns).or_else(|| self.names.get(&tid))
    }

    /// The best known name of who had a thread id at a moment.
    pub fn thread_ref_at(&self, tid: u32, at_ns: Ns) -> ThreadRef {
        self.named_at(tid, at_ns).cloned().unwrap_or_else(|| self.thread_ref(tid))
    }

    /// Every thread that was named, by id; of one id the last first.
    pub fn every_thread(&self) -> impl Iterator<Item = &ThreadRef> {
        self.names.values().flat_map(|name| {
            let lives = self.lives.all(name.tid);
            lives.unwrap_or(std::slice::from_ref(name)).iter().rev()
        })
    }
}
