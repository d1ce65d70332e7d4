#!/usr/bin/env python3
"""Fills a new buffer for each request: buffers_new.py KIB REST_US"""
import mmap
import os
import sys
import time

size, rest = int(sys.argv[1]) << 10, float(sys.argv[2]) / 1e6
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as buffer:
        for at in range(0, size, mmap.PAGESIZE):
            buffer[at] = 1
    figure.write(b".")
    time.sleep(rest)
