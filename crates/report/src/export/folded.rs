//! Folded stacks: frames with `;` between them, the outermost first, a space, and nanoseconds. Brendan Gregg's flamegraph.pl defined it.
//!
//! The first frame says what the time was (`on-CPU`, `off-CPU`, `idle`), so that one file holds all and grep takes a part. Kernel
//! functions end in `_[k]`, as perf's do. What would break a line or a frame is replaced.

use holdup_reason::answer::export::{Export, Frame, FrameKind, WeightedStack};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The file.
pub(super) fn render(export: &Export) -> Vec<u8> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &export.stacks {
        *lines.entry(line(stack)).or_default() += stack.ns;
    }
    let mut text = String::new();
    for (line, ns) in lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line} {ns}");
    }
    text.into_bytes()
}

/// What the time of a stack was.
pub(super) fn sort(stack: &WeightedStack) -> &'static str {
    match (stack.is_work(), stack.is_idle()) {
        (true, _) => "on-CPU",
        (_, true) => "idle",
        _ => "off-CPU",
    }
}

fn line(stack: &WeightedStack) -> String {
    let frames = stack.frames.iter().map(frame);
    let all: Vec<String> = std::iter::once(sort(stack).to_string()).chain(frames).collect();
    all.join(";")
}

fn frame(frame: &Frame) -> String {
    let kernel = if frame.kind == FrameKind::Kernel { "_[k]" } else { "" };
    let harmless = |c: char| match c {
        ';' => ':',
        c if c.is_control() => ' ',
        c => c,
    };
    let name: String = frame.name.chars().map(harmless).collect();
    format!("{name}{kernel}")
}
