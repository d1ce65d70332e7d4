//! How a look is opened: the command is forked and held, what changes seldom is read beside the loading of the programs, and the readers
//! are opened in their order.
//!
//! Must not: begin the window (the first reading does), or know a reader by name.

use super::command::Held;
use super::expense::Expense;
use super::rate::Rate;
use super::target::target;
use super::wait_threshold::WaitThreshold;
use super::walks::Walks;
use super::watched::Watched;
use super::window::Ticks;
use crate::SourceError;
use crate::host::{self, Offer};
use crate::kernel::Programs;
use crate::kernel::load::load;
use crate::plan::{self, Target};
use crate::readers::look::Look;
use crate::readers::open_log::OpenLog;
use crate::readers::opened::Settings;
use crate::readers::reader::{Opening, Pieces};
use crate::readers::settings;
use crate::source::system;
use crate::system::clock::{ClockId, clock_ns, now};
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
    pub ticks: Ticks,
    pub watched: Watched,
    pub facts: Pieces,
    pub refused: Refused,
    pub granted: Option<Granted>,
}

/// What each window of a session says anew, and only its first has asked for.
#[derive(Default)]
pub(super) struct Refused {
    /// What files do not show.
    pub hidden: Vec<Blind>,
    /// Programs that could not be loaded.
    pub blind: Vec<Blind>,
    /// Ticks a second in which TCP sums up what it waited for.
    pub hz: u32,
}

/// What came of loading the programs, and of attaching them.
#[derive(Default)]
pub(super) struct Loaded {
    /// None: waits are sampled from files.
    pub programs: Option<Programs>,
    /// To be attached; of a window that follows another they are.
    pub names: Vec<&'static str>,
    /// What files do not show.
    pub hidden: Vec<Blind>,
    /// What was refused.
    pub blind: Vec<Blind>,
    /// Ticks a second in which TCP sums up what it waited for.
    pub hz: u32,
    /// When the window before ended, if there was one.
    pub boundary_ns: Option<Ns>,
    /// The kernel's log where that one has left it.
    pub kernel_log: Option<OpenLog>,
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
    own::memory::give_back_what_is_freed();
    let granted = Granted { memory_locked: own::memory::lock() };
    let offer = host::look(&plan::tracepoints());
    priority::raise_if_delayed();
    let opened = open_on(at, held, Ground { roots, hidden, offer })?;
    Ok(Opened { granted: Some(granted), ..opened })
}

/// What was asked of the kernel for this process alone, and is given back with this.
pub(super) struct Granted {
    /// Own memory stays resident.
    pub memory_locked: bool,
}

impl Drop for Granted {
    fn drop(&mut self) {
        priority::come_back();
        if self.memory_locked {
            own::memory::unlock();
        }
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
    let expense = Expense::begin();
    // Until the look has begun.
    let (loaded, settings, _moved) =
        while_it_reads(&roots, || load(&offer, scope.spared, scope.ring_bytes));
    let (programs, names, blind) = loaded;
    let hz = offer.config_hz;
    let loaded = Loaded { programs, names, hidden, blind, hz, ..Loaded::default() };
    let rate = Rate::new(WaitThreshold::new(scope.reporting, online_cpus().len()));
    let ticks = Ticks::new(rate, expense);
    open_with(scope, roots, loaded, settings, (ticks, watched))
}

/// A window that begins where the one before ended, with its programs and its pace.
pub(super) fn open_next(
    at: &Target,
    roots: Roots,
    loaded: Loaded,
    ticks: Ticks,
) -> Result<Opened, SourceError> {
    priority::next_window();
    let settings = settings::read(&roots);
    open_with(at.scope(), roots, loaded, settings, (ticks.next_window(), Watched::default()))
}

fn open_with(
    scope: plan::Scope,
    roots: Roots,
    loaded: Loaded,
    mut opened: Settings,
    (ticks, watched): (Ticks, Watched),
) -> Result<Opened, SourceError> {
    let Loaded { programs, names, hidden, blind, hz, boundary_ns, kernel_log } = loaded;
    let mut facts = Pieces::default();
    let mut put = |body| facts.push(Fact { at_ns: now(), body });
    let refused = Refused { hidden: hidden.clone(), blind: blind.clone(), hz };
    hidden.into_iter().map(Body::Blind).for_each(&mut put);
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
    let mut opening = Opening {
        settings: opened,
        programs: names,
        boundary_ns,
        kernel_log,
        hz,
        command: watched.pid(),
        thresholds: ticks.rate.thresholds(),
        facts,
    };
    let mut look = look(roots, scope, programs, watched.pid());
    let walks = Walks::open(&mut look, &mut opening)?;
    let facts = opening.facts;
    Ok(Opened { walks, look, ticks, watched, facts, refused, granted: None })
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
        goes_on: false,
        family: None,
        netlink: None,
        identities: Default::default(),
        waited: Default::default(),
        ends: Default::default(),
        stack_numbers: Default::default(),
        last: Default::default(),
        kernel_log: None,
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
    host.unix_offset_ns = clock_ns(ClockId::Realtime) as i64 - monotonic as i64;
    host.boot_offset_ns = clock_ns(ClockId::Boottime).saturating_sub(monotonic);
    host.own_pid = std::process::id();
    host.kernel_events = kernel_events;
    host
}
