//! A lock on NFS: which service of a host the kernel's own functions stand waiting for.
//!
//! A lock on NFS (version 2 and 3) is asked for in steps, each of which somebody must answer before anybody can hold anything: the
//! host's rpc.statd, which watches the other end for a restart, then the server's lock manager, a kernel thread that asks its own
//! rpc.statd. The kernel asks over a socket that belongs to no process, so its functions tell the step, and the service's name
//! the process. Must not: look into a lock table, which knows the holder alone.

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::serving::chosen;
use crate::graph::ways::way::Way;
use crate::waits::timeline::WaitSpan;
use crate::waits::{LOCKD_FUNCTIONS, STATD_FUNCTIONS, WaitClass};

/// The way.
pub(super) static WAY: Way = Way {
    name: "lock service",
    because: "the kernel stands waiting for that service before it may lock",
    of: &[WaitClass::FileLock],
    thresholds: &[],
    follow: |at| lock_service(at.index, at.wait).map(Next::Thread),
};

/// A lock on NFS (version 2 and 3) is asked for in steps, each of which somebody must answer before anybody can
/// hold anything: the host's rpc.statd, which watches the other end for a restart, then the server's lock
/// manager, a kernel thread that asks its own rpc.statd. The kernel asks over a socket that belongs to no
/// process, so its functions tell the step, and the service's name the process.
fn lock_service(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let stands_in = |wait: &WaitSpan, functions: &[&str]| {
        let mut frames = index.model.stacks.kernel(wait.place.stack).iter();
        frames.any(|frame| functions.contains(&frame.as_str()))
    };
    if stands_in(wait, STATD_FUNCTIONS) {
        return chosen(index, wait, named(index, wait, "rpc.statd"));
    }
    if !stands_in(wait, LOCKD_FUNCTIONS) {
        return None;
    }
    let stuck = |manager: &ThreadRef| {
        let mut waits = index.waits.of(manager).iter();
        waits.any(|other| {
            stands_in(other, STATD_FUNCTIONS) && other.within_ns(wait.begin_ns, wait.end_ns) > 0
        })
    };
    named(index, wait, "lockd").into_iter().find(stuck)
}

/// Processes of a name: those in the waiter's network namespace where that is known of both.
fn named(index: &Index<'_>, wait: &WaitSpan, comm: &str) -> Vec<ThreadRef> {
    let netns = |thread: &ThreadRef| {
        index
            .model
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
    index.model.threads.names.values().filter(here).cloned().collect()
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// Process 10 locks a file on NFS; rpc.statd polls a name server that is silent. `stacks` are those of process
    /// 10 and of the kernel's lock manager.
    fn nfs_lock(stacks: [&[&str]; 2]) -> Vec<Fact> {
        let mut facts = host();
        for (id, frames) in (1..).zip(stacks) {
            let frames = frames.iter().map(|frame| (*frame).to_string()).collect();
            facts.push(fact(Body::Stack(Stack { id, frames })));
        }
        let dev = DeviceNumber { major: 0, minor: 40 };
        let path = Some("/mnt/nfs/file".into());
        let place = |syscall: &str, object, stack| Place {
            state: WaitState::DiskSleep,
            syscall: syscall.into(),
            object,
            stack,
            ..Place::default()
        };
        let file = ObjectRef::File(FileRef { dev, ino: 9, path, ..FileRef::default() });
        facts.push(at_place(10, "flock", place("flock", Some(file), 1)));
        let lockd = Blocked {
            thread: thread(20, "lockd"),
            kernel: true,
            place: place("", None, 2),
            ..Blocked::default()
        };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Blocked(lockd) });
        let question = ObjectRef::Inet(InetRef {
            ino: 7,
            netns: 1,
            protocol: "udp".into(),
            local: "127.0.0.1:40000".parse().expect("address"),
            remote: "127.0.0.1:53".parse().expect("address"),
            state: 0,
        });
        let mut asks = place("poll", Some(question), 0);
        asks.state = WaitState::Sleep;
        facts.push(at_place(30, "rpc.statd", asks));
        facts
    }

    fn chain(facts: Vec<Fact>) -> (String, Vec<String>) {
        let first = explain(facts).findings.remove(0);
        (first.code, first.chain.into_iter().map(|link| link.who.name).collect())
    }

    const MONITORS: &[&str] = &["rpc_wait_bit_killable", "rpc_call_sync", "nsm_mon_unmon"];
    const SERVES: &[&str] = &["svc_recv", "lockd"];

    #[test]
    fn a_lock_on_nfs_waits_for_the_hosts_statd_and_whom_that_waits_for() {
        let (code, chain) = chain(nfs_lock([MONITORS, SERVES]));
        assert_eq!((&*code, chain), ("net.dns_timeout", vec!["flock".into(), "rpc.statd".into()]));
    }

    #[test]
    fn a_lock_manager_on_this_host_is_a_link_if_it_waits_for_statd_itself() {
        let asks: &[&str] = &["rpc_wait_bit_killable", "nlmclnt_call", "nlmclnt_proc"];
        let (code, through) = chain(nfs_lock([asks, MONITORS]));
        assert_eq!(
            (&*code, through),
            ("net.dns_timeout", vec!["flock".into(), "lockd".into(), "rpc.statd".into()])
        );
        let (code, through) = chain(nfs_lock([asks, SERVES]));
        assert_eq!((&*code, through), ("lock.file", vec!["flock".into()]));
    }
}
