"""Recordings for the browser: hostile names, a hundred thousand waits, a deadlock's ring.

Written as recordings of format 1, lines of JSON behind a header, which holdup reads for ever; so no binary has to be kept, and
each can be read here. Must not: stand for what a kernel really says (tests/recordings has that).
"""

import json
import subprocess
import zlib

SECOND = 1_000_000_000
BEGIN = 1_000 * SECOND
NASTY = "</script><script>window.pwned=1</script><img src=x onerror='window.pwned=2'>\u2028\u202e\x1b[31m\"`${1}"


def write(path, facts):
    """A recording of these facts, each (moment, kind, value)."""
    lines = [json.dumps({"holdup_recording": 1, "tool": "holdup 0.1.0"})]
    lines += [json.dumps({"t": at, "f": kind, "v": value}) for at, kind, value in facts]
    subprocess.run(["zstd", "-q", "-1", "-f", "-o", path], input="\n".join(lines).encode() + b"\n", check=True)


def thread(tid, comm):
    return {"tid": tid, "pid": tid, "start_ns": SECOND, "comm": comm}


def look(name, facts, seconds=5, cpus=2):
    """A look of so many seconds at a host."""
    end = BEGIN + seconds * SECOND
    yield BEGIN, "host", {"hostname": name, "kernel": name, "cpus": cpus, "kernel_events": True, "tool_version": "0.1.0"}
    yield BEGIN, "target", {"kind": "host", "name": name}
    yield BEGIN, "window_begin", {"unix_ns": 1_795_232_580_000_000_000}
    yield from facts
    yield end, "window_end", {"threshold_ns": 1_000_000}
    yield end, "cost", {"cpu_seconds": 0.2, "bpf_seconds": 0.01, "rss_bytes": 30_000_000, "events": 1000}


def lock_wait(who, path, begin, length, by):
    """A wait for a lock on a file, which `by` ended."""
    place = {"state": "sleep", "syscall": "flock", "stack": 1,
             "object": {"k": "file", "dev": {"major": 254, "minor": 0}, "ino": zlib.crc32(path.encode("utf-8", "surrogatepass")), "path": path}}
    wake = {"at_ns": begin + length, "context": "task", "by": by}
    return begin + length, "wait", {"thread": who, "begin_ns": begin, "end_ns": begin + length, "place": place, "wake": wake}


def sleep(who, begin, length):
    place = {"state": "sleep", "syscall": "clock_nanosleep", "stack": 2}
    wake = {"at_ns": begin + length, "context": "hard_interrupt", "by": thread(0, "swapper/0")}
    return begin + length, "wait", {"thread": who, "begin_ns": begin, "end_ns": begin + length, "place": place, "wake": wake}


STACKS = [
    (BEGIN, "stack", {"id": 1, "frames": ["locks_lock_inode_wait", NASTY, "__x64_sys_flock", "do_syscall_64"]}),
    (BEGIN, "stack", {"id": 2, "frames": ["hrtimer_nanosleep", "do_syscall_64"]}),
]


def hostile(path, victims=8):
    """Every name that a program can choose is an attack."""
    facts = list(STACKS)
    holder = thread(50, NASTY[:60])
    file = "/" + "d" * 4000 + NASTY + "/db.lock"
    facts.append((BEGIN, "file_lock", {"id": 1, "kind": "FLOCK", "access": "WRITE", "pid": 50, "dev": {"major": 254, "minor": 0},
                                       "ino": zlib.crc32(file.encode()), "start": 0, "end": 2**63 - 1, "blocked": False, "holders": [holder], "path": file}))
    for at in range(victims):
        facts.append(lock_wait(thread(60 + at, NASTY[at:at + 40]), file, BEGIN + SECOND // 10, 4 * SECOND, holder))
    facts.append(sleep(holder, BEGIN + SECOND // 20, 4 * SECOND))
    facts.append((BEGIN, "blind", {"what": "proc.stack", "why": NASTY, "therefore": NASTY}))
    write(path, look(NASTY, facts))


def many(path, waits=100_000):
    """A hundred thousand waits of two thousand processes for seven hundred locks, in thirty seconds."""
    facts = list(STACKS)
    for n in range(waits):
        begin = BEGIN + (n // 2000) * (SECOND * 28 // (waits // 2000)) + n % 977 * 1000
        lock = n % 700
        facts.append(lock_wait(thread(100 + n % 2000, f"worker{n % 40}"), f"/srv/data/{lock}/table.lock", begin, 400_000_000,
                               thread(9000 + lock % 50, f"writer{lock % 50}")))
    write(path, look("busy-host", facts, seconds=30))
