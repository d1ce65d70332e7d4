//! The readers on checked-in trees (`tests/fixtures`), and on the test's own process.
//!
//! `v1` is a small Docker host of Linux 5.10, `v2` one with the unified hierarchy alone; `none` does
//! not exist. Of the real /proc nothing is expected but what this process does itself.

use super::cgroup_samples;
use super::cgroups::Cgroups;
use super::locks::LockTable;
use super::net_counters::net_counters;
use super::opened::Settings;
use super::reader::Reader;
use super::sampler::Sampler;
use super::settings;
use super::shared::shared_segments;
use super::thread_times::ThreadTimes;
use super::threads::{Asked, thread, threads, threads_of};
use super::waits::unprivileged_waits;
use super::*;
use crate::system::clock::now;
use crate::system::namespaces::network_namespaces;
use crate::system::status::thread_inside;
use crate::system::units::page_bytes;
use crate::system::{Roots, text};
use holdup_reason::facts::*;
use std::collections::BTreeMap;
use std::path::Path;

fn fixture(name: &str) -> Roots {
    Roots::under(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name))
}

/// All facts of one kind.
macro_rules! only {
    ($kind:ident, $facts:expr) => {
        $facts
            .iter()
            .filter_map(|body| match body {
                Body::$kind(fact) => Some(fact.clone()),
                _ => None,
            })
            .collect::<Vec<$kind>>()
    };
}

fn dev(major: u32, minor: u32) -> DeviceNumber {
    DeviceNumber { major, minor }
}

fn docker() -> String {
    "/docker/3f2a9c0d4e5b6a7788990011223344556677889900aabbccddeeff0011223344".into()
}

#[test]
fn paths_stay_under_the_roots() {
    let roots = Roots { proc: "/p".into(), sys: "/s".into(), root: "/r".into() };
    assert_eq!(roots.resolve("/sys/fs/cgroup"), Path::new("/s/fs/cgroup"));
    assert_eq!(roots.resolve("/system"), Path::new("/r/system"));
    assert_eq!(roots.resolve("/proc"), Path::new("/p/"));
    assert_eq!(Roots::default().resolve("/sys/fs"), Path::new("/sys/fs"));
}

#[test]
fn the_host() {
    let host = host::host(&fixture("v1"));
    assert_eq!((&*host.hostname, &*host.kernel), ("hermes", "5.10.0-28-amd64"));
    assert_eq!((host.cpus, host.memory_bytes), (4, 8_000_000 * 1024));
    assert!(host.cgroup_v1 && !host.cgroup_v2);
    assert_eq!(host.fq_codel, Some(true), "a module lies ready");
    assert_eq!(host::host(&fixture("v2")).fq_codel, None, "no file tells");
    let sysctls = host::sysctls(&fixture("v1"));
    let rmem = sysctls.iter().find(|sysctl| sysctl.name == "net.ipv4.tcp_rmem").unwrap();
    assert_eq!(rmem.value, "4096 131072 6291456");
    assert_eq!(sysctls.len(), 4);
}

#[test]
fn disks_and_what_they_stand_on() {
    let facts = settings::read(&fixture("v1")).facts;
    let disks: BTreeMap<String, Disk> =
        only!(Disk, facts).into_iter().map(|disk| (disk.name.clone(), disk)).collect();
    let sda = &disks["sda"];
    assert_eq!((&*sda.scheduler, sda.rotational, sda.requests_max), ("bfq", true, 256));
    assert_eq!(sda.partitions, [dev(8, 1), dev(8, 2)]);
    assert_eq!(disks["dm-0"].below, [dev(8, 0)]);
    assert_eq!(disks["dm-0"].mapped_name.as_deref(), Some("vg-data"));
    assert_eq!(disks["md0"].below, [dev(7, 2), dev(7, 3)]);
    assert_eq!(disks["md0"].raid_level.as_deref(), Some("raid1"));
    let raid = disks["md0"].raid.as_ref().unwrap();
    let members: Vec<_> = raid.members.iter().map(|m| (m.dev, &*m.state)).collect();
    assert_eq!(members, [(dev(7, 2), "in_sync"), (dev(7, 3), "in_sync,write_mostly")]);
    assert_eq!((raid.layout, &*raid.action), (0, "idle"));
    assert_eq!(disks["dm-0"].raid, None);
    // A file under a far file system has no disk below; one on btrfs is found by its source, one
    // on a mapped volume by its number.
    let loop0 = &disks["loop0"];
    assert_eq!(loop0.backing_file.as_deref(), Some("/srv/my images/a.img"));
    assert_eq!((loop0.backing_fs.as_deref(), loop0.below.len()), (Some("fuse.sshfs"), 0));
    assert_eq!(disks["loop2"].below, [dev(8, 0)]);
    assert_eq!(disks["loop3"].below, [dev(254, 0)]);
    assert!(!disks.contains_key("loop1"), "an empty loop is no disk");
}

