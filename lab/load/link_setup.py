#!/usr/bin/env python3
"""Sets the length of its loopback's queue again and again, as who sets up a network does: link_setup.py REST_US"""
import fcntl
import os
import socket
import struct
import sys
import time

SIOCSIFTXQLEN = 0x8943

rest = float(sys.argv[1]) / 1e6
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
length = 1000
while True:
    length = 1001 if length == 1000 else 1000
    fcntl.ioctl(asker, SIOCSIFTXQLEN, struct.pack("16si20x", b"lo", length))
    figure.write(b".")
    time.sleep(rest)
