//! Lines of the kernel's log beside the finding that they belong to; the others stand by themselves.
//!
//! A line belongs where it names what the finding is about: the process, the disk, the interface, the group, the port. It is
//! evidence that people know how to read, and decides nothing: no rule asks for it, because the kernel limits its rate and
//! leaves lines out. Must not: give a line to a finding of the same area that is about something else.
//!
//! Edit together: docs/json.md, report's text/finding.rs.

use super::report::{Finding, LogLine, OwnFault};
use crate::facts::{KernelLogKind, KernelLogLine, Ns};
use crate::model::Model;

/// Gives each finding its lines, and returns those that belong to none.
pub(super) fn attach(model: &Model, findings: &mut [Finding]) -> Vec<LogLine> {
    let mut rest = Vec::new();
    for (at_ns, line) in &model.look.kernel_log {
        let reported = log_line(model, *at_ns, line);
        match findings.iter_mut().find(|finding| belongs(model, line, finding)) {
            Some(finding) => finding.kernel_log.push(reported),
            None => rest.push(reported),
        }
    }
    rest
}

/// The first fault that the kernel met in a kernel program of holdup's own, if there was one.
pub(super) fn own_fault(model: &Model) -> Option<OwnFault> {
    let mut lines = model.look.kernel_log.iter();
    let (_, line) = lines.find(|(_, line)| line.kind == KernelLogKind::OwnFault)?;
    Some(OwnFault {
        program: line.name.clone(),
        kernel: model.look.host.kernel.clone(),
        log: line.text.clone(),
    })
}

fn log_line(model: &Model, at_ns: Ns, line: &KernelLogLine) -> LogLine {
    const LEVELS: [&str; 8] =
        ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];
    LogLine {
        seconds: at_ns.saturating_sub(model.look.begin_ns) as f64 / 1e9,
        level: LEVELS.get(usize::from(line.level)).copied().unwrap_or_default().into(),
        text: line.text.clone(),
        more: line.unreported,
    }
}

fn belongs(model: &Model, line: &KernelLogLine, finding: &Finding) -> bool {
    let code = finding.code.as_str();
    match line.kind {
        KernelLogKind::OutOfMemory => {
            code.starts_with("memory.") && is_of(model, line.tid, finding)
        }
        KernelLogKind::HungTask | KernelLogKind::Stall | KernelLogKind::Crash => {
            is_of(model, line.tid, finding)
        }
        KernelLogKind::IoError | KernelLogKind::FileSystem => {
            texts(finding).any(|text| is_part_of(&line.name, text))
        }
        KernelLogKind::Link | KernelLogKind::FileServer => {
            texts(finding).any(|text| has_word(text, &line.name))
        }
        KernelLogKind::TableFull if line.name == "files" => code == "process.descriptor_limit",
        KernelLogKind::TableFull => is_about_table(&line.name, finding),
        KernelLogKind::SynFlood => {
            let port = line.name.rsplit_once(':').map_or("", |(_, port)| port);
            matches!(code, "net.accept_queue" | "net.syn_backlog")
                && texts(finding).any(|text| has_word(text, port))
        }
        KernelLogKind::ProcessRefused => {
            code == "process.process_limit"
                && finding.culprit.container.as_deref() == Some(line.name.as_str())
        }
        KernelLogKind::RealTime => code == "cpu.rt_throttled",
        KernelLogKind::OwnFault | KernelLogKind::Other => false,
    }
}

/// Whether a finding is about a table of the network that is full, or fills.
fn is_about_table(table: &str, finding: &Finding) -> bool {
    let fills = |setting: &str| {
        let key = finding.culprit.setting.as_deref().unwrap_or_default();
        finding.code == "net.table_trend" && key.contains(setting)
    };
    match table {
        "connections" => finding.code == "net.conntrack_full" || fills("nf_conntrack_max"),
        "neighbours" => finding.code == "net.neighbour_table_full" || fills("gc_thresh"),
        // Which rule's memory or sockets ran out the line does not say.
        _ => false,
    }
}

/// Whether a finding is about the process of a thread.
fn is_of(model: &Model, tid: u32, finding: &Finding) -> bool {
    let pid = model.threads.by_id.get(&tid).map_or(tid, |known| known.thread.pid);
    let pids = (finding.victims.iter().map(|victim| victim.pid))
        .chain(finding.chain.iter().filter_map(|link| link.who.pid))
        .chain(finding.culprit.pid);
    tid != 0 && pids.into_iter().any(|it| it == pid)
}

/// What a finding names beside processes.
fn texts(finding: &Finding) -> impl Iterator<Item = &str> {
    let objects = finding.chain.iter().map(|link| link.waits_on.name.as_str());
    [finding.object.name.as_str(), finding.culprit.name.as_str()]
        .into_iter()
        .chain(finding.culprit.address.as_deref())
        .chain(objects)
}

