//! What the share in a title is a part of: of a command its wall time, of a process the look, of several threads the time in which they
//! were not idle, of a host the time that its threads lose.
//!
//! Ends add up to the demand, which of a process may be a hundredth of the look: a share of that alone would call a server that rests
//! busy. So what rests for more than half of the look is said to do so first. Time that no wait explains counts as no rest. Must not:
//! word an end (sentences.rs), or weigh one (verdict.rs). Rejected: shares of the time of all threads (a pool of a hundred rests for
//! 99 % while each request waits).
//!
//! Edit together: sentences.rs; graph/short_waits.rs, which says what no wait explains.

use super::inside;
use super::report::AnswerEnd;
use crate::facts::{Ns, ObjectRef, TargetKind, ThreadTime};
use crate::graph::short_waits::unexplained_seconds;
use crate::measure::Measures;
use crate::model::terminal::Terminal;
use crate::model::words;
use crate::programs::lock_kind::LockKind;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack::lock_kind_of;

/// A part below this is not worth a word.
const PART_MIN: f64 = 0.02;
/// With more that no wait explains, beside what is known not to be idle, a share of that is only one of what was seen.
const UNSEEN_MIN: f64 = 0.1;
/// A share of so much is all of it, for a person.
const ALL: f64 = 0.995;

/// What a share is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// The wall time of a command.
    Command,
    /// What the threads of a host lose.
    Lost,
    /// The look: only one thread has something to do.
    Look,
    /// The time in which several threads were not idle, summed.
    NotIdle,
}

/// The time that is divided among the ends, and the look around it; in seconds.
pub(super) struct Whole {
    base: Base,
    /// What the ends add up to.
    total: f64,
    /// What no wait explains.
    unexplained: f64,
    /// The look, or the part of it in which a process was there.
    there: f64,
    look: f64,
    /// Time with nothing to do; 0 where it is not known.
    idle: f64,
    /// What it does that is mostly idle.
    rests: Option<Rest>,
    /// What it waits for meanwhile, where that is known to be no work.
    awaited: Option<String>,
}

impl Whole {
    /// Of a look with these ends.
    pub(super) fn of(measures: &Measures<'_>, ends: &[AnswerEnd]) -> Self {
        let model = measures.model;
        let kind = model.look.target.as_ref().map_or(TargetKind::Host, |target| target.kind);
        let total: f64 = ends.iter().map(|end| end.seconds).sum();
        let look = measures.wall_seconds().max(1e-9);
        let there = match kind {
            TargetKind::Process => there_seconds(measures).unwrap_or(look),
            _ => look,
        };
        let (base, unexplained) = match kind {
            TargetKind::Command => (Base::Command, 0.0),
            TargetKind::Host => (Base::Lost, 0.0),
            TargetKind::Container | TargetKind::Process => {
                let unexplained = unexplained_seconds(model, measures.timelines);
                let fits = total + unexplained <= there * (1.0 + PART_MIN);
                let one = fits && awake_threads(measures) <= 1;
                (if one { Base::Look } else { Base::NotIdle }, unexplained)
            }
        };
        let is_asked = matches!(base, Base::Look | Base::NotIdle) && !stands_still(measures);
        // However many threads there are, no more of the look than this had work.
        let idle = if is_asked { (there - total - unexplained).max(0.0) } else { 0.0 };
        let rests = (2.0 * idle > there).then(|| Rest::of(measures));
        let awaited = rests.and_then(|_| inside::awaited(measures));
        Self { base, total, unexplained, there, look, idle, rests, awaited }
    }

    /// It rests for most of the look.
    pub(super) fn is_mostly_idle(&self) -> bool {
        self.rests.is_some()
    }

