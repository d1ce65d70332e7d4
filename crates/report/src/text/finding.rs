//! One finding as text: the verdict, the paragraph, who waits, the chain, the way out.
//!
//! What is said twice is left out: one victim that the chain begins with, a holder that is its last
//! link. Names are cut here for the line; commands never are, they must run as they stand.

use super::escape;
use super::page::{Page, Tone};
use holdup_reason::answer::{
    Culprit, CulpritKind, Finding, LeftOut, Link, LogLine, ObjectName, Remedy, Severity, Victim,
    Who, WithoutIt,
};
use holdup_reason::model::figures;

/// Three lines of verdict.
const TITLE_WIDTH_MAX: usize = 236;
/// Ten lines of paragraph.
const TEXT_WIDTH_MAX: usize = 760;
/// Columns of a pod with its container.
const WORKLOAD: usize = 60;
/// Columns of a plain group.
const GROUP: usize = 30;
/// Columns of one participant of a chain.
const LINK_WIDTH_MAX: usize = 44;
/// The kernel's names of threads are shorter.
const THREAD_WIDTH_MAX: usize = 16;
/// What stands around an object in a chain: `<- ` and ` (12 min 5 s)`.
const JOINT_AND_TIME: usize = 16;
/// Columns of one function of a stack.
const FRAME_WIDTH_MAX: usize = 60;
/// Links shown before the middle is folded.
const LINKS: usize = 12;
/// Victims shown by name.
const VICTIMS: usize = 3;
/// Lines of the kernel's log shown without -v, and with it.
pub(super) const LOG_LINES: usize = 2;
/// See [`LOG_LINES`].
pub(super) const LOG_LINES_VERBOSE: usize = 40;
/// Three lines of one of them.
const LOG_WIDTH_MAX: usize = 220;
/// Ways out shown without -v.
const REMEDIES: usize = 2;
/// Below this, the verdict says how sure it is.
const SURE: f64 = 0.8;

/// The whole block; `left_out` is what its list of victims lost.
pub(super) fn render(
    finding: &Finding,
    left_out: Option<&LeftOut>,
    verbose: bool,
    page: &mut Page,
) {
    page.verdict(&sentence(&finding.title, TITLE_WIDTH_MAX), tone(finding.severity));
    if !finding.text.is_empty() {
        page.paragraph(&escape::prose(&finding.text, TEXT_WIDTH_MAX));
    }
    details(finding, left_out, verbose, page);
}

/// How bad it is, as a tone.
pub(crate) fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Critical => Tone::Critical,
        Severity::Warning => Tone::Warning,
        Severity::Note => Tone::Plain,
    }
}

/// A finding that nobody waits for: its verdict, its paragraph and one way out.
pub(super) fn note(finding: &Finding, left_out: Option<&LeftOut>, verbose: bool, page: &mut Page) {
    let title = escape::prose(&finding.title, TITLE_WIDTH_MAX);
    page.item(&format!("{} ({})", title.trim_end_matches('.'), escape::name(&finding.code, 40)));
    if verbose {
        page.paragraph(&escape::prose(&finding.text, TEXT_WIDTH_MAX));
        details(finding, left_out, true, page);
    }
}

/// The same where little room is seen at once: what one acts on first, then who waits, then what proves it. All of it if `whole`.
pub(super) fn on_a_screen(
    finding: &Finding,
    left_out: Option<&LeftOut>,
    whole: bool,
    page: &mut Page,
) {
    page.verdict(&sentence(&finding.title, TITLE_WIDTH_MAX), tone(finding.severity));
    chain_or_culprit(finding, page);
    ways_out(finding, whole, page);
    page.gap();
    page.paragraph(&escape::prose(&finding.text, TEXT_WIDTH_MAX));
    who_waits(finding, left_out, whole, page);
    around(finding, whole, page);
    proof(finding, page);
    page.labelled("more", &more(finding));
}

fn details(finding: &Finding, left_out: Option<&LeftOut>, verbose: bool, page: &mut Page) {
    who_waits(finding, left_out, verbose, page);
    chain_or_culprit(finding, page);
    around(finding, verbose, page);
    ways_out(finding, verbose, page);
    if verbose {
        proof(finding, page);
    }
    page.labelled("more", &more(finding));
}

fn who_waits(finding: &Finding, left_out: Option<&LeftOut>, verbose: bool, page: &mut Page) {
    if let Some(victims) = victims(finding, left_out, verbose) {
        let waits = finding.victims.iter().any(|victim| victim.wait_seconds > 0.0);
        page.labelled(if waits { "waits" } else { "hit" }, &victims);
    }
}

