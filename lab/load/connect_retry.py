#!/usr/bin/env python3
"""Connects to a port again and again, of this host if no address is given: connect_retry.py [ADDRESS:]PORT PAUSE_MS

If it is refused, or no way leads there, it sleeps and tries again, as services do that wait for another to start.
"""
import os
import socket
import sys
import time

address, _, port = sys.argv[1].rpartition(":")
to, pause = (address or "127.0.0.1", int(port)), float(sys.argv[2]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            try:
                client.connect(to)
                break
            except OSError:
                time.sleep(pause)
    figure.write(b".")
    time.sleep(0.02)
