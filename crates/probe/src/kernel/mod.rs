//! Load, attach, drain: the kernel programs as one value, and what their maps hold at the end.
//!
//! libbpf's skeleton borrows the memory that its object lies in. The value owns both, and drops what borrows before what is
//! borrowed: so a look can be taken again and again in one process, and nothing of it stays. Must not: decide what to attach
//! (plan.rs), read files, or keep time of the window (session/).
//!
//! Rejected: memory that is given away for good (each look left a megabyte and its maps behind).

mod cpu_clock;
mod fitting;
pub(crate) mod iterators;
mod kernel_types;
pub(crate) mod load;
mod map_entries;
mod net_sums;
mod program_tags;
pub(crate) mod run_time;
mod sums;
pub(crate) mod thresholds;

use crate::SourceError;
use crate::decode::wire::{self, *};
use crate::decode::{Decoder, ThreadRecord};
use crate::host::{KERNEL_BTF, Offer};
use crate::plan;
use crate::refusal::{self, Refusal};
use crate::skel::{HoldupSkel, HoldupSkelBuilder};
use crate::system::clock::now;
use crate::system::cpus::{online_cpus, tickless_cpus};
use crate::system::own::priority::{self, own_tid};
use cpu_clock::{SAMPLE_HZ, sampling_event};
use holdup_reason::facts::*;
use holdup_stacks::Point;
use iterators::{Iterators, each_record};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, RingBuffer, RingBufferBuilder};
pub(crate) use map_entries::After;
use rustix::event::{Timespec, epoll};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::rc::Rc;

/// Where ring records go as they are decoded.
pub struct Inbox {
    /// Reads records.
    pub decoder: Decoder,
    /// What was read since the last take.
    pub facts: Vec<Fact>,
}

/// Whether something was queued since that was last asked; none if nobody watches.
#[derive(Default)]
pub struct Queued {
    /// A bio.
    pub bio: Option<bool>,
    /// A packet.
    pub packet: Option<bool>,
    /// Somebody, to wait for a file lock or lease.
    pub lock: bool,
}

/// The memory that the object lies in, at one place for as long as anything borrows it.
struct Storage(NonNull<MaybeUninit<OpenObject>>);

impl Storage {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(Box::new(MaybeUninit::uninit()))))
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: it came out of a box, and whoever owns it has dropped what borrowed it before.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The loaded programs. The order of the fields is the order in which they are dropped: the links before the object that they
/// attach, and its memory last.
pub struct Programs {
    links: Vec<(&'static str, Link)>,
    iterators: Iterators,
    ring: RingBuffer<'static>,
    skel: HoldupSkel<'static>,
    _storage: Storage,
    on_demand: Vec<&'static str>,
    samples_code: bool,
    sees_bios: bool,
    sees_packets: bool,
    alarm: OwnedFd,
    lost_before: [u64; 5],
    refused: Vec<Blind>,
    drop_reasons: BTreeMap<u32, String>,
    /// Decoded records of the ring.
    pub inbox: Rc<RefCell<Inbox>>,
    /// Samples a second and CPU; 0 if sampling could not be had.
    pub sample_hz: u32,
}

fn bpf(doing: &str) -> impl Fn(libbpf_rs::Error) -> SourceError + '_ {
    move |error| SourceError::Bpf { doing: doing.into(), error: format!("{error:#}") }
}

