//! What a look is at, and all that follows from it: what to attach, whose waits are reported, whose stacks are read. Pure: tested on
//! imagined hosts.
//!
//! `Target` is matched here and nowhere else; every other file reads the fields of `Scope` that were decided from it, so that a
//! fifth kind of target is a change of this file. Each kernel program says what is blind without it. A missing tracepoint turns
//! off its program and is reported once; only the scheduler's two are indispensable, and without them holdup falls back to /proc.
//!
//! Must not: look at the host (host.rs) or attach (kernel/). Edit together: session/target.rs, which finds on the host what is asked for.

use crate::host::{NoBpf, Offer};
use crate::refusal::Refusal;
use holdup_reason::facts::{Blind, Ns};
use holdup_stacks::Whose;
use std::ffi::OsString;

/// At what to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// All of the host.
    Host,
    /// One process.
    Process(u32),
    /// One container, by name, id or cgroup path.
    Container(String),
    /// A command to start.
    Command(Vec<OsString>),
}

/// Whose waits are reported, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reporting {
    /// The least threshold of the threads that are traced, 0: every wait of them; none: nobody is.
    pub traced_least_ns: Option<Ns>,
    /// Events that a tick may bring for each CPU; none: as many as any look may.
    pub per_cpu_and_tick: Option<u64>,
}

/// What follows from the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The process that was asked about.
    pub process: Option<u32>,
    /// The container that was asked about, as the user named it.
    pub container: Option<String>,
    /// The words of the command that is started and followed.
    pub command: Option<Vec<OsString>>,
    /// Whose user stacks are read while the look goes on.
    pub stacks: Option<Whose>,
    /// Which waits are reported.
    pub reporting: Reporting,
    /// Programs that this look has no use for.
    pub spared: &'static [&'static str],
    /// Room for records between two readings, for each eight CPUs.
    pub ring_bytes: u32,
}

/// The program that only looks at a command or a process have.
pub const OF_WHOM_IS_ASKED: &str = "sys_exit";
/// Threads of a process that was asked about: shorter waits are only counted.
pub const TRACED_THRESHOLD_NS: Ns = 20_000;
/// Events that a tick may bring for each CPU, so that to report them takes the same small part of a host of any size (a wait is
/// reported in some 10 us).
const LOOK_PER_CPU_AND_TICK: u64 = 125;
/// Of a process for each CPU: twice as many as of a host, so that its own waits are seen beside those of all others.
const PROCESS_PER_CPU_AND_TICK: u64 = 250;
/// The ring is mapped twice.
const RING_BYTES: u32 = 2 << 20;
/// The same for a command, whose every wait is reported. Both are powers of two, as the kernel wants it.
const RUN_RING_BYTES: u32 = 8 << 20;

impl Target {
    /// Decides what follows from it.
    pub fn scope(&self) -> Scope {
        let host = Scope {
            process: None,
            container: None,
            command: None,
            stacks: None,
            reporting: Reporting {
                traced_least_ns: None,
                per_cpu_and_tick: Some(LOOK_PER_CPU_AND_TICK),
            },
            // Of a command and of a process every refused call counts.
            spared: &[OF_WHOM_IS_ASKED],
            ring_bytes: RING_BYTES,
        };
        match self {
            Self::Host => host,
            Self::Container(name) => Scope { container: Some(name.clone()), ..host },
            Self::Process(pid) => Scope {
                process: Some(*pid),
                stacks: Some(Whose::Process(*pid)),
                reporting: Reporting {
                    traced_least_ns: Some(TRACED_THRESHOLD_NS),
                    per_cpu_and_tick: Some(PROCESS_PER_CPU_AND_TICK),
                },
                spared: &[],
                ..host
            },
            Self::Command(words) => Scope {
                command: Some(words.clone()),
                stacks: Some(Whose::Traced),
                reporting: Reporting { traced_least_ns: Some(0), per_cpu_and_tick: None },
                // Of a command every question's name counts from the first.
                spared: &DNS_WATCH,
                ring_bytes: RUN_RING_BYTES,
                ..host
            },
        }
    }
}

