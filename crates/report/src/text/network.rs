//! The tables of the network as text: figures in columns, names and what they mean beside them.
//!
//! Written from the object alone that `holdup net --json` prints. An empty table is one line, and one that was not read says that.
//! What a container, a packet or a process could name passes `escape`. Must not: judge, or leave out a gap that `not_read` has.
//!
//! Edit together: `reason/src/answer/network/contract.rs`, docs/net.md.

use super::escape;
use super::page::{Page, Tone};
use holdup_reason::answer::network::{
    Buffers, Drops, Flow, Interface, Lost, Namespace, Network, Queue, Socket, Tcp, Traffic, Trouble,
};
use holdup_reason::answer::{Victim, Who, Workload};
use holdup_reason::model::figures::{self, bits, count, seconds};
use std::net::SocketAddr;

/// Rows of a table without -v.
const ROWS: usize = 16;
/// Who waits, of each row without -v.
const WAITERS: usize = 3;
/// Columns of a name.
const NAME: usize = 40;
/// Columns of a sentence.
const SENTENCE: usize = 240;
/// Columns before what belongs to a row.
const BELOW: usize = 8;

/// Writes all tables.
pub(crate) fn render(net: &Network, verbose: bool, page: &mut Page) {
    let host = escape::name(&net.host.name, NAME);
    let title = format!("The network of {host} in {}", seconds(net.window.seconds));
    page.verdict(&title, Tone::Heading);
    for cause in &net.findings {
        let code = escape::name(&cause.code, NAME);
        page.labelled("named", &format!("{} ({code})", escape::prose(&cause.title, SENTENCE)));
    }
    let rows = |all: usize| if verbose { all } else { all.min(ROWS) };
    interfaces(net, rows, verbose, page);
    drops(net, rows, verbose, page);
    neighbours(net, rows, verbose, page);
    sockets(net, rows, verbose, page);
    counters(net, rows, page);
    if !net.not_read.is_empty() {
        page.gap();
        page.verdict("What was not read", Tone::Heading);
        for it in &net.not_read {
            let table = escape::name(&it.table, NAME);
            page.item(&format!("{table}: {}", escape::prose(&it.text, SENTENCE)));
        }
    }
    if !net.left_out.is_empty() {
        let left_out: usize = net.left_out.iter().map(|cut| cut.count).sum();
        page.gap();
        let text = format!("Left out, for these lists have a bound: {}.", count(left_out as u64));
        page.verdict(&text, Tone::Faint);
    }
}

/// Begins a table: its heading, or in one line that it is empty, or was not read. The rows, if there are some.
fn begun<'n, T>(
    rows: &'n Option<Vec<T>>,
    [heading, empty, unread]: [&str; 3],
    page: &mut Page,
) -> &'n [T] {
    page.gap();
    match rows.as_deref() {
        None => page.verdict(unread, Tone::Warning),
        Some([]) => page.verdict(empty, Tone::Faint),
        Some(_) => page.verdict(heading, Tone::Heading),
    }
    rows.as_deref().unwrap_or_default()
}

/// The columns' names.
fn head(figures: &str, words: &str, page: &mut Page) {
    page.row(figures, words, Tone::Faint);
}

/// A line that belongs to the row above.
fn below(label: &str, text: &str, page: &mut Page) {
    page.row(&format!("{label:>BELOW$}"), text, Tone::Plain);
}

/// How many rows are not shown.
fn more(all: usize, shown: usize, page: &mut Page) {
    if all > shown {
        let text = format!("{} more (-v)", count((all - shown) as u64));
        page.row(&" ".repeat(BELOW), &text, Tone::Faint);
    }
}

