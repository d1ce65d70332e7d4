//! Cgroup paths of each runtime with its state files (`tests/fixtures/containers`).
//!
//! The paths of runc, LXC and Podman and the files of runc and Podman were recorded from Debian's
//! packages on a host with cgroup v1; the others follow what their versions of 2024 write.

use super::*;
use holdup_reason::facts::{Cgroup, Membership, Thread};

const DOCKER: &str = "3f2a9c0d4e5b6a7788990011223344556677889900aabbccddeeff0011223344";
const DOCKER_2: &str = "3f2a77777777777777777777777777777777777777777777777777777777aaaa";
const PODMAN: &str = "d2368f5adc7d4dc8d14169b162c47f8f60cb6b2ae24fdc5f47a73ce694734bc0";

fn id(first: &str) -> String {
    format!("{first:0<64}")
}

fn cgroups(paths: &[&str]) -> Vec<Body> {
    let cgroup = |path: &&str| {
        let directory = format!("/sys/fs/cgroup/cpu{path}");
        Body::Cgroup(Cgroup { path: path.to_string(), directory, ..Cgroup::default() })
    };
    paths.iter().map(cgroup).collect()
}

fn read(paths: &[&str]) -> Vec<Container> {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/containers");
    containers(&Roots::under(fixtures.as_ref()), &cgroups(paths))
}

/// The one container that a single path gives: runtime, name, topmost cgroup.
fn one(path: &str) -> (String, String, String) {
    let found = read(&[path]);
    assert_eq!(found.len(), 1, "{found:?}");
    let container = found[0].clone();
    (container.runtime, container.name, container.cgroups[0].clone())
}

fn reported(runtime: &str, name: &str, top: &str) -> (String, String, String) {
    (runtime.into(), name.into(), top.into())
}

#[test]
fn docker_by_both_drivers() {
    let cgroupfs = format!("/docker/{DOCKER}");
    assert_eq!(one(&cgroupfs), reported("docker", "web-1", &cgroupfs));
    let inside = format!("{cgroupfs}/system.slice/nginx.service");
    assert_eq!(one(&inside), reported("docker", "web-1", &cgroupfs));
    let systemd = format!("/system.slice/docker-{DOCKER}.scope");
    assert_eq!(one(&systemd), reported("docker", "web-1", &systemd));
    let unknown = format!("/docker/{}", id("eeee"));
    assert_eq!(one(&unknown), reported("docker", "eeee00000000", &unknown));
}

#[test]
fn a_docker_daemon_says_where_its_state_is() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/containers");
    let mut roots = Roots::under(fixtures.as_ref());
    let id = id("dada");
    let here = std::env::temp_dir().join(format!("holdup-test-docker-{}", std::process::id()));
    let named =
        |roots: &Roots| containers(roots, &cgroups(&[&format!("/docker/{id}")])).remove(0).name;
    assert_eq!(named(&roots), "dada00000000");
    let process = here.join("9");
    std::fs::create_dir_all(&process).unwrap();
    std::fs::write(process.join("comm"), "dockerd\n").unwrap();
    std::fs::write(process.join("cmdline"), "dockerd\0--config-file\0/srv/daemon.json\0").unwrap();
    roots.proc.clone_from(&here);
    let name = named(&roots);
    std::fs::remove_dir_all(&here).unwrap();
    assert_eq!(name, "moved");
}

#[test]
fn one_container_with_a_path_per_controller() {
    let found = read(&[&format!("/docker/{DOCKER}"), &format!("/outer/docker/{DOCKER}/sub"), "/"]);
    let docker = find("web-1", &found).unwrap();
    assert_eq!(docker.cgroups, [format!("/docker/{DOCKER}"), format!("/outer/docker/{DOCKER}")]);
    assert_eq!(found.len(), 1);
}

