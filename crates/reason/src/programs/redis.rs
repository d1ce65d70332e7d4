//! Redis: one thread answers all clients, and a few wait for what it hands on (bio.c).
//!
//! Must not: be asked for what stops it (`debug`, `monitor`).

use super::doors::Doors;
use super::program::{Functions, Program};
use crate::model::words;

/// See the head of the file.
pub(super) static REDIS: Program = Program {
    names: &["redis-server"],
    functions: Functions { plumbing: &["bioProcessBackgroundJobs"], ..Functions::NONE },
    question: Some(question),
    ..Program::UNKNOWN
};

fn question(doors: &Doors, _: u32) -> String {
    let at = match (doors.tcp.first(), doors.unix.first()) {
        (Some(at), _) => format!(" -h {} -p {}", at.ip(), at.port()),
        (None, Some(path)) => format!(" -s {}", words::shell(path)),
        (None, None) => String::new(),
    };
    let cli = doors.own_client("redis-cli");
    format!("{cli}{at} client list; {cli}{at} slowlog get 5")
}
