"""Locks on files: flock in scripts, cargo's and apt's, and those that are polled because the kernel has no way to wait for them.

Of flock and fcntl locks the kernel's table says who holds them, also while they are polled. Of a lock that is a file's mere
existence (O_EXCL, link, mkdir) nobody outside knows the holder: the end is the waiter's own retry, and what it was refused.
"""

import glob
import os
import time
from pathlib import Path

from harness.processes import descendant_named
from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, host, pid, run
from programs.web import PY

POLLED = ("lock.polled", "lock.file")
HOLD_FCNTL = """
import fcntl, sys, time
with open(sys.argv[1], 'w') as h:
    fcntl.lockf(h, fcntl.LOCK_EX); print('held', flush=True); time.sleep(float(sys.argv[2]))
time.sleep(9)
"""
POLL_FCNTL = """
import fcntl, sys, time
h = open(sys.argv[1], 'w')
while True:
    try: fcntl.lockf(h, fcntl.LOCK_EX | fcntl.LOCK_NB); break
    except OSError: time.sleep(0.1)
"""
POLL_O_EXCL = """
import os, sys, time
while True:
    try: os.open(sys.argv[1], os.O_CREAT | os.O_EXCL); break
    except FileExistsError: time.sleep(0.2)
"""
LEASE = """
import fcntl, os, signal, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
signal.signal(signal.SIGIO, lambda *a: None)
print('held', flush=True)
signal.pause()
time.sleep(float(sys.argv[2]))
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
time.sleep(9)
"""


def fcntl_holder(s, path, seconds):
    """A Python program that holds a fcntl lock."""
    log = f"{s.word()}-{s.random.randrange(1000)}.log"
    holder = s.spawn([PY, s.file("hold.py", HOLD_FCNTL), path, seconds], log=log)
    s.wait(lambda: "held" in (s.dir / log).read_text(), "the lock is held")
    return holder


def flock_holder(s, path, seconds):
    """util-linux's flock around a command."""
    holder = s.spawn(["flock", path, "sleep", seconds])
    s.wait(lambda: descendant_named(holder.pid, "sleep"), "the lock is held")
    return holder


@case("flock", quick=True)
def flock(s):
    """A script waits for another that holds the lock."""
    lock = f"{s.word()}.lock"
    yield run(["flock", lock, "true"], HEALTHY, "twin", quick=True)
    holder = flock_holder(s, lock, s.seconds(2.8, 3.5))
    truth = Truth(end=("lock", "sleep"), object=(lock,), who=(holder.pid, "sleep"), code=("lock.file",), culprit=(holder.pid,))
    yield run(["flock", lock, "true"], truth, wall=1, quick=True)
    holder = flock_holder(s, lock, 30)
    truth = truth.plus(who=(holder.pid, "sleep"), culprit=(holder.pid,))
    s.file("job.sh", f"#!/bin/bash\nexec 9>{lock}\nflock 9\necho got it\n", 0o755)
    job = s.waiting(["./job.sh"], 0.3)
    yield pid(job, truth, "script-hang", secs=2, standing=True, quick=True)
    yield host(truth, "hang", secs=2, standing=True, quick=True)


def flock_script(s, path, script):
    """A script of cron's: flock(1) locks a descriptor of the shell's, and ends; the shell has the lock, and whomever it begins."""
    name = f"{s.word()}-{s.random.randrange(1000)}.sh"
    s.file(name, f"#!/bin/bash\n{script.format(lock=path)}\n", 0o755)
    shell = s.spawn([f"./{name}"])
    s.wait(lambda: descendant_named(shell.pid, "sleep") or held_by_orphan(path), "the lock is held")
    return shell


def held_by_orphan(path):
    """Whether somebody called sleep has the file open."""
    for fd in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            pid_ = fd.split("/")[2]
            if os.readlink(fd).endswith(f"/{path}") and Path(f"/proc/{pid_}/comm").read_text().strip() == "sleep":
                return int(pid_)
        except OSError:
            pass
    return None


