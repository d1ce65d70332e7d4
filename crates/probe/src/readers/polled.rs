//! Which descriptors a standing wait is for that waits for several: of poll and select by the waiter's memory, of epoll by what
//! the kernel shows of the descriptor.
//!
//! Must not: choose one of them (reason does, by who asks), or read more than a page. Edit together: family/place.rs, which
//! reads the same of a command's own family and chooses where but one can be meant.

use crate::system::memory;
use crate::system::{Roots, text};
use holdup_reason::facts::{Blocked, Body, Fact, Ns, WaitState};
use std::io::Read;

/// Descriptors that are reported; a server of thousands waits for whatever comes.
const DESCRIPTORS_MAX: usize = 64;
/// Entries of a poll array that are read (crates/system/src/memory.rs).
const POLLED_MAX: u64 = 16;
/// Of an epoll's fdinfo: a line for each descriptor.
const BYTES_MAX: u64 = 8192;
/// Waits of a whole host whose descriptors are read: each takes some microseconds after the look.
const WAITS_MAX: usize = 512;

/// The descriptors; none if it waits for nothing of the kind, for too many, or its memory cannot be read.
pub(crate) fn descriptors(roots: &Roots, blocked: &Blocked) -> Vec<u32> {
    if blocked.place.state != WaitState::Sleep {
        return Vec::new();
    }
    let pid = blocked.thread.pid;
    let [first, second, third, ..] = blocked.place.args;
    let all = match blocked.place.syscall.as_str() {
        "poll" | "ppoll" if second <= POLLED_MAX => memory::poll_descriptors(pid, first, second),
        "select" | "pselect6" => {
            let mut all = memory::descriptor_set(pid, second, first);
            all.extend(memory::descriptor_set(pid, third, first));
            all
        }
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => watched(roots, pid, first),
        _ => Vec::new(),
    };
    if all.len() > DESCRIPTORS_MAX { Vec::new() } else { all }
}

/// Of a host, the begin of the oldest wait whose descriptors are read: those that began last, WAITS_MAX of them.
pub(crate) fn oldest_begin_ns(waits: &[Fact]) -> Ns {
    let since = waits.iter().filter_map(|fact| match &fact.body {
        Body::Blocked(blocked) if may_be_for_several(blocked) => Some(blocked.since_ns),
        _ => None,
    });
    let mut since: Vec<Ns> = since.collect();
    let Some(beyond) = since.len().checked_sub(WAITS_MAX) else { return 0 };
    *since.select_nth_unstable(beyond).1
}

/// Whether a wait is for whichever of several descriptors comes first.
fn may_be_for_several(blocked: &Blocked) -> bool {
    !blocked.kernel && blocked.place.object.is_none() && blocked.place.is_for_several()
}

/// Those that an epoll watches; none if there are too many to tell.
fn watched(roots: &Roots, pid: u32, epoll: u64) -> Vec<u32> {
    let path = roots.process(pid, "fdinfo").join(epoll.to_string());
    let mut bytes = Vec::new();
    let Ok(file) = std::fs::File::open(path) else { return Vec::new() };
    if file.take(BYTES_MAX).read_to_end(&mut bytes).is_err() || bytes.len() as u64 == BYTES_MAX {
        return Vec::new();
    }
    let target = |line: &[u8]| {
        let mut words = text::words(line.strip_prefix(b"tfd:")?);
        u32::try_from(text::number(words.next()?)?).ok()
    };
    text::lines(&bytes).filter_map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{Place, ThreadRef};

    fn of_own(syscall: &str, args: [u64; 6]) -> Vec<u32> {
        let own = std::process::id();
        let thread = ThreadRef { tid: own, pid: own, ..ThreadRef::default() };
        let place =
            Place { state: WaitState::Sleep, syscall: syscall.into(), args, ..Place::default() };
        descriptors(&Roots::default(), &Blocked { thread, place, ..Blocked::default() })
    }

    #[test]
    fn of_a_host_the_waits_that_began_last_are_read() {
        let waits = |count: u64| -> Vec<Fact> {
            let of = |since_ns| {
                let place = Place { syscall: "epoll_wait".into(), ..Place::default() };
                Fact {
                    at_ns: 1,
                    body: Body::Blocked(Blocked { since_ns, place, ..Blocked::default() }),
                }
            };
            (1..=count).map(of).collect()
        };
        assert_eq!(oldest_begin_ns(&waits(12)), 0);
        assert_eq!(oldest_begin_ns(&waits(WAITS_MAX as u64 + 100)), 101);
    }

    #[test]
    fn poll_select_and_epoll_tell_what_they_wait_for() {
        let polled = [3u32, 1, 7, 1];
        assert_eq!(of_own("poll", [polled.as_ptr() as u64, 2, 0, 0, 0, 0]), [3, 7]);
        let set = [0b1010_0000u64; 1];
        assert_eq!(of_own("select", [8, set.as_ptr() as u64, 0, 0, 0, 0]), [5, 7]);
        assert_eq!(of_own("epoll_wait", [9_999, 0, 0, 0, 0, 0]), Vec::<u32>::new());
        assert_eq!(of_own("read", [3, 0, 0, 0, 0, 0]), Vec::<u32>::new());
    }
}
