//! What each thread did when: stretches on a CPU, ready for one, and blocked, without overlap.
//!
//! Built once from wait events, walks over standing waits and, for traced threads, stretches of running.
//! A wait is split at its wake-up: before it the thread was blocked, after it it waited for a CPU. Consecutive
//! waits at the same place with next to no running between them are one wait (a thread that is woken and
//! finds nothing, again and again). What was not observed is a gap, reported as `Unseen`, never guessed.
//!
//! What is reckoned with stretches of time elsewhere (a union, an intersection) uses `joined` and `common` of here.
//!
//! Each thread has its own timeline, also where its id was another's before (model/thread_key.rs).
//!
//! Must not: follow wakers. Edit together: classify.rs (classes), objects.rs (objects), retries.rs (what sleeps are for).

use super::dns_question::{self, Closing};
use super::ended;
use super::interpreter_lock;
use super::poll_intent::Accepted;
use super::{
    WaitClass, classify, classify_ended, kernel_lock, monitor, nagle, objects, open_locked,
    polled_timer, retries, session_pieces, slept_on, turns_for_work, user_stack,
};
use super::{futex_handoff, futex_value};
use crate::facts::*;
use crate::model::object::Object;
use crate::model::{Model, RawWaits, ThreadKey};
use crate::programs::lock_kind::LockKind;
use std::collections::{BTreeMap, HashMap, HashSet};

pub use super::span::WaitSpan;
pub use super::stretches::{common, joined};

/// What a thread did in a piece of its timeline.
#[derive(Debug, Clone, Copy)]
pub enum Doing<'a> {
    /// On a CPU.
    Running,
    /// Waiting: blocked, or for a CPU.
    Waiting(&'a WaitSpan),
    /// Not observed: it ran, or waited for less than the threshold.
    Unseen,
}

/// One piece of a timeline.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// From.
    pub begin_ns: Ns,
    /// To.
    pub end_ns: Ns,
    /// What.
    pub doing: Doing<'a>,
}

/// Timelines by whose they are.
type Lines = BTreeMap<ThreadKey, Timeline>;

#[derive(Debug, Default)]
struct Timeline {
    waits: Vec<WaitSpan>,
    ran: Vec<(Ns, Ns)>,
}

/// The timelines of all threads.
#[derive(Debug, Default)]
pub struct Timelines {
    lines: Lines,
}

/// What of a model says what a wait is for.
struct Context {
    accepted: Accepted,
    questions: Vec<Closing>,
    /// Processes that are asked by others.
    asked: HashSet<u32>,
}

/// A wait that goes on at the same place after so little running is the same wait.
const SAME_WAIT_GAP_NS: Ns = 200_000;

/// A model with the timelines of its threads.
#[derive(Debug)]
pub struct Observed {
    /// What was observed.
    pub model: Model,
    /// What each thread did when.
    pub timelines: Timelines,
}

impl Observed {
    /// Reads all facts of a look.
    pub fn new(facts: Vec<Fact>) -> Self {
        let mut model = Model::new(facts);
        let timelines = Timelines::take(&mut model);
        Self { model, timelines }
    }
}

impl Timelines {
    /// Of a model, whose observed waits it takes.
    pub fn take(model: &mut Model) -> Self {
        let raw = model.take_waits();
        Self::build(model, raw)
    }

