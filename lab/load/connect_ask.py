#!/usr/bin/env python3
"""Asks a server one question per connection: connect_ask.py HOST PORT PAUSE_MS RETRY_MS

It resets its connections when it is done, so that they leave nothing behind. Where connect is refused it sleeps and tries again.
"""
import os
import socket
import struct
import sys
import time

host, port, pause, retry = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1e3, float(sys.argv[4]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    try:
        client.connect((host, port))
        client.sendall(b"question\n")
        client.recv(5)
    except OSError:
        client.close()
        time.sleep(retry)
        continue
    client.close()
    figure.write(b".")
    time.sleep(pause)
