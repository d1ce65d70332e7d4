//! The kernel's log over the window: opened at the begin, read once at the end, and never waited for.
//!
//! Each open file of /dev/kmsg has its own place in the log, so nobody else's reading is disturbed. It is set behind the last
//! record when the first window begins (of what was logged since its programs were loaded, faults in those stay); what is there at the end is the window's. A window that follows another takes over the open
//! file where that one left it, also in the middle of a report (open_log.rs): what was logged while one was closed and the other opened is in it. One read gives one record. Of each kind and
//! name a few lines are kept and the others counted: a failing disk prints thousands.
//!
//! Must not: block (a log without news waits for ever), print, or take a line that a process wrote for the kernel's
//! (records.rs). Rejected: syslog(2), which gives the whole log without numbers; the journal, which may be the one that hangs.

mod faults;
mod lines;
mod oom;
mod records;

use crate::SourceError;
use crate::kernel::Programs;
use crate::readers::look::Look;
use crate::readers::open_log::OpenLog;
use crate::readers::reader::{Opening, Reader};
use crate::system::blind;
use faults::Faults;
use holdup_reason::facts::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Longest record that the kernel gives (PRINTK_MESSAGE_MAX), and some room; a shorter buffer is refused.
const RECORD_BYTES: usize = 8192;
/// Records that are read; the largest log has room for about as many.
const RECORDS_MAX: usize = 20_000;
/// Lines of one kind and name that are kept.
const EACH_MAX: usize = 4;
/// Kinds and names that are kept.
const SUBJECTS_MAX: usize = 32;
/// Kills that are reported in full.
const REPORTS_MAX: usize = 64;

/// The log from the begin of a window on.
pub struct KernelLog {
    /// None where it cannot be opened.
    log: Option<OpenLog>,
    /// It stands where the window before was closed.
    goes_on: bool,
    /// What the attaching of the own programs has done, before the window.
    faults: Vec<Fact>,
}

impl Reader for KernelLog {
    fn open(_: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        if let log @ Some(_) = opening.kernel_log.take() {
            return Ok(Self { log, goes_on: true, faults: Vec::new() });
        }
        let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let log = open.map_err(|error| {
            let therefore = "what the kernel logged in the window is not seen";
            opening.put(Body::Blind(blind("kernel_log", &error, therefore)));
        });
        let mut opened =
            Self { log: log.ok().map(OpenLog::unread), goes_on: false, faults: Vec::new() };
        opened.skip_earlier();
        Ok(opened)
    }

    /// What was logged before is left out, but what the own programs did as they were attached.
    fn begin(&mut self, look: &mut Look) -> Result<(), SourceError> {
        if let Some(log) = self.log.as_mut().filter(|_| !self.goes_on) {
            let begin_ns = look.window.begin_ns;
            self.faults = since_last(log, (begin_ns, begin_ns), own_tags(look));
            self.faults.retain(|fact| {
                matches!(&fact.body, Body::KernelLog(line) if line.kind == KernelLogKind::OwnFault)
            });
        }
        Ok(())
    }

    /// What was logged since, with its time cut to the window.
    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        if let Some(log) = &mut self.log {
            facts.append(&mut self.faults);
            let times = (look.window.begin_ns, look.last.end_ns);
            facts.extend(since_last(log, times, own_tags(look)));
        }
        if look.goes_on {
            look.kernel_log = self.log.take();
        }
        Ok(())
    }
}

impl KernelLog {
    fn skip_earlier(&mut self) {
        if let Some(log) = self.log.as_mut().filter(|_| !self.goes_on) {
            // A log that cannot be asked for its end cannot be read either: nothing of it is reported then.
            let _ = log.file.seek(SeekFrom::End(0));
        }
    }
}

fn own_tags(look: &Look) -> BTreeSet<[u8; 8]> {
    look.programs.as_ref().map_or_else(BTreeSet::new, Programs::tags)
}

/// What is reported of a log that gives one record a reading.
pub fn excerpt(log: &mut impl Read, begin_ns: Ns, end_ns: Ns) -> Vec<Fact> {
    excerpt_beside(log, (begin_ns, end_ns), &mut Faults::default())
}

/// What came since the last reading, beside kernel programs of the own that have these tags.
fn since_last(log: &mut OpenLog, times: (Ns, Ns), own: BTreeSet<[u8; 8]>) -> Vec<Fact> {
    let mut faults = Faults::of(own, log.report_begun_ns);
    let facts = excerpt_beside(&mut log.file, times, &mut faults);
    log.report_begun_ns = faults.begun_ns();
    facts
}

/// The same with reports of faults, which may have begun in the reading before.
fn excerpt_beside(
    log: &mut impl Read,
    (begin_ns, end_ns): (Ns, Ns),
    faults: &mut Faults,
) -> Vec<Fact> {
    let mut excerpt = Excerpt { faults: std::mem::take(faults), ..Excerpt::default() };
    let unread = each_record(log, |record| excerpt.take_or_miss(record));
    excerpt.missed = excerpt.missed.saturating_add(unread);
    *faults = std::mem::take(&mut excerpt.faults);
    excerpt.facts(begin_ns, end_ns)
}

