#!/usr/bin/env python3
"""Asks a server by the addresses of its name in turn, a connection for each question: families.py SWITCH FIRST SECOND PORT PATIENCE_MS

While the switch is there the name has both addresses; else the second alone. An address that does not answer is given up after its patience."""
import os
import socket
import sys

switch, first, second, port, patience = *sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5]) / 1e3
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
while True:
    for address in [first, second] if os.path.exists(switch) else [second]:
        try:
            with socket.create_connection((address, port), timeout=patience) as client:
                client.sendall(b"question\n")
                client.recv(5)
        except OSError:
            continue
        figure.write(b".")
        break
