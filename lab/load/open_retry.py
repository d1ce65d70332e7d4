#!/usr/bin/env python3
"""Keeps WIDTH descriptors open, and opens new ones in place of the oldest: open_retry.py WIDTH PAUSE_MS

If one is refused it sleeps, lets the oldest go and tries again, as servers do.
"""
import collections
import os
import sys
import time

width, pause = int(sys.argv[1]), float(sys.argv[2]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
held = collections.deque()
while True:
    if len(held) >= width:
        os.close(held.popleft())
    while True:
        try:
            held.append(os.open(os.devnull, os.O_RDONLY))
            break
        except OSError:
            time.sleep(pause)
            if held:
                os.close(held.popleft())
    figure.write(b".")
    time.sleep(0.01)
