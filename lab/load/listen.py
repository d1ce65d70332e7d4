#!/usr/bin/env python3
"""Accepts connections at a port of this host, and closes it while a file is there: listen.py PORT FILE"""
import os
import socket
import sys
import time

port, switch = int(sys.argv[1]), sys.argv[2]


def listener():
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    own.bind(("127.0.0.1", port))
    own.listen(64)
    own.settimeout(0.1)
    return own


server = listener()
while True:
    if os.path.exists(switch):
        server.close()
        while os.path.exists(switch):
            time.sleep(0.1)
        server = listener()
    try:
        server.accept()[0].close()
    except TimeoutError:
        pass
