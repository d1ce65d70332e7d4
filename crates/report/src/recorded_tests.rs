//! Every recording of tests/recordings, decoded and explained once for all tests that read them all.
//!
//! Owns the replays alone; what is asked of them is in the files below, in page/tests.rs and in export/tests.rs. Each replay takes some
//! 0.1 s of a CPU in a test build, and there are some two hundred: when each test made its own, 13 in all, they took half of the time of
//! this package's tests. Must not: be changed by a test, or know what is asked. Rejected: integration tests, each a program of its own with
//! replays of its own.

mod comparisons_tests;
mod findings_tests;
mod hostile_names_tests;
mod schema_tests;
mod ways_out_tests;

use holdup_probe::Source;
use holdup_probe::recording::Reader;
use holdup_reason::answer::compare::Named;
use holdup_reason::facts::Fact;
use holdup_reason::model::Model;
use holdup_reason::{Beside, Explained};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use ways_out_tests::AtEnd;

/// A recording, and all that is made of it.
pub(crate) struct Recorded {
    pub(crate) path: PathBuf,
    pub(crate) explained: Explained,
    /// The same look, ready to be compared.
    look: Named,
    at_end: AtEnd,
}

impl Recorded {
    fn of(path: &Path) -> Self {
        let facts = facts(path);
        let at_end = AtEnd::of(&facts);
        let beside = Beside { picture: true, export: true, look: true };
        let mut explained = holdup_reason::explain_beside(&mut Model::new(facts), beside);
        let look = explained.look.take().expect("what comparing it takes");
        let look = Named { recording: path.display().to_string(), look };
        Self { path: path.into(), explained, look, at_end }
    }
}

/// All of them, by name.
pub(crate) fn all() -> &'static [Recorded] {
    static ALL: LazyLock<Vec<Recorded>> = LazyLock::new(replay_all);
    assert!(ALL.len() >= 100, "only {} recordings", ALL.len());
    &ALL
}

fn replay_all() -> Vec<Recorded> {
    let paths = paths();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    // Some take a hundred times as long as others: each thread takes the next.
    let next = AtomicUsize::new(0);
    let some = || -> Vec<Recorded> {
        let taken = iter::from_fn(|| paths.get(next.fetch_add(1, Ordering::Relaxed)));
        taken.map(|path| Recorded::of(path)).collect()
    };
    let mut all: Vec<Recorded> = thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        parts.into_iter().flat_map(|part| part.join().expect("replayed")).collect()
    });
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

/// Where a recording lies.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings").join(name)
}

fn paths() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(file("")).expect("tests/recordings is there");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|it| it == "rec")).collect();
    all.sort();
    all
}

fn facts(path: &Path) -> Vec<Fact> {
    let mut reader = Reader::open(path).expect("a recording");
    let mut facts = Vec::new();
    while reader.drain(&mut facts).expect("facts") {}
    facts
}

/// The recording of this name.
pub(crate) fn named(name: &str) -> &'static Recorded {
    all().iter().find(|it| it.path.ends_with(name)).expect(name)
}
