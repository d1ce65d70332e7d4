//! A profile as `go tool pprof` reads it (profile.proto, gzipped): CPU time and delay, with labels.
//!
//! Two values a sample, as readers know them: `cpu` and `delay`, both nanoseconds. Idle time is in neither; `idle` is a third. Labels:
//! `process` and `pid`, `class` of the wait, `object`, `culprit` (`pprof -tagfocus`). Each frame is a function and a location of its own;
//! kernel functions have the file `[kernel]`.
//!
//! Rejected: generating the messages from the .proto (a compiler for six messages whose numbers never change).

use crate::failure::Failure;
use flate2::Compression;
use flate2::write::GzEncoder;
use holdup_reason::answer::export::{Export, Frame, FrameKind};
use prost::Message;
use std::collections::HashMap;
use std::io::Write;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
    #[prost(int64, tag = "3")]
    number: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The table of strings: 0 is the empty one.
#[derive(Default)]
struct Strings {
    known: HashMap<String, i64>,
    all: Vec<String>,
}

impl Strings {
    fn at(&mut self, text: &str) -> i64 {
        if let Some(at) = self.known.get(text) {
            return *at;
        }
        let at = self.all.len() as i64;
        self.all.push(text.to_string());
        self.known.insert(text.to_string(), at);
        at
    }
}

/// The file.
pub(super) fn render(export: &Export) -> Result<Vec<u8>, Failure> {
    let bytes = profile(export).encode_to_vec();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let written = gzip.write_all(&bytes).and_then(|()| gzip.finish());
    written.map_err(|error| Failure::look(format!("cannot compress the profile: {error}"), ""))
}

fn profile(export: &Export) -> Profile {
    let mut strings = Strings::default();
    strings.at("");
    let kinds = ["cpu", "delay", "idle"];
    let unit = strings.at("nanoseconds");
    let sample_type = kinds.iter().map(|kind| ValueType { kind: strings.at(kind), unit }).collect();
    let mut places: HashMap<&Frame, u64> = HashMap::new();
    let (mut location, mut function, mut sample) = (Vec::new(), Vec::new(), Vec::new());
    for stack in &export.stacks {
        // The innermost first, as its readers want it.
        let ids = stack.frames.iter().rev().map(|frame| {
            *places.entry(frame).or_insert_with(|| {
                let id = function.len() as u64 + 1;
                let name = strings.at(&frame.name);
                let file =
                    if frame.kind == FrameKind::Kernel { "[kernel]" } else { frame.file.as_str() };
                function.push(Function { id, name, system_name: name, filename: strings.at(file) });
                let line = vec![Line { function_id: id, line: i64::from(frame.line) }];
                location.push(Location { id, line });
                id
            })
        });
        let location_id = ids.collect();
        let ns = stack.ns as i64;
        let value = match (stack.is_work(), stack.is_idle()) {
            (true, _) => vec![ns, 0, 0],
            (_, true) => vec![0, 0, ns],
            _ => vec![0, ns, 0],
        };
        let process = stack.frames.first().map_or("", |frame| frame.name.as_str());
        let mut label =
            vec![Label { key: strings.at("pid"), text: 0, number: i64::from(stack.pid) }];
        let texts = [
            ("process", process),
            ("class", stack.class),
            ("object", stack.object.as_str()),
            ("culprit", stack.culprit.as_deref().unwrap_or_default()),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            label.push(Label { key: strings.at(key), text: strings.at(text), number: 0 });
        }
        sample.push(Sample { location_id, value, label });
    }
    let waits = export.stacks.iter().any(|stack| !stack.is_work() && !stack.is_idle());
    let default_sample_type = strings.at(if waits { "delay" } else { "cpu" });
    Profile {
        sample_type,
        sample,
        location,
        function,
        time_nanos: export.begin_unix_ns as i64,
        duration_nanos: export.ns as i64,
        comment: Vec::new(),
        default_sample_type,
        string_table: strings.all,
    }
}

/// Work, waits and idle time of a file, seconds.
#[cfg(test)]
pub(super) fn sums(bytes: &[u8]) -> [f64; 3] {
    let mut text = Vec::new();
    let mut gzip = flate2::read::GzDecoder::new(bytes);
    std::io::Read::read_to_end(&mut gzip, &mut text).expect("gzip");
    let profile = Profile::decode(text.as_slice()).expect("a profile");
    let mut sums = [0.0; 3];
    for sample in &profile.sample {
        sums.iter_mut().zip(&sample.value).for_each(|(sum, ns)| *sum += *ns as f64 / 1e9);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::answer::export::WeightedStack;

    #[test]
    fn work_and_waits_are_values_of_their_own_and_the_innermost_frame_is_first() {
        let stack = |class, ns| WeightedStack {
            frames: ["app", "main"].map(|name| Frame::new(FrameKind::Program, name)).to_vec(),
            class,
            kind: holdup_reason::answer::EndKind::Works,
            object: "/tmp/x".into(),
            culprit: None,
            pid: 7,
            ns,
        };
        let export = Export {
            host: String::new(),
            begin_unix_ns: 5,
            ns: 9,
            stacks: vec![stack("running", 2), stack("file lock", 3), stack("idle", 4)],
            tracks: Vec::new(),
            spans: Vec::new(),
            left_out: Vec::new(),
        };
        let made = profile(&export);
        let values: Vec<&[i64]> = made.sample.iter().map(|it| it.value.as_slice()).collect();
        assert_eq!(values, [[2, 0, 0], [0, 3, 0], [0, 0, 4]]);
        let inner = made.sample[0].location_id[0] as usize;
        let name = made.function[inner - 1].name as usize;
        assert_eq!(made.string_table[name], "main");
        assert_eq!(made.string_table[0], "");
    }
}
