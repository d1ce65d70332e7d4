//! `holdup watch`: the look that goes on, what it keeps, and whom it reaches. One process, no port, no async.
//!
//! Window by window: the answer goes to over_time (what began, changed, ended), the recording to the recorder in memory; what is worth
//! the disk is queued for the store, what happened is a line on standard output, a line in the findings of the day, and given to the
//! outputs of the settings. A sign of life goes to systemd at each batch of facts. SIGTERM ends it, SIGHUP reads the settings again, SIGUSR1
//! keeps what is in memory.
//!
//! Must not: wait for a disk, a program or the net in this thread; restart itself (systemd does); act on the host. Edit together: docs/watch.md,
//! packaging/holdup-watch.service.

mod alive;
pub(crate) mod check;
mod event_line;
pub(crate) mod local_time;
pub(crate) mod outputs;
mod pace;
mod recorder;
pub(crate) mod ring;
pub(crate) mod settings;
pub(crate) mod span;
mod store;

use crate::failure::Failure;
use crate::flags::groups::{StateFlag, duration};
use crate::output::Output;
use crate::surface::{Surface, Typed};
use crate::text::{escape, own_fault};
use alive::Alive;
use clap::Args;
use event_line::{Line, OutputLine};
use holdup_engine::foresight::Foresight;
use holdup_engine::over_time::{Event, Happened};
use holdup_engine::{Looked, Recorded, Windows};
use holdup_probe::plan::Target;
use holdup_probe::recording;
use holdup_reason::answer::{ReportHost, SCHEMA};
use holdup_reason::facts::{Body, Fact};
use holdup_reason::model::figures;
use jiff::tz::TimeZone;
use outputs::figures::{Figures, Now};
use outputs::message::Message;
use outputs::{Outputs, Wanted};
use pace::Pace;
use recorder::Recorder;
use ring::Entry;
use settings::{RingSettings, Settings};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::{State, Store};

/// For how long outputs may send once the last window has ended: systemd and people expect an end within a second.
const LAST_SENDING: Duration = Duration::from_millis(600);
/// The state is written at least so often, so that who reads it knows that somebody watches.
const STATE_AGE_NS_MAX: u64 = 60 * 1_000_000_000;

const EXAMPLES: &str = "\
Examples:
  holdup watch                      windows of 10 s, until ctrl-C
  holdup watch --state ./state      with a state folder of one's own
  holdup watch --print-config > /etc/holdup/holdup.toml

docs/watch.md says how systemd runs it, and what it writes.";

/// How to watch.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// File of the settings [default: /etc/holdup/holdup.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings with what they cost, and end
    #[arg(long)]
    print_config: bool,
    /// Length of a window: 10s, 1m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    window: Option<Duration>,
    #[command(flatten)]
    state: StateFlag,
}

impl Surface for Flags {
    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure> {
        let Self { config, print_config, window, state } = *self;
        let named = Named { config, state: state.state, window };
        if print_config {
            let settings = named.settings()?;
            Output::open(&typed.answer, false, None)?.raw(settings.print().as_bytes())?;
        } else {
            run(named)?;
        }
        Ok(0)
    }
}

/// Whom to ask to write what is in memory.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  holdup keep && holdup ring")]
pub(crate) struct KeepFlags {
    #[command(flatten)]
    state: StateFlag,
}

impl Surface for KeepFlags {
    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure> {
        let reported = keep(&self.state.folder()?)?;
        Output::open(&typed.answer, false, None)?.raw(reported.as_bytes())?;
        Ok(0)
    }
}

/// Which settings were named.
#[derive(Debug, Default, Clone)]
struct Named {
    /// The file of them.
    config: Option<PathBuf>,
    /// The state folder, over what the file says.
    state: Option<PathBuf>,
    /// Length of a window, over what the file says.
    window: Option<Duration>,
}

impl Named {
    /// The settings as they are now.
    fn settings(&self) -> Result<Settings, Failure> {
        let mut settings = Settings::read(self.config.as_deref())?;
        if let Some(window) = self.window {
            // Who wants short windows wants them always.
            (settings.window, settings.quiet_window) = (window, window);
        }
        // systemd names the folder that it made for the unit.
        let of_unit = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        if let Some(state) = self.state.clone().or(of_unit) {
            settings.state = state;
        }
        Ok(settings)
    }
}

/// What signals have asked for.
struct Asked {
    stop: Arc<AtomicBool>,
    again: Arc<AtomicBool>,
    keep: Arc<AtomicBool>,
}

impl Asked {
    fn listen() -> std::io::Result<Self> {
        let asked = Self { stop: Arc::default(), again: Arc::default(), keep: Arc::default() };
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&asked.stop),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&asked.stop))?;
        }
        signal_hook::flag::register(SIGHUP, Arc::clone(&asked.again))?;
        signal_hook::flag::register(SIGUSR1, Arc::clone(&asked.keep))?;
        Ok(asked)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What goes on from window to window.
