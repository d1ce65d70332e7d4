"""Each recipe of docs/containers.md: two containers want one lock, and a third one, with holdup in it, looks.

Whoever holds the lock must be named as from outside: by its container, or by namespace, pod and container. Which options a recipe needs is
what is tried here; where the machine itself has no right to give (CAP_SYS_RESOURCE), the recipe's capabilities are given one by one.
Must not: touch containers that it did not make, or a daemon that runs already, but to ask it.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

IMAGE = os.environ["IMAGE"]
OUTSIDE = os.environ["HOLDUP"]
NAME = "localhost/holdup:" + pathlib.Path(IMAGE).name.split("-")[1]
HERE = pathlib.Path(__file__).resolve().parent
# Of the Kubernetes API, whose types decode the manifest.
KUBERNETES = "v0.36.2"
# The node's own namespace (CRI: NamespaceMode).
NODE = 2
LOOK = ["--for", "3s", "--json"]
# What --privileged gives of use; all of it is not to be had on a machine that lacks a right itself.
RIGHTS = ["SYS_ADMIN", "SYS_PTRACE", "SYSLOG"]
LOCK_SECONDS_MIN = 1.5


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stderr[-2000:]}{done.stdout[-500:]}")
    return done.stdout


def needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise unittest.SkipTest(f"not here: {', '.join(missing)}")


def unmounted(folder):
    """What daemons have left mounted below a folder is taken away."""
    mounts = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([mount for mount in mounts if mount.startswith(folder + "/")]):
        subprocess.run(["umount", "-l", mount], capture_output=True)


def cgroups():
    """The groups of the runtimes that are tried: docker's, podman's, containerd's."""
    tops = [pathlib.Path("/sys/fs/cgroup"), *pathlib.Path("/sys/fs/cgroup").glob("*/")]
    names = ("k8s.io", "docker", "libpod_parent", "default")
    return {top / name for top in tops for name in names if (top / name).is_dir()}


def left_groups(before):
    """What runtimes have left of groups that were not there before is taken away; one in which somebody runs stays."""
    for top in cgroups() - before:
        for group in sorted(top.glob("**/"), key=lambda group: len(group.parts), reverse=True):
            with contextlib.suppress(OSError):
                group.rmdir()


def of_the_host(kind):
    """The path of a namespace of the host's: init's, or where init lets nobody in, kthreadd's."""
    for pid in (1, 2):
        try:
            os.readlink(f"/proc/{pid}/ns/{kind}")
            return f"/proc/{pid}/ns/{kind}"
        except OSError:
            pass
    raise unittest.SkipTest("no process of the host lets anybody in")


def may_do_all():
    """Whether this machine has every right, so that it can give all of them."""
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    own = next(line for line in status if line.startswith("CapEff"))
    last = int(pathlib.Path("/proc/sys/kernel/cap_last_cap").read_text())
    return int(own.split()[1], 16) == (1 << (last + 1)) - 1


class Recipe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        needs("cc")
        folder = tempfile.TemporaryDirectory(prefix="holdup-recipes.")
        cls.addClassCleanup(folder.cleanup)
        cls.addClassCleanup(left_groups, cgroups())
        cls.addClassCleanup(unmounted, folder.name)
        cls.folder = pathlib.Path(folder.name)
        cls.root = cls.folder / "root"
        (cls.root / "bin").mkdir(parents=True)
        (cls.root / "lock").mkdir()
        (cls.folder / "lock").mkdir()
        run("cc", "-static", "-O1", "-o", cls.root / "bin/lock", HERE / "lock.c")
        run("tar", "-C", cls.root, "-cf", cls.folder / "root.tar", ".")

    @classmethod
    def daemon(cls, *words, ready):
        """Starts a daemon that ends with the class."""
        log = open(cls.folder / "daemon.log", "w")
        cls.addClassCleanup(log.close)
        daemon = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)

        def end():
            daemon.terminate()
            daemon.wait(20)
        cls.addClassCleanup(end)
        for _ in range(100):
            if subprocess.run([str(word) for word in ready], capture_output=True).returncode == 0:
                return
            time.sleep(0.2)
        raise AssertionError(f"{words[0]} does not get ready: {pathlib.Path(log.name).read_text()[-2000:]}")

    def is_the_lock(self, report, holder, waiter):
        """The answer names the lock, who holds it and who waits, by the names that people gave them."""
        finding = self.of_the_lock(report, waiter)
        self.assertEqual(finding["culprit"].get("workload"), holder, finding["culprit"])
        self.assertGreater(finding["victims"][0]["wait_seconds"], LOCK_SECONDS_MIN)

    def of_the_lock(self, report, waiter):
        """The finding about it: others may want other locks meanwhile."""
        # Who has it most of the time waits now and then too, a little.
        is_it = lambda it: it["code"] == "lock.file" and it["victims"][0].get("workload") == waiter
        found = [finding for finding in report["findings"] if is_it(finding)]
        self.assertEqual(len(found), 1, [(finding["code"], finding["title"]) for finding in report["findings"]])
        return found[0]

    def is_as_outside(self, report, holder, waiter):
        self.is_the_lock(report, holder, waiter)
        outside = json.loads(run(OUTSIDE, *LOOK))
        self.is_the_lock(outside, holder, waiter)
        for field in ("pid", "container", "workload", "runtime"):
            inside = self.of_the_lock(report, waiter)["culprit"].get(field)
            self.assertEqual(inside, self.of_the_lock(outside, waiter)["culprit"].get(field), field)
        views = [caveat["text"] for caveat in report["caveats"] if "container" in caveat["text"]]
        self.assertEqual(views, [], "the view is the host's")


