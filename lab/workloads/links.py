#!/usr/bin/env python3
# links.py toggle | links.py churn SWITCH: network devices by rtnetlink, in the namespace that it is started in.
#
# toggle sets the loopback device up again and again, which changes nothing but takes the lock of all devices. churn makes a
# pair of devices and removes it, as a host does that starts and ends containers, while the switch is there.
import os, socket, struct, sys, time

NEWLINK, DELLINK = 16, 17
REQUEST, ACK, EXCL, CREATE = 1, 4, 0x200, 0x400
IFNAME, LINKINFO, KIND = 3, 18, 1
UP = 1

rtnetlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
rtnetlink.bind((0, 0))


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def ask(kind, flags=0, index=0, up=0, change=0, attributes=b""):
    body = struct.pack("=BxHiII", 0, 0, index, up, change) + attributes
    rtnetlink.send(struct.pack("=IHHII", 16 + len(body), kind, REQUEST | ACK | flags, 1, 0) + body)
    error, = struct.unpack_from("=i", rtnetlink.recv(65536), 16)
    if error:
        raise OSError(-error, os.strerror(-error))


def toggle():
    done = open(os.environ["FIGURE"], "ab", buffering=0)
    while True:
        ask(NEWLINK, index=1, up=UP, change=UP)
        done.write(b".")
        time.sleep(0.005)


def churn(switch):
    name = attribute(IFNAME, b"pair0\0")
    pair = name + attribute(LINKINFO, attribute(KIND, b"veth\0"))
    while True:
        if os.path.exists(switch):
            ask(NEWLINK, CREATE | EXCL, attributes=pair)
            ask(DELLINK, attributes=name)
        else:
            time.sleep(0.02)


if sys.argv[1] == "toggle":
    toggle()
else:
    churn(sys.argv[2])
