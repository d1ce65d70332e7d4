"""PostgreSQL: locks of a client that is idle in its transaction, an exhausted pool, commits on a slow disk, and its own work.

A row lock lives in the server's shared memory: from outside, the waiting backend sleeps on a semaphore without an owner.
While nothing ends, an answer that names nobody is right. When the holder commits, its backend wakes the waiter, and that can
be seen. The proof that it bites is pg_stat_activity.
"""

from harness.truth import HEALTHY, Truth, case, host, pid, run
from programs.databases import Postgres, on_disk, pgbouncer
from programs.web import PEER, PY, curl, nginx, up


def held(holder, standing=False, **more):
    """The truth of a lock that somebody at psql holds: it ends at the lock, or at the person."""
    client, backend, _ = holder
    return Truth(end=("lock", "person"), object=("postgres",), who=(backend, client.pid, client.tty), unseen=standing,
                 code=("lock.row",),
                 **more)


@case("pg-row")
def pg_row(s):
    """A row lock of a client that is idle in its transaction."""
    pg = Postgres(s)
    yield run(pg.update(1), HEALTHY, "twin")
    holder = pg.idle_in_transaction(f"update {pg.table} set v = 1 where id = 1")
    s.later(s.seconds(3.4, 4.2), holder[2], "commit;\n")
    yield run(pg.update(1), held(holder), wall=2)
    holder = pg.idle_in_transaction(f"update {pg.table} set v = 1 where id = 2")
    holder[2](f"\\! sleep {s.seconds(3.3, 4)}\ncommit;\n")  # its client sleeps instead of its person
    truth = held(holder)
    yield run(pg.update(2), truth.plus(end=("lock", "sleep"), who=truth.who + ("sleep",)), "client-sleeps", wall=2)


@case("pg-row-hang")
def pg_row_hang(s):
    """The same while nothing ends, and while it ends within the look."""
    pg = Postgres(s)
    holder = pg.idle_in_transaction(f"update {pg.table} set v = 1 where id = 4")
    s.spawn(pg.update(4), log="blocked.log")
    blocked = s.wait(pg.blocked, "a backend waits for a lock")
    yield pid(blocked, held(holder, True), "hang", standing=True)
    yield host(held(holder, True), "hang", standing=True)
    yield run(pg.update(4), held(holder, True), "hang-ctrl-c", ctrl_c=3.5, standing=True)
    yield pid(blocked, held(holder), "ends", secs=3.5, during=[(2.5, lambda: holder[2]("commit;\n"))])
    holder = pg.idle_in_transaction(f"update {pg.table} set v = 1 where id = 5")
    s.spawn(pg.update(5), log="blocked.log")
    s.wait(pg.blocked, "a backend waits for a lock")
    yield host(held(holder), "ends", secs=3.5, during=[(2.5, lambda: holder[2]("commit;\n"))])


@case("pg-table-lock")
def pg_table_lock(s):
    """A whole table locked in an idle transaction; reading it waits."""
    pg = Postgres(s)
    count = pg.psql + ["-c", f"select count(*) from {pg.table}"]
    yield run(count, HEALTHY, "twin")
    holder = pg.idle_in_transaction(f"lock table {pg.table} in access exclusive mode")
    s.later(s.seconds(3, 4), holder[2], "commit;\n")
    yield run(count, held(holder), wall=1)
    holder = pg.idle_in_transaction(f"lock table {pg.table} in access exclusive mode")
    client = s.waiting(count)
    s.wait(pg.blocked, "a backend waits for a lock")
    yield pid(client, held(holder, True), "client-hang", secs=2, standing=True)


@case("pg-advisory")
def pg_advisory(s):
    """An advisory lock, the way in which applications serialise jobs."""
    pg = Postgres(s)
    key = s.random.randrange(1000)
    take = pg.psql + ["-c", f"select pg_advisory_xact_lock({key})"]
    holder = pg.idle_in_transaction(f"select pg_advisory_xact_lock({key})")
    s.later(s.seconds(3, 4), holder[2], "commit;\n")
    yield run(take, held(holder), wall=1)
    holder = pg.idle_in_transaction(f"select pg_advisory_xact_lock({key})")
    s.spawn(take, log="blocked.log")
    blocked = s.wait(pg.blocked, "a backend waits for a lock")
    yield pid(blocked, held(holder, True), "hang", secs=2, standing=True)


