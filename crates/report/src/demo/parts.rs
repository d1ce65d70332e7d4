//! The processes of the demonstration: this binary again, under a name of its own, doing one small thing.
//!
//! Each ends with holdup, however that ends: it asks the kernel to be killed with whoever began it (prctl
//! PR_SET_PDEATHSIG), and none does anything that outlives it. What a part is ready for it says in one line on its standard
//! output. Must not: look at anything, or undo anything (undo.rs).
//!
//! Rejected: threads instead of processes (a lock that a process holds is no obstacle to itself, and the chain that is to be
//! shown leads from process to process); sleep, flock and nc of the host (a bare one has none).
//!
//! Edit together: stages.rs, which says who is called for what.

use rustix::process::Signal;
use rustix::time::ClockId;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What a part does with its arguments, by the word that it is called with.
type Part = fn(&[String]) -> io::Result<()>;

const PARTS: &[(&str, Part)] = &[
    ("hold", hold),
    ("want", want),
    ("read", read),
    ("write", write),
    ("serve", serve),
    ("forward", forward),
    ("ask", ask),
    ("compute", compute),
];

/// Bytes that are written into the pipe: more than it holds.
const PIPE_BYTES: usize = 1 << 20;
/// A part that computes gives up after so long, in whatever group it is.
const COMPUTE_MAX: Duration = Duration::from_secs(20);

/// Does a part: who began it, the word, its arguments.
///
/// # Errors
/// There is no such part, it was not begun by holdup, or the system refused.
pub(super) fn run(words: &[String]) -> io::Result<()> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "`holdup demo` calls this itself");
    let [parent, word, arguments @ ..] = words else { return Err(wrong()) };
    let part = PARTS.iter().find(|(name, _)| name == word).ok_or_else(wrong)?.1;
    end_with(parent.parse().map_err(|_| wrong())?)?;
    part(arguments)
}

/// Ends when the parent does; at once if it has ended meanwhile.
fn end_with(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match rustix::process::getppid() {
        Some(now) if now.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err(io::Error::other("who began it has ended")),
    }
}

fn argument(arguments: &[String], at: usize) -> io::Result<&str> {
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "an argument is missing");
    arguments.get(at).map(String::as_str).ok_or_else(missing)
}

fn number<N: std::str::FromStr>(arguments: &[String], at: usize) -> io::Result<N> {
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidInput, "not a number");
    argument(arguments, at)?.parse().map_err(wrong)
}

fn ready(word: impl std::fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}")?;
    out.flush()
}

/// Takes a lock, and sleeps so many milliseconds.
fn hold(arguments: &[String]) -> io::Result<()> {
    let file = File::create(argument(arguments, 0)?)?;
    file.lock()?;
    ready("ready")?;
    std::thread::sleep(Duration::from_millis(number(arguments, 1)?));
    Ok(())
}

/// Wants the lock.
fn want(arguments: &[String]) -> io::Result<()> {
    File::open(argument(arguments, 0)?)?.lock()
}

/// Reads the pipe that is its standard input.
fn read(_: &[String]) -> io::Result<()> {
    ready("ready")?;
    let (mut pipe, mut block, mut all) = (io::stdin().lock(), vec![0; 1 << 16], 0);
    while all < PIPE_BYTES {
        match pipe.read(&mut block)? {
            0 => break,
            count => all += count,
        }
    }
    Ok(())
}

/// Writes more than it holds into a pipe that it inherited, by the number of its descriptor.
fn write(arguments: &[String]) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", number::<u32>(arguments, 0)?);
    OpenOptions::new().write(true).open(path)?.write_all(&vec![b'.'; PIPE_BYTES])
}

/// Answers each line, so many milliseconds late.
fn serve(arguments: &[String]) -> io::Result<()> {
    let late = Duration::from_millis(number(arguments, 0)?);
    each_line(|_| {
        std::thread::sleep(late);
        Ok("answer\n".into())
    })
}

/// Answers each line with what the server at a port answers.
fn forward(arguments: &[String]) -> io::Result<()> {
    let port: u16 = number(arguments, 0)?;
    let mut server = BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?);
    each_line(move |line| {
        server.get_mut().write_all(line.as_bytes())?;
        let mut answer = String::new();
        server.read_line(&mut answer)?;
        Ok(answer)
    })
}

/// Serves one connection after the other on a port of its own, which it says.
fn each_line(mut answer: impl FnMut(&str) -> io::Result<String>) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    ready(listener.local_addr()?.port())?;
    for client in listener.incoming() {
        let mut client = BufReader::new(client?);
        let mut line = String::new();
        while client.read_line(&mut line)? > 0 {
            let answer = answer(&line)?;
            client.get_mut().write_all(answer.as_bytes())?;
            line.clear();
        }
    }
    Ok(())
}

/// Asks a port so many times, each time once the answer is there.
fn ask(arguments: &[String]) -> io::Result<()> {
    let port: u16 = number(arguments, 0)?;
    let mut server = BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?);
    for _ in 0..number::<u32>(arguments, 1)? {
        server.get_mut().write_all(b"question\n")?;
        let mut answer = String::new();
        if server.read_line(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Enters a cgroup, and computes for so many milliseconds of CPU time.
fn compute(arguments: &[String]) -> io::Result<()> {
    std::fs::write(argument(arguments, 0)?, std::process::id().to_string())?;
    let wanted = Duration::from_millis(number(arguments, 1)?);
    let began = Instant::now();
    let mut sum = 0_u64;
    loop {
        for value in 0..100_000_u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(value));
        }
        let used = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        let used = Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32);
        if used >= wanted || began.elapsed() >= COMPUTE_MAX {
            return Ok(());
        }
    }
}
