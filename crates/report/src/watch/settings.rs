//! What `holdup watch` goes by: /etc/holdup/holdup.toml, every key of which may be left out, and the flags over it.
//!
//! An unknown key or a wrong value is an error with its line and column; nothing is guessed. `--print-config` prints every key with
//! its value and what it costs, as a file that reads back. Must not: open anything but the file. Edit together: docs/watch.md.

use super::outputs::collector::endpoint;
use super::outputs::place::Url;
use super::outputs::settings::{
    JournaldSettings, MailSettings, MetricsSettings, OtlpSettings, SyslogSettings,
    print as print_outputs, quoted,
};
use crate::failure::Failure;
use holdup_reason::model::figures;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the settings are read, if there is such a file and no other was named.
pub(crate) const FILE: &str = "/etc/holdup/holdup.toml";
/// Where state is written, if nothing else is said.
const STATE: &str = "/var/lib/holdup";

/// See the head of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Length of a window.
    #[serde(deserialize_with = "length")]
    pub window: Duration,
    /// The same where nobody was held up for a minute, if that is longer.
    #[serde(deserialize_with = "length")]
    pub quiet_window: Duration,
    /// Windows that are held in memory.
    #[serde(deserialize_with = "length")]
    pub memory: Duration,
    /// Share of one CPU that looking may take over a minute, in percent.
    pub budget_percent: f64,
    /// Where state is written.
    pub state: PathBuf,
    /// What the disk holds.
    pub ring: RingSettings,
    /// Whom to start when something begins, changes or ends.
    pub hook: Vec<String>,
    /// The system journal.
    pub journald: JournaldSettings,
    /// A syslog daemon.
    pub syslog: SyslogSettings,
    /// Mail.
    pub mail: MailSettings,
    /// Figures for Prometheus.
    pub metrics: MetricsSettings,
    /// An OpenTelemetry collector.
    pub otlp: OtlpSettings,
    /// Where it takes logs, with what the environment says; none if it is not wanted.
    #[serde(skip)]
    pub logs: Option<Url>,
}

/// What the ring on the disk may take.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RingSettings {
    /// All of it, MiB.
    pub mebibytes: u64,
    /// Days.
    pub days: u64,
    /// Of the disk, what stays free, percent.
    pub free_percent: u64,
    /// Of the windows in memory, how long before a finding is written with it.
    #[serde(deserialize_with = "length")]
    pub before: Duration,
    /// And how long after it.
    #[serde(deserialize_with = "length")]
    pub after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(10),
            quiet_window: Duration::from_secs(60),
            memory: Duration::from_secs(15 * 60),
            budget_percent: 2.0,
            state: STATE.into(),
            ring: RingSettings::default(),
            hook: Vec::new(),
            journald: JournaldSettings::default(),
            syslog: SyslogSettings::default(),
            mail: MailSettings::default(),
            metrics: MetricsSettings::default(),
            otlp: OtlpSettings::default(),
            logs: None,
        }
    }
}

impl Default for RingSettings {
    fn default() -> Self {
        Self {
            mebibytes: 1024,
            days: 7,
            free_percent: 5,
            before: Duration::from_secs(60),
            after: Duration::from_secs(30),
        }
    }
}

/// `10s`, `15m`, or a number of seconds.
fn length<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    use serde::de::Error;
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Seconds(f64),
        Words(String),
    }
    let wrong = || D::Error::custom("not a length of time; try 10s, 15m or 2h");
    match Given::deserialize(from)? {
        Given::Seconds(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| wrong()),
        Given::Words(words) => humantime::parse_duration(&words).map_err(|_| wrong()),
    }
}

/// Where whoever watches with the usual settings writes.
pub(crate) fn state() -> Result<PathBuf, Failure> {
    Ok(Settings::read(None)?.state)
}

impl Settings {
    /// Reads the file that was named, or the usual one if it is there.
    pub(crate) fn read(named: Option<&Path>) -> Result<Self, Failure> {
        let file = named.unwrap_or(Path::new(FILE));
        match std::fs::read_to_string(file) {
            Ok(text) => Self::of(&text, &file.display().to_string()),
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            Err(error) => Err(Failure::file("read the settings", file, &error)),
        }
    }

    fn of(text: &str, file: &str) -> Result<Self, Failure> {
        let settings: Self = toml::from_str(text).map_err(|error| {
            let begin = error.span().map_or(0, |span| span.start.min(text.len()));
            let (line, column) = place(text, begin);
            let what = error.message().lines().collect::<Vec<_>>().join(", ");
            Failure::usage(format!("{file}:{line}:{column}: {what}"))
                .advise("`holdup watch --print-config` shows every key.")
        })?;
        settings.checked(file)
    }

    /// What is a value and makes no sense.
    fn checked(mut self, file: &str) -> Result<Self, Failure> {
        let refused = |what: String| Err(Failure::usage(format!("{file}: {what}")));
        for (key, length) in [("window", self.window), ("quiet_window", self.quiet_window)] {
            let seconds = length.as_secs_f64();
            if !(1.0..=300.0).contains(&seconds) {
                let is = figures::seconds(seconds);
                return refused(format!("{key} is {is}; it may be 1s to 5m"));
            }
        }
        if self.memory < self.window {
            return refused("memory is shorter than a window".into());
        }
        self.quiet_window = self.quiet_window.min(self.memory);
        if self.memory > Duration::from_secs(24 * 3600) {
            return refused("memory is longer than a day".into());
        }
        if !(0.1..=100.0).contains(&self.budget_percent) {
            return refused(format!(
                "budget_percent is {}; it may be 0.1 to 100",
                self.budget_percent
            ));
        }
        if self.ring.free_percent > 90 {
            return refused("ring.free_percent is above 90".into());
        }
        if self.hook.first().is_some_and(|program| !program.starts_with('/')) {
            return refused("hook must begin with the whole path of a program".into());
        }
        if !self.mail.sendmail.is_absolute() {
            return refused("mail.sendmail must be the whole path of a program".into());
        }
        if self.mail.per_hour == 0 {
            return refused("mail.per_hour is 0; without recipients no mail is sent".into());
        }
        if self.otlp.enabled {
            match endpoint(&self.otlp, |name| std::env::var(name).ok()) {
                Ok(url) => self.logs = Some(url),
                Err(why) => return refused(why),
            }
        }
        Ok(self)
    }

