//! What a process is called since it executed its program.
//!
//! A thread is mentioned by the name that it had when it was mentioned: as a child just made, as the owner of a descriptor
//! that was listed before it executed something else. Who is blamed is looked for under the name that it has now. Must
//! not: replace a name that a program gave itself after its start.

use crate::facts::{Exec, ThreadRef};
use crate::model::Model;

/// A thread by its present name: that of a former program is replaced by what the process executed last.
pub fn present(model: &Model, thread: &ThreadRef) -> ThreadRef {
    let executed: Vec<&(u64, Exec)> =
        model.threads.execs.iter().filter(|(_, exec)| exec.thread.pid == thread.pid).collect();
    let Some((last_ns, last)) = executed.iter().max_by_key(|(at, _)| *at) else {
        return thread.clone();
    };
    let name = &last.thread.comm;
    let born = model.threads.forks.iter().map(|(_, fork)| &fork.child);
    let born = born.filter(|child| child.tid == thread.pid).map(|child| &child.comm);
    let before = executed.iter().filter(|(at, _)| at < last_ns).map(|(_, exec)| &exec.thread.comm);
    let former: Vec<&String> = born.chain(before).filter(|former| *former != name).collect();
    let is_former = |comm: &String| comm.is_empty() || former.contains(&comm);
    if !is_former(&thread.comm) {
        return thread.clone();
    }
    let known = model.threads.names.get(&thread.tid).map(|known| &known.comm);
    let comm = known.filter(|known| !is_former(known)).unwrap_or(name).clone();
    ThreadRef { comm, ..thread.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// Process 10 is made by a shell, executes `tar`, and is mentioned by another name after that.
    fn model(then: &str) -> Model {
        let fork = Fork { parent: thread(5, "bash"), child: thread(10, "bash"), flags: 0x11 };
        let exec = Exec { thread: thread(10, "tar"), path: "/bin/tar".into(), ..Exec::default() };
        let wake = Wake { by: thread(10, then), ..Wake::default() };
        let mut facts = host();
        facts.push(Fact { at_ns: 1, body: Body::Fork(fork) });
        facts.push(Fact { at_ns: 2, body: Body::Exec(exec) });
        facts.push(fact(Body::Wait(Wait {
            thread: thread(20, "gzip"),
            wake: Some(wake),
            ..Wait::default()
        })));
        Model::new(facts)
    }

    #[test]
    fn a_name_from_before_the_program_is_replaced() {
        assert_eq!(present(&model("bash"), &thread(10, "bash")).comm, "tar");
        assert_eq!(present(&model("bash"), &thread(10, "")).comm, "tar");
    }

    #[test]
    fn a_name_that_a_program_gave_itself_stays() {
        assert_eq!(present(&model("tar: /srv"), &thread(10, "tar: /srv")).comm, "tar: /srv");
        assert_eq!(present(&model("tar: /srv"), &thread(10, "bash")).comm, "tar: /srv");
    }
}