fn interfaces(net: &Network, rows: impl Fn(usize) -> usize, verbose: bool, page: &mut Page) {
    let words = ["Interfaces", "No interface moved a packet.", "Interfaces were not read."];
    let all = begun(&net.interfaces, words, page);
    let shown = rows(all.len());
    if shown > 0 {
        let names = ["in", "out", "packets/s in", "out"];
        head(&columns(names), "interface", page);
    }
    for it in &all[..shown] {
        interface(it, verbose, page);
    }
    more(all.len(), shown, page);
    if net.interfaces_at_rest > 0 && !all.is_empty() {
        let text = format!("{} others moved nothing", count(net.interfaces_at_rest as u64));
        page.row(&" ".repeat(BELOW), &text, Tone::Faint);
    }
}

fn columns([received, sent, packets_in, packets_out]: [&str; 4]) -> String {
    format!("{received:>12} {sent:>12} {packets_in:>12} {packets_out:>9}")
}

fn interface(it: &Interface, verbose: bool, page: &mut Page) {
    let unknown = || ("?".to_string(), "?".to_string());
    let of = |traffic: Option<Traffic>| {
        traffic.map_or_else(unknown, |it| (bits(it.bits_per_second), rate(it.packets_per_second)))
    };
    let ((received, packets_in), (sent, packets_out)) = (of(it.received), of(it.sent));
    let kind = match it.kind.as_str() {
        "" => String::new(),
        kind => format!(" ({})", escape::name(kind, NAME)),
    };
    let name = format!("{}{kind}{}", escape::name(&it.name, NAME), within(&it.at));
    page.row(&columns([&received, &sent, &packets_in, &packets_out]), &name, Tone::Plain);
    if let Some(speed) = it.speed_bits_per_second {
        below("link", &bits(speed), page);
    }
    if let Some([now, most]) = it.receive_ring {
        below("ring", &format!("{now} of at most {most} descriptors to receive"), page);
    }
    let lost = |it: &Lost| {
        format!("{} {}", escape::name(&it.counter, NAME), and_rate(it.packets, it.per_second))
    };
    let lost: Vec<String> = it.lost.iter().map(lost).collect();
    if !lost.is_empty() {
        below("lost", &lost.join(", "), page);
    }
    for queue in it.queues.iter().filter(|queue| verbose || queue.is_used()) {
        below("queue", &queue_words(queue), page);
        waiting(&queue.waiting, None, verbose, page);
    }
}

fn queue_words(queue: &Queue) -> String {
    let bytes = |of: u64| figures::bytes(of as f64);
    let mut text = format!(
        "{} {}: {} ({}) waiting as the window ends",
        escape::name(&queue.kind, NAME),
        escape::name(queue.handle.trim_end_matches(':'), NAME),
        packets(queue.backlog.packets),
        bytes(queue.backlog.bytes),
    );
    match (queue.limit_packets, queue.limit_bytes) {
        (Some(limit), _) => text += &format!(", of at most {}", count(limit)),
        (None, Some(limit)) => text += &format!(", of at most {}", bytes(limit)),
        (None, None) => {}
    }
    if let Some(mean) = queue.wait_seconds_mean.filter(|mean| *mean > 0.0) {
        text += &format!("; {} each on average", seconds(mean));
    }
    if let Some(rate) = queue.rate_bits_per_second {
        text += &format!("; set to {}", bits(rate));
    }
    match (queue.dropped_packets, queue.dropped_per_second) {
        (Some(0), _) => text += "; nothing dropped",
        (Some(dropped), Some(each)) => text += &format!("; dropped {}", and_rate(dropped, each)),
        _ => text += "; drops not known",
    }
    text
}

fn drops(net: &Network, rows: impl Fn(usize) -> usize, verbose: bool, page: &mut Page) {
    let words = [
        "Packets that this host dropped",
        "No packet was seen to be dropped.",
        "Whether packets were dropped was not seen.",
    ];
    let all = begun(&net.drops, words, page);
    let shown = rows(all.len());
    if shown > 0 {
        head(&counted(["packets", "a second"]), "why and where", page);
    }
    for it in &all[..shown] {
        let figures = counted([&count(it.packets), &rate(it.per_second)]);
        page.row(&figures, &why_and_where(it), Tone::Plain);
        let flows = if verbose { it.flows.len() } else { it.flows.len().min(1) };
        for flow in &it.flows[..flows] {
            below("", &flow_words(flow, verbose), page);
        }
        waiting(&it.waiting, None, verbose, page);
    }
    more(all.len(), shown, page);
}

