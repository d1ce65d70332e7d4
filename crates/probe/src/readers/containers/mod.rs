//! Containers by name: which cgroups belong to one, and what its users call it.
//!
//! Theory: the cgroup path tells the runtime and mostly the id (`/docker/ID`, `libpod-ID.scope`,
//! `lxc.payload.NAME`); the runtime's state files tell the name (`state.rs`). Each v1
//! controller may hold the same container at another path, so paths are brought together by id; for
//! plain cgroups by the threads that are in both. A container is recognised by its topmost cgroups: what
//! lies below belongs to it.
//!
//! What is no container of a runtime is a unit of systemd, or a plain cgroup named by its last
//! part. No runtime is asked: its socket may hang, and needs more rights than its files.
//!
//! Rejected: matching by PID namespaces (host-pid containers have none of their own). Edit
//! together: `state.rs`, docs of `--container`.

mod state;

use crate::system::Roots;
use holdup_reason::facts::{Body, Container};
use state::State;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Length of a full container id.
const ID_HEX: usize = 64;

/// Shortest beginning of an id that is accepted.
const ID_PREFIX_MIN: usize = 4;

/// Digits of the ids that daemons draw.
const ID_OF_A_DAEMON: usize = 64;

/// Near names that an error lists.
const NEAR_MAX: usize = 5;

/// All containers, units and plain cgroups, given the `Cgroup` facts of the opening (and, to bring
/// the paths of plain cgroups together, `Thread` facts).
pub fn containers(roots: &Roots, facts: &[Body]) -> Vec<Container> {
    let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for body in facts {
        if let Body::Cgroup(cgroup) = body {
            paths.entry(&cgroup.path).or_default().push(&cgroup.directory);
        }
    }
    let mut states = state::read(roots);
    let unknown = |path: &&str| match classify(path).map(|place| place.what) {
        Some(What::Id(id, runtime)) => {
            // Below a group that is called otherwise the path does not say by whom it is run; ids of daemons are that long.
            let has_daemon = matches!(runtime, "docker" | "podman" | "cri-o" | "containerd")
                || id.len() == ID_OF_A_DAEMON;
            has_daemon && states.by_id(&id).is_none_or(|state| id.starts_with(&state.name))
        }
        _ => false,
    };
    if paths.keys().any(unknown) {
        states.read_of_daemons(roots);
        states.read_of_kubelet(roots);
    }
    let mut found = Found::default();
    for (path, directories) in &paths {
        let by_state = directories.iter().find_map(|directory| states.at(directory, path));
        match (classify(path), by_state) {
            // The state file of a runtime names a cgroup that says nothing by itself.
            (Some(Place { what: What::Plain | What::Unit, .. }) | None, Some(state)) => {
                found.add_known(&state.id, state, path);
            }
            (Some(place), _) => found.add(place, &states),
            (None, None) => {}
        }
    }
    found.drop_parts_of_known();
    found.join_plain(facts);
    found.name_pods(&states);
    found.by_key.into_values().collect()
}

/// What a cgroup path says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    what: What,
    /// Topmost cgroup that belongs to it.
    top: String,
    /// Kubernetes pod above it, by its uid.
    pod_uid: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// A container with an id, and the runtime that the path tells, if it does.
    Id(String, &'static str),
    /// A container that goes by its name.
    Name(String, &'static str),
    /// A pod itself.
    Pod(String),
    /// A unit of systemd.
    Unit,
    /// Nothing of these.
    Plain,
}

/// Reads a cgroup path; `None` for the root.
fn classify(path: &str) -> Option<Place> {
    let mut top = String::new();
    let mut before = "";
    let mut pod_uid = None;
    let mut unit = None;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        top.push('/');
        top.push_str(part);
        if let Some(what) = container_part(before, part, pod_uid.is_some()) {
            return Some(Place { what, top, pod_uid });
        }
        pod_uid = pod_uid.or_else(|| pod_part(part));
        if [".service", ".scope", ".slice"].iter().any(|suffix| part.ends_with(suffix)) {
            // A slice is recognised only by its own path: what lies in it is not of it.
            unit = Some(top.clone()).filter(|top| !part.ends_with(".slice") || top == path);
        }
        before = part;
    }
    match (top.is_empty(), pod_uid, unit) {
        (true, ..) => None,
        (_, Some(uid), _) => Some(Place { what: What::Pod(uid), top, pod_uid: None }),
        (_, _, Some(unit)) => Some(Place { what: What::Unit, top: unit, pod_uid: None }),
        _ => Some(Place { what: What::Plain, top, pod_uid: None }),
    }
}

