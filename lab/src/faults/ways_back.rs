//! net.reverse_path, net.no_route, net.neighbours: what this host drops or refuses for its routes, or for want of room for its neighbours.
//!
//! The proof is the kernel's own count, TcpExt.IPReversePathFilter of the namespace, `table_fulls` of the table that all share; or that `ip route get`
//! finds no way.

use super::stage::{load_file, pair, start, tcp_server};
use crate::fault::{Ctx, Fault, Injected};
use crate::undo::Guards;
use anyhow::{Context, Result};
use std::fs;

/// The faults of this file.
pub(super) const FAULTS: &[&dyn Fault] = &[&ReversePath, &Unrouted, &Neighbours];

/// `ip` with words in one text.
fn ip(ctx: &Ctx, words: &str) -> Result<()> {
    ctx.tool("ip", &words.split(' ').collect::<Vec<_>>()).map(drop)
}

/// The far host answers by a second link, by which the near one does not send there.
///
/// Parameters: `mode` (`own`, `all`: where rp_filter is set). The load is `tcp-client {behind_ip}:{port}` in `{near_ns}`. Variables: of [`pair`]; `behind_ip`,
/// `port`, `back_if` (by which answers come); `server`, `server_pid`.
struct ReversePath;

impl Fault for ReversePath {
    fn name(&self) -> &'static str {
        "net.reverse_path"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        guards.append(tcp_server(ctx, "0.0.0.0")?);
        let (near, far) = (ctx.text("near_ns")?, ctx.text("far_ns")?);
        let (back, far_back) = (format!("wan{}", ctx.draw.index(9)), "back0");
        let net = format!("172.{}.{}", 16 + ctx.draw.index(15), ctx.draw.index(250));
        let behind = format!("192.168.{}.1", ctx.draw.index(250));
        ip(ctx, &format!("-n {near} link add {back} type veth peer name {far_back} netns {far}"))?;
        for (ns, interface, last) in [(&near, &*back, 1), (&far, far_back, 2)] {
            ip(ctx, &format!("-n {ns} addr add {net}.{last}/24 dev {interface}"))?;
            ip(ctx, &format!("-n {ns} link set {interface} up"))?;
        }
        ip(ctx, &format!("-n {far} link set lo up"))?;
        ip(ctx, &format!("-n {far} addr add {behind}/32 dev lo"))?;
        ip(ctx, &format!("-n {near} route add {behind}/32 via {}", ctx.text("far_ip")?))?;
        let of = if ctx.text("mode")? == "own" { &*back } else { "all" };
        let set = format!("echo 1 >/proc/sys/net/ipv4/conf/{of}/rp_filter");
        ctx.tool("ip", &["netns", "exec", &near, "sh", "-c", &set])?;
        // Asks by an address of that link, as a router does; asked by another, the near host would not even answer.
        let ask = format!("echo 2 >/proc/sys/net/ipv4/conf/{far_back}/arp_announce");
        ctx.tool("ip", &["netns", "exec", &far, "sh", "-c", &ask])?;
        ctx.set("behind_ip", behind);
        ctx.set("back_if", back);
        ctx.set("back_ip", format!("{net}.1"));
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (far, near_ip) = (ctx.text("far_ns")?, ctx.text("near_ip")?);
        ip(
            ctx,
            &format!("-n {far} route add {near_ip}/32 via {} dev back0", ctx.text("back_ip")?),
        )?;
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let words = ["netns", "exec", &ctx.text("near_ns")?, "cat", "/proc/net/netstat"];
        let shown = ctx.tool("ip", &words)?;
        let mut lines = shown.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
        let mut next = || lines.next().map(|line| line.split(' ').collect::<Vec<_>>());
        let (names, values) = (next().context("no names")?, next().context("no values")?);
        let at = names.iter().position(|name| *name == "IPReversePathFilter");
        let dropped: u64 = values[at.context("no such counter")?].parse()?;
        Ok(Some(dropped > 0))
    }
}

