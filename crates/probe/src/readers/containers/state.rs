//! State files of container runtimes: what the container of an id is called.
//!
//! Docker's config.v2.json, containerd's and CRI-O's OCI config.json with its annotations, the
//! containers.json that Podman and CRI-O share, and the state of runc and crun, which also tells
//! the cgroups. Each in the system's places and, for rootless runtimes, in users' homes. What these do not name the options of
//! running daemons may: dockerd says where its files are, conmon which container it watches, and containerd's shims stand in
//! the folder of theirs. Where no runtime's file can be read, the kubelet's folders of logs have the names in theirs.
//!
//! A home may lie on a dead NFS server: homes on file systems that are not local are not looked at,
//! and every read goes through the guard. A file that cannot be read or parsed names nothing; its
//! container then goes by its short id.

use crate::system::{Roots, guard, mounts, text};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Homes looked at for rootless runtimes.
const HOMES_MAX: usize = 200;

/// Longest state file that is parsed.
const STATE_BYTES_MAX: u64 = 8 << 20;

/// Where containerd has its state: its own, and those of the distributions of Kubernetes that bring one (k3s and RKE2, k0s,
/// MicroK8s).
const CONTAINERD: [&str; 4] = [
    "run/containerd",
    "run/k3s/containerd",
    "run/k0s/containerd",
    "var/snap/microk8s/common/run/containerd",
];

/// Name of containerd's shims, as much of it as the kernel keeps.
const SHIM: &str = "containerd-shim";

/// What the container that holds a pod together is called here.
pub(crate) const PAUSE: &str = "pause";

/// What a runtime says of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub id: String,
    pub name: String,
    pub runtime: &'static str,
    pub pod: Option<String>,
    /// Cgroups: absolute directories (runc) or paths inside the hierarchies (crun).
    cgroups: Vec<String>,
}

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct States {
    by_id: HashMap<String, State>,
    id_at: HashMap<String, String>,
    pod_by_uid: HashMap<String, String>,
}

impl States {
    /// The container of a full id.
    pub(super) fn by_id(&self, id: &str) -> Option<&State> {
        self.by_id.get(id)
    }

    /// The container whose state names this cgroup, by its directory or its path.
    pub(super) fn at(&self, directory: &str, path: &str) -> Option<&State> {
        let id = self.id_at.get(directory).or_else(|| self.id_at.get(path))?;
        self.by_id.get(id)
    }

    /// What the options of running daemons say: where Docker's state files lie instead, and of each conmon, which watches a
    /// container for Podman or CRI-O, the container's id and name.
    pub(super) fn read_of_daemons(&mut self, roots: &Roots) {
        let pids = text::ids(&roots.proc).unwrap_or_default();
        let of = |pid: u32| {
            let folder = roots.proc.join(pid.to_string());
            let comm = text::read(&folder.join("comm")).ok()?;
            let comm = text::lossy(comm.trim_ascii_end());
            matches!(comm.as_str(), "dockerd" | "conmon" | SHIM).then_some((comm, folder))
        };
        let daemons: Vec<(String, PathBuf)> = pids.into_iter().filter_map(of).collect();
        let read = guard::map(daemons, |(comm, folder)| {
            if comm == SHIM {
                let bundle = std::fs::read_link(folder.join("cwd")).ok();
                return (comm.clone(), Vec::new(), bundle);
            }
            let cmdline = text::read(&folder.join("cmdline")).unwrap_or_default();
            let words = cmdline.split(|byte| *byte == 0).map(text::lossy);
            (comm.clone(), words.collect::<Vec<_>>(), None)
        });
        let mut places = BTreeSet::new();
        let mut bundles = BTreeSet::new();
        for (comm, words, bundle) in read.into_iter().flatten() {
            match comm.as_str() {
                "dockerd" => places.extend(docker_data(roots, &words)),
                SHIM => bundles.extend(bundle.and_then(|bundle| bundles_beside(roots, &bundle))),
                _ => of_conmon(&words).into_iter().for_each(|state| self.add(state)),
            }
        }
        let oci_place = |folder| -> Place { (folder, "config.json", oci) };
        let of_shims = bundles.into_iter().map(oci_place);
        self.read_at(places.into_iter().map(docker_place).chain(of_shims).collect());
    }

    /// What the kubelet calls the pod of a uid, and the container of an id, by its folders of logs.
    pub(super) fn read_of_kubelet(&mut self, roots: &Roots) {
        for name in text::names(&roots.root.join("var/log/pods")) {
            if let Some((uid, pod)) = of_log_folder(&name) {
                self.pod_by_uid.insert(uid, pod);
            }
        }
        for name in text::names(&roots.root.join("var/log/containers")) {
            of_log_link(&name).into_iter().for_each(|state| self.add(state));
        }
    }

