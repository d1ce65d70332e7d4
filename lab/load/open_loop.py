#!/usr/bin/env python3
"""Opens, reads and closes a file again and again: open_loop.py FILE PAUSE_MS"""
import os
import sys
import time

figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    with open(sys.argv[1], "rb") as file:
        file.read(4096)
    figure.write(b".")
    time.sleep(float(sys.argv[2]) / 1e3)
