//! The kernel's log over the window: opened at the begin, read once at the end, and never waited for.
//!
//! Each open file of /dev/kmsg has its own place in the log, so nobody else's reading is disturbed. It is set behind the last
//! record when the first window begins (of what was logged since its programs were loaded, faults in those stay); what is there at the end is the window's. A window that follows another takes over the open
//! file where that one left it: what was logged while one was closed and the other opened is in it. One read gives one record. Of each kind and
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
use crate::readers::reader::{Opening, Reader};
use crate::system::blind;
use faults::Faults;
use holdup_reason::facts::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
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
    file: Option<File>,
    /// It stands where the window before was closed.
    goes_on: bool,
    /// What the attaching of the own programs has done, before the window.
    faults: Vec<Fact>,
}

impl Reader for KernelLog {
    fn open(_: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        if let file @ Some(_) = opening.kernel_log.take() {
            return Ok(Self { file, goes_on: true, faults: Vec::new() });
        }
        let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let log = open.map_err(|error| {
            let therefore = "what the kernel logged in the window is not seen";
            opening.put(Body::Blind(blind("kernel_log", &error, therefore)));
        });
        let mut opened = Self { file: log.ok(), goes_on: false, faults: Vec::new() };
        opened.skip_earlier();
        Ok(opened)
    }

    /// What was logged before is left out, but what the own programs did as they were attached.
    fn begin(&mut self, look: &mut Look) -> Result<(), SourceError> {
        if let Some(log) = self.file.as_mut().filter(|_| !self.goes_on) {
            let begin_ns = look.window.begin_ns;
            self.faults = excerpt_beside(log, (begin_ns, begin_ns), own_tags(look));
            self.faults.retain(|fact| {
                matches!(&fact.body, Body::KernelLog(line) if line.kind == KernelLogKind::OwnFault)
            });
        }
        self.skip_earlier();
        Ok(())
    }

    /// What was logged since, with its time cut to the window.
    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        if let Some(log) = &mut self.file {
            facts.append(&mut self.faults);
            let times = (look.window.begin_ns, look.last.end_ns);
            facts.extend(excerpt_beside(log, times, own_tags(look)));
        }
        if look.goes_on {
            look.kernel_log = self.file.take();
        }
        Ok(())
    }
}

impl KernelLog {
    fn skip_earlier(&mut self) {
        if let Some(log) = self.file.as_mut().filter(|_| !self.goes_on) {
            // A log that cannot be asked for its end cannot be read either: nothing of it is reported then.
            let _ = log.seek(SeekFrom::End(0));
        }
    }
}

fn own_tags(look: &Look) -> BTreeSet<[u8; 8]> {
    look.programs.as_ref().map_or_else(BTreeSet::new, Programs::tags)
}

/// What is reported of a log that gives one record a reading.
pub fn excerpt(log: &mut impl Read, begin_ns: Ns, end_ns: Ns) -> Vec<Fact> {
    excerpt_beside(log, (begin_ns, end_ns), BTreeSet::new())
}

/// The same beside kernel programs of the own that have these tags.
fn excerpt_beside(
    log: &mut impl Read,
    (begin_ns, end_ns): (Ns, Ns),
    own: BTreeSet<[u8; 8]>,
) -> Vec<Fact> {
    let mut excerpt = Excerpt { faults: Faults::of(own), ..Excerpt::default() };
    let unread = each_record(log, |record| excerpt.take(record));
    excerpt.missed = excerpt.missed.saturating_add(unread);
    excerpt.facts(begin_ns, end_ns)
}

/// Gives each record to `take`, until there is none. A record that was overwritten before it was read is skipped.
fn each_record(log: &mut impl Read, mut take: impl FnMut(&records::Record<'_>)) -> u64 {
    let mut buffer = [0; RECORD_BYTES];
    let mut missed = 0;
    for _ in 0..RECORDS_MAX {
        match log.read(&mut buffer) {
            Ok(0) => return missed,
            Ok(bytes) => {
                if let Some(record) = records::parse(&buffer[..bytes]) {
                    take(&record);
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => missed += 1,
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
    fn take(&mut self, record: &records::Record<'_>) {
        if let Some(report) = self.oom.take(record.text) {
            self.report(record.at_ns, report);
        }
        let own_fault =
            self.faults.take(record.text).map(|program| lines::own_fault(record, program));
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
        let missed = each_record(&mut log, |record| excerpt.take(record));
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
            let file = File::open(&path).ok();
            let mut log = KernelLog { file, goes_on, faults: Vec::new() };
            log.skip_earlier();
            lines(&excerpt(&mut log.file.expect("it is there"), 2_000, 9_000)).len()
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
            let facts = excerpt_beside(&mut log, (2_000, 9_000), [own].into());
            let lines = lines(&facts).into_iter();
            let own = lines.filter(|it| it.kind == KernelLogKind::OwnFault);
            own.map(|it| it.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(stays([0, 0, 0, 0, 0, 0, 0, 7]), ["on_switch"]);
        assert!(stays([0; 8]).is_empty(), "another's");
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
