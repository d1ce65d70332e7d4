//! Load, attach, drain: the kernel programs as one value, and what their maps hold at the end.
//!
//! Must not: decide what to attach (plan.rs), read files, or keep time of the window (live.rs).
//! The object lives as long as the process: libbpf's skeleton borrows its own storage, and a look is
//! taken once per process. Rejected: a self-referential owner with unsafe lifetimes.

use crate::decode::cache_sums;
use crate::decode::disk_sums::{Latencies, Uses};
use crate::decode::{self, Decoder, ThreadRecord};
use crate::host::Offer;
use crate::kernel::cpu_clock::{SAMPLE_HZ, sampling_event};
use crate::kernel::iterators::{OfProcess, each_record};
use crate::system::cpus::{online_cpus, tickless_cpus};
pub mod cpu_clock;
mod fitting;
pub mod iterators;
pub mod load;

use crate::SourceError;
use crate::decode::samples::{self, Point};
use crate::decode::wire::{self, *};
use crate::plan;
use crate::refusal::{self, Refusal};
use crate::session::expense;
use crate::skel::{HoldupSkel, HoldupSkelBuilder};
use holdup_reason::facts::*;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
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

/// The loaded programs.
pub struct Programs {
    skel: &'static mut HoldupSkel<'static>,
    links: Vec<(&'static str, Link)>,
    on_demand: Vec<&'static str>,
    ring: RingBuffer<'static>,
    samples_code: bool,
    knows_clock: bool,
    sees_bios: bool,
    sees_packets: bool,
    alarm: OwnedFd,
    thread_link: Link,
    process_link: Option<OfProcess>,
    endpoint_link: Link,
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
        refusal::listen();
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = HoldupSkelBuilder::default().open(storage).map_err(refusal::of("open"))?;
        fitting::fit(&mut open, offer, names, ring_bytes)?;
        let skel = open.load().map_err(|error| refusal::read(&refusal::take(), &error))?;
        let skel: &'static mut HoldupSkel<'static> = Box::leak(Box::new(skel));
        let inbox = Rc::new(RefCell::new(Inbox { decoder: Decoder::default(), facts: Vec::new() }));
        let mut builder = RingBufferBuilder::new();
        let sink = Rc::clone(&inbox);
        // The map is reborrowed through a raw pointer: the skeleton is never freed.
        let ring_map: *const _ = &skel.maps.ring;
        // SAFETY: the skeleton was leaked, so the map lives as long as the process.
        let ring_map = unsafe { &*ring_map };
        builder
            .add(ring_map, move |bytes| {
                let Inbox { decoder, facts } = &mut *sink.borrow_mut();
                decoder.record(bytes, facts);
                0
            })
            .map_err(refusal::of("open the ring"))?;
        let ring = builder.build().map_err(refusal::of("open the ring"))?;
        let alarm = alarm(ring_map.as_fd()).map_err(|error| Refusal {
            program: None,
            why: format!("wait for the ring: {error}"),
        })?;
        let thread_link =
            skel.progs.threads.attach().map_err(refusal::of("attach the task iterator"))?;
        let endpoint_link =
            skel.progs.endpoints.attach().map_err(refusal::of("attach the descriptor iterator"))?;
        Ok(Self {
            skel,
            links: Vec::new(),
            on_demand: Vec::new(),
            ring,
            samples_code: offer.find_vma,
            knows_clock: false,
            sees_bios: false,
            sees_packets: false,
            alarm,
            thread_link,
            process_link: None,
            endpoint_link,
            inbox,
            sample_hz: 0,
        })
    }

