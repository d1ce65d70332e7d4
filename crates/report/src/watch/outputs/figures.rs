//! Figures over all windows since the start, as Prometheus' text format 0.0.4 has them.
//!
//! Names, units and labels go by Prometheus' rules: base units, `_total` of what only grows, labels from closed lists, so never a process, a
//! path or an object. How many series there may be is a constant, and what was left out is a figure itself.
//!
//! Rejected: prometheus-client (it writes OpenMetrics, whose counters have another name in `# TYPE` than in their samples: node_exporter's
//! textfile collector reads 0.0.4 alone and takes them for untyped).

use super::message::{severity, word};
use holdup_engine::over_time::{Happened, Said};
use holdup_reason::answer::{EndKind, Report, Severity};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Series of one metric at most. There are a hundred codes of findings, of which few are open at once.
const SERIES_MAX: usize = 100;

/// See the head of the file.
#[derive(Debug, Default)]
pub(in super::super) struct Figures {
    windows: u64,
    left_out: u64,
    looked_seconds: f64,
    lost_seconds: BTreeMap<&'static str, f64>,
    wait_seconds: BTreeMap<String, f64>,
    events: BTreeMap<&'static str, u64>,
    kernel_events: u64,
    kernel_events_lost: u64,
    process_seconds: f64,
    /// None until it was measured.
    program_seconds: Option<f64>,
    resident_bytes: u64,
    last_unix_ns: u64,
}

/// What is so at this moment.
pub(in super::super) struct Now<'a> {
    /// What is open.
    pub open: Vec<&'a Said>,
    /// Recordings in memory, bytes.
    pub memory_bytes: u64,
    /// Recordings in the ring, bytes.
    pub ring_bytes: u64,
    /// Pieces that the disk did not take.
    pub unwritten: u64,
    /// Of each output: whether it fails, and what it lost.
    pub outputs: Vec<(&'static str, bool, u64)>,
}

impl Figures {
    /// Takes the answer of a window.
    pub(in super::super) fn window(&mut self, report: &Report) {
        self.windows += 1;
        self.looked_seconds += report.window.seconds;
        self.last_unix_ns = report.window.begin_unix_ns + (report.window.seconds * 1e9) as u64;
        for end in &report.answer.ends {
            if let Some(word) = lost_to(end.end) {
                *self.lost_seconds.entry(word).or_default() += end.seconds;
            }
        }
        for part in &report.accounting.parts {
            if part.class != "running" && part.class != "idle" {
                *self.wait_seconds.entry(part.class.clone()).or_default() += part.seconds;
            }
        }
        let cost = &report.cost;
        self.kernel_events += cost.events;
        self.kernel_events_lost += cost.events_lost;
        self.process_seconds += cost.cpu_seconds;
        if let Some(seconds) = cost.bpf_seconds {
            *self.program_seconds.get_or_insert(0.0) += seconds;
        }
        self.resident_bytes = cost.rss_bytes;
    }

    /// Windows that nobody looked at, to stay within the budget.
    pub(in super::super) fn left_out(&mut self, windows: u64) {
        self.left_out += windows;
    }

    /// Takes an event.
    pub(in super::super) fn event(&mut self, event: Happened) {
        *self.events.entry(word(event)).or_default() += 1;
    }

    /// All of it.
    pub(in super::super) fn text(&self, now: &Now<'_>) -> String {
        let mut page = Page::default();
        let version = [("version", env!("CARGO_PKG_VERSION").to_string())];
        page.put("holdup_build_info", "gauge", "Version of holdup; always 1.", &[(&version, 1.0)]);
        self.losses(&mut page);
        findings(&mut page, now);
        let events =
            [Happened::Began, Happened::Changed, Happened::Ended, Happened::Flapping].map(|it| {
                let count = self.events.get(word(it)).copied().unwrap_or(0);
                ([("event", word(it).to_string())], count as f64)
            });
        page.labelled("holdup_events_total", "counter", "Events of findings.", &events);
        self.looking(&mut page, now);
        outputs(&mut page, now);
        let left_out = page.left_out as f64;
        page.plain(
            "holdup_series_left_out",
            "gauge",
            "Series that a metric had no room for.",
            left_out,
        );
        page.text
    }

