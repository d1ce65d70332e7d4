"""Processes as /proc shows them: who descends from whom, what each waits in, and how they are ended.

Owns every signal that the corpus sends to end something: by PID, to descendants of this process only (it is a subreaper,
so daemons come back to it). It must not end anything by name.
"""

import ctypes
import os
import pathlib
import signal
import time

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper():
    """Orphans of ours become our children, to be ended by PID."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def stat_of(pid):
    """(comm, state, parent) or None."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    rest = text[text.rindex(")") + 2:].split()
    return text[text.index("(") + 1:text.rindex(")")], rest[0], int(rest[1])


def state_of(pid):
    """R, S, D, T, t, Z, or nothing."""
    stat = stat_of(pid)
    return stat[1] if stat else ""


def children_of(pid):
    """Children of its main thread."""
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def all_pids():
    """Every process."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def descendants(root):
    """PIDs below root, parents first."""
    children = {}
    for pid in all_pids():
        stat = stat_of(pid)
        if stat:
            children.setdefault(stat[2], []).append(pid)
    found, todo = [], [root]
    while todo:
        for child in children.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return found


def descendant_named(root, comm):
    """The first process of that name below root."""
    for pid in descendants(root):
        stat = stat_of(pid)
        if stat and stat[0] == comm and stat[1] != "Z":
            return pid
    return None


def signal_all(pids, number):
    """Sends a signal, after a SIGCONT, to those that are still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def reap():
    """Collects children that are over."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def end_descendants():
    """Ends every process below this one, and reaps it. What survives SIGKILL is returned."""
    for number, patience in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 3.0)):
        until = time.monotonic() + patience
        alive = descendants(os.getpid())
        signal_all(alive, number)
        while time.monotonic() < until:
            reap()
            alive = descendants(os.getpid())
            if not alive:
                return []
            if number == signal.SIGKILL:
                signal_all(alive, number)
            time.sleep(0.03)
    return descendants(os.getpid())


def evidence(pids):
    """Who waits in which system call on what, for whoever looks into a miss."""
    lines = []
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
            args = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        lines.append(f"== {pid} {args.replace(bytes(1), b' ').decode(errors='replace')[:120]}")
        lines += [text for text in map(lambda tid: thread_evidence(pid, tid), threads[:40]) if text]
    return "\n".join(lines) + "\n"


def thread_evidence(pid, tid):
    """One thread's state, wait channel, system call and kernel stack."""
    base = pathlib.Path(f"/proc/{pid}/task/{tid}")
    try:
        stat = (base / "stat").read_text()
        comm, state = (base / "comm").read_text().strip(), stat[stat.rindex(")") + 2]
        wchan, call = (base / "wchan").read_text(), (base / "syscall").read_text().strip()
        stack = [line.split("] ")[-1].split("+")[0] for line in (base / "stack").read_text().splitlines()]
    except OSError:
        return ""
    return f"  {tid} {comm} {state} wchan={wchan} syscall={call}\n      {' < '.join(stack[:9])}"
