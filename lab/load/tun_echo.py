#!/usr/bin/env python3
"""Plays a host behind a tun device: tun_echo.py DEVICE SWITCH PORT

Sends each UDP packet for that port back to where it came from. While the file SWITCH is there it pauses for the milliseconds that it holds
after each packet, as a virtual machine does that is not run.
"""
import fcntl
import os
import struct
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
device, switch, port = sys.argv[1], sys.argv[2], struct.pack("!H", int(sys.argv[3]))
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
while True:
    packet = os.read(tun, 65536)
    try:
        time.sleep(float(open(switch).read()) / 1e3)
    except (OSError, ValueError):
        pass
    # IPv4 without options, UDP: ends change places, so that the checksums stay right.
    if packet[:1] == b"E" and packet[9] == 17 and packet[22:24] == port:
        ends, ports = packet[12:20], packet[20:24]
        back = packet[:12] + ends[4:] + ends[:4] + ports[2:] + ports[:2] + packet[24:]
        os.write(tun, back)
