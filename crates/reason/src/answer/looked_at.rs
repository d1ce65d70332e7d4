//! A name that a process looks at again and again, and sleeps between: what a script, pg_ctl or a supervisor's command waits for so.
//!
//! Nobody wakes it, so nothing but its own looks says for what it sleeps: for a lock file to go, a socket to come, a status to change. Or it
//! watches the file for as long as it runs; nothing tells the two apart, so this says what it does and calls nobody late. Where the kernel
//! shows its own state (/proc, /sys), looking is what monitors do, and is not said.
//!
//! Must not: name who is to make or remove it (nothing seen says so). Rejected: a finding, which every log watcher would get; any
//! process that looks at a name in its loop (servers open files for each request: what they wait for is no clock).
//! Edit together: bpf/refused.bpf.c (which looks are reported), standing.rs and sentences.rs (where it is said).

use super::naming::by_name;
use super::report::{AnswerEnd, Link};
use super::whole::Rest;
use crate::facts::{Denied, Ns, TargetKind};
use crate::graph::end::EndKind;
use crate::measure::Measures;
use crate::model::words;
use std::collections::BTreeMap;

/// Looks at one name that are no chance.
const LOOKS_MIN: usize = 2;
/// Of the look, from the first of them to the last; else it did something else for most of it.
const PART_MIN: f64 = 0.25;
/// Where the kernel shows itself.
const KERNEL: [&str; 3] = ["/proc/", "/sys/", "/dev/"];

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
}

/// Of a process, over the look: of several names the one that was looked at most often.
fn of<'m>(measures: &Measures<'m>, pid: u32) -> Option<LookedAt<'m>> {
    let model = measures.model;
    let mut by_path: BTreeMap<&'m str, Vec<(Ns, &'m Denied)>> = BTreeMap::new();
    for (at_ns, look) in &model.threads.looks {
        let path = look.looked_at().filter(|path| !KERNEL.iter().any(|of| path.starts_with(of)));
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
    let who = model.threads.who(&model.threads.thread_ref(asked));
    let until = match looked.is_there {
        true => "goes or changes: who has it open, and who made it, says for whom that is",
        false => "comes: who is to make it was not seen",
    };
    Some((
        format!("{who} {}.", looked.words()),
        format!("It {}. Either it only watches it, or it waits until it {until}.", looked.state()),
    ))
}

/// Of an end that is a sleep, what the first of its chain does so, as a verb.
pub(super) fn does(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    of_link(measures, end, 0).map(|looked| looked.words())
}

/// Of such an end, what more is to be said: whether the name is there, and who else in its chain looks at one.
pub(super) fn of_end(measures: &Measures<'_>, end: &AnswerEnd) -> Option<String> {
    let links = end.chain.iter().enumerate().rev();
    let (at, link, looked) =
        links.filter_map(|(at, link)| Some((at, link, of_link(measures, end, at)?))).next()?;
    Some(match at {
        0 => format!("{} {}", looked.path, looked.state()),
        _ => format!("{} {}; it {}", by_name(&link.who), looked.words(), looked.state()),
    })
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
        let (_, text) = looks(&["/run/web.sock"; 10], 2);
        assert!(text.contains("is not there"), "{text}");
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
    fn who_looks_once_or_where_the_kernel_shows_itself_only_sleeps() {
        let once: Vec<String> = (0..10).map(|at| format!("/srv/{at}")).collect();
        let once: Vec<&str> = once.iter().map(String::as_str).collect();
        for paths in [&once[..], &["/proc/stat"; 10]] {
            let (title, text) = looks(paths, 0);
            assert!(!format!("{title} {text}").contains("looks at"), "{title} {text}");
        }
    }
}
