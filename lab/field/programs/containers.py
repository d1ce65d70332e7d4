"""Podman as its manual says, with a bridge of its own in a network namespace of the case.

Owns where its storage and networks lie (in the case's folder) and how a container is begun: a root of empty folders over this host's
/usr, because no image can be fetched here. What is made is taken back by podman's own calls, which are in the journal before it is made.
"""

import os
import subprocess
from pathlib import Path

from harness.stage import tool


def runtime():
    """crun refuses a host that has controllers in both of its hierarchies of cgroups; runc takes them as they are."""
    both = Path("/sys/fs/cgroup/unified/cgroup.controllers")
    return ["--runtime", tool("runc")] if both.exists() and both.read_text().strip() else []


class Podman:
    """Podman, and one network of its own: a bridge in a namespace."""

    def __init__(self, s, dns=False):
        self.s, self.dns = s, dns
        self.inside = s.netns()
        self.net = f"10.{s.random.randrange(60, 250)}.{s.random.randrange(250)}"
        self.gateway, self.network = f"{self.net}.1", s.word()
        (s.dir / "networks").mkdir()
        # Podman takes 50 characters of a folder for what runs, at most: beside the case's own, which is the run's.
        self.words = ["nsenter", f"--net=/run/netns/{self.inside}", tool("podman"), "--root", str(s.dir / "storage"), "--runroot",
                      str(s.dir.parent / f"r{s.random.randrange(10 ** 6)}"), "--network-config-dir", str(s.dir / "networks"),
                      "--cgroup-manager", "cgroupfs", *runtime()]
        self.group = f"{s.run.name}-{s.word()}-{s.random.randrange(1000)}"
        # Podman leaves the groups of a container that is dead already, in every hierarchy.
        for hierarchy in [*Path("/sys/fs/cgroup").glob("*/cgroup.procs"), Path("/sys/fs/cgroup/cgroup.procs")]:
            s.guard("cgroup", path=hierarchy.parent / self.group)
        self.guard("network", "rm", "-f", self.network)
        names = [] if dns else ["--disable-dns"]
        self.call("network", "create", *names, "--subnet", f"{self.net}.0/24", self.network)

    @property
    def client(self):
        """What brings a command beside the bridge."""
        return ["nsenter", f"--net=/run/netns/{self.inside}"]

    def guard(self, *words):
        """Writes down the call of podman that takes back what is about to be made, for this run or, after a kill -9, the next."""
        self.s.run.journal.guard("command", words=[*self.words, *words])

    def call(self, *words):
        """One call of podman; its output."""
        done = subprocess.run([*self.words, *map(str, words)], check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def begin(self, name, *command, options=()):
        """A container that runs this command; (PID of its first process, its address)."""
        root = self.s.dir / f"root-{name}"
        for folder in ("usr", "proc", "sys", "dev", "tmp", "etc", "run", "var"):
            (root / folder).mkdir(parents=True)
        for folder in ("bin", "sbin", "lib", "lib64"):
            os.symlink(f"usr/{folder}", root / folder)
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        self.guard("rm", "-f", "--ignore", "-t", "0", name)
        # This machine grants no more than it has itself.
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
        place = ["--network", self.network, "--cgroup-parent", f"/{self.group}", "-v", "/usr:/usr:ro", "-v", f"{self.s.dir}:{self.s.dir}:ro"]
        self.call("run", "-d", "--name", name, *place, *limits, *options, "--rootfs", root, *command)
        said = self.call("inspect", "-f", "{{.State.Pid}} {{(index .NetworkSettings.Networks \"" + self.network + "\").IPAddress}}", name)
        pid, address = said.split()
        return int(pid), address

    def within(self, pid, command):
        """A command of the host's in a container's network namespace."""
        return self.s.sh(f"nsenter -t {pid} -n {command}")

    def at_bridge(self, name):
        """The bridge's end of a container's link."""
        of = self.call("inspect", "-f", "{{.State.Pid}}", name)
        index = self.within(of, "ip -o link show eth0").split("@if")[1].split(":")[0]
        links = self.s.sh(f"ip -n {self.inside} -o link")
        return next(line.split()[1].split("@")[0] for line in links.splitlines() if line.startswith(f"{index}:"))