struct Watch {
    named: Named,
    settings: Settings,
    asked: Asked,
    store: Store,
    state: State,
    recorder: Recorder,
    foresight: Foresight,
    pace: Pace,
    outputs: Outputs,
    figures: Figures,
    alive: Alive,
    unwritten: u64,
    /// It rests now and then, to stay within the budget.
    rests: bool,
}

/// Watches until a signal ends it.
fn run(named: Named) -> Result<(), Failure> {
    let settings = named.settings()?;
    let asked = Asked::listen()
        .map_err(|error| Failure::look(format!("cannot catch signals: {error}"), ""))?;
    let (store, state) = Store::open(&settings)?;
    let recorder = Recorder::new(&settings);
    let known = state.trends.iter().filter_map(|text| recording::fact(text.as_bytes()));
    let known = known.filter_map(|fact| match fact.body {
        Body::Usage(usage) => Some(usage),
        _ => None,
    });
    let foresight = Foresight::with(known.collect(), state.boot_id.clone());
    let mut watch = Watch {
        named,
        settings,
        asked,
        store,
        state,
        recorder,
        foresight,
        pace: Pace::default(),
        outputs: Outputs::default(),
        figures: Figures::default(),
        alive: Alive::default(),
        unwritten: 0,
        rests: false,
    };
    watch.outputs.set(Wanted::all(&watch.settings));
    let watched = watch.windows();
    watch.end();
    watched
}

impl Watch {
    fn windows(&mut self) -> Result<(), Failure> {
        while !self.asked.is_over() {
            let mut windows = self.start()?;
            self.ready();
            let mut has_loaded = true;
            let rest = loop {
                let Settings { window, .. } = self.settings;
                windows.set_seconds(self.length().as_secs_f64());
                let of_stalls = self.pace.length_of(window, window);
                windows.set_seconds_of_stalls(of_stalls.as_secs_f64());
                windows.set_least_wait(self.pace.least_wait_ns());
                let (alive, keep) = (&mut self.alive, &self.asked.keep);
                let mut is_asked = false;
                let looked = windows.next_window(&mut self.foresight, &mut || {
                    alive.tick();
                    is_asked |= keep.swap(false, Ordering::Relaxed);
                })?;
                let Some(looked) = looked else { return Ok(()) };
                let is_anybody = !looked.report.findings.is_empty();
                let own_fault = looked.report.own_fault.clone();
                let (seconds, spent) = self.window(looked);
                if let Some(fault) = own_fault {
                    return Err(own_fault::failure(&fault));
                }
                self.pace.held_up(seconds, is_anybody);
                self.asked_for(is_asked)?;
                if std::mem::take(&mut has_loaded) {
                    self.pace.loaded(seconds, spent);
                    continue;
                }
                let before = (self.pace.least_wait_ns(), self.length());
                let rest = self.pace.take(seconds, spent, self.settings.budget_percent);
                self.say_level(before);
                if let Some(rest) = rest {
                    break rest;
                }
            };
            // Nothing is attached while nothing is looked at.
            drop(windows);
            self.rest(rest);
        }
        Ok(())
    }

    fn start(&self) -> Result<Windows, Failure> {
        let seconds = self.length().as_secs_f64();
        Ok(Windows::start(Target::Host, seconds, Arc::clone(&self.asked.stop))?)
    }

    /// Takes a window; how long it was, and what it took of a CPU, seconds.
    fn window(&mut self, looked: Looked) -> (f64, f64) {
        let Looked { report, recording, unix_offset_ns } = looked;
        if let Some(by_ns) = self.state.take_clock(unix_offset_ns, self.foresight.boot_id()) {
            let seconds = by_ns.unsigned_abs() as f64 / 1e9;
            let way = if by_ns < 0 { "back" } else { "forward" };
            say(&format!("the clock was set {way} by {}", figures::seconds(seconds)));
        }
        let bytes: Option<Arc<[u8]>> = match recording {
            Recorded::Whole(bytes) => Some(Arc::from(bytes)),
            Recorded::Not(why) => {
                say(&format!("the recording of this window is not held: {why}"));
                None
            }
        };
        let entry = Entry::of(&report, bytes.as_ref().map_or(0, |it| it.len() as u64));
        let before = self.state.over_time.clone();
        let events = self.state.over_time.take(&report);
        let recording = bytes.as_ref().map(|_| entry.file.clone());
        let write = self.recorder.take(entry, bytes);
        write.into_iter().for_each(|(entry, bytes)| self.store.window(entry, bytes));
        let trends = self.foresight.trends().iter().cloned();
        let fact = |usage| Fact { at_ns: 0, body: Body::Usage(usage) };
        self.state.boot_id = self.foresight.boot_id().into();
        self.state.trends = trends.filter_map(|it| recording::text(&fact(it))).collect();
        self.figures.window(&report);
        // Each line says which host; what it answers at is in the recordings.
        let host = ReportHost { listening: None, ..report.host.clone() };
        for event in events {
            self.state.sequence += 1;
            self.figures.event(event.event);
            self.reach(&event, host.clone(), recording.clone());
        }
        let end_ns = report.window.begin_unix_ns + (report.window.seconds * 1e9) as u64;
        if self.state.over_time != before || self.state.age_ns(end_ns) >= STATE_AGE_NS_MAX {
            self.state.looked_unix_ns = end_ns;
            self.store.state(&self.state);
        }
        self.say_failures(end_ns, &host);
        self.outputs.metrics(|| self.figures.text(&self.now()));
        self.alive.status(self.status());
        let spent = report.cost.cpu_seconds + report.cost.bpf_seconds.unwrap_or(0.0);
        (report.window.seconds, spent)
    }