impl Scope {
    /// Whether a command is started and followed to its end.
    pub fn is_command(&self) -> bool {
        self.command.is_some()
    }

    /// Whether somebody was asked about, and not all of the host.
    pub fn is_of_somebody(&self) -> bool {
        self.process.is_some() || self.container.is_some() || self.is_command()
    }
}

/// One kernel program: its name in the object, its tracepoint, and what is blind without it.
struct Program {
    name: &'static str,
    tracepoint: &'static str,
    therefore: &'static str,
}

const fn program(name: &'static str, tracepoint: &'static str, therefore: &'static str) -> Program {
    Program { name, tracepoint, therefore }
}

const EVICTIONS: &str = "whose pages of files are evicted by whom is not known";
const DIRTIED: &str =
    "who fills the page cache for a disk, so that the kernel's workers write to it, is not known";
const LATE_LOCKS: &str = "who held a file lock that was waited for and let go may not be known";
const CONTENTION_BEGIN: &str = "contention_begin";
const CONTENTION_END: &str = "contention_end";
const LATE_KERNEL_LOCKS: &str = "which lock of the kernel was waited for may not be known";
/// What it means if nobody tells that a name server is going to be asked.
const ALWAYS: &str = "each packet is looked at for DNS from the begin, which costs more";
const UNCONNECTED: &str = "whom a socket that is not connected asks is not known";

/// Every tracing program of `bpf/`, in the order of attachment.
const PROGRAMS: &[Program] = &[
    program("block_rq_insert", "block_rq_insert", "waits before a disk are not told apart"),
    program("block_rq_issue", "block_rq_issue", "disk latency is not measured"),
    program("block_rq_complete", "block_rq_complete", "disk latency is not measured"),
    program("block_bio_queue", "block_bio_queue", "who uses a disk is not known"),
    program("direct_reclaim_begin", "mm_vmscan_direct_reclaim_begin", "reclaim is not timed"),
    program("direct_reclaim_end", "mm_vmscan_direct_reclaim_end", "reclaim is not timed"),
    program("memcg_reclaim_begin", "mm_vmscan_memcg_reclaim_begin", "reclaim is not timed"),
    program("memcg_reclaim_end", "mm_vmscan_memcg_reclaim_end", "reclaim is not timed"),
    program(
        "balance_dirty_pages",
        "balance_dirty_pages",
        "pauses at the dirty limit are not timed",
    ),
    program("page_evicted", "mm_filemap_delete_from_page_cache", EVICTIONS),
    program("page_brought_in", "mm_filemap_add_to_page_cache", EVICTIONS),
    program("folio_dirtied", "writeback_dirty_folio", DIRTIED),
    program("page_dirtied", "writeback_dirty_page", DIRTIED),
    program("mark_victim", "mark_victim", "kills for want of memory are not seen"),
    program("qdisc_enqueue", "qdisc_enqueue", "time in local packet queues is not measured"),
    program("qdisc_dequeue", "qdisc_dequeue", "time in local packet queues is not measured"),
    program("kfree_skb", "kfree_skb", "packets that are dropped are not seen, nor why they are"),
    program("netif_receive_skb", "netif_receive_skb", "DNS answers are not seen"),
    program("net_dev_queue", "net_dev_queue", "DNS questions are not seen"),
    program("flock_lock_inode", "flock_lock_inode", LATE_LOCKS),
    program("posix_lock_inode", "posix_lock_inode", LATE_LOCKS),
    program("break_lease_block", "break_lease_block", LATE_LOCKS),
    program(CONTENTION_BEGIN, "contention_begin", LATE_KERNEL_LOCKS),
    program(CONTENTION_END, "contention_end", LATE_KERNEL_LOCKS),
    program("fib_table_lookup", "fib_table_lookup", ALWAYS),
    program("fib6_table_lookup", "fib6_table_lookup", ALWAYS),
    program("sent_by_ipv4", "fib_table_lookup", UNCONNECTED),
    program("sent_by_ipv6", "fib6_table_lookup", UNCONNECTED),
    program("sched_process_free", "sched_process_free", "a look at many short threads costs more"),
    program("task_newtask", "task_newtask", "new threads are seen late"),
    program("sched_process_exec", "sched_process_exec", "new programs are seen late"),
    program("sched_process_exit", "sched_process_exit", "ended threads lose their sums"),
    program(
        "signal_generate",
        "signal_generate",
        "who stopped a process, or asked it to end, is not known",
    ),
    program(
        "sys_exit",
        "sys_exit",
        "refused system calls are not seen, and what is tried again and again is taken for a sleep",
    ),
    program("sched_waking", "sched_waking", "nothing can be said about waits"),
    program("sched_switch", "sched_switch", "nothing can be said about waits"),
];

