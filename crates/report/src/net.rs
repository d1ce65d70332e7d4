//! `holdup net`: the network as tables, of this host or of a recording: what moved, what was lost, and who waits for it.
//!
//! The look is the one of a bare `holdup`: nothing is read that it does not read, so a recording of any look answers as well. Must not:
//! make rows (`holdup_reason`'s answer/network/) or word them (text/network.rs). Rejected: looking at the network alone, which is cheaper,
//! and could not say who waits.
//!
//! Edit together: docs/net.md.

use crate::failure::Failure;
use crate::flags::groups::{AnswerFlags, FromFlag, LookFlags, PrintFlags};
use crate::job::Aim;
use crate::main_loop;
use crate::output::Output;
use crate::surface::{Surface, Typed};
use crate::text;
use crate::watch::span;
use clap::Args;
use std::mem::ManuallyDrop;

/// Of when, and how to say it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holdup net                     of this host, in a look of 5 s\n  holdup net --for 30s -v        with every row\n  holdup net --from slow.hup     of a recording, without root\n  holdup net --json | jq '.drops[] | {reason, interface, packets}'\n\nThe JSON is that of docs/net.md."
)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub look: LookFlags,
    #[command(flatten)]
    pub from: FromFlag,
    #[command(flatten)]
    pub print: PrintFlags,
    /// Show every row
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
}

impl Surface for Flags {
    fn answer(&mut self) -> AnswerFlags {
        let print = std::mem::take(&mut self.print);
        AnswerFlags { verbose: self.verbose, ..AnswerFlags::from(print) }
    }

    fn run(self: Box<Self>, Typed { answer, .. }: Typed) -> Result<u8, Failure> {
        let file = self.from.from.as_deref();
        if file.is_some_and(|file| span::times(file).is_some()) {
            return Err(Failure::usage(
                "the tables are of one time, and not of a span of the ring",
            ));
        }
        let out = Output::open(&answer, false, file)?;
        let facts = match file {
            Some(file) => main_loop::facts_of(file, &Aim::Host)?,
            None => main_loop::facts_of_host(self.look.seconds())?,
        };
        // Not freed piece by piece: the process ends once it has answered.
        let network = holdup_reason::network_of_model(&mut ManuallyDrop::new(facts));
        out.deliver(&network, |page| text::network::render(&network, answer.verbose, page))?;
        Ok(0)
    }
}
