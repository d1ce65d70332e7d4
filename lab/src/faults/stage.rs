//! What the faults of this folder share: helpers of the lab's own kinds, switches, namespaces.
//!
//! Everything made here is journalled before it is made. It holds no fault itself.

use crate::fault::{Ctx, Spawn, Started};
use crate::procfs;
use crate::undo::{Guard, Guards, Undo};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Words as owned arguments.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A kind of holdup-lab-load under a drawn name.
pub fn load(ctx: &mut Ctx, arguments: &[&str]) -> Spawn {
    Spawn { name: ctx.draw.name(), arguments: words(arguments), ..Spawn::default() }
}

/// A file of `lab/load` as a program under a drawn name: a C source is compiled, a script is
/// run by its path (comm is its own name) or, half of the time, by its interpreter.
pub fn load_file(ctx: &mut Ctx, file: &str, arguments: &[&str]) -> Result<Spawn> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("load").join(file);
    let program = ctx.directory("bin")?.join(ctx.draw.name());
    let mut spawn = Spawn { arguments: words(arguments), ..Spawn::default() };
    if file.ends_with(".c") {
        let (from, to) = (source.to_string_lossy(), program.to_string_lossy());
        ctx.tool("cc", &["-O1", "-g", "-pthread", "-o", &to, &from])?;
        spawn.program = program;
        return Ok(spawn);
    }
    let text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
    // By its path: a version manager's wrapper may stand in PATH.
    fs::write(&program, text.replacen("/usr/bin/env python3", "/usr/bin/python3", 1))?;
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    if ctx.draw.chance(0.5) {
        spawn.program = program;
    } else {
        let interpreter = if file.ends_with(".py") { "/usr/bin/python3" } else { "/bin/sh" };
        spawn.program = interpreter.into();
        spawn.arguments.insert(0, program.to_string_lossy().into_owned());
    }
    Ok(spawn)
}

/// Starts it, and sets `ROLE` (its comm), `ROLE_pid`.
pub fn start(ctx: &mut Ctx, role: &str, spawn: &Spawn) -> Result<Started> {
    let started = ctx.spawn(spawn)?;
    ctx.set(role, &started.name);
    ctx.set(&format!("{role}_pid"), started.pid);
    Ok(started)
}

/// Names the switch of this trial, variable `switch`; nothing is there yet.
pub fn name_switch(ctx: &mut Ctx) -> Result<PathBuf> {
    let path = ctx.directory("etc")?.join(format!("{}.conf", ctx.draw.name()));
    ctx.set("switch", path.display());
    Ok(path)
}

/// Makes the switch be there, and hold `text`.
pub fn switch_on(ctx: &Ctx, text: &str) -> Result<Guard> {
    let path = PathBuf::from(ctx.text("switch")?);
    let guard = ctx.journal.guard(Undo::Remove { path: path.clone() })?;
    // Renamed into place, so that no reader sees it empty.
    let draft = path.with_extension("new");
    fs::write(&draft, text)?;
    fs::rename(&draft, &path)?;
    Ok(guard)
}

/// Stops a process with SIGSTOP.
pub fn stop(ctx: &Ctx, pid: i32) -> Result<Guard> {
    let start_time = procfs::start_time(pid).with_context(|| format!("no process {pid}"))?;
    let guard = ctx.journal.guard(Undo::Continue { pid, start_time })?;
    procfs::signal(pid, nix::sys::signal::Signal::SIGSTOP);
    Ok(guard)
}

/// Children of a process's main thread.
pub fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The thread of that name in a process.
pub fn thread_named(pid: i32, name: &str) -> Option<i32> {
    let name: String = name.chars().take(15).collect();
    fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().find_map(|entry| {
        let comm = fs::read_to_string(entry.path().join("comm")).ok()?;
        (comm.trim_end() == name).then(|| entry.file_name().to_str()?.parse().ok())?
    })
}

/// Makes a network namespace with its loopback up.
pub fn netns(ctx: &mut Ctx) -> Result<(String, Guard)> {
    let name = ctx.draw.name();
    let guard = ctx.journal.guard(Undo::Netns { name: name.clone() })?;
    ctx.tool("ip", &["netns", "add", &name])?;
    ctx.tool("ip", &["-n", &name, "link", "set", "lo", "up"])?;
    Ok((name, guard))
}

/// Two network namespaces joined by a veth. Sets `near_ns`, `near_if`, `near_ip` and `far_*`.
pub fn pair(ctx: &mut Ctx) -> Result<Guards> {
    let mut guards = Guards::new();
    let (near, guard) = netns(ctx)?;
    guards.push(guard);
    let (far, guard) = netns(ctx)?;
    guards.push(guard);
    let number = |ctx: &mut Ctx| 1 + ctx.draw.index(250);
    let net = format!("10.{}.{}", number(ctx), number(ctx));
    let near_if = format!("eth{}", ctx.draw.index(9));
    let far_if = format!("ens{}", ctx.draw.index(9));
    let veth = ["type", "veth", "peer", "name", &far_if, "netns", &far];
    ctx.tool("ip", &[&["-n", near.as_str(), "link", "add", &near_if][..], &veth].concat())?;
    for (side, ns, interface, last) in [("near", &near, &near_if, 1), ("far", &far, &far_if, 2)] {
        let address = format!("{net}.{last}");
        ctx.tool("ip", &["-n", ns, "addr", "add", &format!("{address}/24"), "dev", interface])?;
        ctx.tool("ip", &["-n", ns, "link", "set", interface, "up"])?;
        ctx.set(&format!("{side}_ns"), ns);
        ctx.set(&format!("{side}_if"), interface);
        ctx.set(&format!("{side}_ip"), address);
    }
    Ok(guards)
}

