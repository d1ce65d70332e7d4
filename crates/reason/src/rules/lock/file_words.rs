//! How the holders of a file lock are said, and the ways out that act on them: for flock and fcntl locks, polled ones, and leases.
//!
//! Who holds one are the processes that carry it, by the reading of the lock table (facts: FileLock), and none by a number in that
//! table. It is free when the last of them lets go: so whoever would end one ends all that still live. Must not: name codes, or
//! give a way out that acts on a process that has ended.

use super::deadlock::is_alone;
use crate::facts::{FileLock, ThreadRef, WakeContext};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::process_names::present;
use crate::model::object::{FileKey, Object};
use crate::model::{Model, words};
use crate::rules::action::{Action, Question};
use crate::rules::rule::file_of;
use crate::rules::wording::{Evidence, Remedy};
use crate::rules::{holder_doing, wait_words};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// Parents of a holder that are looked at.
const GENERATIONS_MAX: usize = 16;
/// Holders that are named one by one.
const SHOWN_MAX: usize = 3;

/// Who holds the lock of an end.
pub(super) struct Holders<'m> {
    /// The line of the table, of the reading that says most: one with that holder, and the last of these.
    pub lock: Option<&'m FileLock>,
    /// The one that matters; none: nobody was seen.
    pub main: Option<ThreadRef>,
    /// Who acts for it: itself, or whom it has begun.
    acts: Option<ThreadRef>,
    /// All that were seen to carry it, the main one first.
    all: Vec<ThreadRef>,
    /// Nobody else has it: the waiter itself, by another opening of the file, and it has no other thread that could let go.
    pub is_its_own: bool,
    /// The same of a process with several threads: one may work under the lock while another waits for it.
    may_be_its_own: bool,
    /// The only wait for it ended as a holder let go of it.
    pub is_let_go: bool,
    model: &'m Model,
    waiter: ThreadRef,
}

impl<'m> Holders<'m> {
    /// Of an end that is a file lock.
    pub(super) fn of(measures: &'m Measures<'_>, end: &End) -> Self {
        let acts = wait_words::holder(measures, end);
        let held = &measures.model.held;
        let has = |lock: &FileLock| {
            let pid = acts.as_ref().map(|it| it.pid);
            let carriers = lock.carriers();
            (
                carriers.iter().any(|it| Some(it.pid) == pid),
                !carriers.is_empty(),
                !held.is_shared_with(lock, end.links[end.named].who.pid),
                lock.access == "WRITE",
            )
        };
        let on_it = |lock: &&FileLock| {
            let file = FileKey { dev: lock.dev, ino: lock.ino };
            !lock.blocked && Object::File(Some(file)) == end.object
        };
        let locks = held.locks.iter().map(|(_, lock)| lock).filter(on_it);
        let lock = locks.max_by_key(|lock| has(lock));
        let mut all: Vec<ThreadRef> = lock.map(FileLock::carriers).unwrap_or_default();
        // It had the lock itself at another time, or has one on another part of the file.
        all.retain(|it| it.pid != end.links[end.named].who.pid);
        for carrier in &mut all {
            *carrier = present(measures.model, carrier);
        }
        let main = match &acts {
            Some(acts) => Some(Self::held_by(measures, acts, &all)),
            None => all.first().cloned(),
        };
        if let Some(main) = &main {
            // Who let go of it at the wait's end may be in no reading.
            if all.iter().all(|it| it.pid != main.pid) {
                all = vec![main.clone()];
            }
            all.sort_by_key(|it| it.pid != main.pid);
        }
        let waiter = end.links[end.named].who.clone();
        let is_of_its_process = all.is_empty()
            && main.is_none()
            && lock.is_some_and(|lock| waits_for_itself(measures.model, lock, waiter.pid));
        let is_its_own = is_of_its_process && is_alone(measures, waiter.pid);
        let may_be_its_own = is_of_its_process && !is_its_own;
        let is_let_go = is_let_go(measures, end, &all);
        let model = measures.model;
        Self { lock, main, acts, all, is_its_own, may_be_its_own, is_let_go, model, waiter }
    }

    /// Who holds it for whom acts: itself, or by whom it was begun.
    fn held_by(measures: &Measures<'_>, acts: &ThreadRef, all: &[ThreadRef]) -> ThreadRef {
        let carrier = |pid: u32| all.iter().find(|it| it.pid == pid);
        match carrier(acts.pid) {
            Some(_) => acts.clone(),
            None => {
                let mut begun_by = measures.ancestry.line(acts.pid);
                begun_by.find_map(carrier).unwrap_or(acts).clone()
            }
        }
    }