    fn losses(&self, page: &mut Page) {
        let lost = LOST.map(|kind| {
            let word = lost_to(kind).unwrap_or_default();
            ([("end", word.to_string())], self.lost_seconds.get(word).copied().unwrap_or(0.0))
        });
        page.labelled(
            "holdup_lost_seconds_total",
            "counter",
            "Time that threads lost, by the kind of what they waited for in the end.",
            &lost,
        );
        let waits: Vec<_> = self
            .wait_seconds
            .iter()
            .map(|(class, seconds)| ([("class", class.clone())], *seconds))
            .collect();
        page.labelled(
            "holdup_wait_seconds_total",
            "counter",
            "Time that threads waited though they had something to do, by the class of wait.",
            &waits,
        );
    }

    fn looking(&self, page: &mut Page, now: &Now<'_>) {
        let counters = [
            ("holdup_windows_total", "Windows that were looked at.", self.windows as f64),
            ("holdup_looked_seconds_total", "Their length.", self.looked_seconds),
            (
                "holdup_windows_left_out_total",
                "Windows that were not looked at, to stay within the budget.",
                self.left_out as f64,
            ),
            ("holdup_kernel_events_total", "Events of the kernel.", self.kernel_events as f64),
            (
                "holdup_kernel_events_lost_total",
                "Events of the kernel for which there was no room.",
                self.kernel_events_lost as f64,
            ),
            (
                "holdup_writes_lost_total",
                "Recordings, findings and states that the disk did not take.",
                now.unwritten as f64,
            ),
        ];
        for (name, help, value) in counters {
            page.plain(name, "counter", help, value);
        }
        let programs = self.program_seconds.map(|seconds| ("kernel_programs", seconds));
        let own = [Some(("process", self.process_seconds)), programs].into_iter().flatten();
        let own: Vec<_> =
            own.map(|(part, seconds)| ([("part", part.to_string())], seconds)).collect();
        page.labelled("holdup_cpu_seconds_total", "counter", "CPU time that looking took.", &own);
        let gauges = [
            (
                "holdup_resident_memory_max_bytes",
                "Most memory that was resident at once.",
                self.resident_bytes as f64,
            ),
            ("holdup_memory_bytes", "Recordings in memory.", now.memory_bytes as f64),
            ("holdup_ring_bytes", "Recordings in the ring.", now.ring_bytes as f64),
            (
                "holdup_last_window_timestamp_seconds",
                "When the last window ended, since 1970.",
                self.last_unix_ns as f64 / 1e9,
            ),
        ];
        for (name, help, value) in gauges {
            page.plain(name, "gauge", help, value);
        }
    }
}

fn findings(page: &mut Page, now: &Now<'_>) {
    let mut open: BTreeMap<(std::cmp::Reverse<Severity>, &str), f64> = BTreeMap::new();
    for said in &now.open {
        *open.entry((std::cmp::Reverse(said.severity), &said.code)).or_default() += 1.0;
    }
    // The worst first: where there is no room, they have it.
    let samples: Vec<_> = open
        .iter()
        .map(|((worst, code), count)| {
            ([("code", code.to_string()), ("severity", severity(worst.0).to_string())], *count)
        })
        .collect();
    page.labelled(
        "holdup_findings",
        "gauge",
        "Findings that are open, by code and severity.",
        &samples,
    );
    page.plain("holdup_findings_open", "gauge", "Findings that are open.", now.open.len() as f64);
}

fn outputs(page: &mut Page, now: &Now<'_>) {
    let of = |value: fn(bool, u64) -> f64| {
        let one = |(name, failing, lost): &(&'static str, bool, u64)| {
            ([("output", (*name).to_string())], value(*failing, *lost))
        };
        now.outputs.iter().map(one).collect::<Vec<_>>()
    };
    page.labelled(
        "holdup_output_failing",
        "gauge",
        "Whether an output fails.",
        &of(|failing, _| f64::from(u8::from(failing))),
    );
    page.labelled(
        "holdup_output_lost_total",
        "counter",
        "What did not reach an output.",
        &of(|_, lost| lost as f64),
    );
}

/// Kinds of ends that somebody loses time to.
const LOST: [EndKind; 10] = [
    EndKind::Cpu,
    EndKind::Device,
    EndKind::Memory,
    EndKind::Link,
    EndKind::Remote,
    EndKind::Lock,
    EndKind::Sleep,
    EndKind::Limit,
    EndKind::Person,
    EndKind::Open,
];

/// As in the JSON; none of what is no loss.
fn lost_to(end: EndKind) -> Option<&'static str> {
    Some(match end {
        EndKind::Works | EndKind::Idle => return None,
        EndKind::Cpu => "cpu",
        EndKind::Device => "device",
        EndKind::Memory => "memory",
        EndKind::Link => "link",
        EndKind::Remote => "remote",
        EndKind::Lock => "lock",
        EndKind::Sleep => "sleep",
        EndKind::Limit => "limit",
        EndKind::Person => "person",
        EndKind::Open => "open",
    })
}