fn counted([all, each]: [&str; 2]) -> String {
    format!("{all:>12} {each:>11}")
}

fn why_and_where(it: &Drops) -> String {
    let reason = match (it.reason.as_str(), it.function.as_str()) {
        ("", "") => "no reason given".into(),
        ("", function) | ("NOT_SPECIFIED", function) if !function.is_empty() => {
            format!("in {}, which gives no reason", escape::name(function, NAME))
        }
        (reason, _) => escape::name(reason, NAME),
    };
    let on = match it.interface.as_str() {
        "" => String::new(),
        name => format!(" on {}", escape::name(name, NAME)),
    };
    let meaning = it.meaning.as_ref().map(|it| format!(": {}", escape::prose(it, SENTENCE)));
    format!("{reason}{on}{}{}", within(&it.at), meaning.unwrap_or_default())
}

fn flow_words(flow: &Flow, verbose: bool) -> String {
    let protocol = match flow.protocol.parse::<u32>() {
        Ok(number) => format!("protocol {number}"),
        Err(_) => escape::name(&flow.protocol, NAME),
    };
    let place = |of: SocketAddr| match of.port() {
        0 => of.ip().to_string(),
        _ => of.to_string(),
    };
    let addresses = match flow.from.ip().is_unspecified() && flow.to.ip().is_unspecified() {
        true => String::new(),
        false => format!(" {} > {}", place(flow.from), place(flow.to)),
    };
    let by = |word: &str, of: &Option<Who>| {
        of.as_ref().map_or_else(String::new, |it| format!(", {word} {}", who(it)))
    };
    let last = match verbose {
        true => format!(", the last {} before the end", seconds(flow.last_seconds_before_end)),
        false => String::new(),
    };
    format!(
        "{} of {protocol}{addresses}{}{}{last}",
        count(flow.packets),
        by("sent by", &flow.sender),
        by("for", &flow.receiver),
    )
}

fn neighbours(net: &Network, rows: impl Fn(usize) -> usize, verbose: bool, page: &mut Page) {
    let words = [
        "Neighbours that do not answer, of those that somebody waits for",
        "The next hops of whoever waits answer, as far as their own namespaces know.",
        "Neighbours were not asked for.",
    ];
    let all = begun(&net.neighbours, words, page);
    let shown = rows(all.len());
    for it in &all[..shown] {
        let to = match it.address == it.destination {
            true => String::new(),
            false => format!(", the gateway to {}", it.destination),
        };
        let text = format!(
            "{} on {}{}{to}, for {}",
            it.address,
            escape::name(&it.interface, NAME),
            within(&it.at),
            seconds(it.state_seconds)
        );
        page.row(&format!("{:>12}", escape::name(&it.state, NAME)), &text, Tone::Plain);
        waiting(&it.waiting, None, verbose, page);
    }
    more(all.len(), shown, page);
    // Each namespace has a table of connections, most of them empty.
    for it in net.tables.iter().filter(|it| verbose || it.entries > 0) {
        let what = match it.table.as_str() {
            "neighbours_v4" => "neighbours of IPv4".to_string(),
            "neighbours_v6" => "neighbours of IPv6".to_string(),
            other => format!("{} of the packet filter", escape::name(other, NAME)),
        };
        let mut text = format!(
            "{what}{}: {} of at most {}",
            within(&it.at),
            count(it.entries),
            count(it.limit)
        );
        for (of, words) in [(it.refused, "found no room"), (it.unanswered, "asked for in vain")] {
            if let Some(of) = of.filter(|of| *of > 0) {
                text += &format!("; {} {words}", count(of));
            }
        }
        page.row(&format!("{:>12}", "table"), &text, Tone::Plain);
    }
}

