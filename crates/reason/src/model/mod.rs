//! The facts of one look, indexed by area: what every rule reads.
//!
//! Facts are pushed in any order of arrival; `finish` sorts and links them once. Each area is a type in a file of its own, with
//! what it alone can answer; questions across areas are in lookup.rs, names in names.rs. The model holds what
//! was observed; what each wait is for is said in waits/, who is to blame in graph/ and rules/. Unknown stays absent: nothing
//! here is filled with a default that could be mistaken for a reading.
//!
//! Edit together: facts/mod.rs (a new variant needs an arm here and a `Push` in its area, see push.rs).

pub mod called;
pub mod containers;
pub mod cpu;
pub mod disk;
pub mod figures;
mod group_index;
pub mod held;
pub mod kernel_threads;
pub mod lifetimes;
pub mod limits;
pub mod look;
mod lookup;
pub mod membership;
pub mod memory;
pub mod names;
pub mod net;
pub mod object;
pub mod overlay;
mod push;
mod refused_packets;
mod sent_to;
pub mod stacks;
pub mod terminal;
mod thread_key;
pub mod threads;
mod translations;
mod waits;
pub mod words;

use crate::facts::{Body, Denied, Fact, ObjectRef, Unrouted};
use object::FileKey;
use push::Push;
pub use push::Series;
pub use thread_key::ThreadKey;
pub use waits::RawWaits;

/// Everything that was observed in one look.
#[derive(Debug, Default)]
pub struct Model {
    /// What was looked at, when and how well.
    pub look: look::Look,
    /// Who the facts speak of.
    pub threads: threads::Threads,
    /// Where they stood.
    pub stacks: stacks::Stacks,
    /// Who holds what.
    pub held: held::Held,
    /// CPUs, and what ran on them.
    pub cpu: cpu::Cpu,
    /// Memory.
    pub memory: memory::Memory,
    /// Disks.
    pub disk: disk::Disks,
    /// Network.
    pub net: net::Net,
    /// Groups of processes.
    pub containers: containers::Containers,
    /// What can be used up.
    pub limits: limits::Limits,
    /// Names of objects.
    pub called: called::Called,
    /// What threads waited for and when they ran, until the timelines take it.
    waits: RawWaits,
}

impl Model {
    /// Reads all facts of a look.
    pub fn new(facts: Vec<Fact>) -> Self {
        let mut model = Self::default();
        for fact in facts {
            model.push(fact);
        }
        model.finish();
        model
    }

    /// What the routes of his namespace say of an address that somebody was refused a connection to, if they send nothing there.
    pub fn unrouted(&self, denied: &Denied) -> Option<&Unrouted> {
        let identity = self.threads.identity(&denied.thread);
        let netns = identity.map(|it| it.netns).filter(|it| *it != 0);
        let found = self.net.unrouted(netns, denied.address?.ip().to_canonical())?;
        // Routes that were changed since, or those of another namespace, would have refused it otherwise.
        (found.answer.errno() == denied.errno).then_some(found)
    }

