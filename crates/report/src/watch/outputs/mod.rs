//! Whom events and figures reach: one list of outputs, each with a thread and a bounded queue of its own.
//!
//! The thread that looks puts work into queues and never waits: what finds a queue full is lost, counted and said. An output that fails
//! is said once, and once again when it takes something, with how much was lost meanwhile; what may succeed later is tried again, the
//! rest of the queue behind it. At the end all queues are emptied as far as the end of a process has time for it.
//!
//! Adding one is a file, a variant of [`Wanted`], and its settings. Rejected: async (a dozen events an hour), one thread for all (a mail that
//! hangs is not to hold up the journal).
//!
//! Edit together: docs/watch.md, settings.rs, tests/outputs (each with its real receiver), packaging/holdup-watch.service.

mod child;
pub(super) mod collector;
pub(super) mod figures;
pub(crate) mod hook;
pub(super) mod journald;
pub(crate) mod mail;
pub(super) mod message;
mod otlp;
pub(super) mod place;
mod post;
mod serve;
pub(crate) mod settings;
mod syslog;
mod textfile;

use super::settings::Settings;
use message::Message;
use place::Url;
use settings::{MailSettings, SyslogSettings};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pieces of work that may wait for an output.
const QUEUE: usize = 256;
/// Until what failed is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// Changes of an output that wait to be said: one window's.
const CHANGES_MAX: usize = 64;

/// What an output is given.
#[derive(Clone)]
enum Work {
    Event(Arc<Message>),
    /// Figures as text, which are newer than all before.
    Metrics(Arc<str>),
}

/// What became of it.
enum Taken {
    Sent,
    /// It waits in the output, which says when it is due.
    Held,
}

/// Why it was not taken.
enum Failed {
    /// The same may be taken later.
    Again(String),
    /// The same is not taken again.
    Never(String),
}

/// Somebody whom events or figures reach. Runs in a thread of its own, and may wait there as long as its own limits say.
trait Output: Send {
    /// Takes the next piece.
    fn take(&mut self, work: &Work) -> Result<Taken, Failed>;

    /// When what it holds is to be sent.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Sends what it holds.
    fn flush(&mut self) -> Result<Taken, Failed> {
        Ok(Taken::Sent)
    }
}

/// An output that the settings ask for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Wanted {
    /// A program and its arguments.
    Hook(Vec<String>),
    /// The system journal.
    Journald,
    /// A syslog daemon.
    Syslog(SyslogSettings),
    /// People.
    Mail(MailSettings),
    /// Figures, for node_exporter.
    TextFile(PathBuf),
    /// Figures, for whoever asks at this address.
    Serve(SocketAddr),
    /// A collector of OpenTelemetry.
    Otlp(Url),
}

impl Wanted {
    /// All that the settings ask for: the one list.
    pub(super) fn all(settings: &Settings) -> Vec<Self> {
        let Settings { hook, journald, syslog, mail, metrics, .. } = settings;
        let all = [
            (!hook.is_empty()).then(|| Self::Hook(hook.clone())),
            journald.enabled.then_some(Self::Journald),
            syslog.to.is_some().then(|| Self::Syslog(syslog.clone())),
            (!mail.to.is_empty()).then(|| Self::Mail(mail.clone())),
            metrics.textfile.as_ref().map(|file| Self::TextFile(file.0.clone())),
            metrics.listen.map(|listen| Self::Serve(listen.0)),
            settings.logs.clone().map(Self::Otlp),
        ];
        all.into_iter().flatten().collect()
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Hook(_) => "hook",
            Self::Journald => "journald",
            Self::Syslog(_) => "syslog",
            Self::Mail(_) => "mail",
            Self::TextFile(_) => "textfile",
            Self::Serve(_) => "metrics",
            Self::Otlp(_) => "otlp",
        }
    }

    fn takes_metrics(&self) -> bool {
        matches!(self, Self::TextFile(_) | Self::Serve(_))
    }

    /// Threads that take from its queue.
    fn threads(&self) -> usize {
        if matches!(self, Self::Hook(_)) { hook::AT_ONCE } else { 1 }
    }

    fn output(&self) -> Box<dyn Output> {
        match self.clone() {
            Self::Hook(words) => Box::new(hook::Hook(words)),
            Self::Journald => Box::new(journald::Journald),
            Self::Syslog(settings) => Box::new(syslog::Syslog(settings)),
            Self::Mail(settings) => Box::new(mail::Mail::new(settings)),
            Self::TextFile(path) => Box::new(textfile::TextFileOutput(path)),
            Self::Serve(address) => Box::new(serve::Server::new(address)),
            Self::Otlp(url) => Box::new(otlp::Otlp(url)),
        }
    }
}

