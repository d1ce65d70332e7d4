//! A name that a process looks at again and again, and sleeps between: what a script, pg_ctl or a supervisor's command waits for so.
//!
//! Nobody wakes it, so nothing but its own looks says for what it sleeps: for a lock file to go, a socket to come, a status to change. Or it
//! watches the file for as long as it runs; nothing tells the two apart, so this says what it does and calls nobody late. Where the kernel
//! shows its own state (/proc, /sys), looking is what monitors do, and is not said; nor are the files
//! that the C library looks at by itself.
//!
//! Must not: name who is to make or remove it (nothing seen says so). Rejected: a finding, which every log watcher would get; any
//! process that looks at a name in its loop (servers open files for each request: what they wait for is no clock); a look at the
//! child that sleeps between the looks as what leads on (it is gone, and the next one knows no more).
//! Edit together: bpf/refused.bpf.c (which looks are reported), standing.rs, sentences.rs and verdict.rs (where it is said).

use super::naming::by_name;
use super::report::{AnswerEnd, Link};
use super::whole::Rest;
use crate::facts::{Denied, Ns, TargetKind, ThreadRef};
use crate::graph::end::EndKind;
use crate::measure::Measures;
use crate::model::{Model, words};
use crate::rules::action::{Action, Question};
use crate::rules::{FileSeen, file_of};
use std::collections::BTreeMap;

/// Looks at one name that are no chance.
const LOOKS_MIN: usize = 2;
/// Of the look, from the first of them to the last; else it did something else for most of it.
const PART_MIN: f64 = 0.25;
/// Where the kernel shows itself.
const KERNEL: [&str; 3] = ["/proc/", "/sys/", "/dev/"];
/// What the C library looks at by itself: for each local time, and for each name of a host (glibc: time/tzfile.c, resolv/resolv_conf.c, nss/nss_database.c).
const OF_LIBRARY: [&str; 5] =
    ["/etc/localtime", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"];

/// What is looked at.
struct LookedAt<'m> {
    path: &'m str,
    is_there: bool,
    each_seconds: f64,
}

impl LookedAt<'_> {
    fn words(&self) -> String {
        format!(
            "looks at {} every {}, and sleeps between",
            self.path,
            words::seconds(self.each_seconds)
        )
    }

    fn state(&self) -> &'static str {
        if self.is_there { "is there" } else { "is not there" }
    }

    /// It, as whoever looks sees it; of one that is not there the folder that it would be in.
    fn seen(&self, model: &Model, by: &ThreadRef) -> Option<FileSeen> {
        let folder = || self.path.rsplit_once('/').map(|(folder, _)| folder);
        let path = if self.is_there { self.path } else { folder()? };
        let path = if path.is_empty() { "/" } else { path };
        file_of(model, by, path).filter(|_| self.path.starts_with('/'))
    }

    /// The command that shows whose that is, and who has it open: nobody has a name that is not there.
    fn shown(&self, seen: &FileSeen) -> String {
        let name = words::shell(&seen.path);
        match self.is_there {
            true => format!("ls -ld {name}; fuser -v {name}"),
            false => format!("ls -ld {name}"),
        }
    }
}

/// Of a process, over the look: of several names the one that was looked at most often.
fn of<'m>(measures: &Measures<'m>, pid: u32) -> Option<LookedAt<'m>> {
    let model = measures.model;
    let mut by_path: BTreeMap<&'m str, Vec<(Ns, &'m Denied)>> = BTreeMap::new();
    for (at_ns, look) in &model.threads.looks {
        let is_of_kernel = |path: &&str| KERNEL.iter().any(|of| path.starts_with(of));
        let path =
            look.looked_at().filter(|path| !is_of_kernel(path) && !OF_LIBRARY.contains(path));
        if let Some(path) = path.filter(|_| look.thread.pid == pid) {
            by_path.entry(path).or_default().push((*at_ns, look));
        }
    }
    let (path, looks) = by_path.into_iter().max_by_key(|(_, looks)| looks.len())?;
    let (first, last) = (looks.first()?, looks.last()?);
    let is_as_it_was = looks.iter().all(|(_, look)| look.errno == last.1.errno);
    let spans = last.0.saturating_sub(first.0) as f64 / 1e9;
    let lasts = looks.len() >= LOOKS_MIN && spans >= PART_MIN * measures.wall_seconds();
    (is_as_it_was && lasts).then(|| LookedAt {
        path,
        is_there: last.1.errno == 0,
        each_seconds: spans / (looks.len() - 1) as f64,
    })
}

