//! A time as whoever reads it has it on the wall: the host's own zone, to the second.
//!
//! The lists of the ring and the mails of outputs name windows by it. Must not: read a clock.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `2026-11-26 21:14:10`.
pub(crate) fn shown(unix_ns: u64, zone: &TimeZone) -> String {
    let at = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or_default();
    zone.to_datetime(at).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
