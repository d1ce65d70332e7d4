//! How a look is opened: the command is forked and held, what changes seldom is read beside the loading of the programs, and the readers
//! are opened in their order.
//!
//! Must not: begin the window (the first reading does), or know a reader by name.

use super::command::Held;
use super::rate::Rate;
use super::target::target;
use super::wait_threshold::WaitThreshold;
use super::walks::Walks;
use super::watched::Watched;
use crate::SourceError;
use crate::host::{self, Offer};
use crate::kernel::Programs;
use crate::kernel::load::load;
use crate::plan::{self, Target};
use crate::readers::look::Look;
use crate::readers::opened::Settings;
use crate::readers::reader::{Opening, Pieces};
use crate::readers::settings;
use crate::source::system;
use crate::system::clock::{clock_ns, now};
use crate::system::cpus::online_cpus;
use crate::system::own::placement::{self, InterruptTicks, Moved};
use crate::system::own::{self, priority};
use crate::system::{Roots, view};
use holdup_reason::facts::*;
use holdup_stacks::UserStacks;
use std::sync::mpsc::{RecvTimeoutError, channel};

/// Of the thread that reads files while the programs are loaded; locked memory is dear.
const READER_STACK_BYTES: usize = 512 << 10;

/// A look whose readers are opened.
pub(super) struct Opened {
    pub walks: Walks,
    pub look: Look,
    pub rate: Rate,
    pub watched: Watched,
    pub facts: Pieces,
    pub memory_locked: bool,
}

/// Where a look reads, and what the host offers to it.
pub(super) struct Ground {
    pub roots: Roots,
    pub hidden: Vec<Blind>,
    pub offer: Offer,
}

/// Opens a look at this host.
pub(super) fn open(at: &Target) -> Result<Opened, SourceError> {
    priority::begin();
    let scope = at.scope();
    // First: a child inherits neither what the scheduler grants from here on nor a lock on memory.
    let held = match &scope.command {
        Some(words) => Some(Held::fork(words).map_err(system("start the command"))?),
        None => None,
    };
    let (roots, hidden) = view::of_host();
    priority::raise_if_crowded();
    let memory_locked = own::memory::lock();
    let offer = host::look(&plan::tracepoints());
    let opened = open_on(at, held, Ground { roots, hidden, offer });
    if opened.is_err() {
        give_back(memory_locked);
    }
    Ok(Opened { memory_locked, ..opened? })
}

/// What was asked of the kernel for this process alone is given back.
pub(super) fn give_back(memory_locked: bool) {
    priority::come_back();
    if memory_locked {
        own::memory::unlock();
    }
}

/// The same, wherever its files lie.
pub(super) fn open_on(
    at: &Target,
    held: Option<Held>,
    ground: Ground,
) -> Result<Opened, SourceError> {
    let Ground { roots, hidden, offer } = ground;
    let (scope, watched) = (at.scope(), Watched::new(held));
    let mut facts = Pieces::default();
    let mut put = |body| facts.push(Fact { at_ns: now(), body });
    hidden.into_iter().map(Body::Blind).for_each(&mut put);
    // Until the look has begun.
    let (loaded, mut opened, _moved) =
        while_it_reads(&roots, || load(&offer, scope.spared, scope.ring_bytes));
    let (programs, names, blind) = loaded;
    opened.find_directories(&scope);
    let mut hostname = String::new();
    for body in std::mem::take(&mut opened.facts) {
        match body {
            Body::Host(host) => {
                hostname.clone_from(&host.hostname);
                put(Body::Host(completed(host, programs.is_some())));
            }
            other => put(other),
        }
    }
    blind.into_iter().for_each(|blind| put(Body::Blind(blind)));
    let target = target(&scope, &roots, &hostname, &opened.containers, watched.pid())?;
    opened.containers.drain(..).map(Body::Container).for_each(&mut put);
    put(Body::Target(target));
    let rate = Rate::new(WaitThreshold::new(scope.reporting, online_cpus().len()));
    let mut opening = Opening {
        settings: opened,
        programs: names,
        hz: offer.config_hz,
        command: watched.pid(),
        thresholds: rate.thresholds(),
        facts,
    };
    let mut look = look(roots, scope, programs, watched.pid());
    let walks = Walks::open(&mut look, &mut opening)?;
    Ok(Opened { walks, look, rate, watched, facts: opening.facts, memory_locked: false })
}

fn look(
    roots: Roots,
    scope: plan::Scope,
    programs: Option<Programs>,
    command: Option<u32>,
) -> Look {
    Look {
        pid: scope.process.or(command),
        stacks: UserStacks::of(scope.stacks),
        roots,
        scope,
        programs,
        window: Default::default(),
        family: None,
        netlink: None,
        identities: Default::default(),
        waited: Default::default(),
        ends: Default::default(),
        stack_numbers: Default::default(),
        last: Default::default(),
    }
}

/// Does something long, which is the kernel's verifier, and reads files beside it; after it, where no thread may be begun. If it takes
/// so long, its thread is moved off CPUs that interrupts take.
fn while_it_reads<T>(roots: &Roots, load: impl FnOnce() -> T) -> (T, Settings, Option<Moved>) {
    let looks = priority::own_tid();
    let (over, loads) = channel::<()>();
    std::thread::scope(|scope| {
        let read = move || {
            let read = settings::read(roots);
            let earlier = InterruptTicks::read();
            let is_loading =
                loads.recv_timeout(placement::BETWEEN) == Err(RecvTimeoutError::Timeout);
            let moved = is_loading.then(|| Moved::off_taken(looks, &earlier)).flatten();
            (read, moved)
        };
        let reader = std::thread::Builder::new().stack_size(READER_STACK_BYTES);
        let reader = reader.name("holdup-opening".into()).spawn_scoped(scope, read);
        priority::raise_helpers();
        let loaded = load();
        drop(over);
        match reader.map(|reader| reader.join()) {
            Ok(Ok((read, moved))) => (loaded, read, moved),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => (loaded, settings::read(roots), None),
        }
    })
}

pub(crate) fn completed(mut host: Host, kernel_events: bool) -> Host {
    let monotonic = now();
    host.tool_version = env!("CARGO_PKG_VERSION").into();
    host.unix_offset_ns = clock_ns(libc::CLOCK_REALTIME) as i64 - monotonic as i64;
    host.boot_offset_ns = clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(monotonic);
    host.own_pid = std::process::id();
    host.kernel_events = kernel_events;
    host
}
