//! Events as mail, through the host's own sendmail(8): one who is woken at night reads on a small screen what it is, and what to do.
//!
//! Events that come together share a mail, and so do those beyond the allowance of an hour, which then says so. The text is plain, at most
//! 8bit, and never wrapped: commands are copied out of it. Recipients are arguments of their settings; nothing of a finding is an
//! argument or ends a header.
//!
//! Rejected: lettre with builder and sendmail-transport (296 KB in a program of its own, for tables of Unicode in names of hosts; this is
//! 16 KB), SMTP of our own (queues and credentials are an MTA's).

use super::super::local_time::shown;
use super::child;
use super::message::Message;
use super::settings::{MailAddress, MailSettings};
use super::{Failed, Output, Taken, Work};
use crate::text::escape;
use holdup_engine::over_time::Happened;
use holdup_reason::answer::Severity;
use holdup_reason::model::figures;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
/// What comes within this of the first event is in the same mail.
const TOGETHER: Duration = Duration::from_secs(2);
/// Until sendmail is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// What sendmail may take: it may hand over to another host.
const LASTS_MAX: Duration = Duration::from_secs(60);
/// Events of one mail that are said in full, a line each, and at all.
const IN_FULL_MAX: usize = 3;
const LINES_MAX: usize = 50;
/// Troubles that a mail of several names as its threads.
const REFERENCES_MAX: usize = 10;
const SUBJECT_WIDTH: usize = 120;
/// RFC 5322, 2.1.1, less what escape codes take.
const LINE_BYTES_MAX: usize = 900;
/// RFC 2047, 2: an encoded word with its frame.
const ENCODED_BYTES_MAX: usize = 75;

/// See the head of the file.
pub(super) struct Mail {
    settings: MailSettings,
    pending: VecDeque<Arc<Message>>,
    /// Events that pending has no room for.
    more: usize,
    /// Whether what is pending had to wait for the allowance.
    is_folded: bool,
    /// When mails were sent, lately.
    sent: VecDeque<Instant>,
    due: Option<Instant>,
}

impl Mail {
    /// Nothing is sent yet.
    pub(super) fn new(settings: MailSettings) -> Self {
        Self {
            settings,
            pending: VecDeque::new(),
            more: 0,
            is_folded: false,
            sent: VecDeque::new(),
            due: None,
        }
    }

    /// When the next mail may be sent: now, or when the oldest of this hour's is an hour old.
    fn allowed(&mut self, now: Instant) -> Instant {
        while self.sent.front().is_some_and(|at| now.duration_since(*at) >= HOUR) {
            self.sent.pop_front();
        }
        match self.sent.front() {
            Some(first) if self.sent.len() >= self.settings.per_hour as usize => *first + HOUR,
            _ => now,
        }
    }
}

impl Output for Mail {
    fn take(&mut self, work: &Work) -> Result<Taken, Failed> {
        let Work::Event(message) = work else { return Ok(Taken::Sent) };
        if self.pending.len() < LINES_MAX {
            self.pending.push_back(Arc::clone(message));
        } else {
            self.more += 1;
        }
        self.due.get_or_insert_with(|| Instant::now() + TOGETHER);
        Ok(Taken::Held)
    }

    fn due(&self) -> Option<Instant> {
        self.due
    }

    fn flush(&mut self) -> Result<Taken, Failed> {
        let now = Instant::now();
        let allowed = self.allowed(now);
        if allowed > now {
            (self.due, self.is_folded) = (Some(allowed), true);
            return Ok(Taken::Held);
        }
        let pending: Vec<&Message> = self.pending.iter().map(|it| &**it).collect();
        let per_hour = self.is_folded.then_some(self.settings.per_hour);
        let text = compose(&self.settings, &pending, self.more, per_hour);
        let mut arguments = vec!["-i".to_string()];
        if let Some(from) = &self.settings.from {
            arguments.extend(["-f".to_string(), from.0.clone()]);
        }
        arguments.push("--".into());
        arguments.extend(self.settings.to.iter().map(|it| it.0.clone()));
        let program = self.settings.sendmail.display().to_string();
        if let Err(why) = child::run(&program, &arguments, text.into_bytes(), LASTS_MAX) {
            self.due = Some(now + RETRY);
            return Err(Failed::Again(why));
        }
        self.sent.push_back(now);
        self.pending.clear();
        (self.more, self.is_folded, self.due) = (0, false, None);
        Ok(Taken::Sent)
    }
}

/// Sends one mail of what was waited for, and waits for sendmail.
pub(crate) fn send(to: &MailAddress, subject: &str, text: &str) -> Result<(), String> {
    let mail = letter(to, subject, text);
    let program = MailSettings::default().sendmail.display().to_string();
    let arguments = ["-i".to_string(), "--".into(), to.0.clone()];
    child::run(&program, &arguments, mail.into_bytes(), LASTS_MAX)
        .map_err(|why| format!("the mail to {}: {why}", to.0))
}