    /// Builds from what was observed.
    fn build(model: &Model, raw: RawWaits) -> Self {
        let RawWaits { waits, blocked, ran } = raw;
        let mut accepted = Accepted::of(&model.held.endpoints);
        let places = waits.iter().map(|it| &it.place);
        let places = places.chain(blocked.iter().map(|(_, it)| &it.place));
        let before = model.held.endpoints_before.iter().map(|(_, end)| &end.object);
        let objects = places.filter_map(|it| it.object.as_ref()).chain(before);
        objects.for_each(|it| accepted.see(it));
        accepted.serve(model.called.served_ports());
        let questions = dns_question::closings(model);
        let asked = dns_question::asked_by_others(model);
        let context = Context { accepted, questions, asked };
        let mut lines = ran_lines(model, ran);
        for mut wait in waits {
            settle(model, &mut wait);
            let line = lines.entry(model.threads.key(&wait.thread)).or_default();
            line.waits.extend(spans(model, &context, wait));
        }
        for line in lines.values_mut() {
            line.waits.sort_by_key(|w| (w.begin_ns, w.end_ns));
        }
        for (at_ns, mut blocked) in blocked {
            model.threads.settle(&mut blocked.thread, at_ns);
            let line = lines.entry(model.threads.key(&blocked.thread)).or_default();
            add_standing(model, &context, line, at_ns, blocked);
        }
        for (who, stretch) in dying(model, &lines) {
            lines.entry(who).or_default().ran.push(stretch);
        }
        ended::reclassify(model, lines.values_mut().flat_map(|line| &mut line.waits));
        let resting = futex_value::resting(model, lines.values().flat_map(|line| &line.waits));
        let mut words: Vec<&mut WaitSpan> = (lines.values_mut().flat_map(|line| &mut line.waits))
            .filter(|wait| matches!(wait.class, WaitClass::FutexLock | WaitClass::FutexWait))
            .collect();
        futex_value::reclassify(model, &mut words, &resting);
        let held = nagle::held_back(model, lines.values().flat_map(|line| &line.waits));
        let handed = futex_handoff::locks(model, lines.values().flat_map(|line| &line.waits));
        let mut retried = retries::reasons(model, lines.values().flat_map(|line| &line.waits));
        retried.extend(open_locked::reasons(model, lines.values().flat_map(|line| &line.waits)));
        let objects = lines.values().flat_map(|line| &line.waits).map(|wait| &wait.object);
        let lock_names = kernel_lock::names(objects);
        for line in lines.values_mut() {
            for wait in &mut line.waits {
                kernel_lock::rename(&lock_names, &mut wait.object);
                if let Some((class, object)) = retried.get(&(wait.thread.tid, wait.begin_ns)) {
                    wait.class = *class;
                    wait.object = object.clone();
                }
                if wait.class == WaitClass::FutexWait
                    && handed.contains(&(wait.thread.pid, wait.place.args[0]))
                {
                    wait.class = WaitClass::FutexLock;
                } else {
                    reclassify_by_stack(model, wait);
                }
                interpreter_lock::reclassify(model, wait);
            }
            session_pieces::reclassify(model, &mut line.waits);
            slept_on::reclassify(&mut line.waits);
            polled_timer::pass_on(&mut line.waits);
            if !held.is_empty() {
                cut_held_back(&mut line.waits, &held);
            }
            line.ran.sort_unstable();
            line.waits.sort_by_key(|w| (w.begin_ns, w.end_ns));
            merge(&mut line.waits);
        }
        Self { lines }.rest_in_turns(model)
    }

    /// Calls a rest what is a wait for the turn to take a task.
    fn rest_in_turns(mut self, model: &Model) -> Self {
        let turns = turns_for_work::words(model, self.lines.values().flat_map(|it| &it.waits));
        let waits = self.lines.values_mut().flat_map(|line| &mut line.waits);
        for wait in waits.filter(|it| it.class == WaitClass::FutexLock && !turns.is_empty()) {
            if turns.contains(&(wait.thread.pid, wait.object.clone())) {
                wait.class = WaitClass::Idle;
            }
        }
        self
    }

    /// Every wait, by thread id and begin.
    pub fn waits(&self) -> impl Iterator<Item = &WaitSpan> {
        self.lines.values().flat_map(|line| &line.waits)
    }

    /// The waits of one thread, by begin.
    pub fn of(&self, who: ThreadKey) -> &[WaitSpan] {
        self.lines.get(&who).map_or(&[], |line| &line.waits)
    }

