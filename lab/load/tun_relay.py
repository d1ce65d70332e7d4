#!/usr/bin/env python3
"""Carries packets between two tun devices: tun_relay.py DEVICE DEVICE SWITCH

While the file SWITCH is there it changes the byte of the payload at the place that the file says, in every packet of TCP that has one there, as a
bad cell of a buffer does.
"""
import fcntl
import os
import select
import struct
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
TCP = 6


def opened(device):
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def place(switch):
    try:
        return int(open(switch).read())
    except (OSError, ValueError):
        return None


def changed(packet, at):
    if at is None or packet[0] >> 4 != 4 or packet[9] != TCP:
        return packet
    transport = (packet[0] & 15) * 4
    at += transport + (packet[transport + 12] >> 4) * 4
    if at >= len(packet):
        return packet
    return packet[:at] + bytes([packet[at] ^ 0x20]) + packet[at + 1:]


one, other = opened(sys.argv[1]), opened(sys.argv[2])
ways, switch = {one: other, other: one}, sys.argv[3]
while True:
    for tun in select.select([one, other], [], [])[0]:
        try:
            os.write(ways[tun], changed(os.read(tun, 65536), place(switch)))
        except OSError:
            pass  # A device is down for the moment in which it is moved.
