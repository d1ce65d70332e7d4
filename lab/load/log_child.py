#!/usr/bin/env python3
"""Logs to a child of its own through a pipe: log_child.py BYTES PAUSE_MS CHILD [ARGUMENT...]"""
import os
import subprocess
import sys
import time

figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
line = b"x" * (int(sys.argv[1]) - 1) + b"\n"
child = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
while True:
    child.stdin.write(line)
    child.stdin.flush()
    figure.write(b".")
    time.sleep(float(sys.argv[2]) / 1e3)
