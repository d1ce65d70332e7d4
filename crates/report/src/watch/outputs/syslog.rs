//! Events for a syslog daemon: RFC 5424 with structured data, to a socket of this host, by UDP (RFC 5426) or TCP (RFC 6587, length first).
//!
//! A message fits a datagram that every receiver should take (2,048 bytes): values are cut, the text is last and cut first. Escape codes are
//! spelled out, because what a daemon does with them is not known. A connection a message: events are rare, and one that has been idle
//! for hours may be dead without anybody's knowing.

use super::message::Message;
use super::settings::{SyslogPlace, SyslogSettings};
use super::{Failed, Output, Taken, Work};
use crate::text::escape;
use jiff::Timestamp;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// What a receiver should take (RFC 5424, 6.1).
const MESSAGE_BYTES_MAX: usize = 2048;
/// Of one value: with all of them at this, and each byte escaped, the message is still below its own limit.
const VALUE_BYTES_MAX: usize = 160;
/// RFC 5424, 6.2.4.
const HOST_BYTES_MAX: usize = 255;
const SEND_MAX: Duration = Duration::from_secs(3);
/// The id of structured data; 32473 is the number that RFC 5612 has for whoever has none.
const STRUCTURED_DATA: &str = "holdup@32473";

/// See the head of the file.
pub(super) struct Syslog(pub(super) SyslogSettings);

impl Output for Syslog {
    fn take(&mut self, work: &Work) -> Result<Taken, Failed> {
        let (Work::Event(message), Some(place)) = (work, &self.0.to) else {
            return Ok(Taken::Sent);
        };
        let text = encode(self.0.facility.0, message);
        send(place, &text).map_err(|why| Failed::Again(format!("{place} takes nothing: {why}")))?;
        Ok(Taken::Sent)
    }
}

fn send(place: &SyslogPlace, text: &str) -> Result<(), String> {
    let sent = match place {
        SyslogPlace::Unix(path) => UnixDatagram::unbound().and_then(|socket| {
            socket.set_write_timeout(Some(SEND_MAX))?;
            socket.send_to(text.as_bytes(), path)
        }),
        SyslogPlace::Udp(place) => by_udp(place.address()?, text),
        SyslogPlace::Tcp(place) => by_tcp(place.address()?, text),
    };
    sent.map(|_| ()).map_err(|error| error.to_string())
}

fn by_udp(to: SocketAddr, text: &str) -> io::Result<usize> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    let sent = socket.send(text.as_bytes())?;
    // On this host a port that nobody has is refused at once; over a net nobody may say so.
    socket.take_error()?.map_or(Ok(sent), Err)
}

