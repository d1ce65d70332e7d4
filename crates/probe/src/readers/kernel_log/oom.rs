//! What the kernel prints around a kill for want of memory, put together: pure.
//!
//! One kill prints who asked, the group's usage, a table of who could have been killed (vm.oom_dump_tasks, on by default),
//! the constraint with the group's path, and who was killed with what. The lines of two kills do not mix: the kernel holds
//! oom_lock. The table's columns differ between versions and are found by their names.
//!
//! Must not: take a name in a line for a field (fields are found from the line's end where a name may hold anything).

use holdup_reason::facts::{OomReport, OomTask};

/// Tasks that are kept.
const TASKS: usize = 5;

/// A report that is being read.
#[derive(Default)]
pub(super) struct Reading {
    report: OomReport,
    columns: Option<Columns>,
}

/// Places of the numbers behind `[  pid  ]`.
#[derive(Clone, Copy)]
struct Columns {
    pid: usize,
    rss: usize,
    swap: Option<usize>,
    count: usize,
}

impl Reading {
    /// Takes the next line; gives the report with the line that ends it.
    pub(super) fn take(&mut self, text: &str) -> Option<OomReport> {
        if let Some((comm, rest)) = text.rsplit_once(" invoked oom-killer: ") {
            *self = Self::default();
            self.report.asked_by = comm.into();
            self.report.by_sysrq = rest.contains("order=-1,");
        } else if let Some(rest) = text.strip_prefix("memory: usage ") {
            self.report.usage_bytes = kilobytes(rest).unwrap_or(0);
        } else if let Some(rest) = text.strip_prefix("oom-kill:constraint=") {
            self.constraint(rest);
        } else if text.starts_with("[  pid") {
            self.columns = columns(text);
        } else if let Some(task) = self.columns.and_then(|columns| task(text, columns)) {
            self.add(task);
        } else if text.contains("ut of memory") {
            return self.killed(text);
        }
        None
    }

    fn add(&mut self, task: OomTask) {
        let report = &mut self.report;
        report.task_count += 1;
        report.tasks_bytes = report.tasks_bytes.saturating_add(task.rss_bytes);
        let at = report.tasks.partition_point(|known| known.rss_bytes >= task.rss_bytes);
        report.tasks.insert(at, task);
        report.tasks.truncate(TASKS);
    }

    /// `CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=NAME,pid=N,uid=N`
    fn constraint(&mut self, rest: &str) {
        self.columns = None;
        self.report.constraint = rest.split(',').next().unwrap_or_default().into();
        let group = rest.split_once(",oom_memcg=").map(|(_, rest)| rest);
        let group = group.and_then(|rest| rest.split_once(",task_memcg="));
        self.report.group = group.map_or_else(String::new, |(group, _)| group.into());
    }

    /// `Killed process 9739 (python3) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:0kB, UID:0 ...`
    fn killed(&mut self, text: &str) -> Option<OomReport> {
        let (_, rest) = text.split_once(" process ")?;
        let (pid, rest) = rest.split_once(" (")?;
        let (comm, rest) = rest.rsplit_once(") total-vm:")?;
        let field = |name: &str| rest.split_once(name).and_then(|(_, rest)| kilobytes(rest));
        let mut report = std::mem::take(self).report;
        // All but this line is limited in rate; its first words say whether it was a group's limit.
        if report.constraint.is_empty() && text.starts_with("Memory cgroup") {
            report.constraint = "CONSTRAINT_MEMCG".into();
        }
        report.pid = pid.parse().ok()?;
        report.comm = comm.into();
        report.anon_bytes = field("anon-rss:").unwrap_or(0);
        report.file_bytes = field("file-rss:").unwrap_or(0);
        report.shmem_bytes = field("shmem-rss:").unwrap_or(0);
        Some(report)
    }
}