    /// Attaches what is wanted at the begin, in the order named. A program that is refused is reported, and the rest goes
    /// on, unless it is one of the scheduler's two.
    pub fn attach(&mut self, names: &[&'static str]) -> Result<Vec<Blind>, SourceError> {
        let at_once = plan::at_once(names);
        let waits = |name: &&&'static str| plan::DNS.contains(name) && !at_once.contains(name);
        self.on_demand = names.iter().filter(waits).copied().collect();
        let mut blind = self.attach_each(&at_once)?;
        if names.contains(&plan::SAMPLE) {
            blind.extend(self.start_sampling());
        }
        Ok(blind)
    }

    /// Attaches the programs that look at each packet, if they are not yet and a name server is asked: because the
    /// caller knows of a socket, or because somebody looked for the way to one since.
    pub fn follow_names(&mut self, is_asked: bool) -> Result<Vec<Blind>, SourceError> {
        let seen =
            self.skel.maps.bss_data.as_deref().is_some_and(|bss| bss.queued.name_server != 0);
        if self.on_demand.is_empty() || !(is_asked || seen) {
            return Ok(Vec::new());
        }
        let names = std::mem::take(&mut self.on_demand);
        let blind = self.attach_each(&names)?;
        self.links.retain(|(name, _)| !plan::DNS_WATCH.contains(name));
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

    /// Has no more waits reported. The programs stay attached until the process ends: where another looker has programs at the same
    /// places, to detach one waits for an RCU grace period, which the answer need not.
    pub fn report_no_more(&mut self) {
        if let Some(control) = self.control() {
            control.threshold_ns = u64::MAX;
            control.traced_threshold_ns = u64::MAX;
            control.request_threshold_ns = u64::MAX;
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
                Ok((_fd, link)) => {
                    // The link owns the event from here on (libbpf closes its descriptor).
                    std::mem::forget(_fd);
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
        self.skel.object().progs().filter_map(|program| expense::run_time_ns(program.as_fd())).sum()
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

    /// What the programs counted as lost.
    pub fn lost(&self) -> Vec<Lost> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else { return Vec::new() };
        let lost = &bss.lost;
        [
            ("ring", lost.ring),
            ("requests", lost.requests),
            ("packets", lost.packets),
            (CLOCKS_APART, lost.negative_intervals),
            (SWITCHES_UNREPORTED, lost.switches_unreported),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(source, count)| Lost { source: source.into(), count })
        .collect()
    }

    /// Readable once the ring has filled so far that it might not last to the end of the tick.
    pub fn alarm_fd(&self) -> i32 {
        self.alarm.as_raw_fd()
    }

    /// Decodes what is there after an alarm, and waits for the next one.
    pub fn answer_alarm(&self) -> Result<(), SourceError> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for the one event that is asked for; a descriptor that is open.
        unsafe { libc::epoll_wait(self.alarm.as_raw_fd(), &mut event, 1, 0) };
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
        // SAFETY: gettid has no preconditions.
        let own = unsafe { libc::gettid() } as u32;
        let inbox = Rc::clone(&self.inbox);
        let decoder = &mut inbox.borrow_mut().decoder;
        let knows_clock = std::mem::replace(&mut self.knows_clock, true);
        let mut walk = |only_traced, only_tid, tell: &mut dyn FnMut(Ns, ThreadRecord), is_first| {
            decoder.is_first_walk = is_first;
            if let Some(control) = self.control() {
                control.only_traced = u32::from(only_traced);
                control.only_tid = only_tid;
            }
            let iterator = Iter::new(&self.thread_link).map_err(bpf("tasks"))?;
            each_record(iterator, "tasks", |record| {
                tell(wire::read::<wire_head>(record).at_ns, decoder.thread(record, own));
            })
        };
        // The offset of the scheduler's clock is learnt from this thread's own entry, so it comes first.
        if !knows_clock {
            walk(false, own, &mut |_, _| (), false)?;
        }
        let walked = walk(only_traced, 0, &mut tell, !knows_clock);
        decoder.is_first_walk = false;
        walked
    }

    /// Tells where blocked threads left user space: each record of them, of the traced threads or of one process (0: any).
    pub fn registers(
        &mut self,
        only_traced: bool,
        only_tgid: u32,
        tell: impl FnMut(&[u8]),
    ) -> Result<(), SourceError> {
        let of_process = self.walk_of(only_tgid);
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
            None => (Iter::new(&self.thread_link).map_err(bpf("tasks")))
                .and_then(|walk| each_record(walk, "tasks", tell)),
        };
        ask(0, 0);
        walked
    }

    /// A walk of one process's threads, if there is such a thing.
    fn walk_of(&mut self, pid: u32) -> Option<std::fs::File> {
        if pid == 0 {
            return None;
        }
        if self.process_link.as_ref().is_none_or(|it| !it.is_of(pid)) {
            self.process_link = Some(OfProcess::bind(self.skel.progs.threads.as_fd(), pid));
        }
        self.process_link.as_ref()?.walk()
    }

    /// Every open socket, pipe, terminal and FUSE device with its process.
    pub fn endpoints(&mut self) -> Result<Vec<Endpoint>, SourceError> {
        let decoder = &mut self.inbox.borrow_mut().decoder;
        let mut all = Vec::new();
        let iterator = Iter::new(&self.endpoint_link).map_err(bpf("descriptors"))?;
        each_record(iterator, "descriptors", |record| {
            all.extend(decoder.endpoint(record));
        })?;
        Ok(all)
    }

    /// What the sums in the maps say at the end.
    pub fn sums(&mut self) -> Vec<Body> {
        let maps = &self.skel.maps;
        let mut all = Vec::new();
        let (mut latencies, mut uses) = (Latencies::default(), Uses::default());
        latencies.add_slots(&variable(&maps.bss_latency));
        uses.add_slots(&variable(&maps.bss_use));
        each(&maps.disk_latency, |key: wire_disk_key, value: wire_disk_latency| {
            latencies.add(&key, &value);
        });
        each(&maps.disk_use, |key: wire_disk_use_key, value: wire_disk_use| {
            uses.add(&key, &value);
        });
        all.extend(latencies.facts());
        all.extend(uses.facts());
        each(&maps.reclaims, |key: wire_reclaim_key, value: wire_reclaim| {
            all.push(Body::Reclaim(Reclaim {
                thread: decode::thread_ref(&value.thread),
                memcg: key.memcg != 0,
                count: value.count,
                total_ns: value.total_ns,
                pages: value.pages,
                cgroup_id: value.cgroup_id,
            }));
        });
        self.add_cache(&mut all);
        each(&maps.dirty_pauses, |key: wire_dirty_key, value: wire_dirty| {
            all.push(Body::DirtyPause(dirty_pause(&key, &value)));
        });
        let sampling = self.qdisc_sampling();
        each(&maps.qdiscs, |key: wire_qdisc_key, value: wire_qdisc| {
            all.push(Body::QdiscSojourn(sojourn(&key, &value, sampling)));
        });
        each(&maps.flows, |key: wire_flow_key, value: wire_flow| {
            all.push(Body::QdiscFlow(flow(&key, &value)));
        });
        let hz = self.sample_hz;
        let mut sampled = Vec::new();
        each(&maps.samples, |key: wire_sample_key, value: wire_sample| {
            sampled.push((key, value));
        });
        for (key, value) in sampled {
            let stack = self.stack(key.stack);
            all.push(Body::Samples(Samples {
                process: ThreadRef {
                    tid: value.process.tgid,
                    ..decode::thread_ref(&value.process)
                },
                stack,
                count: value.count,
                frequency_hz: hz,
            }));
        }
        each(&maps.work, |key: wire_work_key, value: wire_work| {
            all.push(Body::Work(samples::work(&key, &value, hz)));
        });
        each(&maps.efforts, |_: wire_effort_key, value: wire_effort| {
            all.push(Body::Effort(samples::effort(&value)));
        });
        all
    }

    /// What was brought into the page cache.
    fn add_cache(&self, all: &mut Vec<Body>) {
        let decoder = &mut self.inbox.borrow_mut().decoder;
        each(&self.skel.maps.cache_fills, |key: wire_cache_key, value: wire_cache| {
            all.push(Body::CacheFill(cache_sums::fill(&key, &value, decoder.page_bytes)));
        });
        each(&self.skel.maps.refaults, |key: wire_refault_key, value: wire_refault| {
            all.push(Body::FileRefault(cache_sums::refault(&key, &value, decoder)));
        });
    }

    /// Where in their code files processes were hit, by the file that most samples of its inode have the name of; without a
    /// name in code that was made at run time.
    pub fn points(&self) -> Vec<(Point, String)> {
        let (mut names, mut points) = (HashMap::new(), Vec::new());
        each(&self.skel.maps.work, |key: wire_work_key, value: wire_work| {
            if key.syscall < 0 && key.code_ino != 0 {
                names.insert((key.tgid, key.code_ino), wire::text(&value.name));
            }
        });
        each(&self.skel.maps.points, |key: wire_point_key, count: u64| {
            let name = match key.code_ino {
                0 => Some(String::new()),
                ino => names.get(&(key.tgid, ino)).cloned(),
            };
            points.extend(name.map(|name| (samples::point(&key, count), name)));
        });
        points
    }

    fn qdisc_sampling(&self) -> u32 {
        let mask = self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.control.packet_mask);
        mask + 1
    }

    fn stack(&self, id: i32) -> u32 {
        let Ok(id) = u32::try_from(id) else { return 0 };
        let found = self.skel.maps.stacks.lookup(&id.to_ne_bytes(), MapFlags::ANY);
        let Ok(Some(bytes)) = found else { return 0 };
        let frames: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|chunk| chunk.try_into().map_or(0, u64::from_ne_bytes))
            .collect();
        self.inbox.borrow_mut().decoder.stacks.id_of(&frames)
    }
}

