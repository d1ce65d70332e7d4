//! Go: goroutines, which any thread of a program runs, and a collector on the program's own threads.
//!
//! A program of Go may be called anything, so none is known by its name: its goroutines were read. Names were read of Go 1.26, and else are those of the
//! sources (runtime/mgc*.go).

use super::doors::Doors;
use super::lock_kind::LockKind;
use super::program::{Collector, Files, Functions, Program};
use crate::facts::Goroutine;
use std::net::SocketAddr;

/// See the head of the file.
pub static GO: Program = Program {
    functions: Functions {
        locks: &[(LockKind::GarbageCollection, &["runtime.stopTheWorldWithSema"])],
        library_locks: &[
            (
                LockKind::Rwlock,
                &[
                    "sync.runtime_SemacquireRWMutexR",
                    "internal/sync.runtime_SemacquireRWMutexR",
                    "sync.runtime_SemacquireRWMutex",
                    "internal/sync.runtime_SemacquireRWMutex",
                    "sync.(*RWMutex).Lock",
                    "sync.(*RWMutex).RLock",
                ],
            ),
            (
                LockKind::Mutex,
                &[
                    "runtime.lock2",
                    "sync.(*Mutex).lockSlow",
                    "internal/sync.(*Mutex).lockSlow",
                    "sync.runtime_SemacquireMutex",
                    "internal/sync.runtime_SemacquireMutex",
                ],
            ),
        ],
        plain: &[
            (LockKind::Channel, &["runtime.chanrecv", "runtime.chansend", "runtime.selectgo"]),
            (LockKind::Condition, &["sync.(*Cond).Wait"]),
        ],
        idle: &["runtime.stopm", "runtime.sysmon", "runtime.netpoll"],
        plumbing: &["time.Sleep"],
        ..Functions::NONE
    },
    files: Files { plumbing_paths: &["runtime.", "syscall.", "sync.", "internal/"], ..Files::NONE },
    question: Some(question),
    collector: Some(Collector {
        name: "Go",
        functions: &[
            "runtime.gcDrain",
            "runtime.gcBgMarkWorker",
            "runtime.gcMark",
            "runtime.gcAssist",
            "runtime.gcSweep",
            "runtime.(*gcWork)",
            "runtime.(*sweepLo",
            "runtime.bgsweep",
            "runtime.sweepone",
            "runtime.scanobject",
            "runtime.scanObject",
            "runtime.scanblock",
            "runtime.scanSpan",
            "runtime.scanConservative",
            "runtime.greyobject",
            "runtime.markroot",
            "runtime.findObject",
            "runtime.tryDeferToSpanScan",
        ],
        has_its_part: true,
        advice: "collect more seldom (GOGC=200 or more, with GOMEMLIMIT as the bound), or make fewer objects (go tool pprof \
                 -alloc_objects says where)",
    }),
    ..Program::UNKNOWN
};

/// The function that sleeps on purpose, as a chain names it.
pub const SLEEPS: &str = "time.Sleep";

fn is_in(of: &Goroutine, function: &str) -> bool {
    of.frames.iter().any(|frame| frame.function == function)
}

/// Waits for a descriptor: for the next question, for an answer, or for somebody to connect.
pub fn polls(of: &Goroutine) -> bool {
    is_in(of, "internal/poll.runtime_pollWait")
}

/// Sleeps on purpose.
pub fn sleeps(of: &Goroutine) -> bool {
    is_in(of, SLEEPS)
}

/// Waits for somebody to connect.
pub fn accepts(of: &Goroutine) -> bool {
    is_in(of, "internal/poll.(*FD).Accept")
}

/// What a function that a goroutine stands in does, as a verb.
const DOES: &[(&str, &str)] = &[
    (SLEEPS, "sleeps"),
    ("net/http.(*persistConn).roundTrip", "waits for another server's answer"),
    ("net/http.(*Transport).getConn", "waits for a connection to another server"),
    (TAKES_OF_POOL, AWAITS_CONNECTION),
    ("internal/poll.runtime_pollWait", "waits for a connection or a file"),
    ("runtime.selectgo", "waits in select"),
    ("runtime.block", "waits for ever"),
    ("runtime.chanrecv", "waits for a channel"),
    ("runtime.chansend", AWAITS_ROOM),
    ("sync.(*Cond).Wait", "waits for a condition"),
    ("sync.(*WaitGroup).Wait", "waits for other goroutines"),
];