/// An output that fails, or does so no more.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    /// Its name.
    pub output: &'static str,
    /// Whether it fails now.
    pub is_failure: bool,
    /// Why; or what was lost meanwhile.
    pub text: String,
}

/// `1 message was`, `3 messages were`.
pub(super) fn messages_were(many: u64) -> String {
    if many == 1 { "1 message was".into() } else { format!("{many} messages were") }
}

/// How an output is: its threads say it, the one that looks reads it.
#[derive(Default)]
struct Health {
    said: Mutex<Said>,
    /// Pieces that it has not sent yet.
    waiting: AtomicU64,
    /// Pieces that did not and will not reach it.
    lost: AtomicU64,
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Said {
    is_failing: bool,
    lost_before: u64,
    changes: Vec<(bool, String)>,
}

impl Health {
    fn fails(&self, why: String) {
        let Ok(mut said) = self.said.lock() else { return };
        if !std::mem::replace(&mut said.is_failing, true) && said.changes.len() < CHANGES_MAX {
            said.changes.push((true, why));
        }
    }

    fn works(&self) {
        let Ok(mut said) = self.said.lock() else { return };
        if std::mem::replace(&mut said.is_failing, false) && said.changes.len() < CHANGES_MAX {
            let lost = self.lost.load(Ordering::Relaxed);
            let meanwhile = match lost - std::mem::replace(&mut said.lost_before, lost) {
                0 => "nothing was lost".to_string(),
                many => format!("{} lost", messages_were(many)),
            };
            said.changes.push((false, meanwhile));
        }
    }

    fn lose(&self, pieces: u64) {
        self.lost.fetch_add(pieces, Ordering::Relaxed);
        self.done(pieces);
    }