#[test]
fn kubernetes_with_containerd() {
    let uid = "0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9";
    let slice =
        format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice");
    let app = format!("{slice}/cri-containerd-{}.scope", id("aa11"));
    let pause = format!("{slice}/cri-containerd-{}.scope", id("aa22"));
    let found = read(&[&slice, &app, &pause]);
    let container = find("app", &found).unwrap();
    assert_eq!(
        (&*container.runtime, container.pod.as_deref()),
        ("containerd", Some("prod/shop-7d9f"))
    );
    for name in ["shop-7d9f/app", "prod/shop-7d9f/app", "aa11"] {
        assert_eq!(find(name, &found).unwrap().id, id("aa11"));
    }
    assert_eq!(find("prod/shop-7d9f", &found), find("shop-7d9f", &found));
    let near = find("prod/shop-7d9", &found).unwrap_err().to_string();
    assert!(near.contains("did you mean prod/shop-7d9f, "), "{near}");
    let pod = find("shop-7d9f", &found).unwrap();
    assert_eq!((&*pod.runtime, &*pod.cgroups[0]), ("kubernetes", &*slice));
    assert_eq!(pod.id, uid.replace('_', "-"));
    let bare =
        format!("/kubepods/burstable/pod0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9/{}", id("aa11"));
    assert_eq!(one(&bare), reported("containerd", "app", &bare));
}

#[test]
fn kubernetes_by_the_kubelets_folders_of_logs_alone() {
    let pod = "/kubepods/burstable/pod1c807df9-6ea6-4909-a01b-8f069995be66";
    let (app, other) = (format!("{pod}/{}", id("ee11")), format!("{pod}/{}", id("ee22")));
    let found = read(&[pod, &app, &other]);
    let app = find("prod/cart-0/app", &found).unwrap();
    assert_eq!((&*app.runtime, &*app.id), ("containerd", &*id("ee11")));
    assert_eq!(find("prod/cart-0", &found).unwrap().cgroups, [pod]);
    let other = find("ee22", &found).unwrap();
    assert_eq!(other.pod.as_deref(), Some("prod/cart-0"), "its pod is known, its name is not");
}

#[test]
fn a_shim_of_containerd_stands_among_its_bundles() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/containers");
    let mut roots = Roots::under(fixtures.as_ref());
    let of_pod = format!("/kubepods/pod1c807df9-6ea6-4909-a01b-8f069995be67/{}", id("ff11"));
    // Where nobody asked for a group, containerd calls it after its own namespace.
    let plain = format!("/k8s.io/{}", id("ff11"));
    let here = std::env::temp_dir().join(format!("holdup-test-shim-{}", std::process::id()));
    let named =
        |roots: &Roots, path: &str| containers(roots, &cgroups(&[path])).remove(0).full_name();
    assert_eq!(named(&roots, &of_pod), id("ff11")[..12]);
    let process = here.join("9");
    std::fs::create_dir_all(&process).unwrap();
    std::fs::write(process.join("comm"), "containerd-shim\n").unwrap();
    let bundle = format!("/srv/containerd/k8s.io/{}", id("ff11"));
    std::os::unix::fs::symlink(bundle, process.join("cwd")).unwrap();
    roots.proc.clone_from(&here);
    let found = containers(&roots, &cgroups(&[&plain]));
    assert_eq!(
        find("shop/web-0", &found).map(Container::full_name).ok(),
        find("web-0/main", &found).map(Container::full_name).ok()
    );
    assert!(find("web-0", &found).is_ok() && find("shop", &found).is_err());
    let names = [of_pod, plain].map(|path| named(&roots, &path));
    std::fs::remove_dir_all(&here).unwrap();
    assert_eq!(names, ["shop/web-0/main", "shop/web-0/main"]);
}

#[test]
fn kubernetes_with_cri_o() {
    let path = format!("/kubepods/besteffort/crio-{}", id("bb11"));
    assert_eq!(one(&path), reported("cri-o", "db", &path));
    let conmon = format!("/kubepods/besteffort/crio-conmon-{}", id("bb11"));
    assert_eq!(one(&conmon).0, "cgroup");
}

#[test]
fn podman_with_and_without_root() {
    let cgroupfs = format!("/libpod_parent/libpod-{PODMAN}");
    assert_eq!(one(&cgroupfs), reported("podman", "hf-pod", &cgroupfs));
    let scope = format!(
        "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{}.scope",
        id("cc11")
    );
    assert_eq!(one(&format!("{scope}/container")), reported("podman", "rootless", &scope));
    let far = format!("/machine.slice/libpod-{}.scope", id("dd11"));
    assert_eq!(one(&far).1, "dd1100000000", "a home on NFS is not looked at");
}

