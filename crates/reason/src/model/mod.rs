//! The facts of one look, indexed: what every rule reads.
//!
//! Facts are pushed in any order of arrival; `finish` sorts and links them once. The model holds what
//! was observed; what each wait is for is said in waits/, who is to blame in graph/ and rules/. Unknown stays absent: nothing here is filled with a default that could be
//! mistaken for a reading.
//!
//! Edit together: facts/mod.rs (a new body needs a place here), lookup.rs (how it is asked), threads.rs (who it is about).

mod group_index;
pub mod groups;
mod lifetimes;
mod lookup;
pub mod membership;
pub mod names;
pub mod object;
mod thread_key;
mod threads;
pub mod words;

use crate::facts::*;
use object::FileKey;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
pub use thread_key::ThreadKey;

/// Counters of one thing over time.
pub type Series<T> = Vec<(Ns, T)>;

/// A cgroup's counters at both ends of a look. There may be thousands of groups, and most do nothing: what stayed
/// as it was is held once.
#[derive(Debug)]
pub struct CgroupEnds {
    /// When the first was read.
    pub at_ns: Ns,
    /// The first reading.
    pub first: CgroupSample,
    last: Option<Box<CgroupSample>>,
}

impl CgroupEnds {
    /// The last reading.
    pub fn last(&self) -> &CgroupSample {
        self.last.as_deref().unwrap_or(&self.first)
    }
}

