//! net.*: queues, ceilings and slow ends between two network namespaces.
//!
//! All of them stand on one pair of namespaces joined by a veth: the load is near, the server
//! far. The proof is the qdisc's own backlog, the receiver's timestamps, or a protocol counter.

use super::stage::{
    load, load_file, name_switch, net_counter, pair, start, switch_on, tcp_sink, wait_bound,
};
use crate::fault::{Ctx, Fault, Injected};
use crate::load::switch;
use crate::undo::{Guard, Guards};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[
    &LocalQueue,
    &ClassCeiling,
    &SlowReader,
    &Listener("net.full_backlog"),
    &Listener("net.slow_answers"),
    &Flood,
    &Packets,
];

/// Bytes of an Ethernet frame that the bulk source fills.
const FRAME: f64 = 1514.0;

/// A bulk flow fills the queue of a shaped interface, before the load's small packets.
///
/// Parameters: `rate_mbit`, `queue_packets`, `bulk_kind` (udp, tcp). The load is `udp-ping
/// {far_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `port`; `bulk_pid`, `bulk_flow`;
/// `sojourn_ms`, mean one-way delay by the receiver's clock in the second before the look.
struct LocalQueue;

impl Fault for LocalQueue {
    fn name(&self) -> &'static str {
        "net.local_queue"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let rate = format!("{}mbit", ctx.text("rate_mbit")?);
        // Room for a small packet beside whole frames, or the load would only see losses.
        let limit = format!("{}", ctx.number("queue_packets")? * FRAME + 700.0);
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let tbf = ["tbf", "rate", &rate, "burst", "1600", "limit", &limit];
        let add = ["-n", &ns, "qdisc", "add", "dev", &interface, "root"];
        ctx.tool("tc", &[&add[..], &tbf].concat())?;
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        let mut echo = load(ctx, &["udp-echo", &format!("0.0.0.0:{port}")]);
        echo.netns = Some(ctx.text("far_ns")?);
        let delays = ctx.scratch.join("delays").to_string_lossy().into_owned();
        echo.environment.insert("LAB_DELAYS".into(), delays);
        let started = start(ctx, "echo", &echo)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "udp", port)?;
        let mut sink = load(ctx, &["tcp-sink", "0.0.0.0:1999"]);
        sink.netns = Some(ctx.text("far_ns")?);
        guards.push(start(ctx, "sink", &sink)?.guard);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let far = ctx.text("far_ip")?;
        let mut bulk = match ctx.text("bulk_kind")?.as_str() {
            "udp" => {
                let rate = ctx.number("rate_mbit")? * 1e6 / 8.0 / FRAME * 1.4;
                // To a port where nobody listens, an ICMP error would come back for each.
                let to = format!("{far}:{}", ctx.text("port")?);
                load(ctx, &["udp-source", &to, "--per-second", &format!("{rate:.1}")])
            }
            "tcp" => load(ctx, &["tcp-source", &format!("{far}:1999"), "--streams", "12"]),
            other => bail!("no bulk flow {other}"),
        };
        bulk.netns = Some(ctx.text("near_ns")?);
        let mut guards = Guards::new();
        guards.push(start(ctx, "bulk", &bulk)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let shown = ctx.tool("tc", &["-s", "-n", &ns, "qdisc", "show", "dev", &interface])?;
        let packets = shown
            .split_once("backlog ")
            .and_then(|(_, rest)| {
                rest.split_whitespace().nth(1)?.trim_end_matches('p').parse().ok()
            })
            .unwrap_or(0.0);
        let now = switch::now();
        let delays = switch::delays(&ctx.scratch.join("delays"), now - 1.0, now)?;
        if delays.is_empty() {
            return Ok(Some(false));
        }
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        ctx.set("sojourn_ms", format!("{:.3}", mean * 1e3));
        let full = ctx.number("queue_packets")?;
        if ctx.text("bulk_kind")? == "udp" {
            // Standing, not filling: each packet of the last second found (nearly) all of it full.
            let standing = full * FRAME * 8.0 / (ctx.number("rate_mbit")? * 1e6);
            ctx.set("sojourn_ms_expected", format!("{:.3}", standing * 1e3));
            return Ok(Some(packets > full * 0.9 && delays[0] > standing * 0.96));
        }
        // TCP keeps most of its own queue in the sockets (tcp_limit_output_bytes): few packets here.
        Ok(Some(packets > full * 0.1))
    }
}

/// The HTB class of the load's flow is given a low ceiling.
///
/// Parameters: `ceil_mbit`. The load is `tcp-source {far_ip}:{port}` in `{near_ns}`. Variables:
/// of [`pair`]; `port`, `class` (`1:20`).
struct ClassCeiling;

impl ClassCeiling {
    fn class(&self, ctx: &Ctx, verb: &str, id: &str, mbit: f64) -> Result<()> {
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let rate = format!("{:.0}kbit", mbit * 1e3);
        let head = ["-n", &ns, "class", verb, "dev", &interface, "parent", "1:", "classid", id];
        ctx.tool("tc", &[&head[..], &["htb", "rate", &rate, "ceil", &rate]].concat())?;
        Ok(())
    }
}

