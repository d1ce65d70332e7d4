#!/usr/bin/env python3
"""Starts a service and stops it, again and again: stop_service.py SWITCH GRACE_MS BY

A service ends at once on SIGTERM. While the switch is there it does not: `ignored`, because whoever started it ignores the
signal, `first`, because it is the first process of a PID namespace. After GRACE_MS it is killed. BY: who does all that, `self`
or `timeout`.
"""
import os
import select
import signal
import subprocess
import sys
import time

switch, grace, by = sys.argv[1], float(sys.argv[2]) / 1e3, sys.argv[3]
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
RUNS = 0.06
# Nothing outlives whoever began it.
TIED = ["setpriv", "--pdeathsig", "KILL"]


def way():
    try:
        with open(switch) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def service(how):
    words = ["sleep", "60"]
    if how == "ignored":
        words = ["env", "--ignore-signal=TERM"] + words
    if how == "first":
        words = ["unshare", "--pid", "--fork", "--kill-child"] + words
    return TIED + words


def stop(process, how):
    pid = process.pid
    if how == "first":
        # What unshare has begun: the service itself.
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            pid = int(file.read().split()[0])
    end = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    poll = select.poll()
    poll.register(end, select.POLLIN)
    if not poll.poll(grace * 1e3):
        os.kill(pid, signal.SIGKILL)
    os.close(end)
    process.wait()


while True:
    how = way()
    if by == "timeout":
        # In a PID namespace timeout would be the first itself, and it has a handler.
        how = "ignored" if how else how
        words = ["timeout", "--kill-after", str(grace), str(RUNS)]
        subprocess.run(TIED + words + service(how), check=False)
    else:
        process = subprocess.Popen(service(how))
        time.sleep(RUNS)
        stop(process, how)
    figure.write(b".")