@case("pg-schema-change")
def pg_schema_change(s):
    """An ALTER TABLE waits for a transaction that only read, and everybody waits behind it."""
    pg = Postgres(s)
    holder = pg.idle_in_transaction(f"select count(*) from {pg.table}")
    s.spawn(pg.psql + ["-c", f"alter table {pg.table} add column w int"], log="alter.log")
    altering = s.wait(pg.blocked, "the change waits")
    truth = held(holder, True)
    # the reader queues behind the change, which holds nothing yet: both are in its way
    yield pid(altering, truth, "alter-hang", secs=2, standing=True)
    truth = truth.plus(who=truth.who + (altering,))
    s.later(s.seconds(3, 4), holder[2], "commit;\n")
    yield run(pg.psql + ["-c", f"select count(*) from {pg.table}"], truth.plus(unseen=False), "reader-behind", wall=1)


@case("pg-sleep")
def pg_sleep(s):
    """A query that sleeps."""
    pg = Postgres(s)
    truth = Truth(end=("sleep",), who=("postgres",), code=PEER)
    yield run(pg.psql + ["-c", f"select pg_sleep({s.seconds(2, 3)})"], truth, wall=1)


@case("pg-computes")
def pg_computes(s):
    """A query that computes: nobody holds it up, the backend works."""
    pg = Postgres(s)
    rows = s.random.randrange(18, 26) * 1000000
    sql = f"select count(*) from generate_series(1, {rows}) a where a % 7 = 3"
    truth = Truth(end=("works",), who=("postgres",))
    yield run(pg.psql + ["-c", "set max_parallel_workers_per_gather = 0", "-c", sql], truth, wall=1)


@case("pg-commit-disk")
def pg_commit_disk(s):
    """Commits that wait for a disk on which the server's group may write seldom."""
    disk, number, where = s.disk(256)
    pg = Postgres(s)
    argv = pg.psql
    for row in range(6):
        argv = argv + ["-c", f"update {pg.table} set v = v + 1 where id = {row + 1}"]
    yield run(argv, HEALTHY, "twin")
    pg.stop()
    on_disk(s, pg.data / "pg_wal", where, "postgres")
    group = s.group("io")
    group.io(number, "write_iops", s.random.randrange(4, 7))
    pg.start(groups=[group])
    truth = Truth(end=("device",), object=(disk, number), code=("disk.own_throttle",), culprit=(group.name,))
    yield run(argv, truth, wall=1)
    loop = "while :; do " + " ".join(pg.psql) + f" -c 'update {pg.table} set v = v + 1 where id = 9'; done"
    s.spawn(["bash", "-c", loop], log="writer.log")
    yield host(truth, "commits")


@case("pgbouncer-pool")
def pgbouncer_pool(s):
    """The pool's only connection belongs to a client that is idle in its transaction."""
    pg = Postgres(s)
    bouncer, psql = pgbouncer(s, pg)
    yield run(psql + ["-c", "select 2"], HEALTHY, "twin")
    holder, write = s.typist(psql + ["-n"])
    write("begin;\nselect 1;\n")
    s.wait(pg.idle, "a session is idle in its transaction")
    # a pool is no kernel object: that the client waits for the bouncer, which waits for its other client, is all there is
    truth = Truth(end=("open", "lock", "person"), who=(bouncer.pid, holder.pid, holder.tty),
                  code=("net.proxy_queue", "process.socket_peer"))
    s.later(s.seconds(3, 4), write, "commit;\n")
    yield run(psql + ["-c", "select 2"], truth, wall=1)
    write("begin;\nselect 1;\n")
    s.wait(pg.idle, "a session is idle in its transaction")
    client = s.waiting(psql + ["-c", "select 2"], 0.6)
    yield pid(client, truth, "client-hang", secs=2, standing=True)


APP = """
import http.server, subprocess, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        out = subprocess.run(sys.argv[2:], capture_output=True).stdout
        self.send_response(200); self.send_header('Content-Length', str(len(out))); self.end_headers(); self.wfile.write(out)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()
"""


