"""Asks holdup one question, as a person would, and saves everything that is needed to judge it again.

Owns the command line of holdup. Per ask it saves BASE.json (the answer), .hup (the recording), .txt (what a person reads),
.proc (state, wait channel, system call and stack of every process of the case in the middle of the look), .out and .err.
holdup gets no hint: neither the truth nor when a fault began.
"""

import json
import os
import pathlib
import pwd
import subprocess
import threading
import time
from dataclasses import dataclass, replace

from .lab import Watch
from .processes import descendants, evidence, stat_of
from .stage import Terminal
from .truth import NotProven

PATIENCE = 90  # seconds for one answer
VOLATILE = ("window", "cost", "tool")  # of an answer: what differs between a look and its replay by nature


@dataclass
class Result:
    """An answer, and what was measured around it."""

    json: dict
    seconds: float
    status: int
    sayings: dict  # of the simple rules
    replay_equal: bool = None
    stolen: float = 0.0  # what of the CPUs the hypervisor took meanwhile, by the kernel's own count


def command(ask, holdup, base, user):
    """The command line, without whatever brings it to another user."""
    argv = [holdup, "record", f"{base}.hup", "--json", "-o", f"{base}.json"]
    inside = [str(word) for word in ask.inside or []]
    if ask.mode == "run":
        argv += ["--"] + ([] if user else inside) + ask.argv
    elif ask.mode == "pid":
        argv += ["--for", f"{ask.secs}s", "-p", str(ask.pid)]
    else:
        argv += ["--for", f"{ask.secs}s"]
    if user:
        # Who has no privilege cannot enter a namespace: holdup is started inside.
        argv = inside + ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--init-groups"] + argv
    return argv


def perform(ask, holdup, base, stage, user=None):
    """One question; a Result."""
    if user:
        open_to(user, stage, base)
    keys = [(ask.ctrl_c, b"\x03")] if ask.ctrl_c else ask.tty if isinstance(ask.tty, list) else []
    terminal = Terminal() if ask.tty or ask.ctrl_c else None
    timers = [threading.Timer(t, act) for t, act in ask.during]
    timers += [threading.Timer(t, terminal.type, (text,)) for t, text in keys]
    middle = min(2.0, ask.secs / 2, (ask.ctrl_c or 9) / 2, (ask.wall or 9) * 0.7)
    timers.append(threading.Timer(middle, look_around, (ask, base)))
    watch = Watch()
    begin = time.monotonic()
    process = start(command(ask, holdup, base, user), ask, base, stage, terminal)
    if terminal:
        terminal.begin()
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        status = process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise NotProven(f"holdup did not answer within {PATIENCE} s") from None
    finally:
        for timer in timers:
            timer.cancel()
        sayings = watch.end()
    result = answer_of(base, holdup, time.monotonic() - begin, status, sayings)
    return replace(result, stolen=watch.stolen)


def open_to(user, stage, base):
    """An ordinary user may write where the case and the answer are."""
    stage.hand_over()
    for suffix in (".hup", ".json"):
        path = pathlib.Path(base + suffix)
        path.touch()
        os.chown(path, pwd.getpwnam(user).pw_uid, -1)


def start(argv, ask, base, stage, terminal):
    """Starts holdup in a session of its own, on a terminal if the question has one."""
    with open(f"{base}.out", "wb") as out, open(f"{base}.err", "wb") as errors:
        return subprocess.Popen(argv, stdin=terminal.slave if terminal else subprocess.DEVNULL,
                                stdout=terminal.slave if terminal else out,
                                stderr=errors, preexec_fn=Terminal.adopt if terminal else os.setsid,
                                env={**stage.env, **(ask.env or {})}, cwd=ask.cwd or stage.dir)


def look_around(ask, base):
    """In the middle of the look: what the case's processes are in."""
    pids = [pid for pid in descendants(os.getpid()) if (stat_of(pid) or ("holdup",))[0] != "holdup"]
    if ask.pid and ask.pid not in pids:
        pids.append(ask.pid)
    pathlib.Path(f"{base}.proc").write_text(evidence(pids[:60]))


def answer_of(base, holdup, seconds, status, sayings):
    """Reads the answer, prints it for people, and compares it with that of the recording."""
    try:
        data = json.loads(pathlib.Path(f"{base}.json").read_text())
    except (OSError, ValueError) as e:
        errors = pathlib.Path(f"{base}.err").read_text(errors="replace")
        raise NotProven(f"no answer ({e}); status {status}; {errors[-300:]}") from e
    pathlib.Path(f"{base}.txt").write_text(replayed(holdup, f"{base}.hup"))
    try:
        again = json.loads(replayed(holdup, f"{base}.hup", "--json"))
    except ValueError:
        again = None
    return Result(data, seconds, status, sayings, again is not None and comparable(again) == comparable(data))


def comparable(data):
    """An answer without what differs by nature."""
    return {key: value for key, value in data.items() if key not in VOLATILE}


def replayed(holdup, recording, *more):
    """What holdup says to a recording."""
    done = subprocess.run([holdup, "--no-color", *more, "--from", recording], capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, check=False)
    return done.stdout or done.stderr
