#!/usr/bin/env python3
"""Locks a file: lockfile.py FILE flock|posix HOLD_MS GAP_MS. A gap of 0 holds once and ends."""
import fcntl
import os
import sys
import time

path, kind, hold, gap = sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1e3, float(sys.argv[4]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
lock = fcntl.flock if kind == "flock" else fcntl.lockf
while True:
    with open(path, "a+b") as file:
        lock(file, fcntl.LOCK_EX)
        figure.write(b".")
        time.sleep(hold)
    if gap <= 0:
        break
    time.sleep(gap)