    /// All of it as a file, with what each key costs.
    pub(crate) fn print(&self) -> String {
        let seconds = |length: Duration| format!("{}s", length.as_secs());
        let words: Vec<String> = self.hook.iter().map(|word| quoted(word)).collect();
        format!(
            "# Length of a window. Shorter ones cost more: each reads the host's files anew.\n\
             window = \"{}\"\n\n\
             # The same where nobody was held up for a minute: nearly all that looking takes there is taken at the end of a window. The first finding ends it, and who waits for CPUs, disks or memory ends the one that goes on.\n\
             quiet_window = \"{}\"\n\n\
             # Windows held in memory: about 100 KB for each on a quiet host, 1 MB on a busy one.\n\
             memory = \"{}\"\n\n\
             # Share of one CPU that looking may take over a minute, in percent. Beyond it short waits are only counted, then windows are longer, then it rests now and then.\n\
             budget_percent = {}\n\n\
             # Where state is written: the ring, the findings of each day, what is open.\n\
             state = {}\n\n\
             # Started with a line of JSON on standard input when something begins, changes or ends. Empty: nobody is.\n\
             hook = [{}]\n\n\
             [ring]\n\
             # What the disk holds at most, and for how long. A healthy host writes nothing.\n\
             mebibytes = {}\n\
             days = {}\n\
             # Of that disk, what stays free.\n\
             free_percent = {}\n\
             # What is written with a finding.\n\
             before = \"{}\"\n\
             after = \"{}\"\n\n\
             {}",
            seconds(self.window),
            seconds(self.quiet_window),
            seconds(self.memory),
            self.budget_percent,
            quoted(&self.state.display().to_string()),
            words.join(", "),
            self.ring.mebibytes,
            self.ring.days,
            self.ring.free_percent,
            seconds(self.ring.before),
            seconds(self.ring.after),
            print_outputs(&self.journald, &self.syslog, &self.mail, &self.metrics, &self.otlp),
        )
    }
}

/// Line and column of a byte, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[begin..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Settings::of(text, "x.toml").expect_err("it is wrong").message()
    }

    #[test]
    fn what_is_printed_reads_back() {
        let settings = Settings {
            hook: vec!["/bin/page me".into(), "a\"b\u{1b}\n".into()],
            budget_percent: 0.5,
            ..Settings::default()
        };
        assert_eq!(Settings::of(&settings.print(), "x.toml").ok(), Some(settings));
        let text = "[syslog]\nto = \"tcp:[::1]:601\"\nfacility = \"local3\"\n[mail]\nto = [\"root\", \"a@b\"]\n\
             from = \"h@b\"\nper_hour = 2\n[metrics]\ntextfile = \"/a/b.prom\"\nlisten = \"127.0.0.1:9750\"\n\
             [journald]\nenabled = true\n[otlp]\nenabled = true\nendpoint = \"http://192.0.2.1:4318\"\n";
        let all = Settings::of(text, "x.toml").expect("right");
        assert_eq!(
            all.logs.as_ref().map(ToString::to_string).as_deref(),
            Some("http://192.0.2.1:4318/v1/logs")
        );
        assert_eq!(Settings::of(&all.print(), "x.toml").ok(), Some(all));
        assert_eq!(Settings::of("", "x.toml").ok(), Some(Settings::default()));
    }

    #[test]
    fn an_error_says_where_and_what() {
        let unknown = refused("window = \"10s\"\nwindows = 3\n");
        assert!(unknown.contains("x.toml:2:1: unknown field `windows`"), "{unknown}");
        let wrong = refused("[ring]\ndays = \"many\"\n");
        assert!(wrong.contains("x.toml:2:8:"), "{wrong}");
        let length = refused("window = \"soon\"\n");
        assert!(length.contains("x.toml:1:10: not a length of time"), "{length}");
        for (text, why) in [
            ("window = \"0s\"", "it may be 1s to 5m"),
            ("quiet_window = \"1h\"", "quiet_window is 1 h; it may be 1s to 5m"),
            ("memory = \"5s\"", "shorter than a window"),
            ("budget_percent = 0", "it may be 0.1 to 100"),
            ("hook = [\"mail\"]", "whole path"),
            ("[syslog]\nto = \"192.0.2.1\"", "x.toml:2:6: it is unix:/dev/log"),
            ("[syslog]\nfacility = \"kern\"", "x.toml:2:12: it is one of user, daemon"),
            ("[mail]\nto = [\"-oQ/tmp\"]", "x.toml:2:6: it is a plain address"),
            ("[mail]\nto = [\"a@b\\r\\nBcc: c@d\"]", "it is a plain address"),
            (
                "[metrics]\nlisten = \"0.0.0.0:9750\"",
                "x.toml:2:10: it is an address of this host alone",
            ),
            ("[metrics]\ntextfile = \"/a/b\"", "ends in .prom"),
            ("[otlp]\nendpoint = \"https://a\"", "x.toml:2:12: https is not spoken"),
        ] {
            assert!(refused(text).contains(why), "{}", refused(text));
        }
    }
}
