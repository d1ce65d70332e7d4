#!/usr/bin/env python3
"""Connects to a port of this host again and again: connect_retry.py PORT PAUSE_MS

If it is refused it sleeps and tries again, as services do that wait for another to start.
"""
import os
import socket
import sys
import time

port, pause = int(sys.argv[1]), float(sys.argv[2]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        while True:
            try:
                client.connect(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                time.sleep(pause)
    figure.write(b".")
    time.sleep(0.02)
