//! What holds network traffic back: the ladder of its rules.
//!
//! The order is the order of proof. A server that does not accept, a packet that this very host dropped (by its filter, for want
//! of room in a table, a ring, a backlog or a tap), a name server that does not answer, a neighbour that does not
//! answer ARP and a socket that drops are read from their own counters and tables (a name server first: it has a way out of its
//! own); so is a segment that waits for an acknowledgement. A queue of this host that never empties explains whatever passes it. A
//! window that the receiver leaves shut is counted by the sender's own kernel (chrono, as `ss -ti` shows it), like the
//! sender's own buffer. A round trip that has grown while nothing waits here is a queue beyond this host; losses come after
//! it, for it makes them too, unless they are more than a queue makes; before both, what is acknowledged not at all. A proxy of this host that keeps
//! questions stands before whomever it passes them on to. What is left is the peer itself. A stream that
//! nothing of this explains stays silent.
//!
//! Must not: hold anything but the ladder.

pub(crate) mod accept_queue;
#[cfg(test)]
mod accept_queue_tests;
pub(crate) mod address_duplicate;
mod address_family;
mod address_twice;
#[cfg(test)]
mod address_twice_tests;
mod answer_circle;
#[cfg(test)]
mod answer_circle_tests;
pub(crate) mod backlog_full;
pub(crate) mod bad_checksum;
pub(crate) mod bridge_full;
pub(crate) mod bridge_port;
pub(crate) mod class_ceiling;
pub(crate) mod conntrack_full;
mod cpu_backlog;
pub(crate) mod delayed_ack;
mod dns_answered;
mod dns_remedies;
pub(crate) mod dns_timeout;
mod drop_looks;
mod drop_places;
mod drop_reasons;
mod dropped_datagrams;
mod dropped_packets;
pub(crate) mod filter_drop;
pub(crate) mod filter_reject;
mod filter_words;
mod full_frame;
mod insertion_race;
mod last_reader;
mod line_limits;
pub(crate) mod line_rate;
mod listeners;
pub(crate) mod local_queue;
pub(crate) mod loss;
mod losses;
mod lost_here;
pub(crate) mod mtu;
mod mtu_ways_out;
pub(crate) mod neighbour_failed;
pub(crate) mod neighbour_table_full;
pub(crate) mod neighbour_wrong;
pub(crate) mod no_route;
pub(crate) mod no_way_back;
mod nobody_bound;
pub(crate) mod one_receive_cpu;
pub(crate) mod overlay_port;
pub(crate) mod overlay_unknown;
pub(crate) mod packet_dropped;
pub(crate) mod port_trend;
pub(crate) mod ports_exhausted;
pub(crate) mod promiscuous;
pub(crate) mod proxy_queue;
mod queue_commands;
mod queue_senders;
mod queued_answers;
mod queued_questions;
pub(crate) mod receiver_limited;
mod relay_legs;
pub(crate) mod remote_queue;
mod remote_shaper;
mod retransmits;
pub(crate) mod reverse_path;
pub(crate) mod ring_full;
#[cfg(test)]
pub(crate) mod scenes;
pub(crate) mod sendbuf_limited;
pub(crate) mod slow_peer;
mod slow_peer_words;
pub(crate) mod small_datagrams;
pub(crate) mod socket_full;
pub(crate) mod socket_memory;
mod standing_queue;
mod super_packets;
pub(crate) mod syn_backlog;
pub(crate) mod table_trend;
pub(crate) mod tap_full;
#[cfg(test)]
mod tests;
mod too_long;
pub(crate) mod udp_flood;
pub(crate) mod undelivered;
pub(crate) mod ways_out;
mod who_waits;
mod writers;

/// The rules of this area; the first that matches claims an end.
pub(crate) static LADDER: &[&super::Rule] = &[
    &accept_queue::RULE,
    &syn_backlog::RULE,
    &address_duplicate::RULE,
    &conntrack_full::RULE,
    &filter_drop::RULE,
    &filter_reject::RULE,
    &neighbour_table_full::RULE,
    &reverse_path::RULE,
    &ring_full::RULE,
    &one_receive_cpu::RULE,
    &backlog_full::RULE,
    &tap_full::RULE,
    &socket_memory::RULE,
    &overlay_unknown::RULE,
    &mtu::RULE,
    &bad_checksum::RULE,
    &packet_dropped::RULE,
    &dns_timeout::RULE,
    &no_route::RULE,
    &no_way_back::RULE,
    &overlay_port::RULE,
    &bridge_port::RULE,
    &neighbour_wrong::RULE,
    &neighbour_failed::RULE,
    &ports_exhausted::RULE,
    &bridge_full::RULE,
    &promiscuous::RULE,
    &delayed_ack::RULE,
    &socket_full::RULE,
    &udp_flood::RULE,
    &small_datagrams::RULE,
    &class_ceiling::RULE,
    &line_rate::RULE,
    &local_queue::RULE,
    &receiver_limited::RULE,
    &sendbuf_limited::RULE,
    &undelivered::RULE,
    &remote_queue::RULE,
    &loss::RULE,
    &proxy_queue::RULE,
    &slow_peer::RULE,
    &table_trend::RULE,
    &port_trend::RULE,
];
