//! Lets a recording of a host answer for one of its processes or containers, by replacing whom it looked at: so the facts of a host
//! answer every question that a look at its part would have.
//!
//! Must not: look anything up outside the recording.

use holdup_probe::plan::Target as Aim;
use holdup_reason::facts::{Target, TargetKind};
use holdup_reason::model::Model;

/// Why a recording does not answer for somebody: one clause.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotThere(String);

/// Narrows what was recorded; `Aim::Host` leaves it as it is.
pub fn narrow(model: &mut Model, aim: &Aim) -> Result<(), NotThere> {
    if *aim == Aim::Host {
        return Ok(());
    }
    let Some(recorded) = model.look.target.clone() else {
        return Err(NotThere("it does not say whom it looked at".into()));
    };
    let (whom, wanted) = match aim {
        Aim::Process(pid) => (format!("process {pid}"), process_in(model, *pid)),
        Aim::Container(name) => (format!("container {name}"), container_in(model, name)),
        Aim::Host | Aim::Command(_) => ("a command".into(), None),
    };
    let Some(wanted) = wanted else {
        return Err(NotThere(format!("{whom} is not in it")));
    };
    if recorded.kind != TargetKind::Host && recorded != wanted {
        let same = recorded.kind == wanted.kind && recorded.pid == wanted.pid;
        if same && (recorded.name == wanted.name || recorded.pid != 0) {
            return Ok(());
        }
        let kind = kind_word(recorded.kind);
        return Err(NotThere(format!("it looked at {kind} {} only", recorded.name)));
    }
    model.look.target = Some(wanted);
    Ok(())
}

fn process_in(model: &Model, pid: u32) -> Option<Target> {
    let sums =
        || model.threads.times.iter().map(|time| &time.thread).find(|thread| thread.tid == pid);
    let thread = model.threads.by_id.get(&pid).map(|it| &it.thread).or_else(sums)?;
    let name = thread.comm.clone();
    Some(Target { kind: TargetKind::Process, name, pid, cgroups: Vec::new(), words: Vec::new() })
}

fn container_in(model: &Model, name: &str) -> Option<Target> {
    let containers = || model.containers.all.iter();
    let exact = containers().find(|it| it.name == name || it.id == name);
    let mut by_id = containers().filter(|it| it.id.starts_with(name));
    // Reported at both ends of a look, it is still one.
    let first = by_id.next();
    let found = exact.or_else(|| first.filter(|it| by_id.all(|other| other.id == it.id)))?;
    Some(Target {
        kind: TargetKind::Container,
        name: found.name.clone(),
        pid: 0,
        cgroups: found.cgroups.clone(),
        words: Vec::new(),
    })
}

fn kind_word(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Host => "host",
        TargetKind::Container => "container",
        TargetKind::Process => "process",
        TargetKind::Command => "command",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{Body, Container, Fact, Thread, ThreadRef};

    fn host_recording() -> Model {
        let target = Target {
            kind: TargetKind::Host,
            name: "web".into(),
            pid: 0,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        let thread = Thread {
            thread: ThreadRef { tid: 812, pid: 812, start_ns: 1, comm: "nginx".into() },
            ..Thread::default()
        };
        let container = |name: &str, id: &str| {
            let cgroups = vec![format!("/docker/{id}")];
            Container { name: name.into(), id: id.into(), cgroups, ..Container::default() }
        };
        let mut model = Model::default();
        for body in [
            Body::Target(target),
            Body::Thread(thread),
            Body::Container(container("web-1", "3f2a9c")),
            Body::Container(container("web-2", "3f77aa")),
            Body::Container(container("web-1", "3f2a9c")),
        ] {
            model.push(Fact { at_ns: 0, body });
        }
        model
    }

    fn target(model: &Model) -> &Target {
        model.look.target.as_ref().expect("it has one")
    }

    #[test]
    fn a_recording_of_a_host_answers_for_its_parts() {
        let mut model = host_recording();
        narrow(&mut model, &Aim::Process(812)).expect("812 is in it");
        assert_eq!((target(&model).name.as_str(), target(&model).pid), ("nginx", 812));
        let mut model = host_recording();
        narrow(&mut model, &Aim::Container("3f2".into())).expect("3f2 is unique");
        assert_eq!(target(&model).cgroups, ["/docker/3f2a9c"]);
        for wrong in [Aim::Process(813), Aim::Container("3f".into())] {
            assert!(narrow(&mut host_recording(), &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_recording_of_a_process_answers_for_no_other() {
        let mut model = host_recording();
        narrow(&mut model, &Aim::Process(812)).expect("812 is in it");
        assert!(narrow(&mut model, &Aim::Container("web-1".into())).is_err());
        assert!(narrow(&mut model, &Aim::Process(812)).is_ok());
    }
}