/// Whether one part of a path, given the one before it, is a container.
fn container_part(before: &str, part: &str, in_pod: bool) -> Option<What> {
    let bare = part.strip_suffix(".scope").unwrap_or(part);
    if let Some((prefix, id)) = split_id(bare) {
        let runtime = match (prefix, before) {
            ("docker-", _) | ("", "docker") => "docker",
            ("libpod-", _) => "podman",
            ("crio-", _) => "cri-o",
            ("cri-containerd-" | "containerd-" | "nerdctl-", _) => "containerd",
            ("", _) if in_pod => "containerd",
            // conmon watches a container from outside of it.
            (prefix, _) if prefix.contains("conmon") => return None,
            _ => "",
        };
        return Some(What::Id(id.into(), runtime));
    }
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(What::Name(name.into(), "lxc"));
    }
    if matches!(before, "lxc" | "lxc.payload") {
        return Some(What::Name(part.into(), "lxc"));
    }
    if let Some(machine) = bare.strip_prefix("machine-").filter(|_| part.ends_with(".scope")) {
        let machine = unescape(machine);
        // libvirt registers `qemu-3-NAME`.
        if let Some((_, name)) = machine.strip_prefix("qemu-").and_then(|r| r.split_once('-')) {
            return Some(What::Name(name.into(), "libvirt"));
        }
        return Some(What::Name(machine, "nspawn"));
    }
    let nspawn = part.strip_prefix("systemd-nspawn@")?.strip_suffix(".service")?;
    Some(What::Name(unescape(nspawn), "nspawn"))
}

/// `cri-containerd-<64 hex>` as its prefix and id; a colon may stand for the dash.
fn split_id(part: &str) -> Option<(&str, &str)> {
    let at = part.len().checked_sub(ID_HEX)?;
    let (prefix, id) = part.split_at_checked(at)?;
    let hex = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (hex && (prefix.is_empty() || prefix.ends_with(['-', ':']))).then_some((prefix, id))
}

/// The uid in `pod0a1b..` (cgroupfs) and `kubepods-burstable-pod0a1b_...slice` (systemd).
fn pod_part(part: &str) -> Option<String> {
    let uid = match part.strip_suffix(".slice") {
        Some(slice) => slice.strip_prefix("kubepods")?.split_once("-pod")?.1,
        None => part.strip_prefix("pod")?,
    };
    let shaped =
        uid.len() >= 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b"-_".contains(&b));
    shaped.then(|| uid.replace('_', "-"))
}

/// Undoes systemd's `\x2d`.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\x") {
        out.push_str(before);
        match after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &after[2..];
            }
            None => {
                out.push_str("\\x");
                rest = after;
            }
        }
    }
    out + rest
}

/// Containers by a key that is the same in every hierarchy.
#[derive(Default)]
struct Found {
    by_key: BTreeMap<String, Container>,
    /// Uid of the pod that a container of that key is in.
    pod_of: HashMap<String, String>,
}