fn sockets(net: &Network, rows: impl Fn(usize) -> usize, verbose: bool, page: &mut Page) {
    let words = [
        "Sockets that somebody waits for, or that are not healthy",
        "Nobody waits for a socket, and none is unhealthy.",
        "Sockets were not read.",
    ];
    let all = begun(&net.sockets, words, page);
    let shown = rows(all.len());
    if shown > 0 {
        let names = ["state", "recv-q", "send-q", "rtt", "again"];
        head(&of_socket(names), "owner", page);
    }
    for it in &all[..shown] {
        socket(it, verbose, page);
    }
    more(all.len(), shown, page);
}

fn of_socket([state, received, sent, rtt, again]: [&str; 5]) -> String {
    format!("{state:<10} {received:>11} {sent:>11} {rtt:>7} {again:>6}")
}

fn socket(it: &Socket, verbose: bool, page: &mut Page) {
    let queued = |of: fn(&Buffers) -> u64| {
        it.buffers.as_ref().map_or_else(|| "?".into(), |it| figures::bytes(of(it) as f64))
    };
    let rtt = it.tcp.and_then(|tcp| tcp.rtt_seconds).map_or_else(|| "-".into(), seconds);
    let again = it.tcp.map_or_else(|| "-".into(), |tcp| count(tcp.sent_again_segments.into()));
    let (received, sent) =
        (queued(|it| it.receive_queued_bytes), queued(|it| it.send_queued_bytes));
    let state = escape::name(&it.state, 10);
    let figures = of_socket([&state, &received, &sent, &rtt, &again]);
    page.row(&figures, &who(&it.owner), Tone::Plain);
    let to = it.remote.map_or_else(String::new, |remote| format!(" > {remote}"));
    let protocol = escape::name(&it.protocol, NAME);
    below("", &format!("{protocol} {}{to}{}", it.local, within(&it.at)), page);
    let troubles: Vec<String> = it.troubles.iter().map(|trouble| said(*trouble, it)).collect();
    if !troubles.is_empty() {
        below("", &troubles.join("; "), page);
    }
    let says_more = |tcp: &Tcp| tcp.rtt_seconds.is_some() && (verbose || tcp.busy_seconds > 0.0);
    if let Some(tcp) = it.tcp.filter(says_more) {
        below("tcp", &tcp_words(&tcp), page);
    }
    waiting(&it.waiting, Some(it.waiting_seconds), verbose, page);
}

/// What is not healthy, with its figures.
fn said(trouble: Trouble, of: &Socket) -> String {
    let (buffers, tcp) = (of.buffers.unwrap_or_default(), of.tcp.unwrap_or_default());
    let bytes = |of: u64| figures::bytes(of as f64);
    let part = |limited: f64, by: &str| {
        format!(
            "limited by {by} for {} of the time with data outstanding",
            figures::share(limited, tcp.busy_seconds)
        )
    };
    match trouble {
        Trouble::SentAgain if of.tcp.is_none() => "segments were sent again".into(),
        Trouble::SentAgain => format!(
            "{} segments sent again, {} arrived",
            count(tcp.sent_again_segments.into()),
            count(tcp.delivered_segments.into())
        ),
        Trouble::PeerWindowZero => "the peer takes nothing more (zero window)".into(),
        Trouble::ReceiveBufferFull => {
            format!("its receive buffer of {} is full", bytes(buffers.receive_limit_bytes))
        }
        Trouble::SendBufferFull => {
            format!("its send buffer of {} is full", bytes(buffers.send_limit_bytes))
        }
        Trouble::AcceptQueueOverHalf => format!(
            "{} of at most {} connections wait to be accepted",
            buffers.accept_queue.unwrap_or_default(),
            buffers.accept_limit.unwrap_or_default()
        ),
        Trouble::Dropped => format!("{} dropped at it", packets(buffers.dropped_packets)),
        Trouble::RoundTripGrown => format!(
            "its round trip has grown; the least one was {}",
            tcp.rtt_seconds_min.map_or_else(|| "?".into(), seconds)
        ),
        Trouble::ReceiverLimited => part(tcp.receiver_limited_seconds, "the peer's window"),
        Trouble::SendBufferLimited => part(tcp.send_buffer_limited_seconds, "its send buffer"),
    }
}