#[test]
fn cgroup_settings_v1() {
    let (cgroups, facts) = Cgroups::scan(&fixture("v1"));
    let found = only!(Cgroup, facts);
    let with = |controller: &str, path: &str| {
        let has = |c: &&Cgroup| c.controllers.iter().any(|own| own == controller) && c.path == path;
        found.iter().find(has).unwrap().clone()
    };
    let cpu = with("cpu", &docker());
    assert_eq!(cpu.controllers, ["cpu", "cpuacct"]);
    assert_eq!((cpu.cpu_quota_us, cpu.cpu_period_us), (Some(50_000), Some(100_000)));
    assert_eq!((cpu.cpu_weight, cpu.rt_runtime_us), (Some(1024), Some(0)));
    assert_eq!(with("cpu", "/docker").cpu_weight, Some(0), "it is idle");
    assert_eq!(cpu.directory, format!("/sys/fs/cgroup/cpu,cpuacct{}", docker()));
    assert_ne!(cpu.id, 0);
    assert_eq!(with("cpu", "/").cpu_quota_us, None);
    assert_eq!(with("cpu", "/").directory, "/sys/fs/cgroup/cpu,cpuacct");
    assert_eq!(with("memory", &docker()).memory_limit_bytes, Some(256 << 20));
    assert_eq!(with("memory", "/docker").memory_limit_bytes, None);
    let blkio = with("blkio", &docker());
    let limit = &blkio.io_limits[0];
    assert_eq!((limit.dev, &*limit.kind, limit.per_second), (dev(8, 0), "write_iops", 5));
    assert_eq!(limit.file, "blkio.throttle.write_iops_device");
    assert_eq!((blkio.io_limits.len(), blkio.io_weight), (1, Some(300)));
    assert_eq!(with("freezer", &docker()).frozen, Some(true));
    assert_eq!(with("freezer", "/docker").frozen, Some(false));
    assert_eq!(with("freezer", "/").frozen, None);
    assert_eq!(with("cpuset", &docker()).cpus_allowed, Some(vec![0, 1]));
    assert_eq!(with("pids", &docker()).pids_limit, Some(100));
    assert_eq!(with("pids", "/").pids_limit, None);
    // Six hierarchies of interest with three groups each; the bind mount is not another one.
    assert_eq!((found.len(), cgroups.len()), (18, 18));
}

#[test]
fn cgroup_counters_v1() {
    let (mut cgroups, _) = Cgroups::scan(&fixture("v1"));
    let samples = only!(CgroupSample, cgroup_samples::samples(&mut cgroups).collect::<Vec<_>>());
    assert_eq!(samples.len(), 9, "cpu, memory and blkio have counters");
    let merged = samples.iter().filter(|sample| sample.path == docker());
    for sample in merged {
        match sample.controllers[0].as_str() {
            "cpu" => {
                assert_eq!(sample.cpu_throttled_ns, Some(987_654_321));
                assert_eq!(sample.cpu_usage_ns, Some(123_456_789));
                assert_eq!(sample.cpu_periods, Some(10));
            }
            "memory" => {
                assert_eq!((sample.memory_limit_hits, sample.oom_kills), (Some(412), Some(2)));
                assert_eq!(sample.memory_shmem_bytes, Some(30));
                assert_eq!((sample.memory_refaults, sample.major_faults), (Some(5), Some(40)));
            }
            _ => {
                let io = CgroupIo {
                    dev: dev(8, 0),
                    reads: 17,
                    read_bytes: 69_632,
                    writes: 9,
                    write_bytes: 36_864,
                };
                assert_eq!(sample.io, [io]);
            }
        }
    }
    assert_eq!(
        only!(CgroupSample, cgroup_samples::samples(&mut cgroups).collect::<Vec<_>>()),
        samples,
        "what is missing is remembered"
    );
    assert_eq!(cgroups.rescan(), []);
    assert_eq!(cgroups.len(), 18);
}

