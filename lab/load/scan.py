#!/usr/bin/env python3
"""Sends a datagram to one address after the other of a network, again and again: what a scanner does, or a host among very many."""

import ipaddress
import itertools
import socket
import sys
import time

network, per_second = ipaddress.ip_network(sys.argv[1]), float(sys.argv[2])
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
# Each packet that waits for an answer of ARP is held by its sender: room for all of them (SO_SNDBUFFORCE).
own.setsockopt(socket.SOL_SOCKET, 32, 64 << 20)
own.setblocking(False)
begin = time.monotonic()
for count, address in enumerate(itertools.cycle(network.hosts()), 1):
    try:
        own.sendto(b"x", (str(address), 9))
    except OSError:
        pass
    ahead = count / per_second - (time.monotonic() - begin)
    if ahead > 0:
        time.sleep(ahead)
