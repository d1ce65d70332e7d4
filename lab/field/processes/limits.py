"""Processes that are refused or held back: forks, CPUs, ports; and programs that are started again and again, or a first time.

A refusal that is tried again after a sleep looks like a sleep; its reason is the call before it that was refused.
"""

import os
import socket

from harness.stage import tool
from harness.truth import HEALTHY, NotProven, Truth, case, host, pid, run
from programs.databases import Postgres
from programs.web import PY


@case("fork-refused-group", quick=True)
def fork_refused_group(s):
    """pids.max of the group is reached: bash tries to fork again and again."""
    group = s.group("pids")
    group.pids(3)
    sleepers = [s.spawn(["sleep", "60"], groups=[group]) for _ in range(2)]

    def one_less():
        sleepers[0].kill()
        sleepers[0].wait()  # a zombie counts, too
    s.later(2.2, one_less)
    truth = Truth(end=("limit",), who=(group.name, "bash", "pids"), code=("process.pids_limit", "process.process_limit"))
    yield run(["bash", "-c", f"{group.enter}; /bin/true; /bin/true; echo ok"], truth, wall=1, root=True, quick=True)


@case("fork-refused-user")
def fork_refused_user(s):
    """ulimit -u of an ordinary user is reached."""
    user = "games"  # an account that every Debian has, and that runs nothing
    s.dir.chmod(0o777)
    sleepers = [s.spawn(["sleep", "60"], user=user) for _ in range(3)]
    s.later(2.2, lambda: [(p.kill(), p.wait()) for p in sleepers[:2]])
    truth = Truth(end=("limit",), who=("bash", user, "processes"), code=("process.process_limit", "process.retry"))
    argv = ["setpriv", f"--reuid={user}", "--regid=60", "--clear-groups", "bash", "-c",
            "ulimit -u 4; /bin/true; /bin/true; echo ok"]
    yield run(argv, truth, wall=1, root=True)


def source(s, name="a.c", functions=60):
    """A C file that a compiler chews on."""
    body = "double f{0}(double x) {{ double s = 0; for (int k = 0; k < 100; k++) s += x * k / (1 + s); return s; }}\n"
    return s.file(name, "#include <math.h>\n" + "".join(body.format(n) for n in range(functions)))


@case("hogs", quick=True)
def hogs(s):
    """Thirty programs compute; whoever needs a CPU waits for them."""
    source(s)
    argv = ["gcc", "-c", "-O1", "a.c", "-o", "a.o"]
    yield run(argv, HEALTHY, "twin", quick=True)
    count = s.random.randrange(24, 40)
    procs = [s.spawn(["sha256sum", "/dev/zero"]) for _ in range(count)]
    truth = Truth(end=("cpu",), who=("sha256sum", "many", "other"), code=("cpu.saturated",))
    yield host(truth, quick=True)
    yield run(argv, truth, wall=1)
    yield pid(procs[5], truth)


@case("nice-gzip")
def nice_gzip(s):
    """A backup compresses at a nice value, or under SCHED_IDLE, while other programs have the CPUs."""
    data = s.file("data", "")
    s.sh(f"head -c {s.random.randrange(8, 12)}M /dev/urandom > {data}")
    # one group, as a service's: between sessions, of which the kernel may make groups, a nice value counts for nothing
    group = s.group("cpu")
    gzip = ["sh", "-c", f"{group.enter}; exec nice -n 10 gzip -k -f {data}"]
    yield run(gzip, HEALTHY, "twin", root=True)
    for _ in range(2 * os.cpu_count()):
        s.spawn(["sha256sum", "/dev/zero"], groups=(group,))
    truth = Truth(end=("cpu",), who=("sha256sum", "many", "other"), code=("cpu.weight",), culprit=("gzip", "nice 10"))
    yield run(gzip, truth, wall=1, root=True)
    for words, culprit in (("nice -n 19", "nice 19"), ("chrt -i 0", "SCHED_IDLE")):
        polite = s.spawn([*words.split(), "sha512sum", "/dev/zero"], groups=(group,))
        yield pid(polite, truth.plus(culprit=("sha512sum", culprit)), words.split(maxsplit=1)[0])


OPENMP = """
#include <stdio.h>
int main(int argc, char **argv)
{
  double sum = 0;
  for (int round = 0; round < 40; round++) {
    #pragma omp parallel for schedule(static) reduction(+:sum)
    for (int part = 0; part < THREADS; part++) {
      double x = 0;
      for (long k = 0; k < (part == 0 ? 80000000 : 1000000); k++) x += k * 0.5;
      sum += x;
    }
  }
  printf("%f\\n", sum);
}
"""


