//! holdup's parts by themselves, on one core: decode, waits, chains, rules, recording.
//!
//! The same functions are timed here for the table and by divan in benches/micro.rs for whoever works on one
//! of them (`cargo bench -p holdup-bench`). Facts come from tests/recordings, so the rates are of real
//! looks; wire records are made here, shaped as a long wait's is. Best of several, because what disturbs only
//! ever slows down. Edit together: crates/probe/bpf/wire.h (offsets are taken from its generated types).

use crate::results::Micro;
use anyhow::{Context, Result};
use holdup_probe::Source;
use holdup_probe::decode::Decoder;
use holdup_probe::decode::wire::{wire_kind, wire_place, wire_ref, wire_wait};
use holdup_probe::recording::{Reader, Writer};
use holdup_reason::facts::Fact;
use holdup_reason::graph::chains::Chains;
use holdup_reason::measure::Measures;
use holdup_reason::rules::engine;
use holdup_reason::waits::timeline::Observed;
use std::hint::black_box;
use std::mem::offset_of;
use std::path::Path;
use std::time::{Duration, Instant};

/// Records decoded in one go.
const RECORDS: usize = 4_096;
/// Distinct kernel stacks among them: a host has few.
const STACKS: u64 = 40;

/// What the parts are fed with.
pub struct Inputs {
    /// Wire records of waits.
    pub records: Vec<Vec<u8>>,
    /// Facts of whole looks.
    pub looks: Vec<Vec<Fact>>,
}

impl Inputs {
    /// Reads the recordings of a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .with_context(|| format!("read {}", folder.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "rec"))
            .collect();
        files.sort();
        let looks = files.iter().map(|file| read(file)).collect::<Result<Vec<_>>>()?;
        anyhow::ensure!(!looks.is_empty(), "no recordings in {}", folder.display());
        Ok(Self { records: (0..RECORDS as u64).map(wait_record).collect(), looks })
    }

    /// Facts of all looks.
    pub fn facts(&self) -> usize {
        self.looks.iter().map(Vec::len).sum()
    }
}

/// The repository's recordings.
pub fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recordings")
}

/// A wait as the kernel side sends it: a file, a stack, no path.
fn wait_record(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; offset_of!(wire_wait, path)];
    let length = bytes.len() as u32;
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &wire_kind::WIRE_WAIT.0.to_ne_bytes());
    put(4, &length.to_ne_bytes());
    put(8, &(5_000_000 + number * 2_000).to_ne_bytes());
    for place in [offset_of!(wire_wait, thread), offset_of!(wire_wait, waker)] {
        put(place + offset_of!(wire_ref, tid), &(1_000 + number as u32 % 300).to_ne_bytes());
        put(place + offset_of!(wire_ref, tgid), &(1_000 + number as u32 % 30).to_ne_bytes());
        put(place + offset_of!(wire_ref, comm), b"postgres");
    }
    put(offset_of!(wire_wait, begin_ns), &(1_000_000 + number * 2_000).to_ne_bytes());
    put(offset_of!(wire_wait, wake_ns), &(4_900_000 + number * 2_000).to_ne_bytes());
    let place = offset_of!(wire_wait, place);
    put(place + offset_of!(wire_place, state), &2_u32.to_ne_bytes());
    put(place + offset_of!(wire_place, frames), &12_u32.to_ne_bytes());
    put(place + offset_of!(wire_place, syscall), &17_i64.to_ne_bytes());
    for frame in 0..12_u64 {
        let address = 0xffff_ffff_8100_0000 + (number % STACKS) * 0x1000 + frame * 0x40;
        put(place + offset_of!(wire_place, frame) + frame as usize * 8, &address.to_ne_bytes());
    }
    bytes
}

/// A decoder that has met the stacks: naming them is paid once a look, not once an event.
pub fn decoder(inputs: &Inputs) -> Decoder {
    let mut decoder = Decoder::default();
    decode(&mut decoder, inputs, &mut Vec::new());
    decoder
}

/// Decodes all records; gives the number of facts.
pub fn decode(decoder: &mut Decoder, inputs: &Inputs, facts: &mut Vec<Fact>) -> usize {
    facts.clear();
    for record in &inputs.records {
        decoder.record(record, facts);
    }
    facts.len()
}

/// Writes a recording.
pub fn write(facts: &[Fact], file: &Path) -> Result<()> {
    let mut writer = Writer::create(file)?;
    writer.write(facts)?;
    writer.finish()?;
    Ok(())
}