/// A disk's name, or that of a partition of it (`sda` and `sda1`, `nvme0n1` and `nvme0n1p2`).
fn is_part_of(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let ends_in_digit = disk.ends_with(|c: char| c.is_ascii_digit());
    let number = if ends_in_digit { rest.strip_prefix('p').unwrap_or(rest) } else { rest };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    !disk.is_empty() && (rest.is_empty() || (is_number && (!ends_in_digit || number != rest)))
}

fn has_word(text: &str, word: &str) -> bool {
    let ends = |c: char| c.is_whitespace() || matches!(c, ':' | ',' | '(' | ')' | '[' | ']' | '/');
    !word.is_empty() && (text == word || text.split(ends).any(|part| part == word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn logged(kind: KernelLogKind, tid: u32, name: &str) -> Fact {
        let text = format!("about {tid} {name}\u{1b}[31m");
        let line = KernelLogLine { kind, level: 3, text, tid, name: name.into(), unreported: 7 };
        Fact { at_ns: 1_500_000_000, body: Body::KernelLog(line) }
    }

    /// A client waits for a server that was stopped, and the kernel logged this.
    fn report(lines: Vec<Fact>) -> crate::answer::Report {
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "server", WaitState::Stopped, "")));
        facts.push(of_process(10, "client"));
        facts.extend(lines);
        explain(facts)
    }

    #[test]
    fn a_fault_of_an_own_program_is_said_apart_from_findings() {
        let mut model = Model::default();
        let line =
            |kind, name: &str| KernelLogLine { kind, name: name.into(), ..Default::default() };
        model.push(Fact { at_ns: 5, body: Body::KernelLog(line(KernelLogKind::Other, "")) });
        assert_eq!(own_fault(&model), None);
        model.push(Fact {
            at_ns: 6,
            body: Body::KernelLog(line(KernelLogKind::OwnFault, "on_wait")),
        });
        assert_eq!(own_fault(&model).map(|it| it.program).as_deref(), Some("on_wait"));
    }

    #[test]
    fn a_line_stands_beside_the_finding_about_its_process() {
        let report = report(vec![logged(KernelLogKind::HungTask, 10, "")]);
        let lines = &report.findings[0].kernel_log;
        assert_eq!((lines.len(), lines[0].seconds, lines[0].more), (1, 1.5, 7));
        assert_eq!(lines[0].level, "error");
        assert!(lines[0].text.contains('\u{1b}'), "JSON keeps it whole; the text escapes");
        assert!(report.kernel_log.is_empty());
    }

    #[test]
    fn a_line_about_others_stands_by_itself() {
        let others = vec![
            logged(KernelLogKind::HungTask, 99, ""),
            logged(KernelLogKind::IoError, 0, "sda"),
            logged(KernelLogKind::OutOfMemory, 10, ""),
            logged(KernelLogKind::Other, 10, ""),
        ];
        let report = report(others);
        assert!(report.findings.iter().all(|finding| finding.kernel_log.is_empty()));
        assert_eq!(report.kernel_log.len(), 4);
    }

    #[test]
    fn a_full_table_is_no_evidence_of_another_cause_of_the_network() {
        let found = report(Vec::new()).findings.remove(0);
        let is_about = |table: &str, code: &str, setting: Option<&str>| {
            let mut finding = Finding { code: code.into(), ..found.clone() };
            finding.culprit.setting = setting.map(str::to_string);
            is_about_table(table, &finding)
        };
        assert!(is_about("connections", "net.conntrack_full", None));
        assert!(is_about("neighbours", "net.neighbour_table_full", None));
        assert!(!is_about("connections", "net.slow_peer", None));
        assert!(!is_about("neighbours", "net.conntrack_full", None));
        let trend = Some("net.ipv4.neigh.default.gc_thresh3");
        assert!(is_about("neighbours", "net.table_trend", trend));
        assert!(!is_about("connections", "net.table_trend", trend));
    }

    #[test]
    fn partitions_are_parts_of_their_disk_and_other_disks_are_not() {
        for (name, disk) in [("sda", "sda"), ("sda1", "sda"), ("nvme0n1p2", "nvme0n1")] {
            assert!(is_part_of(name, disk), "{name} {disk}");
        }
        for (name, disk) in [("sdab", "sda"), ("loop10", "loop1"), ("sda", "sda1"), ("sda", "")] {
            assert!(!is_part_of(name, disk), "{name} {disk}");
        }
        assert!(has_word("10.0.0.9:2049", "10.0.0.9") && !has_word("10.0.0.90", "10.0.0.9"));
    }
}