@case("flock-script", quick=True)
def flock_script_holder(s):
    """A script as cron's idiom has it (exec 9>FILE; flock 9) waits for another of the kind: who took the lock has ended."""
    idiom = "exec 9>{lock}\nflock 9\nsleep "
    lock = f"{s.word()}.lock"
    holder = flock_script(s, lock, f"{idiom}{s.seconds(2.8, 3.5)}\ntrue")
    truth = Truth(end=("lock", "sleep"), object=(lock,), who=(holder.pid, "sleep"), code=("lock.file",), culprit=(holder.pid, "sleep"))
    yield run(["flock", lock, "true"], truth, wall=1, quick=True)
    holder = flock_script(s, lock, f"{idiom}30\ntrue")
    truth = truth.plus(who=(holder.pid, "sleep"), culprit=(holder.pid,))
    s.file("job.sh", f"#!/bin/bash\nexec 9>{lock}\nflock 9\necho got it\n", 0o755)
    job = s.waiting(["./job.sh"], 0.3)
    yield pid(job, truth, "script-hang", secs=2, standing=True)
    yield host(truth, "hang", secs=2, standing=True)


@case("flock-inherited")
def flock_inherited(s):
    """A subshell's lock that its background child inherited: the shell and flock(1) are gone, and a daemon has the lock."""
    lock = f"{s.word()}.lock"
    flock_script(s, lock, "( flock 9; sleep 30 & ) 9>{lock}")
    orphan = held_by_orphan(lock)
    truth = Truth(end=("lock", "sleep"), object=(lock,), who=(orphan,), code=("lock.file",), culprit=(orphan,))
    job = s.waiting(["flock", lock, "true"], 0.3)
    yield pid(job, truth, "hang", secs=2, standing=True)
    yield host(truth, "host", secs=2, standing=True)


@case("flock-timeout")
def flock_timeout(s):
    """flock -w gives up after a while; a cron job that runs into the last one."""
    lock = f"{s.word()}.lock"
    holder = flock_holder(s, lock, 30)
    truth = Truth(end=("lock", "sleep"), object=(lock,), who=(holder.pid, "sleep"), code=("lock.file",), culprit=(holder.pid,))
    yield run(["flock", "-w", s.random.choice((2, 3)), lock, "true"], truth, wall=1, standing=True)


@case("cargo-lock")
def cargo_lock(s):
    """cargo waits for the build directory that another cargo, or an editor, has locked."""
    cargo = tool("cargo")
    s.file("Cargo.toml", '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n')
    s.file("src/main.rs", "fn main() {}\n")
    for name, folder in (("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")):  # a toolchain below the real home
        s.env[name] = os.environ.get(name) or os.path.expanduser(f"~/{folder}")
    build = [cargo, "build", "--offline", "-q"]
    s.sh(" ".join(build))
    lock = "target/debug/.cargo-lock"
    holder = flock_holder(s, lock, s.seconds(2.8, 3.6))
    truth = Truth(end=("lock", "sleep"), object=(".cargo-lock",), who=(holder.pid, "sleep"), code=("lock.file",),
                  culprit=(holder.pid,))
    yield run(build, truth, wall=1, root=True)


@case("apt-lock")
def apt_lock(s):
    """apt-get with DPkg::Lock::Timeout polls dpkg's lock, in a root of its own."""
    tool("apt-get")
    s.sh("mkdir -p r/dpkg r/state/lists/partial r/cache/archives/partial; cp /var/lib/dpkg/status r/dpkg/; "
         "touch r/dpkg/lock-frontend r/dpkg/lock")
    root = s.dir / "r"
    options = [f"Dir::State={root}/state", f"Dir::State::status={root}/dpkg/status", f"Dir::Cache={root}/cache",
               "DPkg::Lock::Timeout=20"]
    argv = ["apt-get", "-q", *(word for option in options for word in ("-o", option)), "check"]
    holder = fcntl_holder(s, "r/dpkg/lock-frontend", s.seconds(3.2, 4))
    yield run(argv, Truth(end=("lock", "sleep"), who=(holder.pid,), code=POLLED), wall=1, root=True)


