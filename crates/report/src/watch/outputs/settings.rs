//! Sections of holdup.toml that say whom events and figures reach, all of them off until somebody says where.
//!
//! A value of the wrong form is an error with its line and column, as an unknown key is. Each section prints itself with what it costs.
//! Must not: open a file, ask the net. Edit together: docs/watch.md, ../settings.rs (which holds the sections).

use super::place::{Place, Url};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A basic string of TOML, whose escapes are those of JSON.
pub(in super::super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Read by its own form; the error stands where it is wrong.
fn read<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

/// The same of what may be empty.
fn read_any<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// The system journal.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JournaldSettings {
    /// Whether events are entries of it.
    pub enabled: bool,
}

/// A syslog daemon.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SyslogSettings {
    /// Where it listens.
    #[serde(deserialize_with = "read_any")]
    pub to: Option<SyslogPlace>,
    /// What it files them under.
    #[serde(deserialize_with = "read")]
    pub facility: Facility,
}

/// Where a syslog daemon listens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SyslogPlace {
    /// A datagram socket of this host.
    Unix(PathBuf),
    /// A datagram a message (RFC 5426).
    Udp(Place),
    /// A connection a message, its length before it (RFC 6587).
    Tcp(Place),
}

/// Facility of syslog(3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Facility(pub(super) u8);

/// Facilities that a program may use, by name.
const FACILITIES: [(&str, u8); 10] = [
    ("user", 1),
    ("daemon", 3),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

/// Mail through the host's own sendmail.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MailSettings {
    /// To whom; nobody if empty.
    pub to: Vec<MailAddress>,
    /// From whom; what sendmail says if empty.
    #[serde(deserialize_with = "read_any")]
    pub from: Option<MailAddress>,
    /// The program.
    pub sendmail: PathBuf,
    /// Mails within an hour at most.
    pub per_hour: u32,
}

/// An address that is safe as an argument and in a header.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct MailAddress(pub(super) String);

/// Figures for Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MetricsSettings {
    /// A file for node_exporter's textfile collector; none if empty.
    #[serde(deserialize_with = "read_any")]
    pub textfile: Option<TextFile>,
    /// Where to be asked for /metrics; nowhere if empty.
    #[serde(deserialize_with = "read_any")]
    pub listen: Option<Listen>,
}

/// A file whose name node_exporter reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextFile(pub(super) PathBuf);

/// An address that this host alone can reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Listen(pub(super) SocketAddr);

/// An OpenTelemetry collector.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OtlpSettings {
    /// Whether events are log records there.
    pub enabled: bool,
    /// Where it is; what the environment says if empty.
    #[serde(deserialize_with = "read_any")]
    pub endpoint: Option<Url>,
}

impl Default for SyslogSettings {
    fn default() -> Self {
        Self { to: None, facility: Facility(3) }
    }
}

impl Default for MailSettings {
    fn default() -> Self {
        Self { to: Vec::new(), from: None, sendmail: "/usr/sbin/sendmail".into(), per_hour: 6 }
    }
}

impl FromStr for SyslogPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(("udp", place)) => Place::read(place, None).map(Self::Udp),
            Some(("tcp", place)) => Place::read(place, None).map(Self::Tcp),
            _ => Err("it is unix:/dev/log, udp:ADDRESS:PORT or tcp:ADDRESS:PORT".into()),
        }
    }
}

impl fmt::Display for SyslogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Udp(place) => write!(f, "udp:{place}"),
            Self::Tcp(place) => write!(f, "tcp:{place}"),
        }
    }
}

impl FromStr for Facility {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = FACILITIES.iter().find(|(name, _)| *name == text);
        found.map(|(_, number)| Self(*number)).ok_or_else(|| {
            let names: Vec<&str> = FACILITIES.iter().map(|(name, _)| *name).collect();
            format!("it is one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Facility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FACILITIES.iter().find(|(_, number)| *number == self.0);
        f.write_str(name.map_or("daemon", |(name, _)| name))
    }
}

impl TryFrom<String> for MailAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_graphic() && !"<>()[],;:\\\"".contains(c);
        // What begins with a dash would be a flag of sendmail's.
        match text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_plain) {
            true => Ok(Self(text)),
            false => Err("it is a plain address, as in root or ops@example.org".into()),
        }
    }
}

impl FromStr for MailAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.to_string().try_into()
    }
}

impl FromStr for TextFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        match path.is_absolute() && path.extension().is_some_and(|it| it == "prom") {
            true => Ok(Self(path)),
            false => Err("it is the whole path of a file that ends in .prom".into()),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address: Option<SocketAddr> = text.parse().ok();
        address.filter(|it| it.ip().is_loopback() && it.port() > 0).map(Self).ok_or_else(|| {
            "it is an address of this host alone and a port, as in 127.0.0.1:9750".into()
        })
    }
}

/// All sections as they stand in the file, each with what it costs.
pub(in super::super) fn print(
    journald: &JournaldSettings,
    syslog: &SyslogSettings,
    mail: &MailSettings,
    metrics: &MetricsSettings,
    otlp: &OtlpSettings,
) -> String {
    let shown = |it: Option<String>| quoted(&it.unwrap_or_default());
    let to: Vec<String> = mail.to.iter().map(|it| quoted(&it.0)).collect();
    format!(
        "[journald]\n\
         # Events as entries of the system journal, with fields (journalctl HOLDUP_CODE=lock.file). An event is some 10 KB there.\n\
         enabled = {}\n\n\
         [syslog]\n\
         # \"unix:/dev/log\", \"udp:ADDRESS:PORT\" or \"tcp:ADDRESS:PORT\" (RFC 5424). Empty: nobody. Costs a message of 2 KB an event.\n\
         to = {}\n\
         facility = \"{}\"\n\n\
         [mail]\n\
         # To whom, by this host's sendmail. Empty: nobody. Costs a process and a mail; events beyond these in an hour share one.\n\
         to = [{}]\n\
         from = {}\n\
         sendmail = {}\n\
         per_hour = {}\n\n\
         [metrics]\n\
         # Figures for node_exporter's textfile collector: a file of some 5 KB, written with each window. Empty: none.\n\
         textfile = {}\n\
         # Where Prometheus asks for /metrics, as 127.0.0.1:9750: this host alone. Empty: no port. Costs a thread that sleeps.\n\
         listen = {}\n\n\
         [otlp]\n\
         # Events as log records of OpenTelemetry, over plain HTTP. Costs a connection and 3 KB an event.\n\
         enabled = {}\n\
         # As http://127.0.0.1:4318. Empty: what OTEL_EXPORTER_OTLP_ENDPOINT says, or port 4318 of this host.\n\
         endpoint = {}\n",
        journald.enabled,
        shown(syslog.to.as_ref().map(ToString::to_string)),
        syslog.facility,
        to.join(", "),
        shown(mail.from.as_ref().map(|it| it.0.clone())),
        quoted(&mail.sendmail.display().to_string()),
        mail.per_hour,
        shown(metrics.textfile.as_ref().map(|it| it.0.display().to_string())),
        shown(metrics.listen.map(|it| it.0.to_string())),
        otlp.enabled,
        shown(otlp.endpoint.as_ref().map(ToString::to_string)),
    )
}
