#!/usr/bin/env python3
"""Accepts TCP connections and reads them: slow_read.py ADDRESS PORT BYTES RCVBUF SWITCH

While the switch is there, it pauses for that many milliseconds after each read."""
import socket
import sys
import threading
import time

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if int(sys.argv[4]) > 0:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[4]))
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen(16)


def read(stream):
    while stream.recv(int(sys.argv[3])):
        try:
            with open(sys.argv[5]) as switch:
                time.sleep(float(switch.read() or 0) / 1e3)
        except FileNotFoundError:
            pass


while True:
    threading.Thread(target=read, args=(listener.accept()[0],), daemon=True).start()
