//! Where on the net an output sends to: an address, or a name that /etc/hosts knows, and a port.
//!
//! No name server is asked: a static binary cannot load the resolver of libc, and a look must not wait for a name. Pure but for that file.
//! Must not: connect.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

const HOSTS: &str = "/etc/hosts";
/// RFC 1035.
const NAME_BYTES_MAX: usize = 253;

/// An address or a name, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    host: String,
    port: u16,
}

impl Place {
    /// `192.0.2.1:514`, `[2001:db8::1]:514`, `localhost:514`; the port may be left out if there is a usual one.
    pub(super) fn read(text: &str, usual_port: Option<u16>) -> Result<Self, String> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(inside) => inside.split_once(']').ok_or("a bracket is not closed")?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match (rest.strip_prefix(':'), usual_port) {
            (Some(port), _) => {
                let port: Option<u16> = port.parse().ok().filter(|port| *port > 0);
                port.ok_or("the port is not a number from 1 to 65535")?
            }
            (None, Some(port)) if rest.is_empty() => port,
            _ => return Err("a port is missing, as in 192.0.2.1:514".into()),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let is_bounded = !host.is_empty() && host.len() <= NAME_BYTES_MAX;
        if host.parse::<IpAddr>().is_err() && !(is_bounded && host.chars().all(is_name)) {
            return Err(format!("{host:?} is neither an address nor a name of a host"));
        }
        Ok(Self { host: host.into(), port })
    }

    /// Where that is now.
    pub(super) fn address(&self) -> Result<SocketAddr, String> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, self.port));
        }
        let hosts = std::fs::read_to_string(Path::new(HOSTS)).unwrap_or_default();
        let known = in_hosts(&hosts, &self.host);
        // Whatever that file says (RFC 6761).
        let local =
            self.host.eq_ignore_ascii_case("localhost").then_some(Ipv4Addr::LOCALHOST.into());
        known.or(local).map(|address| SocketAddr::new(address, self.port)).ok_or_else(|| {
            let host = &self.host;
            format!("{host} is not in {HOSTS}, and no name server is asked: give its address")
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The first address of a name in hosts(5).
fn in_hosts(text: &str, name: &str) -> Option<IpAddr> {
    let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.find_map(|line| {
        let mut words = line.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    })
}

/// A collector's endpoint: `http://host[:port][/path]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// Host and port.
    pub(super) place: Place,
    /// From the first slash on.
    pub(super) path: String,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest =
            text.strip_prefix("http://").ok_or_else(|| match text.starts_with("https://") {
                true => "https is not spoken: send to a collector on this host, or in its pod",
                false => "it is http://ADDRESS:PORT",
            })?;
        let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if path.chars().any(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
            return Err("its path holds what no path may".into());
        }
        Ok(Self { place: Place::read(place, Some(80))?, path: path.to_string() })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.place, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_read_and_nothing_else() {
        for (text, shown) in [
            ("192.0.2.1:514", "192.0.2.1:514"),
            ("[2001:db8::1]:514", "[2001:db8::1]:514"),
            ("logs-1.example:601", "logs-1.example:601"),
        ] {
            assert_eq!(Place::read(text, None).map(|it| it.to_string()), Ok(shown.to_string()));
        }
        for wrong in
            ["", "192.0.2.1", ":514", "a b:514", "[::1:514", "a:0", "a:99999", "a\n:5", "::1:5"]
        {
            assert!(Place::read(wrong, None).is_err(), "{wrong}");
        }
        let v6 = Place::read("[::1]:9", None).and_then(|it| it.address());
        assert_eq!(v6.map(|it| it.to_string()), Ok("[::1]:9".to_string()));
        let unknown = Place::read("no-such-host.invalid:9", None).and_then(|it| it.address());
        assert!(unknown.is_err_and(|why| why.contains("/etc/hosts")));
    }

    #[test]
    fn hosts_are_looked_up_as_that_file_has_them() {
        let text =
            "# 192.0.2.9 collector\n127.0.0.1 localhost\n192.0.2.1\tcollector.a Collector # x\n";
        assert_eq!(in_hosts(text, "collector"), Some([192, 0, 2, 1].into()));
        assert_eq!(in_hosts(text, "x"), None);
    }

    #[test]
    fn an_endpoint_is_plain_http() {
        let url: Url = "http://192.0.2.1:4318/v1/logs".parse().expect("right");
        assert_eq!(
            (url.to_string().as_str(), url.path.as_str()),
            ("http://192.0.2.1:4318/v1/logs", "/v1/logs")
        );
        let url: Url = "http://collector".parse().expect("right");
        assert_eq!(url.to_string(), "http://collector:80");
        for wrong in ["https://a", "a:4318", "http://", "http://a/b c", "http://a/\r\nX: y"] {
            assert!(wrong.parse::<Url>().is_err(), "{wrong}");
        }
    }
}
