#!/usr/bin/env python3
"""Begins a child, writes the child's PID to the file named, and never waits for it. The child ends when it is told to, or with its
parent."""

import os
import sys
import time

path = sys.argv[1]
lives, ends = os.pipe()
child = os.fork()
if child == 0:
    os.close(ends)
    os.read(lives, 1)
    os._exit(3)
with open(path + ".new", "w") as file:
    file.write(str(child))
os.rename(path + ".new", path)
while True:
    time.sleep(3600)
