//! Wire to fact: the bytes of a kernel record become observations. Pure but for the names of kernel
//! functions and mounts, which it is given; fuzzed.
//!
//! Any bytes may come in: a record that is too short or of an unknown kind is counted, never trusted. This file knows which kind
//! is read by which; what a kind says stands in a file of its own, and what they share in values.rs.
//! Edit together: bpf/wire.h, thread.rs (threads of the iterator, and those that end), refused.rs.

pub mod cache_sums;
pub mod disk_sums;
pub mod dns;
mod lock;
pub mod messages;
mod mounts;
mod place;
mod refused;
pub mod samples;
pub mod sent;
mod socket;
pub mod stacks;
mod thread;
pub mod values;
pub mod wire;

pub use thread::ThreadRecord;

use holdup_reason::facts::*;
use place::{nagle, place};
use stacks::Stacks;
use thread::{Names, Threads};
use values::*;
use wire::{field, part, *};

/// Turns records into facts. Remembers what makes a record readable: stacks, mounts, estimated begins.
#[derive(Default)]
pub struct Decoder {
    /// Names of stacks, locks and paths.
    pub names: Names,
    /// What is known of threads.
    pub threads: Threads,
    /// Ticks a second of `chrono` in TCP sockets.
    pub hz: u32,
    /// Size of a page.
    pub page_bytes: u64,
    /// Records that could not be read.
    pub unreadable: u64,
    /// Records read.
    pub events: u64,
    /// Of those the waits of traced threads.
    pub traced_events: u64,
}

impl Decoder {
    /// One that reads no file: stacks are reported by their addresses.
    pub fn of_bytes_alone() -> Self {
        let names = Names { stacks: Stacks::unnamed(), ..Names::default() };
        Self { names, ..Self::default() }
    }

    /// Another window begins where the last walk was: what it reports must be readable without the facts of the one before.
    pub fn next_window(&mut self, mounts: Vec<Mount>) {
        self.names.stacks.forget();
        self.names.locks.forget();
        self.names.mounts.replace(mounts);
        self.threads.next_window();
    }

    /// Reads one record of the ring into facts.
    pub fn record(&mut self, bytes: &[u8], facts: &mut Vec<Fact>) {
        let head: wire_head = wire::read(bytes);
        let before = facts.len();
        let kind = wire_kind(head.kind);
        let mut push = |body| facts.push(Fact { at_ns: head.at_ns, body });
        match kind {
            wire_kind::WIRE_WAIT => self.wait(head.at_ns, bytes, facts),
            wire_kind::WIRE_FORK => {
                let fork: wire_fork = wire::read(bytes);
                push(Body::Fork(Fork {
                    parent: thread_ref(&fork.parent),
                    child: thread_ref(&fork.child),
                    flags: fork.flags,
                }));
            }
            wire_kind::WIRE_EXEC => {
                let exec: wire_exec = wire::read(bytes);
                push(Body::Exec(Exec {
                    thread: thread_ref(&exec.thread),
                    path: wire::text(&exec.path),
                    inner_pid: Some(exec.inner_pid).filter(|pid| *pid != 0),
                    words: words(&exec),
                }));
            }
            wire_kind::WIRE_EXIT => self.threads.exit(&wire::read(bytes), facts),
            wire_kind::WIRE_REQUEST => push(Body::Request(request(&wire::read(bytes)))),
            wire_kind::WIRE_OOM => {
                let oom: wire_oom = wire::read(bytes);
                push(Body::OomKill(OomKill {
                    victim: thread_ref(&oom.victim),
                    cgroup_id: oom.memory_cgroup_id,
                    private_bytes: oom.private_pages.saturating_mul(self.page_bytes),
                }));
            }
            wire_kind::WIRE_SIGNAL => {
                let signal: wire_signal = wire::read(bytes);
                push(Body::Signal(Signal {
                    from: thread_ref(&signal.from),
                    to: thread_ref(&signal.to),
                    signal: i32::from(signal.signal),
                    ignored: signal.ignored != 0,
                    inner_pid: Some(signal.inner_pid).filter(|pid| *pid != 0),
                }));
            }
            wire_kind::WIRE_DNS_QUERY | wire_kind::WIRE_DNS_REPLY => {
                if let Some(body) = dns::fact(&wire::read(bytes), kind) {
                    push(body);
                }
            }
            wire_kind::WIRE_DENIED => {
                let denied = refused::refused(&mut self.names.mounts, bytes);
                facts.push(Fact { at_ns: head.at_ns, body: Body::Denied(denied) });
            }
            _ => {}
        }
        if facts.len() == before && kind != wire_kind::WIRE_DNS_REPLY {
            self.unreadable += 1;
        }
        self.events += 1;
        if self.names.stacks.has_new() {
            self.reported_stacks(head.at_ns, facts);
        }
    }

