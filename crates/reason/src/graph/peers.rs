//! Who is at the other end of what: an index of descriptors, children, threads, questions to name servers.
//!
//! Both ends of a connection are found by descriptor, so network namespaces do not matter; a connection that was closed
//! before the descriptors were read is found by the waits on it. Must not: choose between candidates, or follow anything
//! (responsible.rs).

use super::debts::Debts;
use crate::facts::*;
use crate::model::{Model, ThreadKey};
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::{Timelines, WaitSpan};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;

/// Open descriptors by what they are on, and processes by what they do with each other.
pub struct Peers<'a> {
    pub(super) model: &'a Model,
    pub(super) timelines: &'a Timelines,
    by_ino: HashMap<u64, Vec<&'a Endpoint>>,
    /// By process and descriptor.
    by_fd: HashMap<(u32, u32), &'a Endpoint>,
    by_pair: HashMap<(SocketAddr, SocketAddr), Vec<&'a Endpoint>>,
    listeners: HashMap<u16, Vec<&'a Endpoint>>,
    /// Sockets without a peer, by port: what is sent to a server by datagrams arrives there.
    datagram_servers: HashMap<u16, Vec<(&'a InetRef, &'a ThreadRef)>>,
    pub(super) servers: HashMap<DeviceNumber, Vec<&'a Endpoint>>,
    pub(super) masters: HashMap<String, Vec<&'a Endpoint>>,
    children: HashMap<u32, Vec<&'a ThreadRef>>,
    /// Of each process, who began it; several if its parent has ended meanwhile, or its number was given twice.
    parents: HashMap<u32, BTreeSet<u32>>,
    /// Of each process, by thread id.
    threads: HashMap<u32, Vec<&'a ThreadRef>>,
    /// What was read of futexes, by who waits.
    pub(super) futexes: HashMap<ThreadKey, Vec<&'a (Ns, FutexOwner)>>,
    /// Who waited on a connection, by its addresses as its own end has them.
    waited_pairs: HashMap<(SocketAddr, SocketAddr), Vec<&'a WaitSpan>>,
    /// Of each process, the threads that something outside of it held up.
    pub(super) held_outside: HashMap<u32, Vec<&'a ThreadRef>>,
    /// Waits on a socket or pipe, by inode.
    waited_on: HashMap<u64, Vec<&'a WaitSpan>>,
    /// Questions to name servers by who asks, in order of time: index into the model's.
    questions: HashMap<u32, Vec<usize>>,
    /// Who owes whom an answer.
    pub debts: Debts,
    /// How long each thread ran.
    ran_ns: HashMap<ThreadKey, Ns>,
    /// What each thread has begun, in order of time.
    pub(super) begun_by: HashMap<ThreadKey, Vec<&'a (Ns, Fork)>>,
    /// When who began inside the look.
    pub(super) births: HashMap<ThreadKey, Ns>,
    /// When who ended inside the look.
    pub(super) deaths: HashMap<ThreadKey, Ns>,
    /// Who that was, by who had the thread id when it ended.
    gone: HashSet<ThreadKey>,
    /// Threads that a signal ended, and when.
    pub(super) killed: HashMap<ThreadKey, Ns>,
}

/// The port that name servers listen at (RFC 1035).
const DNS_PORT: u16 = 53;

