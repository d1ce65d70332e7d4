#!/usr/bin/env python3
"""Asks a host for an echo, again and again: icmp_ping.py HOST PAUSE_MS"""
import os
import socket
import struct
import sys
import time

host, pause = sys.argv[1], float(sys.argv[2]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
asker = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
asker.settimeout(3)
own, number = os.getpid() & 0xFFFF, 0


def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


while True:
    number = number + 1 & 0xFFFF
    head = struct.pack("!BBHHH", 8, 0, 0, own, number)
    asker.sendto(struct.pack("!BBHHH", 8, 0, checksum(head), own, number), (host, 0))
    try:
        while True:
            kind, _, _, whose, which = struct.unpack("!BBHHH", asker.recv(2048)[20:28])
            if (kind, whose, which) == (0, own, number):
                figure.write(b".")
                break
    except TimeoutError:
        pass
    time.sleep(pause)