impl Programs {
    /// Loads the programs named and the iterators; attaches nothing yet.
    pub fn load(offer: &Offer, names: &[&str], ring_bytes: u32) -> Result<Self, Refusal> {
        let heard = refusal::listen();
        let storage = Storage::new();
        // SAFETY: the memory is the value's own, nobody else has it, and it is freed after all that borrows it is dropped: here,
        // because `storage` was made before, and in the value by the order of its fields.
        let memory: &'static mut MaybeUninit<OpenObject> = unsafe { &mut *storage.0.as_ptr() };
        let types = kernel_types::file(Path::new(KERNEL_BTF));
        let mut builder = HoldupSkelBuilder::default();
        if let Some(types) = &types {
            let path = kernel_types::path_of(types);
            builder.object_builder_mut().btf_custom_path(path).map_err(refusal::of("open"))?;
        }
        let mut open = builder.open(memory).map_err(refusal::of("open"))?;
        fitting::fit(&mut open, offer, names, ring_bytes)?;
        let skel = open.load().map_err(|error| refusal::read(&heard.take(), &error))?;
        drop((heard, types));
        let inbox = Rc::new(RefCell::new(Inbox { decoder: Decoder::default(), facts: Vec::new() }));
        let mut builder = RingBufferBuilder::new();
        let sink = Rc::clone(&inbox);
        builder
            .add(&skel.maps.ring, move |bytes| {
                let Inbox { decoder, facts } = &mut *sink.borrow_mut();
                decoder.record(bytes, facts);
                0
            })
            .map_err(refusal::of("open the ring"))?;
        let ring = builder.build().map_err(refusal::of("open the ring"))?;
        let alarm = alarm(skel.maps.ring.as_fd()).map_err(|error| Refusal {
            program: None,
            why: format!("wait for the ring: {error}"),
        })?;
        let iterators = Iterators::attach(&skel.progs.threads, &skel.progs.endpoints)?;
        Ok(Self {
            links: Vec::new(),
            iterators,
            ring,
            skel,
            _storage: storage,
            on_demand: Vec::new(),
            samples_code: offer.find_vma,
            sees_bios: false,
            sees_packets: false,
            alarm,
            lost_before: [0; 5],
            refused: Vec::new(),
            drop_reasons: offer.drop_reasons.clone(),
            inbox,
            sample_hz: 0,
        })
    }

    /// Attaches what is wanted at the begin, in the order named. A program that is refused is reported, and the rest goes
    /// on, unless it is one of the scheduler's two.
    pub fn attach(&mut self, names: &[&'static str]) -> Result<(), SourceError> {
        let at_once = plan::at_once(names);
        let waits = |name: &&&'static str| plan::DNS.contains(name) && !at_once.contains(name);
        self.on_demand = names.iter().filter(waits).copied().collect();
        let mut blind = self.attach_each(&at_once)?;
        if names.contains(&plan::SAMPLE) {
            blind.extend(self.start_sampling());
        }
        self.refused = blind;
        Ok(())
    }

    /// What could not be attached at the begin.
    pub fn refused(&self) -> &[Blind] {
        &self.refused
    }

    /// Has packets looked at for DNS from now on, if a name server is asked; what is refused goes into the inbox.
    pub fn follow_names(&mut self, is_asked: bool) -> Result<(), SourceError> {
        let refused = self.attach_for_names(is_asked)?;
        let reported = refused.into_iter().map(|it| Fact { at_ns: now(), body: Body::Blind(it) });
        self.inbox.borrow_mut().facts.extend(reported);
        Ok(())
    }

    /// Attaches the programs that look at each packet, if they are not yet and a name server is asked: because the
    /// caller knows of a socket, or because somebody looked for the way to one since.
    pub fn attach_for_names(&mut self, is_asked: bool) -> Result<Vec<Blind>, SourceError> {
        let seen =
            self.skel.maps.bss_data.as_deref().is_some_and(|bss| bss.queued.name_server != 0);
        if self.on_demand.is_empty() || !(is_asked || seen) {
            return Ok(Vec::new());
        }
        let names = std::mem::take(&mut self.on_demand);
        let blind = self.attach_each(&names)?;
        let watches = |(name, _): &(&'static str, Link)| plan::DNS_WATCH.contains(name);
        let (watch, links): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.links).into_iter().partition(watches);
        self.links = links;
        // To detach waits for an RCU grace period, some tenths of a second where the CPUs are full, and nobody need wait for that.
        // Without a thread for it they are detached here.
        let _detached_by_itself = priority::spawn("holdup-detach", move || drop(watch));
        Ok(blind)
    }

    fn attach_each(&mut self, names: &[&'static str]) -> Result<Vec<Blind>, SourceError> {
        let mut blind = Vec::new();
        for name in names.iter().filter(|name| **name != plan::SAMPLE) {
            let object = self.skel.object();
            let Some(program) = object.progs_mut().find(|p| p.name().to_string_lossy() == *name)
            else {
                continue;
            };
            match program.attach() {
                Ok(link) => {
                    self.links.push((name, link));
                    self.sees_bios |= *name == "block_bio_queue";
                    self.sees_packets |= *name == "qdisc_enqueue";
                }
                Err(error) if name.starts_with("sched_s") || *name == "sched_waking" => {
                    return Err(bpf("attach to the scheduler")(error));
                }
                Err(error) => blind.push(Blind {
                    what: format!("program.{name}"),
                    why: format!("{error:#}"),
                    therefore: "what it observes is not seen".into(),
                    ..Blind::default()
                }),
            }
        }
        Ok(blind)
    }

    /// Has no more waits reported. The programs stay attached until this value is dropped: where another looker has programs at the
    /// same places, to detach one waits for an RCU grace period, which the answer need not.
    pub fn report_no_more(&mut self) {
        if let Some(control) = self.control() {
            thresholds::Thresholds::NOTHING.apply(control);
        }
    }

    fn start_sampling(&mut self) -> Option<Blind> {
        // Whoever has a CPU without interrupts wants none of ours.
        let tickless = tickless_cpus();
        for cpu in online_cpus().into_iter().filter(|cpu| !tickless.contains(cpu)) {
            match sampling_event(cpu).and_then(|fd| {
                let program = match self.samples_code {
                    true => &self.skel.progs.sample_code,
                    false => &self.skel.progs.sample,
                };
                let link = program
                    .attach_perf_event(fd.as_raw_fd())
                    .map_err(|error| std::io::Error::other(format!("{error:#}")))?;
                Ok((fd, link))
            }) {
                Ok((fd, link)) => {
                    // The link owns the event from here on: libbpf closes its descriptor.
                    let _ = fd.into_raw_fd();
                    self.links.push((plan::SAMPLE, link));
                    self.sample_hz = SAMPLE_HZ;
                }
                Err(error) => {
                    return Some(Blind {
                        what: "perf_event".into(),
                        why: error.to_string(),
                        remedy: "sysctl kernel.perf_event_paranoid=2, or CAP_PERFMON".into(),
                        therefore: "what runs in the kernel is not told apart".into(),
                        ..Blind::default()
                    });
                }
            }
        }
        (!tickless.is_empty()).then(|| Blind {
            what: "samples.tickless".into(),
            why: format!("{} are kept free of interrupts, by nohz_full", listed(&tickless)),
            therefore: "in which functions the time goes there is not sampled".into(),
            ..Blind::default()
        })
    }

    /// The words that the programs obey.
    pub fn control(&mut self) -> Option<&mut wire_control> {
        self.skel.maps.bss_data.as_deref_mut().map(|bss| &mut bss.control)
    }

    /// Time that all programs have taken so far, nanoseconds, while the kernel's statistics were on.
    pub fn run_time_ns(&self) -> u64 {
        self.skel.object().progs().filter_map(|program| run_time::of(program.as_fd())).sum()
    }

    /// By which tags the kernel names them in its log, and their functions.
    pub fn tags(&self) -> BTreeSet<[u8; 8]> {
        self.skel.object().progs().flat_map(|program| program_tags::of(program.as_fd())).collect()
    }

    /// Waits that the programs kept back because the ring was half full.
    pub fn braked(&self) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.lost.braked)
    }

