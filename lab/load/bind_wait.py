#!/usr/bin/env python3
"""Listens on an address for a moment, again and again: bind_wait.py ADDRESS PORT PAUSE_MS RETRY_MS

Where it is refused the address it sleeps and tries again, as servers do that are begun before their network.
"""
import os
import socket
import sys
import time

address, port, pause, retry = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1e3, float(sys.argv[4]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
        except OSError:
            time.sleep(retry)
            continue
        server.listen()
    figure.write(b".")
    time.sleep(pause)
