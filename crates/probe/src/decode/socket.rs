//! A socket's own counters, from the kernel's units to ours: what its queues hold, what its sending waited for,
//! and who spoke last.
//!
//! Must not judge: which of these says that a peer is slow is for the cases. Edit together: bpf/wire.h (`wire_socket`).

use crate::decode::values::address;
use crate::decode::wire::wire_socket;
use holdup_reason::facts::{Requests, SocketState, TcpTurn, Waiting};

/// The state of a socket; `hz` are the ticks a second in which TCP sums up what it waited for.
pub(super) fn state(record: &wire_socket, hz: u32) -> SocketState {
    let tick_us = if hz == 0 { 0 } else { 1_000_000 / u64::from(hz) };
    let mut chrono = record.chrono.map(u64::from);
    // The running stretch is not in the sums yet (tcp_get_info_chrono_stats does the same).
    if (1..=3).contains(&record.chrono_type) {
        let standing = record.jiffies.wrapping_sub(record.chrono_start);
        chrono[record.chrono_type as usize - 1] += u64::from(standing);
    }
    SocketState {
        receive_limit_bytes: record.receive_limit_bytes,
        receive_queued_bytes: record.receive_queued_bytes,
        send_limit_bytes: record.send_limit_bytes,
        send_queued_bytes: record.send_queued_bytes,
        drops: record.drops,
        accept_queue: record.accept_queue,
        accept_limit: record.accept_limit,
        waiting: waiting(record),
        requests: (record.requests_limit != 0).then_some(Requests {
            half_made: record.requests,
            limit: record.requests_limit,
            cookies: record.syncookies != 0,
        }),
        rtt_us: record.rtt_us,
        rtt_us_min: record.rtt_us_min,
        congestion_window: record.congestion_window,
        segment_bytes: record.segment_bytes,
        send_window_bytes: record.send_window_bytes,
        unsent_bytes: u64::from(record.unsent_bytes),
        acked_bytes: record.acked_bytes,
        received_bytes: record.received_bytes,
        retransmits: record.retransmits,
        delivered: record.delivered,
        busy_us: chrono.iter().sum::<u64>() * tick_us,
        receiver_limited_us: chrono[1] * tick_us,
        send_buffer_limited_us: chrono[2] * tick_us,
        turn: (record.has_turn != 0).then(|| turn(record, hz)),
    }
}

fn waiting(record: &wire_socket) -> Option<Waiting> {
    let family = u16::try_from(record.waiting_family).ok().filter(|family| *family != 0)?;
    let ip = |bytes| address(family, bytes, 0).ip();
    Some(Waiting { at: ip(&record.waiting_at), from: ip(&record.waiting_from) })
}

fn turn(record: &wire_socket, hz: u32) -> TcpTurn {
    let age = |jiffies| record.jiffies.wrapping_sub(jiffies);
    TcpTurn {
        write_seq: record.write_seq,
        snd_nxt: record.snd_nxt,
        snd_una: record.snd_una,
        snd_wl1: record.snd_wl1,
        rcv_nxt: record.rcv_nxt,
        copied_seq: record.copied_seq,
        packets_out: record.packets_out,
        nonagle: record.nonagle as u8,
        keepalive: record.keepalive != 0,
        first_tx_ns: record.first_tx_us.saturating_mul(1_000),
        delivered_ns: record.delivered_us.saturating_mul(1_000),
        sent_jiffies: age(record.sent_jiffies),
        received_jiffies: age(record.received_jiffies),
        heard_jiffies: age(record.heard_jiffies),
        jiffy_ns: 1_000_000_000_u32.checked_div(hz).unwrap_or(0),
    }
}
