"""Disks with a limit, for programs that read and write in every way: fsync, direct, asynchronous, mapped, in a package manager.

The disk is a loop device, the limit is that of the group that the program is in: the kernel holds its requests before the disk
has seen them, and the disk itself is idle. An end of kind device has no responsible process; the limit is the finding's culprit.
"""

import time

from harness.stage import tool
from harness.truth import HEALTHY, NotProven, Truth, case, host, pid, run
from programs.web import PY

FSYNC = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
end = time.monotonic() + float(sys.argv[2]); n = 0
while time.monotonic() < end:
    os.pwrite(fd, b'x' * 4096, 4096 * n); os.fsync(fd); n += 1
print(n)
"""


def limited(disk, number, group, **more):
    """The truth of a group's own limit."""
    return Truth(end=("device",), object=(disk, number), code=("disk.own_throttle",), culprit=(group.name,), **more)


def fio(engine, file, seconds=None):
    """fio's command line: random reads, for so long or so many."""
    amount = ["--time_based", f"--runtime={seconds}"] if seconds else ["--number_ios=120"]
    direct = 0 if engine == "mmap" else 1
    return ["fio", "--name=j", f"--ioengine={engine}", f"--filename={file}", f"--direct={direct}", "--iodepth=16",
            "--rw=randread", "--bs=4k",
            "--size=64m", *amount, "--thread", "--eta=never", "--output=/dev/null"]


def fio_limited(engine):
    """A case of one of fio's engines."""
    def make(s):
        tool("fio")
        disk, number, where = s.disk(128)
        s.blob(where / "data", 64, zeros=True)
        s.forget(disk, where)
        group, limit = s.group("io"), s.random.randrange(35, 60)
        group.io(number, "read_iops", limit)
        truth = limited(disk, number, group)
        process = s.spawn(fio(engine, where / "data", 25), groups=[group])

        def served():
            with open(f"/sys/block/{disk}/stat", encoding="ascii") as stat:
                return int(stat.read().split()[0])
        s.wait(lambda: served() > 0, "reads")
        time.sleep(1.5)
        before = served()
        time.sleep(1)
        if not 0.5 * limit <= served() - before <= 1.6 * limit:
            raise NotProven(f"{served() - before} reads per second under a limit of {limit}")
        yield pid(process, truth)
        yield host(truth)
        process.terminate()
        process.wait(20)
        s.forget(disk, where)
        argv = ["sh", "-c", f"{group.enter}; exec " + " ".join(fio(engine, where / "data"))]
        yield run(argv, truth, wall=1, root=True)
    make.__doc__ = f"fio with {engine}, in a group that may read seldom."
    return make


for name in ("io_uring", "libaio", "psync", "mmap"):
    case(f"fio-{name}")(fio_limited(name))


@case("fsync-limited", quick=True)
def fsync_limited(s):
    """A writer that waits for each write, under four limits."""
    script = s.file("fsync.py", FSYNC)
    disk, number, where = s.disk(128)
    group = s.group("io")
    yield run([PY, script, where / "w", "0.3"], HEALTHY, "twin")
    for at, limit in enumerate(sorted(s.random.sample(range(4, 15), 3))):
        label = ("slow", "slower", "slowest")[at]
        group.io(number, "write_iops", limit)
        truth = limited(disk, number, group)
        argv = ["sh", "-c", f"{group.enter}; exec {PY} {script} {where}/w 3"]
        yield run(argv, truth, label, wall=2.8, root=True, quick=at == 0)
        writer = s.spawn([PY, script, where / "w", "9"], groups=[group])
        time.sleep(1)
        yield pid(writer, truth, label, quick=at == 0)
        if at == 0:
            yield host(truth, label)
        writer.kill()
        writer.wait()


@case("script-child-writes")
def script_child_writes(s):
    """A backup script: who waits for the disk is its child."""
    disk, number, where = s.disk(128)
    s.blob("src/a", 2)
    group = s.group("io")
    group.io(number, "write_iops", s.random.randrange(18, 26))
    s.file("backup.sh",
           f"#!/bin/bash\n{group.enter}\n"
           f"tar cf - src | dd of={where}/backup.tar oflag=direct,sync bs=32k status=none iflag=fullblock\n"
           "echo done\n", 0o755)
    yield run(["./backup.sh"], limited(disk, number, group, victim=("dd",)), "dd", wall=1, root=True)
    s.file("copy.sh",
           f"#!/bin/bash\n{group.enter}\nfor i in 1 2 3; do cp src/a {where}/b$i; sync -f {where}/b$i; done\necho done\n", 0o755)
    group.io(number, "write_iops", s.random.randrange(4, 7))
    yield run(["./copy.sh"], limited(disk, number, group, victim=("sync", "cp")), "cp-sync", wall=1, root=True)


@case("dpkg-slow-disk")
def dpkg_slow_disk(s):
    """dpkg syncs every file that it unpacks."""
    tool("dpkg-deb")
    disk, number, where = s.disk(128)
    name = s.word()
    s.file("pkg/DEBIAN/control",
           f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a\n")
    for at in range(8):
        s.file(f"pkg/opt/{name}/f{at}", f"{at}\n" * 500)
    root = where / "root"
    state = root / "var/lib/dpkg"
    s.sh(f"dpkg-deb -b pkg {name}.deb; mkdir -p {state}/info {state}/updates; touch {state}/status")
    group = s.group("io")
    argv = ["sh", "-c", f"{group.enter}; exec dpkg --root={root} --log=/dev/null --force-not-root --unpack {name}.deb"]
    yield run(argv, HEALTHY, "twin", root=True)
    group.io(number, "write_iops", s.random.randrange(12, 18))
    yield run(argv, limited(disk, number, group, victim=("dpkg",)), wall=1, root=True)


@case("one-slow-mount")
def one_slow_mount(s):
    """Three file systems, and one of them has a limit: a copy of all three waits for that one."""
    disks = [s.disk(64) for _ in range(3)]
    for _, _, where in disks:
        s.blob(where / "data", 4)
    group = s.group("io")
    target = s.dir / "all.tar"
    argv = ["sh", "-c", f"{group.enter}; exec tar cf {target} " + " ".join(str(where) for _, _, where in disks)]
    yield run(argv, HEALTHY, "twin", root=True)
    for disk, _, where in disks:
        s.forget(disk, where)
    slow, number, _ = s.random.choice(disks)
    group.io(number, "read_bps", s.random.randrange(1400000, 2000000))
    yield run(argv, limited(slow, number, group), wall=1, root=True)


@case("rsync-slow-disk")
def rsync_slow_disk(s):
    """rsync --fsync onto a disk with a limit: three of its processes, one of them waits."""
    tool("rsync")
    disk, number, where = s.disk(128)
    for at in range(6):
        s.file(f"src/f{at}", f"{at}\n" * 4000)
    group = s.group("io")
    argv = ["sh", "-c", f"{group.enter}; exec rsync -a --fsync src/ {where}/dst{{}}/"]
    yield run([argv[0], argv[1], argv[2].format(0)], HEALTHY, "twin", root=True)
    group.io(number, "write_iops", s.random.randrange(2, 5))
    yield run([argv[0], argv[1], argv[2].format(1)], limited(disk, number, group, victim=("rsync",)), wall=1, root=True)
