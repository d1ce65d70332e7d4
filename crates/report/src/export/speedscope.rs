//! speedscope's own format: frames once, and a sampled profile each of work, waits and idle time.
//!
//! The address in it is a name, by which speedscope knows the file: nothing is fetched. Weights are nanoseconds.

use super::folded::sort;
use crate::failure::Failure;
use holdup_reason::answer::Report;
use holdup_reason::answer::export::{Export, Frame};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The file.
pub(super) fn render(report: &Report, export: &Export) -> Result<Vec<u8>, Failure> {
    let mut known: HashMap<&Frame, usize> = HashMap::new();
    let mut frames: Vec<Value> = Vec::new();
    let mut profiles = Vec::new();
    for wanted in ["off-CPU", "on-CPU", "idle"] {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for stack in export.stacks.iter().filter(|stack| sort(stack) == wanted) {
            let at = |frame| {
                *known.entry(frame).or_insert_with(|| {
                    frames.push(said(frame));
                    frames.len() - 1
                })
            };
            samples.push(stack.frames.iter().map(at).collect::<Vec<usize>>());
            weights.push(stack.ns);
        }
        if !samples.is_empty() {
            let whole: u64 = weights.iter().sum();
            profiles.push(json!({"type": "sampled", "name": wanted, "unit": "nanoseconds",
                "startValue": 0, "endValue": whole, "samples": samples, "weights": weights}));
        }
    }
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": format!("holdup {}", report.tool.version),
        "name": report.answer.title,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    });
    super::json(&file).map(String::into_bytes)
}

fn said(frame: &Frame) -> Value {
    let mut all = json!({"name": frame.name});
    if !frame.file.is_empty() {
        all["file"] = json!(frame.file);
    }
    if frame.line != 0 {
        all["line"] = json!(frame.line);
    }
    all
}
