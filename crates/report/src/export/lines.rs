//! Findings and ends as JSON Lines: a line each, with which look it is of, for what collects logs.
//!
//! A line has `type` (`finding` or `end`), the `target` and `window` of its look, and the fields of the contract as they are
//! (docs/json.md). Nothing refers to another line but `finding` of an end, which here is its code.

use crate::failure::Failure;
use holdup_reason::answer::Report;
use serde_json::{Value, json};

/// The file.
pub(super) fn render(report: &Report) -> Result<Vec<u8>, Failure> {
    let target = json!({"target": report.target, "window": report.window, "schema": report.schema});
    let mut text = String::new();
    let mut add = |kind: &str, fields: Value| -> Result<(), Failure> {
        let mut line = target.clone();
        line["type"] = json!(kind);
        if let (Value::Object(all), Value::Object(fields)) = (&mut line, fields) {
            all.extend(fields);
        }
        text.push_str(&super::json(&line)?);
        text.push('\n');
        Ok(())
    };
    for finding in &report.findings {
        add("finding", serde_json::to_value(finding).unwrap_or_default())?;
    }
    for end in &report.answer.ends {
        let mut fields = serde_json::to_value(end).unwrap_or_default();
        if let Some(finding) = end.finding.and_then(|at| report.findings.get(at)) {
            fields["finding"] = json!(finding.code);
        }
        add("end", fields)?;
    }
    Ok(text.into_bytes())
}
