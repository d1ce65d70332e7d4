//! net.filter, net.filter_reject, net.connections_full, net.backlog, net.one_receive_cpu, net.tap: packets that this host drops by itself.
//!
//! The proof is the counter of whoever drops them: of the filter's rule, of the table of connections, of the CPUs, of the interface.

use super::net::on_one_cpu;
use super::stage::{load, load_file, name_switch, pair, start, switch_on, tcp_server, wait_bound};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::{Guard, Guards};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] =
    &[&Filter, &FilterReject, &ConnectionsFull, &Backlog, &OneReceiveCpu, &Tap];

/// Runs iptables in a namespace, which goes with all its rules.
fn iptables(ctx: &Ctx, ns: &str, words: &str) -> Result<String> {
    let words: Vec<&str> = words.split(' ').collect();
    ctx.tool("ip", &[&["netns", "exec", ns, "iptables"][..], &words].concat())
}

/// The packet filter drops what the load sends, where it leaves or where it comes in.
///
/// Parameters: `side` (`near`, `far`). The load is `tcp-client {far_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `port`;
/// `chain` (`OUTPUT`, `INPUT`).
struct Filter;

impl Filter {
    /// Adds a rule for the load's port where `side` says.
    fn add(ctx: &Ctx, target: &str) -> Result<Injected> {
        let (side, port) = (ctx.text("side")?, ctx.text("port")?);
        let ns = ctx.text(&format!("{side}_ns"))?;
        let chain = Self::chain(&side)?;
        iptables(ctx, &ns, &format!("-A {chain} -p tcp --dport {port} -j {target}"))?;
        Ok(Injected::default())
    }

    fn chain(side: &str) -> Result<&'static str> {
        match side {
            "near" => Ok("OUTPUT"),
            "far" => Ok("INPUT"),
            other => bail!("no side {other}"),
        }
    }
}

impl Fault for Filter {
    fn name(&self) -> &'static str {
        "net.filter"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let address = ctx.text("far_ip")?;
        guards.append(tcp_server(ctx, &address)?);
        let side = ctx.text("side")?;
        let (chain, ns) = (Self::chain(&side)?, ctx.text(&format!("{side}_ns"))?);
        ctx.set("chain", chain);
        // One that drops others, so that there is more than one to choose from.
        let other = 40_000 + ctx.draw.index(9_000);
        iptables(ctx, &ns, &format!("-A {chain} -p tcp --dport {other} -j DROP"))?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        Self::add(ctx, "DROP")
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (side, port) = (ctx.text("side")?, ctx.text("port")?);
        let ns = ctx.text(&format!("{side}_ns"))?;
        let shown = iptables(ctx, &ns, &format!("-L {} -nvx", Self::chain(&side)?))?;
        let rule = shown.lines().find(|line| line.ends_with(&format!("dpt:{port}")));
        let packets = rule.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(Some(packets.context("no rule")? > 0))
    }
}

/// The packet filter refuses what the load asks for, where it leaves or where it comes in.
///
/// Parameters: `side` (`near`, `far`). The load is `connect_retry.py {far_ip}:{port} ...` in `{near_ns}`. Variables: as of `net.filter`.
struct FilterReject;

impl Fault for FilterReject {
    fn name(&self) -> &'static str {
        "net.filter_reject"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        Filter.set_up(ctx)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        Filter::add(ctx, "REJECT --reject-with tcp-reset")
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (side, port) = (ctx.text("side")?, ctx.text("port")?);
        let ns = ctx.text(&format!("{side}_ns"))?;
        let shown = iptables(ctx, &ns, &format!("-L {} -nvx", Filter::chain(&side)?))?;
        let port = format!("dpt:{port} ");
        let rule = shown.lines().find(|line| line.contains(&port) && line.contains("REJECT"));
        let packets = rule.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(Some(packets.context("no rule")? > 0))
    }
}

/// The table of connections is full.
///
/// Parameters: `connections`. The load is `tcp-client {far_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `port`; `holder`,
/// `holder_pid` (who has the connections).
struct ConnectionsFull;

const CONNECTIONS_MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

