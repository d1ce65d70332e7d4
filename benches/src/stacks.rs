//! What reading user stacks takes: looks of two seconds at threads that all wait for a turn.
//!
//! A short look is the hard one: what reading takes at its end has little time to be paid from. holdup counts that CPU
//! time itself, walks of the iterator included, and how many stacks it left out to stay below its limit; this part
//! asks it, of the host and of one process. Must not: judge (goals.rs).

use crate::child::{Ctx, Running, words};
use crate::growth::own_load;
use crate::lookers::Looked;
use crate::results::Stacks;
use anyhow::{Context, Result};
use std::time::Duration;

/// Processes that wait, and threads of each.
const PROCESSES: usize = 200;
const THREADS: usize = 4;
/// Length of the looks.
const SECONDS: f64 = 2.0;
/// Until the waits are long enough for a stack.
const SETTLE: Duration = Duration::from_millis(300);

/// A look at the host, where many processes wait, and one at a process with as many threads as all of them.
pub fn all(ctx: &Ctx) -> Result<Vec<Stacks>> {
    let each = THREADS.to_string();
    let many: Result<Vec<Running>> =
        (0..PROCESSES).map(|_| own_load(ctx, &["waiters", &each])).collect();
    let many = many?;
    ctx.sleep(SETTLE)?;
    let of_host = look(ctx, "host", PROCESSES, &[])?;
    drop(many);
    let one = own_load(ctx, &["waiters", &(PROCESSES * THREADS).to_string()])?;
    ctx.sleep(SETTLE)?;
    let of_process = look(ctx, "process", 1, &["-p", &one.pid.to_string()])?;
    Ok(vec![of_host, of_process])
}

fn look(ctx: &Ctx, of: &str, processes: usize, more: &[&str]) -> Result<Stacks> {
    let answer = ctx.path("answer.json");
    let length = format!("{SECONDS}s");
    let mut command = words(&[&ctx.holdup.to_string_lossy(), "--for", &length, "--json", "-o"]);
    command.push(answer.to_string_lossy().into_owned());
    command.extend(words(more));
    let ended = ctx.complete(&command, Duration::from_secs(60))?;
    let report = Looked::read(&answer, ended)?.report;
    let cost = report.cost.user_stacks.context("it has read no user stacks")?;
    Ok(Stacks {
        of: of.into(),
        processes,
        threads: PROCESSES * THREADS,
        seconds: report.window.seconds,
        read: cost.read,
        left_out: cost.left_out,
        cpu_seconds: cost.cpu_seconds,
    })
}