#[test]
fn cgroups_v2() {
    let (mut cgroups, facts) = Cgroups::scan(&fixture("v2"));
    let found = only!(Cgroup, facts);
    let web = found.iter().find(|c| c.path == "/system.slice/web.service").unwrap();
    assert!(web.controllers.is_empty());
    assert_eq!((web.cpu_quota_us, web.cpu_weight), (Some(20_000), Some(50)));
    assert_eq!((web.memory_limit_bytes, web.memory_high_bytes), (None, Some(100 << 20)));
    let limits: Vec<_> = web.io_limits.iter().map(|l| (&*l.kind, l.per_second)).collect();
    assert_eq!(limits, [("read_bps", 2_097_152), ("write_iops", 120)]);
    assert_eq!((web.io_weight, web.frozen, web.pids_limit), (Some(200), Some(true), None));
    let samples = only!(CgroupSample, cgroup_samples::samples(&mut cgroups).collect::<Vec<_>>());
    let web = samples.iter().find(|s| s.path == "/system.slice/web.service").unwrap();
    assert_eq!((web.cpu_usage_ns, web.cpu_throttled_ns), (Some(2_500_000), Some(700_000)));
    assert_eq!((web.memory_limit_hits, web.memory_high_hits), (Some(7), Some(6)));
    assert_eq!(web.oom_kills, Some(3));
    assert_eq!((web.io[0].read_bytes, web.io[0].writes), (1, 4));
    let root = samples.iter().find(|s| s.path == "/").unwrap();
    assert_eq!((root.memory_refaults, root.cpu_periods, root.memory_bytes), (Some(3), None, None));
}

#[test]
fn host_counters() {
    let mut sampler = Sampler::new(&fixture("v1"));
    let facts = sampler.sample();
    let disks = only!(DiskSample, facts);
    let devs: Vec<DeviceNumber> = disks.iter().map(|disk| disk.dev).collect();
    assert_eq!(devs, [dev(8, 0), dev(7, 0), dev(254, 0)], "whole disks that have moved");
    assert_eq!((disks[0].reads, disks[0].read_bytes), (100, 2000 * 512));
    assert_eq!((disks[0].in_flight, disks[0].busy_ms, disks[0].weighted_ms), (3, 700, 800));
    assert_eq!((disks[0].flushes, disks[1].flushes), (9, 0));
    let cpus = only!(CpuSample, facts);
    assert_eq!((cpus.len(), cpus[1].cpu), (2, 3));
    assert_eq!((cpus[0].user_ns, cpus[0].steal_ns), (250_000_000, 10_000_000));
    let memory = &only!(MemorySample, facts)[0];
    assert_eq!((memory.shmem_bytes, memory.dirty_bytes), (200 << 20, 512 << 10));
    assert_eq!(memory.dirty_threshold_bytes, 1000 * page_bytes());
    assert_eq!((memory.allocation_stalls, memory.refaults), (9, 11));
    assert_eq!((memory.reclaimed, memory.oom_kills), (110, 1));
    assert_eq!(memory.compaction_stalls, 7);
    let pressure = &only!(Pressure, facts)[0];
    assert_eq!((pressure.cpu_some_us, pressure.io_full_us), (111, 200));
    let blind = only!(Blind, facts);
    assert_eq!((blind.len(), &*blind[0].what), (1, "proc.pressure.memory"));
    assert!(only!(Blind, sampler.sample()).is_empty(), "what is missing is reported once");
}

