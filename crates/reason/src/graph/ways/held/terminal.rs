//! A terminal that takes no more: whoever shows it does not read.
//!
//! Must not: take a terminal whose other side was not seen for one that nobody shows.

use crate::facts::{ObjectRef, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::serving::chosen;
use crate::graph::ways::way::Way;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "terminal",
    because: "it has the other side of the terminal",
    of: &[WaitClass::TtyWrite],
    thresholds: &[],
    follow: |at| terminal_master(at.index, at.wait).map(Next::Thread),
};

fn terminal_master(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let Some(ObjectRef::Tty { name, .. }) = &wait.place.object else { return None };
    let ends = index.devices.terminal_masters(name)?;
    let all: Vec<ThreadRef> = ends.iter().map(|end| end.process.clone()).collect();
    // Each container numbers its terminals from 0: those of two that have nothing to do with each other are two terminals.
    let is_of_one = |it: &ThreadRef| {
        index.families.descends(it.pid, all[0].pid) || index.families.descends(all[0].pid, it.pid)
    };
    if !all.iter().all(is_of_one) {
        return None;
    }
    chosen(index, wait, all)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::endpoint;

    #[test]
    fn who_shows_the_terminal_is_it() {
        let tty = |name: &str| ObjectRef::Tty {
            name: name.into(),
            dev: DeviceNumber { major: 136, minor: 3 },
        };
        let writes = || stands(of_ten(10), place("write", NO_ARGS, Some(tty("pts/3"))));
        let shows = |index: &str| endpoint(20, "sshd", tty(&format!("ptm/{index}")));
        assert_eq!(led(vec![writes(), shows("3")]), ("terminal", Some(20)));
        assert_ne!(led(vec![writes(), shows("4")]).0, "terminal");
        let another = endpoint(30, "conmon", tty("ptm/3"));
        assert_ne!(led(vec![writes(), shows("3"), another]).0, "terminal", "a container's");
    }
}
