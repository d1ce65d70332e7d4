#!/usr/bin/env python3
"""Reads a pipe; while the switch is there, it pauses after each block: collect.py FILE SWITCH

The switch holds milliseconds."""
import os
import sys
import time

pipe = os.open(sys.argv[1], os.O_RDONLY)
while True:
    if not os.read(pipe, 4096):
        time.sleep(0.02)
        continue
    try:
        with open(sys.argv[2]) as switch:
            time.sleep(float(switch.read() or 0) / 1e3)
    except FileNotFoundError:
        pass
