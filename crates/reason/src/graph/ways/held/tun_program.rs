//! The program of the tunnel that a socket's packets go into, where it stands still: nothing leaves, and nothing comes back. Or the one at the
//! tunnel's other end, where that is on this host as well.
//!
//! Must not: take one for it that waits for packets, which is its work, or for a CPU, as all do now and then. Rejected: the socket's other end
//! first (it may be on this host as well, and has heard nothing).

use crate::facts::ObjectRef;
use crate::graph::next::Next;
use crate::graph::tun_program::{at_the_far_end, into_tun};
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass::{SocketConnect, SocketRead, SocketWrite};

/// The way.
pub(super) static WAY: Way = Way {
    name: "program of a tunnel",
    because: "the packets go by its tunnel, and it does not take them",
    of: &[SocketConnect, SocketRead, SocketWrite],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let Some(ObjectRef::Inet(socket)) = &at.wait.place.object else { return None };
    let model = at.index.model;
    let near = into_tun(model, socket)?.1;
    let mut both = near.into_iter().chain(at_the_far_end(model, socket));
    both.find_map(|program| at.standing_still(program)).map(Next::Thread)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::{inet, next_hop};
    use crate::rules::scenes::{fact, thread};

    #[test]
    fn the_program_of_a_tunnel_that_stands_still_is_next_and_one_that_waits_for_packets_is_not() {
        let through = |state: WaitState, interface: &str| {
            let socket = inet("tcp", 5, "10.8.0.1:40000", "10.8.0.2:80", 2);
            let process = thread(30, "vpn");
            let reader = TapReader { netns: 1, interface: interface.into(), process };
            led(vec![
                stands(of_ten(10), place("connect", NO_ARGS, Some(socket))),
                stands(thread(30, "vpn"), Place { state, ..place("epoll_wait", NO_ARGS, None) }),
                next_hop("10.8.0.2", ("tun0", "tun", 5), 0),
                fact(Body::TapReader(reader)),
            ])
        };
        let way = "program of a tunnel";
        assert_eq!(through(WaitState::Stopped, "tun0"), (way, Some(30)));
        assert_ne!(through(WaitState::Sleep, "tun0").0, way);
        assert_ne!(through(WaitState::Stopped, "tun1").0, way, "another device's");
    }

    #[test]
    fn the_program_at_the_other_end_is_next_where_it_stands_still() {
        let all = |state: WaitState, tunnel: &str, kind: &str, also: Option<u32>| {
            let socket = inet("tcp", 5, "10.8.0.1:40000", "10.8.0.2:80", 2);
            let of = |netns, pid, comm: &str| {
                let (interface, process) = ("tun0".into(), thread(pid, comm));
                fact(Body::TapReader(TapReader { netns, interface, process }))
            };
            let here = |far_netns| {
                fact(Body::AddressHere(AddressHere {
                    netns: 1,
                    address: "10.8.0.2".parse().expect("an address"),
                    far_netns,
                    far_index: 7,
                    hardware: Vec::new(),
                    tunnel: tunnel.into(),
                }))
            };
            let mut facts = vec![
                stands(of_ten(10), place("connect", NO_ARGS, Some(socket))),
                stands(thread(30, "near"), place("epoll_wait", NO_ARGS, None)),
                stands(thread(31, "far"), Place { state, ..place("epoll_wait", NO_ARGS, None) }),
                next_hop("10.8.0.2", ("tun0", kind, 5), 0),
                of(1, 30, "near"),
                of(2, 31, "far"),
                here(2),
            ];
            facts.extend(also.map(here));
            led(facts)
        };
        let beyond = |state, tunnel: &str| all(state, tunnel, "tun", None);
        let way = "program of a tunnel";
        assert_eq!(beyond(WaitState::Stopped, "tun0"), (way, Some(31)));
        assert_ne!(beyond(WaitState::Sleep, "tun0").0, way);
        assert_ne!(beyond(WaitState::Stopped, "").0, way, "no tunnel's");
        assert_ne!(all(WaitState::Stopped, "tun0", "", None).0, way, "not by a tunnel");
        assert_ne!(all(WaitState::Stopped, "tun0", "tun", Some(3)).0, way, "two have it");
    }
}
