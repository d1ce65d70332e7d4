//! net.dns*: a DNS server with a temper, asked by the load or by a daemon that it waits for.
//!
//! The server listens on port 53 of a loopback address inside a network namespace of its own; what
//! runs there sees a resolv.conf that names it, as iproute2 does it (/etc/netns/NAME). The proof
//! is a question of the lab's own.

use super::stage::{load, name_switch, netns, start, switch_on, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::procfs;
use crate::undo::{Guards, Undo};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&Dns, &DnsLock];

/// A loopback address of the scenario's own.
fn loopback(ctx: &mut Ctx) -> String {
    let mut octet = || 1 + ctx.draw.index(250);
    format!("127.{}.{}.{}", octet(), octet(), octet())
}

/// Parameters: `timeout_s`, `attempts` of resolv.conf; `others`, how many further name servers it names, which
/// always answer. Sets `dns_ns`, `dns_ip`, `host_names`,
/// `switch`; `dns`, `dns_pid`.
fn server(ctx: &mut Ctx) -> Result<Guards> {
    let mut guards = Guards::new();
    let (ns, guard) = netns(ctx)?;
    guards.push(guard);
    let address = loopback(ctx);
    let others: Vec<String> = (0..ctx.number("others")? as usize).map(|_| loopback(ctx)).collect();
    let parent = Path::new("/etc/netns");
    if !parent.exists() {
        let words = ["rmdir", "--ignore-fail-on-non-empty", "/etc/netns"];
        guards.push(ctx.journal.guard(Undo::Command { words: super::stage::words(&words) })?);
    }
    let directory = parent.join(&ns);
    guards.push(ctx.journal.guard(Undo::Remove { path: directory.clone() })?);
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let servers = [std::slice::from_ref(&address), &others].concat();
    let names: String = servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    let (timeout, attempts) = (ctx.text("timeout_s")?, ctx.text("attempts")?);
    let options = format!("{names}options timeout:{timeout} attempts:{attempts}\n");
    fs::write(directory.join("resolv.conf"), options)?;
    // One of its own, so that a way out may write to it.
    fs::copy("/etc/hosts", directory.join("hosts")).context("copy /etc/hosts")?;
    let switch = name_switch(ctx)?.to_string_lossy().into_owned();
    let mut listen = |ctx: &mut Ctx, role: &str, server: &str, more: &[&str]| -> Result<()> {
        let place = format!("{server}:53");
        let mut spawn = load(ctx, &[&["dns-server", place.as_str()], more].concat());
        spawn.netns = Some(ns.clone());
        let started = start(ctx, role, &spawn)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "udp", 53)
    };
    for other in &others {
        listen(ctx, "other", other, &[])?;
    }
    listen(ctx, "dns", &address, &["--switch", &switch])?;
    let zone = format!("{}.internal", ctx.draw.name());
    let name = format!("{}.{zone}", ctx.draw.name());
    ctx.set("host_name", name);
    ctx.set("dns_ns", ns);
    ctx.set("dns_ip", address);
    Ok(guards)
}

/// The name server of the load's namespace (`{dns_ns}`) goes mute, fails or slows down.
///
/// Parameters: of [`server`], `temper` (mute, servfail, or milliseconds). Variables: of [`server`].
struct Dns;

impl Fault for Dns {
    fn name(&self) -> &'static str {
        "net.dns"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        server(ctx)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("temper")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        // The resolver waits in poll for its answer.
        let channel = procfs::wait_channel(ctx.number("victim_pid")? as i32);
        let waits = channel.contains("poll") || channel.contains("skb");
        Ok(Some(ctx.text("temper")? != "mute" || waits))
    }
}

/// A FUSE daemon resolves its client's name before it grants a lock (`{lock_path}`), and the name
/// server goes mute.
///
/// Parameters: of [`server`]; `resolver` (glibc, own). Variables: of [`server`]; `lock_path`,
/// `mount`, `ptr_name`; `daemon`, `daemon_pid`.
struct DnsLock;

impl Fault for DnsLock {
    fn name(&self) -> &'static str {
        "net.dns_lock"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = server(ctx)?;
        let mount = ctx.directory("mnt")?.join(ctx.draw.name());
        fs::create_dir(&mount)?;
        guards.push(ctx.journal.guard(Undo::Mount { path: mount.clone() })?);
        let file = ctx.draw.name();
        let octets = [192, 168, 1 + ctx.draw.index(250), 1 + ctx.draw.index(250)];
        let [a, b, c, d] = octets.map(|octet| octet.to_string());
        let client = format!("{a}.{b}.{c}.{d}");
        ctx.set("ptr_name", format!("{d}.{c}.{b}.{a}.in-addr.arpa"));
        let ns = ctx.text("dns_ns")?;
        let directory = mount.to_string_lossy().into_owned();
        let etc = format!("/etc/netns/{ns}");
        let netns = format!("/run/netns/{ns}");
        let words = ["fuse-lock", &directory, "--file", &file, "--client", &client];
        let mut spawn = load(ctx, &words);
        spawn.arguments.extend(super::stage::words(&["--netns", &netns, "--etc", &etc]));
        if ctx.text("resolver")? == "own" {
            let timeout = format!("{}", ctx.number("timeout_s")? * 1e3);
            let server = format!("{}:53", ctx.text("dns_ip")?);
            let own = ["--server", &server, "--timeout-ms", &timeout, "--attempts"];
            spawn.arguments.extend(super::stage::words(&own));
            spawn.arguments.push(ctx.text("attempts")?);
        }
        guards.push(start(ctx, "daemon", &spawn)?.guard);
        let path = mount.join(&file);
        ctx.wait_for("file system", Duration::from_secs(10), || path.exists())?;
        ctx.set("lock_path", path.display());
        ctx.set("mount", mount.display());
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, "mute")?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let daemon = ctx.number("daemon_pid")? as i32;
        let tasks = fs::read_dir(format!("/proc/{daemon}/task"))?;
        let waits = |task: PathBuf| {
            fs::read_to_string(task.join("wchan"))
                .is_ok_and(|channel| channel.contains("poll") || channel.contains("skb"))
        };
        Ok(Some(tasks.flatten().any(|task| waits(task.path()))))
    }
}