#[test]
fn lxc_and_machines() {
    assert_eq!(one("/lxc/old/init.scope"), reported("lxc", "old", "/lxc/old"));
    assert_eq!(one("/lxc.payload.hf-lxc"), reported("lxc", "hf-lxc", "/lxc.payload.hf-lxc"));
    assert_eq!(one("/lxc.monitor.hf-lxc").0, "cgroup");
    let machine = r"/machine.slice/machine-deb\x2d12.scope";
    assert_eq!(one(&format!("{machine}/payload")), reported("nspawn", "deb-12", machine));
    let service = r"/machine.slice/systemd-nspawn@deb\x2d12.service";
    assert_eq!(one(service), reported("nspawn", "deb-12", service));
    let guest = r"/machine.slice/machine-qemu\x2d3\x2dmail.scope";
    assert_eq!(one(guest), reported("libvirt", "mail", guest));
}

#[test]
fn runc_and_crun_name_their_cgroups() {
    let mut facts = cgroups(&["/hf-runc", "/hf-runc/below", "/custom/place"]);
    facts.push(Body::Cgroup(Cgroup {
        path: "/outer/2f99/hf-runc".into(),
        directory: "/sys/fs/cgroup/memory/outer/2f99/hf-runc".into(),
        ..Cgroup::default()
    }));
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/containers");
    let found = containers(&Roots::under(fixtures.as_ref()), &facts);
    let runc = find("hf-runc", &found).unwrap();
    assert_eq!((&*runc.runtime, runc.cgroups.len()), ("runc", 2));
    let crun = find("hf-crun", &found).unwrap();
    assert_eq!((&*crun.runtime, &*crun.cgroups[0]), ("crun", "/custom/place"));
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn units_and_plain_cgroups() {
    let web = "/system.slice/web.service";
    assert_eq!(one(&format!("{web}/workers")), reported("systemd", "web.service", web));
    assert_eq!(one("/system.slice"), reported("systemd", "system.slice", "/system.slice"));
    assert_eq!(one("/jobs/nightly"), reported("cgroup", "nightly", "/jobs/nightly"));
    assert!(read(&["/"]).is_empty());
}

#[test]
fn a_plain_cgroup_that_differs_between_controllers() {
    let mut facts = cgroups(&["/slow", "/outer/slow", "/other/slow"]);
    let member = |path: &str| Membership { controllers: vec!["x".into()], path: path.into() };
    let cgroups = vec![member("/slow"), member("/outer/slow"), member("/")];
    facts.push(Body::Thread(Thread { cgroups, ..Thread::default() }));
    let found = containers(&Roots::under("/nonexistent".as_ref()), &facts);
    assert_eq!(found.len(), 2);
    let joined = find("/slow", &found).unwrap();
    assert_eq!(joined.cgroups, ["/outer/slow", "/slow"]);
}

#[test]
fn finding_by_name_and_id() {
    let found = read(&[
        &format!("/docker/{DOCKER}"),
        &format!("/docker/{DOCKER_2}"),
        "/system.slice/web-1.service",
        "/web-2",
        "/jobs/nightly",
    ]);
    assert_eq!(find("web-1", &found).unwrap().runtime, "docker");
    assert_eq!(find("web-1.service", &found).unwrap().runtime, "systemd");
    assert_eq!(find(&DOCKER[..12], &found).unwrap().name, "web-1");
    assert_eq!(find("3f2a7", &found).unwrap().name, "web-2");
    assert_eq!(find("nightly", &found).unwrap().cgroups, ["/jobs/nightly"]);
    let several = find("3f2a", &found).unwrap_err();
    assert_eq!(
        several.to_string(),
        "\"3f2a\" means several containers: docker web-2 3f2a77777777, \
         docker web-1 3f2a9c0d4e5b; give more of the id"
    );
    let near = find("wbe-1", &found).unwrap_err().to_string();
    assert!(near.starts_with("no container is called \"wbe-1\"; did you mean web-1, "), "{near}");
    let odd = find("\x1b[31mzzz", &found).unwrap_err().to_string();
    assert_eq!(odd, "no container is called \"\\u{1b}[31mzzz\"");
}

#[test]
fn odd_paths_are_names_like_others() {
    for path in ["/a\x1bb", "/é\\x", "/pod", "/-", "//x//", "/.scope", "/..", "/lxc", "/\u{fffd}"]
    {
        assert_eq!(read(&[path]).len(), 1, "{path:?}");
    }
    assert_eq!(unescape(r"a\x2db\xzz\x"), r"a-b\xzz\x");
}