    /// Until when a thread was last seen to run or to wait.
    pub fn seen_until(&self, who: ThreadKey) -> Ns {
        let Some(line) = self.lines.get(&who) else { return 0 };
        let ran = line.ran.last().map_or(0, |(_, end_ns)| *end_ns);
        ran.max(line.waits.last().map_or(0, |wait| wait.end_ns))
    }

    /// What a thread did from one time to another, without gap or overlap.
    pub fn pieces(&self, who: ThreadKey, from: Ns, to: Ns) -> Vec<Piece<'_>> {
        let mut pieces = Vec::new();
        if from >= to {
            return pieces;
        }
        let Some(line) = self.lines.get(&who) else {
            return vec![Piece { begin_ns: from, end_ns: to, doing: Doing::Unseen }];
        };
        // The last wait that begins at or before `from` may reach into it; earlier ones may too if
        // they are longer, so the search goes back as far as waits overlap.
        let after = line.waits.partition_point(|w| w.begin_ns <= from);
        let first = line.waits[..after].iter().rposition(|w| w.end_ns <= from).map_or(0, |i| i + 1);
        let mut at = from;
        for wait in &line.waits[first..] {
            if wait.begin_ns >= to {
                break;
            }
            let (begin, end) = (wait.begin_ns.max(at), wait.end_ns.min(to));
            if begin >= end {
                continue;
            }
            line.between(at, begin, &mut pieces);
            pieces.push(Piece { begin_ns: begin, end_ns: end, doing: Doing::Waiting(wait) });
            at = end;
        }
        line.between(at, to, &mut pieces);
        pieces
    }
}

impl Timeline {
    /// Between waits a thread ran if it was seen running, else it was not observed.
    fn between<'a>(&'a self, from: Ns, to: Ns, pieces: &mut Vec<Piece<'a>>) {
        let mut at = from;
        let first = self.ran.partition_point(|(_, end)| *end <= from);
        for &(begin, end) in &self.ran[first..] {
            if begin >= to || at >= to {
                break;
            }
            let (begin, end) = (begin.max(at), end.min(to));
            if begin >= end {
                continue;
            }
            if begin > at {
                pieces.push(Piece { begin_ns: at, end_ns: begin, doing: Doing::Unseen });
            }
            pieces.push(Piece { begin_ns: begin, end_ns: end, doing: Doing::Running });
            at = end;
        }
        if at < to {
            pieces.push(Piece { begin_ns: at, end_ns: to, doing: Doing::Unseen });
        }
    }
}

/// Stretches of running, by who ran.
fn ran_lines(model: &Model, ran: BTreeMap<(u32, Ns), Vec<(Ns, Ns)>>) -> Lines {
    let mut lines = Lines::new();
    for ((tid, start_ns), stretches) in ran {
        if start_ns == 0 {
            for stretch in stretches {
                let who = model.threads.key_of(tid, 0, stretch.1);
                lines.entry(who).or_default().ran.push(stretch);
            }
            continue;
        }
        let line = lines.entry(model.threads.key_of(tid, start_ns, Ns::MAX)).or_default();
        match line.ran.is_empty() {
            true => line.ran = stretches,
            false => line.ran.extend(stretches),
        }
    }
    lines
}

/// Threads of unknown start get that of their lives while the moment of the fact is known.
fn settle(model: &Model, wait: &mut Wait) {
    model.threads.settle(&mut wait.thread, wait.end_ns);
    if let Some(wake) = &mut wait.wake {
        model.threads.settle(&mut wake.by, wake.at_ns);
    }
    if let Some(before) = &mut wait.ran_before {
        model.threads.settle(before, wait.end_ns);
    }
}