    /// The sentence on who does this for so long.
    pub(super) fn title(&self, name: &str, said: &Said, seconds: f64) -> String {
        let Said { does, is_own, more } = said;
        let Some(rests) = self.rests else {
            let own = if *is_own { " is its own work" } else { "" };
            // Two clocks: a wait may be seen a little longer than its thread was.
            let share = words::percent((seconds / self.base_seconds()).min(1.0));
            return format!("{name} {does}: {share} of {}{own}{more}.", self.base_words());
        };
        let busy = (self.there - self.idle).max(1e-9);
        let least = if self.base == Base::NotIdle { "at least " } else { "" };
        let idle = words::percent(self.idle / self.there);
        let part = match seconds / busy {
            part if part >= ALL => String::new(),
            part => format!("{} of ", words::percent(part)),
        };
        let there = self.there_words();
        match &self.awaited {
            Some(what) => format!(
                "{name} waits for {what}, and was not woken, for {least}{idle} of {there}; for {part}the rest it {does}{more}."
            ),
            None => format!(
                "{name} is mostly idle: {least}{idle} of {there} it {}, and for {part}the rest it {does}{more}.",
                rests.words(),
            ),
        }
    }

    /// So long, of what: the begin of the paragraph.
    pub(super) fn amount(&self, seconds: f64) -> String {
        let (of_it, total) = (words::seconds(seconds), words::seconds(self.total));
        let look = words::seconds(self.look);
        match self.base {
            Base::Command => format!("{of_it} of {total}"),
            Base::Lost => format!("{of_it} of {total} that threads lose in a look of {look}"),
            Base::Look if self.is_whole_look() => format!("{of_it} of a look of {look}"),
            Base::Look => format!("{of_it} of {}", self.there_words()),
            Base::NotIdle => {
                format!(
                    "{of_it} of {total} in which its threads were not idle, in a look of {look}"
                )
            }
        }
    }

    /// What belongs to no end, and makes the rest add up: `idle 4.90 s`.
    pub(super) fn beside(&self) -> Vec<String> {
        let idle = if self.base == Base::Look { self.idle } else { 0.0 };
        let all = [("idle", idle), ("waits too short to be followed", self.unexplained)];
        let is_said = |(_, seconds): &(&str, f64)| *seconds >= PART_MIN * self.base_seconds();
        let said = all.into_iter().filter(is_said);
        said.map(|(what, seconds)| format!("{what} {}", words::seconds(seconds))).collect()
    }

    /// What the ends add up to, seconds.
    pub(super) fn total(&self) -> f64 {
        self.total
    }

    fn base_seconds(&self) -> f64 {
        let of = if self.base == Base::Look { self.there } else { self.total };
        of.max(1e-9)
    }

    fn base_words(&self) -> String {
        match self.base {
            Base::Command => "the time".into(),
            Base::Lost => "the time that its threads lose".into(),
            Base::Look => self.there_words(),
            Base::NotIdle if self.unexplained >= UNSEEN_MIN * self.total => {
                "the time in which it was seen not to be idle".into()
            }
            Base::NotIdle => "the time in which it was not idle".into(),
        }
    }

    fn is_whole_look(&self) -> bool {
        self.there >= (1.0 - PART_MIN) * self.look
    }

    fn there_words(&self) -> String {
        match self.is_whole_look() {
            true => "the look".into(),
            false => format!("the {} that it was there", words::seconds(self.there)),
        }
    }
}

/// What somebody does, in the words of a title.
pub(super) struct Said {
    /// A verb and what belongs to it: `waits for a CPU`.
    pub does: String,
    /// It is work of its own.
    pub is_own: bool,
    /// What more is known, with its comma.
    pub more: String,
}

/// Threads of what is looked at.
fn times<'m>(measures: &Measures<'m>) -> impl Iterator<Item = &'m ThreadTime> {
    let model = measures.model;
    model.threads.times.iter().filter(|time| !time.kernel && model.in_target(&time.thread))
}

/// From the begin of the first thread of a process to the end of its last, within the look.
fn there_seconds(measures: &Measures<'_>) -> Option<f64> {
    let since = times(measures).map(|time| time.since_ns).min()?;
    let until = times(measures).map(|time| time.until_ns).max()?;
    (until > since).then(|| (until - since) as f64 / 1e9)
}

/// Threads that had something to do, or waited for more than their next work, for a part that is worth a word.
fn awake_threads(measures: &Measures<'_>) -> usize {
    let awake = |time: &ThreadTime| {
        let key = measures.model.threads.key_at(&time.thread, time.until_ns);
        let waits = measures.timelines.of(key).iter().filter(|wait| !wait.class.is_rest());
        let waited = waits.map(|wait| wait.within_ns(time.since_ns, time.until_ns));
        time.run_ns + waited.sum::<Ns>()
    };
    let all: Vec<Ns> = times(measures).map(awake).collect();
    let whole: Ns = all.iter().sum();
    all.iter().filter(|ns| **ns as f64 > PART_MIN * whole as f64).count()
}