    /// Takes a fact in. What came stands in its place at once, waits only after `finish`.
    // LONG FUNCTION: an arm for each kind of fact, by name, so that a new one does not compile until it has a place.
    pub fn push(&mut self, fact: Fact) {
        let at = fact.at_ns;
        match fact.body {
            Body::Host(it) => self.look.push(at, it),
            Body::Blind(it) => self.look.push(at, it),
            Body::Target(it) => self.look.push(at, it),
            Body::WindowBegin(it) => {
                self.threads.begin(at);
                self.containers.begin();
                self.look.push(at, it);
            }
            Body::WindowEnd(it) => self.look.push(at, it),
            Body::CommandEnd(it) => self.look.push(at, it),
            Body::Cost(it) => self.look.push(at, it),
            Body::Lost(it) => self.look.push(at, it),
            Body::KernelLog(it) => self.look.push(at, it),

            Body::Thread(it) => self.threads.push(at, it),
            Body::ThreadTime(it) => self.threads.push(at, it),
            Body::Fork(it) => self.threads.push(at, it),
            Body::Exec(it) => self.threads.push(at, it),
            Body::Exit(it) => self.threads.push(at, it),
            Body::Signal(it) => self.threads.push(at, it),
            Body::Denied(it) => {
                self.learn(it.object.as_ref());
                self.threads.push(at, it);
            }

            Body::Wait(it) => {
                self.threads.name(&it.thread);
                for by in it.wake.iter().map(|wake| &wake.by).chain(&it.ran_before) {
                    self.threads.name(by);
                }
                self.learn(it.place.object.as_ref());
                self.waits.push(at, it);
            }
            Body::Blocked(it) => {
                self.threads.name(&it.thread);
                self.learn(it.place.object.as_ref());
                self.waits.push(at, it);
            }
            Body::Ran(it) => {
                self.threads.name(&it.thread);
                self.waits.push(at, it);
            }
            Body::Stack(it) => self.stacks.push(at, it),
            Body::UserStack(it) => {
                self.threads.mention(&it.thread);
                self.stacks.push(at, it);
            }
            Body::InterpreterLock(it) => self.stacks.push(at, it),
            Body::Goroutines(it) => self.stacks.push(at, it),
            Body::MonitorWaits(it) => self.stacks.push(at, it),
            Body::SessionWait(it) => self.stacks.push(at, it),
            Body::UnitJobs(it) => {
                for process in it.jobs.iter().flat_map(|job| &job.processes) {
                    self.threads.name(process);
                }
                self.stacks.unit_jobs.push((at, it));
            }

            Body::Endpoint(it) => {
                self.called.learn(&it.object);
                // Who stands in a listener's queue came to an address that may have no other socket yet.
                let first = it.socket.as_ref().and_then(|state| state.waiting.as_ref());
                if let (Some(first), ObjectRef::Inet(listener)) = (first, &it.object) {
                    self.called.learn_address(listener.netns, first.at);
                }
                self.threads.mention(&it.process);
                self.held.push(at, it);
            }
            Body::FileLock(it) => {
                if let Some(path) = &it.path {
                    self.called.learn_path(FileKey { dev: it.dev, ino: it.ino }, path);
                }
                for process in it.holders.iter().chain(&it.taker) {
                    self.threads.name(process);
                }
                self.held.push(at, it);
            }
            Body::FutexOwner(it) => {
                self.threads.mention(&it.waiter);
                self.held.push(at, it);
            }
            Body::SysvSemaphore(it) => {
                it.last.iter().for_each(|process| self.threads.name(process));
                self.held.push(at, it);
            }
            Body::SharedWord(it) => {
                it.users.iter().for_each(|process| self.threads.name(process));
                self.held.push(at, it);
            }

            Body::Disk(it) => self.disk.push(at, it),
            Body::DiskSample(it) => self.disk.push(at, it),
            Body::DiskCacheSample(it) => self.disk.push(at, it),
            Body::DiskLatency(it) => self.disk.push(at, it),
            Body::Request(it) => self.disk.push(at, it),
            Body::DiskUse(it) => self.disk.push(at, it),
            Body::Dirtied(it) => self.disk.push(at, it),
            Body::Mount(it) => self.disk.push(at, it),

            Body::Cgroup(it) => self.containers.push(at, it),
            Body::CgroupSample(it) => self.containers.push(at, it),
            Body::Container(it) => self.containers.push(at, it),
            Body::ContainerSample(it) => self.containers.push(at, it),

            Body::CpuSample(it) => self.cpu.push(at, it),
            Body::SoftirqSample(it) => self.cpu.push(at, it),
            Body::CpuFrequency(it) => self.cpu.push(at, it),
            Body::Samples(it) => self.cpu.push(at, it),
            Body::Work(it) => self.cpu.push(at, it),
            Body::Effort(it) => self.cpu.push(at, it),
            Body::Messages(it) => self.cpu.push(at, it),
            Body::SentTo(it) => self.called.sent_to.learn(&it),

            Body::MemorySample(it) => self.memory.push(at, it),
            Body::Pressure(it) => self.memory.push(at, it),
            Body::SharedSegment(it) => self.memory.push(at, it),
            Body::Reclaim(it) => self.memory.push(at, it),
            Body::CacheFill(it) => self.memory.push(at, it),
            Body::FileRefault(it) => {
                self.called.learn(&ObjectRef::File(it.file.clone()));
                self.memory.push(at, it);
            }
            Body::DirtyPause(it) => self.memory.push(at, it),
            Body::OomKill(it) => self.memory.push(at, it),
            Body::OomReport(it) => self.memory.push(at, it),

            Body::Link(it) => self.net.push(at, it),
            Body::QdiscSample(it) => self.net.push(at, it),
            Body::QdiscSojourn(it) => self.net.push(at, it),
            Body::QdiscFlow(it) => self.net.push(at, it),
            Body::PacketDrops(it) => self.net.push(at, it),
            Body::PortUse(it) => self.net.push(at, it),
            Body::ReceiveSteering(it) => self.net.push(at, it),
            Body::UnusableAddress(it) => self.net.push(at, it),
            Body::ReversePath(it) => self.net.push(at, it),
            Body::LinkSettings(it) => self.net.push(at, it),
            Body::FilterRule(it) => self.net.push(at, it),
            Body::PacketSocket(it) => {
                self.threads.mention(&it.process);
                self.net.push(at, it);
            }
            Body::TapReader(it) => {
                self.threads.mention(&it.process);
                self.net.push(at, it);
            }
            Body::DnsQuery(it) => {
                self.threads.mention(&it.thread);
                self.net.push(at, it);
            }
            Body::DnsReply(it) => self.net.push(at, it),
            Body::NetCounters(it) => self.net.push(at, it),
            Body::NextHop(it) => self.net.push(at, it),
            Body::NoWayBack(it) => self.net.push(at, it),
            Body::AddressHere(it) => {
                self.called.learn_address(it.far_netns, it.address);
                self.net.push(at, it);
            }
            Body::Unrouted(it) => self.net.push(at, it),
            Body::Translation(it) => {
                if let Some(netns) = it.far_netns {
                    self.called.learn_address(netns, it.far_local.ip());
                }
                self.called.translations.learn(&it);
            }
            Body::Sysctl(it) => self.net.push(at, it),

            Body::PermanentNeighbours(it) => self.limits.push(at, it),
            Body::Usage(it) => {
                for process in it.process.iter().chain(&it.writers) {
                    self.threads.mention(process);
                }
                self.limits.push(at, it);
            }
        }
    }