/// One wait event: a blocked part up to the wake-up, and a part for the CPU after it.
fn spans(model: &Model, context: &Context, wait: Wait) -> Vec<WaitSpan> {
    let frames = model.stacks.kernel(wait.place.stack);
    // Another CPU's clock may date the wake-up before the wait.
    let woken = wait.wake.as_ref().map_or(wait.begin_ns, |wake| wake.at_ns.max(wait.begin_ns));
    let mut all = Vec::new();
    let mut span = WaitSpan {
        class: WaitClass::RunQueue,
        object: Object::Nothing,
        kernel: wait.kernel,
        begin_ns: wait.begin_ns,
        end_ns: woken,
        standing: false,
        wake: None,
        ran_before: None,
        throttled: wait.throttled,
        begin_estimated: wait.begin_estimated,
        dns_query: None,
        place: wait.place,
        thread: wait.thread,
    };
    if let Some(wake) = wait.wake {
        let mut blocked = span.clone();
        blocked.class = classify_ended(&span.thread, &span.place, frames, span.kernel, &wake);
        blocked.wake = Some(wake);
        name(model, context, &mut blocked);
        all.push(blocked);
    }
    if woken < wait.end_ns {
        span.begin_ns = woken;
        span.end_ns = wait.end_ns;
        span.class = if span.throttled { WaitClass::CpuQuota } else { WaitClass::RunQueue };
        span.place.state = WaitState::Runnable;
        span.ran_before = wait.ran_before;
        span.object = objects::run_queue(model, &span);
        all.push(span);
    }
    all
}

/// What threads ran after their exit was reported: it is reported before they give back memory and files, which takes time, and
/// whoever waits for that they wake themselves, so until then they were there. Where they waited meanwhile, that is reported.
fn dying(model: &Model, lines: &Lines) -> Vec<(ThreadKey, (Ns, Ns))> {
    let is_traced = |who: ThreadKey| lines.get(&who).is_some_and(|line| !line.ran.is_empty());
    let mut until: BTreeMap<ThreadKey, (Ns, Ns)> = (model.threads.exits.iter())
        .map(|(at_ns, exit)| (model.threads.key_at(&exit.thread, *at_ns), (*at_ns, *at_ns)))
        .filter(|(who, _)| is_traced(*who))
        .collect();
    let wakes = lines.values().flat_map(|line| &line.waits).filter_map(|wait| wait.wake.as_ref());
    for wake in wakes.filter(|wake| wake.context == WakeContext::Task) {
        if let Some((_, end_ns)) = until.get_mut(&model.threads.key(&wake.by)) {
            *end_ns = wake.at_ns.max(*end_ns);
        }
    }
    until.into_iter().filter(|(_, (begin_ns, end_ns))| begin_ns < end_ns).collect()
}

/// Says what a wait is for where its connections and questions do, and what it is on.
fn name(model: &Model, context: &Context, span: &mut WaitSpan) {
    if let Some(query) = dns_question::of(model, &context.questions, span) {
        span.class = WaitClass::Dns;
        span.dns_query = Some(query);
    } else if span.class == WaitClass::Dns {
        let Context { questions, asked, .. } = context;
        if dns_question::is_for_whatever_comes(model, questions, asked, span) {
            span.class = WaitClass::Idle;
        }
    } else if span.class == WaitClass::Idle
        && let Some(class) = context.accepted.class(span.thread.pid, &span.place)
    {
        span.class = class;
    }
    let reads =
        matches!(span.class, WaitClass::SocketRead | WaitClass::UnixRead | WaitClass::PipeRead);
    if reads && context.accepted.is_own(span.thread.pid, &span.place) {
        span.class = WaitClass::Idle;
    }
    span.object = objects::object(model, span);
}

/// What is polled, or named by a path, is read from memory while a wait stands, and a terminal is stopped only then: some
/// sights of it do not know.
fn learn(model: &Model, context: &Context, known: &mut WaitSpan, seen: Place) {
    let is_new = known.place.object.is_none() && seen.object.is_some();
    let is_stopped = seen.output_stopped && !known.place.output_stopped;
    if is_new {
        known.place.object = seen.object;
    }
    known.place.output_stopped |= seen.output_stopped;
    if known.place.lock.is_none() {
        known.place.lock = seen.lock;
    }
    known.place.timeout_ns = known.place.timeout_ns.or(seen.timeout_ns);
    // A loop that polls a pipe of its own is known by what else it polls.
    let is_polled = known.standing && known.place.polled.is_empty() && !seen.polled.is_empty();
    if known.place.polled.is_empty() {
        known.place.polled = seen.polled;
    }
    if is_new || is_stopped || is_polled {
        known.class = classify(&known.place, model.stacks.kernel(known.place.stack), known.kernel);
        name(model, context, known);
    }
}