/// Programs of one tracepoint that was renamed: a kernel has one of the names. If it has none, the first is said to be missing.
const RENAMED: [&str; 2] = ["folio_dirtied", "page_dirtied"];

/// The program that a CPU clock calls; it has no tracepoint.
pub const SAMPLE: &str = "sample";
/// The same, where the kernel can tell the file that code is in.
pub const SAMPLE_CODE: &str = "sample_code";

/// Programs that look at each packet for DNS: a look attaches them once it knows that a name server is asked. Answers first: else the
/// answer to a question may come in between, and the question stands open for good.
pub const DNS: [&str; 2] = ["netif_receive_skb", "net_dev_queue"];
/// Programs that tell this, and are in the way afterwards.
pub const DNS_WATCH: [&str; 2] = ["fib_table_lookup", "fib6_table_lookup"];

/// Of the programs named those that are attached at the begin.
pub fn at_once(names: &[&'static str]) -> Vec<&'static str> {
    let later: &[_] =
        if DNS_WATCH.iter().all(|name| names.contains(name)) { &DNS } else { &DNS_WATCH };
    names.iter().copied().filter(|name| !later.contains(name)).collect()
}

/// Programs without which there is no look by events.
pub const INDISPENSABLE: &[&str] = &["sched_waking", "sched_switch"];

/// What to attach, and what is blind for the want of the rest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Names of programs to attach; empty: look without kernel events.
    pub programs: Vec<&'static str>,
    /// What cannot be seen.
    pub blind: Vec<Blind>,
}

/// Every tracepoint that a program wants.
pub fn tracepoints() -> Vec<&'static str> {
    PROGRAMS.iter().map(|p| p.tracepoint).collect()
}

/// Decides what to attach of all programs but those that are spared.
pub fn plan(offer: &Offer, spared: &[&str]) -> Plan {
    let mut plan = Plan::default();
    if let Some(NoBpf { why, remedy }) = &offer.no_bpf {
        plan.blind.push(no_events(why, remedy));
        return plan;
    }
    for wanted in INDISPENSABLE {
        if !offer.tracepoints.contains(*wanted) {
            let why = format!("the kernel has no tracepoint {wanted} in its BTF");
            plan.blind.push(no_events(&why, ""));
            return plan;
        }
    }
    let is_offered = |program: &&Program| offer.tracepoints.contains(program.tracepoint);
    let mut renamed = PROGRAMS.iter().filter(|program| RENAMED.contains(&program.name));
    let here = renamed.find(is_offered).map_or(RENAMED[0], |program| program.name);
    for program in PROGRAMS {
        let has_other_name = RENAMED.contains(&program.name) && program.name != here;
        if spared.contains(&program.name) || has_other_name {
            continue;
        }
        if is_offered(&program) {
            plan.programs.push(program.name);
        } else {
            plan.blind.push(Blind {
                what: format!("tracepoint.{}", program.tracepoint),
                why: "this kernel does not have it".into(),
                therefore: program.therefore.into(),
                ..Blind::default()
            });
        }
    }
    plan.programs.push(SAMPLE);
    plan
}

