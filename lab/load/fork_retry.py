#!/usr/bin/env python3
"""Runs WIDTH short children at a time, again and again: fork_retry.py WIDTH PAUSE_MS

If a child is refused it sleeps and tries again, as shells do.
"""
import os
import sys
import time

width, pause = int(sys.argv[1]), float(sys.argv[2]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    alive = 0
    for _ in range(width):
        while True:
            try:
                child = os.fork()
                break
            except BlockingIOError:
                time.sleep(pause)
                while alive and os.waitpid(-1, os.WNOHANG)[0]:
                    alive -= 1
        if child == 0:
            time.sleep(0.02)
            os._exit(0)
        alive += 1
    while alive:
        os.wait()
        alive -= 1
    figure.write(b".")