/// A wait found standing: a new one, unless an ended one covers it or an earlier sight began it.
fn add_standing(
    model: &Model,
    context: &Context,
    line: &mut Timeline,
    at_ns: Ns,
    blocked: Blocked,
) {
    let begin_ns = blocked.since_ns.min(at_ns);
    let covers = |w: &WaitSpan| !w.standing && w.begin_ns < at_ns && w.end_ns >= at_ns;
    if let Some(known) = line.waits.iter_mut().rev().find(|w| covers(w)) {
        if known.place.syscall == blocked.place.syscall {
            learn(model, context, known, blocked.place);
        } else if known.place.syscall.is_empty() && !known.kernel {
            // Its end was not reported in time to read where it stood: this is where.
            known.place = blocked.place;
            known.class =
                classify(&known.place, model.stacks.kernel(known.place.stack), known.kernel);
            name(model, context, known);
        }
        return;
    }
    if let Some(known) = line.waits.iter_mut().rev().find(|w| w.standing)
        && known.place.syscall == blocked.place.syscall
        && known.place.args == blocked.place.args
        && begin_ns <= known.end_ns.max(known.begin_ns + 1)
    {
        known.end_ns = known.end_ns.max(at_ns);
        learn(model, context, known, blocked.place);
        return;
    }
    let frames = model.stacks.kernel(blocked.place.stack);
    let mut span = WaitSpan {
        class: classify(&blocked.place, frames, blocked.kernel),
        object: Object::Nothing,
        kernel: blocked.kernel,
        begin_ns,
        end_ns: at_ns,
        standing: true,
        wake: None,
        ran_before: None,
        throttled: false,
        begin_estimated: blocked.since_estimated,
        dns_query: None,
        place: blocked.place,
        thread: blocked.thread,
    };
    name(model, context, &mut span);
    // Most threads of a host stand in one wait all the time: room for four would be most of the memory.
    if line.waits.is_empty() {
        line.waits.reserve_exact(1);
    }
    line.waits.push(span);
}

/// The part of a wait in which its own data was held back becomes a wait of its own.
fn cut_held_back(waits: &mut Vec<WaitSpan>, held: &HashMap<(u32, Ns), Ns>) {
    let mut first_parts = Vec::new();
    for wait in waits.iter_mut() {
        let Some(until) = held.get(&(wait.thread.tid, wait.begin_ns)) else { continue };
        if matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota) {
            continue;
        }
        let is_whole = *until >= wait.end_ns;
        let first = WaitSpan { class: WaitClass::Nagle, end_ns: *until, ..wait.clone() };
        match is_whole {
            true => *wait = first,
            false => {
                wait.begin_ns = *until;
                first_parts.push(WaitSpan { standing: false, wake: None, ..first });
            }
        }
    }
    waits.append(&mut first_parts);
}

/// One call made again. Who polls often asks for the same with less time left each time.
fn same_call(first: &Place, second: &Place) -> bool {
    match first.syscall.as_str() {
        "poll" | "ppoll" => first.args[..2] == second.args[..2],
        _ => first.args == second.args,
    }
}

