#!/usr/bin/env python3
"""Writes a report again and again: write_retry.py FILE PAUSE_MS

If it may not be made, it sleeps and tries again, as jobs do that wait for a share to be mounted.
"""
import os
import sys
import time

path, pause = sys.argv[1], float(sys.argv[2]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    while True:
        try:
            with open(path, "w") as report:
                report.write("all is well\n")
            break
        except OSError:
            time.sleep(pause)
    figure.write(b".")
    time.sleep(0.02)