fn chain_or_culprit(finding: &Finding, page: &mut Page) {
    match chain(finding, page.columns_labelled()) {
        pieces if pieces.len() > 1 => page.joined("chain", &pieces, " <- "),
        _ => {
            if let Some(culprit) = culprit(&finding.culprit) {
                page.labelled("by", &culprit);
            }
        }
    }
}

/// What a command would save, where a setting is, what the kernel said.
fn around(finding: &Finding, verbose: bool, page: &mut Page) {
    without(&finding.without_it, page);
    if let Some(setting) = &finding.culprit.setting
        && !finding.remedy.iter().any(|remedy| remedy.command.contains(setting.as_str()))
        && !finding.text.contains(setting.as_str())
    {
        page.labelled("set in", &escape::name(setting, page.columns_labelled()));
    }
    log(&finding.kernel_log, if verbose { LOG_LINES_VERBOSE } else { LOG_LINES }, page);
}

fn ways_out(finding: &Finding, verbose: bool, page: &mut Page) {
    let shown = if verbose { finding.remedy.len() } else { REMEDIES };
    for (at, way) in finding.remedy.iter().take(shown).enumerate() {
        remedy(way, if at == 0 { "do" } else { "or" }, page);
    }
}

/// Why it is said.
fn proof(finding: &Finding, page: &mut Page) {
    ways(&finding.chain, page);
    stacks(&finding.chain, page);
    for evidence in &finding.evidence {
        let value = figures::measured(evidence.value, &evidence.unit);
        let fact = escape::prose(&evidence.fact, 240);
        let (value, source) = (escape::line(&value), escape::name(&evidence.source, 60));
        page.labelled("seen", &format!("{fact}: {value} ({source})"));
    }
}

/// What the kernel itself said of it.
pub(super) fn log(lines: &[LogLine], shown: usize, page: &mut Page) {
    for line in lines.iter().take(shown) {
        let more = match line.more {
            0 => String::new(),
            more => format!(" (and {} more like it)", figures::count(more)),
        };
        let text = escape::prose(&line.text, LOG_WIDTH_MAX);
        let at = figures::seconds(line.seconds);
        page.labelled("log", &format!("at {at}: {text}{more}"));
    }
    let more = lines.len().saturating_sub(shown);
    if more > 0 {
        page.labelled("", &format!("and {more} more lines (with -v)"));
    }
}

/// Of a command: what it would save at most; the reason where that is less than what was lost.
pub(super) fn without(without: &WithoutIt, page: &mut Page) {
    if let Some(seconds) = without.seconds_max {
        let why = escape::prose(&without.why, TEXT_WIDTH_MAX);
        let saved = match figures::seconds(seconds).as_str() {
            "0 s" => "it takes as long".into(),
            saved => format!("up to {saved} less"),
        };
        page.labelled("without", &format!("{saved}: {why}"));
    }
}

fn more(finding: &Finding) -> String {
    let sure = 100.0 * finding.confidence;
    let hint = format!("holdup explain {}", escape::line(&finding.code));
    match finding.confidence < SURE {
        true => format!("{hint}   (only {sure:.0} % sure)"),
        false => format!("{hint}   ({sure:.0} % sure)"),
    }
}

/// Who waits, unless the chain says it all.
fn victims(finding: &Finding, left_out: Option<&LeftOut>, verbose: bool) -> Option<String> {
    if finding.victims.is_empty() || (finding.victims.len() == 1 && !finding.chain.is_empty()) {
        return None;
    }
    let shown = if verbose { 20 } else { VICTIMS };
    let first = &finding.victims[..finding.victims.len().min(shown)];
    let mut parts = list_of(first);
    let rest = finding.victims.get(shown..).unwrap_or_default();
    let count = rest.len() + left_out.map_or(0, |cut| cut.count);
    if count > 0 {
        let seconds: f64 = rest.iter().map(|it| it.wait_seconds).sum();
        let seconds = seconds + left_out.and_then(|cut| cut.wait_seconds).unwrap_or_default();
        let lost = match seconds > 0.0 {
            true => format!(" ({})", figures::seconds(seconds)),
            false => String::new(),
        };
        parts.push(format!("{count} more{lost}"));
    }
    Some(parts.join(", "))
}