    fn learn(&mut self, object: Option<&ObjectRef>) {
        if let Some(object) = object {
            self.called.learn(object);
        }
    }

    /// Gives sockets that are not connected, and are waited for, the other ends that they send to.
    fn complete_sockets(&mut self) {
        // Few looks have any, and there may be a million waits.
        if self.called.sent_to.is_empty() {
            return;
        }
        let ended = self.waits.waits.iter_mut().map(|it| (it.thread.pid, &mut it.place));
        let standing = self.waits.blocked.iter_mut().map(|(_, it)| (it.thread.pid, &mut it.place));
        for (pid, place) in ended.chain(standing) {
            if let Some(completed) = self.called.sent_to.complete(pid, place) {
                self.called.learn_remote(completed);
            }
        }
    }

    /// Links what was taken in; once, after the last fact.
    pub fn finish(&mut self) {
        self.complete_sockets();
        self.look.finish(self.waits.last_end_ns());
        self.threads.finish();
        self.containers.finish(&self.threads);
        self.net.finish();
        self.disk.finish();
        let (net, held, threads, waits) = (&self.net, &self.held, &self.threads, &self.waits);
        let target = self.look.target.as_ref();
        let seen = refused_packets::Seen { net, held, threads, waits, target };
        let refused = refused_packets::all(seen);
        self.threads.denied.extend(refused);
        self.threads.denied.sort_by_key(|(at_ns, _)| *at_ns);
    }

    /// Hands the observed waits over to whoever makes timelines of them; once, after `finish`.
    pub fn take_waits(&mut self) -> RawWaits {
        std::mem::take(&mut self.waits)
    }
}
