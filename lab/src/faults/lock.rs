//! lock.*: file locks held by another process, mutexes held by another thread, and deadlocks.
//!
//! The mutex faults are a switch of the load itself: its keeper is a thread that the healthy
//! run has as well. The proof is /proc/locks for file locks, the wait channel of the threads for
//! mutexes.

use super::stage::{
    load, load_file, name_switch, start, start_contained, switch_on, thread_named, wait_bound,
    words,
};
use crate::fault::{Ctx, Fault, Injected, Spawn};
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] =
    &[&Holder, &Lease, &Mutex, &Spin, &RowHolder, &Deadlock, &FileDeadlock];

/// A file that lies where the seed says. Sets `lock_path`.
fn lock_file(ctx: &mut Ctx, variable: &str) -> Result<String> {
    let directory = ctx.directory("var")?;
    let path = directory.join(format!("{}.lock", ctx.draw.name())).to_string_lossy().into_owned();
    fs::write(&path, "0\n")?;
    ctx.set(variable, &path);
    Ok(path)
}

/// Somebody waits for a lock on that file, by /proc/locks.
fn waited_for(path: &str) -> Result<usize> {
    let inode = format!(":{} ", fs::metadata(path)?.ino());
    let locks = fs::read_to_string("/proc/locks")?;
    Ok(locks.lines().filter(|line| line.contains(" -> ") && line.contains(&inode)).count())
}

/// Another process holds a file lock.
///
/// Parameters: `lock_kind` (flock, posix), `holder_language` (sh, python, c, rust), `hold_ms` (0:
/// for good), `gap_ms`, `container_kind`. Variables: `lock_path`; `holder`, `holder_pid`.
pub(super) struct Holder;

impl Holder {
    fn program(&self, ctx: &mut Ctx) -> Result<Spawn> {
        let (kind, path) = (ctx.text("lock_kind")?, ctx.text("lock_path")?);
        let hold = ctx.text("hold_ms")?;
        let gap = if hold == "0" { "0".into() } else { ctx.text("gap_ms")? };
        let hold = if hold == "0" { "3600000".into() } else { hold };
        let language = ctx.text("holder_language")?;
        match language.as_str() {
            "sh" if kind == "flock" && gap == "0" => Ok(Spawn {
                program: "/usr/bin/flock".into(),
                arguments: words(&[&path, "sleep", "3600"]),
                ..Spawn::default()
            }),
            "python" => load_file(ctx, "lockfile.py", &[&path, &kind, &hold, &gap]),
            "c" => {
                // An OFD lock conflicts with a POSIX one, but /proc/locks has no owner for it.
                let ofd = kind == "posix" && ctx.draw.chance(0.5);
                let kind = if ofd { "ofd" } else { kind.as_str() };
                load_file(ctx, "holdlock.c", &[&path, kind, "0", "0", &hold, &gap])
            }
            _ => {
                let mut spawn = load(ctx, &["file-lock", &path, "--kind", &kind]);
                spawn.arguments.extend(words(&["--hold-ms", &hold]));
                if gap != "0" {
                    spawn.arguments.extend(words(&["--again-ms", &gap]));
                }
                Ok(spawn)
            }
        }
    }
}

impl Fault for Holder {
    fn name(&self) -> &'static str {
        "lock.file_holder"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        lock_file(ctx, "lock_path")?;
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let spawn = self.program(ctx)?;
        let mut guards = start_contained(ctx, "holder", &spawn)?;
        if spawn.program.ends_with("flock") {
            // flock(1) gives the lock on to its child, which is as much the holder.
            let pid = ctx.number("holder_pid")? as i32;
            ctx.wait_for("flock's child", std::time::Duration::from_secs(10), || {
                !super::stage::children(pid).is_empty()
            })?;
            let child = super::stage::children(pid)[0];
            guards.push(ctx.journal.guard(crate::undo::Undo::process(child))?);
            ctx.set("holder_child_pid", child);
        } else {
            ctx.set("holder_child_pid", ctx.text("holder_pid")?);
        }
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(waited_for(&ctx.text("lock_path")?)? > 0))
    }
}

/// Another client of the server keeps a row that the load wants: it is idle in its transaction.
///
/// Parameters: `hold_ms`, `gap_ms`. The load is `transactions.py {port} 0 GAP`. Variables: `port`; `server`, `server_pid`;
/// `holder`, `holder_pid`.
struct RowHolder;

impl Fault for RowHolder {
    fn name(&self) -> &'static str {
        "lock.row_holder"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        let spawn = load_file(ctx, "sessions.c", &[&port.to_string()])?;
        let started = start(ctx, "server", &spawn)?;
        let mut guards = Guards::new();
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "tcp", port)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (port, hold, gap) = (ctx.text("port")?, ctx.text("hold_ms")?, ctx.text("gap_ms")?);
        let spawn = load_file(ctx, "transactions.py", &[&port, &hold, &gap])?;
        let mut guards = Guards::new();
        guards.push(start(ctx, "holder", &spawn)?.guard);
        Ok(guards.into())
    }
}

