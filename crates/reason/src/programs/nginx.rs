//! nginx: workers that each answer many clients by turns, and hold an answer back where their configuration says so.
//!
//! What it waits for on purpose stands in no table that it can be asked for, but in its configuration: a rate (`limit_req`, `limit_rate`), another
//! client's answer (`proxy_cache_lock`), the server behind it. Which file that is says the title of its master. Must not: be asked by its status page,
//! which is off as it is packed and counts connections alone.

use super::doors::Doors;
use super::program::Program;

/// See the head of the file.
pub(super) static NGINX: Program =
    Program { names: &["nginx"], question: Some(question), ..Program::UNKNOWN };

fn question(doors: &Doors, pid: u32) -> String {
    let nginx = doors.own_client("nginx");
    let master = format!("ps -o args= -p $(ps -o ppid= -p {pid})");
    let file = format!("$({master} | grep -oE -e '-[cp] [^ ]+')");
    format!("{nginx} -T {file} 2>&1 | grep -E '^# conf|limit_|cache_lock|worker_|_pass '")
}