    /// What was queued since this was last asked.
    pub fn queued(&mut self) -> Queued {
        let Some(bss) = self.skel.maps.bss_data.as_deref_mut() else { return Queued::default() };
        let take = |flag: &mut u32, is_seen: bool| {
            let raised = *flag != 0;
            // Lowered only if it was up: what raises it just then is covered by this answer, since whoever asks
            // reads at the next tick too (standstill.rs).
            if raised {
                *flag = 0;
            }
            is_seen.then_some(raised)
        };
        let queued = &mut bss.queued;
        Queued {
            bio: take(&mut queued.bio, self.sees_bios),
            packet: take(&mut queued.packet, self.sees_packets),
            lock: take(&mut queued.lock, true) == Some(true),
        }
    }

    /// What the programs counted as lost since this was last asked.
    pub fn lost(&mut self) -> Vec<Lost> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else { return Vec::new() };
        let lost = &bss.lost;
        let counted = [
            ("ring", lost.ring),
            ("requests", lost.requests),
            ("packets", lost.packets),
            (CLOCKS_APART, lost.negative_intervals),
            (SWITCHES_UNREPORTED, lost.switches_unreported),
        ];
        let before = std::mem::replace(&mut self.lost_before, counted.map(|(_, count)| count));
        let since = |((source, count), before): ((&str, u64), u64)| {
            let count = count.saturating_sub(before);
            (count > 0).then(|| Lost { source: source.into(), count })
        };
        counted.into_iter().zip(before).filter_map(since).collect()
    }

    /// Readable once the ring has filled so far that it might not last to the end of the tick.
    pub fn alarm_fd(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    /// Decodes what is there after an alarm, and waits for the next one.
    pub fn answer_alarm(&self) -> Result<(), SourceError> {
        // What is seen once is not reported again until the next wake-up.
        let mut event = [MaybeUninit::<epoll::Event>::uninit()];
        let _ = epoll::wait(&self.alarm, &mut event[..], Some(&Timespec::default()));
        self.consume()
    }

    /// Decodes what is there, without waiting.
    pub fn consume(&self) -> Result<(), SourceError> {
        self.ring.consume().map_err(bpf("read the ring"))
    }

    /// Tells every thread, or every traced one, as it is read: its sums and its standing wait.
    pub fn threads(
        &mut self,
        only_traced: bool,
        mut tell: impl FnMut(Ns, ThreadRecord),
    ) -> Result<(), SourceError> {
        let own = own_tid();
        let inbox = Rc::clone(&self.inbox);
        let decoder = &mut inbox.borrow_mut().decoder;
        let knows_clock = std::mem::replace(&mut self.iterators.knows_clock, true);
        let mut walk = |only_traced, only_tid, tell: &mut dyn FnMut(Ns, ThreadRecord), is_first| {
            decoder.threads.is_first_walk = is_first;
            if let Some(control) = self.control() {
                control.only_traced = u32::from(only_traced);
                control.only_tid = only_tid;
            }
            let iterator = self.iterators.threads()?;
            each_record(iterator, "tasks", |record| {
                tell(wire::read::<wire_head>(record).at_ns, decoder.thread(record, own));
            })
        };
        // The offset of the scheduler's clock is learnt from this thread's own entry, so it comes first.
        if !knows_clock {
            walk(false, own, &mut |_, _| (), false)?;
        }
        let walked = walk(only_traced, 0, &mut tell, !knows_clock);
        decoder.threads.is_first_walk = false;
        walked
    }

    /// Every thread once more, as the window ends; the next one begins here.
    pub fn boundary(&mut self, each: impl FnMut(Ns, ThreadRecord)) -> Result<(), SourceError> {
        self.inbox.borrow_mut().decoder.threads.is_boundary_walk = true;
        let walked = self.threads(false, each);
        self.inbox.borrow_mut().decoder.threads.is_boundary_walk = false;
        walked
    }

    /// Tells where blocked threads left user space: each record of them, of the traced threads or of one process (0: any).
    pub fn registers(
        &mut self,
        only_traced: bool,
        only_tgid: u32,
        tell: impl FnMut(&[u8]),
    ) -> Result<(), SourceError> {
        let of_process = self.iterators.threads_of(self.skel.progs.threads.as_fd(), only_tgid);
        let mut ask = |only_registers, only_tgid| {
            if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
                let control = &mut bss.control;
                (control.only_traced, control.only_tid) = (u32::from(only_traced), 0);
                (control.only_registers, control.only_tgid) = (only_registers, only_tgid);
            }
        };
        ask(1, only_tgid);
        let walked = match of_process {
            Some(walk) => each_record(walk, "tasks", tell),
            None => (self.iterators.threads()).and_then(|walk| each_record(walk, "tasks", tell)),
        };
        ask(0, 0);
        walked
    }

    /// Every open socket, pipe, terminal and FUSE device with its process.
    pub fn endpoints(&mut self) -> Result<Vec<Endpoint>, SourceError> {
        let decoder = &mut self.inbox.borrow_mut().decoder;
        let mut all = Vec::new();
        let iterator = self.iterators.endpoints()?;
        each_record(iterator, "descriptors", |record| {
            all.extend(decoder.endpoint(record));
        })?;
        Ok(all)
    }

    /// What the maps have added up: where in their code files processes were hit, with the names of the files; and all else.
    pub fn added_up(&mut self, after: After) -> (Vec<(Point, String)>, Vec<Body>) {
        let points = sums::points(&self.skel.maps, after);
        let decoder = &mut self.inbox.borrow_mut().decoder;
        let sums = sums::Sums { maps: &self.skel.maps, reasons: &self.drop_reasons, after };
        (points, sums.facts(decoder, self.sample_hz))
    }
}

/// An epoll that tells of wake-ups only (edges): between them the ring is readable nearly always.
fn alarm(ring: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    let alarm = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&alarm, ring, epoll::EventData::new_u64(0), edges)?;
    Ok(alarm)
}

/// `CPU 1, 2, 3`.
fn listed(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    format!("CPU {}", cpus.join(", "))
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;