    /// The pod of a uid, as `NAMESPACE/POD`.
    pub(super) fn pod_of_uid(&self, uid: &str) -> Option<&str> {
        self.pod_by_uid.get(uid).map(String::as_str)
    }

    fn read_at(&mut self, places: Vec<Place>) {
        let listed = guard::map(places, |(folder, file, parse)| {
            // One file for all containers.
            if *file == "containers.json" {
                return vec![(folder.join(file), *parse)];
            }
            let ids = text::names(folder).into_iter();
            ids.map(|id| (folder.join(id).join(file), *parse)).collect::<Vec<_>>()
        });
        let files: Vec<(PathBuf, Parse)> = listed.into_iter().flatten().flatten().collect();
        let parsed = guard::map(files, |(path, parse)| {
            let Some(value) = parse_json(path) else { return Vec::new() };
            parse(path.parent().unwrap_or(path), &value)
        });
        parsed.into_iter().flatten().flatten().for_each(|state| self.add(state));
    }

    /// Takes a state in; a name that a person gave goes before one that only repeats the id.
    fn add(&mut self, state: State) {
        for cgroup in &state.cgroups {
            self.id_at.insert(cgroup.clone(), state.id.clone());
        }
        match self.by_id.get_mut(&state.id) {
            Some(known) if known.pod.is_some() => {}
            Some(known) if state.name != short(&state.id) => *known = state,
            // It gives no name, but knows better who runs the container.
            Some(known) if matches!(known.runtime, "runc" | "crun") => {
                known.runtime = state.runtime
            }
            Some(_) => {}
            None => {
                self.by_id.insert(state.id.clone(), state);
            }
        }
    }
}

/// How one kind of file is read: folder of the container, its parsed text.
type Parse = fn(&Path, &Value) -> Vec<State>;

/// A folder of containers, the file in each, or of all, and how to read it.
type Place = (PathBuf, &'static str, Parse);

/// Reads every state file of this host that lies where the system has it.
pub(crate) fn read(roots: &Roots) -> States {
    let mut states = States::default();
    states.read_at(places(roots));
    states
}

fn parse_json(path: &Path) -> Option<Value> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(STATE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn places(roots: &Roots) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let root = &roots.root;
    let run = root.join("run");
    // The low-level runtimes first: what the high-level ones say of the same id goes before it.
    places.push((run.join("runc"), "state.json", runc));
    places.push((run.join("docker/runtime-runc/moby"), "state.json", runc));
    places.push((run.join("crun"), "status", crun));
    for state in CONTAINERD.map(|state| root.join(state)) {
        for namespace in text::names(&state.join("runc")) {
            places.push((state.join("runc").join(namespace), "state.json", runc));
        }
        let tasks = state.join("io.containerd.runtime.v2.task");
        for namespace in text::names(&tasks) {
            places.push((tasks.join(namespace), "config.json", oci));
        }
    }
    let moved = configured(roots, "/etc/docker/daemon.json");
    let data = moved.unwrap_or_else(|| roots.resolve("/var/lib/docker"));
    places.push(docker_place(data));
    let mut storages = vec![root.join("var/lib/containers/storage")];
    for home in homes(roots) {
        let share = home.join(".local/share");
        places.push(docker_place(share.join("docker")));
        storages.push(share.join("containers/storage"));
    }
    for storage in storages {
        for driver in ["overlay", "vfs", "btrfs"] {
            let folder = storage.join(format!("{driver}-containers"));
            places.push((folder, "containers.json", storage_list));
        }
    }
    // CRI-O keeps the OCI configuration of each container under /run.
    let bundles = run.join("containers/storage/overlay-containers");
    places.push((bundles, "userdata/config.json", oci));
    places
}

fn docker_place(data: PathBuf) -> Place {
    (data.join("containers"), "config.v2.json", docker)
}

/// Where a configuration of Docker's puts its data.
fn configured(roots: &Roots, file: &str) -> Option<PathBuf> {
    let config = parse_json(&roots.resolve(file))?;
    config["data-root"].as_str().map(|folder| roots.resolve(folder))
}

/// Where the options of a Docker daemon put its data (dockerd(8)).
fn docker_data(roots: &Roots, words: &[String]) -> Option<PathBuf> {
    let folder = option(words, &["--data-root", "--graph", "-g"]);
    let by_file = || configured(roots, option(words, &["--config-file"])?);
    folder.map(|folder| roots.resolve(folder)).or_else(by_file)
}

/// The container that a conmon watches, by its options (conmon(8)).
fn of_conmon(words: &[String]) -> Option<State> {
    let id = option(words, &["-c", "--cid"])?;
    let name = option(words, &["-n", "--name"])?;
    Some(of_storage(id, name))
}

/// The folder of bundles that a shim's own one is in.
fn bundles_beside(roots: &Roots, bundle: &Path) -> Option<PathBuf> {
    Some(roots.resolve(bundle.parent()?.to_str()?))
}

/// A pod's folder of logs, `NAMESPACE_POD_UID`: its uid, and `NAMESPACE/POD`.
fn of_log_folder(name: &str) -> Option<(String, String)> {
    let mut parts = name.splitn(3, '_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    Some((uid.into(), format!("{namespace}/{pod}")))
}

/// A container's link to its log, `POD_NAMESPACE_CONTAINER-ID.log`.
fn of_log_link(name: &str) -> Option<State> {
    let mut parts = name.strip_suffix(".log")?.splitn(3, '_');
    let (pod, namespace, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (container, id) = rest.rsplit_once('-')?;
    Some(State {
        id: id.into(),
        name: container.into(),
        // The path says it.
        runtime: "",
        pod: Some(format!("{namespace}/{pod}")),
        cgroups: Vec::new(),
    })
}

/// The value of an option of a command line, given as a word of its own or after an equals sign.
fn option<'w>(words: &'w [String], names: &[&str]) -> Option<&'w str> {
    words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
        Some((name, value)) => names.contains(&name).then_some(value),
        None => names.contains(&word.as_str()).then(|| words.get(at + 1).map(String::as_str))?,
    })
}