fn tcp_words(tcp: &Tcp) -> String {
    let least = tcp.rtt_seconds_min.map_or_else(|| "not known".into(), seconds);
    format!(
        "{} acknowledged, {} received, {} not sent yet; peer's window {}, congestion window {} segments, least rtt {least}; busy {}",
        bits(tcp.acknowledged_bits_per_second),
        bits(tcp.received_bits_per_second),
        figures::bytes(tcp.unsent_bytes as f64),
        tcp.peer_window_bytes.map_or_else(|| "not known".into(), |it| figures::bytes(it.into())),
        count(tcp.congestion_window_segments.into()),
        seconds(tcp.busy_seconds),
    )
}

fn counters(net: &Network, rows: impl Fn(usize) -> usize, page: &mut Page) {
    let words = [
        "Counters that moved and mean trouble",
        "No counter that means trouble moved.",
        "Counters were not read.",
    ];
    let all = begun(&net.counters, words, page);
    let shown = rows(all.len());
    if shown > 0 {
        head(&counted(["more", "a second"]), "counter", page);
    }
    for it in &all[..shown] {
        let text = format!(
            "{}{}: {}",
            escape::name(&it.counter, NAME),
            within(&it.at),
            escape::prose(&it.meaning, SENTENCE)
        );
        page.row(&counted([&count(it.count), &rate(it.per_second)]), &text, Tone::Plain);
    }
    more(all.len(), shown, page);
}

/// Who waits, and how long; `all` is their sum where it is said beside them.
fn waiting(all: &[Victim], sum: Option<f64>, verbose: bool, page: &mut Page) {
    let shown = if verbose { all.len() } else { all.len().min(WAITERS) };
    let mut words: Vec<String> = Vec::new();
    for it in &all[..shown] {
        let (name, place) = (escape::name(&it.comm, NAME), of_workload(&it.workload));
        words.push(format!("{name} {}{place} for {}", it.pid, seconds(it.wait_seconds)));
    }
    if all.len() > shown {
        let sum = sum.map(|sum| format!(", {} together", seconds(sum)));
        words.push(format!("{} more{}", all.len() - shown, sum.unwrap_or_default()));
    }
    if !words.is_empty() {
        below("waits", &words.join(", "), page);
    }
}

fn packets(of: u64) -> String {
    format!("{} {}", count(of), if of == 1 { "packet" } else { "packets" })
}

/// ` of web-1`: of a container or pod; a unit or a group of the host itself says little here.
fn of_workload(of: &Workload) -> String {
    let name = of.name.as_ref().filter(|_| of.runtime.is_some());
    name.map_or_else(String::new, |name| format!(" of {}", escape::name(name, NAME)))
}

/// ` of namespace blue`, for what is not in the host's own namespace.
fn within(at: &Namespace) -> String {
    match at.namespace.as_str() {
        "" => String::new(),
        name => format!(" of namespace {}", escape::name(name, NAME)),
    }
}

fn who(it: &Who) -> String {
    let name = escape::name(&it.called(), NAME);
    let pid = it.pid.map_or_else(String::new, |pid| format!(" {pid}"));
    format!("{name}{pid}{}", of_workload(&it.workload))
}

fn and_rate(all: u64, per_second: f64) -> String {
    format!("{} ({} a second)", count(all), rate(per_second))
}

/// Some thousands a second have no decimals.
fn rate(per_second: f64) -> String {
    match per_second {
        it if it >= 999.5 => figures::thousands(it),
        it if it <= 0.0 => "0".into(),
        it => figures::rate(it),
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
