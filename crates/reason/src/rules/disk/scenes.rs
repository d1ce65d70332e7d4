//! Small scenes for the tests of the disk rules: one disk, who waits for it, who asks for what, which limits there are.
//!
//! Every fact is one that a test could have written itself; nothing here knows what a rule makes of it.

use crate::answer::explain;
use crate::facts::*;
use crate::rules::scenes::*;

pub(super) const DEV: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
pub(super) const MS: Ns = 1_000_000;

/// What a disk does all the time.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    /// Requests a second.
    pub per_second: u64,
    /// The time of each, milliseconds.
    pub ms: u64,
    /// How many are in flight.
    pub in_flight: u64,
    /// Busy for so many percent of the time.
    pub busy: u64,
}

/// A disk with its counters and its requests' time.
pub(super) fn disk(disk: Disk, rate: Rate) -> Vec<Fact> {
    disk_of(disk, rate, |tenth| rate.per_second * tenth / 10)
}

/// The same where the requests that are done by each tenth of a second are reported.
pub(super) fn disk_of(disk: Disk, rate: Rate, done: impl Fn(u64) -> u64) -> Vec<Fact> {
    let mut facts = host();
    facts.push(fact(Body::Disk(Disk { dev: DEV, ..disk })));
    for tenth in 0..=50 {
        let writes = done(tenth);
        let sample = DiskSample {
            dev: DEV,
            writes,
            write_bytes: writes * 4096,
            write_ms: writes * rate.ms,
            busy_ms: rate.busy * tenth,
            weighted_ms: 100 * rate.in_flight * tenth,
            ..DiskSample::default()
        };
        facts.push(Fact { at_ns: tenth * LOOK_NS / 50, body: Body::DiskSample(sample) });
    }
    let count = done(50);
    let mut service_us_log2 = vec![0; 20];
    service_us_log2[(rate.ms.max(1) * 1000).ilog2() as usize] = count;
    facts.push(fact(Body::DiskLatency(DiskLatency {
        dev: DEV,
        operation: DiskOperation::Write,
        count,
        service_ns: count * rate.ms * MS,
        service_ns_max: rate.ms * MS,
        service_us_log2,
        ..DiskLatency::default()
    })));
    facts
}

/// A disk of this name.
pub(super) fn named(name: &str) -> Disk {
    Disk { name: name.into(), ..Disk::default() }
}

/// A process that waits for the disk from and to these times, and sleeps otherwise.
pub(super) fn waiter(pid: u32, comm: &str, waits_ms: &[(Ns, Ns)]) -> Vec<Fact> {
    waits(thread(pid, comm), false, &reads_from(DEV), waits_ms)
}

/// A thread that waits at a place.
pub(super) fn waits(
    thread: ThreadRef,
    kernel: bool,
    place: &Place,
    waits_ms: &[(Ns, Ns)],
) -> Vec<Fact> {
    let waited: Ns = waits_ms.iter().map(|(begin, end)| (end - begin) * MS).sum();
    let time = ThreadTime {
        thread: thread.clone(),
        kernel,
        until_ns: LOOK_NS,
        disk_sleep_ns: waited,
        sleep_ns: LOOK_NS - waited,
        ..ThreadTime::default()
    };
    let mut facts = vec![fact(Body::ThreadTime(time))];
    for (begin_ms, end_ms) in waits_ms {
        let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
        let context = WakeContext::HardInterrupt;
        let wake = Some(Wake { at_ns: end_ns, context, disk: Some(DEV), ..Wake::default() });
        let (thread, place) = (thread.clone(), place.clone());
        let wait = Wait { thread, kernel, begin_ns, end_ns, place, wake, ..Wait::default() };
        facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
    }
    facts
}

/// A process that waits for commits of the journal, and the journal's thread that waits for the disk meanwhile.
pub(super) fn committer(pid: u32, comm: &str, waits_ms: &[(Ns, Ns)]) -> Vec<Fact> {
    let journal = thread(90, "jbd2/sda-8");
    let stack = |id, frames: &[&str]| {
        let frames = frames.iter().map(|frame| (*frame).to_string()).collect();
        fact(Body::Stack(Stack { id, frames }))
    };
    // Who waits for the commit waits for no request of his own.
    let place = |stack, syscall: &str| Place {
        stack,
        syscall: syscall.into(),
        iowait: syscall.is_empty(),
        ..reads_from(DEV)
    };
    let mut facts = vec![
        stack(71, &["jbd2_log_wait_commit", "ext4_sync_file", "do_fsync"]),
        stack(72, &["folio_wait_bit", "jbd2_journal_commit_transaction", "kjournald2", "kthread"]),
    ];
    facts.extend(waits(thread(pid, comm), false, &place(71, "fsync"), waits_ms));
    facts.extend(waits(journal, true, &place(72, ""), waits_ms));
    facts
}

/// What a process asked of the disk.
pub(super) fn used(pid: u32, comm: &str, writes: u64, cgroup_id: u64) -> Fact {
    fact(Body::DiskUse(DiskUse {
        dev: DEV,
        process: thread(pid, comm),
        writes,
        write_bytes: writes * 4096,
        cgroup_id,
        ..DiskUse::default()
    }))
}

/// A process in a group.
pub(super) fn member(pid: u32, comm: &str, path: &str) -> Fact {
    let cgroups = vec![Membership { controllers: vec!["blkio".into()], path: path.into() }];
    identity(Thread { thread: thread(pid, comm), cgroups, ..Thread::default() })
}

/// A group with what it may write a second, and what it wrote in the look.
pub(super) fn group(path: &str, dev: DeviceNumber, per_second: u64, wrote: u64) -> Vec<Fact> {
    let controllers = vec!["blkio".to_string()];
    let limit = IoLimit {
        dev,
        kind: "write_iops".into(),
        per_second,
        file: "blkio.throttle.write_iops_device".into(),
    };
    let mut facts = vec![fact(Body::Cgroup(Cgroup {
        path: path.into(),
        controllers: controllers.clone(),
        directory: format!("/sys/fs/cgroup/blkio{path}"),
        id: 77,
        io_limits: vec![limit],
        ..Cgroup::default()
    }))];
    for (at_ns, writes) in [(0, 0), (LOOK_NS, wrote)] {
        let io = vec![CgroupIo { dev, writes, write_bytes: writes * 4096, ..CgroupIo::default() }];
        let (path, controllers) = (path.into(), controllers.clone());
        let sample = CgroupSample { path, controllers, io, ..CgroupSample::default() };
        facts.push(Fact { at_ns, body: Body::CgroupSample(sample) });
    }
    facts
}

/// A long request.
pub(super) fn request(issue_ms: Ns, complete_ms: Ns) -> Fact {
    let (issue_ns, complete_ns) = (issue_ms * MS, complete_ms * MS);
    let request = Request { dev: DEV, bytes: 4096, issue_ns, complete_ns, ..Request::default() };
    Fact { at_ns: complete_ns, body: Body::Request(request) }
}

/// The codes of what is found.
pub(super) fn codes(facts: Vec<Fact>) -> Vec<String> {
    explain(facts).findings.into_iter().map(|finding| finding.code).collect()
}
