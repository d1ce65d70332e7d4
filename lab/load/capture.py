#!/usr/bin/env python3
"""Captures every frame of an interface, also those for others: capture.py INTERFACE"""
import socket
import struct
import sys

SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC, ETH_P_ALL = 263, 1, 1, 3
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
sniffer.bind((sys.argv[1], ETH_P_ALL))
member = struct.pack("iHH8s", socket.if_nametoindex(sys.argv[1]), PACKET_MR_PROMISC, 0, b"")
sniffer.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, member)
while True:
    sniffer.recv(65536)