@case("fcntl-polled", quick=True)
def fcntl_polled(s):
    """A Python program tries a fcntl lock again and again (LOCK_NB), as portable locking libraries do."""
    lock = f"{s.word()}.lock"
    script = s.file("poll.py", POLL_FCNTL)
    yield run([PY, script, lock], HEALTHY, "twin", quick=True)
    holder = fcntl_holder(s, lock, s.seconds(2.8, 3.5))
    truth = Truth(end=("lock", "sleep"), who=(holder.pid,), code=POLLED)
    yield run([PY, script, lock], truth, wall=1, quick=True)
    holder.kill()
    holder = fcntl_holder(s, lock, 30)
    yield pid(s.waiting([PY, script, lock]), truth.plus(who=(holder.pid,)), "hang", standing=True)


def exists(waiter, path):
    """The truth of a lock that is a file's existence: the waiter's own retry, refused by that path."""
    return Truth(end=("sleep", "lock"), who=(*waiter, path), code=("process.retry", "lock.polled"), culprit=(*waiter, path))


@case("git-index-lock")
def git_index_lock(s):
    """git refuses while index.lock is there, and the script tries again."""
    s.sh("git init -q r; cd r; echo a > a; git add a; git commit -qm a; echo b > b")
    argv = ["bash", "-c", f"until git add b 2>/dev/null; do sleep {s.seconds(0.25, 0.4)}; done"]
    yield run(argv, HEALTHY, "twin", cwd=s.dir / "r", root=True)
    s.sh("touch r/.git/index.lock")
    s.later(s.seconds(2.8, 3.5), os.unlink, s.dir / "r/.git/index.lock")
    yield run(argv, exists(("git", "bash", "sleep"), "index.lock"), cwd=s.dir / "r", wall=1, root=True)


@case("mkdir-retry", quick=True)
def mkdir_retry(s):
    """mkdir as a lock in a shell script."""
    lock = f"{s.word()}.d"
    s.sh(f"mkdir {lock}")
    s.later(s.seconds(2.5, 3.2), os.rmdir, s.dir / lock)
    argv = ["bash", "-c", f"until mkdir {lock} 2>/dev/null; do sleep {s.seconds(0.15, 0.3)}; done"]
    yield run(argv, exists(("mkdir", "bash", "sleep"), lock), wall=1, quick=True)


@case("lockfile-create")
def lockfile_create(s):
    """lockfile-progs: link() refused and tried again after five seconds."""
    tool("lockfile-create")
    name = s.word()
    s.sh(f"touch {name}; lockfile-create {name}")
    s.later(s.seconds(2.5, 3.5), os.unlink, s.dir / f"{name}.lock")
    yield run(["lockfile-create", "--retry", "3", name], exists(("lockfile-create",), f"{name}.lock"), wall=1)


@case("dotlockfile")
def dotlockfile(s):
    """liblockfile's dotlockfile, as mail programs lock a mailbox."""
    tool("dotlockfile")
    lock = f"{s.word()}.lock"
    s.sh(f"dotlockfile -r 0 {lock}")
    s.later(s.seconds(2.5, 3.5), os.unlink, s.dir / lock)
    yield run(["dotlockfile", "-r", "5", lock], exists(("dotlockfile",), lock), wall=1)


@case("o-excl")
def o_excl(s):
    """A Python program creates its lock file with O_EXCL and polls."""
    lock = f"{s.word()}.lck"
    script = s.file("excl.py", POLL_O_EXCL)
    s.sh(f"touch {lock}")
    s.later(s.seconds(2.5, 3.2), os.unlink, s.dir / lock)
    yield run([PY, script, lock], exists(("python3",), lock), wall=1)


@case("lease-broken-late")
def lease_broken_late(s):
    """A file server's lease: whoever opens the file waits until the holder gives it back."""
    name, hold = s.word(), s.seconds(2.4, 3)
    s.sh(f"touch {name}")
    holder = s.spawn([PY, s.file("lease.py", LEASE), name, hold], log="lease.log")
    s.wait(lambda: "held" in (s.dir / "lease.log").read_text(), "the lease is held")
    time.sleep(0.1)
    truth = Truth(end=("lock", "sleep"), object=(name,), who=(holder.pid,), code=("lock.lease",), culprit=(holder.pid,))
    yield run(["bash", "-c", f"echo x >> {name}"], truth, wall=1)