/// Those who wait, each with its group and what it lost. Who is in the group of the one before it says so: its name may be longer than
/// all else.
pub(crate) fn list_of(victims: &[Victim]) -> Vec<String> {
    let mut before: Option<&Victim> = None;
    let mut list = Vec::with_capacity(victims.len());
    for one in victims {
        // By the whole names: those that are shown may be cut to the same.
        let is_same = |last: &Victim| {
            (&last.workload.name, &last.container) == (&one.workload.name, &one.container)
        };
        let group = match group_of(one) {
            Some(_) if before.is_some_and(is_same) => " in the same".into(),
            Some(group) => format!(" in {group}"),
            None => String::new(),
        };
        list.push(victim_in(one, &group));
        before = Some(one);
    }
    list
}

/// Somebody who waits, with his group and what he lost.
pub(crate) fn victim(victim: &Victim) -> String {
    let group = group_of(victim).map(|group| format!(" in {group}"));
    victim_in(victim, &group.unwrap_or_default())
}

/// The group of somebody who waits, as it is called.
fn group_of(victim: &Victim) -> Option<String> {
    match (&victim.workload.name, &victim.container) {
        (Some(name), _) => Some(escape::name(name, WORKLOAD)),
        (None, Some(group)) => Some(escape::name(group, GROUP)),
        (None, None) => None,
    }
}

fn victim_in(victim: &Victim, group: &str) -> String {
    let name = escape::name(&victim.comm, 24);
    let pid = pid(victim.pid, victim.inner_pid);
    // Somebody who was killed lost no time by it.
    let lost = match victim.wait_seconds > 0.0 {
        true => format!(" ({})", figures::seconds(victim.wait_seconds)),
        false => String::new(),
    };
    format!("{name} {pid}{group}{lost}")
}

/// `who, object (time), who, object (time), ..., root`.
fn chain(finding: &Finding, room: usize) -> Vec<String> {
    let mut pieces = chain_of(&finding.chain, room);
    if let Some(last) = finding.chain.last()
        && let Some(root) = root(&finding.culprit, &finding.chain, last)
    {
        pieces.push(root);
    }
    pieces
}

/// The links of a chain: `who, object (time), who, object (time)`.
pub(crate) fn chain_of(links: &[Link], room: usize) -> Vec<String> {
    let width = LINK_WIDTH_MAX.min(room.saturating_sub(JOINT_AND_TIME));
    let mut pieces = Vec::new();
    let mut last: Option<&Link> = None;
    let mut container: Option<&str> = None;
    for link in fold(links) {
        let Some(link) = link else {
            pieces.push("...".into());
            continue;
        };
        // Named already: it waits on two things in turn, or was the object itself.
        let named = last.is_some_and(|last| {
            is_same(&last.who, &link.who)
                || (link.who.pid.is_none() && last.waits_on.name == link.who.name)
        });
        if !named {
            let who = who(&link.who, width);
            let own = container_of(&link.who);
            match own.filter(|own| container != Some(*own)) {
                Some(own) => pieces.push(format!("{who} in {}", escape::name(own, WORKLOAD))),
                None => pieces.push(who),
            }
            container = own;
        }
        let object = object(&link.waits_on, width);
        pieces.push(format!("{object} ({})", figures::seconds(link.seconds)));
        last = Some(link);
    }
    pieces
}

/// The container of a runtime that somebody is in: a unit or a group of the host itself says little in a chain.
fn container_of(who: &Who) -> Option<&str> {
    who.workload.runtime.as_ref()?;
    who.workload.name.as_deref()
}

/// Whether two links are of one thread, wherever in its program it waits.
fn is_same(one: &Who, other: &Who) -> bool {
    (&one.kind, &one.name, one.pid, one.tid) == (&other.kind, &other.name, other.pid, other.tid)
}

/// Why a chain goes on as it does: who was followed to, and because of what.
pub(super) fn ways(links: &[Link], page: &mut Page) {
    for pair in links.windows(2) {
        let [link, next] = pair else { continue };
        if let Some(because) = &link.because {
            let next = who(&next.who, LINK_WIDTH_MAX);
            let because = escape::prose(because, TEXT_WIDTH_MAX);
            page.labelled("why", &format!("followed to {next} because {because}"));
        }
    }
}

/// The functions of programs that led to the waits of a chain, as far as they were read.
pub(super) fn stacks(links: &[Link], page: &mut Page) {
    for link in links.iter().filter(|link| !link.stack.is_empty()) {
        let frames: Vec<String> =
            link.stack.iter().map(|frame| escape::name(frame, FRAME_WIDTH_MAX)).collect();
        let who = who(&link.who, LINK_WIDTH_MAX);
        page.labelled("stack", &format!("{who}: {}", frames.join(" <- ")));
    }
}