/// Homes of people (and root's) that lie on local file systems.
fn homes(roots: &Roots) -> Vec<PathBuf> {
    const LOCAL: [&str; 9] =
        ["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs"];
    let mounts = mounts::own_mounts(roots);
    let passwd = text::read(&roots.root.join("etc/passwd")).unwrap_or_default();
    let home = |line: &[u8]| {
        let line = text::lossy(line);
        let fields: Vec<&str> = line.split(':').collect();
        let uid: u32 = fields.get(2)?.parse().ok()?;
        let person = uid == 0 || (1000..60_000).contains(&uid);
        let home = fields.get(5).filter(|home| person && home.len() > 1)?;
        // Neither it nor what is above it may be a link to elsewhere; that cannot be known without
        // touching it, hence the guard.
        let local = mounts::mount_of(&mounts, home)?;
        LOCAL.contains(&local.fs_type.as_str()).then(|| roots.resolve(home))
    };
    let mut homes: Vec<PathBuf> = text::lines(&passwd).filter_map(home).collect();
    homes.sort_unstable();
    homes.dedup();
    homes.truncate(HOMES_MAX);
    homes
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(Into::into)
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Docker: `ID`, `Name` with a slash before it.
fn docker(_: &Path, value: &Value) -> Vec<State> {
    let Some(id) = text_of(&value["ID"]) else { return Vec::new() };
    let name = value["Name"].as_str().unwrap_or_default().trim_start_matches('/');
    let name = if name.is_empty() { short(&id).into() } else { name.to_string() };
    vec![State { id, name, runtime: "docker", ..State::default() }.with_kubernetes_name()]
}

/// containers/storage: Podman's and CRI-O's list.
fn storage_list(_: &Path, value: &Value) -> Vec<State> {
    let one = |entry: &Value| {
        let id = text_of(&entry["id"])?;
        let name = text_of(&entry["names"][0]).unwrap_or_else(|| short(&id).into());
        Some(of_storage(&id, &name))
    };
    value.as_array().into_iter().flatten().filter_map(one).collect()
}

fn of_storage(id: &str, name: &str) -> State {
    let runtime = if name.starts_with("k8s_") { "cri-o" } else { "podman" };
    State { id: id.into(), name: name.into(), runtime, ..State::default() }.with_kubernetes_name()
}

/// An OCI bundle's configuration: names stand in its annotations.
fn oci(folder: &Path, value: &Value) -> Vec<State> {
    let mut id = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let crio = id.as_deref() == Some("userdata");
    if crio {
        let above = folder.parent().and_then(Path::file_name);
        id = above.map(|name| name.to_string_lossy().into_owned());
    }
    let Some(id) = id else { return Vec::new() };
    let annotation =
        |names: &[&str]| names.iter().find_map(|name| text_of(&value["annotations"][*name]));
    let kind =
        annotation(&["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"]);
    let name = annotation(&["io.kubernetes.cri.container-name", "io.kubernetes.container.name"])
        .filter(|_| kind.as_deref() != Some("sandbox"))
        .or_else(|| kind.filter(|kind| kind == "sandbox").map(|_| PAUSE.into()))
        .or_else(|| annotation(&["nerdctl/name"]));
    let pod = annotation(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    let namespace =
        annotation(&["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]);
    // Podman has such bundles too, but its names stand in its list.
    if crio && pod.is_none() {
        return Vec::new();
    }
    vec![State {
        name: name.unwrap_or_else(|| short(&id).into()),
        id,
        runtime: if crio { "cri-o" } else { "containerd" },
        pod: pod
            .map(|pod| [namespace, Some(pod)].into_iter().flatten().collect::<Vec<_>>().join("/")),
        cgroups: Vec::new(),
    }]
}

/// runc: `cgroup_paths` by controller, absolute directories.
fn runc(_: &Path, value: &Value) -> Vec<State> {
    let Some(id) = text_of(&value["id"]) else { return Vec::new() };
    let paths = value["cgroup_paths"].as_object();
    let cgroups = paths.into_iter().flatten().filter_map(|(_, path)| text_of(path)).collect();
    let name = if id.len() == 64 { short(&id).into() } else { id.clone() };
    vec![State { id, name, runtime: "runc", pod: None, cgroups }]
}

/// crun: `cgroup-path`, the same in every hierarchy.
fn crun(folder: &Path, value: &Value) -> Vec<State> {
    let id = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(id) = id else { return Vec::new() };
    let cgroups = text_of(&value["cgroup-path"]).into_iter().collect();
    let name = if id.len() == 64 { short(&id).into() } else { id.clone() };
    vec![State { id, name, runtime: "crun", pod: None, cgroups }]
}

impl State {
    /// The same, run by whom the path of its cgroup says.
    pub(super) fn run_by(&self, runtime: &'static str) -> Self {
        Self { runtime, ..self.clone() }
    }

    /// `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`, as the kubelet names containers of Docker and
    /// CRI-O.
    fn with_kubernetes_name(mut self) -> Self {
        let parts: Vec<&str> = self.name.split('_').collect();
        if let ["k8s", container, pod, namespace, ..] = parts.as_slice() {
            let name = if *container == "POD" { PAUSE } else { container };
            self.pod = Some(format!("{namespace}/{pod}"));
            self.name = name.to_string();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_docker_daemon_say_where_its_data_is() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/containers");
        let roots = Roots::under(root.as_ref());
        let data = |options: &[&str]| {
            let words = [&["/usr/sbin/dockerd"], options].concat();
            docker_data(&roots, &words.into_iter().map(String::from).collect::<Vec<_>>())
        };
        let moved = Some(roots.resolve("/srv/docker"));
        assert_eq!(data(&["--data-root", "/srv/docker", "-H", "fd://"]), moved);
        assert_eq!(data(&["-H", "fd://", "--data-root=/srv/docker"]), moved);
        assert_eq!(data(&["-g", "/srv/docker"]), moved);
        assert_eq!(data(&["--config-file", "/srv/daemon.json"]), moved);
        assert_eq!(data(&["--config-file", "/srv/nowhere.json"]), None);
        assert_eq!((data(&[]), data(&["--data-root"])), (None, None));
        assert_eq!(data(&["--data-root", "/srv/a b"]), Some(roots.resolve("/srv/a b")));
    }

    #[test]
    fn the_folders_of_the_kubelet_say_what_a_pod_is_called() {
        let of = of_log_folder("prod_shop-1_0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9");
        let (uid, pod) = of.expect("a pod");
        assert_eq!((&*uid, &*pod), ("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "prod/shop-1"));
        let link = of_log_link("shop-1_prod_web-app-77aa.log").expect("a container");
        assert_eq!((&*link.id, &*link.name), ("77aa", "web-app"));
        assert_eq!(link.pod.as_deref(), Some("prod/shop-1"));
        assert!(of_log_folder("prod").is_none() && of_log_link("README").is_none());
    }

    #[test]
    fn a_conmon_says_which_container_it_watches() {
        let watched = |options: &[&str]| {
            let words: Vec<String> = options.iter().map(|word| (*word).into()).collect();
            of_conmon(&words).map(|it| (it.id, it.name, it.runtime, it.pod))
        };
        let of = |id: &str, name: &str, runtime, pod: Option<&str>| {
            Some((id.into(), name.into(), runtime, pod.map(String::from)))
        };
        let podman =
            ["conmon", "-s", "-c", "d2368f", "-u", "d2368f", "-n", "web", "--exit-dir", "/x"];
        assert_eq!(watched(&podman), of("d2368f", "web", "podman", None));
        let crio = ["conmon", "--cid=77", "--name=k8s_app_shop-1_prod_uid_0"];
        assert_eq!(watched(&crio), of("77", "app", "cri-o", Some("prod/shop-1")));
        assert_eq!(watched(&["conmon", "-c", "77"]), None);
    }
}
