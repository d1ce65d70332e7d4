//! How long a list of the contract may be, or a text that anybody may write, and how a cut is said.
//!
//! Where lists are cut: bounded.rs. Must not: know the lists.
//!
//! Rejected: a count beside each list (a dozen fields that are almost always 0).
//!
//! Edit together: docs/json.md, report.rs (whose schema has the same bounds).

use serde::{Deserialize, Serialize};

/// Findings, worst first.
pub const FINDINGS_MAX: usize = 100;
/// Ends of an answer: forty, and then one of each kind for the rest.
pub const ENDS_MAX: usize = 40 + 12;
/// Victims of a finding or an end, those that lose most first.
pub const VICTIMS_MAX: usize = 64;
/// Findings and ends that have so many, the first ones.
pub const WITH_ALL_VICTIMS: usize = 10;
/// Victims of each further one.
pub const FURTHER_VICTIMS_MAX: usize = 8;
/// Links of a chain.
pub const LINKS_MAX: usize = 24;
/// Functions of a link's stack.
pub const STACK_MAX: usize = 128;
/// Facts of a finding's evidence.
pub const EVIDENCE_MAX: usize = 48;
/// Ways out of a finding.
pub const REMEDIES_MAX: usize = 12;
/// Situations that a finding answers.
pub const STORIES_MAX: usize = 16;
/// Phases of a container's start.
pub const PHASES_MAX: usize = 16;
/// Bytes of the words of a command: as many as of the longest path.
pub const WORDS_BYTES_MAX: usize = 4_096;
/// Lines of the kernel's log, of a finding and of none.
pub const LOG_LINES_MAX: usize = 128;
/// Addresses of a host.
pub const ADDRESSES_MAX: usize = 16;
/// Ports at which a host answers, the lowest first.
pub const LISTENING_MAX: usize = 64;
/// Caveats.
pub const CAVEATS_MAX: usize = 64;
/// Cgroups, disks, interfaces of a container's card.
pub const CARD_MAX: usize = 64;
/// Parts of the accounting: two dozen, and then one of each class for the rest.
pub const PARTS_MAX: usize = 24 + 48;
/// Ends, parts, findings of a comparison, what changed first.
pub const COMPARED_MAX: usize = 200;
/// Rows of each table of the network.
pub const ROWS_MAX: usize = 256;
/// Queueing disciplines of an interface.
pub const QUEUES_MAX: usize = 32;
/// Flows of a kind of drop.
pub const FLOWS_MAX: usize = 16;
/// Cuts themselves: fewer than there are lists.
pub const LEFT_OUT_MAX: usize = 8_192;

/// What was left out of one list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The list, as a JSON Pointer (RFC 6901): `/findings/0/victims`; or a text, `/target/name`.
    pub list: String,
    /// How many; of a text how many bytes.
    pub count: usize,
    /// Of victims: what those lost, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<f64>,
}

/// Victims of a finding or an end, by its place.
pub fn victims_max(at: usize) -> usize {
    if at < WITH_ALL_VICTIMS { VICTIMS_MAX } else { FURTHER_VICTIMS_MAX }
}

/// Cuts a list, and says what it lost.
pub fn cut<T>(list: &str, of: &mut Vec<T>, most: usize) -> Option<LeftOut> {
    let count = of.len().checked_sub(most).filter(|count| *count > 0)?;
    of.truncate(most);
    Some(LeftOut { list: list.into(), count, wait_seconds: None })
}

/// Cuts a text after a character, and says what it lost.
pub fn cut_text(at: &str, of: &mut String, bytes_most: usize) -> Option<LeftOut> {
    let before = of.len();
    of.truncate(of.floor_char_boundary(bytes_most));
    let count = before - of.len();
    (count > 0).then(|| LeftOut { list: at.into(), count, wait_seconds: None })
}
