//! A process that was asked about and was started so that it waits for a debugger: nobody but who attaches lets it go on.
//!
//! Its threads rest as those of any server at rest do, beside a listener. What tells it is the function that its runtime waits in for the
//! first debugger (programs/): one that was started with a debugger's listener and runs never stands there. Must not: take a listener, or an
//! option of the command line, for the wait itself (both stay when a debugger has come and gone). Rejected: a program that stands at a
//! breakpoint (somebody has it in hand, and knows). Edit together: standing.rs.

use crate::facts::{TargetKind, UserStack};
use crate::measure::{Measures, doors};
use crate::model::words;
use crate::programs;
use crate::waits::timeline::WaitSpan;

/// Title and paragraph, if the process that was asked about stands so.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?.pid;
    let stack_of = |wait: &WaitSpan| model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    let stands = |wait: &&WaitSpan| {
        wait.thread.pid == asked && wait.standing && model.look.began_before(wait.begin_ns)
    };
    let function = |stack: &UserStack| {
        programs::awaits_debugger(&stack.frames).map(|frame| frame.function.clone())
    };
    let (wait, function) = measures
        .waits()
        .filter(stands)
        .find_map(|wait| Some((wait, stack_of(wait).and_then(function)?)))?;
    // Before its program has begun a process listens for nobody else.
    let listens = match &doors::of(model, asked).tcp[..] {
        [only] => format!(", which may attach at {only}"),
        _ => String::new(),
    };
    let who = model.threads.who(&model.threads.thread_ref(asked));
    let least = if wait.begin_estimated { "at least " } else { "" };
    let lasts = words::seconds(wait.end_ns.saturating_sub(wait.begin_ns) as f64 / 1e9);
    Some((
        format!("{who} waits for a debugger{listens}: it was started so, and has not begun."),
        format!(
            "It has stood in {function}() for {least}{lasts}. It goes on once one attaches, or if it is started without that option."
        ),
    ))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    /// Title about process 10, whose main thread stands in these functions beside listeners at these ports.
    fn title(functions: &[&str], ports: &[u16]) -> String {
        let args = [0x7f00_0000_1000, 9 | 128, 0, 0, 0, 0];
        let place =
            Place { state: WaitState::Sleep, syscall: "futex".into(), args, ..Place::default() };
        let frame = |name: &&str| UserFrame {
            function: (*name).to_string(),
            module: "node".into(),
            line: 0,
        };
        let frames = functions.iter().map(frame).collect();
        let stack = UserStack { thread: thread(10, "node"), since_ns: 0, frames, complete: true };
        let mut facts = [host(), vec![of_process(10, "node")]].concat();
        for port in ports {
            let listens =
                inet("tcp", u64::from(*port), &format!("127.0.0.1:{port}"), "0.0.0.0:0", 10);
            facts.push(endpoint(10, "node", listens));
        }
        facts.push(at_place(10, "node", place));
        facts.push(Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) });
        explain(facts).answer.title
    }

    const NODE: [&str; 3] = [
        "uv_cond_wait",
        "MainThreadInterface::WaitForFrontendEvent",
        "node::inspector::Agent::WaitForConnectByOptions",
    ];
    const JAVA: [&str; 2] = ["debugMonitorWait", "transport_waitForConnection"];

    #[test]
    fn who_was_started_to_wait_for_a_debugger_is_not_idle() {
        let said = title(&NODE, &[9229]);
        assert_eq!(
            said,
            "node 10 waits for a debugger, which may attach at 127.0.0.1:9229: it was started so, and has not begun."
        );
        assert!(title(&JAVA, &[5005]).contains("attach at 127.0.0.1:5005"));
        let of_two = title(&JAVA, &[5005, 80]);
        assert!(of_two.contains("waits for a debugger: "), "which of both is not known: {of_two}");
    }

    #[test]
    fn who_only_listens_for_one_rests_as_before() {
        for functions in
            [&["uv_cond_wait", "InspectorIo::ThreadMain"][..], &["debugMonitorWait", "commandLoop"]]
        {
            let said = title(functions, &[9229]);
            assert!(!said.contains("debugger"), "{said}");
        }
    }
}