/// After the kernel refused to load: what to try next, in `plan` and `offer`; `false` if nothing is left.
/// Gives up as little as can be: the refused program, else task storage, else all but the scheduler.
pub fn give_way(plan: &mut Plan, offer: &mut Offer, spared: &[&str], refused: &Refusal) -> bool {
    if offer.find_vma && refused.program.as_deref() == Some(SAMPLE_CODE) {
        offer.find_vma = false;
        return true;
    }
    let droppable = plan.programs.iter().position(|name| {
        Some(*name) == refused.program.as_deref() && !INDISPENSABLE.contains(name)
    });
    if let Some(at) = droppable {
        let name = plan.programs.remove(at);
        // A lock that is never seen to be had would stand for every later wait.
        if name == CONTENTION_END {
            plan.programs.retain(|name| *name != CONTENTION_BEGIN);
        }
        let therefore = PROGRAMS.iter().find(|program| program.name == name);
        plan.blind.push(Blind {
            what: format!("program.{name}"),
            why: refused.why.clone(),
            therefore: therefore
                .map_or("what runs in the kernel is not told apart", |p| p.therefore)
                .into(),
            ..Blind::default()
        });
        return true;
    }
    if !offer.thread_states_in_hash {
        offer.thread_states_in_hash = true;
        *plan = self::plan(offer, spared);
        // Nothing is missed; but a look that costs twice as much must not do so silently.
        plan.blind.push(Blind {
            what: "task_storage".into(),
            why: refused.why.clone(),
            therefore: "threads are found in a hash, and each switch costs about twice as much"
                .into(),
            ..Blind::default()
        });
        return true;
    }
    if plan.programs.len() > INDISPENSABLE.len() {
        plan.programs = INDISPENSABLE.to_vec();
        plan.blind.push(Blind {
            what: "programs".into(),
            why: refused.why.clone(),
            therefore: "disks, memory and network are judged from counters alone".into(),
            ..Blind::default()
        });
        return true;
    }
    false
}

