"""Control groups of version 1 and 2 behind one face: a limit, its file, and a way in.

Owns the names of the controllers' files. A group is a child of the hierarchy's root, named after the run, and goes with its
case; on version 2 a controller that the root does not delegate yet is delegated for the case and withdrawn after it.
"""

import os
import pathlib
import subprocess

from .truth import NotProven, Skip

ROOT = pathlib.Path("/sys/fs/cgroup")
# What a limit is called: by controller of version 1, controller of version 2.
CONTROLLERS = {"io": ("blkio", "io"), "memory": ("memory", "memory"), "pids": ("pids", "pids"), "cpu": ("cpu", "cpu")}


def unified():
    """Whether version 2 is what is mounted at the root."""
    return (ROOT / "cgroup.controllers").exists()


class Group:
    """A control group of one controller."""

    def __init__(self, stage, controller, name):
        v1, v2 = CONTROLLERS[controller]
        self.controller, self.name, self.v2 = controller, name, unified()
        parent = ROOT if self.v2 else ROOT / v1
        if not parent.is_dir():
            raise Skip(f"no {v1} controller here")
        if self.v2:
            self.delegate(stage, v2)
        self.path = parent / name
        stage.guard("cgroup", path=self.path)
        self.path.mkdir()

    @staticmethod
    def delegate(stage, controller):
        """Version 2: the root must pass the controller on."""
        if controller not in (ROOT / "cgroup.controllers").read_text().split():
            raise Skip(f"no {controller} controller here")
        switch = ROOT / "cgroup.subtree_control"
        if controller not in switch.read_text().split():
            stage.guard("write", path=switch, value=f"-{controller}")
            switch.write_text(f"+{controller}")

    def write(self, file, text):
        """Sets a file of the group."""
        try:
            (self.path / file).write_text(str(text))
        except OSError as e:
            raise Skip(f"{file} cannot be set: {e}") from e

    def io(self, number, what, value):
        """Limits a device: what is read_iops, write_iops, read_bps or write_bps."""
        if self.v2:
            self.write("io.max", f"{number} {what[0]}{what.split('_')[1]}={value}")
        else:
            self.write(f"blkio.throttle.{what}_device", f"{number} {value}")

    def memory(self, mib):
        """Limits memory, page cache included."""
        self.write("memory.max" if self.v2 else "memory.limit_in_bytes", mib << 20)

    def pids(self, count):
        """Limits processes."""
        self.write("pids.max", count)

    def cpu(self, share):
        """Limits CPU time to a share of one CPU."""
        if self.v2:
            self.write("cpu.max", f"{int(share * 100000)} 100000")
        elif (self.path / "cpu.cfs_quota_us").exists():
            self.write("cpu.cfs_quota_us", int(share * 100000))
        else:
            raise Skip("no CPU quota in this kernel")

    def add(self, pid):
        """Moves a process into it."""
        self.write("cgroup.procs", pid)

    @property
    def enter(self):
        """A shell command that moves the shell into it."""
        return f"echo 0 > {self.path}/cgroup.procs"


def loop_device(stage, image):
    """A loop device on an image, with its MAJ:MIN."""
    argv = ["losetup", "--find", "--show", str(image)]
    stage.guard("loop", backing=image)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotProven(f"no loop device: {done.stderr.strip()}")
    device = done.stdout.strip()
    number = os.stat(device).st_rdev
    return device, f"{os.major(number)}:{os.minor(number)}"