/// Everything that was observed in one look.
#[derive(Debug, Default)]
pub struct Model {
    /// The machine.
    pub host: Host,
    /// What is looked at.
    pub target: Option<Target>,
    /// The window.
    pub begin_ns: Ns,
    /// The window.
    pub end_ns: Ns,
    /// Wall clock at the begin, nanoseconds since 1970.
    pub begin_unix_ns: u64,
    /// How the window ended.
    pub window_end: WindowEnd,
    /// How the command ended.
    pub command_end: Option<(Ns, CommandEnd)>,
    /// What could not be seen.
    pub blind: Vec<Blind>,
    /// Events lost, by source.
    pub lost: BTreeMap<String, u64>,
    /// What it cost.
    pub cost: Cost,
    /// Kernel stacks by identity.
    pub stacks: HashMap<u32, Vec<String>>,
    /// User stacks by thread id, with when each was read.
    pub user_stacks: HashMap<u32, Series<UserStack>>,
    /// Locks of interpreters by process, every reading.
    pub interpreter_locks: HashMap<u32, Series<InterpreterLock>>,
    /// Goroutines that stood, by process, every reading.
    pub goroutines: HashMap<u32, Series<Goroutines>>,
    /// Who waited to enter a monitor of a Java program, by process, every reading.
    pub monitor_waits: HashMap<u32, Series<MonitorWaits>>,
    /// Identities by thread id, latest reading.
    pub threads: BTreeMap<u32, Thread>,
    /// Any name by which a thread id was mentioned.
    pub names: BTreeMap<u32, ThreadRef>,
    /// Sums by thread.
    pub times: Vec<ThreadTime>,
    /// Open descriptors, as they were last seen.
    pub endpoints: Vec<Endpoint>,
    /// When each of them was read.
    pub endpoints_at: Vec<Ns>,
    /// Sockets among them as they were at the begin.
    pub endpoints_before: Vec<(Ns, Endpoint)>,
    /// The lock table, every reading.
    pub locks: Series<FileLock>,
    /// Futex owners, every reading.
    pub futex_owners: Series<FutexOwner>,
    /// Mounts.
    pub mounts: Vec<Mount>,
    /// Disks by device number.
    pub disks: BTreeMap<DeviceNumber, Disk>,
    /// Disk counters.
    pub disk_samples: BTreeMap<DeviceNumber, Series<DiskSample>>,
    /// Disk caches by the cached disk.
    pub disk_caches: BTreeMap<DeviceNumber, Series<DiskCacheSample>>,
    /// Request latency sums.
    pub disk_latency: Vec<DiskLatency>,
    /// Long requests.
    pub requests: Vec<Request>,
    /// Who used which disk.
    pub disk_use: Vec<DiskUse>,
    /// Cgroup settings.
    pub cgroups: Vec<Cgroup>,
    /// Cgroup counters, by path and controllers.
    pub cgroup_counters: BTreeMap<(String, Vec<String>), Box<CgroupEnds>>,
    /// Containers.
    pub containers: Vec<Container>,
    /// More counters of the container that is looked at.
    pub container_samples: Series<ContainerSample>,
    /// CPU times by CPU.
    pub cpu_samples: BTreeMap<u32, Series<CpuSample>>,
    /// By CPU, in order of time.
    pub softirqs: BTreeMap<u32, Vec<SoftirqSample>>,
    /// How quickly each may run, in order of time.
    pub cpu_frequencies: BTreeMap<u32, Vec<CpuFrequency>>,
    /// Memory of the host.
    pub memory: Series<MemorySample>,
    /// Pressure of the host.
    pub pressure: Series<Pressure>,
    /// Shared anonymous segments.
    pub segments: Vec<SharedSegment>,
    /// Time in reclaim.
    pub reclaims: Vec<Reclaim>,
    /// Pages brought into the page cache.
    pub cache_fills: Vec<CacheFill>,
    /// Files whose pages were brought in again.
    pub file_refaults: Vec<FileRefault>,
    /// Pauses at the dirty limit.
    pub dirty_pauses: Vec<DirtyPause>,
    /// Kills for want of memory.
    pub oom_kills: Series<OomKill>,
    /// What the kernel printed about them.
    pub oom_reports: Series<OomReport>,
    /// Lines of the kernel's log.
    pub kernel_log: Series<KernelLogLine>,
    /// Interfaces.
    pub links: Vec<Link>,
    /// Queueing disciplines over time, by namespace, interface and handle (classes: with the class id).
    pub qdiscs: BTreeMap<(u32, String, String), Series<QdiscSample>>,
    /// Time in queueing disciplines.
    pub sojourns: Vec<QdiscSojourn>,
    /// Flows in queueing disciplines.
    pub flows: Vec<QdiscFlow>,
    /// DNS questions.
    pub dns_queries: Series<DnsQuery>,
    /// DNS answers.
    pub dns_replies: Series<DnsReply>,
    /// Protocol counters by namespace.
    pub net_counters: BTreeMap<u32, Series<NetCounters>>,
    /// Next hops by namespace and by the address that is sent to.
    pub next_hops: BTreeMap<(u32, IpAddr), NextHop>,
    /// Kernel settings.
    pub sysctls: BTreeMap<String, String>,
    /// New threads.
    pub forks: Series<Fork>,
    /// New programs.
    pub execs: Series<Exec>,
    /// Ended threads.
    pub exits: Series<Exit>,
    /// On-CPU samples.
    pub samples: Vec<Samples>,
    /// On-CPU samples by system call and by the file of the code.
    pub work: Vec<Work>,
    /// What sampled threads asked of the kernel.
    pub efforts: Vec<Effort>,
    /// Stop signals.
    pub signals: Series<Signal>,
    /// Refused system calls.
    pub denied: Series<Denied>,
    /// What threads waited for and when they ran, until the timelines take it.
    raw: RawWaits,
    /// What objects are called, as far as any sight of them reported.
    called: Called,
    /// Whose groups are.
    group_index: group_index::GroupIndex,
    /// Threads that had one id in turn.
    lives: thread_key::Lives,
}

/// Waits and stretches of running as they were observed.
#[derive(Debug, Default)]
pub struct RawWaits {
    /// Waits that ended.
    pub waits: Vec<Wait>,
    /// Waits found standing.
    pub blocked: Series<Blocked>,
    /// From, to, by thread id and start: the most frequent fact of a command, of which nothing else is asked.
    pub ran: BTreeMap<(u32, Ns), Vec<(Ns, Ns)>>,
}

/// Names of objects by their identity.
#[derive(Debug, Default)]
struct Called {
    files: HashMap<FileKey, String>,
    sockets: HashMap<u64, InetRef>,
    /// Peer and bound path of unix sockets, 0 and empty where not known.
    unix: HashMap<u64, (u64, String)>,
    terminals: HashMap<DeviceNumber, String>,
}

