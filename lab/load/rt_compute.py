#!/usr/bin/env python3
"""Computes under SCHED_FIFO, a few milliseconds at a time: rt_compute.py PRIORITY"""
import os
import sys
import time

figure = open(os.environ.get("FIGURE", os.devnull), "ab", buffering=0)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(int(sys.argv[1])))
while True:
    until = time.thread_time() + 0.003
    while time.thread_time() < until:
        pass
    figure.write(b".")
    time.sleep(0.003)
