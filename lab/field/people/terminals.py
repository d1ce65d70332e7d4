"""People: at a prompt, in a pager, in a debugger, with a stopped job.

A program that waits for a person is not slow, and whoever asks why gets the terminal as the end. Each runs on a terminal of
its own, on which the case types.
"""

import os
import signal
from pathlib import Path

from harness.processes import children_of, state_of
from harness.stage import tool
from harness.truth import Truth, case, pid, run
from programs.names import Sshd
from programs.web import PY

TERMINAL = Truth(end=("person",), object=("tty", "pts", "terminal"))


@case("prompts", quick=True)
def prompts(s):
    """Programs that ask at the terminal and wait for a line."""
    after = s.seconds(2.6, 3.4)
    line = [(after, b"hello\n")]
    yield run(["bash", "-c", "read x; echo $x"], TERMINAL, "bash", tty=line, wall=1, quick=True)
    yield run([PY, "-c", "input('name? ')"], TERMINAL, "python", tty=line, wall=1, quick=True)
    yield run(["cat"], TERMINAL, "cat", tty=[(after, b"x\n\x04")], wall=1)
    yield run(["timeout", "--foreground", "9", "bash", "-c", "read x"], TERMINAL, "timeout", tty=line, wall=1)
    yield run(["bash", "-c", "touch f; rm -i f"], TERMINAL, "rm-i", tty=[(after, b"y\n")], wall=1)
    yield run(["sqlite3"], TERMINAL, "sqlite", tty=[(after, b".quit\n")], wall=1)


@case("passphrases")
def passphrases(s):
    """Programs that open the terminal itself, whatever their standard input is."""
    after = s.seconds(2.6, 3.4)
    s.sh("ssh-keygen -q -t ed25519 -N secret -f locked; "
         "openssl genrsa -aes128 -passout pass:secret -out locked.pem 2048 2>/dev/null")
    typed = [(after, b"secret\n")]
    yield run(["ssh-keygen", "-y", "-f", "locked"], TERMINAL, "ssh-keygen", tty=typed, wall=1, root=True)
    yield run(["openssl", "rsa", "-in", "locked.pem", "-noout"], TERMINAL, "openssl", tty=typed, wall=1, root=True)
    sshd = Sshd(s)
    yield run(sshd.ssh("true", known="ask"), TERMINAL, "ssh-host-key", tty=[(after, b"yes\n")], wall=1, root=True)


@case("pagers")
def pagers(s):
    """less on a file, behind a pipe, and behind git."""
    quit_ = [(s.seconds(2.7, 3.4), b"q")]
    s.sh("seq 100000 > many; git init -q r; cd r; seq 3000 > a; git add a; git commit -qm a")
    yield run(["less", "many"], TERMINAL, "less", tty=quit_, wall=1)
    yield run(["bash", "-c", "seq 1000000 | less"], TERMINAL, "pipe", tty=quit_, wall=1)
    yield run(["git", "-C", s.dir / "r", "show"], TERMINAL, "git", tty=quit_, env={"PAGER": "less", "LESS": "R"}, wall=1,
              root=True)


@case("editor")
def editor(s):
    """git commit waits for the editor, and the editor for a person."""
    tool("vi")
    s.sh("git init -q r; cd r; echo a > a; git add a")
    typed = [(s.seconds(2.7, 3.4), b":q!\n")]
    yield run(["git", "-C", s.dir / "r", "commit"], TERMINAL, tty=typed, env={"GIT_EDITOR": "vi"}, wall=1, root=True)


@case("ctrl-s", quick=True)
def ctrl_s(s):
    """Output stopped at the terminal with Ctrl-S, and let go with Ctrl-Q."""
    truth = TERMINAL.plus(code=("process.tty_blocked",))
    typed = [(0.05, b"\x13"), (s.seconds(3, 3.6), b"\x11")]
    yield run(["bash", "-c", "sleep 0.2; seq 200000"], truth, tty=typed, wall=1, quick=True)


@case("gdb")
def gdb(s):
    """Somebody has attached a debugger."""
    tool("gdb")
    target = s.spawn(["sleep", "60"])
    debugger, _ = s.typist(["gdb", "-q", "-p", target.pid], env={"DEBUGINFOD_URLS": ""})
    s.wait(lambda: state_of(target.pid) == "t", "the process is traced", 20)
    truth = Truth(end=("person",), who=(debugger.pid,), code=("process.traced",))
    yield pid(target, truth, "hang", secs=2, standing=True)


@case("strace-suspended")
def strace_suspended(s):
    """The tracer itself is stopped: what it traces stands at its next system call."""
    tool("strace")
    target = s.spawn([PY, "-c", "import time\nwhile True: time.sleep(0.05)"])
    tracer = s.spawn(["strace", "-q", "-o", "/dev/null", "-p", target.pid])
    s.wait(lambda: f"TracerPid:\t{tracer.pid}" in open(f"/proc/{target.pid}/status", encoding="ascii").read(),
           "the process is traced")
    os.kill(tracer.pid, signal.SIGSTOP)
    s.wait(lambda: state_of(target.pid) == "t", "the process stands")
    truth = Truth(end=("person",), who=(tracer.pid,), code=("process.stopped",))
    yield pid(target, truth, "hang", secs=2, standing=True)


@case("job-stopped", quick=True)
def job_stopped(s):
    """A background job that was stopped, and the shell that waits for it."""
    truth = Truth(end=("person",), who=("sha256sum",), code=("process.stopped",))
    shell = s.spawn(["bash", "-c", "sha256sum /dev/zero & wait"])
    job = s.wait(lambda: children_of(shell.pid), "the job")[0]
    s.wait(lambda: Path(f"/proc/{job}/comm").read_text().strip() == "sha256sum", "the job's program")
    os.kill(job, signal.SIGSTOP)
    s.wait(lambda: state_of(job) == "T", "the job is stopped")
    yield pid(shell, truth, "of-shell", secs=2, standing=True, quick=True)
    yield pid(job, truth, "of-job", secs=2, standing=True)


@case("tmux-prompt")
def tmux_prompt(s):
    """A prompt in a tmux pane that nobody looks at."""
    tool("tmux")
    socket = s.dir / "t"
    s.sh(f"tmux -S {socket} -f /dev/null new-session -d 'bash -c \"read x\"'")
    pane = s.wait(lambda: s.sh(f"tmux -S {socket} list-panes -F '#{{pane_pid}}'").strip(), "the pane")
    yield pid(int(pane),
              Truth(end=("person", "idle"), object=("tty", "pts", "terminal"), note="a prompt is idle until somebody is owed"),
              "hang", secs=2, standing=True)


@case("python-debugger")
def python_debugger(s):
    """pdb at a breakpoint, below a wrapper."""
    script = s.file("job.py", "def work():\n    breakpoint()\n    return 1\nwork()\n")
    typed = [(s.seconds(2.6, 3.4), b"c\n")]
    yield run(["nice", PY, script], TERMINAL, "pdb", tty=typed, wall=1)
