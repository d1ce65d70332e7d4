#!/usr/bin/env python3
"""A Python lock that one thread, the keeper, holds for long while others want it briefly.

convoy.py THREADS GAP_MS sleep|compute KEEPER SWITCH

The switch holds the milliseconds that the keeper keeps it each time; without it, a tenth of one. CPython's locks
are semaphores: their futex does not say "locked", as a mutex's does.
"""
import ctypes
import os
import sys
import threading
import time

PR_SET_NAME = 15
threads, gap = int(sys.argv[1]), float(sys.argv[2]) / 1e3
how, keeper, switch = sys.argv[3:6]
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
table = threading.Lock()
libc = ctypes.CDLL(None)


def name(thread):
    libc.prctl(PR_SET_NAME, thread.encode(), 0, 0, 0)


def hold_seconds():
    try:
        with open(switch) as file:
            return float(file.read()) / 1e3
    except (OSError, ValueError):
        return 1e-4


def worker(number):
    name(f"worker/{number}")
    while True:
        with table:
            pass
        figure.write(b".")
        time.sleep(0.002)


for number in range(threads):
    threading.Thread(target=worker, args=(number,), daemon=True).start()
name(keeper)
while True:
    seconds = hold_seconds()
    with table:
        if how == "sleep":
            time.sleep(seconds)
        else:
            end = time.thread_time() + seconds
            while time.thread_time() < end:
                pass
    time.sleep(gap)
