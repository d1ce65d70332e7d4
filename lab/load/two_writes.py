#!/usr/bin/env python3
"""Asks a server, one question at a time, and writes each in one call, or in two while a file is there:
two_writes.py HOST PORT FILE PAUSE_MS
"""
import os
import socket
import sys
import time

figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
server = socket.create_connection((sys.argv[1], int(sys.argv[2])))
switch, pause = sys.argv[3], float(sys.argv[4]) / 1e3
while True:
    if os.path.exists(switch):
        server.sendall(b"question")
        server.sendall(b" and end")
    else:
        server.sendall(b"question and end")
    if not server.recv(16):
        break
    figure.write(b".")
    time.sleep(pause)