impl Called {
    fn learn(&mut self, object: &ObjectRef) {
        match object {
            ObjectRef::File(file) => {
                if let Some(path) = &file.path {
                    self.files.entry(file.into()).or_insert_with(|| path.clone());
                }
            }
            ObjectRef::Inet(socket) => {
                self.sockets.entry(socket.ino).or_insert_with(|| socket.clone());
            }
            ObjectRef::Unix { ino, peer_ino, path } => {
                let known = self.unix.entry(*ino).or_default();
                known.0 = if known.0 == 0 { *peer_ino } else { known.0 };
                if let Some(path) = path.as_ref().filter(|_| known.1.is_empty()) {
                    known.1.clone_from(path);
                }
            }
            ObjectRef::Tty { name, dev } if !name.starts_with("ptm/") => {
                self.terminals.entry(*dev).or_insert_with(|| name.clone());
            }
            _ => {}
        }
    }
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

    /// Takes a fact in. What came stands in its place at once, waits only after `finish`.
    pub fn push(&mut self, fact: Fact) {
        let at = fact.at_ns;
        match fact.body {
            Body::Host(host) => self.host = host,
            Body::Blind(blind) => {
                if !self.blind.contains(&blind) {
                    self.blind.push(blind);
                }
            }
            Body::Target(target) => self.target = Some(target),
            Body::WindowBegin(begin) => {
                self.begin_ns = at;
                self.begin_unix_ns = begin.unix_ns;
            }
            Body::WindowEnd(end) => {
                self.end_ns = at;
                self.window_end = end;
            }
            Body::CommandEnd(end) => self.command_end = Some((at, end)),
            Body::Cost(cost) => self.cost = cost,
            Body::Lost(lost) => *self.lost.entry(lost.source).or_default() += lost.count,
            Body::Stack(stack) => {
                self.stacks.insert(stack.id, stack.frames);
            }
            Body::Thread(_)
            | Body::ThreadTime(_)
            | Body::Wait(_)
            | Body::Blocked(_)
            | Body::Ran(_)
            | Body::UserStack(_)
            | Body::InterpreterLock(_)
            | Body::Goroutines(_)
            | Body::MonitorWaits(_)
            | Body::Fork(_)
            | Body::Exec(_)
            | Body::Exit(_)
            | Body::Samples(_)
            | Body::Work(_)
            | Body::Effort(_)
            | Body::Signal(_)
            | Body::Denied(_) => self.push_thread(at, fact.body),
            Body::Endpoint(endpoint) => self.push_endpoint(at, endpoint),
            Body::FileLock(lock) => {
                if let Some(path) = &lock.path {
                    let file = FileKey { dev: lock.dev, ino: lock.ino };
                    self.called.files.entry(file).or_insert_with(|| path.clone());
                }
                for process in lock.holders.iter().chain(&lock.taker) {
                    self.name(process);
                }
                self.locks.push((at, lock));
            }
            Body::FutexOwner(owner) => {
                self.mention(&owner.waiter);
                self.futex_owners.push((at, owner));
            }
            Body::Mount(mount) => self.mounts.push(mount),
            other => self.push_counter(at, other),
        }
    }

    /// The same descriptor on the same object again: the former sight was an earlier one.
    fn push_endpoint(&mut self, at: Ns, endpoint: Endpoint) {
        self.called.learn(&endpoint.object);
        self.mention(&endpoint.process);
        // Reported right after each other (look_end.rs), so the last one is enough to look at.
        let same = |known: &Endpoint| {
            known.process.pid == endpoint.process.pid
                && known.fd == endpoint.fd
                && known.object_ino() == endpoint.object_ino()
        };
        match self.endpoints.last_mut() {
            Some(known) if same(known) => {
                let before = std::mem::replace(known, endpoint);
                let before_at = self.endpoints_at.pop().unwrap_or(at);
                self.endpoints_before.push((before_at, before));
            }
            _ => self.endpoints.push(endpoint),
        }
        self.endpoints_at.push(at);
    }

    fn push_denied(&mut self, at: Ns, denied: Denied) {
        denied.object.iter().for_each(|object| self.called.learn(object));
        self.denied.push((at, denied));
    }

