//! Where following a wait goes on: who, or what, is next, and who asked.
//!
//! Must not: choose (responsible.rs, event_loops.rs), or follow (chains.rs).

use crate::facts::*;
use crate::waits::goroutines::Stands;
use crate::waits::timeline::WaitSpan;
use std::net::SocketAddr;

/// Who, or what, is to be looked at next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A thread, for the same interval.
    Thread(ThreadRef),
    /// A thread that answered at a time, in a later wait of an event loop.
    Later(ThreadRef, Ns),
    /// A thread whose own question to an event loop, at a time, let that answer somebody else: it brought what he waited for.
    Brought(ThreadRef, Ns),
    /// A thread that owes an answer on a connection, with the inode of the socket here.
    Answer(u64, ThreadRef),
    /// It waits for a name server: index of the question in the model.
    Question(usize),
    /// It waits for the name server at an address: its question to it is known from elsewhere.
    NameServer(SocketAddr),
    /// A peer that was asked on a connection and is not on this host: inode of the socket here.
    Peer(u64),
    /// What it has written is under way to whoever waits for it: inode of the socket that sends it.
    Room(u64),
    /// Nobody: it waits until a time of its own, whoever ends its waits in between.
    OwnClock,
    /// A goroutine of its own stands: what for.
    Goroutine(Stands),
    /// Nobody's thread: something inside of the process itself, by its own word.
    Inside,
    /// Nobody that could be seen.
    Nobody,
}

impl From<Option<ThreadRef>> for Next {
    fn from(thread: Option<ThreadRef>) -> Self {
        thread.map_or(Self::Nobody, Self::Thread)
    }
}

/// Who waits for a thread.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'w> {
    /// Its thread.
    pub who: &'w ThreadRef,
    /// What ends with the answer.
    pub until: Until<'w>,
}

/// When an answer was there.
#[derive(Debug, Clone, Copy)]
pub enum Until<'w> {
    /// At the end of this wait, or of a later one on the same thing.
    Wait(&'w WaitSpan),
    /// Then.
    At(Ns),
}