impl ConnectionsFull {
    /// Connections of the near namespace.
    fn count(ctx: &Ctx) -> Result<u64> {
        let words = ["netns", "exec", &ctx.text("near_ns")?, "cat"];
        let file = "/proc/sys/net/netfilter/nf_conntrack_count";
        ctx.tool("ip", &[&words[..], &[file]].concat())?.parse().context("a count")
    }
}

impl Fault for ConnectionsFull {
    fn name(&self) -> &'static str {
        "net.connections_full"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let address = ctx.text("far_ip")?;
        guards.append(tcp_server(ctx, &address)?);
        let near = ctx.text("near_ns")?;
        iptables(ctx, &near, "-A OUTPUT -m conntrack --ctstate NEW -j ACCEPT")?;
        let to = format!("{}:{}", ctx.text("far_ip")?, ctx.text("port")?);
        let threads = ctx.text("connections")?;
        let words = ["tcp-client", &to, "--keep", "--threads", &threads, "--every-ms", "1000"];
        let mut holder = load(ctx, &words);
        holder.netns = Some(near);
        guards.push(start(ctx, "holder", &holder)?.guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let room = Self::count(ctx)?.to_string();
        ctx.set("room", &room);
        let mut guards = Guards::new();
        guards.push(ctx.write_back_later(Path::new(CONNECTIONS_MAX), &room)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        // The column `drop` of each CPU.
        let words = ["netns", "exec", &ctx.text("near_ns")?, "cat"];
        let shown = ctx.tool("ip", &[&words[..], &["/proc/net/stat/nf_conntrack"]].concat())?;
        let mut lines = shown.lines();
        let at = lines.next().and_then(|line| line.split_whitespace().position(|it| it == "drop"));
        let at = at.context("no column of drops")?;
        let drops =
            lines.filter_map(|line| u64::from_str_radix(line.split_whitespace().nth(at)?, 16).ok());
        Ok(Some(drops.sum::<u64>() > 0))
    }
}

/// The queue of packets of one CPU is short, and a burst fills it before the load's packets.
///
/// Parameters: `room`, `rules` (of the packet filter that each packet passes), `burst`, `packets_per_second`. The load is `udp-ping {far_ip}:{port}` in `{near_ns}`. Variables: of
/// [`pair`]; `port`; `flood`, `flood_pid`.
struct Backlog;

const BACKLOG_MAX: &str = "/proc/sys/net/core/netdev_max_backlog";

impl Fault for Backlog {
    fn name(&self) -> &'static str {
        "net.backlog"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        // Handed to another CPU, whose queue they come into; its mask is written in pieces of 32.
        let last = (std::thread::available_parallelism()?.get() - 1).min(31);
        let (ns, interface) = (ctx.text("far_ns")?, ctx.text("far_if")?);
        // Packets that its own CPU sends there are handled before the next is sent.
        let (group, guard) = on_one_cpu(ctx, 0)?;
        guards.push(guard);
        ctx.set("flood_group", group.display());
        let steer =
            format!("echo {:x} >/sys/class/net/{interface}/queues/rx-0/rps_cpus", 1_u64 << last);
        ctx.tool("ip", &["netns", "exec", &ns, "sh", "-c", &steer])?;
        // Long enough a list to look through that the CPU is slower than a sender.
        let rules = format!(
            "{{ echo '*filter'; i=1; while [ $i -le {} ]; do echo \"-A INPUT -p udp --sport $i --dport $i -j DROP\"; \
             i=$((i + 1)); done; echo COMMIT; }} | iptables-restore",
            ctx.text("rules")?
        );
        ctx.tool("ip", &["netns", "exec", &ns, "sh", "-c", &rules])?;
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        let mut echo = load(ctx, &["udp-echo", &format!("0.0.0.0:{port}")]);
        echo.netns = Some(ns);
        let started = start(ctx, "echo", &echo)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "udp", port)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("dropped_before", dropped_by_cpus()?);
        let mut guards = Guards::new();
        guards.push(ctx.write_back_later(Path::new(BACKLOG_MAX), &ctx.text("room")?)?);
        // Nobody listens there: handling is all that becomes of them.
        let to = format!("{}:9", ctx.text("far_ip")?);
        let (rate, burst) = (ctx.text("packets_per_second")?, ctx.text("burst")?);
        let words = ["udp-source", &to, "--bytes", "64", "--per-second", &rate, "--burst", &burst];
        guards.push(flood(ctx, &words)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(dropped_by_cpus()? as f64 > ctx.number("dropped_before")? + 200.0))
    }
}

