//! All facts of a source, indexed as they come, and copied to a recording on the side.
//!
//! Must not: explain them, or stop looking because a disk is full.

use holdup_probe::recording::Writer;
use holdup_probe::{Source, SourceError};
use holdup_reason::facts::{Body, Fact, Lost, Ns};
use holdup_reason::model::Model;
use std::io::Write;

/// Facts held at once; a look of the default rate and the longest window stays far below. Beyond
/// it single events are dropped, and counted, while sums and readings go on.
const FACTS_MAX: usize = 4_000_000;

/// Room for the facts of a tick that is held from one to the next; the first and the last have many more.
const BATCH_FACTS: usize = 1_000;

/// The facts of a source.
pub struct Collected<W: Write> {
    /// What they say, by area.
    pub model: Model,
    /// Where the recording went, if there was one and it is whole; why it is not, if it is not: the look went on without it.
    pub recorded: Option<Result<W, SourceError>>,
}

/// Reads a source to its end; `on_batch` is called each time that something was read.
pub fn collect<W: Write>(
    source: &mut dyn Source,
    writer: Option<Writer<W>>,
    on_batch: &mut dyn FnMut(),
) -> Result<Collected<W>, SourceError> {
    collect_with(source, writer, on_batch, &mut |_| Vec::new())
}

/// The same, with facts that only whoever looked before this window has; they are asked for once all of the source is in.
pub(crate) fn collect_with<W: Write>(
    source: &mut dyn Source,
    mut writer: Option<Writer<W>>,
    on_batch: &mut dyn FnMut(),
    known: &mut dyn FnMut(&Model) -> Vec<Fact>,
) -> Result<Collected<W>, SourceError> {
    let mut held = Held::default();
    let mut batch = Vec::new();
    let mut recorded = None;
    let mut take = |batch: &mut Vec<Fact>, held: &mut Held| {
        if let Some(open) = &mut writer
            && let Err(error) = open.write(batch)
        {
            (writer, recorded) = (None, Some(Err(error)));
        }
        batch.drain(..).for_each(|fact| held.take(fact));
        batch.shrink_to(BATCH_FACTS);
    };
    loop {
        let more = source.drain(&mut batch)?;
        take(&mut batch, &mut held);
        on_batch();
        if !more {
            break;
        }
    }
    take(&mut known(&held.model), &mut held);
    if let Some(writer) = writer {
        recorded = Some(writer.finish());
    }
    Ok(Collected { model: held.model(), recorded })
}

/// The facts that are held, up to a limit.
#[derive(Default)]
struct Held {
    model: Model,
    count: usize,
    dropped: u64,
    at_ns: Ns,
}

impl Held {
    fn take(&mut self, fact: Fact) {
        let single = matches!(fact.body, Body::Wait(_) | Body::Ran(_) | Body::Request(_));
        if self.count >= if single { FACTS_MAX } else { 2 * FACTS_MAX } {
            self.dropped += 1;
            return;
        }
        self.count += 1;
        self.at_ns = fact.at_ns;
        self.model.push(fact);
    }

    /// All of them, and what had to go.
    fn model(mut self) -> Model {
        if self.dropped > 0 {
            let lost = Lost { source: "too_many_facts".into(), count: self.dropped };
            self.model.push(Fact { at_ns: self.at_ns, body: Body::Lost(lost) });
        }
        self.model
    }
}