fn letter(to: &MailAddress, subject: &str, text: &str) -> String {
    let headers = heads(std::slice::from_ref(to), &escape::prose(subject, SUBJECT_WIDTH));
    let mut body = String::new();
    text.lines().for_each(|line| put(&mut body, &escape::line(line)));
    let encoding = if body.is_ascii() { "7bit" } else { "8bit" };
    format!("{}\nContent-Transfer-Encoding: {encoding}\n\n{body}", headers.join("\n"))
}

/// The headers that every mail has.
fn heads(to: &[MailAddress], subject: &str) -> Vec<String> {
    let to: Vec<&str> = to.iter().map(|it| it.0.as_str()).collect();
    let now = Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S +0000");
    vec![
        format!("Date: {now}"),
        format!("To: {}", to.join(", ")),
        encoded("Subject", subject),
        "Auto-Submitted: auto-generated".into(),
        "MIME-Version: 1.0".into(),
        "Content-Type: text/plain; charset=utf-8".into(),
    ]
}

/// A whole mail; `per_hour` if events had to wait for it.
fn compose(
    settings: &MailSettings,
    events: &[&Message],
    more: usize,
    per_hour: Option<u32>,
) -> String {
    let zone = TimeZone::system();
    // What goes on comes before what is over.
    let pressing =
        |it: &&&Message| (it.event.event != Happened::Ended, it.event.said.severity, it.sequence);
    let Some(worst) = events.iter().max_by_key(pressing) else {
        return String::new();
    };
    let mut headers = heads(&settings.to, &subject(worst, events.len() + more));
    headers.push(format!("Message-ID: {}", id(worst, worst.sequence)));
    headers.push(format!("X-Holdup-Code: {}", escape::line(&worst.event.said.code)));
    if let Some(from) = &settings.from {
        headers.push(format!("From: {}", from.0));
    }
    // One thread a trouble, from its begin to its end.
    let threads: Vec<String> =
        events.iter().take(REFERENCES_MAX).map(|message| id(message, 0)).collect();
    headers.push(format!("References: {}", threads.join("\n ")));
    let body = body(events, more, per_hour, &zone);
    let encoding = if body.is_ascii() { "7bit" } else { "8bit" };
    headers.push(format!("Content-Transfer-Encoding: {encoding}"));
    format!("{}\n\n{body}", headers.join("\n"))
}

/// Of an event, or of the trouble as a whole.
fn id(message: &Message, number: u64) -> String {
    let mut hasher = DefaultHasher::new();
    (&message.event.key, message.event.since_unix_ns, &message.host.boot_id).hash(&mut hasher);
    let host: String = message
        .host
        .name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || ".-".contains(*c))
        .collect();
    let host = if host.is_empty() { "localhost" } else { &host };
    format!("<holdup.{:016x}.{number}@{host}>", hasher.finish())
}

fn subject(worst: &Message, all: usize) -> String {
    let host = escape::name(&worst.host.name, 60);
    let title = escape::prose(&worst.event.said.title, SUBJECT_WIDTH);
    let what = match worst.event.event {
        Happened::Ended => "ended:".to_string(),
        Happened::Changed => format!("{} changed:", loud(worst.event.said.severity)),
        Happened::Flapping => format!("{} comes and goes:", loud(worst.event.said.severity)),
        Happened::Began => loud(worst.event.said.severity).to_string(),
    };
    match all {
        1 => format!("[{host}] {what} {title}"),
        all => format!("[{host}] {what} {title} (and {} more)", all - 1),
    }
}

fn loud(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "WARNING",
        Severity::Critical => "CRITICAL",
    }
}

/// A header, of encoded words where it is not plain (RFC 2047, Q), folded before each.
fn encoded(name: &str, value: &str) -> String {
    if value.is_ascii() && !value.contains("=?") {
        return format!("{name}: {value}");
    }
    let (begin, end) = ("=?UTF-8?Q?", "?=");
    let (mut words, mut word) = (Vec::new(), String::new());
    for c in value.chars() {
        let mut bytes = [0; 4];
        let signs: String = match c {
            ' ' => "_".into(),
            c if c.is_ascii_alphanumeric() => c.into(),
            c => c.encode_utf8(&mut bytes).bytes().map(|byte| format!("={byte:02X}")).collect(),
        };
        if begin.len() + word.len() + signs.len() + end.len() > ENCODED_BYTES_MAX {
            words.push(std::mem::take(&mut word));
        }
        word.push_str(&signs);
    }
    words.push(word);
    let words: Vec<String> = words.iter().map(|word| format!("{begin}{word}{end}")).collect();
    format!("{name}: {}", words.join("\n "))
}