/// The look falls back to /proc.
pub fn no_events(why: &str, remedy: &str) -> Blind {
    Blind {
        what: "kernel_events".into(),
        why: why.into(),
        remedy: remedy.into(),
        therefore: "waits are sampled from /proc: short ones, and who ends a wait, are not seen"
            .into(),
        ..Blind::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Offer {
        Offer {
            tracepoints: tracepoints().iter().map(|t| (*t).to_string()).collect(),
            ..Offer::default()
        }
    }

    fn command() -> Target {
        Target::Command(vec!["true".into()])
    }

    fn of(target: &Target) -> &'static [&'static str] {
        target.scope().spared
    }

    #[test]
    fn what_is_asked_about_is_traced_and_a_host_is_not() {
        let least = |target: Target| target.scope().reporting.traced_least_ns;
        assert_eq!(least(Target::Host), None);
        assert_eq!(least(Target::Container("web".into())), None);
        assert_eq!(least(Target::Process(7)), Some(TRACED_THRESHOLD_NS));
        assert_eq!(least(command()), Some(0), "every wait of a command is wanted");
        assert_eq!(command().scope().stacks, Some(Whose::Traced));
        assert_eq!(Target::Process(7).scope().stacks, Some(Whose::Process(7)));
    }

    #[test]
    fn a_whole_host_is_not_blind() {
        let plan = plan(&whole(), of(&command()));
        assert!(plan.blind.is_empty());
        assert_eq!(plan.programs.len(), PROGRAMS.len() - DNS_WATCH.len());
    }

    #[test]
    fn the_doctor_tries_everything() {
        let all = super::plan(&whole(), &[]).programs;
        let mut wanted = PROGRAMS.iter().filter(|program| program.name != RENAMED[1]);
        assert!(wanted.all(|program| all.contains(&program.name)), "{all:?}");
    }

    #[test]
    fn a_renamed_tracepoint_is_attached_by_the_name_that_the_kernel_has() {
        let without = |tracepoints: &[&str]| {
            let mut offer = whole();
            for tracepoint in tracepoints {
                offer.tracepoints.remove(*tracepoint);
            }
            let plan = plan(&offer, of(&Target::Host));
            let missing: Vec<String> = plan.blind.iter().map(|blind| blind.what.clone()).collect();
            (RENAMED.map(|name| plan.programs.contains(&name)), missing)
        };
        assert_eq!(without(&["writeback_dirty_page"]), ([true, false], vec![]));
        assert_eq!(without(&["writeback_dirty_folio"]), ([false, true], vec![]));
        assert_eq!(without(&[]), ([true, false], vec![]));
        let missing = vec!["tracepoint.writeback_dirty_folio".to_string()];
        let neither = without(&["writeback_dirty_folio", "writeback_dirty_page"]);
        assert_eq!(neither, ([false, false], missing));
    }

    #[test]
    fn a_look_leaves_packets_alone_as_long_as_somebody_watches_for_questions() {
        let has = |names: &[&'static str], name: &str| at_once(names).contains(&name);
        let look = plan(&whole(), of(&Target::Host)).programs;
        assert!(!has(&look, "netif_receive_skb") && has(&look, "fib_table_lookup"));
        let run = plan(&whole(), of(&command())).programs;
        assert!(has(&run, "netif_receive_skb") && !has(&run, "fib_table_lookup"));
        let mut offer = whole();
        offer.tracepoints.remove("fib6_table_lookup");
        let half = plan(&offer, of(&Target::Host));
        assert!(
            has(&half.programs, "netif_receive_skb") && !has(&half.programs, "fib_table_lookup")
        );
        assert_eq!(half.blind[0].therefore, ALWAYS);
    }

    #[test]
    fn system_calls_are_traced_for_a_command_or_one_process_only() {
        let traced = |target: &Target| plan(&whole(), of(target)).programs.contains(&"sys_exit");
        assert!(!traced(&Target::Host));
        assert!(traced(&Target::Process(7)) && traced(&command()));
        let of_one = plan(&whole(), of(&Target::Process(7))).programs;
        assert!(of_one.contains(&"fib_table_lookup"), "questions are watched for as in any look");
    }

    #[test]
    fn a_missing_tracepoint_is_reported_and_the_rest_goes_on() {
        let mut offer = whole();
        offer.tracepoints.remove("qdisc_enqueue");
        let plan = plan(&offer, of(&Target::Host));
        assert_eq!(plan.blind.len(), 1);
        assert_eq!(plan.blind[0].what, "tracepoint.qdisc_enqueue");
        assert!(plan.programs.contains(&"sched_switch"));
    }

    fn refusal(program: &str) -> Refusal {
        Refusal { program: Some(program.into()), why: "invalid mem access".into() }
    }

    #[test]
    fn a_refused_program_costs_itself_only() {
        let (mut plan, mut offer) = (plan(&whole(), of(&command())), whole());
        let refused = refusal("mark_victim");
        assert!(give_way(&mut plan, &mut offer, of(&command()), &refused));
        assert_eq!(plan.programs.len(), PROGRAMS.len() - DNS_WATCH.len() - 1);
        assert_eq!(plan.blind.len(), 1);
        assert_eq!(plan.blind[0].what, "program.mark_victim");
        assert!(!offer.thread_states_in_hash);
    }

    #[test]
    fn without_the_end_of_a_wait_for_a_lock_its_begin_is_not_kept() {
        let (mut plan, mut offer) = (plan(&whole(), of(&Target::Host)), whole());
        assert!(plan.programs.contains(&CONTENTION_BEGIN));
        assert!(give_way(&mut plan, &mut offer, of(&Target::Host), &refusal(CONTENTION_END)));
        assert!(!plan.programs.contains(&CONTENTION_BEGIN));
    }

    #[test]
    fn a_refused_scheduler_program_costs_task_storage_then_the_rest_then_all() {
        let (mut plan, mut offer) = (plan(&whole(), of(&Target::Host)), whole());
        let refused = refusal("sched_switch");
        let mut again = || give_way(&mut plan, &mut offer, of(&Target::Host), &refused);
        assert!(again());
        assert!(again());
        assert!(!again());
        assert_eq!(plan.programs, INDISPENSABLE);
        let blind: Vec<_> = plan.blind.iter().map(|blind| &blind.what[..]).collect();
        assert_eq!(blind, ["task_storage", "programs"]);
        assert!(offer.thread_states_in_hash);
    }

    #[test]
    fn without_the_scheduler_there_are_no_events() {
        let mut offer = whole();
        offer.tracepoints.remove("sched_waking");
        let plan = plan(&offer, of(&Target::Host));
        assert!(plan.programs.is_empty());
        assert_eq!(plan.blind[0].what, "kernel_events");
    }
}
