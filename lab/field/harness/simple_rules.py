"""What a person would read off the counters today, over the same look: the lab's simple rules, in Python.

The same four as lab/src/baseline.rs: the resource with the highest utilisation (above 80 %), the largest pressure (above a
tenth), the longest average wait of a disk (above 10 ms), and the kernel function in which threads were seen longest in
uninterruptible sleep. They name an area, or nothing; on a healthy run whatever they say is an alarm. A fifth, the busiest
process, is what `top` shows first; it is compared by process. Counters only: nothing here loads the host that is looked at.

Edit together: lab/src/baseline.rs, judge.py.
"""

import os
import pathlib
import threading
import time

from .processes import all_pids

UTILISED = 0.8  # share of a resource's time: the usual rule
PRESSED = 0.1  # share of the time in which somebody waited
LONG_AWAIT = 10.0  # ms for a request
REQUESTS = 5  # fewer say nothing of an average
SEEN = 5  # samples of the same wait channel, a fifth of a second apart
BUSY = 0.1  # of one CPU: less is nobody's first line of top
SAMPLE = 0.2  # seconds
CHANNELS = (
    ("memory", ("dirty", "reclaim", "mem_cgroup", "compact")),
    ("process", ("refrigerator", "signal_stop", "kernel_clone", "pipe")),
    ("lock", ("futex", "mutex", "flock", "rwsem")),
    ("net", ("sk_", "tcp", "inet", "unix")),
    ("disk", ("folio", "dio", "jbd2", "io_schedule", "blk", "wbt", "buffer")),
)


def text_of(path):
    """A file, or nothing."""
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def cpu_ticks():
    """(busy, all)."""
    fields = [int(word) for word in text_of("/proc/stat").splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def stolen_ticks():
    """(taken by the hypervisor, all)."""
    fields = [int(word) for word in text_of("/proc/stat").splitlines()[0].split()[1:9]]
    return fields[7], sum(fields)


def disk_counters():
    """By disk: requests, milliseconds of requests, milliseconds busy."""
    found = {}
    for line in text_of("/proc/diskstats").splitlines():
        words = line.split()
        found[words[2]] = (int(words[3]) + int(words[7]), int(words[6]) + int(words[10]), int(words[12]))
    return found


def pressures():
    """Microseconds that somebody waited, by area."""
    found = {}
    for resource, area in (("cpu", "cpu"), ("io", "disk"), ("memory", "memory")):
        line = text_of(f"/proc/pressure/{resource}").partition("\n")[0]
        found[area] = int(line.rpartition("total=")[2] or 0)
    return found


def cpu_of_processes():
    """Clock ticks by (PID, name), of processes other than this one."""
    found = {}
    for pid in all_pids():
        text = text_of(f"/proc/{pid}/stat")
        if text and pid != os.getpid():
            rest = text[text.rindex(")") + 2:].split()
            found[pid, text[text.index("(") + 1:text.rindex(")")]] = int(rest[11]) + int(rest[12])
    return found


class Watch:
    """Begins with the look; `end` says what each rule says."""

    def __init__(self):
        self.begun = time.monotonic()
        self.cpu, self.disks, self.pressed = cpu_ticks(), disk_counters(), pressures()
        self.stolen, self.stolen_begin = 0.0, stolen_ticks()
        self.processes, self.last = cpu_of_processes(), {}
        self.channels = {}
        self.over = threading.Event()
        self.sampler = threading.Thread(target=self.sample, daemon=True)
        self.sampler.start()

    def sample(self):
        """Wait channels of uninterruptible threads; CPU times of processes while they live."""
        turn = 0
        while not self.over.wait(SAMPLE):
            turn += 1
            for pid in all_pids():
                stat = text_of(f"/proc/{pid}/stat")
                if stat and stat[stat.rindex(")") + 2] == "D":
                    channel = text_of(f"/proc/{pid}/wchan")
                    self.channels[channel] = self.channels.get(channel, 0) + 1
            if turn % 3 == 0:
                self.last.update(cpu_of_processes())

    def end(self):
        """What each rule says: an area, a (PID, name), or nothing."""
        self.over.set()
        self.sampler.join()
        seconds = max(0.001, time.monotonic() - self.begun)
        stolen, all_ticks = (now - then for now, then in zip(stolen_ticks(), self.stolen_begin))
        self.stolen = stolen / max(1, all_ticks)
        busy, ticks = cpu_ticks()
        cpu = (busy - self.cpu[0]) / max(1, ticks - self.cpu[1])
        utilised, longest = 0.0, 0.0
        for name, now in disk_counters().items():
            requests, taken, active = (a - b for a, b in zip(now, self.disks.get(name, (0, 0, 0))))
            utilised = max(utilised, active / 1000 / seconds)
            if requests >= REQUESTS:
                longest = max(longest, taken / requests)
        pressed = {area: (now - self.pressed[area]) / 1e6 / seconds for area, now in pressures().items()}
        most = max(pressed, key=pressed.get)
        return {
            "highest utilisation": None if max(cpu, utilised) < UTILISED else "cpu" if cpu >= utilised else "disk",
            "largest pressure": most if pressed[most] > PRESSED else None,
            "longest await": "disk" if longest > LONG_AWAIT else None,
            "longest off-CPU stack": self.channel_area(),
            "busiest process": self.busiest(seconds),
        }

    def channel_area(self):
        """The area that the most frequent wait channel's name suggests."""
        channel = max(self.channels, key=self.channels.get, default="")
        if self.channels.get(channel, 0) < SEEN:
            return None
        return next((area for area, marks in CHANNELS if any(mark in channel for mark in marks)), None)

    def busiest(self, seconds):
        """Who used most CPU time, as [PID, name]."""
        self.last.update(cpu_of_processes())
        used = {key: ticks - self.processes.get(key, 0) for key, ticks in self.last.items() if key[1] != "holdup"}
        most = max(used, key=used.get, default=None)
        if most is None or used[most] / os.sysconf("SC_CLK_TCK") / seconds < BUSY:
            return None
        return list(most)
