//! lock.replica: a commit waits until another server says that it has it.
//!
//! The kernel sees a session that waits for an event. That it is this one the server says: in the event that it writes down before it
//! waits, or by the functions on its stack. Whether a process of the server sends to a replica at all is in the titles of its processes, if it
//! has one for each. Must not: say why a replica does not answer, which is on another host, or that one is missing where titles do not tell.

use crate::facts::{SessionWait, Thread};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::doors;
use crate::model::words;
use crate::programs::lock_kind::LockKind;
use crate::programs::{self, ReplicaSetting};
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Culprit, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::waits::session_wait;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.replica",
    title: "A commit waits for the confirmation of a replica",
    theory: "With synchronous replication a server answers a commit only once a replica has said that it has the data. If none is \
             connected, or the one that counts is slow, each commit waits, for ever or until a timeout: the data is safe here, and \
             nothing here is slow.",
    needs: &[
        "the server's own event, or its functions, say that the session waits for a replica's confirmation",
        "its client waits for it meanwhile",
    ],
    refuted_by: &[Refutation::new(
        "the server says that the session waits for something else, as a lock of its own table",
        "a_lock_of_the_servers_own_is_no_replica",
    )],
    remedies: &[
        "connect the replica again, or have another one count",
        "have commits wait for nobody until it is back: what is committed meanwhile is on this host alone",
    ],
    stories: &[],
    thresholds: &[],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let kind = end.lock_kind(measures.model)?;
    if end.kind != EndKind::Lock || kind != LockKind::Replica {
        return None;
    }
    let program = measures.model.threads.process_name(end.links[end.named].who.pid);
    let setting = programs::of(&program).and_then(|it| it.replica.as_ref());
    let by = setting.map_or_else(Culprit::default, |it| Culprit::setting(&*program, it.name));
    let explain = move |loss: &Loss<'_>| explain(measures, end, setting, loss);
    Some(Match::new(by, Proof::Read, explain))
}

/// What the server's memory said of the wait that names an end.
pub(super) fn read<'m>(measures: &Measures<'m>, end: &End) -> Option<&'m SessionWait> {
    let link = &end.links[end.named];
    let read = session_wait::reading(measures.model, &link.who, link.since_ns, link.end_ns);
    read.map(|(read, _)| read)
}

/// Who sends to a replica, as a sentence; empty where the server's processes do not say that, or were not seen.
fn sender(measures: &Measures<'_>, end: &End, setting: &ReplicaSetting) -> String {
    let threads = &measures.model.threads;
    let session = threads.identity(&end.links[end.named].who).filter(|it| it.parent_pid != 0);
    let Some((sends, session)) = setting.sender.zip(session) else { return String::new() };
    let has_ended = |it: &Thread| {
        threads.exits.iter().any(|(_, exit)| threads.is_same(&exit.thread, &it.thread))
    };
    let of_server = |it: &&Thread| {
        it.parent_pid == session.parent_pid && it.executable == session.executable && !has_ended(it)
    };
    // Each server has a process for its checkpoints: where that was not seen, others were not either.
    let all_seen = |it: &Thread| programs::brings_about(&it.command, Some(LockKind::Checkpoint));
    let mut others = threads.by_id.values().filter(of_server);
    match others.clone().find(|it| sends(&it.command)) {
        Some(it) => format!(
            " {} sends to a replica; whether it is one that counts is not seen.",
            words::who(&it.thread)
        ),
        None if others.any(all_seen) => {
            " No process of the server sends to a replica: none is connected.".to_string()
        }
        None => String::new(),
    }
}