    /// Says an event to whoever is to know it.
    fn reach(&mut self, event: &Event, host: ReportHost, recording: Option<String>) {
        // Where standard output is the journal too, a line there would be a second entry.
        if !(self.outputs.has_journald() && outputs::journald::is_stdout()) {
            say_event(event);
        }
        let line = Line::of(self.state.sequence, event, host, recording);
        self.store.line(&line);
        self.outputs.event(Message::of(event, &line));
    }

    /// What figures say of this moment.
    fn now(&self) -> Now<'_> {
        Now {
            open: self.state.over_time.open().map(|(_, said)| said).collect(),
            memory_bytes: self.recorder.size().1 as u64,
            ring_bytes: self.store.ring_bytes(),
            unwritten: self.store.lost(),
            outputs: self.outputs.states(),
        }
    }

    /// Has written and sent what waits for it, as far as there is time.
    fn end(mut self) {
        let until = Instant::now() + LAST_SENDING;
        self.alive.stops();
        self.outputs.end();
        self.store.state(&self.state);
        if !self.store.close() {
            say("what was still to be written is lost: the disk does not answer");
        }
        for (output, many) in self.outputs.wait(until) {
            say(&format!("output {output}: {} not sent", outputs::messages_were(many)));
        }
    }

    /// What signals have asked for meanwhile.
    fn asked_for(&mut self, is_asked: bool) -> Result<(), Failure> {
        if is_asked || self.asked.keep.swap(false, Ordering::Relaxed) {
            let (windows, bytes) = self.recorder.size();
            let (windows, bytes) = (figures::count(windows as u64), figures::bytes(bytes as f64));
            say(&format!("asked to keep what is in memory: {windows} windows, {bytes}"));
            let all = self.recorder.all();
            all.into_iter().for_each(|(entry, bytes)| self.store.window(entry, bytes));
        }
        if self.asked.again.swap(false, Ordering::Relaxed) {
            self.alive.reads_settings();
            // A file that is wrong now changes nothing: the look goes on as it was.
            match self.named.settings() {
                Ok(settings) => {
                    if settings.state != self.settings.state || settings.ring != self.settings.ring
                    {
                        say(
                            "the state folder and the ring's limits change with the next start only",
                        );
                    }
                    let Settings { state, ring, .. } = &self.settings;
                    let ring = RingSettings {
                        before: settings.ring.before,
                        after: settings.ring.after,
                        ..ring.clone()
                    };
                    self.settings = Settings { state: state.clone(), ring, ..settings };
                    self.recorder.set(&self.settings);
                    self.outputs.set(Wanted::all(&self.settings));
                    say("the settings were read again");
                }
                Err(failure) => say(&format!("as before, for: {}", failure.message().trim_end())),
            }
            self.alive.ready();
        }
        Ok(())
    }

    fn ready(&mut self) {
        if self.alive.ready() {
            say(&format!(
                "watching: windows of {}, the last {} in memory, state in {}",
                figures::seconds(self.settings.window.as_secs_f64()),
                figures::seconds(self.settings.memory.as_secs_f64()),
                self.settings.state.display()
            ));
        }
    }

    fn status(&self) -> String {
        let open: Vec<&str> =
            self.state.over_time.open().map(|(_, it)| it.title.as_str()).collect();
        let what = match open.first() {
            None => "nothing holds anybody up".to_string(),
            Some(first) if open.len() == 1 => escape::line(first),
            Some(first) => format!("{} (and {} more)", escape::line(first), open.len() - 1),
        };
        let (windows, bytes) = self.recorder.size();
        let (windows, bytes) = (figures::count(windows as u64), figures::bytes(bytes as f64));
        format!("{what}; in memory: {windows} windows, {bytes}")
    }

    /// Of a window.
    fn length(&self) -> Duration {
        self.pace.length_of(self.settings.window, self.settings.quiet_window)
    }

    /// Says from which length on waits are reported now, and how long windows are, if that has changed.
    fn say_level(&mut self, before: (u64, Duration)) {
        let (least_ns, length) = (self.pace.least_wait_ns(), self.length());
        if (least_ns, length) == before {
            return;
        }
        // At another level it is another look, which may fit.
        self.rests = false;
        let took = self.took();
        let window = figures::seconds(length.as_secs_f64());
        say(&match least_ns {
            _ if length != before.1 => format!("{took}: windows are of {window} now"),
            0 => format!("{took}: all waits are reported again"),
            ns => format!(
                "{took}: waits under {} are only counted now",
                figures::seconds(ns as f64 / 1e9)
            ),
        });
    }

    /// Looks at nothing for so long.
    fn rest(&mut self, length: Duration) {
        if !std::mem::replace(&mut self.rests, true) {
            say(&format!(
                "{}: from now on it rests now and then, this time for {}",
                self.took(),
                figures::seconds(length.as_secs_f64())
            ));
        }
        let begin = Instant::now();
        while begin.elapsed() < length && !self.asked.is_over() {
            std::thread::sleep(Duration::from_millis(200));
            self.alive.tick();
        }
        let left_out = begin.elapsed().as_secs_f64() / self.length().as_secs_f64();
        self.figures.left_out(left_out.ceil() as u64);
    }

    /// What looking took, by which it was decided.
    fn took(&self) -> String {
        format!(
            "looking took {:.1} % of a CPU, of {} % that it may",
            self.pace.decided_percent(),
            self.settings.budget_percent
        )
    }

    fn say_failures(&mut self, at_unix_ns: u64, host: &ReportHost) {
        for change in self.outputs.changes() {
            let outputs::Change { output, is_failure, text } = change;
            let (event, word) = match is_failure {
                true => ("output_failed", "fails"),
                false => ("output_restored", "works again"),
            };
            say(&format!("output {output} {word}: {text}"));
            self.state.sequence += 1;
            self.store.line(&OutputLine {
                schema: SCHEMA,
                sequence: self.state.sequence,
                event,
                output,
                text: &text,
                at_unix_ns,
                host,
            });
        }
        if let Some(why) = self.store.failure() {
            say(&why);
        }
        let unwritten = self.store.unwritten - self.unwritten;
        if unwritten > 0 {
            self.unwritten = self.store.unwritten;
            let many = figures::count(unwritten);
            say(&format!("{many} pieces were not written: the disk does not answer"));
        }
    }
}