#[test]
fn who_threads_are() {
    let found = only!(Thread, threads(&fixture("v1")));
    let by_tid = |tid| found.iter().find(|t: &&Thread| t.thread.tid == tid).unwrap();
    assert_eq!(found.len(), 5, "a process that went away is left out");
    assert_eq!((&*by_tid(1).command, by_tid(1).netns), ("/sbin/init splash", 4_026_531_840));
    assert_eq!(by_tid(1).executable, "/usr/lib/systemd/systemd");
    assert_eq!(by_tid(1).capabilities, Some(0x1ff_ffff_ffff));
    assert_eq!((by_tid(1).inner_pid, &*by_tid(1).wchan), (None, "ep_poll"));
    assert!(by_tid(2).kernel);
    let main = by_tid(500);
    assert_eq!((&*main.thread.comm, main.nice), ("we) R (ird\n", -5));
    assert_eq!(main.command, "", "a thread of it is in D: its memory lock may be held");
    assert_eq!(main.cgroups[0].path, docker());
    let worker = by_tid(510);
    assert_eq!((worker.thread.pid, worker.policy, worker.tracer_pid), (500, 2, 77));
    assert_eq!((worker.inner_pid, worker.inner_tid), (Some(1), Some(9)));
    assert_eq!((&*worker.state, &*worker.cpus_allowed), ("D", &[1][..]));
    assert_eq!(by_tid(501).command.len(), 200);
    assert_eq!(thread(&fixture("v1"), 501).unwrap(), *by_tid(501));
    assert_eq!(thread(&fixture("v1"), 999), None);
    let some: Vec<u32> = threads_of(&fixture("v1"), [510, 1, 999, 500], &mut Asked::default())
        .iter()
        .map(|t| t.thread.tid)
        .collect();
    assert_eq!(some, [1, 510, 500]);
    assert_eq!(thread_inside(&fixture("v1"), 500, 9), Some(510));
    assert_eq!(thread_inside(&fixture("v1"), 1, 1), Some(1));
    assert_eq!(thread_inside(&fixture("v1"), 500, 77), None);
    // A thread of it has that number outside, and goes by another one inside.
    assert_eq!(thread_inside(&fixture("v1"), 500, 510), None);
    let task = fixture("v1").process(500, "task");
    assert_eq!(text::ids(&task).unwrap(), [500, 510]);
    assert_eq!(text::first_ids(&task, 1).unwrap().len(), 1);
}

#[test]
fn times_add_up() {
    let roots = fixture("v1");
    let (times, blind) = ThreadTimes::begin(&roots, 20_000_000_000);
    assert_eq!(blind, []);
    let facts = only!(ThreadTime, times.end(25_000_000_000));
    assert_eq!(facts.len(), 5);
    for time in &facts {
        let sum = time.run_ns + time.runnable_ns + time.sleep_ns + time.disk_sleep_ns;
        assert_eq!(sum, time.until_ns - time.since_ns);
    }
    let worker = facts.iter().find(|time| time.thread.tid == 510).unwrap();
    assert_eq!((worker.disk_sleep_ns, worker.sleep_ns), (5_000_000_000, 0));
    let (_, blind) = ThreadTimes::begin(&fixture("v2"), 0);
    assert_eq!(only!(Blind, blind)[0].what, "proc.schedstat");
}

#[test]
fn standing_waits() {
    let mut stacks: Vec<Vec<String>> = Vec::new();
    let mut intern = |frames: &[String]| {
        stacks.push(frames.to_vec());
        stacks.len() as u32
    };
    let found = only!(Blocked, unprivileged_waits(&fixture("v1"), 30_000_000_000, &mut intern));
    assert_eq!(found.len(), 5);
    let stopped = found.iter().find(|blocked| blocked.thread.tid == 501).unwrap();
    assert_eq!(stopped.place.state, WaitState::Stopped);
    assert_eq!(stopped.place.args[1], 0x89);
    assert_eq!(stacks[stopped.place.stack as usize - 1], ["do_signal_stop", "get_signal"]);
    let worker = found.iter().find(|blocked| blocked.thread.tid == 510).unwrap();
    assert_eq!(stacks[worker.place.stack as usize - 1], ["folio_wait_bit_common"]);
    assert_eq!(worker.place.state, WaitState::DiskSleep);
}

