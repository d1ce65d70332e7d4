#!/usr/bin/env python3
"""Keeps each request in a file in memory while it works on it: spool.py KIB REST_US"""
import os
import sys
import time

request, rest = b"a" * (int(sys.argv[1]) << 10), float(sys.argv[2]) / 1e6
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    with os.fdopen(os.memfd_create("request"), "wb", buffering=0) as file:
        file.write(request)
    figure.write(b".")
    time.sleep(rest)
