"""What a run that was killed has left behind: found by its names, and undone.

A run that is still alive (its PID is in its folder) is left alone. Processes are known by the mark in their environment,
groups, namespaces and folders by their prefix, loop devices and mounts by lying in such a folder. Called before each run and
by `--clean`.

Edit together: stage.py, which gives these names.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from . import groups
from .processes import all_pids
from .stage import MARK, PREFIX

YOUNG = 60  # seconds in which a run may not have written its PID yet


def dead_runs():
    """Names of folders whose run is over."""
    found = set()
    for folder in pathlib.Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        try:
            young = time.time() - folder.stat().st_mtime < YOUNG
            os.kill(int((folder / "pid").read_text()), 0)
        except FileNotFoundError:
            found |= set() if young else {folder.name}
        except (OSError, ValueError):
            found.add(folder.name)
    return found


def alive_runs():
    """Names of folders whose run goes on."""
    folders = {folder.name for folder in pathlib.Path(tempfile.gettempdir()).glob(PREFIX + "*")}
    return folders - dead_runs()


def of_dead_run(name, alive):
    """Whether something of this name belongs to a run that is over."""
    return name.startswith(PREFIX) and not any(name.startswith(run) for run in alive)


def processes_of_dead_runs(alive):
    """PIDs that carry the mark of a run that is over."""
    found = []
    for pid in all_pids():
        try:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for pair in environment:
            if pair.startswith(MARK.encode() + b"=") and os.path.basename(pair.decode()) not in alive:
                found.append(pid)
    return [pid for pid in found if pid != os.getpid()]


def clean():
    """Undoes it all; a list of what was undone."""
    alive, done = alive_runs(), []
    for pid in processes_of_dead_runs(alive):
        try:
            os.kill(pid, signal.SIGKILL)
            done.append(f"process {pid}")
        except ProcessLookupError:
            pass
    if done:
        time.sleep(0.3)
    for line in reversed(pathlib.Path("/proc/self/mounts").read_text().splitlines()):
        where = line.split()[1]
        if any(of_dead_run(part, alive) for part in where.split("/")):
            subprocess.run(["umount", "-l", where], check=False)
            done.append(f"mount {where}")
    done += clean_loops(alive) + clean_groups(alive)
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
        if of_dead_run(name, alive):
            subprocess.run(["ip", "netns", "del", name], check=False)
            done.append(f"namespace {name}")
    for name in dead_runs():
        shutil.rmtree(pathlib.Path(tempfile.gettempdir()) / name, ignore_errors=True)
        done.append(f"folder {name}")
    return done


def clean_loops(alive):
    """Loop devices on files of runs that are over."""
    done = []
    for backing in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            parts = backing.read_text().split("/")
        except OSError:
            continue
        if any(of_dead_run(part, alive) for part in parts):
            device = "/dev/" + backing.parent.parent.name
            subprocess.run(["losetup", "-d", device], check=False)
            done.append(f"loop device {device}")
    return done


def clean_groups(alive):
    """Control groups of runs that are over."""
    done = []
    places = [groups.ROOT] + [groups.ROOT / v1 for v1, _ in groups.CONTROLLERS.values()]
    for place in places:
        for group in place.glob(PREFIX + "*") if place.is_dir() else []:
            if of_dead_run(group.name, alive):
                try:
                    group.rmdir()
                    done.append(f"group {group}")
                except OSError as e:
                    done.append(f"group {group} NOT undone: {e}")
    return done
