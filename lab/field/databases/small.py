"""SQLite and Redis: a database without a server whose locks are polled, and a server with one thread.

SQLite's busy handler sleeps and tries its fcntl lock again: the lock's holder is in the kernel's lock table, so the holder
must be named however the waiter spends its time. Redis answers one command at a time: whoever asks waits for what the server does
for somebody else.
"""

from harness.truth import HEALTHY, Truth, case, pid, run
from programs.databases import Redis, sqlite_holder
from programs.web import PEER, PY

POLLED = ("lock.polled", "lock.file")


@case("sqlite-busy")
def sqlite_busy(s):
    """Somebody at sqlite3's prompt has a transaction open; others poll the database's lock."""
    base = f"{s.word()}.db"
    s.sh(f"sqlite3 {base} 'create table t (v int)'")
    writer = ["sqlite3", "-cmd", ".timeout 9000", base, "insert into t values (2)"]
    yield run(writer, HEALTHY, "twin")
    holder, write = sqlite_holder(s, base)
    truth = Truth(end=("lock", "person"), object=(base,), who=(holder.pid, holder.tty), code=POLLED)
    s.later(s.seconds(3, 4), write, "commit;\n")
    yield run(writer, truth, wall=1)
    write("begin exclusive;\ninsert into t values (1);\n")
    waiting = s.waiting(writer)
    yield pid(waiting, truth, "hang", standing=True)


@case("sqlite-python")
def sqlite_python(s):
    """A Python program keeps its transaction open while it does something else."""
    base, hold = f"{s.word()}.db", s.seconds(3.2, 4)
    s.sh(f"sqlite3 {base} 'create table t (v int)'")
    code = (f"import sqlite3, time; c = sqlite3.connect('{base}', isolation_level=None); c.execute('begin immediate'); "
            "c.execute('insert into t values (1)'); print('held', flush=True); "
            f"time.sleep({hold}); c.execute('commit'); time.sleep(9)")
    holder = s.spawn([PY, "-c", code], log="holder.log")
    s.wait(lambda: "held" in (s.dir / "holder.log").read_text(), "the transaction is open")
    truth = Truth(end=("lock", "sleep"), who=(holder.pid,), code=POLLED)
    code = f"import sqlite3; c = sqlite3.connect('{base}', timeout=9); c.execute('insert into t values (2)'); c.commit()"
    yield run([PY, "-c", code], truth, wall=1)


@case("sqlite-commit-disk")
def sqlite_commit_disk(s):
    """Each insert is a commit, and each commit waits for a disk with a limit."""
    disk, number, where = s.disk(64)
    group = s.group("io")
    s.sh(f"sqlite3 {where}/a.db 'create table t (v int)'")
    inserts = "; ".join(f"insert into t values ({n})" for n in range(5))
    argv = ["sh", "-c", f"{group.enter}; exec sqlite3 {where}/a.db '{inserts}'"]
    yield run(argv, HEALTHY, "twin", root=True)
    group.io(number, "write_iops", s.random.randrange(8, 14))
    truth = Truth(end=("device",), object=(disk, number), code=("disk.own_throttle",), culprit=(group.name,), victim=("sqlite3",))
    yield run(argv, truth, wall=1, root=True)


@case("redis-debug-sleep")
def redis_debug_sleep(s):
    """The server sleeps for one client; all others wait."""
    redis = Redis(s)
    yield run(redis.cli + ["set", "a", "b"], HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(redis.process.pid,), code=PEER)
    s.waiting(redis.cli + ["debug", "sleep", s.seconds(3, 4)], 0.3)
    yield run(redis.cli + ["set", "a", "b"], truth, wall=1)


@case("redis-lua")
def redis_lua(s):
    """A script that computes for seconds; all others wait for work that is not theirs."""
    redis = Redis(s)
    script = ("local t = redis.call('TIME'); local e = t[1] * 1000000 + t[2] + {}; "
              "repeat local x = redis.call('TIME') until x[1] * 1000000 + x[2] > e; return 1")
    truth = Truth(end=("works",), who=(redis.process.pid,))
    s.waiting(redis.cli + ["eval", script.format(int(1e6 * s.seconds(3, 3.6))), "0"], 0.3)
    yield run(redis.cli + ["set", "a", "b"], truth, wall=1)
    s.wait(lambda: s.sh(" ".join(redis.cli) + " ping").strip() == "PONG", "redis answers again")
    s.waiting(redis.cli + ["eval", script.format(4900000), "0"], 0.3)
    waiting = s.waiting(redis.cli + ["set", "a", "b"], 0.2)
    yield pid(waiting, truth, "client-hang", secs=2, standing=True)


@case("redis-fsync")
def redis_fsync(s):
    """appendfsync always, on a disk on which the server's group may write seldom."""
    disk, number, where = s.disk(64)
    group = s.group("io")
    redis = Redis(s, "--appendonly", "yes", "--appendfsync", "always", where=where, groups=[group])
    cli = " ".join(redis.cli)
    sets = ["bash", "-c", f"for i in 1 2 3; do {cli} set a$i b; done"]
    yield run(sets, HEALTHY, "twin")
    group.io(number, "write_iops", 2)
    truth = Truth(end=("device",), object=(disk, number), code=("disk.own_throttle",), culprit=(group.name,))
    yield run(sets, truth, wall=1)
    s.spawn(["bash", "-c", f"for i in $(seq 40); do {cli} set a$i b; done"])
    yield pid(redis.process, truth)