/// Whether a thread is stopped, frozen, or waits for what nobody knows: that is no rest, and no end may have it.
fn stands_still(measures: &Measures<'_>) -> bool {
    let model = measures.model;
    let (begin_ns, end_ns) = (model.look.begin_ns, model.look.end_ns);
    let own = measures.waits().filter(|wait| model.in_target(&wait.thread) && !wait.kernel);
    let still = own.filter(|wait| {
        let class = wait.class;
        // Who has ended does nothing more.
        let is_ended = matches!(class, WaitClass::Zombie | WaitClass::EndedThread);
        !(class.is_demand() || class.is_rest() || class.is_for_somebody() || is_ended)
    });
    let longest_ns = still.map(|wait| wait.within_ns(begin_ns, end_ns)).max();
    longest_ns.is_some_and(|ns| ns as f64 / 1e9 >= PART_MIN * model.look.seconds())
}

/// What somebody does who has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Waits for what is typed.
    User,
    /// Waits at a serial line.
    Line,
    /// Sleeps until a time.
    Sleep,
    /// Waits for others that are not known to be late.
    Others,
    /// Waits for work.
    Work,
}

impl Rest {
    /// Of what is looked at, by the waits that ask nobody for anything.
    pub(super) fn of(measures: &Measures<'_>) -> Self {
        let model = measures.model;
        let (mut sleeps, mut work, mut others) = (0, 0, 0);
        let (mut person, mut line) = (measures.graph.at_prompt, false);
        let own = measures.waits().filter(|wait| model.in_target(&wait.thread) && !wait.kernel);
        // Who waits for a thread of its own to end, or to arrive, does what that does.
        let is_for_own_thread = |wait: &WaitSpan| {
            let kind = || lock_kind_of(model, &wait.thread, wait.begin_ns, wait.end_ns);
            wait.class == WaitClass::FutexWait && kind().is_some_and(LockKind::is_never_work)
        };
        let own = own.filter(|wait| !wait.class.is_demand() && !is_for_own_thread(wait));
        for wait in own {
            let ns = wait.within_ns(model.look.begin_ns, model.look.end_ns);
            match wait.class {
                WaitClass::Timer => sleeps += ns,
                class if class.is_rest() || measures.graph.is_for_a_question(wait) => work += ns,
                _ => others += ns,
            }
            if let Some(ObjectRef::Tty { name, .. }) = &wait.place.object {
                let terminal = Terminal::of(name);
                person |= terminal.is_keyboard();
                line |= terminal.is_line();
            }
        }
        match sleeps {
            0 if person => Self::User,
            0 if line => Self::Line,
            _ if sleeps > work + others => Self::Sleep,
            _ if others > work => Self::Others,
            _ => Self::Work,
        }
    }