/// One CPU handles all packets of an interface, and floods of several flows are more than it can, while the other is free.
///
/// Parameters: `rules`, `flows`, `packets_per_second` (of all flows). Variables: as of `net.backlog`, but of the flood; `mask` (what the CPU is
/// chosen by).
struct OneReceiveCpu;

impl Fault for OneReceiveCpu {
    fn name(&self) -> &'static str {
        "net.one_receive_cpu"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        Backlog.set_up(ctx)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("dropped_before", dropped_by_cpus()?);
        let flows = ctx.number("flows")?;
        let rate = format!("{:.0}", ctx.number("packets_per_second")? / flows);
        let to = format!("{}:9", ctx.text("far_ip")?);
        let mut guards = Guards::new();
        for _ in 0..flows as usize {
            let words =
                ["udp-source", &to, "--bytes", "64", "--per-second", &rate, "--burst", "20"];
            guards.push(flood(ctx, &words)?);
        }
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(dropped_by_cpus()? as f64 > ctx.number("dropped_before")? + 5_000.0))
    }
}

/// One that floods, in a group of its own.
fn flood(ctx: &mut Ctx, words: &[&str]) -> Result<Guard> {
    let mut spawn = load(ctx, words);
    spawn.netns = Some(ctx.text("near_ns")?);
    spawn.cgroups = vec![PathBuf::from(ctx.text("flood_group")?)];
    Ok(start(ctx, "flood", &spawn)?.guard)
}

/// The second column of each CPU.
fn dropped_by_cpus() -> Result<u64> {
    let text = fs::read_to_string("/proc/net/softnet_stat")?;
    let of = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    Ok(text.lines().filter_map(of).sum())
}

/// Who has a tun device open, behind which the load's server is, reads it no more, while others send there too.
///
/// Parameters: `others_per_second`. The load is `udp-ping {tap_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `tap_ip`, `tap`,
/// `port`, `switch`; `reader`, `reader_pid`; `others`, `others_pid`.
struct Tap;

/// Longer than any look: it rests after the next packet.
const STILL_MS: &str = "600000";

impl Fault for Tap {
    fn name(&self) -> &'static str {
        "net.tap"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let (port, net) = (2000 + ctx.draw.index(30_000), 16 + ctx.draw.index(15));
        let (tap, near) = (format!("tun{}", ctx.draw.index(9)), ctx.text("near_ns")?);
        ctx.tool("ip", &["-n", &near, "tuntap", "add", &tap, "mode", "tun"])?;
        ctx.tool("ip", &["-n", &near, "addr", "add", &format!("172.{net}.0.1/24"), "dev", &tap])?;
        ctx.tool("ip", &["-n", &near, "link", "set", &tap, "txqueuelen", "100", "up"])?;
        let mut spawn = load_file(ctx, "tun_echo.py", &[&tap, &switch, &port.to_string()])?;
        spawn.netns = Some(near.clone());
        guards.push(start(ctx, "reader", &spawn)?.guard);
        let address = format!("172.{net}.0.2");
        let to = format!("{address}:{}", port + 1);
        ctx.set("tap_ip", &address);
        ctx.set("tap", tap);
        ctx.set("port", port);
        let rate = ctx.text("others_per_second")?;
        let mut spawn = load(ctx, &["udp-source", &to, "--bytes", "500", "--per-second", &rate]);
        spawn.netns = Some(near);
        guards.push(start(ctx, "others", &spawn)?.guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("dropped_before", Self::dropped(ctx)?);
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, STILL_MS)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(Self::dropped(ctx)? as f64 > ctx.number("dropped_before")? + 20.0))
    }
}

impl Tap {
    fn dropped(ctx: &Ctx) -> Result<u64> {
        let file = format!("/sys/class/net/{}/statistics/tx_dropped", ctx.text("tap")?);
        let words = ["netns", "exec", &ctx.text("near_ns")?, "cat", &file];
        ctx.tool("ip", &words)?.parse().context("a count")
    }
}