/// A server in `far_ns` at an address that answers at once: variables `port` (drawn), `server`, `server_pid`.
pub fn tcp_server(ctx: &mut Ctx, address: &str) -> Result<Guards> {
    let port = 2000 + ctx.draw.index(30_000) as u16;
    ctx.set("port", port);
    let mut spawn = load(ctx, &["tcp-server", &format!("{address}:{port}"), "--parallel"]);
    spawn.netns = Some(ctx.text("far_ns")?);
    let started = start(ctx, "server", &spawn)?;
    let mut guards = Guards::new();
    guards.push(started.guard);
    wait_bound(ctx, started.pid, "tcp", port)?;
    Ok(guards)
}

/// One in `far_ns` that takes whatever comes to a port.
pub fn tcp_sink(ctx: &mut Ctx, port: u16) -> Result<Guard> {
    let mut spawn = load(ctx, &["tcp-sink", &format!("0.0.0.0:{port}")]);
    spawn.netns = Some(ctx.text("far_ns")?);
    let started = start(ctx, "sink", &spawn)?;
    wait_bound(ctx, started.pid, "tcp", port)?;
    Ok(started.guard)
}

/// Waits until something listens on a port of a namespace, by /proc/net of a process in it.
pub fn wait_bound(ctx: &Ctx, pid: i32, table: &str, port: u16) -> Result<()> {
    let mark = format!(":{port:04X} ");
    ctx.wait_for("server", Duration::from_secs(10), || {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines()
            .any(|l| l.split_whitespace().nth(1).is_some_and(|a| format!("{a} ").ends_with(&mark)))
    })
}

/// A counter of /proc/PID/net/netstat or snmp, as `TcpExt`, `ListenOverflows`.
pub fn net_counter(pid: i32, table: &str, name: &str) -> Option<u64> {
    let read = |file| fs::read_to_string(format!("/proc/{pid}/net/{file}")).ok();
    let text = format!("{}{}", read("snmp")?, read("netstat")?);
    let mut lines = text.lines().filter_map(|l| l.strip_prefix(table)?.strip_prefix(": "));
    let at = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

/// Makes the groups of a container in the cpu, memory and pids hierarchies, named as the runtime
/// of that kind does: `docker` (/docker/ID), `lxc` (/lxc/NAME), `plain` (/NAME). Parameter
/// `cpu_shares`, if given. Sets `container` (name, or short id), `container_path`.
pub fn container(ctx: &mut Ctx, kind: &str) -> Result<(Vec<PathBuf>, Guards)> {
    let mut guards = Guards::new();
    let name = match kind {
        "docker" => (0..64).map(|_| format!("{:x}", ctx.draw.index(16))).collect(),
        _ => ctx.draw.name(),
    };
    let path = if kind == "plain" { name.clone() } else { format!("{kind}/{name}") };
    let mut groups = Vec::new();
    for controller in ["cpu", "memory", "pids"] {
        if kind != "plain" && !Path::new("/sys/fs/cgroup").join(controller).join(kind).exists() {
            let (parent, guard) = ctx.cgroup(controller, kind)?;
            guards.push(guard);
            set_shares(ctx, controller, &parent)?;
        }
        let (group, guard) = ctx.cgroup(controller, &path)?;
        guards.push(guard);
        set_shares(ctx, controller, &group)?;
        groups.push(group);
    }
    ctx.set("container", if kind == "docker" { &name[..12] } else { &name });
    ctx.set("container_path", format!("/{path}"));
    Ok((groups, guards))
}

/// A group without shares of its own counts as one thread among those of the host.
fn set_shares(ctx: &Ctx, controller: &str, group: &Path) -> Result<()> {
    if let (Ok(shares), "cpu") = (ctx.text("cpu_shares"), controller) {
        fs::write(group.join("cpu.shares"), shares)?;
    }
    Ok(())
}

/// The same program as the first process of new PID, mount, UTS and IPC namespaces, in the groups
/// of a container.
pub fn contained(ctx: &Ctx, spawn: &Spawn, groups: Vec<PathBuf>) -> Result<Spawn> {
    let program = ctx.program_of(spawn)?.to_string_lossy().into_owned();
    let mut arguments =
        words(&["--fork", "--kill-child", "--pid", "--mount-proc", "--uts", "--ipc"]);
    arguments.push("--".into());
    arguments.push(program);
    arguments.extend(spawn.arguments.iter().cloned());
    Ok(Spawn {
        program: "/usr/bin/unshare".into(),
        arguments,
        cgroups: groups,
        environment: spawn.environment.clone(),
        netns: spawn.netns.clone(),
        ..Spawn::default()
    })
}

/// Starts it, in a container if the parameter `container_kind` says so (docker, lxc, plain; none or
/// absent: not), and sets `ROLE` (comm), `ROLE_pid` as the host sees it.
pub fn start_contained(ctx: &mut Ctx, role: &str, spawn: &Spawn) -> Result<Guards> {
    let mut guards = Guards::new();
    let kind = ctx.text("container_kind").unwrap_or_else(|_| "none".into());
    if kind == "none" {
        guards.push(start(ctx, role, spawn)?.guard);
        return Ok(guards);
    }
    let (groups, made) = container(ctx, &kind)?;
    guards.append(made);
    let outer = ctx.spawn(&contained(ctx, spawn, groups)?)?;
    guards.push(outer.guard);
    ctx.wait_for("first process of the container", Duration::from_secs(10), || {
        children(outer.pid).first().is_some_and(|pid| procfs::comm(*pid) != "unshare")
    })?;
    let inner = *children(outer.pid).first().context("the container ended")?;
    guards.push(ctx.journal.guard(Undo::process(inner))?);
    ctx.set(role, procfs::comm(inner));
    ctx.set(&format!("{role}_pid"), inner);
    Ok(guards)
}
