#!/usr/bin/env python3
"""Runs one job after the other, each in a group of its own that is removed after it, as container runtimes do:
grouped_jobs.py GROUP LIMIT_FILE MIB

A job fills MIB of memory. While LIMIT_FILE is there, its number of bytes is the limit of each new group. A job that is
killed is not counted.
"""
import os
import sys
import time

group, limit_file, mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
number = 0
while True:
    number += 1
    own = os.path.join(group, f"job-{number}")
    os.mkdir(own)
    if os.path.exists(limit_file):
        with open(limit_file) as limit, open(os.path.join(own, "memory.limit_in_bytes"), "w") as file:
            file.write(limit.read())
    child = os.fork()
    if child == 0:
        with open(os.path.join(own, "cgroup.procs"), "w") as file:
            file.write("0")
        memory = bytearray(mib << 20)
        for at in range(0, len(memory), 4096):
            memory[at] = 1
        os._exit(0)
    _, status = os.waitpid(child, 0)
    while True:
        try:
            os.rmdir(own)
            break
        except OSError:
            time.sleep(0.001)
    if status == 0:
        figure.write(b".")
    time.sleep(0.05)
