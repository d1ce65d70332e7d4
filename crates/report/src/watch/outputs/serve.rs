//! Figures for Prometheus: `GET /metrics` on an address of this host alone, and nothing else.
//!
//! One thread, one request at a time, each of bounded size within bounded time; it sleeps in accept(2). Its settings refuse an address that
//! others could reach. Must not: do anything for whoever asks but give the text that the last window left.

use super::{Failed, Output, Taken, Work};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const REQUEST_BYTES_MAX: usize = 8 << 10;
/// A request and its answer.
const LASTS_MAX: Duration = Duration::from_secs(2);
/// After an accept that failed, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Shared {
    text: Mutex<Arc<str>>,
    is_over: AtomicBool,
}

/// See the head of the file.
pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens once there are figures.
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, shared: Arc::default(), thread: None }
    }

    fn start(&self) -> io::Result<JoinHandle<()>> {
        let listener = TcpListener::bind(self.address)?;
        let shared = Arc::clone(&self.shared);
        let serve = move || {
            for stream in listener.incoming() {
                if shared.is_over.load(Ordering::Relaxed) {
                    return;
                }
                match stream {
                    Ok(stream) => drop(answer(stream, &shared)),
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        };
        std::thread::Builder::new().name("holdup-metrics".into()).spawn(serve)
    }
}

impl Output for Server {
    fn take(&mut self, work: &Work) -> Result<Taken, Failed> {
        let Work::Metrics(text) = work else { return Ok(Taken::Sent) };
        if let Ok(mut shared) = self.shared.text.lock() {
            *shared = Arc::clone(text);
        }
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            // Tried again with the next window.
            let started = self.start().map_err(|error| {
                Failed::Never(format!("{} cannot be listened at: {error}", self.address))
            });
            self.thread = Some(started?);
        }
        Ok(Taken::Sent)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Wakes it, so that the port is free for who comes next.
            if TcpStream::connect_timeout(&self.address, PAUSE).is_ok() {
                let _ = thread.join();
            }
        }
    }
}

fn answer(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let begin = Instant::now();
    let left = || {
        let left = LASTS_MAX.checked_sub(begin.elapsed()).filter(|left| !left.is_zero());
        left.ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))
    };
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|four| four == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut part)? {
            0 => break,
            read => request.extend_from_slice(&part[..read]),
        }
    }
    let text = shared.text.lock().map(|text| Arc::clone(&text)).unwrap_or_default();
    let (status, body) = respond(&request, &text);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    for mut bytes in [head.as_bytes(), body.as_bytes()] {
        while !bytes.is_empty() {
            stream.set_write_timeout(Some(left()?))?;
            let written = stream.write(bytes)?;
            bytes = &bytes[written..];
        }
    }
    Ok(())
}

/// Status and body for a request.
fn respond<'a>(request: &[u8], text: &'a str) -> (&'static str, &'a str) {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split(' ').collect();
    let [method, path, version] = words.as_slice() else {
        return ("400 Bad Request", "this is no request\n");
    };
    let path = path.split('?').next().unwrap_or_default();
    match (*method, path) {
        _ if !version.starts_with("HTTP/1.") || request.len() >= REQUEST_BYTES_MAX => {
            ("400 Bad Request", "this is no request that is answered here\n")
        }
        ("GET", "/metrics") => ("200 OK", text),
        ("GET", _) => ("404 Not Found", "there is /metrics, and nothing else\n"),
        _ => ("405 Method Not Allowed", "GET alone is answered\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn free() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.local_addr().expect("an address")
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("read");
        answer
    }

    #[test]
    fn it_gives_what_the_last_window_left_and_frees_its_port() {
        let address = free();
        let mut server = Server::new(address);
        assert!(server.take(&Work::Metrics("a 1\n".into())).is_ok());
        assert!(server.take(&Work::Metrics("a 2\n".into())).is_ok());
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\na 2\n"),
            "{answer}"
        );
        let mut second = Server::new(address);
        let Err(Failed::Never(why)) = second.take(&Work::Metrics("b 1\n".into())) else {
            panic!("the port is taken")
        };
        assert!(why.contains("cannot be listened at"), "{why}");
        drop(server);
        assert!(second.take(&Work::Metrics("b 1\n".into())).is_ok());
        assert!(ask(address, "GET /metrics HTTP/1.0\r\n\r\n").ends_with("b 1\n"));
    }

    #[test]
    fn whoever_says_nothing_is_left_after_a_while() {
        let address = free();
        let mut server = Server::new(address);
        assert!(server.take(&Work::Metrics("a 1\n".into())).is_ok());
        let mut silent = TcpStream::connect(address).expect("connected");
        assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n"));
        let mut rest = Vec::new();
        assert_eq!(silent.read_to_end(&mut rest).expect("it was closed"), 0);
    }

    #[test]
    fn nothing_else_is_answered() {
        let status = |request: &str| respond(request.as_bytes(), "x").0;
        assert_eq!(status("GET /metrics?a=b HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404 Not Found");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status("GET /metrics\r\n\r\n"), "400 Bad Request");
        let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "x".repeat(REQUEST_BYTES_MAX));
        assert_eq!(status(&long), "400 Bad Request");
    }

    proptest! {
        #[test]
        fn no_request_is_too_strange(request in any::<Vec<u8>>()) {
            prop_assert!(respond(&request, "x").0.as_bytes()[0].is_ascii_digit());
        }
    }
}
