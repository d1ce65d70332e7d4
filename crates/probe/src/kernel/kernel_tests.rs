//! What stands in the slots in which the kernel programs build their records is in no record: of the thread before, or, here,
//! a pattern. And what is counted of calls is what was called. As root, on the running kernel; elsewhere there are no programs to try.
//!
//! Edit together: bpf/ (each map that a program builds a record in, or keeps its work in, is filled here).

use super::*;
use crate::host::{self, NoBpf};
use crate::plan::{plan, tracepoints};
use libbpf_rs::{MapCore, MapFlags};
use std::io::Write;
use std::mem::offset_of;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATTERN: u8 = 0xa5;

/// Fills the one entry of a map.
fn fill(map: &impl MapCore) {
    let (key, value) = (0u32.to_ne_bytes(), vec![PATTERN; map.value_size() as usize]);
    if map.map_type().is_percpu() {
        let cpus = libbpf_rs::num_possible_cpus().unwrap();
        map.update_percpu(&key, &vec![value; cpus], MapFlags::ANY).unwrap();
    } else {
        map.update(&key, &value, MapFlags::ANY).unwrap();
    }
}

/// Where the pattern stands in a part of a record.
fn shown(part: &[u8]) -> Option<usize> {
    part.windows(4).position(|bytes| bytes == [PATTERN; 4])
}

/// All of a record that ends in a path but the frames that it has not.
fn without_room(record: &[u8], place_at: usize, path_at: usize) -> Vec<u8> {
    let place: wire_place = wire::read(&record[place_at..]);
    let frames_at = place_at + offset_of!(wire_place, frame);
    [&record[..frames_at + 8 * place.frames as usize], &record[path_at..]].concat()
}

fn cat() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn walk(programs: &mut Programs, tid: u32) -> Vec<u8> {
    fill(&programs.skel.maps.thread_scratch);
    fill(&programs.skel.maps.poll_scratch);
    programs.control().unwrap().only_tid = tid;
    let mut found = Vec::new();
    each_record(programs.iterators.threads().unwrap(), "tasks", |it| found = it.to_vec()).unwrap();
    assert!(!found.is_empty(), "thread {tid} is not there");
    found
}

fn walks_show_nothing(programs: &mut Programs, reader: u32, ended: u32) {
    for tid in [ended, reader, 2, std::process::id()] {
        let record = walk(programs, tid);
        let at = offset_of!(wire_thread, place);
        let whole = without_room(&record, at, offset_of!(wire_thread, path));
        assert_eq!(shown(&whole), None, "thread {tid}");
    }
    let zombie: wire_thread = wire::read(&walk(programs, ended));
    assert_eq!((zombie.place.syscall, zombie.place.object.kind), (-1, 0));
    fill(&programs.skel.maps.endpoint_scratch);
    let mut first = None;
    each_record(programs.iterators.endpoints().unwrap(), "descriptors", |it| {
        first.get_or_insert_with(|| it.to_vec());
    })
    .unwrap();
    assert_eq!(shown(&first.unwrap()), None, "a descriptor");
}

/// The first record of a kind that comes once something was done.
fn record_of(programs: &mut Programs, kind: wire_kind, mut act: impl FnMut()) -> Vec<u8> {
    fill(&programs.skel.maps.wait_scratch);
    fill(&programs.skel.maps.poll_scratch);
    fill(&programs.skel.maps.refused_scratch);
    let found = RefCell::new(None);
    let mut builder = RingBufferBuilder::new();
    let take = |bytes: &[u8]| {
        if wire::read::<wire_head>(bytes).kind == kind.0 {
            found.borrow_mut().get_or_insert_with(|| bytes.to_vec());
        }
        0
    };
    builder.add(&programs.skel.maps.ring, take).unwrap();
    let ring = builder.build().unwrap();
    act();
    until("no record came", || {
        ring.consume().unwrap();
        found.borrow().is_some()
    });
    drop(ring);
    found.into_inner().unwrap()
}

#[test]
fn what_is_left_in_the_slots_of_records_is_in_no_record() {
    let offer = host::look(&tracepoints());
    if let Some(NoBpf { why, .. }) = &offer.no_bpf {
        eprintln!("not run: {why}");
        return;
    }
    let names = plan(&offer, &[]).programs;
    let mut programs = Programs::load(&offer, &names, 1 << 20).unwrap();
    let (mut reader, mut ended) = (cat(), Command::new("true").spawn().unwrap());
    until("it reads", || state(reader.id()) == Some('S'));
    until("it is a zombie", || state(ended.id()) == Some('Z'));
    walks_show_nothing(&mut programs, reader.id(), ended.id());

    let control = programs.control().unwrap();
    (control.threshold_ns, control.traced_threshold_ns) = (u64::MAX, 0);
    (control.trace_tgid, control.refused_tgid) = (reader.id(), std::process::id());
    programs.attach(&["sched_switch", "sched_waking", "sys_exit"]).unwrap();
    walk(&mut programs, 0);
    let wait = record_of(&mut programs, wire_kind::WIRE_WAIT, || {
        reader.stdin.as_mut().unwrap().write_all(b"a line").unwrap();
    });
    assert_eq!(wire::read::<wire_wait>(&wait).thread.tgid, reader.id());
    let whole = without_room(&wait, offset_of!(wire_wait, place), offset_of!(wire_wait, path));
    assert_eq!(shown(&whole), None, "a wait");
    let refused = record_of(&mut programs, wire_kind::WIRE_DENIED, || {
        std::fs::create_dir("/proc").unwrap_err();
    });
    let given_at = offset_of!(wire_denied, given);
    let given = wire::read::<wire_denied>(&refused).given_bytes as usize;
    assert_eq!(&refused[given_at..given_at + given], b"/proc\0");
    assert_eq!(shown(&refused[..given_at + given]), None, "a refusal");
    assert_eq!(shown(&refused[offset_of!(wire_denied, path)..]), None, "a refusal");

    drop(reader.stdin.take());
    reader.wait().unwrap();
    ended.wait().unwrap();
}