class LikeDocker:
    """`docker run`, and what takes the same options."""

    options = []

    def two_that_want_a_lock(self):
        for name, hold, breath in (("holdup-test-holder", 400, 20), ("holdup-test-waiter", 5, 100)):
            self.addCleanup(subprocess.run, [*self.client, "rm", "-f", name], capture_output=True)
            run(*self.client, "run", "-d", *self.options, "--name", name, "--network=none", "-v", f"{self.folder}/lock:/lock", self.lock_image,
                "/bin/lock", "/lock/store", hold, breath)
        time.sleep(0.5)

    def looked(self, *options, rights=True):
        words = ["--privileged"] if rights and may_do_all() else [f"--cap-add={right}" for right in RIGHTS if rights]
        return json.loads(run(*self.client, "run", "--rm", *self.options, *words, *options, NAME, *LOOK))

    def test_with_the_hosts_processes_it_sees_what_is_seen_outside(self):
        self.two_that_want_a_lock()
        self.is_as_outside(self.looked("--pid=host", "--network=host"), "holdup-test-holder", "holdup-test-waiter")

    def test_one_of_them_is_asked_about_by_its_name(self):
        self.two_that_want_a_lock()
        words = ["--privileged"] if may_do_all() else [f"--cap-add={right}" for right in RIGHTS]
        report = json.loads(run(*self.client, "run", "--rm", *self.options, "--pid=host", *words, NAME, "container", "holdup-test-waiter", *LOOK))
        self.assertEqual(report["target"]["kind"], "container")
        self.is_the_lock(report, "holdup-test-holder", "holdup-test-waiter")

    def test_whose_view_it_is_stands_in_the_answer_of_one_without_the_hosts_processes(self):
        report = self.looked("--network=none")
        said = " ".join(caveat["text"] for caveat in report["caveats"])
        self.assertIn("this is the view of that container", said)

    def test_without_a_right_the_answer_says_that_names_are_the_containers(self):
        report = self.looked("--pid=host", "--network=none", rights=False)
        said = " ".join(caveat["text"] for caveat in report["caveats"])
        self.assertIn("of this container", said)


class Docker(LikeDocker, Recipe):
    lock_image = "holdup-test-lock"

    @classmethod
    def setUpClass(cls):
        needs("docker")
        super().setUpClass()
        cls.client = ["docker"]
        if subprocess.run(["docker", "info"], capture_output=True).returncode:
            needs("dockerd")
            socket = cls.folder / "docker.sock"
            cls.client = ["docker", "-H", f"unix://{socket}"]
            cls.daemon("dockerd", "--data-root", cls.folder / "docker", "--exec-root", cls.folder / "exec", "--pidfile", cls.folder / "docker.pid",
                       "-H", f"unix://{socket}", "--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=vfs",
                       ready=[*cls.client, "version"])
            # As on a machine whose owner has an image of that name.
            former = run(*cls.client, "import", cls.folder / "root.tar", NAME).strip()
            cls.addClassCleanup(lambda: cls.assertEqual(cls(), cls.image_of(NAME), former, "the former image has its name"))
        cls.load()
        run(*cls.client, "import", cls.folder / "root.tar", cls.lock_image)
        cls.addClassCleanup(run, *cls.client, "rmi", cls.lock_image)

    @classmethod
    def image_of(cls, name):
        """The image that has a name, if there is one."""
        found = subprocess.run([*cls.client, "image", "inspect", "--format", "{{.Id}}", name], capture_output=True, text=True)
        return found.stdout.strip() or None

    @classmethod
    def load(cls):
        """Loads what is tested, and takes it away with the class; who had the name before has another meanwhile, and then its own again."""
        former, spare = cls.image_of(NAME), "holdup-test-former"
        if former:
            run(*cls.client, "tag", former, spare)
        run(*cls.client, "load", "-i", IMAGE)
        loaded = cls.image_of(NAME)

        def as_before():
            if former:
                run(*cls.client, "tag", former, NAME)
                run(*cls.client, "rmi", spare)
            if loaded != former:
                run(*cls.client, "rmi", loaded if former else NAME)
        cls.addClassCleanup(as_before)