/// The load's host sends nothing to its server any more.
///
/// Parameters: `by` (`gone`: the route is taken away; `rule`: a rule of routing refuses the address; else the type of a route in a table of its own).
/// The load is `connect_retry.py {far_ip}:{port} ...` in `{near_ns}`. Variables: of [`pair`]; `port`; `server`, `server_pid`; `refuses` (what has
/// to be changed).
struct Unrouted;

impl Fault for Unrouted {
    fn name(&self) -> &'static str {
        "net.no_route"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        guards.append(tcp_server(ctx, "0.0.0.0")?);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        let (near, to) = (ctx.text("near_ns")?, ctx.text("far_ip")?);
        let (priority, table) = (100 + ctx.draw.index(30_000), 300 + ctx.draw.index(1_000));
        let net = to.rsplit_once('.').context("an address")?.0.to_string() + ".0/24";
        let refuses = match &*ctx.text("by")? {
            "gone" => {
                ip(ctx, &format!("-n {near} route del {net}"))?;
                format!("route to {to}")
            }
            "rule" => {
                ip(ctx, &format!("-n {near} rule add pref {priority} to {net} prohibit"))?;
                format!("rule {priority} of the routes")
            }
            kind => {
                ip(ctx, &format!("-n {near} route add {kind} {net} table {table}"))?;
                ip(ctx, &format!("-n {near} rule add pref {priority} lookup {table}"))?;
                format!("route {kind} {net} table {table}")
            }
        };
        ctx.set("refuses", refuses);
        Ok(Injected::default())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        let (near, to) = (ctx.text("near_ns")?, ctx.text("far_ip")?);
        Ok(Some(ip(ctx, &format!("-n {near} route get {to}")).is_err()))
    }
}

/// A program tries so many addresses of a link that the table of neighbours has no room for the load's.
///
/// An entry that is in use keeps its place, so the load needs a new one each time. Parameters: `addresses_per_second`. The load is `connect_each.py {others}
/// {port} ...` in `{near_ns}`. Variables: of [`pair`]; `port`; `others` (a network whose hosts all answer); `scan`, `scan_pid`.
struct Neighbours;

/// Addresses that found no room, of all CPUs.
fn refused() -> Result<u64> {
    let text = fs::read_to_string("/proc/net/stat/arp_cache")?;
    let mut lines = text.lines().map(|line| line.split_whitespace());
    let at = lines.next().and_then(|mut names| names.position(|name| name == "table_fulls"));
    let at = at.context("no column table_fulls")?;
    Ok(lines.filter_map(|mut line| u64::from_str_radix(line.nth(at)?, 16).ok()).sum())
}

impl Fault for Neighbours {
    fn name(&self) -> &'static str {
        "net.neighbours"
    }

    fn set_up(&self, ctx: &mut Ctx) -> Result<Guards> {
        let mut guards = pair(ctx)?;
        guards.append(tcp_server(ctx, "0.0.0.0")?);
        let (near, interface) = (ctx.text("near_ns")?, ctx.text("near_if")?);
        let (far, others) = (ctx.text("far_ns")?, "172.29.0.0/16");
        ip(ctx, &format!("-n {near} addr add 172.30.0.1/16 dev {interface}"))?;
        ip(ctx, &format!("-n {near} route add {others} dev {interface}"))?;
        ip(ctx, &format!("-n {far} link set lo up"))?;
        ip(ctx, &format!("-n {far} route add local {others} dev lo"))?;
        ctx.set("others", others);
        Ok(guards)
    }

    fn inject(&self, ctx: &mut Ctx) -> Result<Injected> {
        ctx.set("refused_before", refused()?);
        let rate = ctx.text("addresses_per_second")?;
        let mut scan = load_file(ctx, "scan.py", &["172.30.0.0/16", &rate])?;
        scan.netns = Some(ctx.text("near_ns")?);
        let mut guards = Guards::new();
        guards.push(start(ctx, "scan", &scan)?.guard);
        Ok(guards.into())
    }

    fn bites(&self, ctx: &mut Ctx) -> Result<Option<bool>> {
        Ok(Some(refused()? as f64 > ctx.number("refused_before")?))
    }
}