/// The ends matter: who waits, and the root.
fn fold(links: &[Link]) -> Vec<Option<&Link>> {
    if links.len() <= LINKS {
        return links.iter().map(Some).collect();
    }
    let head = links.iter().take(LINKS / 2).map(Some);
    let tail = links.iter().skip(links.len() - LINKS / 2).map(Some);
    head.chain([None]).chain(tail).collect()
}

/// A participant by name, with what runs under it, and number.
pub(crate) fn who(who: &Who, width: usize) -> String {
    let name = escape::name(&who.called(), width.saturating_sub(8));
    match (who.pid, who.tid) {
        (Some(outer), Some(tid)) => {
            format!("{name} {} thread {tid}{}", pid(outer, who.inner_pid), own(who.thread_name()))
        }
        (Some(outer), None) => format!("{name} {}", pid(outer, who.inner_pid)),
        _ => name,
    }
}

/// ` (isc-net-0002)`: the name that a thread has beside its program's.
fn own(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" ({})", escape::name(name, THREAD_WIDTH_MAX)))
}

/// A process by the host's number, with the one that it has inside its container beside it.
fn pid(outer: u32, inner: Option<u32>) -> String {
    match inner {
        Some(inner) => format!("{outer} ({inner} inside)"),
        None => outer.to_string(),
    }
}

/// The culprit as the end of the chain, if the chain does not tell it already.
fn root(culprit: &Culprit, chain: &[Link], last: &Link) -> Option<String> {
    let reported = chain.iter().any(|link| match (culprit.pid, link.who.pid) {
        (Some(culprit_pid), Some(pid)) => {
            culprit_pid == pid && (culprit.tid.is_none() || culprit.tid == link.who.tid)
        }
        _ => culprit.name == link.who.name,
    });
    let is_object = culprit.pid.is_none() && culprit.name == last.waits_on.name;
    if reported || is_object { None } else { self::culprit(culprit) }
}

fn culprit(culprit: &Culprit) -> Option<String> {
    if culprit.kind == CulpritKind::None {
        return None;
    }
    let program = culprit.program.as_ref();
    let mut text = escape::name(program.unwrap_or(&culprit.name), LINK_WIDTH_MAX);
    let process = culprit.pid.map(|outer| pid(outer, culprit.inner_pid));
    let thread_name = own(program.map(|_| culprit.name.as_str()));
    let thread = culprit.tid.map(|tid| format!("thread {tid}{thread_name}"));
    for number in [process, thread].into_iter().flatten() {
        text = format!("{text} {number}");
    }
    if let Some(address) = culprit.address.as_ref().filter(|address| **address != culprit.name) {
        text = format!("{text} at {}", escape::name(address, 50));
    }
    let workload = culprit.workload.name.as_ref().map(|name| (name, WORKLOAD));
    let group = || culprit.container.as_ref().map(|group| (group, GROUP));
    if let Some((name, width)) = workload.or_else(group).filter(|(it, _)| **it != culprit.name) {
        text = format!("{text} in {}", escape::name(name, width));
    }
    Some(text)
}

/// An object by kind and name, the kind left out where the name says it.
pub(crate) fn object(object: &ObjectName, width: usize) -> String {
    let kind = escape::line(&object.kind);
    if object.name.is_empty() {
        return escape::name(&kind, width);
    }
    if object.name.starts_with(&object.kind) {
        return escape::name(&object.name, width);
    }
    let room = width.saturating_sub(kind.len() + 1).max(12);
    format!("{kind} {}", escape::name(&object.name, room))
}

fn remedy(remedy: &Remedy, label: &str, page: &mut Page) {
    let text = escape::prose(&remedy.text, TEXT_WIDTH_MAX);
    let mut label = label;
    if !text.is_empty() {
        page.labelled(label, &text);
        label = "";
    }
    if !remedy.command.is_empty() {
        command(&remedy.command, label, page);
    }
    if !remedy.undo.is_empty() {
        command(&remedy.undo, "undo", page);
    }
}

/// A command must not be shortened; one that cannot be shown as it is must not be copied either.
pub(super) fn command(command: &str, label: &str, page: &mut Page) {
    let safe = escape::line(command);
    page.command(label, &safe);
    if safe != command {
        page.labelled("", "(a name in it cannot be shown: take the command from --json)");
    }
}

/// A verdict ends with one full stop.
fn sentence(text: &str, width: usize) -> String {
    let text = escape::prose(text, width);
    match text.ends_with(['.', '!', '?']) {
        true => text,
        false => format!("{text}."),
    }
}