fn kilobytes(text: &str) -> Option<u64> {
    let (number, _) = text.split_once("kB")?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

fn columns(text: &str) -> Option<Columns> {
    let names: Vec<&str> = text.split_once(']')?.1.split_whitespace().collect();
    let place = |wanted: &str| names.iter().position(|name| *name == wanted);
    Some(Columns {
        pid: place("tgid")?,
        rss: place("rss")?,
        swap: place("swapents"),
        count: names.len().checked_sub(1)?,
    })
}

fn task(text: &str, columns: Columns) -> Option<OomTask> {
    let (_, rest) = text.strip_prefix('[')?.split_once(']')?;
    let mut words = rest.split_whitespace();
    let numbers: Vec<&str> = words.by_ref().take(columns.count).collect();
    let number = |at: usize| numbers.get(at)?.parse::<u64>().ok();
    let bytes = |pages: u64| pages.saturating_mul(crate::system::units::page_bytes());
    Some(OomTask {
        pid: u32::try_from(number(columns.pid)?).ok()?,
        comm: words.collect::<Vec<_>>().join(" "),
        rss_bytes: bytes(number(columns.rss)?),
        swap_bytes: bytes(columns.swap.and_then(number).unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn read(lines: &[&str]) -> Vec<OomReport> {
        let mut reading = Reading::default();
        lines.iter().filter_map(|line| reading.take(line)).collect()
    }

    const HEADER: &str = "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes \
                          swapents oom_score_adj name";

    #[test]
    fn a_kill_in_a_group_is_put_together() {
        let reports = read(&[
            "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            "memory: usage 32768kB, limit 32768kB, failcnt 13",
            HEADER,
            "[   9738]     0  9738     1000      100       50       50         0    45056        0             0 sh",
            "[   9739]     0  9739    29746     8929     8128      801         0   143360        7             0 a b,pid=1",
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/x,y,task_memcg=/x,y/a,task=a b,pid=9739,uid=0",
            "Memory cgroup out of memory: Killed process 9739 (a) total-vm:1) total-vm:118984kB, anon-rss:32512kB, file-rss:3204kB, shmem-rss:8kB, UID:0",
        ]);
        let page = crate::system::units::page_bytes();
        let task = |pid, comm: &str, pages: u64, swapped: u64| OomTask {
            pid,
            comm: comm.into(),
            rss_bytes: pages * page,
            swap_bytes: swapped * page,
        };
        let expected = OomReport {
            pid: 9739,
            comm: "a) total-vm:1".into(),
            anon_bytes: 32512 * KIB,
            file_bytes: 3204 * KIB,
            shmem_bytes: 8 * KIB,
            asked_by: "python3".into(),
            by_sysrq: false,
            constraint: "CONSTRAINT_MEMCG".into(),
            group: "/x,y".into(),
            usage_bytes: 32768 * KIB,
            tasks: vec![task(9739, "a b,pid=1", 8929, 7), task(9738, "sh", 100, 0)],
            task_count: 2,
            tasks_bytes: 9029 * page,
        };
        assert_eq!(reports, [expected]);
    }

    #[test]
    fn a_kill_of_the_host_has_no_group_and_an_old_table_its_own_columns() {
        let reports = read(&[
            "kthreadd invoked oom-killer: gfp_mask=0x1, order=-1, oom_score_adj=0",
            "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
            "[    412]  1000   412     5000     4000    45056        0             0 big",
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=big,pid=412,uid=0",
            "Out of memory: Killed process 412 (big) total-vm:20000kB, anon-rss:16000kB, file-rss:0kB, shmem-rss:0kB",
        ]);
        let report = &reports[0];
        assert!(report.by_sysrq && report.group.is_empty());
        assert_eq!(report.constraint, "CONSTRAINT_NONE");
        assert_eq!((report.tasks[0].pid, report.tasks[0].swap_bytes), (412, 0));
    }

    #[test]
    fn of_many_kills_the_kernel_prints_one_line_each() {
        let reports = read(&[
            "Memory cgroup out of memory: Killed process 7 (a) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
            "Out of memory: Killed process 8 (a) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
        ]);
        let said: Vec<&str> = reports.iter().map(|report| report.constraint.as_str()).collect();
        assert_eq!(said, ["CONSTRAINT_MEMCG", ""]);
        assert_eq!((reports[0].anon_bytes, reports[0].group.as_str()), (8 * KIB, ""));
    }

    #[test]
    fn a_table_of_thousands_keeps_the_largest_and_counts_all() {
        let mut lines = vec![HEADER.to_string()];
        for pid in 1..=5000 {
            lines.push(format!("[{pid}] 0 {pid} 1 {} 0 0 0 0 0 0 x", pid % 1000));
        }
        lines.push("Out of memory: Killed process 9 (x) total-vm:1kB, anon-rss:1kB".into());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let report = &read(&lines)[0];
        assert_eq!((report.task_count, report.tasks.len()), (5000, 5));
        assert_eq!(report.tasks[0].rss_bytes, 999 * crate::system::units::page_bytes());
    }

    #[test]
    fn broken_lines_make_no_report() {
        let reports = read(&[
            "Out of memory: Killed process",
            "Out of memory: Killed process x (y) total-vm:1kB",
            "oom-kill:constraint=",
            "[  pid  ]",
            "[",
            "[99] 1 2",
            " invoked oom-killer: ",
        ]);
        assert_eq!(reports, []);
    }
}
