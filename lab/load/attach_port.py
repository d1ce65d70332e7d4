#!/usr/bin/env python3
"""Makes an interface a port of a bridge and takes it away again: attach_port.py INTERFACE BRIDGE REST_MS RETRY_MS

As a manager of guests does, by calling ip. Where that fails it sleeps and tries again.
"""
import os
import subprocess
import sys
import time

interface, bridge = sys.argv[1:3]
rest, retry = (float(word) / 1e3 for word in sys.argv[3:5])
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)


def ip(*words):
    return subprocess.call(["ip", "link", "set", interface, *words], stderr=subprocess.DEVNULL) == 0


while True:
    if ip("master", bridge):
        figure.write(b".")
        ip("nomaster")
        time.sleep(rest)
    else:
        time.sleep(retry)
