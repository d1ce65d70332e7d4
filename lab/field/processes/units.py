"""Units of systemd: a service that never says that it is ready, one that is ordered behind it, and one that does not end.

The manager is a user's own, with a folder of units and of sockets of its own, so that it needs no systemd as the first process of
this host. The proof is its own list of jobs.
"""

import os
import pathlib

from harness.stage import tool
from harness.truth import HEALTHY, NotProven, Skip, Truth, case, host, pid, run

MANAGER = pathlib.Path("/usr/lib/systemd/systemd")
# It runs only where the host was booted by systemd, by the folder that says so: in a view of the files of its own there is one.
BOOTED = 'mount -t tmpfs none /run/systemd && mkdir /run/systemd/system && exec "$0" "$@"'
UNIT_JOB = ("process.unit_job",)


class Manager:
    """systemd --user with the units of a case."""

    def __init__(self, s):
        self.s = s
        if not MANAGER.exists():
            raise Skip("systemd is not installed")
        self.ctl = [tool("systemctl"), "--user"]
        self.units = s.dir / "units"
        sockets = s.dir / "sockets"
        for folder in (self.units, sockets):
            folder.mkdir()
        os.chmod(sockets, 0o700)
        s.env.update(XDG_RUNTIME_DIR=str(sockets), SYSTEMD_UNIT_PATH=str(self.units), DBUS_SESSION_BUS_ADDRESS="unix:path=/none")
        for target in ("basic", "shutdown", "exit"):
            self.unit(f"{target}.target", "[Unit]", "DefaultDependencies=no")
        os.makedirs("/run/systemd", exist_ok=True)
        s.spawn(["unshare", "-m", "--propagation", "private", "sh", "-c", BOOTED, MANAGER, "--user", "--unit=basic.target",
                 "--log-target=console"], log="manager.log", user="root")
        s.wait(lambda: (sockets / "systemd/private").exists() and self.jobs() == "No jobs running.", "the manager is idle")

    def unit(self, name, *lines):
        """Writes one."""
        (self.units / name).write_text("\n".join(lines) + "\n")

    def service(self, name, *lines, after=()):
        """Writes one for whoever asks next."""
        self.unit(f"{name}.service", "[Unit]", *(f"After={unit}.service" for unit in after), "[Service]", *lines)
        if self.s.sh(f"{' '.join(self.ctl)} daemon-reload", check=False):
            raise NotProven("the manager does not read its units again")

    def jobs(self):
        """As it lists them."""
        return self.s.sh(f"{' '.join(self.ctl)} list-jobs --no-legend").strip() or "No jobs running."

    def main(self, name):
        """The main process of a unit."""
        shown = self.s.sh(f"{' '.join(self.ctl)} show -p MainPID --value {name}").strip()
        return int(shown) or None

    def runs(self, name, what="start"):
        """Its job is being done: its main process."""
        def found():
            jobs = [line.split() for line in self.jobs().splitlines()]
            return any(job[1:] == [f"{name}.service", what, "running"] for job in jobs) and self.main(name)
        return self.s.wait(found, f"the {what} of {name} is being done")


def held(process, *names):
    """The truth of a job that waits for a process, which sleeps."""
    return Truth(end=("sleep",), who=(process, *names), code=UNIT_JOB, culprit=(process, *names))


@case("unit-ready-late")
def unit_ready_late(s):
    """A service of Type=notify says late that it is ready."""
    manager = Manager(s)
    manager.service("quick", "Type=oneshot", "ExecStart=/bin/true")
    yield run([*manager.ctl, "start", "quick"], HEALTHY, "twin")
    late = s.file("late", f"#!/bin/bash\nsleep {s.seconds(2.4, 3.2)}\nsystemd-notify --ready\nexec sleep 60\n", 0o755)
    manager.service("late", "Type=notify", "NotifyAccess=all", f"ExecStart={late}")
    truth = Truth(end=("sleep",), who=("sleep", "late", "bash"), code=UNIT_JOB, culprit=("late", "bash", "sleep"))
    yield run([*manager.ctl, "start", "late"], truth, wall=2)


@case("unit-never-ready")
def unit_never_ready(s):
    """A service of Type=notify that never says that it is ready; and one that is ordered behind it."""
    manager = Manager(s)
    manager.service("hang", "Type=notify", "ExecStart=/bin/sleep 600", "TimeoutStartSec=900")
    manager.service("behind", "Type=oneshot", "ExecStart=/bin/true", after=["hang"])
    client = s.waiting([*manager.ctl, "start", "hang"])
    main = manager.runs("hang")
    yield pid(client, held(main), "client", standing=True)
    behind = s.waiting([*manager.ctl, "start", "behind"])
    yield pid(behind, held(main), "behind", standing=True)
    yield run(["timeout", str(s.seconds(2, 3)), *manager.ctl, "start", "hang"], held(main), "command", wall=1)
    s.wait(lambda: client.poll() is None, "the client still waits")
    yield host(held(main), "host", secs=6, standing=True)


@case("unit-never-ends")
def unit_never_ends(s):
    """A service that does not end when it is asked to."""
    manager = Manager(s)
    deaf = s.file("deaf", "#!/bin/bash\ntrap '' TERM\nwhile :; do sleep 600; done\n", 0o755)
    manager.service("deaf", f"ExecStart={deaf}", "TimeoutStopSec=900", "KillMode=process")
    s.sh(f"{' '.join(manager.ctl)} start deaf")
    main = manager.main("deaf")
    client = s.waiting([*manager.ctl, "stop", "deaf"])
    manager.runs("deaf", "stop")
    truth = Truth(end=("sleep",), who=(main, "sleep", "deaf"), code=UNIT_JOB, culprit=(main,))
    yield pid(client, truth, "stop", standing=True)
