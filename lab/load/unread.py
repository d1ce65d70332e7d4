#!/usr/bin/env python3
"""Leaves data unread in connections to itself: unread.py CONNECTIONS BYTES READY_PORT

Listens at READY_PORT once all is there, and then does nothing."""
import socket
import sys
import time

listener = socket.create_server(("127.0.0.1", 0), backlog=16)
held = []
for _ in range(int(sys.argv[1])):
    near = socket.create_connection(listener.getsockname())
    held += [near, listener.accept()[0]]
    near.sendall(b"u" * int(sys.argv[2]))
ready = socket.create_server(("127.0.0.1", int(sys.argv[3])))
while True:
    time.sleep(3600)