#[test]
fn the_kernel_names_own_programs_and_their_functions_by_tags_that_are_known() {
    let offer = host::look(&tracepoints());
    if let Some(NoBpf { why, .. }) = &offer.no_bpf {
        eprintln!("not run: {why}");
        return;
    }
    let programs = Programs::load(&offer, &["sched_switch", "sys_exit"], 1 << 20).unwrap();
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let tags = programs.tags();
    let named = |tag: &[u8; 8]| format!(" bpf_prog_{:016x}_", u64::from_be_bytes(*tag));
    let is_of = |name: &str| {
        let mut lines = symbols.lines().filter(|line| line.contains(&format!("_{name}\t")));
        lines.any(|line| tags.iter().any(|tag| line.contains(&named(tag))))
    };
    if !symbols.contains(" bpf_prog_") {
        eprintln!("not run: the kernel shows no symbols of programs");
        return;
    }
    // A program, and a function that the verifier keeps apart.
    assert!(is_of("sched_switch") && is_of("send_wait"), "{tags:?}");
}

#[test]
fn messages_of_who_is_asked_about_are_counted() {
    let offer = host::look(&tracepoints());
    if let Some(NoBpf { why, .. }) = &offer.no_bpf {
        eprintln!("not run: {why}");
        return;
    }
    let mut programs = Programs::load(&offer, &["sys_exit"], 1 << 20).unwrap();
    programs.control().unwrap().refused_tgid = std::process::id();
    programs.attach(&["sys_exit"]).unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    let mut room = [0; 128];
    for _ in 0..10 {
        for _ in 0..10 {
            socket.send(&[b'm'; 64]).unwrap();
        }
        for _ in 0..10 {
            assert_eq!(socket.recv(&mut room).unwrap(), 64);
        }
    }
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    let own: u32 = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let (_, bodies) = programs.added_up(After::Stays);
    let mut all = bodies.into_iter().filter_map(|body| match body {
        Body::Messages(messages) => Some(messages),
        _ => None,
    });
    let counted = all.find(|it| it.thread.tid == own).unwrap();
    for sum in [counted.sent, counted.received] {
        assert_eq!((sum.calls, sum.messages, sum.bytes), (100, 100, 6_400));
        // All but the first, and those before which this thread happened to sleep.
        assert!((50..=99).contains(&sum.ready_calls), "{sum:?}");
    }
    assert_eq!((counted.sent_joined.calls, counted.received_joined.calls), (0, 0));
}

#[test]
fn the_address_that_a_socket_sends_to_without_a_connection_is_known_until_there_are_two() {
    let offer = host::look(&tracepoints());
    if let Some(NoBpf { why, .. }) = &offer.no_bpf {
        eprintln!("not run: {why}");
        return;
    }
    let names = ["sent_by_ipv4", "sent_by_ipv6"];
    let mut programs = Programs::load(&offer, &names, 1 << 20).unwrap();
    programs.attach(&names).unwrap();
    let mut expected = Vec::new();
    // Where nobody listens; port 53 is the name servers', of which more is known.
    for (any, one, other) in
        [("0.0.0.0:0", "127.0.0.1:9", "127.0.0.1:7"), ("[::]:0", "[::1]:9", "[::1]:7")]
    {
        let Ok(socket) = std::net::UdpSocket::bind(any) else { continue };
        if socket.send_to(b"1", one).is_err() {
            continue;
        }
        let several = std::net::UdpSocket::bind(any).unwrap();
        for to in [one, other] {
            several.send_to(b"1", to).unwrap();
        }
        let port = |socket: &std::net::UdpSocket| socket.local_addr().unwrap().port();
        expected.push((port(&socket), Some(one.parse().unwrap())));
        expected.push((port(&several), None));
    }
    let (_, bodies) = programs.added_up(After::Stays);
    let own = std::process::id();
    for (port, remote) in expected {
        let found = bodies.iter().find_map(|body| match body {
            Body::SentTo(sent) if (sent.pid, sent.local_port) == (own, port) => Some(sent.remote),
            _ => None,
        });
        assert_eq!(found, remote, "{port}");
    }
}
