#!/usr/bin/env python3
"""Connects to one address after the other of a network, and sleeps in between: connect_each.py NETWORK PORT PAUSE_MS"""

import ipaddress
import itertools
import os
import socket
import sys
import time

network, port, pause = ipaddress.ip_network(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
for address in itertools.cycle(network.hosts()):
    with socket.create_connection((str(address), port)):
        figure.write(b".")
    time.sleep(pause)