    /// As a verb and what belongs to it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::User => "waits for its user's input",
            Self::Line => "waits for what comes over a serial line",
            Self::Sleep => "sleeps on purpose",
            Self::Others => "waits for others, of whom none is known to be late",
            Self::Work => "waits for work",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Base, Said, Whole};
    use crate::answer::explain;
    use crate::answer::report::Answer;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const MS: Ns = 1_000_000;

    /// A thread of process 10 that ran for so long, and slept for the rest of the look.
    fn time(tid: u32, run_ns: Ns) -> Fact {
        fact(Body::ThreadTime(ThreadTime {
            thread: ThreadRef { tid, ..thread(10, "app") },
            until_ns: LOOK_NS,
            run_ns,
            sleep_ns: LOOK_NS - run_ns,
            ..ThreadTime::default()
        }))
    }

    /// A wait of a thread of process 10, from and to milliseconds of the look.
    fn wait(tid: u32, (from, to): (Ns, Ns), place: Place) -> Fact {
        let thread = ThreadRef { tid, ..thread(10, "app") };
        let (begin_ns, end_ns) = (from * MS, to * MS);
        let context = WakeContext::HardInterrupt;
        let wake = Some(Wake { at_ns: end_ns, context, ..Wake::default() });
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    fn in_call(syscall: &str, object: Option<ObjectRef>) -> Place {
        Place { state: WaitState::Sleep, syscall: syscall.into(), object, ..Place::default() }
    }

    fn events() -> Place {
        in_call("epoll_wait", None)
    }

    fn lock() -> Place {
        let file = FileRef { path: Some("/run/app.lock".into()), ino: 7, ..FileRef::default() };
        in_call("flock", Some(ObjectRef::File(file)))
    }

    fn answer(more: Vec<Fact>) -> Answer {
        let two = fact(Body::Host(Host { cpus: 2, ..Host::default() }));
        explain([host(), vec![two, of_process(10, "app")], more].concat()).answer
    }

    #[test]
    fn a_server_with_little_to_do_is_mostly_idle() {
        let answer = answer(vec![time(10, 100 * MS), wait(10, (100, 5000), events())]);
        assert_eq!(
            answer.title,
            "app 10 is mostly idle: 98 % of the look it waits for work, and for the rest it works."
        );
        assert_eq!(
            answer.text,
            "100 ms of a look of 5 s: on one of 2 CPUs at a time. The rest: idle 4.90 s."
        );
    }

    #[test]
    fn a_short_wait_for_a_lock_is_not_all_of_the_time() {
        let facts =
            vec![time(10, 0), wait(10, (0, 4940), events()), wait(10, (4940, 5000), lock())];
        let answer = answer(facts);
        let expected = "app 10 is mostly idle: 99 % of the look it waits for work, and for the rest it waits for \
                        the lock on /run/app.lock, whose holder was not seen.";
        assert_eq!(answer.title, expected);
        assert!(answer.text.starts_with("60 ms of a look of 5 s"), "{}", answer.text);
    }

    #[test]
    fn what_is_busy_has_a_share_of_the_look() {
        let answer = answer(vec![time(10, 4000 * MS), wait(10, (4000, 5000), events())]);
        assert_eq!(answer.title, "app 10 works: 80 % of the look is its own work.");
    }

    #[test]
    fn threads_that_may_wait_side_by_side_have_a_share_of_what_they_do() {
        let both = [10, 11].map(|tid| [time(tid, 3000 * MS), wait(tid, (3000, 5000), events())]);
        let answer = answer(both.concat());
        let title = "app 10 works: 100 % of the time in which it was not idle is its own work.";
        assert_eq!(answer.title, title);
        let amount = "6 s of 6 s in which its threads were not idle, in a look of 5 s";
        assert!(answer.text.starts_with(amount), "{}", answer.text);
    }

    #[test]
    fn sleep_that_no_wait_explains_is_not_called_idle() {
        let answer = answer(vec![time(10, 1000 * MS)]);
        assert_eq!(answer.title, "app 10 works: 20 % of the look is its own work.");
        let rest = "The rest: waits too short to be followed 4 s.";
        assert!(answer.text.ends_with(rest), "{}", answer.text);
    }

    #[test]
    fn who_sleeps_on_purpose_or_waits_for_others_does_not_wait_for_work() {
        let said = |place| answer(vec![time(10, 100 * MS), wait(10, (100, 5000), place)]).title;
        let sleeps = said(in_call("clock_nanosleep", None));
        assert!(sleeps.contains("98 % of the look it sleeps on purpose,"), "{sleeps}");
        let tty = |name: &str| ObjectRef::Tty { name: name.into(), dev: DeviceNumber::default() };
        let types = said(in_call("read", Some(tty("pts/3"))));
        assert!(types.contains("it waits for its user's input,"), "{types}");
        let line = said(in_call("read", Some(tty("ttyS1"))));
        assert!(line.contains("it waits for what comes over a serial line,"), "{line}");
    }

    #[test]
    fn a_host_has_a_share_of_what_its_threads_lose() {
        let whole = Whole {
            base: Base::Lost,
            total: 8.0,
            unexplained: 0.0,
            there: 5.0,
            look: 5.0,
            idle: 0.0,
            rests: None,
            awaited: None,
        };
        let does = "waits for disk vda".to_string();
        let said = Said { does, is_own: false, more: String::new() };
        let title = whole.title("web1", &said, 6.0);
        assert_eq!(title, "web1 waits for disk vda: 75 % of the time that its threads lose.");
        assert_eq!(whole.amount(6.0), "6 s of 8 s that threads lose in a look of 5 s");
    }
}