impl<'a> Peers<'a> {
    /// Indexes a model.
    pub fn new(model: &'a Model, timelines: &'a Timelines) -> Self {
        let mut peers = Self {
            model,
            timelines,
            by_ino: HashMap::new(),
            by_fd: HashMap::new(),
            by_pair: HashMap::new(),
            listeners: HashMap::new(),
            datagram_servers: HashMap::new(),
            servers: HashMap::new(),
            masters: HashMap::new(),
            children: HashMap::new(),
            parents: HashMap::new(),
            threads: HashMap::new(),
            futexes: HashMap::new(),
            waited_pairs: HashMap::new(),
            held_outside: HashMap::new(),
            waited_on: HashMap::new(),
            questions: HashMap::new(),
            debts: Debts::default(),
            ran_ns: HashMap::new(),
            begun_by: HashMap::new(),
            births: HashMap::new(),
            deaths: HashMap::new(),
            gone: HashSet::new(),
            killed: HashMap::new(),
        };
        // As wait(2) has it: the number of the signal.
        let by_signal = |exit: &Exit| exit.code.is_some_and(|code| code & 0x7f != 0);
        for (at_ns, exit) in model.threads.exits.iter().filter(|(_, exit)| by_signal(exit)) {
            peers.killed.insert(model.threads.key_at(&exit.thread, *at_ns), *at_ns);
        }
        for read in &model.held.futex_owners {
            let waiter = model.threads.key_at(&read.1.waiter, read.0);
            peers.futexes.entry(waiter).or_default().push(read);
        }
        for thread in model.threads.every_thread() {
            peers.threads.entry(thread.pid).or_default().push(thread);
        }
        for endpoint in &model.held.endpoints {
            peers.add_endpoint(endpoint);
        }
        let mut held = HashSet::new();
        for wait in timelines.waits() {
            peers.add_wait(wait);
            if wait.class.is_outside() && held.insert(model.threads.key(&wait.thread)) {
                peers.held_outside.entry(wait.thread.pid).or_default().push(&wait.thread);
            }
        }
        for (index, (_, query)) in model.net.dns_queries.iter().enumerate() {
            peers.questions.entry(query.thread.pid).or_default().push(index);
        }
        for time in &model.threads.times {
            let who = model.threads.key_at(&time.thread, time.until_ns);
            *peers.ran_ns.entry(who).or_default() += time.run_ns;
        }
        peers.add_children();
        peers.add_lives();
        let accepted = |socket: &InetRef| peers.is_accepted(socket);
        let mut debts = Debts::of(model, accepted, |socket| peers.far_turn(socket));
        debts.add_owed_before(model, accepted, |pid| peers.stood_until(pid));
        peers.debts = debts;
        peers
    }

    /// Until when no thread of a process ran since the look began; the begin of the look, if one was not seen to wait.
    fn stood_until(&self, pid: u32) -> Ns {
        let begin_ns = self.model.look.begin_ns;
        let waits_until = |thread: &&ThreadRef| {
            let before = self.waits_of(thread).iter().take_while(|wait| wait.begin_ns <= begin_ns);
            before.map(|wait| wait.end_ns).max().unwrap_or(begin_ns).max(begin_ns)
        };
        let threads = self.threads.get(&pid).into_iter().flatten();
        let there = threads.filter(|thread| thread.start_ns <= begin_ns);
        there.map(waits_until).min().unwrap_or(begin_ns)
    }

    fn add_endpoint(&mut self, endpoint: &'a Endpoint) {
        self.by_fd.insert((endpoint.process.pid, endpoint.fd), endpoint);
        match &endpoint.object {
            ObjectRef::Pipe { ino } | ObjectRef::Unix { ino, .. } => {
                self.by_ino.entry(*ino).or_default().push(endpoint);
            }
            ObjectRef::Inet(socket) => {
                self.by_ino.entry(socket.ino).or_default().push(endpoint);
                let pair = (socket.local, socket.remote);
                self.by_pair.entry(pair).or_default().push(endpoint);
                if socket.state == TCP_LISTEN {
                    let there = self.listeners.entry(socket.local.port()).or_default();
                    there.push(endpoint);
                }
                if socket.protocol == "udp" && socket.remote.port() == 0 {
                    let there = self.datagram_servers.entry(socket.local.port()).or_default();
                    there.push((socket, &endpoint.process));
                }
            }
            ObjectRef::FuseServer { dev } => {
                self.servers.entry(*dev).or_default().push(endpoint);
            }
            ObjectRef::Tty { name, .. } => {
                if let Some(index) = name.strip_prefix("ptm/") {
                    let slave = format!("pts/{index}");
                    self.masters.entry(slave).or_default().push(endpoint);
                }
            }
            _ => {}
        }
    }

    fn add_wait(&mut self, wait: &'a WaitSpan) {
        match &wait.place.object {
            Some(ObjectRef::Inet(socket)) => {
                self.waited_on.entry(socket.ino).or_default().push(wait);
                if socket.remote.port() != 0 {
                    let pair = (socket.local, socket.remote);
                    self.waited_pairs.entry(pair).or_default().push(wait);
                }
            }
            Some(ObjectRef::Unix { ino, .. } | ObjectRef::Pipe { ino }) => {
                self.waited_on.entry(*ino).or_default().push(wait);
            }
            _ => {}
        }
    }