/// Gives each record to `take`, until there is none. Where records were overwritten before they were read, it is given none.
fn each_record(log: &mut impl Read, mut take: impl FnMut(Option<&records::Record<'_>>)) -> u64 {
    let mut buffer = [0; RECORD_BYTES];
    let mut missed = 0;
    for _ in 0..RECORDS_MAX {
        match log.read(&mut buffer) {
            Ok(0) => return missed,
            Ok(bytes) => {
                if let Some(record) = records::parse(&buffer[..bytes]) {
                    take(Some(&record));
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {
                missed += 1;
                take(None);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return missed,
        }
    }
    missed
}

/// What is reported of a log.
#[derive(Default)]
struct Excerpt {
    lines: BTreeMap<(KernelLogKind, String), Vec<(Ns, KernelLogLine)>>,
    reports: Vec<(Ns, OomReport)>,
    oom: oom::Reading,
    faults: Faults,
    /// Places in the log that were overwritten before they were read, or lines for which there was no room.
    missed: u64,
}

impl Excerpt {
    fn take_or_miss(&mut self, record: Option<&records::Record<'_>>) {
        match record {
            Some(record) => self.take(record),
            None => self.faults.forget(),
        }
    }

    fn take(&mut self, record: &records::Record<'_>) {
        if let Some(report) = self.oom.take(record.text) {
            self.report(record.at_ns, report);
        }
        let program = self.faults.take(record.at_ns, record.text);
        let own_fault = program.map(|program| lines::own_fault(record, program));
        let Some(line) = own_fault.or_else(|| lines::line(record)) else { return };
        let key = (line.kind, line.name.clone());
        let is_full = self.lines.len() >= SUBJECTS_MAX && line.kind != KernelLogKind::OwnFault;
        if is_full && !self.lines.contains_key(&key) {
            self.missed += 1;
            return;
        }
        let of_kind = self.lines.entry(key).or_default();
        if of_kind.len() < EACH_MAX {
            of_kind.push((record.at_ns, line));
        } else if let Some((_, last)) = of_kind.last_mut() {
            last.unreported += 1;
        }
    }

    /// Of many kills the kernel prints few in full, and those say more than the others.
    fn report(&mut self, at_ns: Ns, report: OomReport) {
        let is_short = |(_, known): &(Ns, OomReport)| known.tasks.is_empty();
        if self.reports.len() < REPORTS_MAX {
            self.reports.push((at_ns, report));
        } else if !report.tasks.is_empty()
            && let Some(place) = self.reports.iter().rposition(is_short)
        {
            self.reports.remove(place);
            self.reports.push((at_ns, report));
        }
    }

    fn facts(self, begin_ns: Ns, end_ns: Ns) -> Vec<Fact> {
        let at = |at_ns: Ns| at_ns.clamp(begin_ns, end_ns.max(begin_ns));
        let mut facts: Vec<Fact> = (self.lines.into_values().flatten())
            .map(|(at_ns, line)| Fact { at_ns: at(at_ns), body: Body::KernelLog(line) })
            .collect();
        facts.sort_by_key(|fact| fact.at_ns);
        let reports = self.reports.into_iter();
        facts.extend(
            reports.map(|(at_ns, it)| Fact { at_ns: at(at_ns), body: Body::OomReport(it) }),
        );
        if self.missed > 0 {
            let why = format!("{} lines came too fast to be kept", self.missed);
            let therefore = "some lines of the kernel's log are not seen".into();
            let blind = Blind { what: "kernel_log".into(), why, therefore, ..Blind::default() };
            facts.push(Fact { at_ns: end_ns, body: Body::Blind(blind) });
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A log that gives one record a reading, as /dev/kmsg does.
    struct Log(Vec<io::Result<String>>);

    impl Read for Log {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let record = self.0.remove(0)?;
            buffer[..record.len()].copy_from_slice(record.as_bytes());
            Ok(record.len())
        }
    }

    fn of(records: impl IntoIterator<Item = String>) -> Vec<Fact> {
        let mut log = Log(records.into_iter().map(Ok).collect());
        log.0.insert(0, Err(io::Error::from_raw_os_error(libc::EPIPE)));
        let mut excerpt = Excerpt::default();
        let missed = each_record(&mut log, |record| excerpt.take_or_miss(record));
        assert_eq!(missed, 1, "one was overwritten");
        excerpt.facts(2_000, 9_000_000)
    }

    fn lines(facts: &[Fact]) -> Vec<&KernelLogLine> {
        let all = facts.iter().filter_map(|fact| match &fact.body {
            Body::KernelLog(line) => Some(line),
            _ => None,
        });
        all.collect()
    }

    #[test]
    fn a_flood_is_counted_and_its_time_is_cut_to_the_window() {
        let error = |at: u64| format!("3,{at},{at},-;I/O error, dev sda, sector {at}\n");
        let facts = of((0..10_000).map(error));
        let lines = lines(&facts);
        assert_eq!(
            (lines.len(), lines[EACH_MAX - 1].unreported),
            (EACH_MAX, 10_000 - EACH_MAX as u64)
        );
        assert_eq!(facts[0].at_ns, 2_000);
    }

    #[test]
    fn many_names_do_not_fill_the_memory() {
        let error = |at: u64| format!("3,{at},5,-;I/O error, dev d{at}, sector 1\n");
        let facts = of((0..10_000).map(error));
        assert_eq!(lines(&facts).len(), SUBJECTS_MAX);
        let blind = facts.iter().find_map(|fact| match &fact.body {
            Body::Blind(blind) => Some(blind.why.as_str()),
            _ => None,
        });
        assert_eq!(blind, Some("9968 lines came too fast to be kept"));
    }

    #[test]
    fn what_is_logged_between_two_windows_is_in_the_second() {
        let path = std::env::temp_dir().join(format!("holdup-kmsg-{}", std::process::id()));
        std::fs::write(&path, "3,1,5,-;I/O error, dev sda, sector 1\n").expect("a file");
        let logged = |goes_on| {
            let log = File::open(&path).ok().map(OpenLog::unread);
            let mut log = KernelLog { log, goes_on, faults: Vec::new() };
            log.skip_earlier();
            lines(&excerpt(&mut log.log.expect("it is there").file, 2_000, 9_000)).len()
        };
        assert_eq!((logged(false), logged(true)), (0, 1));
        drop(std::fs::remove_file(&path));
    }

    #[test]
    fn a_fault_of_an_own_program_is_kept_among_thousands_of_lines() {
        let error = |at: u64| format!("3,{at},5,-;I/O error, dev d{at}, sector 1\n");
        let begin = "1,1,5,-;BUG: unable to handle page fault for address: 58\n".to_owned();
        let at = "4,2,5,-;RIP: 0010:bpf_prog_0000000000000007_on_switch+0x1/0x2\n".to_owned();
        let stays = |own: [u8; 8]| {
            let records = (0..1000).map(error).chain([begin.clone(), at.clone()]);
            let mut log = Log(records.map(Ok).collect());
            let mut faults = Faults::of([own].into(), None);
            let facts = excerpt_beside(&mut log, (2_000, 9_000), &mut faults);
            let lines = lines(&facts).into_iter();
            let own = lines.filter(|it| it.kind == KernelLogKind::OwnFault);
            own.map(|it| it.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(stays([0, 0, 0, 0, 0, 0, 0, 7]), ["on_switch"]);
        assert!(stays([0; 8]).is_empty(), "another's");
    }

    #[test]
    fn a_report_that_two_readings_share_is_one() {
        let own = || BTreeSet::from([[0, 0, 0, 0, 0, 0, 0, 7]]);
        let rip = "4,2,5,-;RIP: 0010:bpf_prog_0000000000000007_on_switch+0x1/0x2\n";
        let second_finds = |first: &str| {
            let mut faults = Faults::of(own(), None);
            for line in [first, rip] {
                let mut log = Log(vec![Ok(line.to_owned())]);
                faults = Faults::of(own(), faults.begun_ns());
                let facts = excerpt_beside(&mut log, (2_000, 9_000), &mut faults);
                if line == rip {
                    return lines(&facts).iter().any(|it| it.kind == KernelLogKind::OwnFault);
                }
            }
            false
        };
        assert!(second_finds("3,1,5,-;BUG: unable to handle page fault for address: 58\n"));
        assert!(!second_finds("4,1,5,-;NMI backtrace for cpu 1\n"));
    }

    #[test]
    fn a_report_whose_rest_was_overwritten_is_not_gone_on_with() {
        let begin = "3,1,5,-;BUG: unable to handle page fault for address: 58\n";
        let rip = "4,2,5,-;RIP: 0010:bpf_prog_0000000000000007_on_switch+0x1/0x2\n";
        let finds = |between: Option<i32>| {
            let mut log = Log(vec![Ok(begin.to_owned()), Ok(rip.to_owned())]);
            if let Some(code) = between {
                log.0.insert(1, Err(io::Error::from_raw_os_error(code)));
            }
            let mut faults = Faults::of([[0, 0, 0, 0, 0, 0, 0, 7]].into(), None);
            let facts = excerpt_beside(&mut log, (2_000, 9_000), &mut faults);
            lines(&facts).iter().any(|it| it.kind == KernelLogKind::OwnFault)
        };
        assert!(finds(None));
        assert!(finds(Some(libc::EINTR)), "nothing is missing");
        assert!(!finds(Some(libc::EPIPE)), "the line may be another report's");
    }

    #[test]
    fn a_kill_in_full_is_kept_among_many() {
        let killed = |pid: u64| {
            format!(
                "3,{pid},5,-;Memory cgroup out of memory: Killed process {pid} (a) total-vm:9kB, anon-rss:8kB\n"
            )
        };
        let table = "6,1,5,-;[  pid  ]   uid  tgid total_vm      rss name\n";
        let task = "6,1,5,-;[  7]   0  7 9      8 a\n";
        let facts = of((100..200).map(killed).chain([table.into(), task.into(), killed(7)]));
        let full =
            facts.iter().any(|fact| matches!(&fact.body, Body::OomReport(it) if it.pid == 7));
        assert!(full);
    }
}