    /// The main one by name, with its container where that is not the waiter's; else what stands for it.
    pub(super) fn name_or(&self, unknown: &str) -> String {
        self.main.as_ref().map_or_else(|| unknown.into(), |who| self.named(who))
    }

    fn named(&self, who: &ThreadRef) -> String {
        self.model.who_beside(who, &self.waiter)
    }

    /// What they do meanwhile, as sentences: `The holder sh 10 sleeps.`
    pub(super) fn sentences(&self, measures: &Measures<'_>, end: &End) -> String {
        let Some(main) = &self.main else { return self.unseen() };
        let by = self.named(main);
        let does = holder_doing::meanwhile(measures, end).does;
        let mut text = match &self.acts {
            Some(acts) if acts.pid != main.pid => {
                format!("The holder is {by}; {}, which acts for it, {does}.", self.named(acts))
            }
            _ => format!("The holder {by} {does}."),
        };
        if self.all.len() > 1 {
            let names = self.names();
            text +=
                &format!(" {names} have it together: it is free when the last of them lets go.");
        }
        if self.may_be_inherited() {
            text += " Whether what it began has the lock too is not seen.";
        }
        if let Some(own) = self.own_children(measures) {
            text += &format!(" {own}.");
        }
        if self.is_let_go {
            text += " It has let go since.";
        }
        text
    }

    /// One that the waiter itself has begun, or that descends from it, as a clause. That it has the file open from its begin is said
    /// where it did not take the lock: the waiter did, or one that is gone.
    fn own_children(&self, measures: &Measures<'_>) -> Option<String> {
        let is_own = |it: &&ThreadRef| {
            let parents = std::iter::successors(Some(it.pid), |pid| measures.graph.parent_of(*pid));
            it.pid != self.waiter.pid
                && parents.take(GENERATIONS_MAX).any(|pid| pid == self.waiter.pid)
        };
        let own = self.all.iter().find(is_own)?;
        let is_gone = |lock: &FileLock| {
            lock.pid > 0
                && lock.taker.is_none()
                && lock.comm.is_empty()
                && lock.pid != i64::from(own.pid)
        };
        let is_inherited =
            |lock: &FileLock| lock.pid == i64::from(self.waiter.pid) || is_gone(lock);
        let kin = match measures.graph.parent_of(own.pid) == Some(self.waiter.pid) {
            true => "is the waiter's own child",
            false => "descends from the waiter",
        };
        let since = match self.lock.is_some_and(is_inherited) {
            true => ": it has the file open as it was begun",
            false => "",
        };
        Some(format!("{} {kin}{since}", self.named(own)))
    }

    fn unseen(&self) -> String {
        let is_gone = |lock: &FileLock| lock.pid > 0 && lock.carriers().is_empty();
        match self.lock.is_some_and(is_gone) {
            _ if self.is_its_own => {
                "It has the lock itself, by another opening of the same file, and so waits for itself: a flock belongs to an \
                 opening, not to a process."
                    .into()
            }
            _ if self.may_be_its_own => {
                "No other process was seen that has it: another thread of it may have it, by another opening of the same file.".into()
            }
            true => "Who took it is gone, and no process was seen that has it since.".into(),
            false => "No other process was seen that has it.".into(),
        }
    }

    fn names(&self) -> String {
        let named: Vec<String> = self.all.iter().take(SHOWN_MAX).map(|it| self.named(it)).collect();
        match (self.all.len() - named.len(), named.split_last()) {
            (0, Some((last, before))) if !before.is_empty() => {
                format!("{} and {last}", before.join(", "))
            }
            (0, _) => named.join(""),
            (more, _) => format!("{} and {more} more", named.join(", ")),
        }
    }

    /// The line of the lock table, with who has it.
    pub(super) fn evidence(&self) -> Option<Evidence> {
        let lock = self.lock?;
        let by = if self.all.is_empty() { "nobody that was seen".into() } else { self.names() };
        let held = format!("{} {} lock held by {by}", lock.kind, lock.access);
        Some(Evidence::new(held, 1.0, "1", "/proc/locks, /proc/PID/fdinfo"))
    }

    /// Whether the last wait for it ended as one of them gave it up.
    pub(super) fn gave_up(&self, measures: &Measures<'_>, end: &End) -> bool {
        let is_on_it = |wait: &&WaitSpan| wait.class == end.class && wait.object == end.object;
        let last = measures.waits().filter(is_on_it).max_by_key(|wait| wait.end_ns);
        last.is_some_and(|wait| ended_by_holder(wait, &self.all))
    }