/// What the program's own functions say of a word goes before what is guessed by its value.
fn reclassify_by_stack(model: &Model, wait: &mut WaitSpan) {
    let is_word = matches!(wait.class, WaitClass::FutexLock | WaitClass::FutexWait);
    let is_loop = wait.place.syscall.starts_with("epoll");
    if !is_word && !is_loop && wait.class != WaitClass::Idle {
        return;
    }
    // Each of a virtual machine's threads waits on something of its own, whatever lock it wants.
    let of_monitor = (WaitClass::FutexLock, Object::Inside(wait.thread.pid));
    if is_word && monitor::is_waited_for(model, &wait.thread, wait.begin_ns, wait.end_ns) {
        (wait.class, wait.object) = of_monitor;
        return;
    }
    let Some(stack) = model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns) else { return };
    // Whichever of its child's ends that loop heard from.
    if is_loop && user_stack::waits_for_child(&stack.frames) {
        (wait.class, wait.object) = (WaitClass::Child, Object::Child(None));
        return;
    }
    if user_stack::wants_mutex(&stack.frames) && (is_word || wait.class == WaitClass::Idle) {
        (wait.class, wait.object) = of_monitor;
        return;
    }
    if !is_loop && user_stack::sleeps(&stack.frames) {
        let name = if is_word { slept_on::THREAD_SLEEP } else { &*wait.place.syscall };
        (wait.class, wait.object) = (WaitClass::Timer, Object::Timer(name.into()));
        return;
    }
    if !is_word {
        return;
    }
    let is_parked = user_stack::is_parked_in_java(&stack.frames);
    match user_stack::kind(&stack.frames) {
        Some(LockKind::Idle) => wait.class = WaitClass::Idle,
        Some(LockKind::Monitor) => (wait.class, wait.object) = of_monitor,
        Some(kind) if is_parked && kind.holds_up() => {
            (wait.class, wait.object) = (WaitClass::FutexLock, Object::Parked(wait.thread.pid));
        }
        _ if is_parked => wait.class = WaitClass::FutexWait,
        _ if user_stack::is_held_up(&stack.frames, wait.timed_word().is_some()) => {
            wait.class = WaitClass::FutexLock
        }
        Some(kind) if kind.is_no_lock() => wait.class = WaitClass::FutexWait,
        _ => {}
    }
}

/// Waits of which each is one, however short the time between them. Whoever is woken at a full pipe was given room by its reader: how long
/// that takes is the reader's pace. A tracer of calls stops a thread again as soon as it has let it go.
fn happens_often(class: WaitClass) -> bool {
    use WaitClass::{CpuQuota, Disk, Nagle, PipeWrite, RunQueue, Traced};
    matches!(class, RunQueue | CpuQuota | Disk | Nagle | PipeWrite | Traced)
}

/// Joins waits at one place that only a moment of running parts, in place: a command has a wait for each switch.
fn merge(waits: &mut Vec<WaitSpan>) {
    waits.dedup_by(|wait, last| {
        if last.class == wait.class
            && wait.class.is_demand()
            && !happens_often(wait.class)
            && last.object == wait.object
            && last.place.syscall == wait.place.syscall
            && same_call(&last.place, &wait.place)
            && wait.begin_ns.saturating_sub(last.end_ns) < SAME_WAIT_GAP_NS
        {
            last.end_ns = last.end_ns.max(wait.end_ns);
            last.standing = wait.standing;
            last.wake = wait.wake.take();
            return true;
        }
        // A standing sight overlaps the end of the wait before it if the thread was briefly woken.
        wait.standing && wait.end_ns <= last.end_ns
    });
    waits.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::scenes::{fact, host, thread};

    #[test]
    fn a_wake_up_that_another_clock_dates_before_the_wait_ends_it_at_once() {
        let wake = Some(Wake { at_ns: 9, ..Wake::default() });
        let thread = thread(10, "app");
        let wait = Wait { thread, begin_ns: 10, end_ns: 12, wake, ..Wait::default() };
        let observed = Observed::new(host().into_iter().chain([fact(Body::Wait(wait))]).collect());
        let waits: Vec<_> = observed.timelines.waits().map(|it| (it.begin_ns, it.end_ns)).collect();
        assert_eq!(waits, [(10, 10), (10, 12)]);
    }
}