    fn add_children(&mut self) {
        for (_, fork) in &self.model.threads.forks {
            if fork.child.pid != fork.parent.pid {
                self.children.entry(fork.parent.pid).or_default().push(&fork.child);
            }
        }
        let reported = self.model.threads.by_id.values().map(|it| (&it.thread, it.parent_pid));
        let walked = self.model.threads.times.iter().map(|time| (&time.thread, time.parent_pid));
        let model = self.model;
        let mut known: HashSet<(u32, ThreadKey)> = (self.children.iter())
            .flat_map(|(parent, all)| all.iter().map(|child| (*parent, model.threads.key(child))))
            .collect();
        for (thread, parent) in reported.chain(walked) {
            let is_main = thread.tid == thread.pid && parent != 0;
            if is_main && known.insert((parent, model.threads.key(thread))) {
                self.children.entry(parent).or_default().push(thread);
            }
        }
        for (parent, children) in &self.children {
            for child in children {
                self.parents.entry(child.pid).or_default().insert(*parent);
            }
        }
    }

    /// Who began a process. Of several the greatest number: an orphan belongs to the first process of its namespace.
    pub fn parent_of(&self, pid: u32) -> Option<u32> {
        self.parents.get(&pid)?.last().copied()
    }

    fn add_lives(&mut self) {
        let model = self.model;
        for fork in &model.threads.forks {
            self.begun_by.entry(model.threads.key(&fork.1.parent)).or_default().push(fork);
            self.births.entry(model.threads.key(&fork.1.child)).or_insert(fork.0);
        }
        for (at_ns, exit) in &model.threads.exits {
            self.deaths.entry(model.threads.key(&exit.thread)).or_insert(*at_ns);
            self.gone.insert(model.threads.key_at(&exit.thread, *at_ns));
        }
        // A zombie is no child that anything can be waited of.
        for wait in self.timelines.waits().filter(|wait| wait.class == WaitClass::Zombie) {
            let who = model.threads.key(&wait.thread);
            self.deaths.entry(who).or_insert(wait.begin_ns);
            self.gone.insert(who);
        }
    }

    /// Processes of a name: those in the waiter's network namespace where that is known of both.
    pub(super) fn named(&self, wait: &WaitSpan, comm: &str) -> Vec<ThreadRef> {
        let netns = |thread: &ThreadRef| {
            self.model
                .threads
                .identity(thread)
                .map(|identity| identity.netns)
                .filter(|netns| *netns != 0)
        };
        let own = netns(&wait.thread);
        let here = |thread: &&ThreadRef| {
            thread.comm == comm
                && thread.tid == thread.pid
                && own.is_none_or(|own| netns(thread).is_none_or(|other| other == own))
        };
        self.model.threads.names.values().filter(here).cloned().collect()
    }

    /// Every known thread of some processes, by thread id.
    pub fn threads_of(&self, pids: &[u32]) -> Vec<ThreadRef> {
        let mut threads: Vec<ThreadRef> = pids
            .iter()
            .filter_map(|pid| self.threads.get(pid))
            .flat_map(|threads| threads.iter().map(|thread| (*thread).clone()))
            .collect();
        threads.sort_by_key(|thread| thread.tid);
        threads.dedup();
        threads
    }

