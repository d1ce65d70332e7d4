"""Memory: garbage collectors that never stop, and a group whose page cache does not fit.

A collector is the program's own work. A group over its limit reads from the disk again and again what it has just read: the disk
serves it as fast as it can, and the limit is the reason.
"""

from harness.groups import loop_device
from harness.stage import tool
from harness.truth import HEALTHY, NotProven, Truth, case, pid, run
from programs.web import PY

JAVA = """
import java.util.*;
class Heap {
  public static void main(String[] a) {
    List<byte[]> live = new ArrayList<>();
    int mib = Integer.parseInt(a[0]);
    for (int i = 0; i < mib * 16; i++) live.add(new byte[64 << 10]);
    long end = System.nanoTime() + (long) (1e9 * Double.parseDouble(a[1]));
    Random r = new Random(1);
    while (System.nanoTime() < end) live.set(r.nextInt(live.size()), new byte[64 << 10]);
  }
}
"""

NODE = """
const keep = new Map(); const end = Date.now() + 1000 * Number(process.argv[2]); let n = 0;
while (Date.now() < end) { keep.set(n % process.argv[3], { a: n, b: [n, n + 1, n + 2] }); n++; }
"""

PYTHON = """
import gc, sys, time
keep = [[i] for i in range(int(sys.argv[1]))]
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end: gc.collect()
"""

PAGES = """
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY); size = os.fstat(fd).st_size; r = random.Random(1)
for _ in range(int(sys.argv[2])): os.pread(fd, 4096, r.randrange(size >> 12) << 12)
"""


@case("java-gc")
def java_gc(s):
    """A heap that is nearly full: the collector runs most of the time."""
    tool("javac")
    s.file("Heap.java", JAVA)
    s.sh("javac Heap.java")
    time_, live = s.seconds(2.2, 3), s.random.randrange(40, 47)
    argv = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", str(s.dir), "Heap"]
    yield run([*argv, 4, 0.3], HEALTHY, "twin")
    yield run([*argv, live, time_], Truth(end=("works",), who=("java",), code=("process.gc",), culprit=("java",)), wall=1)


@case("node-gc")
def node_gc(s):
    """node with a small old space and much that lives."""
    node = tool("node", "nodejs")
    script = s.file("gc.js", NODE)
    full, truth = "--max-old-space-size=96", Truth(end=("works",), who=("node",), code=("process.gc",), culprit=("node",))
    yield run([node, full, script, s.seconds(2.2, 3), 3000], HEALTHY, "twin")
    yield run([node, full, script, s.seconds(2.2, 3), 300000], truth, wall=1)
    process = s.waiting([node, full, script, 60, 300000], 0.5)
    yield pid(process, truth.plus(who=(process.pid,), culprit=(process.pid,)), secs=3)


@case("python-gc")
def python_gc(s):
    """A Python program that collects a large heap again and again."""
    script = s.file("gc.py", PYTHON)
    objects = s.random.randrange(200000, 400000)
    yield run([PY, script, objects, 0.01], HEALTHY, "twin")
    truth = Truth(end=("works",), who=("python3",), code=("process.gc",), culprit=("python3",))
    yield run([PY, script, objects, s.seconds(2.2, 3)], truth, wall=1)
    process = s.waiting([PY, script, objects, 60], 0.5)
    yield pid(process, truth.plus(who=(process.pid,), culprit=(process.pid,)), secs=2)


@case("group-thrashes")
def group_thrashes(s):
    """A file is read here and there in a group that cannot hold it: each page comes from the disk again."""
    size = s.random.randrange(110, 150)
    s.blob("outer.img", size + 32, zeros=True)
    s.sh("mkfs.ext4 -q outer.img")
    device, _ = loop_device(s, s.dir / "outer.img")
    s.sh(f"losetup --direct-io=on {device}")  # reads pass the host's page cache by, as a real disk's do
    where = s.dir / "mnt"
    s.mount(device, where)
    s.blob(where / "data", size)
    disk = device.rpartition("/")[2]
    group = s.group("memory")
    script = s.file("pages.py", PAGES)
    argv = ["sh", "-c",
            f"{group.enter}; cat {where}/data > /dev/null; exec {PY} {script} {where}/data {s.random.randrange(9, 14)}000"]
    s.forget(disk, where)
    fast = yield run(argv, HEALTHY, "twin", root=True)
    s.forget(disk, where)
    group.memory(s.random.randrange(24, 36))

    def refaults(result):
        before = fast.json["accounting"]["wall_seconds"] if fast else 0
        if result.json["accounting"]["wall_seconds"] < 1.2 * before:
            raise NotProven(f"not slower than the {before:.2f} s without a limit")
    truth = Truth(end=("memory",), code=("memory.limit", "memory.thrash"), culprit=(group.name,))
    yield run(argv, truth, prove=refaults, root=True)