@case("app-behind-row-lock")
def app_behind_row_lock(s):
    """Client, nginx, application, psql, backend: and at the end of the chain a person who does not commit."""
    pg = Postgres(s)
    port = s.port()
    s.spawn([PY, s.file("app.py", APP), port, *pg.update(1)], log="app.log")
    up(s, port)
    _, _, web = nginx(s, f"proxy_pass http://127.0.0.1:{port};")
    yield run(curl(web), HEALTHY, "twin")
    holder = pg.idle_in_transaction(f"update {pg.table} set v = 1 where id = 1")
    s.later(s.seconds(3, 4), holder[2], "commit;\n")
    yield run(["timeout", "20", *curl(web)], held(holder), wall=1)
    holder = pg.idle_in_transaction(f"update {pg.table} set v = 1 where id = 1")
    client = s.waiting(curl(web))
    s.wait(pg.blocked, "a backend waits")
    yield pid(client, held(holder, True), "client-hang", secs=2, standing=True)
    yield host(held(holder, True), "hang", secs=2, standing=True)


@case("pg-advisory-sleep")
def pg_advisory_sleep(s):
    """An advisory lock whose holder sleeps in the server, with a third session beside it that sleeps as well."""
    pg = Postgres(s)
    number = s.random.randrange(1, 9999)
    take = pg.psql + ["-c", f"select pg_advisory_lock({number})"]
    yield run(take, HEALTHY, "twin")

    def holder(seconds):
        s.spawn(pg.psql + ["-c", f"select pg_advisory_lock({number}), pg_sleep({seconds})"], log="holder.log")
        s.spawn(pg.psql + ["-c", f"select pg_sleep({seconds + 1})"], log="bystander.log")
        held = f"select pid from pg_locks where locktype = 'advisory' and objid = {number} and granted"
        backend = int(s.wait(lambda: pg.ask(held), "the lock is held"))
        return Truth(end=("lock",), object=("postgres",), who=(backend,), code=("lock.row",))
    yield run(take, holder(s.seconds(3.4, 4.2)), wall=1)
    s.wait(lambda: pg.ask("select count(*) from pg_locks where locktype = 'advisory'") == "0", "the lock is free")
    truth = holder(12)
    waiting = s.waiting(take)
    s.wait(pg.blocked, "a backend waits for a lock")
    yield pid(waiting, truth, "hang", standing=True)
    yield host(truth, "hang", standing=True)


@case("pg-queue")
def pg_queue(s):
    """Who reads a table waits behind an ALTER TABLE, and that for the transaction of somebody at psql."""
    pg = Postgres(s)
    count = pg.psql + ["-c", f"select count(*) from {pg.table}"]
    yield run(count, HEALTHY, "twin")
    holder = pg.idle_in_transaction(f"select count(*) from {pg.table}")
    s.spawn(pg.psql + ["-c", f"alter table {pg.table} add column w int"], log="alter.log")
    s.wait(pg.blocked, "the ALTER TABLE waits")
    s.later(s.seconds(3.4, 4.2), holder[2], "commit;\n")
    yield run(count, held(holder), wall=2)


@case("pg-standby")
def pg_standby(s):
    """Commits wait for a standby that is not there; beside it a server whose commits wait for nobody."""
    pg = Postgres(s)
    yield run(pg.update(1), HEALTHY, "twin")
    name = s.word()

    def standbys(value):
        s.sh(" ".join(pg.psql) + f""" -c "alter system set synchronous_standby_names = '{value}'" -c "select pg_reload_conf()" """)
    standbys(name)
    s.wait(lambda: pg.ask("show synchronous_standby_names") == name, "the standby is wanted")
    truth = Truth(end=("lock",), object=("postgres",), code=("lock.replica",), culprit=("postgres", "synchronous_standby_names"))
    s.later(s.seconds(3.2, 4), standbys, "")
    yield run(pg.update(1), truth, wall=2)
    standbys(name)
    s.wait(lambda: pg.ask("show synchronous_standby_names") == name, "the standby is wanted")
    waiting = s.waiting(pg.update(2))
    yield pid(waiting, truth, "hang", standing=True)
    yield host(truth, "hang", standing=True)
    standbys("")


@case("pg-template")
def pg_template(s):
    """createdb wants a copy of a database that somebody is connected to: the server looks for five seconds whether he has gone."""
    pg = Postgres(s)
    name = s.word()
    pg.ask(f"create database {name}")
    create = ["createdb", "-h", "127.0.0.1", "-p", pg.port, "-U", "postgres", "-T", name]
    yield run([*create, "first"], HEALTHY, "twin")
    client, write = s.typist(pg.psql + [name])
    s.wait(lambda: pg.ask(f"select pid from pg_stat_activity where datname = '{name}'"), "a session")
    s.later(s.seconds(2.8, 3.4), write, "\\q\n")
    yield run([*create, "second"], Truth(end=("sleep", "person"), who=("postgres", client.pid, client.tty)), wall=2)