/// A line for people: under systemd it is the journal's, which has its own times.
fn say(what: &str) {
    let _ = writeln!(std::io::stdout(), "{}", escape::line(what));
}

fn say_event(event: &Event) {
    let finding = &event.said;
    let since = local_time::shown(event.since_unix_ns, &TimeZone::system());
    let title = &finding.title;
    let line = match event.event {
        Happened::Began => format!("BEGAN {since}  {title}  ({})", finding.code),
        Happened::Changed => format!("CHANGED {since}  {title}  ({})", finding.code),
        Happened::Ended => format!(
            "ENDED after {}  {title}  ({})",
            figures::seconds(event.until_unix_ns.saturating_sub(event.since_unix_ns) as f64 / 1e9),
            finding.code
        ),
        Happened::Flapping => format!(
            "COMES AND GOES {since}  {title}  ({}); nothing more is said of it until it stays away",
            finding.code
        ),
    };
    say(&line);
}

/// Asks whoever watches to write what is in memory.
fn keep(folder: &Path) -> Result<String, Failure> {
    let nobody = || {
        let what = format!("nobody watches with {}", folder.display());
        Failure::look(
            what,
            "`holdup watch` does, or `systemctl start holdup-watch`; --state DIR names its folder.",
        )
    };
    let pid = store::watcher(folder)?.ok_or_else(nobody)?;
    let refused =
        |error: rustix::io::Errno| Failure::look(format!("cannot ask process {pid}: {error}"), "");
    let pid =
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(nobody)?;
    // By a descriptor: the number alone could be another process's by now.
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
    let process = process.map_err(refused)?;
    if store::watcher(folder)?.is_none() {
        return Err(nobody());
    }
    rustix::process::pidfd_send_signal(process, rustix::process::Signal::USR1).map_err(refused)?;
    let ring = folder.join(ring::FOLDER);
    Ok(format!("What is in memory is written to {} when this window ends.\n", ring.display()))
}