fn dirty_pause(key: &wire_dirty_key, value: &wire_dirty) -> DirtyPause {
    let bdi = wire::text(&key.bdi);
    let dev = bdi
        .split_once(':')
        .and_then(|(major, minor)| {
            Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
        })
        .unwrap_or_default();
    DirtyPause {
        thread: decode::thread_ref(&value.thread),
        bdi,
        dev,
        count: value.count,
        pause_ns: value.pause_ns,
        task_ratelimit_bytes: value.task_ratelimit_pages * page_bytes(),
        dirtied_pages: value.dirtied_pages,
    }
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf has no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn sojourn(key: &wire_qdisc_key, value: &wire_qdisc, sampling: u32) -> QdiscSojourn {
    QdiscSojourn {
        netns: key.netns,
        interface: wire::text(&value.interface),
        index: key.ifindex,
        handle: handle_name(key.handle),
        packets: value.packets,
        bytes: value.bytes,
        sojourn_ns: value.sojourn_ns,
        sojourn_ns_min: value.sojourn_ns_min,
        sojourn_ns_max: value.sojourn_ns_max,
        sojourn_us_log2: wire::trimmed(&value.slots),
        sojourn_ns_min_by_tenth: value
            .tenth_min_ns
            .iter()
            .filter(|&&least| least > 0)
            .map(|least| least - 1)
            .collect(),
        sampling,
    }
}

/// A handle as tc shows it: major and minor in hexadecimal.
fn handle_name(handle: u32) -> String {
    match handle & 0xffff {
        0 => format!("{:x}:", handle >> 16),
        minor => format!("{:x}:{minor:x}", handle >> 16),
    }
}

fn flow(key: &wire_flow_key, value: &wire_flow) -> QdiscFlow {
    QdiscFlow {
        netns: key.netns,
        interface: wire::text(&value.interface),
        handle: handle_name(key.handle),
        protocol: decode::protocol_name(key.protocol),
        local: decode::address(key.family, &key.local, key.local_port),
        remote: decode::address(key.family, &key.remote, key.remote_port),
        process: None,
        packets: value.packets,
        bytes: value.bytes,
        sojourn_ns: value.sojourn_ns,
        sojourn_ns_max: value.sojourn_ns_max,
        untimed_packets: value.untimed_packets,
        untimed_bytes: value.untimed_bytes,
        socket_ino: value.socket_ino,
    }
}

/// All of a section of variables, which is a map of one entry.
fn variable(map: &impl MapCore) -> Vec<u8> {
    map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default()
}

/// Calls for each entry of a hash map.
fn each<K: Wire, V: Wire>(map: &impl MapCore, mut call: impl FnMut(K, V)) {
    let keys: Vec<Vec<u8>> = map.keys().collect();
    for key in keys {
        if let Ok(Some(value)) = map.lookup(&key, MapFlags::ANY) {
            call(wire::read(&key), wire::read(&value));
        }
    }
}

/// An epoll that tells of wake-ups only (edges): between them the ring is readable nearly always.
fn alarm(ring: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel returned a fresh descriptor that nobody else owns.
    let alarm = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
    // SAFETY: both descriptors are open, and the event outlives the call.
    let added = unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, ring.as_raw_fd(), &mut event) };
    if added < 0 { Err(std::io::Error::last_os_error()) } else { Ok(alarm) }
}

/// `CPU 1, 2, 3`.
fn listed(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    format!("CPU {}", cpus.join(", "))
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;