fn by_tcp(to: SocketAddr, text: &str) -> io::Result<usize> {
    let mut stream = TcpStream::connect_timeout(&to, SEND_MAX)?;
    stream.set_write_timeout(Some(SEND_MAX))?;
    let framed = format!("{} {text}", text.len());
    stream.write_all(framed.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    Ok(framed.len())
}

fn encode(facility: u8, message: &Message) -> String {
    let event = &message.event;
    let at = Timestamp::from_nanosecond(event.at_unix_ns.into()).unwrap_or_default();
    let lost = format!("{:.3}", event.said.lost_per_second);
    let sequence = message.sequence.to_string();
    let values = [
        ("event", message.word()),
        ("sequence", &sequence),
        ("code", &event.said.code),
        ("severity", message.severity()),
        ("lost", &lost),
        ("key", &event.key),
        ("object", &event.said.object.name),
        ("culprit", message.text("/culprit/name")),
        ("recording", message.recording.as_deref().unwrap_or_default()),
    ];
    let mut data = format!("[{STRUCTURED_DATA}");
    for (name, value) in values {
        if !value.is_empty() {
            data.push_str(&format!(" {name}=\"{}\"", escaped(value)));
        }
    }
    data.push(']');
    let mut text = format!(
        "<{}>1 {} {} holdup {} {} {data} \u{feff}{}",
        facility * 8 + message.priority(),
        at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"),
        host(&message.host.name),
        std::process::id(),
        message.word(),
        message.title(),
    );
    text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
    text
}

/// A value as it stands between quotes (RFC 5424, 6.3.3).
fn escaped(value: &str) -> String {
    let line = escape::line(value);
    let mut out = String::new();
    for c in line[..line.floor_char_boundary(VALUE_BYTES_MAX)].chars() {
        if matches!(c, '"' | '\\' | ']') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A name of printable ASCII, or the sign for none.
fn host(name: &str) -> &str {
    let is_right = name.bytes().all(|byte| byte.is_ascii_graphic());
    if !name.is_empty() && name.len() <= HOST_BYTES_MAX && is_right { name } else { "-" }
}

#[cfg(test)]
mod tests {
    use super::super::message::example;
    use super::super::place::Place;
    use super::*;
    use holdup_engine::over_time::Happened;
    use proptest::prelude::*;
    use std::io::Read;

    /// The values of structured data, as RFC 5424 has them read, and the text behind it.
    fn read(text: &str) -> (Vec<(String, String)>, String) {
        let begin = text.find('[').expect("data");
        let mut signs = text[begin + 1..].char_indices();
        let (mut values, mut name, mut value) = (Vec::new(), String::new(), String::new());
        let mut inside = false;
        while let Some((at, sign)) = signs.next() {
            match (inside, sign) {
                (true, '\\') => value.push(signs.next().expect("one more").1),
                (true, '"') => {
                    values.push((std::mem::take(&mut name), std::mem::take(&mut value)));
                    inside = false;
                }
                (true, ']') => panic!("not escaped: {text}"),
                (true, _) => value.push(sign),
                (false, '"') => inside = true,
                (false, ' ') => name.clear(),
                (false, '=') => {}
                (false, ']') => return (values, text[begin + 2 + at..].to_string()),
                (false, _) => name.push(sign),
            }
        }
        panic!("no end: {text}")
    }

    #[test]
    fn a_message_has_the_fields_of_the_rfc() {
        let message = example(Happened::Began, "flock waits for a lock on /tmp/x", "/tmp/x");
        let text = encode(3, &message);
        let head = format!(
            "<26>1 2026-11-21T03:43:10.000000Z web-1 holdup {} began [",
            std::process::id()
        );
        assert!(text.starts_with(&head), "{text}");
        let (values, said) = read(&text);
        let of = |name: &str| values.iter().find(|it| it.0 == name).map(|it| it.1.as_str());
        assert_eq!(of("code"), Some("lock.file"));
        assert_eq!(of("key"), Some("lock.file on file /tmp/x by sleep"));
        assert_eq!(of("culprit"), Some("sleep"));
        assert_eq!(said, " \u{feff}flock waits for a lock on /tmp/x");
        assert_eq!((host("a b"), host(""), host("web-1")), ("-", "-", "web-1"));
    }

    proptest! {
        #[test]
        fn no_name_leaves_its_quotes(name in "\\PC{0,300}|(?s).{0,300}|[\"\\\\\\]\\n]{0,300}") {
            let text = encode(3, &example(Happened::Changed, &name, &name));
            prop_assert!(text.len() <= MESSAGE_BYTES_MAX);
            let is_plain = !text.contains(['\n', '\0', '\u{1b}']);
            prop_assert!(is_plain, "{text}");
            let (values, _) = read(&text);
            let object = values.iter().find(|it| it.0 == "object").map(|it| it.1.as_str());
            let line = escape::line(&name);
            let cut = &line[..line.floor_char_boundary(VALUE_BYTES_MAX)];
            prop_assert_eq!(object.unwrap_or_default(), cut);
        }
    }

    #[test]
    fn over_tcp_its_length_stands_before_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let place = Place::read(&format!("127.0.0.1:{port}"), None).expect("a place");
        send(&SyslogPlace::Tcp(place.clone()), "<1>1 é").expect("sent");
        let mut read = String::new();
        listener.accept().expect("a connection").0.read_to_string(&mut read).expect("read");
        assert_eq!(read, "7 <1>1 é");
        drop(listener);
        assert!(send(&SyslogPlace::Tcp(place), "x").is_err(), "nobody listens");
    }
}
