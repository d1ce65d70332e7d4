//! Events as entries of the system journal, by its native protocol (systemd's "Native Journal Protocol"): fields, and not a line.
//!
//! A field is `NAME=value`, or where the value has a newline its name, its length and its bytes. What is larger than a datagram may be goes as
//! a sealed memfd, of which only the descriptor is sent. No libsystemd: the protocol is these few lines. Must not: wait for a journal
//! that does not read, longer than SEND_MAX.
//!
//! Edit together: docs/watch.md (the message ids are a contract).

use super::message::Message;
use super::{Failed, Output, Taken, Work};
use holdup_engine::over_time::Happened;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

const SOCKET: &str = "/run/systemd/journal/socket";
const SEND_MAX: Duration = Duration::from_secs(3);

/// See the head of the file.
pub(super) struct Journald;

impl Output for Journald {
    fn take(&mut self, work: &Work) -> Result<Taken, Failed> {
        if let Work::Event(message) = work {
            send(SOCKET, &entry(message)).map_err(|error| {
                Failed::Again(format!("the journal at {SOCKET} takes nothing: {error}"))
            })?;
        }
        Ok(Taken::Sent)
    }
}

/// A kind of event, by the id that `journalctl MESSAGE_ID=` takes.
fn message_id(event: Happened) -> &'static str {
    match event {
        Happened::Began => "4949c45ddc6b41d3ad697aed935e0c8d",
        Happened::Changed => "a8b05d7b05364f08a28cb34e61633ca3",
        Happened::Ended => "91a76342310b407ab894cf91d439e396",
        Happened::Flapping => "10ed34e235ea47d2897f5d086b4e3918",
    }
}

fn entry(message: &Message) -> Vec<u8> {
    let event = &message.event;
    let (sequence, since) =
        (message.sequence.to_string(), (event.since_unix_ns / 1000).to_string());
    let lost = event.said.lost_per_second.to_string();
    let (title, priority) = (message.title(), message.priority().to_string());
    let fields = [
        ("MESSAGE", title.as_str()),
        ("MESSAGE_ID", message_id(event.event)),
        ("PRIORITY", &priority),
        ("SYSLOG_IDENTIFIER", "holdup"),
        ("HOLDUP_EVENT", message.word()),
        ("HOLDUP_SEQUENCE", &sequence),
        ("HOLDUP_CODE", &event.said.code),
        ("HOLDUP_KEY", &event.key),
        ("HOLDUP_WAS", event.was.as_deref().unwrap_or_default()),
        ("HOLDUP_SEVERITY", message.severity()),
        ("HOLDUP_SINCE_USEC", &since),
        ("HOLDUP_LOST_SECONDS_PER_SECOND", &lost),
        ("HOLDUP_OBJECT_KIND", &event.said.object.kind),
        ("HOLDUP_OBJECT", &event.said.object.name),
        ("HOLDUP_CULPRIT_KIND", message.text("/culprit/kind")),
        ("HOLDUP_CULPRIT", message.text("/culprit/name")),
        ("HOLDUP_TEXT", message.text("/text")),
        ("HOLDUP_RECORDING", message.recording.as_deref().unwrap_or_default()),
        ("HOLDUP_JSON", &message.line),
    ];
    let mut out = Vec::new();
    for (name, value) in fields {
        if !value.is_empty() {
            field(&mut out, name, value);
        }
    }
    out
}

fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

fn send(to: &str, entry: &[u8]) -> io::Result<()> {
    // Anew each time: the journal may have been started again.
    let socket = UnixDatagram::unbound()?;
    socket.connect(to)?;
    socket.set_write_timeout(Some(SEND_MAX))?;
    match socket.send(entry) {
        Ok(_) => Ok(()),
        Err(error) => match Errno::from_io_error(&error) {
            // Larger than this socket, or its buffers, take.
            Some(Errno::MSGSIZE | Errno::NOBUFS) => send_memfd(&socket, entry),
            _ => Err(error),
        },
    }
}

fn send_memfd(socket: &UnixDatagram, entry: &[u8]) -> io::Result<()> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("holdup-event", flags)?);
    file.write_all(entry)?;
    // The journal maps it: what could still change is refused.
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    let descriptors = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    sendmsg(socket, &[], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Whether standard output is the journal already, as under systemd: then a line there would be a second entry.
pub(in super::super) fn is_stdout() -> bool {
    use std::os::unix::fs::MetadataExt;
    let Some(named) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let file = std::fs::metadata(format!("/proc/self/fd/{}", io::stdout().as_raw_fd()));
    file.is_ok_and(|it| *named == *format!("{}:{}", it.dev(), it.ino()))
}

#[cfg(test)]
mod tests {
    use super::super::message::example;
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Seek};

    /// The entry as the journal reads it.
    fn read(mut bytes: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let line = bytes.iter().position(|byte| *byte == b'\n').expect("a line");
            let equals = bytes[..line].iter().position(|byte| *byte == b'=');
            let (name, value, rest) = match equals {
                Some(at) => (&bytes[..at], &bytes[at + 1..line], &bytes[line + 1..]),
                None => {
                    let after = &bytes[line + 1..];
                    let length = u64::from_le_bytes(after[..8].try_into().expect("eight"));
                    let end = 8 + length as usize;
                    assert_eq!(after[end], b'\n');
                    (&bytes[..line], &after[8..end], &after[end + 1..])
                }
            };
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
            fields.push((text(name), text(value)));
            bytes = rest;
        }
        fields
    }

    proptest! {
        #[test]
        fn every_value_is_one_field_whatever_it_holds(object in "\\PC*|(?s).{0,40}") {
            let message = example(Happened::Began, "a waits", &object);
            let fields = read(&entry(&message));
            let of = |name: &str| {
                let mut all = fields.iter().filter(|(it, _)| it == name);
                let value = all.next().map(|(_, value)| value.clone()).unwrap_or_default();
                assert!(all.next().is_none(), "{name} twice");
                value
            };
            prop_assert_eq!(of("HOLDUP_OBJECT"), object);
            prop_assert_eq!(of("HOLDUP_KEY"), message.event.key.clone());
            prop_assert_eq!(of("PRIORITY"), "2");
            prop_assert_eq!(of("HOLDUP_CULPRIT"), "sleep");
            prop_assert_eq!(of("HOLDUP_JSON"), message.line.clone());
        }
    }

    #[test]
    fn what_no_datagram_takes_is_passed_as_a_sealed_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let socket = UnixDatagram::bind(&path).expect("bound");
        let to = path.to_str().expect("a path");
        send(to, b"MESSAGE=small\n").expect("sent");
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).expect("received");
        assert_eq!(&bytes[..length], b"MESSAGE=small\n");
        let large = format!("MESSAGE={}\n", "x".repeat(4 << 20));
        send(to, large.as_bytes()).expect("sent");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let flags = rustix::net::RecvFlags::empty();
        rustix::net::recvmsg(&socket, &mut [], &mut ancillary, flags).expect("received");
        let mut files = ancillary.drain().filter_map(|it| match it {
            rustix::net::RecvAncillaryMessage::ScmRights(files) => Some(files.map(File::from)),
            _ => None,
        });
        let mut file = files.next().expect("rights").next().expect("a file");
        let mut text = String::new();
        file.rewind().expect("rewound");
        file.read_to_string(&mut text).expect("read");
        assert!(text == large);
        assert!(file.write_all(b"x").is_err(), "it is sealed");
    }
}
