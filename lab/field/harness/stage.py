"""Where a case plays: its folder, processes, mounts, groups and namespaces, and the way back.

Owns everything that a case makes on the host. Each thing is in the run's journal before it is made (lab.py), and
`close` has it undone in reverse order, whatever happened; after a kill -9 the next run does. Names, ports, addresses and seconds are drawn from the seed of the
run, so that nothing can be fitted to them. It must not touch anything outside loopback, its own namespaces, groups, mounts
and loop devices.

Edit together: lab.py, lab/src/undo.rs (what can be undone).
"""

import fcntl
import os
import pathlib
import pwd
import random
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

from . import groups
from .lab import Journal
from .processes import end_descendants
from .truth import NotProven, Skip

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/go/bin"
PREFIX = "holdup-field-"  # of folders, groups and namespaces
MARK = "HOLDUP_FIELD"  # in the environment of every process of a case
WORDS = "amber birch cedar delta ember fjord grove heron indigo juniper kelp larch maple nectar osier poppy quartz".split()
GIT = {f"GIT_{who}_{what}": "field@example.net" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
RESOLV = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'


class Run:
    """What all cases of one run share: the seed, the folder, and what is made once (data directories, classes)."""

    def __init__(self, seed, user=None):
        self.seed, self.user = seed, user
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX))
        os.chmod(self.dir, 0o755)
        self.name = self.dir.name
        self.journal = Journal()
        self.journal.guard("remove", path=str(self.dir))
        self.journal.guard("marked", variable=MARK, value=str(self.dir))
        self.cache = self.dir / "cache"
        self.cache.mkdir()

    def close(self):
        """Takes back what is left of it, with the folder."""
        left = self.journal.undo(0)
        for what in left:
            print(f"undo of the run: {what}", file=sys.stderr)
        # What would not go stays in the journal, for the next run.
        if not left:
            self.journal.close()


def become(account):
    """In the child: gives root up for good."""
    if account:
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)


def tool(*names):
    """The path of the first of these programs that is there; without one the case is left out."""
    for name in names:
        found = shutil.which(name, path=PATH) or shutil.which(name)
        if found:
            return found
    raise Skip(f"{' or '.join(names)} is not installed")