/// Title and paragraph about the process that was asked about, if it sleeps between its looks.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?.pid;
    let looked = of(measures, asked).filter(|_| Rest::of(measures) == Rest::Sleep)?;
    let by = model.threads.thread_ref(asked);
    let shows = looked.seen(model, &by).map_or_else(String::new, |it| looked.shown(&it));
    let until = match (looked.is_there, shows.is_empty()) {
        (true, true) => "goes or changes".to_string(),
        (true, false) => {
            format!("goes or changes: {shows} shows whose it is, and who has it open")
        }
        (false, true) => "comes: who is to make it was not seen".to_string(),
        (false, false) => {
            format!("comes: who is to make it was not seen; {shows} shows whose folder that is")
        }
    };
    Some((
        format!("{} {}.", model.threads.who(&by), looked.words()),
        format!("It {}. Either it only watches it, or it waits until it {until}.", looked.state()),
    ))
}

/// Of such an end, which no rule claims, what leads on: the name that is looked at, and nobody who only sleeps.
pub(super) fn lead_on(measures: &Measures<'_>, end: &mut AnswerEnd) {
    if end.finding.is_some() {
        return;
    }
    let Some((at, looked)) = in_chain(measures, end) else { return };
    let by = end.chain[at].who.pid.map(|pid| measures.model.threads.thread_ref(pid));
    let seen = by.and_then(|by| looked.seen(measures.model, &by));
    end.ask = seen.as_ref().map_or_else(String::new, |seen| looked.shown(seen));
    end.ask_action = seen.map(|seen| {
        let mut asks = Action::look(Question::State).through(seen.through.as_ref());
        asks.target.path = Some(seen.path);
        asks
    });
}

/// Of an end that is a sleep, what the first of its chain does so, as a verb.
pub(super) fn does(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    of_link(measures, end, 0).map(|looked| looked.words())
}

/// Of such an end, what more is to be said: whether the name is there, and who else in its chain looks at one.
pub(super) fn of_end(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    let (at, looked) = in_chain(measures, end)?;
    Some(match at {
        0 => format!("{} {}", looked.path, looked.state()),
        _ => format!("{} {}; it {}", by_name(&end.chain[at].who), looked.words(), looked.state()),
    })
}

/// The last of a chain who looks at a name, by its place there.
fn in_chain<'m>(measures: &Measures<'m>, end: &AnswerEnd) -> Option<(usize, LookedAt<'m>)> {
    (0..end.chain.len()).rev().find_map(|at| Some((at, of_link(measures, end, at)?)))
}