impl Fault for ClassCeiling {
    fn name(&self) -> &'static str {
        "net.class_ceiling"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let (port, minor) = (2000 + ctx.draw.index(30_000) as u16, 20 + ctx.draw.index(60));
        ctx.set("port", port);
        let class = format!("1:{minor}");
        ctx.set("class", &class);
        let tc = |words: &str| -> Result<()> {
            let words: Vec<&str> = words.split(' ').collect();
            ctx.tool("tc", &[&["-n", ns.as_str()][..], &words].concat()).map(drop)
        };
        tc(&format!("qdisc add dev {interface} root handle 1: htb default 10 r2q 1000"))?;
        self.class(ctx, "add", "1:10", 400.0)?;
        self.class(ctx, "add", &class, 400.0)?;
        tc(&format!("qdisc add dev {interface} parent {class} pfifo limit 200"))?;
        tc(&format!(
            "filter add dev {interface} parent 1: protocol ip u32 match ip dport {port} 0xffff flowid {class}"
        ))?;
        guards.push(tcp_sink(ctx, port)?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        // Nothing to take back: the interface goes with its namespace.
        self.class(ctx, "change", &ctx.text("class")?, ctx.number("ceil_mbit")?)?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (ns, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let id = ctx.text("class")?;
        let shown = ctx.tool("tc", &["-s", "-n", &ns, "class", "show", "dev", &interface])?;
        let class = shown.split("class htb ").find(|text| text.starts_with(&format!("{id} ")));
        let class = class.with_context(|| format!("no class {id}"))?;
        Ok(Some(!class.contains("backlog 0b 0p")))
    }
}

/// The receiver of the load's stream reads slowly.
///
/// Parameters: `pause_ms`, `reader_language` (rust, python), `receive_buffer` (0: the kernel's). The
/// load is `tcp-source {far_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `port`,
/// `switch`; `reader`, `reader_pid`.
struct SlowReader;

impl Fault for SlowReader {
    fn name(&self) -> &'static str {
        "net.slow_reader"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        let (address, number) = (ctx.text("far_ip")?, port.to_string());
        let buffer = ctx.text("receive_buffer")?;
        let mut spawn = if ctx.text("reader_language")? == "python" {
            let words = [&address, &number, "16384", &buffer, &switch];
            load_file(ctx, "slow_read.py", &words)?
        } else {
            let mut spawn = load(ctx, &["tcp-sink", &format!("{address}:{port}")]);
            let more = ["--read-bytes", "16384", "--switch", &switch];
            spawn.arguments.extend(super::stage::words(&more));
            if buffer != "0" {
                spawn.arguments.extend(super::stage::words(&["--receive-buffer", &buffer]));
            }
            spawn
        };
        spawn.netns = Some(ctx.text("far_ns")?);
        let started = start(ctx, "reader", &spawn)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "tcp", port)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &ctx.text("pause_ms")?)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let port = format!(":{}", ctx.text("port")?);
        let shown = ctx.tool("ss", &["-N", &ctx.text("near_ns")?, "-tinH", "dport", &port])?;
        Ok(Some(shown.contains("rwnd_limited:")))
    }
}

/// The server of the load's questions accepts nothing, or answers slowly.
///
/// Parameters: `backlog`; `answer_ms`; `multipath`, 1 if it listens by MPTCP. The load is `tcp-client {far_ip}:{port}` in `{near_ns}`.
/// Variables: of [`pair`]; `port`, `switch`; `server`, `server_pid`.
struct Listener(&'static str);

impl Fault for Listener {
    fn name(&self) -> &'static str {
        self.0
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        let switch = name_switch(ctx)?.to_string_lossy().into_owned();
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        let listen = format!("{}:{port}", ctx.text("far_ip")?);
        let option =
            if self.0 == "net.full_backlog" { "--accept-switch" } else { "--answer-switch" };
        let backlog = format!("{}", ctx.number_or("backlog", 128.0)?);
        let mut spawn = load(ctx, &["tcp-server", &listen, option, &switch, "--backlog", &backlog]);
        spawn.arguments.push("--parallel".into());
        if ctx.number_or("multipath", 0.0)? > 0.0 {
            spawn.arguments.push("--multipath".into());
        }
        spawn.netns = Some(ctx.text("far_ns")?);
        let started = start(ctx, "server", &spawn)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "tcp", port)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let server = ctx.number("server_pid")? as i32;
        let overflows = net_counter(server, "TcpExt", "ListenOverflows").unwrap_or(0);
        ctx.set("overflows_before", overflows);
        let text = format!("{}", ctx.number_or("answer_ms", 1.0)?);
        let mut guards = Guards::new();
        guards.push(switch_on(ctx, &text)?);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        if self.0 != "net.full_backlog" {
            return Ok(None);
        }
        let server = ctx.number("server_pid")? as i32;
        let overflows = net_counter(server, "TcpExt", "ListenOverflows");
        let overflows = overflows.context("no ListenOverflows")? as f64;
        Ok(Some(overflows > ctx.number("overflows_before")?))
    }
}