impl Found {
    fn add(&mut self, place: Place, states: &state::States) {
        let Place { what, top, pod_uid } = place;
        let (key, name, id, runtime) = match what {
            What::Id(id, runtime) => {
                if let Some(uid) = pod_uid {
                    self.pod_of.insert(id.clone(), uid);
                }
                match states.by_id(&id) {
                    Some(state) if state.runtime.is_empty() && !runtime.is_empty() => {
                        return self.add_known(&id, &state.run_by(runtime), &top);
                    }
                    Some(state) => return self.add_known(&id, state, &top),
                    None => {
                        let runtime = if runtime.is_empty() { "cgroup" } else { runtime };
                        (id.clone(), id[..12].to_string(), id, runtime)
                    }
                }
            }
            What::Name(name, runtime) => {
                (format!("{runtime}\0{name}"), name.clone(), name, runtime)
            }
            What::Pod(uid) => (format!("pod\0{uid}"), uid.clone(), uid, "kubernetes"),
            What::Unit => (format!("unit\0{top}"), last_part(&top), top.clone(), "systemd"),
            What::Plain => (format!("plain\0{top}"), last_part(&top), top.clone(), "cgroup"),
        };
        let fresh = || Container { name, id, runtime: runtime.into(), ..Container::default() };
        push_path(self.by_key.entry(key).or_insert_with(fresh), &top);
    }

    fn add_known(&mut self, id: &str, state: &State, path: &str) {
        let fresh = || Container {
            name: state.name.clone(),
            id: id.into(),
            runtime: state.runtime.into(),
            cgroups: Vec::new(),
            pod: state.pod.clone(),
        };
        push_path(self.by_key.entry(id.into()).or_insert_with(fresh), path);
    }

    /// A group below one that a state file names is a part of it, not a cgroup of its own.
    fn drop_parts_of_known(&mut self) {
        let tops: BTreeSet<String> = self
            .by_key
            .values()
            .filter(|container| !matches!(container.runtime.as_str(), "cgroup" | "systemd"))
            .filter(|container| container.runtime != "kubernetes")
            .flat_map(|container| container.cgroups.clone())
            .collect();
        let below = |path: &String| {
            let parents = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
            parents.into_iter().any(|parent| tops.contains(parent))
        };
        self.by_key.retain(|_, container| {
            let part = matches!(container.runtime.as_str(), "cgroup" | "systemd")
                && container.cgroups.iter().all(below);
            !part
        });
    }

    /// Two plain cgroups of the same last part that share a thread are one, whose path differs
    /// between controllers.
    fn join_plain(&mut self, facts: &[Body]) {
        for body in facts {
            let Body::Thread(thread) = body else { continue };
            let paths: BTreeSet<&str> =
                thread.cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect();
            let mut first: HashMap<String, String> = HashMap::new();
            for path in paths {
                let key = format!("plain\0{path}");
                if !self.by_key.contains_key(&key) {
                    continue;
                }
                match first.get(&last_part(path)) {
                    None => {
                        first.insert(last_part(path), key);
                    }
                    Some(known) => {
                        let joined = self.by_key.remove(&key).map(|c| c.cgroups);
                        if let Some(container) = self.by_key.get_mut(known) {
                            joined.iter().flatten().for_each(|path| push_path(container, path));
                        }
                    }
                }
            }
        }
    }

    /// A pod's name is known from the containers in it, or from the kubelet; what has no name in it still has the pod's.
    fn name_pods(&mut self, states: &state::States) {
        let mut names: HashMap<String, String> = HashMap::new();
        for (id, uid) in &self.pod_of {
            if let Some(pod) = states.pod_of_uid(uid) {
                names.insert(format!("pod\0{uid}"), pod.into());
                if let Some(container) = self.by_key.get_mut(id) {
                    container.pod.get_or_insert_with(|| pod.into());
                }
            }
        }
        for (id, uid) in &self.pod_of {
            if let Some(pod) = self.by_key.get(id).and_then(|container| container.pod.clone()) {
                names.insert(format!("pod\0{uid}"), pod);
            }
        }
        for (key, pod) in names {
            if let Some(container) = self.by_key.get_mut(&key) {
                container.name = last_part(&pod);
                container.pod = Some(pod);
            }
        }
    }
}

fn push_path(container: &mut Container, path: &str) {
    if !container.cgroups.iter().any(|own| own == path) {
        container.cgroups.push(path.into());
    }
}

fn last_part(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().into()
}

