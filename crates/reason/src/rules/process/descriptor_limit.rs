//! process.descriptor_limit: a new descriptor is refused, and whoever wants it sleeps before it tries again.
//!
//! EMFILE is the process's own RLIMIT_NOFILE, ENFILE the host's fs.file-max: the error itself says which, and the limit is read
//! at the refusal. Servers that may not accept sleep and try again, and their clients wait in the accept queue meanwhile.
//! Must not: blame a limit that a caller without sleeps met.

use super::raised_limit;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::refusals::Tries;
use crate::model::object::Object;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.descriptor_limit",
    title: "New descriptors are refused",
    theory: "Each open file and each connection takes a descriptor. RLIMIT_NOFILE limits those of a process (EMFILE), \
             fs.file-max all of the host (ENFILE). A server that may not accept a connection sleeps and tries again, while \
             its clients wait and do not know why; a program that leaks descriptors comes here after hours or days.",
    needs: &[
        "a call returned EMFILE or ENFILE, and the caller slept before it tried again",
        "RLIMIT_NOFILE of the caller as the kernel had it at the refusal (EMFILE)",
    ],
    refuted_by: &[
        Refutation::new(
            "the caller did not sleep after the refusal",
            "a_caller_that_goes_on_waits_for_nothing",
        ),
        Refutation::new("something else was refused", "another_error_is_no_limit_on_descriptors"),
    ],
    remedies: &[
        "see which descriptors it has, and close those that it leaks",
        "raise RLIMIT_NOFILE (LimitNOFILE=, ulimit -n), or fs.file-max",
    ],
    stories: &[],
    thresholds: &[&refusal_words::SLEPT_MIN],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    if end.class != WaitClass::RefusedLimit {
        return None;
    }
    let is_own = match end.object {
        Object::Limit("RLIMIT_NOFILE") => true,
        Object::Limit("fs.file-max") => false,
        _ => return None,
    };
    let tries = refusal_words::tries(measures, end)?;
    let (kind, setting) = (CulpritKind::Setting, Some("RLIMIT_NOFILE".into()));
    let by = match is_own {
        true => Culprit { kind, setting, ..culprit(measures.model, &tries.last.thread) },
        false => Culprit::setting("fs.file-max", "fs.file-max"),
    };
    Some(Match::new(by, Proof::Read, move |loss| explain(measures, &tries, is_own, loss)))
}

fn explain(measures: &Measures<'_>, tries: &Tries<'_>, is_own: bool, loss: &Loss<'_>) -> Wording {
    let (victim, pid) = (refusal_words::subject(measures, tries, loss), tries.last.thread.pid);
    let by = measures.model.threads.who(&tries.last.thread);
    let slept = refusal_words::between(tries, loss.seconds, loss.wall_seconds);
    let mut evidence = refusal_words::evidence(tries, loss.seconds);
    if !is_own {
        return Wording {
            title: format!(
                "{victim} may not open anything: the host has as many open files as fs.file-max allows"
            ),
            text: format!(
                "{slept} Every process of the host is refused so, but those with CAP_SYS_ADMIN."
            ),
            evidence,
            remedy: vec![Remedy {
                text: "see how many are open, and how many may be".into(),
                command: "cat /proc/sys/fs/file-nr".into(),
                action: Some(Action::look(Question::State)),
                ..Remedy::default()
            }],
        };
    }
    let limit = tries.last.limit.map_or(0, |limit| limit.limit);
    evidence.push(Evidence::new(
        "RLIMIT_NOFILE at the refusal",
        limit as f64,
        "1",
        "struct rlimit",
    ));
    let who = &tries.last.thread;
    let met = tries.last.limit;
    let text = "let it have twice as many, if it does not leak them";
    let of = ("--nofile", "RLIMIT_NOFILE");
    let more = met.map(|met| raised_limit::twice(measures, text, who, of, &met));
    let see =
        Remedy::to("see which it has").ask(Question::State, who, format!("ls -l /proc/{pid}/fd"));
    Wording {
        title: format!(
            "{victim} may not open anything: {by} has all the {limit} descriptors that it may have"
        ),
        text: format!("{slept} Whoever waits for what it would open waits with it."),
        evidence,
        remedy: more.into_iter().chain([see]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::rules::wording::CulpritKind;

    const SECOND: Ns = 1_000_000_000;
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;

    /// A server that may not accept, and looks again each second.
    fn found(errno: i32, sleeps: bool) -> Vec<Finding> {
        let mut facts = host();
        facts.push(of_process(10, "httpd"));
        for at in 1..4 {
            let limit = DeniedLimit {
                kind: LimitKind::Descriptors,
                limit: 64,
                hard: 64,
                used: 0,
                cgroup_id: 0,
            };
            let refusal = Denied { errno, limit: Some(limit), ..refusal(10, "httpd", "accept4") };
            facts.push(Fact { at_ns: at * SECOND, body: Body::Denied(refusal) });
            if sleeps {
                facts.push(slept(10, "httpd", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
            }
        }
        explain(facts).findings
    }

    #[test]
    fn the_error_says_whose_limit_it_is() {
        let own = found(EMFILE, true);
        assert_eq!(
            (&*own[0].code, &*own[0].object.name),
            ("process.descriptor_limit", "RLIMIT_NOFILE")
        );
        let by = &own[0].culprit;
        assert_eq!((by.kind, by.pid), (CulpritKind::Setting, Some(10)));
        assert_eq!(by.setting.as_deref(), Some("RLIMIT_NOFILE"));
        assert_eq!(own[0].remedy[0].command, "prlimit --pid 10 --nofile=128:128");
        let host = found(ENFILE, true);
        assert_eq!(host[0].culprit.setting.as_deref(), Some("fs.file-max"));
    }

    #[test]
    fn a_caller_that_goes_on_waits_for_nothing() {
        assert_eq!(found(EMFILE, false), []);
    }

    #[test]
    fn another_error_is_no_limit_on_descriptors() {
        const EPERM: i32 = 1;
        assert!(found(EPERM, true).iter().all(|one| one.code != "process.descriptor_limit"));
    }
}