/// A flood fills the receive buffer of the server that the load asks: packets are dropped there.
///
/// Parameters: `flood_per_second`. The load is `udp-ping {far_ip}:{port}` in `{near_ns}`. The
/// server takes a millisecond for each packet, with or without the flood. Variables: of [`pair`];
/// `port`, `switch`; `server`, `server_pid`; `flood`, `flood_pid`.
struct Flood;

impl Fault for Flood {
    fn name(&self) -> &'static str {
        "net.flood"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        name_switch(ctx)?;
        guards.push(switch_on(ctx, "1")?);
        let port = 2000 + ctx.draw.index(30_000) as u16;
        ctx.set("port", port);
        let (listen, switch) = (format!("0.0.0.0:{port}"), ctx.text("switch")?);
        let words = ["udp-echo", &listen, "--switch", &switch, "--receive-buffer", "65536"];
        let mut spawn = load(ctx, &words);
        spawn.netns = Some(ctx.text("far_ns")?);
        let started = start(ctx, "server", &spawn)?;
        guards.push(started.guard);
        wait_bound(ctx, started.pid, "udp", port)?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let server = ctx.number("server_pid")? as i32;
        ctx.set("errors_before", net_counter(server, "Udp", "RcvbufErrors").unwrap_or(0));
        let to = format!("{}:{}", ctx.text("far_ip")?, ctx.text("port")?);
        let rate = ctx.text("flood_per_second")?;
        let words = ["udp-source", &to, "--bytes", "700", "--per-second", &rate, "--burst", "10"];
        let mut spawn = load(ctx, &words);
        spawn.netns = Some(ctx.text("near_ns")?);
        let mut guards = Guards::new();
        guards.push(start(ctx, "flood", &spawn)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let server = ctx.number("server_pid")? as i32;
        let errors = net_counter(server, "Udp", "RcvbufErrors").context("no RcvbufErrors")? as f64;
        Ok(Some(errors > ctx.number("errors_before")? + 100.0))
    }
}

/// Packets come in faster than one CPU handles them along with its work: all of an interface are handled on the CPU that the
/// load is bound to, while their sender has another.
///
/// Parameters: `packets_per_second`. Variables: of [`pair`]; `bound_group`, `sender_group`, `packets_cpu`, `sender_pid`.
struct Packets;

impl Fault for Packets {
    fn name(&self) -> &'static str {
        "net.packets"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        // The kernel's mask of CPUs is written in pieces of 32.
        let last = (std::thread::available_parallelism()?.get() - 1).min(31);
        if last == 0 {
            bail!("it takes two CPUs");
        }
        ctx.set("packets_cpu", last);
        for (variable, cpu) in [("bound_group", last), ("sender_group", 0)] {
            let (group, guard) = on_one_cpu(ctx, cpu)?;
            guards.push(guard);
            ctx.set(variable, group.display());
        }
        let (ns, interface) = (ctx.text("far_ns")?, ctx.text("far_if")?);
        let steer =
            format!("echo {:x} >/sys/class/net/{interface}/queues/rx-0/rps_cpus", 1_u64 << last);
        ctx.tool("ip", &["netns", "exec", &ns, "sh", "-c", &steer])?;
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("received_before", received(ctx.number("packets_cpu")? as usize)?);
        // Nobody listens there: handling is all that becomes of them.
        let to = format!("{}:9", ctx.text("far_ip")?);
        let rate = ctx.text("packets_per_second")?;
        let words = ["udp-source", &to, "--bytes", "64", "--per-second", &rate, "--burst", "200"];
        let mut spawn = load(ctx, &words);
        spawn.netns = Some(ctx.text("near_ns")?);
        spawn.cgroups = vec![PathBuf::from(ctx.text("sender_group")?)];
        let mut guards = Guards::new();
        guards.push(start(ctx, "sender", &spawn)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let received = received(ctx.number("packets_cpu")? as usize)? as f64;
        Ok(Some(received > ctx.number("received_before")? + 5_000.0))
    }
}

/// A cpuset of one CPU.
pub(super) fn on_one_cpu(ctx: &mut Ctx, cpu: usize) -> Result<(PathBuf, Guard)> {
    let name = ctx.draw.name();
    let (group, guard) = ctx.cgroup("cpuset", &name)?;
    for (file, value) in [("cpuset.mems", 0), ("cpuset.cpus", cpu)] {
        let path = group.join(file);
        fs::write(&path, value.to_string()).with_context(|| format!("write {}", path.display()))?;
    }
    Ok((group, guard))
}

/// Soft interrupts for packets that came in, on one CPU.
fn received(cpu: usize) -> Result<u64> {
    let text = fs::read_to_string("/proc/softirqs")?;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("NET_RX:"));
    let count = line.and_then(|line| line.split_whitespace().nth(cpu));
    count.context("no NET_RX in /proc/softirqs")?.parse().context("NET_RX")
}
