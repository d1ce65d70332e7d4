#!/usr/bin/env python3
"""Threads that each have a little to do, beside one, the keeper, that computes in calls which keep the interpreter lock.

interpreter.py THREADS GAP_MS KEEPER SWITCH

The switch holds the milliseconds that one call of the keeper's takes; without it, a tenth of one. The call adds up a range of
numbers, which C code does without letting go of the lock.
"""
import ctypes
import os
import sys
import threading
import time

PR_SET_NAME = 15
threads, gap = int(sys.argv[1]), float(sys.argv[2]) / 1e3
keeper, switch = sys.argv[3:5]
figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
libc = ctypes.CDLL(None)


def name(thread):
    libc.prctl(PR_SET_NAME, thread.encode(), 0, 0, 0)


def call_seconds():
    try:
        with open(switch) as file:
            return float(file.read()) / 1e3
    except (OSError, ValueError):
        return 1e-4


def count_in_a_second():
    """Numbers that one call adds up in a second, of its own CPU time."""
    begin = time.thread_time()
    sum(range(1_000_000))
    return 1_000_000 / (time.thread_time() - begin)


def worker(number):
    name(f"worker/{number}")
    while True:
        figure.write(b".")
        time.sleep(0.002)


for number in range(threads):
    threading.Thread(target=worker, args=(number,), daemon=True).start()
name(keeper)
rate = count_in_a_second()


def crunch(seconds):
    sum(range(int(rate * seconds)))


while True:
    crunch(call_seconds())
    time.sleep(gap)