class Podman(LikeDocker, Recipe):
    lock_image = "localhost/holdup-test-lock"
    # Its own default for open files may be more than the machine has to give.
    options = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"]

    @classmethod
    def setUpClass(cls):
        needs("podman")
        super().setUpClass()
        # Its own store: nothing of the machine's is touched.
        cls.client = ["podman", "--root", cls.folder / "podman", "--runroot", cls.folder / "podman-run", "--storage-driver=vfs",
                      "--cgroup-manager=cgroupfs", "--events-backend=file"]
        cls.addClassCleanup(subprocess.run, [*map(str, cls.client), "unshare", "true"], capture_output=True)
        run(*cls.client, "load", "-i", IMAGE)
        run(*cls.client, "import", cls.folder / "root.tar", cls.lock_image)


class Containerd(Recipe):
    """`ctr run` beside the pods of a container runtime interface, and `holdup container NAMESPACE/POD` outside."""

    @classmethod
    def setUpClass(cls):
        needs("containerd", "ctr", "runc")
        cls.crictl = os.environ.get("CRICTL") or shutil.which("crictl")
        super().setUpClass()
        socket = cls.folder / "containerd.sock"
        settings = cls.folder / "containerd.toml"
        settings.write_text(f"""version = 2
root = "{cls.folder}/containerd"
state = "{cls.folder}/state"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/holdup-test-lock:latest"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
""")
        cls.ctr = ["ctr", "-a", socket, "-n", "k8s.io"]
        cls.daemon("containerd", "--config", settings, ready=["ctr", "-a", socket, "version"])
        run(*cls.ctr, "images", "import", "--snapshotter=native", IMAGE)
        run(*cls.ctr, "images", "import", "--snapshotter=native", cls.image())
        cls.socket = socket

    @classmethod
    def image(cls):
        """An image of the one program, as docker's older manifest has it."""
        import hashlib
        layer = (cls.folder / "root.tar").read_bytes()
        digest = "sha256:" + hashlib.sha256(layer).hexdigest()
        config = {"architecture": "amd64" if os.uname().machine == "x86_64" else "arm64", "os": "linux", "config": {"Cmd": ["/bin/lock", "pause"]},
                  "rootfs": {"type": "layers", "diff_ids": [digest]}}
        place = cls.folder / "image"
        place.mkdir()
        (place / "config.json").write_text(json.dumps(config))
        (place / "layer.tar").write_bytes(layer)
        (place / "manifest.json").write_text(json.dumps([{"Config": "config.json", "RepoTags": ["holdup-test-lock:latest"], "Layers": ["layer.tar"]}]))
        run("tar", "-C", place, "-cf", cls.folder / "image.tar", "config.json", "layer.tar", "manifest.json")
        return cls.folder / "image.tar"

    def pod(self, name, container, context):
        """A pod shop/NAME with one container, which is begun; its id."""
        crictl = [self.crictl, "-r", f"unix://{self.socket}"]
        pod_file, container_file = self.folder / f"{name}.pod.json", self.folder / f"{name}.container.json"
        namespaces = {"namespace_options": context["namespace_options"]}
        pod_file.write_text(json.dumps({"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"}, "log_directory": str(self.folder),
                                        "linux": {"security_context": namespaces}}))
        container_file.write_text(json.dumps({"log_path": f"{name}.log", "linux": {"security_context": context}, **container}))
        sandbox = run(*crictl, "runp", pod_file).strip()
        self.addCleanup(subprocess.run, [*crictl, "rmp", "-f", sandbox], capture_output=True)
        begun = run(*crictl, "create", "--no-pull", sandbox, container_file, pod_file).strip()
        run(*crictl, "start", begun)
        return begun

    def two_pods(self):
        if not self.crictl:
            self.skipTest("not here: crictl")
        for name, hold, breath in (("noisy-0", 400, 20), ("web-0", 5, 100)):
            self.pod(name, {"metadata": {"name": "main"}, "image": {"image": "docker.io/library/holdup-test-lock:latest"},
                            "command": ["/bin/lock", "/lock/store", str(hold), str(breath)],
                            "mounts": [{"container_path": "/lock", "host_path": str(self.folder / "lock")}]},
                     {"namespace_options": {"network": NODE}})
        time.sleep(0.5)

    def test_pods_are_named_from_outside_and_by_ctr_run(self):
        self.two_pods()
        rights = ["--privileged"] if may_do_all() else [word for right in RIGHTS for word in ("--cap-add", f"CAP_{right}")]
        report = json.loads(run(*self.ctr, "run", "--rm", "--snapshotter=native", "--with-ns", f"pid:{of_the_host('pid')}", "--net-host", *rights,
                                NAME, "holdup-test-look", "/holdup", *LOOK))
        self.is_as_outside(report, "shop/noisy-0/main", "shop/web-0/main")

    def test_pods_are_named_by_nerdctl_run(self):
        nerdctl = os.environ.get("NERDCTL") or shutil.which("nerdctl")
        if not nerdctl:
            self.skipTest("not here: nerdctl")
        self.two_pods()
        rights = ["--privileged"] if may_do_all() else [f"--cap-add={right}" for right in RIGHTS]
        report = json.loads(run(nerdctl, "--address", self.socket, "--namespace=k8s.io", "--snapshotter=native", "--cgroup-manager=cgroupfs",
                                "--data-root", self.folder / "nerdctl", "run", "--rm", "--pid=host", "--network=host", *rights, NAME, *LOOK))
        self.is_as_outside(report, "shop/noisy-0/main", "shop/web-0/main")

    def test_pods_are_named_by_a_pod_as_kubectl_debug_and_the_daemonset_make_it(self):
        self.two_pods()
        context = {"namespace_options": {"network": NODE, "pid": NODE, "ipc": NODE}}
        context |= {"privileged": True} if may_do_all() else {"capabilities": {"add_capabilities": RIGHTS}}
        looker = self.pod("node-debugger", {"metadata": {"name": "debugger"}, "image": {"image": NAME}, "command": ["/holdup", *LOOK],
                                            "mounts": [{"container_path": "/host", "host_path": "/"}]}, context)
        crictl = [self.crictl, "-r", f"unix://{self.socket}"]
        for _ in range(200):
            if json.loads(run(*crictl, "inspect", looker))["status"]["state"] == "CONTAINER_EXITED":
                break
            time.sleep(0.2)
        self.is_as_outside(json.loads(run(*crictl, "logs", looker)), "shop/noisy-0/main", "shop/web-0/main")

    def test_a_pod_is_asked_about_by_its_name(self):
        self.two_pods()
        report = json.loads(run(OUTSIDE, "container", "shop/web-0", *LOOK))
        self.assertEqual(report["target"]["kind"], "container")
        self.is_the_lock(report, "shop/noisy-0/main", "shop/web-0/main")
        culprit = self.of_the_lock(report, "shop/web-0/main")["culprit"]
        self.assertEqual((culprit["namespace"], culprit["pod"], culprit["container"]), ("shop", "noisy-0", "main"))
        text = run(OUTSIDE, "container", "shop/web-0", "--for", "3s")
        if os.environ.get("HOLDUP_SHOW"):
            print(f"\n{text}")
        self.assertIn("of shop/noisy-0/main holds", " ".join(text.split()))


