//! A question to a name server: the process of this host that it goes to.
//!
//! Must not: follow a question to another host (rules/net says what that means).

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::serving::chosen;
use crate::graph::ways::way::Way;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::net::SocketAddr;

/// The way.
pub(crate) static WAY: Way = Way {
    name: "name server",
    because: "it answers at the address that was asked",
    of: &[WaitClass::Dns],
    thresholds: &[],
    follow: |at| dns_server(at.index, at.wait).map(Next::Thread),
};

/// The process of this host that a question goes to.
fn dns_server(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let Object::DnsServer(Some(server), _) = wait.object else { return None };
    let server = index.connections.name_server(server, wait)?;
    (server.pid != wait.thread.pid).then(|| chosen(index, wait, vec![server]))?
}

/// The process of this host that answers at a name server's address, by the thread that matters in a wait.
pub(in crate::graph) fn answers_at(
    index: &Index<'_>,
    server: SocketAddr,
    wait: &WaitSpan,
) -> Option<ThreadRef> {
    let process = index.connections.name_server(server, wait);
    let process = process.filter(|process| process.pid != wait.thread.pid)?;
    chosen(index, wait, vec![process])
}

#[cfg(test)]
mod tests {
    use crate::facts::{Body, Translation};
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{endpoint, fact};

    #[test]
    fn who_is_bound_at_the_address_that_was_asked_is_it() {
        let asks = inet("udp", 5, "127.0.0.1:4000", "127.0.0.1:53", 1);
        let waits = || stands(of_ten(10), place("poll", NO_ARGS, Some(asks.clone())));
        let bound = |at: &str| endpoint(20, "dnsmasq", inet("udp", 6, at, "0.0.0.0:0", 7));
        assert_eq!(led(vec![waits(), bound("127.0.0.1:53")]), ("name server", Some(20)));
        assert_ne!(led(vec![waits(), bound("10.0.0.1:53")]).0, "name server");
    }

    #[test]
    fn a_question_that_is_translated_is_asked_of_who_is_bound_behind() {
        let asks = inet("udp", 5, "127.0.0.1:4000", "127.0.0.11:53", 1);
        let at = |text: &str| text.parse().expect("an address");
        let led_by = |bound: &str, far_netns: Option<u32>| {
            let translation = Translation {
                netns: 1,
                local: at("127.0.0.1:4000"),
                remote: at("127.0.0.11:53"),
                far_local: at("10.0.0.2:40001"),
                far_remote: at("127.0.0.1:4000"),
                far_netns,
            };
            led(vec![
                stands(of_ten(10), place("poll", NO_ARGS, Some(asks.clone()))),
                endpoint(20, "dockerd", inet("udp", 6, bound, "0.0.0.0:0", 7)),
                fact(Body::Translation(translation)),
            ])
        };
        let found = ("name server", Some(20));
        assert_eq!(led_by("10.0.0.2:40001", None), found);
        assert_ne!(led_by("10.0.0.2:40002", None), found, "another port");
        assert_eq!(led_by("0.0.0.0:40001", Some(1)), found);
        assert_ne!(led_by("0.0.0.0:40001", Some(2)), found, "another namespace");
        assert_ne!(led_by("0.0.0.0:40001", None), found, "nobody knows whose");
    }
}
