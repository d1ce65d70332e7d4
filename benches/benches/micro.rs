//! holdup's parts under divan: `cargo bench -p holdup-bench`, or one of them by name.
//!
//! What is timed stands in src/micro.rs, which `make bench` times too, for its table. Here is only the
//! harness; without its recordings nothing is timed, and the harness says so.

use divan::{Bencher, counter::ItemsCount};
use holdup_bench::micro::{self, Inputs};
use holdup_reason::facts::Fact;
use holdup_reason::measure::Measures;

fn main() {
    divan::main();
}

/// The inputs; a bench without them has nothing to say.
fn inputs() -> Option<Inputs> {
    Inputs::read(&micro::folder()).ok()
}

fn facts(inputs: &Inputs) -> Vec<Fact> {
    inputs.looks.iter().flatten().cloned().collect()
}

#[divan::bench]
fn decode(bencher: Bencher<'_, '_>) {
    let Some(inputs) = inputs() else { return };
    let (mut decoder, mut facts) = (micro::decoder(&inputs), Vec::new());
    bencher
        .counter(ItemsCount::new(inputs.records.len()))
        .bench_local(|| micro::decode(&mut decoder, &inputs, &mut facts));
}

#[divan::bench]
fn recording_write(bencher: Bencher<'_, '_>) {
    let Some(inputs) = inputs() else { return };
    let facts = facts(&inputs);
    let file = std::env::temp_dir().join(format!("holdup-micro-{}.hup", std::process::id()));
    bencher.counter(ItemsCount::new(facts.len())).bench(|| micro::write(&facts, &file).is_ok());
    drop(std::fs::remove_file(&file));
}

#[divan::bench]
fn recording_read(bencher: Bencher<'_, '_>) {
    let Some(inputs) = inputs() else { return };
    let facts = facts(&inputs);
    let file = std::env::temp_dir().join(format!("holdup-micro-read-{}.hup", std::process::id()));
    if micro::write(&facts, &file).is_ok() {
        bencher.counter(ItemsCount::new(facts.len())).bench(|| micro::read(&file).is_ok());
    }
    drop(std::fs::remove_file(&file));
}

#[divan::bench]
fn waits(bencher: Bencher<'_, '_>) {
    let Some(inputs) = inputs() else { return };
    bencher
        .counter(ItemsCount::new(inputs.facts()))
        .with_inputs(|| inputs.looks.clone())
        .bench_values(|looks| looks.into_iter().map(micro::waits).collect::<Vec<_>>());
}

#[divan::bench]
fn chains(bencher: Bencher<'_, '_>) {
    let Some(inputs) = inputs() else { return };
    let observed: Vec<_> = inputs.looks.iter().cloned().map(micro::waits).collect();
    let waits = observed.iter().map(|one| one.timelines.waits().count()).sum::<usize>();
    bencher
        .counter(ItemsCount::new(waits))
        .bench(|| observed.iter().map(micro::chains).sum::<usize>());
}

#[divan::bench]
fn rules(bencher: Bencher<'_, '_>) {
    let Some(inputs) = inputs() else { return };
    let observed: Vec<_> = inputs.looks.iter().cloned().map(micro::waits).collect();
    let measures: Vec<_> = observed.iter().map(Measures::of_observed).collect();
    bencher
        .counter(ItemsCount::new(measures.len()))
        .bench(|| measures.iter().map(micro::rules).sum::<usize>());
}