class Terminal:
    """A terminal on which the case types and whose output nobody reads."""

    def __init__(self):
        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.name = os.ttyname(self.slave)
        self.gone = threading.Event()

    @staticmethod
    def adopt():
        """In the child: its own session, with its standard input as the terminal. A shell's background job ignores
        ctrl-C, and so would all that it starts."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def begin(self):
        """The child has the other end now."""
        os.close(self.slave)
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        """Reads until the last process on it is gone, so that nobody waits to write."""
        try:
            while os.read(self.master, 65536):
                pass
        except OSError:
            pass
        self.gone.set()
        os.close(self.master)

    def type(self, keys):
        """Types, if anybody is still there."""
        if not self.gone.is_set():
            os.write(self.master, keys)


class Stage:
    """What one case may use. Undone in reverse order by close()."""

    def __init__(self, run, name):
        self.run, self.name = run, name
        self.random = random.Random(f"{run.seed} {name}")
        self.dir = run.dir / name.replace("/", "+")
        self.dir.mkdir()
        os.chmod(self.dir, 0o755)
        self.first = run.journal.number  # what is behind it in the journal is this case's
        self.undo = []  # what is no more than this process's own: timers, descriptors
        home = self.dir / "home"
        home.mkdir()
        self.env = {"PATH": PATH, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm", "USER": "root",
                    "SHELL": "/bin/bash", "GIT_CONFIG_NOSYSTEM": "1", "PSQL_PAGER": "cat", **GIT, MARK: str(run.dir)}

    # drawn from the seed

    def word(self):
        """A name for a file, a table, a host."""
        return f"{self.random.choice(WORDS)}{self.random.randrange(10, 100)}"

    def seconds(self, low, high):
        """A time that no threshold can be fitted to."""
        return round(self.random.uniform(low, high), 2)

    def port(self):
        """A port that nobody listens on, below those that the kernel gives to clients."""
        while True:
            port = self.random.randrange(10000, 32000)
            with socket.socket() as s:
                try:
                    s.bind(("0.0.0.0", port))
                    return port
                except OSError:
                    continue

    def address(self):
        """A loopback address of its own."""
        return "127." + ".".join(str(self.random.randrange(10, 250)) for _ in range(3))

    # processes

    def hand_over(self, user=None):
        """The account that a program of the case runs as, none for root's. Where an ordinary user asks, the case's folder becomes
        his too."""
        name = user if user == "root" or not self.run.user else self.run.user
        if name in (None, "root"):
            return None
        account = pwd.getpwnam(name)
        if self.run.user:
            os.chmod(self.dir, 0o755)
            subprocess.run(["chown", "-R", f"{account.pw_uid}:{account.pw_gid}", str(self.dir)], check=False)
        return account

    def spawn(self, argv, user=None, groups=(), stdin=subprocess.DEVNULL, log=None, env=None, cwd=None, stdout=None):
        """Starts a process of the case in a session of its own. Where an ordinary user asks, what he asks about is his own; but
        for what only `root` may do."""
        argv = shlex.split(argv) if isinstance(argv, str) else [str(word) for word in argv]
        account = self.hand_over(user)
        if account and argv[:3] == ["ip", "netns", "exec"]:
            # Only root may enter the namespace.
            argv = argv[:4] + ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups"] + argv[4:]
            account = None
        ways = [str(group.path / "cgroup.procs") for group in groups]

        def prepare():
            for way in ways:
                with open(way, "w", encoding="ascii") as procs:
                    procs.write("0")
            become(account)

        out = stdout if stdout is not None else open(self.dir / (log or "log"), "ab")
        errors = subprocess.STDOUT if stdout is None else subprocess.DEVNULL
        try:
            return subprocess.Popen(argv, stdin=stdin, stdout=out, stderr=errors, preexec_fn=prepare, cwd=cwd or self.dir,
                                    start_new_session=True, env={**self.env, **(env or {})})
        except FileNotFoundError as e:
            raise Skip(f"{argv[0]} is not installed") from e
        finally:
            if stdout is None:
                out.close()

    def typist(self, argv, env=None):
        """Starts a process on a terminal of its own, where a person could type: (process, what types). Its `tty` is the
        terminal's name, by which the person is known."""
        terminal, account = Terminal(), self.hand_over()

        def prepare():
            Terminal.adopt()
            become(account)

        process = subprocess.Popen([str(word) for word in argv], stdin=terminal.slave, stdout=terminal.slave,
                                   stderr=terminal.slave,
                                   cwd=self.dir, preexec_fn=prepare, env={**self.env, **(env or {})})
        terminal.begin()
        process.tty = terminal.name
        return process, lambda text: terminal.type(text.encode())

    def waiting(self, argv, seconds=0.4, **more):
        """A client in the background that does not come back at once."""
        process = self.spawn(argv, log="client.log", **more)
        time.sleep(seconds)
        if process.poll() is not None:
            raise NotProven(f"{' '.join(map(str, argv))[:100]} is over already")
        return process

    def load(self, command, every=0.2):
        """A light load: a command again and again, with a rest in between."""
        loop = f"while :; do {command} >/dev/null 2>&1; sleep {every}; done"
        return self.spawn(["bash", "-c", loop], log="load.log")

    def sh(self, command, check=True, timeout=90, user=None):
        """A set-up command; its output."""
        argv = ["bash", "-c", command]
        user = user and (self.run.user or user)
        if user:
            account = pwd.getpwnam(user)
            argv = ["setpriv", f"--reuid={user}", f"--regid={account.pw_gid}", "--init-groups"] + argv
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                              env=self.env, cwd=self.dir, check=False)
        if check and done.returncode:
            said = (done.stderr or done.stdout)[-300:]
            raise NotProven(f"set-up failed: {command[:100]}: {said}")
        return done.stdout

    def wait(self, test, what, timeout=15, every=0.05):
        """Waits until a test gives something, and gives that."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            try:
                got = test()
                if got:
                    return got
            except (OSError, ValueError, IndexError, subprocess.SubprocessError, NotProven):
                pass
            time.sleep(every)
        raise NotProven(f"not seen within {timeout} s: {what}")

    def wait_port(self, port, host="127.0.0.1"):
        """Waits until somebody listens there."""
        def up():
            with socket.create_connection((host, port), 1):
                return True
        return self.wait(up, f"port {port}")

    def later(self, seconds, function, *arguments):
        """Does something after a while; not if the case is over by then."""
        timer = threading.Timer(seconds, function, arguments)
        timer.daemon = True
        self.undo.append(timer.cancel)
        timer.start()

    # files

    def file(self, name, text, mode=0o644):
        """Writes a file of the case."""
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.chmod(path, mode)
        return path

    def blob(self, name, mib, zeros=False):
        """A file of so many MiB that does not compress, or of zeros."""
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.sh(f"head -c {mib}M {'/dev/zero' if zeros else '/dev/urandom'} > {path}")
        return path

    def once(self, name, make, owner=None):
        """A folder that cases of this run share, made by the first."""
        path = self.run.cache / name
        owner = owner and (self.run.user or owner)
        if not path.exists():
            new = self.run.cache / (name + ".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            if owner:
                shutil.chown(new, owner, pwd.getpwnam(owner).pw_gid)
                os.chmod(new, 0o700)
            make(new)
            new.rename(path)
        return path

    # what must be undone

    def guard(self, undo, **what):
        """Writes down how something on the host is taken back, before it is made."""
        self.run.journal.guard(undo, **{name: str(value) for name, value in what.items()})

    def mount(self, what, where, options=()):
        """Mounts something below the case's folder."""
        os.makedirs(where, exist_ok=True)
        self.guard("mount", path=where)
        subprocess.run(["mount", *options, str(what), str(where)], check=True)

    def disk(self, mib=128):
        """An ext4 file system on a loop device: (its name, MAJ:MIN, mount point)."""
        image = self.dir / f"{self.word()}.img"
        where = self.dir / f"mnt-{image.stem}"
        self.sh(f"truncate -s {mib}M {image}; mkfs.ext4 -q {image}")
        device, number = groups.loop_device(self, image)
        self.mount(device, where)
        return os.path.basename(device), number, where

    def forget(self, disk, where):
        """Mounts it anew, so that nothing of it is in the page cache."""
        self.sh(f"sync -f {where}; umount {where}; mount /dev/{disk} {where}")

    def group(self, controller):
        """A control group of its own, without a limit yet."""
        return groups.Group(self, controller, f"{self.run.name}-{self.word()}-{self.random.randrange(1000)}")

    def netns(self):
        """A network namespace with its loopback up."""
        name = f"{self.run.name}-{self.word()}-{self.random.randrange(1000)}"
        self.guard("netns", name=name)
        subprocess.run(["ip", "netns", "add", name], check=True)
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        return name

    def resolver(self, *servers, options="", search=""):
        """A command prefix that gives a command a resolv.conf of its own."""
        lines = [f"nameserver {server}" for server in servers]
        lines += [f"options {options}"] * bool(options) + [f"search {search}"] * bool(search)
        path = self.file(f"resolv-{len(list(self.dir.glob('resolv-*')))}.conf", "\n".join(lines) + "\n")
        return ["unshare", "-m", "--propagation", "private", "sh", "-c", RESOLV, str(path)]

    def close(self):
        """Ends the case's processes and undoes the rest; says what would not go."""
        left = [f"process {pid}" for pid in end_descendants()]
        for step in reversed(self.undo):
            try:
                step()
            except Exception as e:  # go on undoing whatever comes
                left.append(str(e))
        self.undo.clear()
        left += self.run.journal.undo(self.first)
        shutil.rmtree(self.dir, ignore_errors=True)
        for what in left:
            print(f"undo of {self.name}: {what}", file=sys.stderr)
        return left