const AWAITS_ROOM: &str = "waits for room in a channel";

/// Waits for room in a channel: for its turn, where that has a place for each at work.
pub fn awaits_room(of: &Goroutine) -> bool {
    does(of) == Some(AWAITS_ROOM)
}

/// The function that waits for a connection of a pool. It makes one itself, too: then others stand before it.
const TAKES_OF_POOL: &str = "database/sql.(*DB).conn";
const AWAITS_CONNECTION: &str = "waits for a connection of its pool";

/// Waits for a connection of a pool all of which are in use.
pub fn awaits_connection(of: &Goroutine) -> bool {
    does(of) == Some(AWAITS_CONNECTION)
}

/// What a goroutine does, as far as its functions say.
pub fn does(of: &Goroutine) -> Option<&'static str> {
    let mut functions = of.frames.iter().map(|frame| frame.function.as_str());
    let first = functions.find(|function| !is_runtimes(function));
    let fits = |function: &str| match function {
        TAKES_OF_POOL => first == Some(function),
        _ => is_in(of, function),
    };
    DOES.iter().find(|(function, _)| fits(function)).map(|(_, does)| *does)
}

/// Packages of Go's own library.
const LIBRARY: &[&str] = &[
    "bufio", "bytes", "compress", "context", "crypto", "database", "encoding", "fmt", "internal",
    "io", "log", "net", "os", "runtime", "sync", "syscall", "time", "vendor",
];

/// Whether a function is of no package of that library.
pub fn is_of_a_program(function: &str) -> bool {
    let package = function.split(['/', '.']).next().unwrap_or_default();
    !package.is_empty() && !LIBRARY.contains(&package)
}

/// Whether a function is the runtime's own.
pub fn is_runtimes(function: &str) -> bool {
    function.starts_with("runtime.")
}

/// The command that has a program list its goroutines: it answers only if the program was built with net/http/pprof and serves it, by its
/// own address. A debugger stops it, and a signal that prints stacks ends it.
fn question(doors: &Doors, pid: u32) -> String {
    let url = |at: &SocketAddr| format!("'http://{at}/debug/pprof/goroutine?debug=2'");
    let urls: Vec<String> = doors.tcp.iter().map(url).collect();
    let warning = format!(
        "if it has net/http/pprof; dlv attach {pid} stops it; never kill -QUIT, which ends it"
    );
    match urls.is_empty() {
        true => format!(
            "{} -tlnp | grep pid={pid}   # then {} -s 'http://ADDRESS/debug/pprof/goroutine?debug=2', {warning}",
            doors.tool("ss"),
            doors.tool("curl")
        ),
        false => format!("{} -s -m 5 {}   # {warning}", doors.tool("curl"), urls.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::UserFrame;

    #[test]
    fn who_makes_a_connection_does_not_wait_for_one_of_its_pool() {
        let does = |functions: &[&str]| {
            let frame =
                |name: &&str| UserFrame { function: (*name).into(), ..UserFrame::default() };
            let frames = functions.iter().map(frame).collect();
            does(&Goroutine { frames, ..Goroutine::default() })
        };
        let waits = ["runtime.gopark", "runtime.selectgo", TAKES_OF_POOL, "main.buy"];
        assert_eq!(does(&waits), Some("waits for a connection of its pool"));
        let dials = ["runtime.gopark", "internal/poll.runtime_pollWait", TAKES_OF_POOL, "main.buy"];
        assert_eq!(does(&dials), Some("waits for a connection or a file"));
        let resolves =
            ["runtime.selectgo", "net.(*Resolver).lookupIPAddr", TAKES_OF_POOL, "main.buy"];
        assert_eq!(does(&resolves), Some("waits in select"));
    }
}