fn body(events: &[&Message], more: usize, per_hour: Option<u32>, zone: &TimeZone) -> String {
    let mut sorted: Vec<&Message> = events.to_vec();
    sorted.sort_by_key(|it| {
        (it.event.event == Happened::Ended, std::cmp::Reverse(it.event.said.severity))
    });
    let mut out = String::new();
    for message in sorted.iter().take(IN_FULL_MAX) {
        in_full(&mut out, message, zone);
    }
    for message in sorted.iter().skip(IN_FULL_MAX) {
        let at = shown(message.event.at_unix_ns, zone);
        put(&mut out, &format!("{at}  {}", message.title()));
    }
    if more > 0 {
        put(
            &mut out,
            &format!(
                "And {} more, which are in the findings of the day.",
                figures::count(more as u64)
            ),
        );
    }
    if let Some(per_hour) = per_hour {
        let limit = figures::count(per_hour.into());
        put(
            &mut out,
            &format!("\nThese had to wait: no more than {limit} mails an hour are sent."),
        );
    }
    out
}

fn in_full(out: &mut String, message: &Message, zone: &TimeZone) {
    let event = &message.event;
    let host = escape::name(&message.host.name, 60);
    let since = shown(event.since_unix_ns, zone);
    let heading = match event.event {
        Happened::Ended => format!("ENDED on {host} after {}, since {since}", message.lasted()),
        Happened::Changed => {
            format!("{} on {host}, in another way now, since {since}", loud(event.said.severity))
        }
        Happened::Flapping => format!(
            "{} on {host}, comes and goes; nothing more is said of it until it stays away",
            loud(event.said.severity)
        ),
        Happened::Began => format!("{} on {host} since {since}", loud(event.said.severity)),
    };
    put(out, &heading);
    put(out, "");
    put(out, &escape::line(&event.said.title));
    let text = message.text("/text");
    if !text.is_empty() {
        put(out, "");
        put(out, &escape::line(text));
    }
    put(out, "");
    let lost = figures::seconds(event.said.lost_per_second);
    put(out, &format!("Lost: {lost} in each second. Code: {}", escape::line(&event.said.code)));
    if event.event != Happened::Ended {
        ways_out(out, message);
    }
    put(out, "");
    put(out, "To see how it was then, on that host:");
    // As `holdup ring` shows it, to the minute: what was worst in it is answered.
    let minute: String = since.chars().take("2026-11-26 21:14".len()).collect();
    let minute = minute.replace(' ', "T");
    put(out, &format!("    sudo holdup --from ring:{minute}"));
    put(out, "");
}

fn ways_out(out: &mut String, message: &Message) {
    let ways = message.finding.pointer("/remedy").and_then(serde_json::Value::as_array);
    for way in ways.into_iter().flatten().take(IN_FULL_MAX) {
        let of = |name: &str| way.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        put(out, "");
        put(out, &escape::line(of("text")));
        for (before, command) in [("", of("command")), ("undo: ", of("undo"))] {
            if !command.is_empty() {
                put(out, &format!("    {before}{}", escape::line(command)));
            }
        }
    }
}

