#!/usr/bin/env python3
"""A client of sessions.c: transactions.py PORT HOLD_MS GAP_MS

Begins a transaction, keeps it for so long, ends it, rests, and again. With 0 to hold it asks for the row and gives it back at
once. One operation is one transaction.
"""
import os
import socket
import sys
import time

port, hold, gap = int(sys.argv[1]), float(sys.argv[2]) / 1e3, float(sys.argv[3]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
server = socket.create_connection(("127.0.0.1", port))
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def ask(word):
    server.sendall(word)
    if server.recv(1) != b"k":
        sys.exit("the server has gone")


while True:
    if hold > 0:
        ask(b"b")
        time.sleep(hold)
        ask(b"e")
    else:
        ask(b"t")
    figure.write(b".")
    time.sleep(gap)