/// Reads a recording.
pub fn read(file: &Path) -> Result<Vec<Fact>> {
    let (mut reader, mut facts) = (Reader::open(file)?, Vec::new());
    while reader.drain(&mut facts)? {}
    Ok(facts)
}

/// Facts to waits, in time lines of threads.
pub fn waits(look: Vec<Fact>) -> Observed {
    Observed::new(look)
}

/// Walks every wait of a look back to its root; gives the leaves.
pub fn chains(one: &Observed) -> usize {
    let chains = Chains::new(&one.model, &one.timelines);
    one.timelines
        .waits()
        .map(|wait| chains.follow_wait(wait, (wait.begin_ns, wait.end_ns), false).len())
        .sum()
}

/// Asks every rule; gives the findings.
pub fn rules(measures: &Measures<'_>) -> usize {
    engine::name(measures).len()
}

/// Units a second of the fastest go within `length`.
fn best(length: Duration, units: usize, mut go: impl FnMut() -> Duration) -> f64 {
    let began = Instant::now();
    let mut shortest = go();
    while began.elapsed() < length {
        shortest = shortest.min(go());
    }
    units as f64 / shortest.as_secs_f64().max(1e-9)
}

fn timed<T>(go: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    black_box(go());
    began.elapsed()
}

/// All parts.
pub fn all(inputs: &Inputs, scratch: &Path, each: Duration) -> Result<Vec<Micro>> {
    let row = |name: &str, unit: &str, per_second| Micro {
        name: name.into(),
        unit: unit.into(),
        per_second,
    };
    let file = scratch.join("micro.hup");
    let facts: Vec<Fact> = inputs.looks.iter().flatten().cloned().collect();
    let observed: Vec<Observed> = inputs.looks.iter().cloned().map(waits).collect();
    let count = observed.iter().map(|one| one.timelines.waits().count()).sum::<usize>().max(1);
    let measures: Vec<Measures<'_>> = observed.iter().map(Measures::of_observed).collect();
    write(&facts, &file)?;
    let (mut decoder, mut decoded) = (decoder(inputs), Vec::new());
    let rows = vec![
        row(
            "decode",
            "events",
            best(each, RECORDS, || timed(|| decode(&mut decoder, inputs, &mut decoded))),
        ),
        row(
            "write a recording",
            "facts",
            best(each, facts.len(), || timed(|| write(&facts, &file))),
        ),
        row("read a recording", "facts", best(each, facts.len(), || timed(|| read(&file)))),
        row(
            "facts to waits",
            "facts",
            best(each, facts.len(), || {
                let copies = inputs.looks.clone();
                timed(|| copies.into_iter().map(waits).count())
            }),
        ),
        row(
            "chains",
            "waits",
            best(each, count, || timed(|| observed.iter().map(chains).sum::<usize>())),
        ),
        row(
            "measures",
            "looks",
            best(each, observed.len(), || {
                timed(|| {
                    observed
                        .iter()
                        .map(|one| Measures::of_observed(one).wall_seconds())
                        .sum::<f64>()
                })
            }),
        ),
        row(
            "all rules",
            "looks",
            best(each, measures.len(), || timed(|| measures.iter().map(rules).sum::<usize>())),
        ),
    ];
    std::fs::remove_file(&file)?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::Body;

    #[test]
    fn made_records_are_read_as_waits() {
        let (mut decoder, mut facts) = (Decoder::default(), Vec::new());
        decoder.record(&wait_record(7), &mut facts);
        assert_eq!(decoder.unreadable, 0);
        let Some(Body::Wait(wait)) = facts.first().map(|fact| &fact.body) else {
            panic!("{facts:?}")
        };
        assert_eq!((wait.thread.tid, &*wait.thread.comm), (1_007, "postgres"));
        assert_eq!(wait.begin_ns, 1_014_000);
        assert!(wait.wake.is_some());
        assert!(facts.iter().any(|fact| matches!(fact.body, Body::Stack(_))));
    }

    #[test]
    fn recordings_of_the_house_feed_every_part() {
        let inputs = Inputs::read(&folder()).unwrap();
        assert!(inputs.facts() > 1_000);
        let one = waits(inputs.looks[0].clone());
        assert!(chains(&one) > 0);
        assert!(decode(&mut decoder(&inputs), &inputs, &mut Vec::new()) >= RECORDS);
        let found: usize = inputs
            .looks
            .iter()
            .map(|look| rules(&Measures::of_observed(&waits(look.clone()))))
            .sum();
        assert!(found > 0);
    }
}