class Manifest(unittest.TestCase):
    """`kubectl apply -k deploy`, as far as it goes without a cluster."""

    def test_the_api_knows_every_field_and_what_runs_may_look(self):
        needs("go")
        kustomize = ["kustomize", "build"] if shutil.which("kustomize") else ["kubectl", "kustomize"]
        needs(kustomize[0])
        made = run(*kustomize, HERE.parents[1] / "deploy")
        with tempfile.TemporaryDirectory(prefix="holdup-manifest.") as folder:
            shutil.copy(HERE / "manifest/main.go", folder)
            for words in (["mod", "init", "manifest"], ["get", f"k8s.io/api@{KUBERNETES}"], ["mod", "tidy"]):
                run("go", *words, cwd=folder)
            decoded = json.loads(run("go", "run", ".", cwd=folder, input=made))
            wrong = subprocess.run(["go", "run", "."], cwd=folder, input=made.replace("hostPID", "hostPid"), capture_output=True, text=True)
        self.assertIn('unknown field "spec.template.spec.hostPid"', wrong.stderr)
        pod = decoded["spec"]["template"]["spec"]
        container = pod["containers"][0]
        self.assertTrue(pod["hostPID"] and pod["hostNetwork"] and container["securityContext"]["privileged"])
        self.assertEqual(container["image"], NAME)
        self.assertEqual(decoded["spec"]["selector"]["matchLabels"], decoded["spec"]["template"]["metadata"]["labels"])


if __name__ == "__main__":
    unittest.main()
