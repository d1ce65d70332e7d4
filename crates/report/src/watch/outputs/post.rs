//! One POST over HTTP/1.1, as much of it as a collector on the same host or in the same pod needs.
//!
//! A connection a request, plain TCP, no redirects, an answer of bounded size within bounded time. Rejected: an HTTP client crate (TLS, proxies
//! and pools are what makes them large, and a collector beside us needs none).

use super::place::Url;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const LASTS_MAX: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What was answered.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    /// As in RFC 9110.
    pub status: u16,
    /// What follows the headers, as far as it was read.
    pub body: Vec<u8>,
}

/// Posts JSON.
pub(super) fn post(url: &Url, body: &str) -> Result<Answer, String> {
    let address = url.place.address()?;
    let asked = || -> io::Result<Option<Answer>> {
        let begin = Instant::now();
        let mut stream = TcpStream::connect_timeout(&address, LASTS_MAX)?;
        stream.set_write_timeout(Some(LASTS_MAX))?;
        let path = if url.path.is_empty() { "/" } else { &url.path };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: holdup/{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            url.place,
            env!("CARGO_PKG_VERSION"),
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        while !is_whole(&bytes) && bytes.len() < ANSWER_BYTES_MAX {
            let left = LASTS_MAX.checked_sub(begin.elapsed()).filter(|left| !left.is_zero());
            let left = left.ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))?;
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut part)? {
                0 => break,
                read => bytes.extend_from_slice(&part[..read]),
            }
        }
        Ok(parse(&bytes))
    };
    match asked() {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err("it does not answer in HTTP".into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(format!("it does not answer within {} s", LASTS_MAX.as_secs()))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn head_of(bytes: &[u8]) -> Option<(&str, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((str::from_utf8(&bytes[..end]).ok()?, end + 4))
}

/// Whether as much is there as its head says.
fn is_whole(bytes: &[u8]) -> bool {
    let Some((head, begin)) = head_of(bytes) else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    length.is_some_and(|length| bytes.len() >= begin.saturating_add(length))
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let (head, begin) = head_of(bytes)?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: bytes[begin..].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_is_read_as_far_as_its_head_says() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert!(is_whole(bytes) && !is_whole(&bytes[..bytes.len() - 1]));
        assert_eq!(parse(bytes), Some(Answer { status: 200, body: b"{}".to_vec() }));
        assert_eq!(parse(b"SSH-2.0-x\r\n\r\n"), None);
    }

    proptest! {
        #[test]
        fn no_answer_is_too_strange(bytes in any::<Vec<u8>>(), tail in "\\PC{0,40}") {
            let mut answer = b"HTTP/1.1 ".to_vec();
            answer.extend_from_slice(&bytes);
            answer.extend_from_slice(tail.as_bytes());
            answer.extend_from_slice(b"\r\n\r\n");
            if let Some(read) = parse(&answer) {
                prop_assert!(answer.ends_with(&read.body));
            }
            prop_assert!(!is_whole(&bytes) || head_of(&bytes).is_some());
        }
    }
}