/// A line, as long as a mail may have it; part of a command would be another command.
fn put(out: &mut String, line: &str) {
    match line.len() > LINE_BYTES_MAX {
        true => out.push_str("    (too long for a mail: holdup itself says it whole)"),
        false => out.push_str(line),
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::message::example;
    use super::*;
    use proptest::prelude::*;

    fn settings(sendmail: &str, per_hour: u32) -> MailSettings {
        let address = |text: &str| MailAddress::try_from(text.to_string()).expect("an address");
        MailSettings {
            to: vec![address("ops@example.org"), address("root")],
            from: Some(address("holdup@example.org")),
            sendmail: sendmail.into(),
            per_hour,
        }
    }

    /// A value whose words are decoded, as a reader of mail shows it.
    fn decoded(header: &str) -> String {
        let header = header.replace("\n ", "");
        let Some(value) = header.strip_prefix("Subject: ") else { panic!("{header}") };
        if !value.starts_with("=?") {
            return value.to_string();
        }
        let mut bytes = Vec::new();
        for word in value.split("=?UTF-8?Q?").skip(1) {
            let mut signs = word.strip_suffix("?=").expect("an end").bytes();
            while let Some(sign) = signs.next() {
                let mut hex = || signs.next().map(char::from).expect("a digit");
                bytes.push(match sign {
                    b'_' => b' ',
                    b'=' => {
                        let two = String::from_iter([hex(), hex()]);
                        u8::from_str_radix(&two, 16).expect("hexadecimal")
                    }
                    sign => sign,
                });
            }
        }
        String::from_utf8(bytes).expect("whole characters")
    }

    proptest! {
        #[test]
        fn no_name_ends_a_header_or_makes_a_line_too_long(title in "(?s).{0,400}|[\r\n:=?_ a-z]{0,80}") {
            let settings = settings("/usr/sbin/sendmail", 6);
            let events = [example(Happened::Began, &title, &title), example(Happened::Ended, &title, "/x")];
            let text = compose(&settings, &[&events[0], &events[1]], 0, None);
            let (head, body) = text.split_once("\n\n").expect("a body");
            let mut headers: Vec<String> = Vec::new();
            for line in head.lines() {
                prop_assert!(line.len() <= 998);
                match line.strip_prefix(' ') {
                    Some(_) => headers.last_mut().expect("a header").push_str(&format!("\n{line}")),
                    None => headers.push(line.to_string()),
                }
            }
            prop_assert_eq!(headers.len(), 11, "{}", head);
            prop_assert!(body.lines().all(|line| line.len() <= 998));
            let is_plain = !text.contains(['\r', '\0', '\u{1b}']);
            prop_assert!(is_plain, "{text}");
            let said = headers.iter().find(|it| it.starts_with("Subject: ")).expect("a subject");
            prop_assert!(head.is_ascii());
            prop_assert_eq!(decoded(said), subject(&events[0], 2));
        }
    }

    #[test]
    fn it_says_what_it_is_what_to_do_and_where_to_look() {
        let began = example(Happened::Began, "flock waits for a lock on /tmp/x", "/tmp/x");
        let text = compose(&settings("x", 6), &[&began], 0, None);
        for part in [
            "\nSubject: [web-1] CRITICAL flock waits for a lock on /tmp/x\n",
            "\nFrom: holdup@example.org\n",
            "\nTo: ops@example.org, root\n",
            "\nContent-Transfer-Encoding: 7bit\n",
            "\nLet sleep 4711 end, or end it.\n    kill 4711\n",
            "    sudo holdup --from ring:2026-11-2",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let ended = example(Happened::Ended, "flock waits for a lock on /tmp/x", "/tmp/x");
        let ended = compose(&settings("x", 6), &[&ended], 0, None);
        assert!(ended.contains("Subject: [web-1] ended: flock"), "{ended}");
        assert!(!ended.contains("kill 4711"), "nothing is to be done any more");
        let references =
            |text: &str| text.lines().find(|it| it.starts_with("References")).map(str::to_string);
        assert!(references(&text).is_some());
        assert_eq!(references(&text), references(&ended), "one thread");
    }

    #[test]
    fn a_single_piece_of_news_is_a_mail_of_its_own() {
        let to = MailAddress::try_from("root".to_string()).expect("an address");
        let text = letter(&to, "make\nBcc: x\n is not done", "why:\n\n  \u{1b}[2Jit waits");
        let (head, body) = text.split_once("\n\n").expect("a body");
        assert_eq!(head.lines().count(), 7, "{head}");
        assert!(head.contains("\nTo: root\nSubject: make") && !head.contains("\nBcc"), "{head}");
        assert!(body.starts_with("why:\n\n  ") && !body.contains('\u{1b}'), "{body}");
    }

    #[test]
    fn beyond_the_allowance_events_share_the_next_mail_which_says_so() {
        let mut mail = Mail::new(settings("/usr/bin/true", 1));
        let event = |number: usize| {
            let title = format!("a{number} waits");
            Work::Event(Arc::new(example(Happened::Began, &title, "/x")))
        };
        assert!(matches!(mail.take(&event(0)), Ok(Taken::Held)));
        assert!(mail.due().is_some());
        assert!(matches!(mail.flush(), Ok(Taken::Sent)));
        assert!(mail.due().is_none());
        for number in 0..LINES_MAX + 5 {
            assert!(matches!(mail.take(&event(number)), Ok(Taken::Held)));
        }
        assert!(matches!(mail.flush(), Ok(Taken::Held)), "one an hour");
        assert!(mail.due().is_some_and(|at| at > Instant::now() + HOUR / 2));
        let pending: Vec<&Message> = mail.pending.iter().map(|it| &**it).collect();
        let text = compose(&mail.settings, &pending, mail.more, Some(1));
        assert!(text.contains("(and 54 more)"), "{text}");
        assert!(text.contains("And 5 more"), "{text}");
        assert!(text.contains("no more than 1 mails an hour"), "{text}");
    }

    #[test]
    fn what_sendmail_refuses_is_tried_again() {
        let mut mail = Mail::new(settings("/usr/bin/false", 6));
        let event = Work::Event(Arc::new(example(Happened::Began, "a waits", "/x")));
        assert!(matches!(mail.take(&event), Ok(Taken::Held)));
        let Err(Failed::Again(why)) = mail.flush() else { panic!("it fails") };
        assert_eq!(why, "/usr/bin/false failed: exit status: 1");
        assert_eq!(mail.pending.len(), 1);
        assert!(mail.due().is_some());
    }
}