type Label = (&'static str, String);

#[derive(Default)]
struct Page {
    text: String,
    left_out: usize,
}

impl Page {
    fn plain(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.put(name, kind, help, &[(&[], value)]);
    }

    fn labelled<const N: usize>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: &[([Label; N], f64)],
    ) {
        let samples: Vec<(&[Label], f64)> =
            samples.iter().map(|(labels, value)| (labels.as_slice(), *value)).collect();
        self.put(name, kind, help, &samples);
    }

    fn put(&mut self, name: &str, kind: &str, help: &str, samples: &[(&[Label], f64)]) {
        self.left_out += samples.len().saturating_sub(SERIES_MAX);
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples.iter().take(SERIES_MAX) {
            let labels: Vec<String> =
                labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let labels = match labels.as_slice() {
                [] => String::new(),
                some => format!("{{{}}}", some.join(",")),
            };
            let _ = writeln!(self.text, "{name}{labels} {value}");
        }
    }
}

/// A value of a label as it stands between quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::message::example;
    use super::*;
    use proptest::prelude::*;

    fn report() -> Report {
        serde_json::from_str(include_str!("../../../tests/reports/file_lock.json"))
            .expect("a report")
    }

    fn now(open: Vec<&Said>) -> Now<'_> {
        let outputs = vec![("mail", true, 3)];
        Now { open, memory_bytes: 5, ring_bytes: 7, unwritten: 0, outputs }
    }

    #[test]
    fn what_windows_say_is_added_up() {
        let mut figures = Figures::default();
        figures.window(&report());
        figures.window(&report());
        figures.left_out(4);
        figures.event(Happened::Began);
        let said = example(Happened::Began, "a waits", "/x").event.said;
        let text = figures.text(&now(vec![&said, &said]));
        for line in [
            "holdup_windows_total 2",
            "holdup_windows_left_out_total 4",
            "holdup_wait_seconds_total{class=\"file_lock\"} 49.22",
            "holdup_lost_seconds_total{end=\"lock\"} 0",
            "holdup_findings{code=\"lock.file\",severity=\"critical\"} 2",
            "holdup_findings_open 2",
            "holdup_events_total{event=\"began\"} 1",
            "holdup_events_total{event=\"ended\"} 0",
            "holdup_cpu_seconds_total{part=\"process\"} 0.062",
            "holdup_ring_bytes 7",
            "holdup_output_failing{output=\"mail\"} 1",
            "holdup_output_lost_total{output=\"mail\"} 3",
            "holdup_series_left_out 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        // Neither a process nor a path is a label.
        assert!(!text.contains("/x") && !text.contains("4711"), "{text}");
    }

    #[test]
    fn there_is_a_bound_and_what_it_leaves_out_is_counted() {
        let one = example(Happened::Began, "a waits", "/x").event.said;
        let many: Vec<Said> = (0..SERIES_MAX + 20)
            .map(|number| Said {
                code: format!("a.{number}"),
                severity: if number == SERIES_MAX { Severity::Critical } else { Severity::Warning },
                ..one.clone()
            })
            .collect();
        let text = Figures::default().text(&now(many.iter().collect()));
        let series = text.lines().filter(|it| it.starts_with("holdup_findings{")).count();
        assert_eq!(series, SERIES_MAX);
        assert!(text.contains("holdup_series_left_out 20\n"), "{text}");
        assert!(text.contains(&format!("code=\"a.{SERIES_MAX}\"")), "the worst has room");
    }

    proptest! {
        #[test]
        fn no_value_leaves_its_quotes(value in "(?s).{0,40}|[\"\\\\\n]{0,20}") {
            let mut page = Page::default();
            page.put("a", "gauge", "b", &[(&[("c", value.clone())], 1.0)]);
            let line = page.text.lines().nth(2).expect("a sample");
            prop_assert_eq!(page.text.matches('\n').count(), 3);
            let inside = line.strip_prefix("a{c=\"").and_then(|it| it.strip_suffix("\"} 1"));
            let mut signs = inside.expect("quotes").chars();
            let mut read = String::new();
            while let Some(sign) = signs.next() {
                prop_assert!(sign != '"');
                read.push(match (sign, sign == '\\') {
                    (_, true) => match signs.next() { Some('n') => '\n', Some(other) => other, None => panic!("half") },
                    (sign, false) => sign,
                });
            }
            prop_assert_eq!(read, value);
        }
    }
}
