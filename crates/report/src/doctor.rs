//! `doctor`: what this kernel and these privileges let holdup see, what is blind, how to change it.
//!
//! The one text that is written from facts, not from a report: there is no look behind it. It must
//! not try interfaces itself (the probe did, and recorded the errors it met), so that `--from` can
//! say the same of the host where a recording was made.

use crate::failure::Failure;
use crate::flags::groups::{AnswerFlags, FromOnlyFlag, PrintFlags};
use crate::main_loop;
use crate::output::Output;
use crate::surface::{Surface, Typed};
use crate::text::escape;
use crate::text::page::{Page, Tone};
use clap::Args;
use holdup_probe::Source;
use holdup_reason::facts::{Blind, Body, Fact, Host};
use holdup_reason::model::figures;
use serde::Serialize;
use std::path::Path;

/// Of which host, and how to say it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holdup doctor\n  holdup doctor --check   exits with 1 if something cannot be seen"
)]
pub(crate) struct Flags {
    #[command(flatten)]
    from: FromOnlyFlag,
    #[command(flatten)]
    print: PrintFlags,
    /// Exit with 1 if something cannot be seen
    #[arg(long)]
    check: bool,
}

impl Surface for Flags {
    fn answer(&mut self) -> AnswerFlags {
        let print = std::mem::take(&mut self.print);
        AnswerFlags { print, check: self.check, ..AnswerFlags::default() }
    }

    fn run(self: Box<Self>, Typed { answer, from }: Typed) -> Result<u8, Failure> {
        let file = self.from.from.or(from);
        let out = Output::open(&answer, false, file.as_deref())?;
        let sight = Sight::of(file.as_deref())?;
        out.deliver(&sight, |page| sight.render(page))?;
        Ok(u8::from(answer.check && !sight.is_whole()))
    }
}

/// What can be seen, and what cannot.
#[derive(Debug, Serialize)]
struct Sight {
    /// The machine.
    host: Option<Host>,
    /// Each interface, whether it is there, and what it serves for; empty for a recording.
    offers: Vec<Offer>,
    /// What cannot be seen.
    blind: Vec<Blind>,
}

#[derive(Debug, Serialize)]
struct Offer {
    what: String,
    seen: bool,
    by: String,
}

impl Sight {
    /// Of this host, or of the one that a recording was made on.
    fn of(recording: Option<&Path>) -> Result<Self, Failure> {
        let (facts, offers) = match recording {
            Some(file) => {
                let (mut reader, mut facts) = (main_loop::open(file)?, Vec::new());
                while reader.drain(&mut facts)? {
                    facts.retain(|fact| matches!(fact.body, Body::Host(_) | Body::Blind(_)));
                }
                (facts, Vec::new())
            }
            None => (holdup_probe::doctor(), holdup_probe::offers()),
        };
        let offers = offers.into_iter().map(|(what, seen, by)| Offer { what, seen, by }).collect();
        Ok(Self { offers, ..Self::from_facts(facts) })
    }

    fn from_facts(facts: Vec<Fact>) -> Self {
        let mut sight = Self { host: None, offers: Vec::new(), blind: Vec::new() };
        for fact in facts {
            match fact.body {
                Body::Host(host) => sight.host = Some(host),
                Body::Blind(blind) => sight.blind.push(blind),
                _ => {}
            }
        }
        sight
    }

    /// Nothing is hidden.
    fn is_whole(&self) -> bool {
        self.blind.is_empty()
    }

    /// For people.
    fn render(&self, page: &mut Page) {
        let whom = self.host.as_ref().map_or("this host", |host| host.hostname.as_str());
        let whom = escape::name(whom, 40);
        match self.blind.len() {
            0 => page.verdict(&format!("holdup sees all it can use on {whom}."), Tone::Good),
            1 => {
                page.verdict(&format!("One thing is hidden from holdup on {whom}."), Tone::Warning)
            }
            n => page
                .verdict(&format!("{n} things are hidden from holdup on {whom}."), Tone::Warning),
        }
        if let Some(host) = &self.host {
            page.paragraph(&describe(host));
        }
        for blind in &self.blind {
            page.gap();
            let prose = |text: &str| escape::prose(text, 400);
            page.labelled("hidden", &prose(&format!("{}: {}", blind.what, blind.why)));
            if !blind.therefore.is_empty() {
                page.labelled("so", &prose(&blind.therefore));
            }
            if !blind.remedy.is_empty() {
                page.labelled("do", &prose(&blind.remedy));
            }
        }
        if !self.offers.is_empty() {
            page.gap();
            page.verdict("What it looks at", Tone::Heading);
            for offer in &self.offers {
                let mark = if offer.seen { "yes" } else { "no" };
                let (what, by) = (escape::prose(&offer.what, 160), escape::prose(&offer.by, 160));
                page.labelled(mark, &format!("{what} ({by})"));
            }
        }
    }
}

fn describe(host: &Host) -> String {
    let cgroups = match (host.cgroup_v1, host.cgroup_v2) {
        (true, true) => "cgroup v1 and v2",
        (true, false) => "cgroup v1",
        (false, true) => "cgroup v2",
        (false, false) => "no cgroups",
    };
    let events = match host.kernel_events {
        true => "kernel events (BPF)",
        false => "no kernel events, /proc only",
    };
    format!(
        "Linux {} on {}, {} CPUs, {} of memory, {cgroups}; {events}.",
        escape::name(&host.kernel, 40),
        escape::name(&host.machine, 20),
        host.cpus,
        figures::bytes(host.memory_bytes as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_comes_with_the_way_out() {
        let blind = Blind {
            what: "bpf".into(),
            why: "operation not permitted\x1b[2J".into(),
            remedy: "run as root".into(),
            therefore: "single waits are not reported, only sums".into(),
            ..Blind::default()
        };
        let host = Host { hostname: "web".into(), kernel: "6.1.0".into(), ..Host::default() };
        let facts = [Body::Host(host), Body::Blind(blind)];
        let sight = Sight::from_facts(facts.map(|body| Fact { at_ns: 0, body }).into());
        let mut page = Page::new(80, false);
        sight.render(&mut page);
        let text = page.finish();
        assert!(text.starts_with("One thing is hidden from holdup on web.\n"), "{text}");
        assert!(text.contains(r"bpf: operation not permitted\x1b[2J"), "{text}");
        assert!(text.contains("  do      run as root\n"), "{text}");
        assert!(!sight.is_whole());
    }
}