fn explain(
    measures: &Measures<'_>,
    end: &End,
    setting: Option<&ReplicaSetting>,
    loss: &Loss<'_>,
) -> Wording {
    let who = &end.links[end.named].who;
    let program = measures.model.threads.process_name(who.pid);
    let longest = wait_words::longest(measures, end);
    let value = read(measures, end).and_then(|read| read.setting.as_deref());
    let by = setting.map_or_else(String::new, |it| match value {
        Some(value) => format!(" ({} = '{value}')", it.name),
        None => format!(" ({})", it.name),
    });
    let sender = setting.map_or_else(String::new, |it| sender(measures, end, it));
    let count = end.count as usize;
    let doors = doors::of(measures.model, who.pid);
    let remedy = setting.map_or_else(Vec::new, |it| {
        let ask = Remedy::to("ask the server which replicas it has, and which count").ask(
            Question::Program,
            who,
            (it.question)(&doors),
        );
        let off = Remedy {
            undo: (it.on)(&doors),
            ..Remedy::to(
                "connect the replica again; or have commits wait for nobody until it is back, with what is committed on this host alone",
            )
            .command((it.off)(&doors))
        };
        vec![ask, off]
    });
    Wording {
        title: format!(
            "{} waits for the confirmation of a replica, which {program} is to have at each commit",
            loss.victim
        ),
        text: format!(
            "{} pass in {} inside {program}; the longest {}. The commit is done here, and is answered once a replica has it{by}.{sender}",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(count, "wait", "waits"),
            wait_words::lasted_of(&longest, loss.seconds),
        ),
        evidence: wait_words::wait_evidence(loss.seconds, count, &longest, "the replica"),
        remedy,
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// Client 10 waits for session 20 of a server, which waits for `event`; beside it is a process of the server's with this title.
    fn found(event: SessionEvent, other: &str) -> Vec<Finding> {
        let own = |pid: u32, command: &str| {
            let (thread, parent_pid, command) = (thread(pid, "postgres"), 5, command.to_string());
            identity(Thread { thread, parent_pid, command, ..Thread::default() })
        };
        let mut facts = host();
        facts.extend(client_and_server(blocked(20, "postgres", WaitState::Sleep, "epoll_wait")));
        facts.extend([
            of_process(10, "psql"),
            own(20, "postgres: app sales [local] COMMIT"),
            own(30, other),
        ]);
        let setting = Some("s'1".to_string());
        let read = SessionWait { pid: 20, event: Some(event), setting, ..SessionWait::default() };
        facts.push(Fact { at_ns: LOOK_NS / 2, body: Body::SessionWait(read) });
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "lock.replica");
        found
    }

    #[test]
    fn a_commit_waits_for_the_standby_that_a_setting_wants() {
        let found = found(SessionEvent::Replica, "postgres: checkpointer ");
        assert_eq!(found.len(), 1);
        assert!(found[0].text.contains("none is connected"), "{}", found[0].text);
        assert!(found[0].text.contains("synchronous_standby_names = 's'1'"), "{}", found[0].text);
        let way = &found[0].remedy[1];
        assert!(way.command.contains("set synchronous_standby_names = "), "{}", way.command);
        assert!(way.command.contains("alter system reset %I"), "{}", way.command);
        assert!(way.undo.contains(r#"-c "$(cat /run/holdup-standbys-"#), "{}", way.undo);
        assert_eq!(found[0].culprit.pid, None);
    }

    #[test]
    fn who_sends_to_a_replica_is_said() {
        let found =
            found(SessionEvent::Replica, "postgres: walsender app 10.0.0.9(4000) streaming");
        assert!(found[0].text.contains("postgres 30 sends to a replica"), "{}", found[0].text);
    }

    #[test]
    fn a_cluster_hides_no_sender_and_where_processes_were_not_seen_none_is_missed() {
        let text = |other: &str| found(SessionEvent::Replica, other)[0].text.clone();
        let sends = text("postgres: 15/main: walsender app 10.0.0.9(4000) streaming 0/3000148");
        assert!(sends.contains("whether it is one that counts is not seen"), "{sends}");
        assert!(text("postgres: 15/main: checkpointer ").contains("none is connected"));
        let unseen = text("postgres: 15/main: app sales [local] idle");
        assert!(!unseen.contains("none is connected"), "{unseen}");
    }

    #[test]
    fn a_lock_of_the_servers_own_is_no_replica() {
        assert!(found(SessionEvent::RowLock, "postgres: checkpointer ").is_empty());
        assert!(found(SessionEvent::Checkpoint, "postgres: checkpointer ").is_empty());
    }
}