/// Why a name means no container. The text escapes control characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// None has that name.
    #[error("no container is called {name:?}{}", listed("; did you mean", near))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names that resemble it, the nearest first.
        near: Vec<String>,
    },
    /// Several have it.
    #[error("{name:?} means several containers{}; give more of the id", listed(":", matches))]
    Several {
        /// What was asked for.
        name: String,
        /// How each can be told apart: runtime, name, pod or short id.
        matches: Vec<String>,
    },
}

fn listed(before: &str, names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => {
            let names: Vec<String> = names.iter().map(|n| n.escape_debug().to_string()).collect();
            format!("{before} {}", names.join(", "))
        }
    }
}

/// The container that a user means by a name, an id or a beginning of it, `POD/NAME`,
/// `NAMESPACE/POD/NAME`, or a cgroup path. Containers of a runtime go before units of systemd
/// (whose suffix may be left out), and those before plain cgroups.
pub fn find<'a>(name: &str, containers: &'a [Container]) -> Result<&'a Container, FindError> {
    type Rule = fn(&str, &Container) -> bool;
    const RULES: [Rule; 7] = [
        |name, container| container.is_real() && container.name == name,
        |name, container| {
            let full = container.pod.as_ref().map(|_| container.full_name());
            let is_it = |full: String| full == name || full.ends_with(&format!("/{name}"));
            full.is_some_and(is_it) && name.contains('/')
        },
        // A pod that has no group of its own is its only container.
        |name, container| {
            let is_it = |pod: &String| pod == name || pod.ends_with(&format!("/{name}"));
            container.name != state::PAUSE && container.pod.as_ref().is_some_and(is_it)
        },
        |name, container| container.id == name || container.cgroups.iter().any(|c| c == name),
        |name, container| {
            container.id.len() == ID_HEX
                && name.len() >= ID_PREFIX_MIN
                && container.id.starts_with(name)
        },
        |name, container| {
            let bare = container.name.rsplit_once('.').map(|(bare, _)| bare);
            container.runtime == "systemd" && (container.name == name || bare == Some(name))
        },
        |name, container| container.runtime == "cgroup" && container.name == name,
    ];
    for rule in RULES {
        let matches: Vec<&Container> = containers.iter().filter(|c| rule(name, c)).collect();
        match matches.as_slice() {
            [] => {}
            [one] => return Ok(one),
            several => {
                let matches = several.iter().take(2 * NEAR_MAX).map(|c| described(c)).collect();
                return Err(FindError::Several { name: name.into(), matches });
            }
        }
    }
    Err(FindError::Unknown { name: name.into(), near: near(name, containers) })
}

fn described(container: &Container) -> String {
    let pod = container.pod.as_ref().map(|pod| format!("{pod}/")).unwrap_or_default();
    let id = match container.id.len() {
        ID_HEX => format!(" {}", &container.id[..12]),
        _ if container.id == container.name => String::new(),
        _ => format!(" {}", container.id),
    };
    format!("{} {pod}{}{id}", container.runtime, container.name)
}

/// Names that resemble one: by a common part, or by few changes; those of runtimes first.
fn near(name: &str, containers: &[Container]) -> Vec<String> {
    const ALIKE: f64 = 0.8;
    let wanted = name.to_lowercase();
    let likeness = |own: &str| {
        let own = own.to_lowercase();
        let within = wanted.len() >= 3 && (own.contains(&wanted) || wanted.contains(&own));
        strsim::jaro_winkler(&wanted, &own).max(if within { 0.9 } else { 0.0 })
    };
    let mut scored: Vec<(bool, f64, String)> = containers
        .iter()
        .filter_map(|container| {
            let full = container.full_name();
            let likeness = likeness(&container.name).max(likeness(&full));
            (likeness >= ALIKE).then_some((!container.is_real(), likeness, full))
        })
        .collect();
    scored.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    scored.dedup_by(|a, b| a.2 == b.2);
    scored.into_iter().take(NEAR_MAX).map(|(_, _, name)| name).collect()
}

#[cfg(test)]
mod tests;
