#!/usr/bin/env python3
"""Takes a file lock again and again without waiting for it: poll_lock.py FILE flock|posix PAUSE_MS [ROUNDS]

If it is taken it sleeps and tries again, as programs do that must not hang.
"""
import fcntl
import os
import sys
import time

path, kind, pause = sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1e3
rounds = int(sys.argv[4]) if len(sys.argv) > 4 else -1
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
lock = fcntl.flock if kind == "flock" else fcntl.lockf
while rounds != 0:
    with open(path, "a+b") as file:
        while True:
            try:
                lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(pause)
        figure.write(b".")
    rounds -= 1
    time.sleep(0.05)