    fn push_thread(&mut self, at: Ns, body: Body) {
        match body {
            Body::Thread(thread) => {
                self.name(&thread.thread);
                self.threads.insert(thread.thread.tid, thread);
            }
            Body::ThreadTime(time) => {
                self.name(&time.thread);
                self.times.push(time);
            }
            Body::Wait(wait) => {
                self.name(&wait.thread);
                if let Some(wake) = &wait.wake {
                    self.name(&wake.by);
                }
                if let Some(before) = &wait.ran_before {
                    self.name(before);
                }
                if let Some(object) = &wait.place.object {
                    self.called.learn(object);
                }
                self.raw.waits.push(wait);
            }
            Body::Blocked(blocked) => {
                self.name(&blocked.thread);
                if let Some(object) = &blocked.place.object {
                    self.called.learn(object);
                }
                self.raw.blocked.push((at, blocked));
            }
            Body::Ran(ran) => {
                self.name(&ran.thread);
                let who = (ran.thread.tid, ran.thread.start_ns);
                self.raw.ran.entry(who).or_default().push((ran.begin_ns, ran.end_ns));
            }
            Body::UserStack(stack) => {
                self.mention(&stack.thread);
                self.user_stacks.entry(stack.thread.tid).or_default().push((at, stack));
            }
            Body::InterpreterLock(lock) => {
                self.interpreter_locks.entry(lock.pid).or_default().push((at, lock));
            }
            Body::Goroutines(all) => {
                self.goroutines.entry(all.pid).or_default().push((at, all));
            }
            Body::MonitorWaits(all) => {
                self.monitor_waits.entry(all.pid).or_default().push((at, all));
            }
            Body::Fork(fork) => {
                self.name(&fork.parent);
                self.name(&fork.child);
                self.forks.push((at, fork));
            }
            Body::Exec(exec) => {
                self.name(&exec.thread);
                self.execs.push((at, exec));
            }
            Body::Exit(exit) => {
                self.name(&exit.thread);
                self.exits.push((at, exit));
            }
            Body::Samples(samples) => self.samples.push(samples),
            Body::Work(work) => self.work.push(work),
            Body::Effort(effort) => self.efforts.push(effort),
            Body::Signal(signal) => self.signals.push((at, signal)),
            Body::Denied(denied) => self.push_denied(at, denied),
            _ => {}
        }
    }

    fn push_counter(&mut self, at: Ns, body: Body) {
        match body {
            Body::Disk(disk) => {
                self.disks.insert(disk.dev, disk);
            }
            Body::DiskSample(sample) => {
                self.disk_samples.entry(sample.dev).or_default().push((at, sample));
            }
            Body::DiskCacheSample(sample) => {
                self.disk_caches.entry(sample.dev).or_default().push((at, sample));
            }
            Body::DiskLatency(latency) => self.disk_latency.push(latency),
            Body::Request(request) => self.requests.push(request),
            Body::DiskUse(used) => self.disk_use.push(used),
            Body::Cgroup(cgroup) => self.cgroups.push(cgroup),
            Body::CgroupSample(sample) => self.push_cgroup_sample(at, sample),
            Body::Container(container) => self.containers.push(container),
            Body::ContainerSample(sample) => self.container_samples.push((at, sample)),
            Body::CpuSample(sample) => {
                self.cpu_samples.entry(sample.cpu).or_default().push((at, sample));
            }
            Body::SoftirqSample(sample) => {
                self.softirqs.entry(sample.cpu).or_default().push(sample);
            }
            Body::CpuFrequency(one) => self.cpu_frequencies.entry(one.cpu).or_default().push(one),
            Body::MemorySample(sample) => self.memory.push((at, sample)),
            Body::Pressure(pressure) => self.pressure.push((at, pressure)),
            Body::SharedSegment(segment) => self.segments.push(segment),
            Body::Reclaim(reclaim) => self.reclaims.push(reclaim),
            Body::CacheFill(fill) => self.cache_fills.push(fill),
            Body::FileRefault(one) => {
                self.called.learn(&ObjectRef::File(one.file.clone()));
                self.file_refaults.push(one);
            }
            Body::DirtyPause(pause) => self.dirty_pauses.push(pause),
            Body::OomKill(kill) => self.oom_kills.push((at, kill)),
            Body::OomReport(report) => self.oom_reports.push((at, report)),
            Body::KernelLog(line) => self.kernel_log.push((at, line)),
            Body::Link(link) => self.links.push(link),
            Body::QdiscSample(sample) => {
                let key = (sample.netns, sample.interface.clone(), sample.handle.clone());
                self.qdiscs.entry(key).or_default().push((at, sample));
            }
            Body::QdiscSojourn(sojourn) => self.sojourns.push(sojourn),
            Body::QdiscFlow(flow) => self.flows.push(flow),
            Body::DnsQuery(query) => {
                self.mention(&query.thread);
                self.dns_queries.push((at, query));
            }
            Body::DnsReply(reply) => self.dns_replies.push((at, reply)),
            Body::NetCounters(counters) => {
                self.net_counters.entry(counters.netns).or_default().push((at, counters));
            }
            Body::NextHop(hop) => {
                self.next_hops.insert((hop.netns, hop.destination), hop);
            }
            Body::Sysctl(sysctl) => {
                self.sysctls.insert(sysctl.name, sysctl.value);
            }
            _ => {}
        }
    }

