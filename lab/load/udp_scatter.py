#!/usr/bin/env python3
"""Sends UDP packets from a socket that is not connected: udp_scatter.py FROM_PORT HOST PORT BYTES PER_SECOND"""
import socket
import sys
import time

from_port, host, port, size, rate = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.bind(("0.0.0.0", from_port))
packet = b"u" * size
due = time.monotonic()
while True:
    time.sleep(max(0.0, due - time.monotonic()))
    due = max(due + 4 / rate, time.monotonic() - 0.1)
    for _ in range(4):
        try:
            sender.sendto(packet, (host, port))
        except OSError:
            pass
