"""Commands that do their own work, and hosts that are busy or quiet without anybody being held up.

Whoever asks gets where the time goes; nothing above note may be found.
"""

import subprocess

from harness.stage import tool
from harness.truth import HEALTHY, case, host, pid, run
from processes.limits import source
from programs.web import PY


@case("h-work", quick=True)
def h_work(s):
    """Compilers, archives, small databases, threads: each does what it is for."""
    for at in range(5):
        source(s, f"src/a{at}.c")
    s.file("Makefile", "OBJ = $(patsubst %.c,%.o,$(wildcard src/*.c))\nall: $(OBJ)\n%.o: %.c\n\tgcc -O1 -c $< -o $@\n")
    s.blob("data", 24)
    s.sh("git init -q r; cd r; for i in $(seq 60); do seq $i 2000 > f$i; done; git add .; git commit -qm a")
    threads = ("import threading\nts = [threading.Thread(target=lambda: sum(range(3000000))) for _ in range(3)]\n"
               "[t.start() for t in ts]; [t.join() for t in ts]")
    commands = {
        "gcc": ["gcc", "-O2", "-c", "src/a0.c", "-o", "x.o"], "make-j2": ["make", "-s", "-j2"], "sleep": ["sleep", "1.5"],
        "tar-gzip": ["bash", "-c", "tar cf - data | gzip -1 > o.gz"],
        "xargs-P2": ["bash", "-c", "ls src/*.c | xargs -P2 -n1 gcc -c -O1 -o /dev/null"],
        "git-gc": ["git", "-C", "r", "gc", "-q"],
        "find": ["find", "/usr/share/doc", "-name", "x*"], "python-threads": [PY, "-c", threads],
        "flock-free": ["bash", "-c", "for i in 1 2 3 4 5; do flock lk true; done"],
        "dd-buffered": ["dd", "if=/dev/zero", "of=z", "bs=1M", "count=100", "status=none"],
        "retry-wait": ["bash", "-c", f"for i in 1 2 3; do sleep {s.seconds(0.3, 0.5)}; done"],
    }
    for label, argv in commands.items():
        yield run(argv, HEALTHY, label, root=label == "git-gc", quick=label in ("gcc", "tar-gzip", "flock-free"))


@case("h-languages")
def h_languages(s):
    """Interpreters at work."""
    commands = {
        "perl": ["perl", "-e", "$s += $_ for 1..3000000; print $s"], "ruby": ["ruby", "-e", "puts (1..900000).sum { |x| x * 2 }"],
        "node": ["node", "-e", "let s = 0; for (let i = 0; i < 3e7; i++) s += i; console.log(s)"],
        "awk": ["awk", "BEGIN { for (i = 0; i < 3000000; i++) s += i; print s }"],
        "python": [PY, "-c", "print(sum(i * i for i in range(2000000)))"],
    }
    for label, argv in commands.items():
        tool(argv[0])
        yield run(argv, HEALTHY, label)


@case("h-quiet-host", quick=True)
def h_quiet_host(s):
    """What a quiet host has: a loop with rests, tail -f, top, a sleep."""
    loop = s.load("date; ls /", 0.5)
    quiet = {"loop": loop, "tail-f": s.spawn(["tail", "-f", "/dev/null"]), "top": s.spawn(["top", "-b", "-d", "1"]),
             "sleep": s.spawn(["sleep", "60"])}
    yield host(HEALTHY, quick=True)
    for label, process in quiet.items():
        yield pid(process, HEALTHY, label, secs=2, quick=label == "tail-f")


@case("h-one-cpu-busy", quick=True)
def h_one_cpu_busy(s):
    """A program that computes on one CPU while another is free."""
    process = s.spawn(["sha256sum", "/dev/zero"])
    yield host(HEALTHY, quick=True)
    yield pid(process, HEALTHY, secs=2)


@case("h-disk-busy")
def h_disk_busy(s):
    """A copy onto a disk without a limit."""
    _, _, where = s.disk(256)
    s.blob("data", 100)
    yield run(["cp", "data", where / "data"], HEALTHY, "cp", root=True)
    yield run(["dd", "if=data", f"of={where}/data2", "bs=1M", "conv=fsync", "status=none"], HEALTHY, "dd-fsync", root=True)


@case("h-pipeline")
def h_pipeline(s):
    """A pipeline at full speed, and a producer with nothing to say."""
    yield run(["bash", "-c", "seq 900000 | sort -rn | head -n 3"], HEALTHY, "sort")
    follower = s.spawn(["bash", "-c", "tail -f /dev/null | grep x"], stdin=subprocess.DEVNULL)
    yield pid(follower, HEALTHY, "tail-grep", secs=2)