    /// The key tells path and controllers, and the sample no more.
    fn push_cgroup_sample(&mut self, at_ns: Ns, mut sample: CgroupSample) {
        let key = (std::mem::take(&mut sample.path), std::mem::take(&mut sample.controllers));
        match self.cgroup_counters.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Box::new(CgroupEnds { at_ns, first: sample, last: None }));
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.last = (sample != known.first).then(|| Box::new(sample));
            }
        }
    }

    /// Of settings that were reported again, the last ones take the place of the first.
    fn keep_latest_cgroups(&mut self) {
        let mut first_at: HashMap<(&str, &[String]), usize> = HashMap::new();
        let mut again = Vec::new();
        for (at, group) in self.cgroups.iter().enumerate() {
            let first = *first_at.entry((&group.path, &group.controllers)).or_insert(at);
            if first != at {
                again.push((first, at));
            }
        }
        for (first, at) in &again {
            self.cgroups.swap(*first, *at);
        }
        let mut gone = again.iter().map(|(_, at)| *at).peekable();
        let mut places = 0..;
        self.cgroups.retain(|_| gone.next_if_eq(&places.next().unwrap_or(usize::MAX)).is_none());
    }

    /// Links what was taken in; once, after the last fact.
    pub fn finish(&mut self) {
        if self.end_ns == 0 {
            self.end_ns = self.raw.waits.iter().map(|w| w.end_ns).max().unwrap_or(self.begin_ns);
        }
        self.lives.finish(self.begin_ns);
        self.keep_latest_cgroups();
        self.index_groups();
        self.dns_queries.sort_by_key(|(at, _)| *at);
        self.forks.sort_by_key(|(at, _)| *at);
        for series in self.disk_samples.values_mut() {
            series.sort_by_key(|(at, _)| *at);
        }
    }

    /// Hands the observed waits over to whoever makes timelines of them; once, after `finish`.
    pub fn take_waits(&mut self) -> RawWaits {
        std::mem::take(&mut self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(path: &str, limit: u64) -> Body {
        let memory_limit_bytes = Some(limit);
        Body::Cgroup(Cgroup { path: path.into(), memory_limit_bytes, ..Cgroup::default() })
    }

    fn counters(path: &str, hits: u64) -> Body {
        let memory_limit_hits = Some(hits);
        Body::CgroupSample(CgroupSample {
            path: path.into(),
            memory_limit_hits,
            ..CgroupSample::default()
        })
    }

    fn model(bodies: Vec<Body>) -> Model {
        let at = |(at, body)| Fact { at_ns: at as Ns, body };
        Model::new(bodies.into_iter().enumerate().map(at).collect())
    }

    #[test]
    fn settings_reported_again_take_the_place_of_the_first() {
        let reported = [("/a", 1), ("/b", 2), ("/a", 3), ("/c", 4), ("/a", 5), ("/b", 6)];
        let model =
            model(reported.into_iter().map(|(path, limit)| settings(path, limit)).collect());
        let kept = model.cgroups.iter().map(|it| (it.path.as_str(), it.memory_limit_bytes));
        assert!(kept.eq([("/a", Some(5)), ("/b", Some(6)), ("/c", Some(4))]));
    }

    #[test]
    fn counters_are_kept_of_both_ends() {
        let reported = [("/a", 1), ("/b", 7), ("/a", 2), ("/b", 8), ("/a", 3), ("/b", 7)];
        let bodies = reported.into_iter().map(|(path, hits)| counters(path, hits)).collect();
        let model = model(bodies);
        let ends = |path: &str| {
            let group = Cgroup { path: path.into(), ..Cgroup::default() };
            let (first, last) = model.cgroup_change(&group)?;
            Some((first.memory_limit_hits?, last.memory_limit_hits?))
        };
        assert_eq!((ends("/a"), ends("/b"), ends("/c")), (Some((1, 3)), Some((7, 7)), None));
    }
}