    /// Appends the stacks that became known, after the facts that name them.
    pub fn reported_stacks(&mut self, at_ns: Ns, facts: &mut Vec<Fact>) {
        for stack in self.names.stacks.take_new() {
            facts.push(Fact { at_ns, body: Body::Stack(stack) });
        }
    }

    /// The record is read field by field, in place: see `wire::field`.
    fn wait(&mut self, at_ns: Ns, record: &[u8], facts: &mut Vec<Fact>) {
        let thread = thread_ref(&field!(record, wire_wait, thread));
        let flags = field!(record, wire_wait, flags);
        let flag = |bit: wire_flag| flags & bit.0 != 0;
        self.traced_events += u64::from(flag(wire_flag::WIRE_FLAG_TRACED));
        let left_ns = field!(record, wire_wait, begin_ns);
        let mut begin_ns = left_ns;
        let begin_estimated = flag(wire_flag::WIRE_FLAG_BEGIN_UNSEEN);
        if begin_estimated {
            // Once: a later wait whose begin was lost did not begin before the look.
            begin_ns = self.threads.begins.remove(&thread.tid).unwrap_or(begin_ns).min(begin_ns);
        }
        let ran_since_ns = field!(record, wire_wait, ran_since_ns);
        if ran_since_ns != 0 && flag(wire_flag::WIRE_FLAG_TRACED) {
            let body = Body::Ran(Ran {
                thread: thread.clone(),
                begin_ns: ran_since_ns,
                end_ns: left_ns,
                cpu: field!(record, wire_wait, place.cpu).into(),
            });
            facts.push(Fact { at_ns, body });
        }
        let ran_before = field!(record, wire_wait, ran_before);
        let at = part!(record, wire_wait, place);
        let path_bytes = field!(record, wire_wait, path_bytes);
        let words = part!(record, wire_wait, path);
        let path = self.names.mounts.path(
            thread.pid,
            words,
            path_bytes,
            field!(at, wire_place, object.dev),
        );
        let nagle = nagle(at).filter(|it| it.sent_ns > begin_ns);
        let stands =
            place(&mut self.names.stacks, at, (flag(wire_flag::WIRE_FLAG_IOWAIT), false), path);
        let lock = self.names.locks.lock(part!(record, wire_wait, lock)).map(Box::new);
        let place = Place { nagle, lock, ..stands };
        let wake = wake(record, flag(wire_flag::WIRE_FLAG_WAKER_KERNEL));
        facts.push(Fact {
            at_ns,
            body: Body::Wait(Wait {
                kernel: flag(wire_flag::WIRE_FLAG_KERNEL),
                begin_ns,
                end_ns: at_ns,
                place,
                wake,
                ran_before: (ran_before.tid != 0).then(|| thread_ref(&ran_before)),
                throttled: flag(wire_flag::WIRE_FLAG_THROTTLED),
                cpu_cgroup_id: field!(record, wire_wait, cpu_cgroup_id),
                cgroup_id: field!(record, wire_wait, cgroup_id),
                begin_estimated,
                thread,
            }),
        });
    }

    /// Reads one entry of the task iterator.
    pub fn thread(&mut self, bytes: &[u8], own_tid: u32) -> ThreadRecord {
        self.threads.thread(&mut self.names, bytes, own_tid)
    }