#[test]
fn a_lock_table_that_was_asked_for_is_taken_once() {
    let roots = fixture("v1");
    let mut table = LockTable::default();
    assert!(table.taken(&roots).is_none(), "nobody asked");
    assert_eq!(table.ask(&roots), []);
    let taken = (0..200).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        table.taken(&roots)
    });
    let (at_ns, reported) = taken.unwrap();
    assert!(at_ns <= now() && at_ns > 0);
    assert!(!reported.is_empty() && reported == table.read(&roots), "as if it had been waited for");
    assert!(table.taken(&roots).is_none());
}

#[test]
fn a_lock_table_is_read_from_the_first_wait_for_a_lock_on() {
    let roots = fixture("v1");
    let fact = |body| Fact { at_ns: 1, body };
    let stack = |frame: &str| {
        fact(Body::Stack(Stack { id: 1, frames: vec!["schedule".into(), frame.into()] }))
    };
    let blocked = |syscall: &str| {
        let place = Place { syscall: syscall.into(), ..Place::default() };
        fact(Body::Blocked(Blocked { place, ..Blocked::default() }))
    };
    let reported = |table: &mut LockTable| {
        let mut facts = Vec::new();
        for _ in 0..200 {
            table.go_on(&roots, &mut facts);
            if !facts.is_empty() || table.is_still() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        facts
    };
    let mut table = LockTable::new(true);
    table.search([stack("pipe_read"), blocked("openat"), blocked("")].iter());
    assert_eq!(reported(&mut table), [], "nobody waits for a lock");
    table.search([stack("__break_lease")].iter());
    assert_eq!(reported(&mut table).len(), 5);
    table.search([blocked("nanosleep")].iter());
    assert!(!reported(&mut table).is_empty(), "again, though nobody new waits");

    let wanted = |fact, kernel_events| {
        let mut table = LockTable::new(kernel_events);
        table.search([fact].iter());
        !table.is_still()
    };
    assert!(wanted(blocked("flock"), true) && wanted(stack("nlmclnt_block"), true));
    assert!(wanted(blocked(""), false), "it may be one, for all that is known");
    assert!(!wanted(blocked("read"), false));
    let refused = |syscall: &str| {
        let object = Some(ObjectRef::File(FileRef::default()));
        fact(Body::Denied(Denied { syscall: syscall.into(), object, ..Denied::default() }))
    };
    assert!(wanted(refused("fcntl"), true), "who only tries stands nowhere in the table");
    assert!(!wanted(refused("write"), true));
}

#[test]
fn locks_and_who_carries_them() {
    let locks = only!(FileLock, LockTable::default().read(&fixture("v1")));
    assert_eq!(locks.len(), 5);
    // The process that took the flock is gone; another one has the descriptor.
    assert_eq!((locks[0].pid, &*locks[0].comm), (400, ""));
    assert_eq!(locks[0].path.as_deref(), Some("/tmp/x"));
    assert_eq!((&locks[0].taker, locks[0].holders[0].pid), (&None, 501));
    assert!(locks[1].blocked && locks[1].holders.is_empty());
    assert_eq!((&*locks[1].comm, locks[1].path.as_deref()), ("we) R (ird\n", Some("/tmp/x")));
    assert_eq!((locks[2].pid, locks[2].holders[0].pid), (-1, 1));
    assert_eq!((locks[3].id, locks[3].path.as_deref()), (2, Some("/var/lib/db")));
    assert_eq!((locks[4].dev, locks[4].path.as_deref()), (dev(0, 0x18), None));
}

#[test]
fn shared_memory_nobody_shows() {
    let facts = shared_segments(&fixture("v1"));
    let segments = only!(SharedSegment, facts);
    let zero = segments.iter().find(|segment| segment.ino == 1047).unwrap();
    assert_eq!((&*zero.name, zero.size_bytes), ("/dev/zero (deleted)", 2_097_152_000));
    assert_eq!(zero.mapped_bytes, 1_024_000 * 1024);
    assert!(zero.allocated_bytes >= 5000, "{}", zero.allocated_bytes);
    let pids: Vec<u32> = zero.mapped_by.iter().map(|process| process.pid).collect();
    assert_eq!(pids, [1, 501], "500 has a thread in D");
    assert_eq!(segments.len(), 1, "a page of /dev/shm explains nothing");
    assert_eq!(only!(Blind, facts).len(), 1);
    assert_eq!(shared_segments(&fixture("v2")), [], "nothing is unexplained there");
}

#[test]
fn counters_of_namespaces() {
    let roots = fixture("v1");
    let namespaces = network_namespaces(&roots);
    assert_eq!(namespaces, [(4_026_531_840, 1), (4_026_532_400, 500)].into());
    let facts = net_counters(&roots, &namespaces);
    let counters = &only!(NetCounters, facts)[0].counters;
    assert_eq!(counters["TcpExt.ListenOverflows"], 13);
    assert_eq!(counters["Udp.RcvbufErrors"], 3);
    assert_eq!(counters["softnet.dropped"], 1);
    assert_eq!((counters["arp_cache.table_fulls"], counters["arp_cache.entries"]), (3, 3));
    assert_eq!(only!(Blind, facts)[0].what, "net.counters.4026532400");
}

#[test]
fn nothing_there_is_reported_and_nothing_fails() {
    let roots = fixture("none");
    let Settings { facts, mut cgroups, .. } = settings::read(&roots);
    assert!(cgroups.is_empty() && cgroup_samples::samples(&mut cgroups).next().is_none());
    let what: Vec<String> = only!(Blind, facts).into_iter().map(|blind| blind.what).collect();
    assert_eq!(what, ["proc.mountinfo", "sys.block"]);
    assert_eq!(only!(Blind, Sampler::new(&roots).sample()).len(), 7);
    assert_eq!(only!(Blind, threads(&roots)).len(), 1);
    assert_eq!(only!(Blind, LockTable::default().read(&roots)).len(), 1);
}

/// Copies a tree, each file's content changed; links stay links.
fn copy_damaged(from: &Path, to: &Path, damage: &dyn Fn(Vec<u8>) -> Vec<u8>) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, there) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy_damaged(&path, &there, damage);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&path).unwrap(), there).unwrap();
        } else {
            std::fs::write(there, damage(std::fs::read(&path).unwrap())).unwrap();
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    fn half(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.truncate(bytes.len() / 2);
        bytes
    }
    fn huge(bytes: Vec<u8>) -> Vec<u8> {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.replace(|c: char| c.is_ascii_digit(), "99").into_bytes()
    }
    fn high(bytes: Vec<u8>) -> Vec<u8> {
        bytes.iter().enumerate().map(|(at, byte)| if at % 7 == 3 { 0xff } else { *byte }).collect()
    }
    fn swapped(bytes: Vec<u8>) -> Vec<u8> {
        bytes.iter().rev().copied().collect()
    }
    let damages: [fn(Vec<u8>) -> Vec<u8>; 4] = [half, huge, high, swapped];
    let scratch = std::env::temp_dir().join(format!("holdup-test-damage-{}", std::process::id()));
    for (number, damage) in damages.iter().enumerate() {
        for name in ["v1", "v2", "containers"] {
            let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
            let to = scratch.join(format!("{name}{number}"));
            copy_damaged(&fixtures.join(name), &to, &damage);
            // The mounts stay whole, or the cgroups would not be found at all.
            let mountinfo = "proc/self/mountinfo";
            std::fs::copy(fixtures.join(name).join(mountinfo), to.join(mountinfo)).unwrap();
            let roots = Roots::under(&to);
            let Settings { mut facts, mut cgroups, .. } = settings::read(&roots);
            facts.extend(cgroup_samples::samples(&mut cgroups));
            facts.extend(Sampler::new(&roots).sample());
            facts.extend(threads(&roots));
            facts.extend(ThreadTimes::begin(&roots, 1).0.end(2));
            facts.extend(unprivileged_waits(&roots, 1, &mut |_| 1));
            facts.extend(LockTable::default().read(&roots));
            facts.extend(shared::search(&roots));
            facts.extend(net_counters(&roots, &network_namespaces(&roots)));
            assert!(!facts.is_empty());
            let _ = crate::readers::containers::containers(&roots, &facts);
            // Whatever was read can be written to a recording.
            assert!(facts.iter().all(|body| serde_json::to_string(body).is_ok()));
        }
    }
    std::fs::remove_dir_all(&scratch).unwrap();
}

