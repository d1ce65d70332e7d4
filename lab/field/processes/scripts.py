"""Scripts as people write them: loops around a program that fails, pipelines into something slow, builds with one long job, jobs
that hand work to each other.
"""

import os

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.databases import sqlite_holder
from programs.web import PY


@case("sqlite-until-loop")
def sqlite_until_loop(s):
    """A script tries to write to a database until it may; somebody at sqlite3's prompt has a transaction open."""
    base = f"{s.word()}.db"
    s.sh(f"sqlite3 {base} 'create table t (v int)'")
    argv = ["bash", "-c", f"until sqlite3 {base} 'insert into t values (2)' 2>/dev/null; do sleep {s.seconds(0.25, 0.45)}; done"]
    yield run(argv, HEALTHY, "twin")
    holder, write = sqlite_holder(s, base)
    s.later(s.seconds(2.8, 3.6), write, "commit;\n")
    truth = Truth(end=("lock", "person", "sleep"), object=(base,), who=(holder.pid, holder.tty), code=("lock.polled", "lock.file"))
    yield run(argv, truth, wall=1)


@case("test-until-loop")
def test_until_loop(s):
    """A script looks for a file that somebody makes late; and one that greps a log for a word."""
    name, rest = s.word(), s.seconds(0.2, 0.4)
    s.later(s.seconds(2.4, 3), s.sh, f"touch {name}")
    truth = Truth(end=("sleep",), who=("sleep", "bash"))
    yield run(["bash", "-c", f"until [ -e {name} ]; do sleep {rest}; done"], truth, "test", wall=1)
    s.sh("echo begin > app.log")
    s.later(s.seconds(2.4, 3), s.sh, "echo ready >> app.log")
    truth = truth.plus(code=("process.retry",), culprit=("grep", "bash", "sleep"))
    yield run(["bash", "-c", f"until grep -q ready app.log; do sleep {rest}; done"], truth, "grep", wall=1)
    yield run(["bash", "-c", f"for i in 1 2 3; do grep -q begin app.log; sleep {rest}; done"], HEALTHY, "twin")


@case("own-throttle")
def own_throttle(s):
    """A writer that rests between its lines, with a wait for no events at all, and a reader behind it."""
    lines = s.random.randrange(18, 26)
    script = s.file("lines.pl", "$| = 1; for (1 .. $ARGV[0]) { print \"line $_\\n\"; select(undef, undef, undef, $ARGV[1]); }\n")
    yield run(["bash", "-c", f"perl {script} {lines} 0 | cat > /dev/null"], HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=("perl",))
    yield run(["bash", "-c", f"perl {script} {lines} 0.11 | cat > /dev/null"], truth, wall=1.5)


@case("tar-full-pipe")
def tar_full_pipe(s):
    """A backup into a program that reads late."""
    s.blob("src/a", 3)
    truth = Truth(end=("sleep",), who=("sleep",))
    yield run(["bash", "-c", "tar cf - src | cat > /dev/null"], HEALTHY, "twin")
    yield run(["bash", "-c", f"tar cf - src | (sleep {s.seconds(2.3, 3)}; cat > /dev/null)"], truth, wall=1)
    s.file("late.sh", "#!/bin/bash\ntar cf - src | (sleep 30; cat > /dev/null)\n", 0o755)
    script = s.waiting(["./late.sh"], 0.4)
    from harness.processes import descendant_named
    tar = s.wait(lambda: descendant_named(script.pid, "tar"), "tar")
    yield pid(tar, truth.plus(end=("sleep", "link")), "hang", secs=1.5, standing=True)


@case("ninja-longest")
def ninja_longest(s):
    """A build of which one step compresses and another sleeps."""
    ninja = tool("ninja")
    s.blob("big", s.random.randrange(14, 18))
    s.file("build.ninja", "rule gz\n  command = gzip -9 -c big big > $out\nrule nap\n  command = sleep 0.3; touch $out\n"
           "build a: nap\nbuild b: gz\nbuild c: nap\n")
    yield run([ninja, "-j2", "-d", "stats"], Truth(end=("works",), who=("gzip",)), wall=0.7)


@case("logrotate-hook")
def logrotate_hook(s):
    """logrotate's script for after the rotation waits."""
    tool("logrotate")
    s.file("app.log", "x\n" * 1000)
    s.sh(f"chown root:root {s.dir}; chmod 755 {s.dir}")
    conf = s.file("rotate.conf", f"{s.dir}/app.log {{\n  rotate 2\n  postrotate\n    sleep {s.seconds(2.2, 3)}\n  endscript\n}}\n")
    yield run([tool("logrotate"), "-f", "-s", s.dir / "state", conf], Truth(end=("sleep",), who=("sleep",)), wall=1, root=True)


@case("read-timeout")
def read_timeout(s):
    """A shell that waits for a line and gives up: its own patience is the time."""
    os.mkfifo(s.dir / "line")
    truth = Truth(end=("sleep", "open"), unseen=True)
    yield run(["bash", "-c", f"exec 3<>line; read -t {s.seconds(2.2, 3)} -u 3 x; true"], truth, wall=1)


@case("python-queue")
def python_queue(s):
    """A process takes work from a queue that another fills late."""
    script = s.file("work.py", f"""
import multiprocessing as m, time, sys
def fill(q, rest):
    time.sleep(rest); q.put(1)
if __name__ == '__main__':
    q = m.Queue(); p = m.Process(target=fill, args=(q, float(sys.argv[1]))); p.start(); q.get(); p.join()
""")
    yield run([PY, script, "0.01"], HEALTHY, "twin")
    yield run([PY, script, s.seconds(2.3, 3)], Truth(end=("sleep",), who=("python3",)), wall=1)
    process = s.waiting([PY, script, "9"], 0.4)
    yield pid(process, Truth(end=("sleep",), who=("python3",)), "hang", secs=1.5, standing=True)


@case("coproc")
def coproc(s):
    """bash waits for a line of its coprocess, which sleeps."""
    argv = ["bash", "-c", f"coproc {{ sleep {s.seconds(2.3, 3)}; echo x; }}; read -u ${{COPROC[0]}} line"]
    yield run(argv, Truth(end=("sleep",), who=("sleep",)), wall=1)


@case("flock-wrapped-sleeper")
def flock_wrapped_sleeper(s):
    """A program that sleeps again and again under flock(1), as cron's jobs are begun: it has the locked file open by inheritance."""
    script = s.file("job.py", f"import time\nfor _ in range({s.random.randrange(8, 14)}): time.sleep(0.25)\n")
    yield run(["flock", "job.lock", PY, script], Truth(end=("sleep",), who=("python3",)), wall=1)


@case("perl-flock-loop")
def perl_flock_loop(s):
    """Perl tries a flock again and again, as its documentation has it."""
    lock = f"{s.word()}.lock"
    holder = s.spawn(["flock", lock, "sleep", s.seconds(2.8, 3.4)])
    s.wait(lambda: "FLOCK" in s.sh("cat /proc/locks"), "the lock is held")
    code = f"use Fcntl ':flock'; open(F, '>', '{lock}'); until (flock(F, LOCK_EX | LOCK_NB)) {{ select(undef, undef, undef, 0.2) }}"
    truth = Truth(end=("lock", "sleep"), who=(holder.pid, "sleep"), code=("lock.polled", "lock.file"), culprit=(holder.pid, "sleep"))
    yield run(["perl", "-e", code], truth, wall=1)
