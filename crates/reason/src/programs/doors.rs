//! Where a process can be spoken to: the addresses that a question needs, and the command that runs a tool beside it.
//!
//! A server in a container has addresses and paths of its own; what has the same ones on the host is another server. Its own client is in there with it,
//! any other tool may not be (an image may have neither a shell nor curl), so that is the host's, within the network alone. Filled in by whoever
//! has read them (measure/doors.rs). Must not: guess an address by a program's name.
//!
//! Rejected: a shell within the container around the whole command (an image need have none; and whoever reads it quotes once less).

use std::net::SocketAddr;

/// The sockets that one process listens on, each once, in the order of their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Doors {
    /// TCP, as this host reaches it: of a socket on all addresses, its loopback.
    pub tcp: Vec<SocketAddr>,
    /// Paths of unix sockets, as the process sees them.
    pub unix: Vec<String>,
    /// Where it is, if that is elsewhere than whoever asks.
    pub place: Option<Place>,
}

/// A place with a network of its own.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The process by which it is entered.
    pub pid: u32,
    /// The number of the process itself in a PID namespace of its own, where it has one: with that come files of its own.
    pub number: Option<u32>,
    /// Its user.
    pub uid: Option<u32>,
}

impl Doors {
    /// A program's own client, as it is run where the program is.
    pub fn own_client(&self, client: &str) -> String {
        match &self.place {
            Some(Place { pid, number: Some(_), .. }) => {
                format!("nsenter -t {pid} -m -n -p {client}")
            }
            Some(Place { pid, .. }) => format!("nsenter -t {pid} -n {client}"),
            None => client.to_string(),
        }
    }

    /// The same as the server's own user, who needs no password there: of the host by that name, within a container, which may have no tool that
    /// changes users, by its number.
    pub fn own_client_as(&self, user: &str, client: &str) -> String {
        match &self.place {
            Some(Place { number: Some(_), uid, .. }) => match uid {
                Some(uid) if *uid != 0 => self.own_client(&format!("-S {uid} {client}")),
                _ => self.own_client(client),
            },
            _ => self.own_client(&format!("runuser -u {user} -- {client}")),
        }
    }

    /// A tool of the host's that speaks to it over the network.
    pub fn tool(&self, tool: &str) -> String {
        match &self.place {
            Some(place) => format!("nsenter -t {} -n {tool}", place.pid),
            None => tool.to_string(),
        }
    }

    /// The number by which the program itself knows the process that these are the doors of.
    pub fn number(&self, pid: u32) -> u32 {
        self.place.as_ref().and_then(|place| place.number).unwrap_or(pid)
    }
}
