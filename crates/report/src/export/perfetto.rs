//! A Perfetto trace (trace_packet.proto): a track for each thread, a slice for each wait, a flow from the waiter to who ended it.
//!
//! Of a command the first track is its path. A flow leads from a wait's slice to an instant `ends a wait` on the track of the thread
//! that ended it. Names are data in the packets. Times are nanoseconds since 1970, in the trace's own clock.
//!
//! Rejected: Chrome's JSON (no flow between tracks that both Perfetto and its trace processor draw alike).

use holdup_reason::answer::export::{Export, Slice, Track};
use prost::Message;

/// TrackEvent.Type.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
/// TracePacket.SequenceFlags: no state of an earlier packet is needed.
const STATE_CLEARED: u32 = 1;
const SEQUENCE: u32 = 1;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<Event>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<Descriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct Descriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<Process>,
    #[prost(message, optional, tag = "4")]
    thread: Option<Thread>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, tag = "6")]
    process_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Thread {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(int32, tag = "2")]
    tid: i32,
    #[prost(string, tag = "5")]
    thread_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(string, tag = "6")]
    string_value: String,
    #[prost(string, tag = "10")]
    name: String,
}

/// The file.
pub(super) fn render(export: &Export) -> Vec<u8> {
    let mut packets: Vec<Packet> = Vec::new();
    let mut processes: Vec<u32> = Vec::new();
    for (at, track) in export.tracks.iter().enumerate() {
        if track.pid != 0 && !processes.contains(&track.pid) {
            processes.push(track.pid);
            let (pid, process_name) = (track.pid as i32, track.process.clone());
            let process = Some(Process { pid, process_name });
            packets.push(describes(Descriptor {
                uuid: process_uuid(track),
                process,
                ..Descriptor::default()
            }));
        }
        packets.push(describes(descriptor(at, track)));
    }
    let mut events: Vec<(u64, u8, Packet)> = Vec::new();
    let mut flow = 0;
    for (at, track) in export.tracks.iter().enumerate() {
        // What takes no time would end before it begins.
        for slice in track.slices.iter().filter(|slice| slice.begin_ns < slice.end_ns) {
            let flows: Vec<u64> = slice
                .ended_by
                .map(|_| {
                    flow += 1;
                    flow
                })
                .into_iter()
                .collect();
            let (begin, end) =
                (export.begin_unix_ns + slice.begin_ns, export.begin_unix_ns + slice.end_ns);
            events.push((begin, 2, packet(begin, event(at, slice, flows.clone()))));
            let over = Event { kind: SLICE_END, track_uuid: uuid(at), ..Event::default() };
            events.push((end, 0, packet(end, over)));
            if let Some(by) = slice.ended_by {
                let ends = Event {
                    kind: INSTANT,
                    track_uuid: uuid(by),
                    name: Some(format!("ends a wait of {} {}", track.name, track.tid)),
                    categories: vec!["wake".into()],
                    terminating_flow_ids: flows,
                    ..Event::default()
                };
                events.push((end, 1, packet(end, ends)));
            }
        }
    }
    // At one moment what ends comes first.
    events.sort_by_key(|(at, rank, _)| (*at, *rank));
    packets.extend(events.into_iter().map(|(.., packet)| packet));
    if let Some(first) = packets.first_mut() {
        first.sequence_flags = Some(STATE_CLEARED);
    }
    Trace { packet: packets }.encode_to_vec()
}

fn uuid(at: usize) -> u64 {
    at as u64 + 1
}

fn process_uuid(track: &Track) -> u64 {
    (1 << 40) + u64::from(track.pid)
}

fn descriptor(at: usize, track: &Track) -> Descriptor {
    let uuid = uuid(at);
    if track.tid == 0 {
        return Descriptor { uuid, name: Some(track.name.clone()), ..Descriptor::default() };
    }
    let (pid, tid) = (track.pid as i32, track.tid as i32);
    let thread = Some(Thread { pid, tid, thread_name: track.name.clone() });
    Descriptor { uuid, thread, parent_uuid: Some(process_uuid(track)), ..Descriptor::default() }
}

fn describes(descriptor: Descriptor) -> Packet {
    Packet {
        track_descriptor: Some(descriptor),
        trusted_packet_sequence_id: SEQUENCE,
        ..Packet::default()
    }
}

fn packet(timestamp: u64, event: Event) -> Packet {
    Packet {
        timestamp: Some(timestamp),
        track_event: Some(event),
        trusted_packet_sequence_id: SEQUENCE,
        ..Packet::default()
    }
}

fn event(at: usize, slice: &Slice, flow_ids: Vec<u64>) -> Event {
    let object = Annotation { name: "object".into(), string_value: slice.object.clone() };
    Event {
        debug_annotations: if slice.object.is_empty() { Vec::new() } else { vec![object] },
        kind: SLICE_BEGIN,
        track_uuid: uuid(at),
        categories: vec![slice.class.into()],
        name: Some(slice.words.clone()),
        flow_ids,
        terminating_flow_ids: Vec::new(),
    }
}

/// Time in slices by track, seconds.
#[cfg(test)]
pub(super) fn seconds_by_track(bytes: &[u8]) -> std::collections::BTreeMap<u64, f64> {
    let trace = Trace::decode(bytes).expect("a trace");
    let mut sums = std::collections::BTreeMap::new();
    let mut flows = (Vec::new(), Vec::new());
    for packet in &trace.packet {
        let Some(event) = &packet.track_event else { continue };
        let at = packet.timestamp.expect("a time") as i128;
        let sign = match event.kind {
            SLICE_BEGIN => -1,
            SLICE_END => 1,
            _ => 0,
        };
        *sums.entry(event.track_uuid).or_insert(0) += sign * at;
        flows.0.extend(event.flow_ids.iter().copied());
        flows.1.extend(event.terminating_flow_ids.iter().copied());
    }
    flows.0.sort_unstable();
    flows.1.sort_unstable();
    assert_eq!(flows.0, flows.1, "each flow begins and ends once");
    sums.into_iter().map(|(track, ns): (u64, i128)| (track, ns as f64 / 1e9)).collect()
}