/// Another process holds a write lease and does not give it up.
///
/// Variables: `lock_path`; `holder`, `holder_pid`.
struct Lease;

impl Fault for Lease {
    fn name(&self) -> &'static str {
        "lock.lease_holder"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        lock_file(ctx, "lock_path")?;
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let path = ctx.text("lock_path")?;
        let spawn = load(ctx, &["file-lock", &path, "--kind", "lease"]);
        let mut guards = Guards::new();
        guards.push(start(ctx, "holder", &spawn)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let inode = format!(":{} ", fs::metadata(ctx.text("lock_path")?)?.ino());
        let locks = fs::read_to_string("/proc/locks")?;
        let breaking =
            |l: &str| l.contains("LEASE") && l.contains("BREAKING") && l.contains(&inode);
        Ok(Some(locks.lines().any(breaking)))
    }
}

/// A thread of the load holds its mutex for long. The load takes `{switch}` and names the
/// thread `{keeper}`.
///
/// Parameters: `hold_ms`. Variables: `switch`, `keeper`, `work_file`; `keeper_tid`.
struct Mutex;

impl Fault for Mutex {
    fn name(&self) -> &'static str {
        "lock.mutex_keeper"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        name_switch(ctx)?;
        let keeper = ctx.draw.name();
        ctx.set("keeper", keeper);
        let file = ctx.directory("data")?.join("table");
        ctx.set("work_file", file.display());
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (pid, keeper) = (ctx.number("victim_pid")? as i32, ctx.text("keeper")?);
        let tid = thread_named(pid, &keeper).with_context(|| format!("no thread {keeper}"))?;
        ctx.set("keeper_tid", tid);
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("hold_ms")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(futex_waiters(ctx.number("victim_pid")? as i32) >= 2))
    }
}

/// Threads of the load (`spin.c {threads} {switch}`) hold a lock for long that the others yield for.
///
/// Parameters: `hold_us`. Variables: of [`name_switch`].
struct Spin;

impl Fault for Spin {
    fn name(&self) -> &'static str {
        "lock.spin_keeper"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        name_switch(ctx)?;
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("switches_before", switches(ctx.number("victim_pid")? as i32));
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("hold_us")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let now = switches(ctx.number("victim_pid")? as i32) as f64;
        Ok(Some(now > ctx.number("switches_before")? + 2_000.0))
    }
}

/// How often threads of a process gave up a CPU while they could run: a yield counts as that.
fn switches(pid: i32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let of = |task: std::path::PathBuf| {
        let text = fs::read_to_string(task.join("status")).unwrap_or_default();
        let count = text.lines().find_map(|it| it.strip_prefix("nonvoluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    tasks.flatten().map(|task| of(task.path())).sum()
}

/// Threads of a process that wait for a futex, by their wait channel.
fn futex_waiters(pid: i32) -> usize {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let waits = |task: std::path::PathBuf| {
        fs::read_to_string(task.join("wchan")).is_ok_and(|channel| channel.contains("futex"))
    };
    tasks.flatten().filter(|task| waits(task.path())).count()
}

/// Two threads of the load (`abba.c {first} {second} {switch}`) take two mutexes crosswise.
///
/// Variables: `switch`, `first`, `second`; `first_tid`, `second_tid`.
struct Deadlock;

impl Fault for Deadlock {
    fn name(&self) -> &'static str {
        "lock.deadlock_threads"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        name_switch(ctx)?;
        for role in ["first", "second"] {
            let name = ctx.draw.name();
            ctx.set(role, name);
        }
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let pid = ctx.number("victim_pid")? as i32;
        for role in ["first", "second"] {
            let name = ctx.text(role)?;
            let tid = thread_named(pid, &name).with_context(|| format!("no thread {name}"))?;
            ctx.set(&format!("{role}_tid"), tid);
        }
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, "1")?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        // The main thread waits in pthread_join, for a futex too.
        Ok(Some(futex_waiters(ctx.number("victim_pid")? as i32) >= 3))
    }
}

/// Another process takes the load's two files crosswise.
///
/// Parameters: `lock_kind` (flock, ofd; the kernel refuses a deadlock of POSIX locks). Variables:
/// `lock_path`, `second_path`; `holder`, `holder_pid`.
struct FileDeadlock;

impl Fault for FileDeadlock {
    fn name(&self) -> &'static str {
        "lock.deadlock_files"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        lock_file(ctx, "lock_path")?;
        lock_file(ctx, "second_path")?;
        Ok(Guards::new())
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (first, second) = (ctx.text("lock_path")?, ctx.text("second_path")?);
        let kind = ctx.text("lock_kind")?;
        let spawn = load(ctx, &["file-lock", &second, "--then", &first, "--kind", &kind]);
        let mut guards = Guards::new();
        guards.push(start(ctx, "holder", &spawn)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let both =
            waited_for(&ctx.text("lock_path")?)? > 0 && waited_for(&ctx.text("second_path")?)? > 0;
        Ok(Some(both))
    }
}
