//! net.udp_flood: more datagrams arrive than their program can read, and its socket drops the rest.
//!
//! As net.socket_full, but the program keeps reading. Where exactly one process of this host sends to the socket
//! without waiting for answers, it is to blame; else the reader, who at least can be found.

use crate::answer::report::{Finding, Remedy};
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::net_socket_full::{Dropping, dropping, reads, told};
use crate::rules::old::{Rule, culprit, net, words};

/// The case.
pub static RULE: Rule = Rule {
    code: "net.udp_flood",
    title: "More datagrams arrive than their program can read",
    theory: "UDP has no back pressure: a sender that is quicker than the reader fills the reader's socket, and then \
             every further datagram is dropped, those of other senders too, in the order in which they come.",
    needs: &[
        "the socket's own count of drops grows by ten a second or more",
        "the namespace's count of full receive buffers grows as well",
        "the program reads on meanwhile",
    ],
    refuted_by: &[
        Refutation::new("the program does not read (net.socket_full)", ""),
        Refutation::new("the drops stopped before the look", ""),
    ],
    remedies: &[
        "slow the sender, or drop its packets before the socket",
        "read with more threads (SO_REUSEPORT), or more per call (recvmmsg)",
        "a larger buffer (net.core.rmem_max) only helps against bursts",
    ],
    stories: &["S0.16", "S2.10"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let all = dropping(measures);
    all.iter().filter(|d| reads(d)).map(|d| finding(measures, d)).collect()
}

fn finding(measures: &Measures<'_>, dropping: &Dropping<'_>) -> Finding {
    let server = words::who(&dropping.endpoint.process);
    let arriving = dropping.dropped + dropping.read;
    let place = dropping.socket.local;
    let (by, blamed) = match dropping.senders[..] {
        [only] => (format!(" from {}", words::who(only)), culprit(measures, only)),
        _ => (String::new(), culprit(measures, &dropping.endpoint.process)),
    };
    let title = format!("datagrams flood {server} on udp {place}{by}: it cannot read them all");
    let text = format!(
        "{} of them are dropped: {} a second arrive, {} are read. Whoever waits for an answer waits in vain as often.",
        words::percent(dropping.dropped / arriving.max(1e-9)),
        words::rate(arriving),
        words::rate(dropping.read),
    );
    let tcpdump = net::command_in(measures.model, dropping.socket.netns, "tcpdump");
    let remedy = vec![
        match dropping.senders[..] {
            [only] => net::pause(only),
            _ => Remedy {
                text: "see who sends".into(),
                command: format!("{tcpdump} -nn -c 20 udp dst port {}", place.port()),
                ..Remedy::default()
            },
        },
        Remedy {
            text: "slow the sender, or read with more threads (SO_REUSEPORT)".into(),
            ..Remedy::default()
        },
    ];
    told(&RULE, measures, dropping, title, text, blamed, remedy)
}