/// What somebody in a chain looks at who sleeps at its end, or has a child that does, as a shell. Who waits for another one's sleep has not slept itself.
fn of_link<'m>(measures: &Measures<'m>, end: &AnswerEnd, at: usize) -> Option<LookedAt<'m>> {
    let pid = end.chain.get(at).filter(|_| end.end == EndKind::Sleep)?.who.pid?;
    let is_its =
        |next: &Link| next.who.pid.and_then(|it| measures.graph.parent_of(it)) == Some(pid);
    let sleeps = match &end.chain[at + 1..] {
        [] => true,
        [next] => is_its(next),
        _ => false,
    };
    of(measures, pid).filter(|_| sleeps)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const HALF: Ns = 500_000_000;

    /// What is said of process 10, which looks at these and sleeps for half a second after each look.
    fn looks(paths: &[&str], errno: i32) -> (String, String) {
        let mut facts = [host(), vec![of_process(10, "sv")]].concat();
        for (at, path) in (0..).zip(paths) {
            let (at_ns, path) = (at * HALF, Some((*path).to_string()));
            let look = Denied { errno, path, ..refusal(10, "sv", "newfstatat") };
            facts.push(Fact { at_ns, body: Body::Denied(look) });
            facts.push(slept(10, "sv", at_ns + 1_000, at_ns + HALF - 1_000));
        }
        let answer = explain(facts).answer;
        (answer.title, answer.text)
    }

    #[test]
    fn who_looks_at_a_name_again_and_again_says_at_which() {
        let (title, text) = looks(&["/run/web/status"; 10], 0);
        assert!(
            format!("{title} {text}").contains("looks at /run/web/status every 500 ms"),
            "{title} {text}"
        );
        assert!(text.contains("is there"), "{text}");
        assert!(text.contains("ls -ld /run/web/status; fuser -v /run/web/status"), "{text}");
        let (_, text) = looks(&["/run/web.sock"; 10], 2);
        assert!(text.contains("is not there") && text.contains("ls -ld /run "), "{text}");
        assert!(!text.contains("fuser"), "{text}");
    }

    /// What leads on from a shell's looks at a name, between which a child of it sleeps for half a second each.
    fn leads_on(path: &str, errno: i32) -> (String, Option<String>) {
        let mut facts = [host(), vec![of_process(10, "sh")]].concat();
        facts.push(identity(Thread { thread: thread(10, "sh"), ..Thread::default() }));
        for at in 0..10 {
            let (at_ns, pid) = (at * HALF, 30 + at as u32);
            let child = ThreadRef { start_ns: at_ns + 1, ..thread(pid, "sleep") };
            let fork = Fork { parent: thread(10, "sh"), child: child.clone(), flags: 0 };
            let path = Some(path.to_string());
            let look = Denied { errno, path, ..refusal(10, "sh", "newfstatat") };
            let end_ns = at_ns + HALF - 1_000;
            let Body::Wait(sleeps) = slept(pid, "sleep", at_ns + 3, end_ns).body else {
                return Default::default();
            };
            let sleeps = Wait { thread: child.clone(), ..sleeps };
            let by = child.clone();
            let wake =
                Some(Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() });
            let args = [pid.into(), 0, 0, 0, 0, 0];
            let place = Place {
                state: WaitState::Sleep,
                syscall: "wait4".into(),
                args,
                ..Place::default()
            };
            let thread = thread(10, "sh");
            let waits =
                Wait { thread, begin_ns: at_ns + 3, end_ns, place, wake, ..Wait::default() };
            let exit = Exit { thread: child, last: true, code: Some(0) };
            facts.extend([
                Fact { at_ns, body: Body::Denied(look) },
                Fact { at_ns: at_ns + 1, body: Body::Fork(fork) },
                Fact { at_ns: end_ns, body: Body::Wait(sleeps) },
                Fact { at_ns: end_ns, body: Body::Wait(waits) },
                Fact { at_ns: end_ns, body: Body::Exit(exit) },
            ]);
        }
        let end = explain(facts).answer.ends.remove(0);
        (end.ask, end.ask_action.and_then(|asks| asks.target.path))
    }

    #[test]
    fn what_leads_on_is_the_name_and_not_the_child_that_sleeps() {
        let (there, path) = leads_on("/run/web/a lock;id", 0);
        let name = "'/run/web/a lock;id'";
        assert_eq!(there, format!("ls -ld {name}; fuser -v {name}"));
        assert_eq!(path.as_deref(), Some("/run/web/a lock;id"));
        let (missing, _) = leads_on("/run/web/sock", 2);
        assert_eq!(missing, "ls -ld /run/web", "nobody has what is not there");
        assert_eq!(leads_on("/ready", 2).0, "ls -ld /");
        assert_eq!(leads_on("ready", 2), (String::new(), None), "its folder is not known");
        let (kernels_own, _) = leads_on("/proc/stat", 0);
        assert!(!kernels_own.contains("/proc/stat"), "it only sleeps: {kernels_own}");
    }

    #[test]
    fn who_waits_for_another_ones_sleep_has_not_slept_itself() {
        let server = blocked(20, "server", WaitState::Sleep, "nanosleep");
        let look = |at: u64| {
            let path = Some("/etc/app.conf".to_string());
            let denied = Denied { path, ..refusal(10, "app", "newfstatat") };
            Fact { at_ns: at * HALF, body: Body::Denied(denied) }
        };
        let asked = vec![of_process(10, "app")];
        let looks = (0..10).map(look).collect();
        let answer = explain([host(), asked, client_and_server(server), looks].concat()).answer;
        assert!(answer.title.contains("sleeps"), "{}", answer.title);
        assert!(
            !format!("{} {}", answer.title, answer.text).contains("looks at"),
            "{}",
            answer.title
        );
    }

    #[test]
    fn who_looks_once_or_where_the_kernel_or_the_library_has_it_look_only_sleeps() {
        let once: Vec<String> = (0..10).map(|at| format!("/srv/{at}")).collect();
        let once: Vec<&str> = once.iter().map(String::as_str).collect();
        for paths in [&once[..], &["/proc/stat"; 10], &["/etc/localtime"; 10]] {
            let (title, text) = looks(paths, 0);
            assert!(!format!("{title} {text}").contains("looks at"), "{title} {text}");
        }
    }
}