    /// The waits of one thread, by begin.
    pub fn waits_of(&self, thread: &ThreadRef) -> &'a [WaitSpan] {
        self.timelines.of(self.model.threads.key(thread))
    }

    /// The last wait of a thread that had begun by then, if it goes on.
    pub(super) fn wait_at(&self, thread: &ThreadRef, at_ns: Ns) -> Option<&'a WaitSpan> {
        let all = self.waits_of(thread);
        let last = all[..all.partition_point(|it| it.begin_ns <= at_ns)].last()?;
        (at_ns < last.end_ns).then_some(last)
    }

    /// The waits of a thread that lie within a time, or reach into it. A thread's waits follow one another.
    pub(super) fn waits_within(&self, thread: &ThreadRef, from: Ns, to: Ns) -> &'a [WaitSpan] {
        let all = self.waits_of(thread);
        let first = all.partition_point(|wait| wait.end_ns <= from);
        let last = all.partition_point(|wait| wait.begin_ns < to);
        &all[first..last.max(first)]
    }

    /// The waits of the same thread that begin after one, by begin.
    pub(super) fn waits_after(&self, wait: &WaitSpan) -> &'a [WaitSpan] {
        let all = self.waits_of(&wait.thread);
        &all[all.partition_point(|other| other.begin_ns <= wait.begin_ns)..]
    }

    /// The waits of the same thread that begin before one, by begin.
    pub(super) fn waits_before(&self, wait: &WaitSpan) -> &'a [WaitSpan] {
        let all = self.waits_of(&wait.thread);
        &all[..all.partition_point(|other| other.begin_ns < wait.begin_ns)]
    }

    /// Whether anything was seen of a thread: a wait, or time on a CPU.
    pub fn is_seen(&self, thread: &ThreadRef) -> bool {
        let ran = || self.timelines.seen_until(self.model.threads.key(thread)) > 0;
        !self.waits_of(thread).is_empty() || self.ran_ns(thread) > 0 || ran()
    }

    /// How long a thread ran.
    pub(super) fn ran_ns(&self, thread: &ThreadRef) -> Ns {
        self.ran_ns.get(&self.model.threads.key(thread)).copied().unwrap_or(0)
    }

    /// The process of who waited, by its main thread as of then.
    pub(super) fn process_of(&self, wait: &WaitSpan) -> ThreadRef {
        self.model.threads.thread_ref_at(wait.thread.pid, wait.end_ns)
    }

    /// What some descriptors of a process are on, as far as it was reported.
    pub(super) fn descriptors_of(&self, pid: u32, fds: &[u32]) -> Vec<&'a Endpoint> {
        fds.iter().filter_map(|fd| self.by_fd.get(&(pid, *fd)).copied()).collect()
    }

    /// The endpoints on an inode.
    pub fn endpoints_on(&self, ino: u64) -> &[&'a Endpoint] {
        self.by_ino.get(&ino).map_or(&[], Vec::as_slice)
    }

    /// Processes at the other end of a connection: by descriptor, or by their own waits on it where it was closed since.
    pub fn far_processes(&self, socket: &InetRef) -> Vec<ThreadRef> {
        let pair = (socket.remote, socket.local);
        let ends = self.by_pair.get(&pair).map_or(&[][..], Vec::as_slice);
        let open = ends.iter().map(|end| end.process.clone());
        let waited = self.waited_pairs.get(&pair).map_or(&[][..], Vec::as_slice);
        let mut all: Vec<ThreadRef> =
            open.chain(waited.iter().map(|wait| self.process_of(wait))).collect();
        if all.is_empty() && socket.protocol == "udp" && socket.remote.port() != 0 {
            let bound = |all| self.datagram_server(socket.remote, all);
            all.extend(bound(false).or_else(|| bound(true)));
        }
        all.sort_by_key(|process| process.pid);
        all.dedup_by_key(|process| process.pid);
        all
    }

    /// The clocks of a connection's other end, if it is here.
    pub(super) fn far_turn(&self, socket: &InetRef) -> Option<&'a TcpTurn> {
        let ends = self.by_pair.get(&(socket.remote, socket.local))?;
        ends.iter().find_map(|end| end.socket.as_ref()?.turn.as_ref())
    }

    /// Waits on a socket or a pipe.
    pub(super) fn waits_on(&self, ino: u64) -> &[&'a WaitSpan] {
        self.waited_on.get(&ino).map_or(&[], Vec::as_slice)
    }

    /// Waits on the far end of a connection.
    pub(super) fn far_waits(&self, socket: &InetRef) -> &[&'a WaitSpan] {
        self.waited_pairs.get(&(socket.remote, socket.local)).map_or(&[], Vec::as_slice)
    }

    /// Who listens at the other end of a connection that is already closed: an address of this host, or one whose
    /// listener ended the wait.
    pub(super) fn listeners(&self, socket: &InetRef, carrier: Option<u32>) -> Vec<ThreadRef> {
        let (far, near) = (socket.remote, socket.local);
        let listens = |end: &&&Endpoint| match &end.object {
            ObjectRef::Inet(own) => {
                let here = far.ip().is_loopback() || far.ip() == near.ip();
                own.local.ip() == far.ip()
                    || own.local.ip().is_unspecified() && here && own.netns == socket.netns
                    || carrier == Some(end.process.pid)
            }
            _ => false,
        };
        let all = self.listeners.get(&far.port()).map_or(&[][..], Vec::as_slice);
        all.iter().filter(listens).map(|end| end.process.clone()).collect()
    }

    /// The listeners that may still accept a connection that nobody has open: those whose queue is not empty, or not known. With an
    /// empty queue it was accepted and closed since, and what was sent before that is on its way. Of a command that has ended any
    /// listener: its connections were accepted before the queues were read.
    pub fn may_accept(&self, socket: &InetRef) -> Vec<ThreadRef> {
        let mut listeners = self.listeners(socket, None);
        let target = self.model.look.target.as_ref();
        if target.is_some_and(|target| target.kind == TargetKind::Command) {
            return listeners;
        }
        let all = self.listeners.get(&socket.remote.port()).map_or(&[][..], Vec::as_slice);
        let has_queue = |end: &Endpoint| end.socket.as_ref().is_none_or(|it| it.accept_queue > 0);
        listeners.retain(|of| all.iter().any(|end| end.process.pid == of.pid && has_queue(end)));
        listeners
    }

    /// Whether a wait is for data from somebody who connected to a listener of this host: for the next question, and
    /// for no answer. A socket that a listener gave has its name; where both ends have one, or none, it is not known.
    pub fn is_for_a_question(&self, wait: &WaitSpan) -> bool {
        match self.subject(wait) {
            Some(ObjectRef::Unix { ino, peer_ino, .. }) => {
                let is_named = |ino: u64| self.model.called.unix_path(ino).is_some();
                is_named(*ino) && !is_named(*peer_ino)
            }
            Some(ObjectRef::Inet(socket)) if socket.remote.port() == 0 => {
                socket.protocol == "udp" && socket.local.port() == DNS_PORT
            }
            Some(ObjectRef::Inet(socket)) => self.is_accepted(socket),
            _ => false,
        }
    }

    /// Whose next question a wait is for, if it is for one; 0 if that is not known. Of several that share the connection the one
    /// that is known to wait for an answer.
    pub fn question_of(&self, wait: &WaitSpan, asker: Option<u32>) -> Option<u32> {
        if !self.is_for_a_question(wait) {
            return None;
        }
        let far = match self.subject(wait) {
            Some(ObjectRef::Inet(socket)) => self.far_processes(socket),
            Some(ObjectRef::Unix { peer_ino, .. }) => {
                self.endpoints_on(*peer_ino).iter().map(|end| end.process.clone()).collect()
            }
            _ => Vec::new(),
        };
        // Closed since: of a connection within this host it may be whoever is known to wait.
        let is_within = matches!(self.subject(wait), Some(ObjectRef::Inet(socket))
            if socket.remote.ip().is_loopback() || socket.remote.ip() == socket.local.ip());
        let is_asker = |far: &&ThreadRef| Some(far.pid) == asker;
        let known = far.iter().find(is_asker).or(far.first()).map(|far| far.pid);
        Some(known.or(asker.filter(|_| is_within)).unwrap_or(0))
    }

    /// Whether a connection was made to a listener here, and this is the listener's end of it.
    pub fn is_accepted(&self, socket: &InetRef) -> bool {
        let here = |end: &&Endpoint| matches!(&end.object, ObjectRef::Inet(own) if own.netns == socket.netns);
        let listens =
            |port: u16| self.listeners.get(&port).is_some_and(|ends| ends.iter().any(here));
        listens(socket.local.port()) && !listens(socket.remote.port())
    }

    /// Processes that a process has begun, ended or not.
    pub(super) fn children_ever(&self, pid: u32) -> Vec<ThreadRef> {
        let children = self.children.get(&pid).map_or(&[][..], Vec::as_slice);
        children.iter().map(|child| self.model.threads.present(child)).collect()
    }

    /// Processes that a process has begun and that have not ended.
    pub(super) fn living_children(&self, pid: u32) -> Vec<ThreadRef> {
        let model = self.model;
        let ended = |child: &ThreadRef| self.gone.contains(&model.threads.key(child));
        let children = self.children.get(&pid).map_or(&[][..], Vec::as_slice);
        let alive = children.iter().filter(|child| !ended(child));
        alive.map(|child| model.threads.present(child)).collect()
    }

    /// Whether a process is another, or was begun by it, by one that it began, and so on.
    pub(super) fn descends(&self, pid: u32, from: u32) -> bool {
        const GENERATIONS_MAX: usize = 16;
        // Upwards: a process has one parent, and perhaps thousands of children.
        let mut at: BTreeSet<u32> = BTreeSet::from([pid]);
        for _ in 0..GENERATIONS_MAX {
            if at.contains(&from) {
                return true;
            }
            if at.is_empty() {
                return false;
            }
            at = at.iter().filter_map(|pid| self.parents.get(pid)).flatten().copied().collect();
        }
        false
    }

    /// The process of this host that answers at a name server's address: bound to it, or to all addresses.
    pub(super) fn name_server(&self, server: SocketAddr) -> Option<ThreadRef> {
        if server.port() != DNS_PORT {
            return None;
        }
        // Name servers take long questions by TCP, at the same address.
        let listens = |end: &&&Endpoint| matches!(&end.object, ObjectRef::Inet(own) if own.local.ip() == server.ip());
        let streams = self.listeners.get(&DNS_PORT).map_or(&[][..], Vec::as_slice);
        let by_stream = || streams.iter().find(listens).map(|end| end.process.clone());
        let bound = |all| self.datagram_server(server, all);
        bound(false).or_else(by_stream).or_else(|| bound(true))
    }

    /// The process of this host whose socket without a peer gets what is sent to an address: bound to it, or to `all`.
    fn datagram_server(&self, address: SocketAddr, all: bool) -> Option<ThreadRef> {
        let here = |(socket, _): &&(&InetRef, &ThreadRef)| match all {
            true => socket.local.ip().is_unspecified() && address.ip().is_loopback(),
            false => socket.local.ip() == address.ip(),
        };
        let there = self.datagram_servers.get(&address.port())?;
        there.iter().find(here).map(|(_, process)| (*process).clone())
    }

    /// A question to a name server that a process had sent and that was not answered before an interval began; of several
    /// the last that was sent before its end. Index into the model's questions.
    pub(super) fn open_question(&self, pid: u32, from: Ns, to: Ns) -> Option<usize> {
        let asked = self.questions.get(&pid)?;
        let is_open = |index: &&usize| {
            let (at, query) = &self.model.net.dns_queries[**index];
            let answered = self.model.net.dns_replies.iter().any(|(replied, reply)| {
                reply.id == query.id
                    && reply.server == query.server
                    && replied >= at
                    && *replied <= from
            });
            *at < to && !answered
        };
        asked.iter().rev().find(is_open).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::explain;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::{at_place, blocked, endpoint, host, of_process};
    use crate::waits::timeline::Observed;

    /// Process 10 asks 127.0.0.1:514 by a datagram; a process that sleeps is bound to an address and that port.
    fn asks_by_datagram(bound_to: &str) -> EndKind {
        let inet = |ino, local: &str, remote: &str| {
            ObjectRef::Inet(InetRef {
                ino,
                netns: 1,
                protocol: "udp".into(),
                local: local.parse().unwrap(),
                remote: remote.parse().unwrap(),
                state: 0,
            })
        };
        let near = inet(100, "127.0.0.1:40000", "127.0.0.1:514");
        let syscall = "recvfrom".to_string();
        let object = Some(near.clone());
        let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
        let asleep = blocked(20, "server", WaitState::Sleep, "nanosleep");
        let ends = vec![
            of_process(10, "client"),
            endpoint(10, "client", near),
            endpoint(20, "server", inet(200, bound_to, "0.0.0.0:0")),
            at_place(10, "client", place),
            asleep,
        ];
        explain([host(), ends].concat()).answer.ends[0].end
    }

    #[test]
    fn who_is_bound_where_a_datagram_goes_is_its_server() {
        assert_eq!(asks_by_datagram("127.0.0.1:514"), EndKind::Sleep);
        assert_eq!(asks_by_datagram("0.0.0.0:514"), EndKind::Sleep);
        assert_eq!(asks_by_datagram("0.0.0.0:515"), EndKind::Remote);
        assert_eq!(asks_by_datagram("10.0.0.1:514"), EndKind::Remote);
    }

    #[test]
    fn a_child_lives_though_an_ended_one_had_its_number() {
        const SECOND: Ns = 1_000_000_000;
        let of = |start_ns| ThreadRef { tid: 20, pid: 20, start_ns, comm: "sh".into() };
        let parent = ThreadRef { tid: 10, pid: 10, ..ThreadRef::default() };
        let fork = |start_ns| {
            let fork = Fork { parent: parent.clone(), child: of(start_ns), flags: 0 };
            Fact { at_ns: start_ns, body: Body::Fork(fork) }
        };
        let exit = Body::Exit(Exit { thread: of(2 * SECOND), last: true, code: None });
        let exit = Fact { at_ns: 3 * SECOND, body: exit };
        let facts = [host(), vec![fork(2 * SECOND), exit, fork(4 * SECOND)]].concat();
        let Observed { model, timelines } = Observed::new(facts);
        assert_eq!(Peers::new(&model, &timelines).living_children(10), [of(4 * SECOND)]);
    }
}