    /// All of them that still live.
    pub(super) fn alive(&self, measures: &Measures<'_>) -> Vec<ThreadRef> {
        let known = if self.all.is_empty() { self.main.as_slice() } else { &self.all };
        let alive = known.iter().filter(|it| !holder_doing::has_ended(measures.model, it));
        alive.cloned().collect()
    }

    /// It belongs to all who have the opening, and whose they are could not be read: who took it is known by the table alone.
    fn may_be_inherited(&self) -> bool {
        let is_unread = |lock: &FileLock| lock.taker.is_some() && lock.holders.is_empty();
        self.lock.is_some_and(|lock| lock.kind != "POSIX" && is_unread(lock))
    }

    /// Who has the file open. A container has another file by that path than the host.
    fn see(&self, measures: &Measures<'_>, end: &End, text: &str) -> Remedy {
        let path = measures.model.name_of(&end.object).name;
        let seen = file_of(measures.model, &self.waiter, &path);
        let seen = seen.filter(|_| path.starts_with('/'));
        let look = Action::look(Question::State)
            .through(seen.as_ref().and_then(|seen| seen.through.as_ref()));
        let command = match &seen {
            Some(seen) => format!("fuser -v {}", words::shell(&seen.path)),
            None => "lslocks".to_string(),
        };
        Remedy::to(text).command(command).acting(look)
    }

    /// The ways out for whoever waits for it.
    pub(super) fn ways_out(&self, measures: &Measures<'_>, end: &End) -> Vec<Remedy> {
        if self.is_its_own {
            let text = "nothing else ends it: end it, and let it lock one opening of the file once";
            return vec![holder_doing::end_all(
                measures.model,
                text,
                std::slice::from_ref(&self.waiter),
            )];
        }
        let mut alive = self.alive(measures);
        if self.is_let_go {
            alive.clear();
        }
        let (Some(main), false) = (&self.main, alive.is_empty()) else {
            let text = match self.main {
                Some(_) => {
                    "it is free now; if it happens again, see meanwhile who has the file open"
                }
                None => "see who has the file open",
            };
            return vec![self.see(measures, end, text)];
        };
        let stands = end.holder_mostly() == Some(WaitClass::Stopped);
        if stands && let Some(main) = alive.iter().find(|it| it.pid == main.pid) {
            return vec![Remedy::to("continue the holder").go_on(main)];
        }
        if self.may_be_inherited() {
            // Whose descriptors this look could not read, the same user does not see by other means either.
            let was_refused = self.model.look.blind.iter().any(|it| it.what == "proc.fdinfo");
            let see = if was_refused { "see as root" } else { "see" };
            let text = format!(
                "{see} who has the file open: it is free when the last of those lets go that have the lock"
            );
            return vec![self.see(measures, end, &text)];
        }
        let text = match alive.len() {
            1 => "if the holder is not meant to hold it, end it",
            // Each has one of its own on the same part of the file.
            _ if self.lock.is_some_and(|lock| lock.kind == "POSIX") => {
                "if nobody is meant to hold it, end all that do"
            }
            _ => "if nobody is meant to hold it, end all that do (it is inherited)",
        };
        vec![holder_doing::end_all(measures.model, text, &alive)]
    }
}

/// Whether a process waits for a lock that it has itself: at one reading it has the one, and stands behind it.
fn waits_for_itself(model: &Model, lock: &FileLock, pid: u32) -> bool {
    // Of the other kind no process ever waits for its own.
    let is_of_an_opening = lock.kind == "FLOCK" || lock.kind == "OFDLCK";
    let is_its = |one: &ThreadRef| one.pid == pid;
    let carriers = lock.carriers();
    let stands_behind = |(_, other): &(_, FileLock)| {
        other.blocked && other.id == lock.id && other.pid == i64::from(pid)
    };
    let mut all = model.held.locks.iter();
    is_of_an_opening
        && !carriers.is_empty()
        && carriers.iter().all(is_its)
        && all.any(stands_behind)
}

/// Whether the one wait for it was ended by one that had it. Of several waits the next may stand any moment.
fn is_let_go(measures: &Measures<'_>, end: &End, all: &[ThreadRef]) -> bool {
    let is_on_it = |wait: &&WaitSpan| wait.class == end.class && wait.object == end.object;
    let mut waits = measures.waits().filter(is_on_it);
    let (Some(wait), None) = (waits.next(), waits.next()) else { return false };
    ended_by_holder(wait, all)
}

/// Whether one that had a lock ended a wait for it.
fn ended_by_holder(wait: &WaitSpan, all: &[ThreadRef]) -> bool {
    let by = wait.wake.as_ref().filter(|wake| wake.context == WakeContext::Task);
    !wait.standing && by.is_some_and(|wake| all.iter().any(|it| it.pid == wake.by.pid))
}
