#!/usr/bin/env python3
"""Asks a server on a unix socket, one question at a time: ask.py SOCKET EVERY_MS [recv|poll|select|epoll [QUESTIONS]]

How it waits for the answer: in recv itself, or in poll, select or epoll beside a wake-up pipe, as clients with time
limits and event loops do.
"""
import os
import select
import socket
import sys
import time

how = sys.argv[3] if len(sys.argv) > 3 else "recv"
questions = int(sys.argv[4]) if len(sys.argv) > 4 else -1
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
while True:
    try:
        server.connect(sys.argv[1])
        break
    except (FileNotFoundError, ConnectionRefusedError):
        time.sleep(0.02)
wake_up, _ours = os.pipe()
if how == "poll":
    poll = select.poll()
if how == "epoll":
    poll = select.epoll()
if how in ("poll", "epoll"):
    poll.register(wake_up, select.POLLIN)
    poll.register(server, select.POLLIN)
while questions != 0:
    server.sendall(b"question\n")
    if how == "select":
        select.select([wake_up, server], [], [], 30)
    elif how == "poll":
        poll.poll(30_000)
    elif how == "epoll":
        poll.poll(30)
    if not server.recv(5):
        break
    figure.write(b".")
    questions -= 1
    time.sleep(float(sys.argv[2]) / 1e3)