#[test]
fn the_real_proc_knows_this_test() {
    let roots = Roots::default();
    // While a thread of another test waits for a disk, the command of this process is rightly not read.
    let mut tries = (0..100).map(|at| {
        std::thread::sleep(std::time::Duration::from_millis(10 * u64::from(at > 0)));
        thread(&roots, std::process::id()).unwrap()
    });
    let own = tries.find(|own| !own.command.is_empty()).expect("a command at last");
    assert_eq!(own.thread.pid, std::process::id());
    assert!(!own.kernel && !own.command.is_empty() && !own.cpus_allowed.is_empty());
    let now_ns = now();
    let age_ns = now_ns.saturating_sub(own.thread.start_ns);
    assert!(age_ns < 600_000_000_000, "this test began {age_ns} ns ago");
    let all = only!(Thread, threads(&roots));
    assert!(all.iter().any(|thread| thread.thread.pid == own.thread.pid));
    assert!(!only!(CpuSample, Sampler::new(&roots).sample()).is_empty());
}

#[test]
fn a_real_flock_is_found() {
    use std::os::fd::AsRawFd;
    let path = std::env::temp_dir().join(format!("holdup-test-lock-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    // SAFETY: flock on a descriptor that is owned here.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    let locks = only!(FileLock, LockTable::default().read(&Roots::default()));
    std::fs::remove_file(&path).unwrap();
    let own = locks.iter().find(|lock| lock.path.as_deref() == path.to_str()).unwrap();
    assert_eq!(own.pid, i64::from(std::process::id()));
    assert_eq!(own.holders[0].pid, std::process::id());
}

#[test]
fn a_lock_belongs_to_all_that_have_the_description_and_not_to_who_took_it() {
    use std::process::{Child, Command, Stdio};
    let path = std::env::temp_dir().join(format!("holdup-test-taken-{}", std::process::id()));
    let sh = |script: &str| -> Child {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]).env("LOCK", &path).stdout(Stdio::null()).spawn().unwrap()
    };
    // flock(1) takes it and ends; the shell has it, and the sleep that it begins.
    let mut script = sh("exec 9>\"$LOCK\"; flock 9; sleep 20; true");
    // Who waits must come second.
    while sh("exec flock -n \"$LOCK\" true").wait().unwrap().success() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let found = |mut table: LockTable| {
        let mut waits = sh("exec flock \"$LOCK\" true");
        let mut last = None;
        for _ in 0..100 {
            let locks = only!(FileLock, table.read(&Roots::default()));
            last = locks.into_iter().find(|it| !it.blocked && it.path.as_deref() == path.to_str());
            if last.as_ref().is_some_and(|lock| lock.holders.len() == 2) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        waits.kill().unwrap();
        waits.wait().unwrap();
        // Nobody waits for it any more, and it has as many.
        let locks = only!(FileLock, table.read(&Roots::default()));
        last.and_then(|lock| locks.into_iter().find(|it| it.path == lock.path))
    };
    let lock = found(LockTable::default());
    script.kill().unwrap();
    script.wait().unwrap();
    let lock = lock.unwrap();
    for holder in lock.holders.iter().filter(|holder| holder.pid != script.id()) {
        Command::new("kill").arg(holder.pid.to_string()).status().unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    let carriers = lock.carriers();
    assert_eq!((carriers.len(), carriers[0].pid), (2, script.id()), "{lock:?}");
    assert_eq!((&*carriers[1].comm, &lock.taker), ("sleep", &None));
    assert!(carriers.iter().all(|carrier| i64::from(carrier.pid) != lock.pid), "{lock:?}");
}

#[test]
fn each_cpu_with_a_policy_says_how_quickly_it_may_run() {
    let read = only!(CpuFrequency, frequencies::frequencies(&fixture("v2")));
    let [one] = &read[..] else { panic!("{read:?}") };
    assert_eq!((one.cpu, one.hardware_hz, one.most_hz), (1, 3_500_000_000, 1_200_000_000));
    assert_eq!((one.governor.as_str(), one.driver.as_str()), ("powersave", "acpi-cpufreq"));
    assert_eq!((one.least_hz, one.throttled), (800_000_000, Some(17)));
    assert!(frequencies::frequencies(&fixture("v1")).is_empty(), "a virtual machine has none");
}
