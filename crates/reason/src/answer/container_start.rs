//! What the start of a container took, in the JSON contract: the phases of a runtime's command, nothing judged.
//!
//! Must not hold how they are computed (measure/container_start.rs).
//!
//! Edit together: docs/json.md, report's text/container_start.rs.

use crate::measure::Measures;
use crate::measure::container_start;
use serde::{Deserialize, Serialize};

/// The time of a command until the program of the container that it starts began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContainerStart {
    /// The container's own program, as it began: its name and process.
    pub program: String,
    /// See `program`.
    pub pid: u32,
    /// From the command's begin until then, seconds: what the phases add up to.
    pub seconds: f64,
    /// The longest first.
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::PHASES_MAX)))]
    pub phases: Vec<StartPhase>,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartPhase {
    /// `namespaces`, `mounts`, `cgroups`, `network`, `files`, `exec`, `own work`, `other waits`.
    pub phase: String,
    /// Seconds of the command's path.
    pub seconds: f64,
}

/// The start of the container that a command began, if it began one.
pub(super) fn start(measures: &Measures<'_>) -> Option<ContainerStart> {
    let start = container_start::of_command(measures)?;
    let phase = |(phase, seconds): (container_start::Phase, f64)| StartPhase {
        phase: phase.word().to_string(),
        seconds,
    };
    Some(ContainerStart {
        program: measures.process_name(&start.program),
        pid: start.program.pid,
        seconds: start.seconds,
        phases: start.phases.into_iter().map(phase).collect(),
    })
}