    fn done(&self, pieces: u64) {
        self.waiting.fetch_sub(pieces, Ordering::Relaxed);
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

/// An output with its threads.
struct Running {
    wanted: Wanted,
    /// None once it is to end.
    queue: Option<SyncSender<Work>>,
    health: Arc<Health>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    fn start(wanted: Wanted) -> Self {
        let (queue, work) = sync_channel(QUEUE);
        let work = Arc::new(Mutex::new(work));
        let health = Arc::new(Health::default());
        let mut threads = Vec::new();
        for _ in 0..wanted.threads() {
            let (output, work, own) = (wanted.output(), Arc::clone(&work), Arc::clone(&health));
            let builder = std::thread::Builder::new().name(format!("holdup-{}", wanted.name()));
            match builder.spawn(move || run(output, &work, &own)) {
                Ok(thread) => threads.push(thread),
                Err(error) => health.fails(format!("there is no thread for it: {error}")),
            }
        }
        Self { wanted, queue: Some(queue), health, threads }
    }

    fn put(&self, work: Work) {
        let Some(queue) = &self.queue else { return };
        self.health.waiting.fetch_add(1, Ordering::Relaxed);
        if queue.try_send(work).is_err() {
            self.health.lose(1);
            self.health.fails(format!("it takes nothing: {QUEUE} messages wait for it"));
        }
    }

    /// Takes nothing more; what waits is still sent, once.
    fn end(&mut self) {
        self.queue = None;
        self.health.is_ending.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Running {
    /// It has ended.
    fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Messages that still wait; figures are made anew each window.
    fn unsent(&self) -> u64 {
        match self.wanted.takes_metrics() {
            true => 0,
            false => self.health.waiting.load(Ordering::Relaxed),
        }
    }
}

/// See the head of the file.
#[derive(Default)]
pub(super) struct Outputs {
    running: Vec<Running>,
    /// Of former settings, until they have sent what waited.
    leaving: Vec<Running>,
}

impl Outputs {
    /// Has these outputs from now on; those that are as they were go on.
    pub(super) fn set(&mut self, wanted: Vec<Wanted>) {
        for gone in self.running.iter_mut().filter(|it| !wanted.contains(&it.wanted)) {
            gone.end();
        }
        let all = std::mem::take(&mut self.running).into_iter();
        let (stays, leaves): (Vec<_>, Vec<_>) = all.partition(|it| it.queue.is_some());
        self.running = stays;
        self.leaving.extend(leaves);
        for wanted in wanted {
            if !self.running.iter().any(|it| it.wanted == wanted) {
                self.running.push(Running::start(wanted));
            }
        }
    }

    /// Says an event to whoever is to know it.
    pub(super) fn event(&self, message: Message) {
        let message = Arc::new(message);
        for output in self.running.iter().filter(|it| !it.wanted.takes_metrics()) {
            output.put(Work::Event(Arc::clone(&message)));
        }
    }

    /// Gives figures to whoever takes them; they are made only then.
    pub(super) fn metrics(&self, text: impl FnOnce() -> String) {
        let mut takers = self.running.iter().filter(|it| it.wanted.takes_metrics()).peekable();
        if takers.peek().is_some() {
            let text: Arc<str> = text().into();
            takers.for_each(|output| output.put(Work::Metrics(Arc::clone(&text))));
        }
    }

    /// Whether events are entries of the journal.
    pub(super) fn has_journald(&self) -> bool {
        self.running.iter().any(|it| it.wanted == Wanted::Journald)
    }

    /// Of each: whether it fails, and what it lost.
    pub(super) fn states(&self) -> Vec<(&'static str, bool, u64)> {
        let state = |it: &Running| {
            let is_failing = it.health.said.lock().is_ok_and(|said| said.is_failing);
            (it.wanted.name(), is_failing, it.health.lost.load(Ordering::Relaxed))
        };
        self.running.iter().map(state).collect()
    }

    /// What has failed, or works again, since this was last asked.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        let mut all = Vec::new();
        for it in self.running.iter().chain(&self.leaving) {
            let Ok(mut said) = it.health.said.lock() else { continue };
            let changes = std::mem::take(&mut said.changes).into_iter();
            let output = it.wanted.name();
            all.extend(changes.map(|(is_failure, text)| Change { output, is_failure, text }));
        }
        self.leaving.retain(|it| {
            let is_over = it.is_over();
            let many = if is_over { it.unsent() } else { 0 };
            if many > 0 {
                let text = format!("its settings changed: {} not sent", messages_were(many));
                all.push(Change { output: it.wanted.name(), is_failure: true, text });
            }
            !is_over
        });
        all
    }

    /// Takes nothing more; what waits is sent.
    pub(super) fn end(&mut self) {
        self.running.iter_mut().for_each(Running::end);
    }

    /// Waits until then for what is being sent; whom how much did not reach.
    pub(super) fn wait(&self, until: Instant) -> Vec<(&'static str, u64)> {
        let all = || self.running.iter().chain(&self.leaving);
        while !all().all(Running::is_over) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        all().map(|it| (it.wanted.name(), it.unsent())).filter(|it| it.1 > 0).collect()
    }
}

enum Next {
    Work(Work),
    Due,
    Over,
}

fn next(queue: &Mutex<Receiver<Work>>, due: Option<Instant>) -> Next {
    let Ok(queue) = queue.lock() else { return Next::Over };
    let Some(due) = due else { return queue.recv().map_or(Next::Over, Next::Work) };
    match queue.recv_timeout(due.saturating_duration_since(Instant::now())) {
        Ok(work) => Next::Work(work),
        Err(RecvTimeoutError::Timeout) => Next::Due,
        Err(RecvTimeoutError::Disconnected) => Next::Over,
    }
}

/// The thread of an output.
fn run(mut output: Box<dyn Output>, queue: &Mutex<Receiver<Work>>, health: &Health) {
    let mut held = 0;
    loop {
        let is_over = match next(queue, output.due()) {
            Next::Work(work) => {
                held += u64::from(deliver(&mut *output, &work, health));
                continue;
            }
            Next::Due => false,
            Next::Over => true,
        };
        if held > 0 {
            match output.flush() {
                Ok(Taken::Sent) => {
                    health.done(std::mem::take(&mut held));
                    health.works();
                }
                Ok(Taken::Held) => {}
                Err(Failed::Again(why)) => health.fails(why),
                Err(Failed::Never(why)) => {
                    // First the loss: another thread of it may say at once that it works again, and how much was lost.
                    health.lose(std::mem::take(&mut held));
                    health.fails(why);
                }
            }
        }
        if is_over {
            return;
        }
    }
}

/// Whether it is held; else it was sent or is lost.
fn deliver(output: &mut dyn Output, work: &Work, health: &Health) -> bool {
    loop {
        match output.take(work) {
            Ok(Taken::Held) => return true,
            Ok(Taken::Sent) => {
                health.done(1);
                health.works();
                return false;
            }
            Err(Failed::Again(why)) if !health.is_ending() => {
                health.fails(why);
                // Until it is time, or the end.
                std::thread::park_timeout(RETRY);
            }
            // At the end it counts as what was not sent.
            Err(Failed::Again(why)) => {
                health.fails(why);
                return false;
            }
            Err(Failed::Never(why)) => {
                health.lose(1);
                health.fails(why);
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests;