    /// Reads one entry of the descriptor iterator.
    pub fn endpoint(&mut self, bytes: &[u8]) -> Option<Endpoint> {
        let record: wire_endpoint = wire::read(bytes);
        let path = (record.path_bytes > 0).then(|| unix_path(&record.path, record.path_bytes));
        let object = object(&record.object, path)?;
        let socket = (record.has_socket != 0).then(|| socket::state(&record.socket, self.hz));
        let unread = match (&object, &socket) {
            (ObjectRef::Inet(_), Some(socket)) => Some(socket.receive_queued_bytes),
            (ObjectRef::Unix { .. }, _) => Some(u64::from(record.unread)),
            _ => None,
        };
        Some(Endpoint {
            process: thread_ref(&record.process),
            fd: record.fd,
            readable: record.mode & 1 != 0,
            writable: record.mode & 2 != 0,
            nonblocking: record.file_flags & libc::O_NONBLOCK as u32 != 0,
            output_stopped: matches!(object, ObjectRef::Tty { .. }) && record.unread != 0,
            object,
            unread,
            socket,
        })
    }
}

/// What ended a wait; nothing if the thread was never blocked.
fn wake(record: &[u8], by_kernel_thread: bool) -> Option<Wake> {
    let at_ns = field!(record, wire_wait, wake_ns);
    if at_ns == 0 {
        return None;
    }
    let disk = field!(record, wire_wait, wake_disk);
    Some(Wake {
        at_ns,
        context: match wire_context(field!(record, wire_wait, context)) {
            wire_context::WIRE_CONTEXT_TASK => WakeContext::Task,
            wire_context::WIRE_CONTEXT_SOFTIRQ => WakeContext::SoftInterrupt,
            wire_context::WIRE_CONTEXT_HARDIRQ => WakeContext::HardInterrupt,
            _ => WakeContext::Unknown,
        },
        by: thread_ref(&field!(record, wire_wait, waker)),
        by_kernel_thread,
        disk: (disk != 0).then(|| device(disk)),
    })
}

fn request(record: &wire_request) -> Request {
    // __REQ_SYNC and __REQ_META: bits 11 and 12 since 4.10, stable since.
    Request {
        dev: device(record.dev),
        operation: operation(record.operation),
        sector: record.sector,
        bytes: record.bytes,
        insert_ns: record.insert_ns,
        issue_ns: record.issue_ns,
        complete_ns: record.head.at_ns,
        by: thread_ref(&record.by),
        metadata: record.operation & (1 << 12) != 0,
        sync: record.operation & (1 << 11) != 0,
        error: record.error != 0,
    }
}

/// The arguments of an executed program, each behind the other with its NUL.
fn words(exec: &wire_exec) -> Vec<String> {
    let bytes: Vec<u8> = exec.words.iter().map(|&byte| byte as u8).collect();
    let given = &bytes[..bytes.len().min(exec.words_bytes as usize)];
    let given = given.strip_suffix(&[0]).unwrap_or(given);
    if given.is_empty() {
        return Vec::new();
    }
    given.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_their_nul_or_where_the_record_ends() {
        let mut exec: wire_exec = wire::read(&[]);
        let given = b"git\0gc\0--auto\0";
        for (at, byte) in given.iter().enumerate() {
            exec.words[at] = *byte as _;
        }
        exec.words_bytes = given.len() as u32;
        assert_eq!(words(&exec), ["git", "gc", "--auto"]);
        exec.words_bytes = 9;
        assert_eq!(words(&exec), ["git", "gc", "--"]);
        exec.words_bytes = u32::MAX;
        assert!(words(&exec).len() > 3, "what is behind the last word is empty words, and no harm");
        exec.words_bytes = 0;
        assert!(words(&exec).is_empty());
    }

    #[test]
    fn any_bytes_are_counted_and_do_no_harm() {
        let mut decoder = Decoder::default();
        let mut facts = Vec::new();
        decoder.record(&[], &mut facts);
        decoder.record(&[0xff; 7], &mut facts);
        assert!(facts.is_empty());
        assert_eq!(decoder.unreadable, 2);
    }
}
