//! Small scenes for the tests of the process cases: a host, a client, a server.
//!
//! Owns only builders of facts; every wait stands for the whole look unless it says otherwise. No rule here, and
//! nothing that a test could not have written itself.

use crate::facts::*;

/// Length of the scenes, nanoseconds.
pub(crate) const LOOK_NS: Ns = 5_000_000_000;

/// A fact at the begin of the window.
pub(crate) fn fact(body: Body) -> Fact {
    Fact { at_ns: 0, body }
}

/// A single-threaded process.
pub(crate) fn thread(pid: u32, comm: &str) -> ThreadRef {
    ThreadRef { tid: pid, pid, start_ns: 1, comm: comm.into() }
}

/// A look at nothing in particular for five seconds.
pub(crate) fn host() -> Vec<Fact> {
    vec![
        fact(Body::WindowBegin(WindowBegin { unix_ns: 1 })),
        Fact { at_ns: LOOK_NS, body: Body::WindowEnd(WindowEnd::default()) },
    ]
}

/// The look is at one process.
pub(crate) fn of_process(pid: u32, comm: &str) -> Fact {
    let target = Target {
        kind: TargetKind::Process,
        name: comm.into(),
        pid,
        cgroups: Vec::new(),
        words: Vec::new(),
    };
    fact(Body::Target(target))
}

/// Who a thread is.
pub(crate) fn identity(thread: Thread) -> Fact {
    fact(Body::Thread(thread))
}

/// A wait that stands from the begin to the end of the look.
pub(crate) fn blocked(pid: u32, comm: &str, state: WaitState, syscall: &str) -> Fact {
    at_place(pid, comm, Place { state, syscall: syscall.into(), ..Place::default() })
}

/// The same at a place.
pub(crate) fn at_place(pid: u32, comm: &str, place: Place) -> Fact {
    let blocked = Blocked { thread: thread(pid, comm), place, ..Blocked::default() };
    Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
}

/// A call of a process that was refused; what and why is the caller's.
pub(crate) fn refusal(pid: u32, comm: &str, syscall: &str) -> Denied {
    Denied { thread: thread(pid, comm), syscall: syscall.into(), ..Denied::default() }
}

/// A sleep that the clock ended.
pub(crate) fn slept(pid: u32, comm: &str, begin_ns: Ns, end_ns: Ns) -> Fact {
    let place =
        Place { state: WaitState::Sleep, syscall: "clock_nanosleep".into(), ..Place::default() };
    let context = WakeContext::HardInterrupt;
    let wake = Some(Wake { at_ns: end_ns, context, ..Wake::default() });
    let thread = thread(pid, comm);
    let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
    Fact { at_ns: end_ns, body: Body::Wait(wait) }
}

/// Process 10, a script that each second runs a program which is refused and ends with a code, and then another that
/// sleeps; it is seen to wait for the first of those.
pub(crate) fn script_whose_children_are_refused(denied: &Denied, code: u32) -> Vec<Fact> {
    const SECOND: Ns = 1_000_000_000;
    const MS: Ns = 1_000_000;
    let of = |pid, start_ns, comm| ThreadRef { start_ns, ..thread(pid, comm) };
    let mut facts = [host(), vec![of_process(10, "sh")]].concat();
    let mut put = |at_ns, body| facts.push(Fact { at_ns, body });
    for (round, at) in (1..).zip([SECOND, 2 * SECOND, 3 * SECOND]) {
        let client = of(20 + round, at, &denied.thread.comm);
        let sleep = of(30 + round, at + 2 * MS, "sleep");
        for child in [client.clone(), sleep.clone()] {
            let at_ns = child.start_ns;
            put(at_ns, Body::Fork(Fork { parent: thread(10, "sh"), child, flags: 0 }));
        }
        let refused = Denied { thread: client.clone(), parent_pid: 10, ..denied.clone() };
        put(at + MS / 2, Body::Denied(refused));
        put(at + MS, Body::Exit(Exit { thread: client, last: true, code: Some(code) }));
        let Fact { at_ns, body } = slept(0, "", at + 3 * MS, at + SECOND - MS);
        if let Body::Wait(wait) = body {
            put(at_ns, Body::Wait(Wait { thread: sleep, ..wait }));
        }
    }
    let mut place = Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
    place.args[0] = 31;
    let end_ns = 2 * SECOND;
    let by = of(31, SECOND + 2 * MS, "sleep");
    let wake = Some(Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() });
    let begin_ns = SECOND + 3 * MS;
    let thread = thread(10, "sh");
    put(end_ns, Body::Wait(Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() }));
    facts
}

/// An flock on a whole file: its number, the file, and who has it, the first of whom took it.
pub(crate) fn file_lock(
    id: u64,
    (dev, ino): (DeviceNumber, u64),
    holders: &[ThreadRef],
) -> FileLock {
    let first = holders.first();
    FileLock {
        id,
        kind: "FLOCK".into(),
        access: "WRITE".into(),
        pid: first.map_or(0, |by| i64::from(by.pid)),
        comm: first.map_or_else(String::new, |by| by.comm.clone()),
        dev,
        ino,
        start: 0,
        end: u64::MAX,
        blocked: false,
        breaking: false,
        taker: None,
        holders: holders.to_vec(),
        open_in: Vec::new(),
        path: None,
    }
}

/// Process `pid` was asked about, and waits all the time for a file lock that another has.
pub(crate) fn behind_file_lock(pid: u32, holder: &ThreadRef) -> Vec<Fact> {
    let (dev, ino) = (DeviceNumber { major: 8, minor: 1 }, 9);
    let asks = Place {
        state: WaitState::Sleep,
        syscall: "flock".into(),
        object: Some(ObjectRef::File(FileRef { dev, ino, ..FileRef::default() })),
        ..Place::default()
    };
    let lock = file_lock(1, (dev, ino), std::slice::from_ref(holder));
    vec![
        of_process(pid, "job"),
        identity(Thread { thread: thread(pid, "job"), ..Thread::default() }),
        at_place(pid, "job", asks),
        Fact { at_ns: LOOK_NS, body: Body::FileLock(lock) },
    ]
}

/// In a read of a disk, by its device file.
pub(crate) fn reads_from(dev: DeviceNumber) -> Place {
    Place {
        state: WaitState::DiskSleep,
        iowait: true,
        syscall: "pread64".into(),
        object: Some(ObjectRef::File(FileRef { rdev: dev, ..FileRef::default() })),
        ..Place::default()
    }
}

/// An open descriptor.
pub(crate) fn endpoint(pid: u32, comm: &str, object: ObjectRef) -> Fact {
    descriptor(pid, 3, comm, object)
}

/// One of several.
pub(crate) fn descriptor(pid: u32, fd: u32, comm: &str, object: ObjectRef) -> Fact {
    fact(Body::Endpoint(Endpoint {
        process: thread(pid, comm),
        fd,
        readable: true,
        writable: true,
        nonblocking: false,
        object,
        unread: None,
        output_stopped: false,
        socket: None,
    }))
}

/// A client that waits for an answer of process 20 all the time, and what process 20 does.
pub(crate) fn client_and_server(server: Fact) -> Vec<Fact> {
    let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
    let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: Some("/run/s".into()) };
    let place = Place {
        state: WaitState::Sleep,
        syscall: "read".into(),
        object: Some(near.clone()),
        ..Place::default()
    };
    vec![
        endpoint(10, "client", near),
        endpoint(20, "server", far),
        at_place(10, "client", place),
        server,
    ]
}
