#!/usr/bin/env python3
"""Asks a server on a unix socket, one question at a time: ask.py SOCKET EVERY_MS"""
import os
import socket
import sys
import time

figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
while True:
    try:
        server.connect(sys.argv[1])
        break
    except (FileNotFoundError, ConnectionRefusedError):
        time.sleep(0.02)
while True:
    server.sendall(b"question\n")
    if not server.recv(5):
        break
    figure.write(b".")
    time.sleep(float(sys.argv[2]) / 1e3)