@case("openmp-uneven")
def openmp_uneven(s):
    """One thread of an OpenMP loop has most of the work; the others spin at the barrier, as OMP_WAIT_POLICY=active has it."""
    cpus, gcc = os.cpu_count(), tool("gcc")
    s.sh(f"{gcc} -O1 -fopenmp -DTHREADS={cpus} -o {s.dir}/uneven {s.file('uneven.c', OPENMP)}")
    truth = Truth(end=("works",), who=("uneven",), code=("process.spin",), culprit=("uneven",))
    yield run(["env", "OMP_WAIT_POLICY=active", f"{s.dir}/uneven"], truth, wall=1)


@case("cpu-quota", quick=True)
def cpu_quota(s):
    """A compiler in a group that may use a tenth of a CPU."""
    source(s, functions=200)
    group = s.group("cpu")
    argv = ["sh", "-c", f"{group.enter}; exec gcc -c -O1 a.c -o a.o"]
    yield run(argv, HEALTHY, "twin", root=True)
    group.cpu(s.seconds(0.08, 0.15))
    truth = Truth(end=("cpu",), who=(group.name, "quota"), code=("cpu.quota",), culprit=(group.name,))
    yield run(argv, truth, wall=1, root=True, quick=True)


@case("port-taken", quick=True)
def port_taken(s):
    """A crash loop: a server's port is taken, it ends, and its supervisor starts it again after a rest."""
    port = s.port()
    holder = socket.socket()
    holder.bind(("127.0.0.1", port))
    holder.listen()
    s.undo.append(holder.close)
    rest = s.seconds(0.5, 0.8)
    server = f"{PY} -S -c \"import socket; socket.socket().bind(('127.0.0.1', {port}))\""
    loop = f"for i in 1 2 3 4; do {server} && break; sleep {rest}; done 2>/dev/null"
    # Who has the port was added to the culprits after an answer had named it: it is what a person would look for.
    truth = Truth(end=("sleep",), who=("sleep", "bash"), code=("process.retry",), culprit=("sleep", "bash", os.getpid()))
    yield run(["bash", "-c", loop], truth, wall=1, quick=True)


@case("too-many-clients")
def too_many_clients(s):
    """A database refuses connections beyond its limit; the script tries again."""
    pg = Postgres(s, max_connections=2, superuser_reserved_connections=0, max_wal_senders=0)
    yield run(pg.psql + ["-c", "select 1"], HEALTHY, "twin")
    held = []

    def full():
        """Whether all connections are taken for good; else takes one more."""
        refused = ["too many" in s.sh(f"sleep 0.3; {' '.join(pg.psql)} -c 'select 1' 2>&1", check=False) for _ in range(3)]
        if not all(refused):
            held.append(s.typist(pg.psql + ["-n"]))
        return all(refused)
    s.wait(full, "connections are refused", 20)
    s.later(s.seconds(2.6, 3.4), lambda: [write("\\q\n") for _, write in held])
    loop = f"until {' '.join(pg.psql)} -c 'select 1' 2>/dev/null; do sleep {s.seconds(0.3, 0.6)}; done"
    yield run(["bash", "-c", loop], Truth(end=("sleep", "limit"), who=("sleep", "bash", "psql"), code=("process.retry",)),
              wall=1)


@case("java-cold-start")
def java_cold_start(s):
    """A small Java source that is compiled and started: the virtual machine's own work."""
    tool("javac")
    name = s.word().capitalize()
    s.file(f"{name}.java", f"class {name} {{ public static void main(String[] a) {{ System.out.println(1); }} }}\n")
    # several threads compile at once, so that CPU time may exceed the wall time; where a CPU lacks, it waits for its own threads
    yield run(["java", "-Xint", f"{name}.java"], Truth(end=("works", "cpu"), who=("java",)), wall=0.6)


@case("program-on-slow-disk")
def program_on_slow_disk(s):
    """A first start: the program's own pages come from a disk with a limit."""
    disk, number, where = s.disk(128)
    gdb = tool("gdb")
    s.sh(f"cp {gdb} {where}/tool")
    group = s.group("io")
    argv = ["sh", "-c", f"{group.enter}; exec {where}/tool --version"]
    yield run(argv, HEALTHY, "twin", root=True)
    s.forget(disk, where)
    group.io(number, "read_bps", s.random.randrange(1200000, 1800000))
    truth = Truth(end=("device",), object=(disk, number), code=("disk.own_throttle",), culprit=(group.name,))
    yield run(argv, truth, wall=1, root=True)


@case("sleepy-init")
def sleepy_init(s):
    """A start script with sleeps in it, as many have: each is short, and together they are the start."""
    steps = "; ".join(f"sleep {s.seconds(0.2, 0.4)}; [ -e /nonexistent ] || :" for _ in range(7))
    path = s.file("start.sh", f"#!/bin/sh\n{steps}\n", 0o755)
    if not os.access(path, os.X_OK):
        raise NotProven("the script cannot be started")
    yield run([path], Truth(end=("sleep",), who=("sleep",)), wall=1)
