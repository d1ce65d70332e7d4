//! A command's path while the graph adds it up: each piece with the chain that leads to it, summed by chain.
//!
//! The ends know sums; a stack needs who waited behind whom. Pieces are summed by their typed chain, never one by one: a path has up
//! to millions. Of all but commands it sees nothing, as their stacks are made of the threads' own times. Must not: name anything.

use crate::answer::accounting::{self, PartKey};
use crate::graph::chains::ChainLink;
use crate::graph::end::{EndKind, Lost};
use crate::graph::ends::command_root;
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::Timelines;
use std::collections::HashMap;
use std::sync::Arc;

/// One hop: process, thread, and what it does.
pub type Hop = (u32, u32, WaitClass, Object);

/// Chains of the path, each with the part of the accounting that it is of, and where its last wait began.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chain {
    /// From the command to where it ends.
    pub hops: Vec<Hop>,
    /// The part.
    pub part: PartKey,
    /// What kind of end it is.
    pub kind: EndKind,
    /// Kernel stack of the last wait; 0 if it runs, or none was read.
    pub stack: u32,
}

/// What was seen of a path.
pub struct OfPath<'a> {
    model: &'a Model,
    timelines: &'a Timelines,
    is_command: bool,
    /// Nanoseconds by chain.
    pub chains: HashMap<Chain, f64>,
}

impl<'a> OfPath<'a> {
    /// Nothing yet.
    pub fn new(model: &'a Model, timelines: &'a Timelines) -> Self {
        let is_command = command_root(model).is_some();
        Self { model, timelines, is_command, chains: HashMap::new() }
    }

    /// Adds a piece.
    pub fn add(&mut self, lost: &Lost<'_>) {
        if !self.is_command || !lost.counted {
            return;
        }
        let links = &lost.leaf.links;
        let hop =
            |link: &Arc<ChainLink>| (link.who.pid, link.who.tid, link.class, link.object.clone());
        let root = lost.leaf.root();
        let waits = self.timelines.of(self.model.threads.key(&root.who));
        let at = waits.partition_point(|wait| wait.begin_ns < root.since_ns);
        let wait = waits.get(at).filter(|wait| wait.begin_ns == root.since_ns);
        let stack = wait.filter(|wait| wait.class == root.class).map_or(0, |wait| wait.place.stack);
        let part = accounting::path_part(self.model, lost.kind, lost.class, lost.object);
        let chain = Chain { hops: links.iter().map(hop).collect(), part, kind: lost.kind, stack };
        *self.chains.entry(chain).or_default() += lost.part * lost.leaf.ns() as f64;
    }
}
