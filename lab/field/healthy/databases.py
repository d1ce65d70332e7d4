"""Databases at ordinary load: whatever is found above note is a false alarm.

Idle sessions, listeners, queue workers and long transactions are owed something by design; none of them is slow. The loads are
far below what the servers can do.
"""

import time

from harness.stage import tool
from harness.truth import HEALTHY, case, host, pid, run
from programs.databases import Maria, Postgres, Redis, pgbouncer, postgres_bin


@case("h-postgres")
def h_postgres(s):
    """pgbench at sixty transactions a second, a listener, and a session that is idle in its transaction."""
    pg = Postgres(s)
    bench = f"{postgres_bin('pgbench')} -h 127.0.0.1 -p {pg.port} -U postgres"
    s.sh(f"{bench} -i -q postgres")
    s.spawn(f"{bench} -S -c 2 -R {s.random.randrange(40, 90)} -T 60 postgres")
    listener, write = s.typist(pg.psql + ["-n"])
    write("listen news;\n")
    time.sleep(1)
    yield host(HEALTHY, "pgbench")
    yield pid(pg.process, HEALTHY, "postmaster", secs=2)
    yield pid(listener, HEALTHY, "listener", secs=2)
    pg.idle_in_transaction("select 1")
    yield host(HEALTHY, "idle-in-transaction", secs=2)
    yield run(pg.psql + ["-c", "select count(*) from pgbench_accounts"], HEALTHY, "query")


@case("h-pgbouncer")
def h_pgbouncer(s):
    """A pool with a client now and then, and one that is connected and idle."""
    pg = Postgres(s)
    bouncer, psql = pgbouncer(s, pg)
    s.load(" ".join(psql) + " -c 'select 1'", 0.3)
    idle, _ = s.typist(psql + ["-n"])
    time.sleep(1)
    yield pid(bouncer, HEALTHY, secs=2)
    yield pid(idle, HEALTHY, "idle-client", secs=2)


@case("h-mariadb")
def h_mariadb(s):
    """A query now and then, and an idle session."""
    my = Maria(s)
    s.load(" ".join(my.client) + " -e 'select 1'")
    idle, _ = s.typist(my.client)
    time.sleep(1)
    yield host(HEALTHY)
    yield pid(my.process, HEALTHY, secs=2)
    yield pid(idle, HEALTHY, "idle-client", secs=2)
    yield run(my.client + ["-e", f"select * from d.{my.table}"], HEALTHY, "query")


@case("h-redis")
def h_redis(s):
    """A counter, a subscriber, and a worker that waits for a job."""
    redis = Redis(s)
    s.load(" ".join(redis.cli) + " incr x", 0.1)
    subscriber = s.spawn(redis.cli + ["subscribe", "news"])
    worker = s.spawn(redis.cli + ["blpop", "queue", "0"])
    time.sleep(0.6)
    yield host(HEALTHY)
    yield pid(redis.process, HEALTHY, secs=2)
    yield pid(subscriber, HEALTHY, "subscriber", secs=2)
    yield pid(worker, HEALTHY, "queue-worker", secs=2)


@case("h-memcached")
def h_memcached(s):
    """memcached with a client now and then."""
    port = s.port()
    server = s.spawn([tool("memcached"), "-u", "nobody", "-l", "127.0.0.1", "-p", port])
    s.wait_port(port)
    talk = f"exec 3<>/dev/tcp/127.0.0.1/{port}; cat >&3; cat <&3"
    s.load(f"printf 'set a 0 0 1\\r\\n1\\r\\nget a\\r\\nquit\\r\\n' | timeout 1 bash -c '{talk}'")
    time.sleep(0.5)
    yield pid(server, HEALTHY, secs=2)


@case("h-sqlite")
def h_sqlite(s):
    """Writers one after the other, without contention."""
    s.sh("sqlite3 a.db 'create table t (v int)'")
    yield run(["bash", "-c", "for i in 1 2 3 4 5; do sqlite3 a.db 'insert into t values (1)'; done"], HEALTHY, "inserts")
    sql = ("with recursive c(x) as (values(1) union all select x+1 from c where x < 300000) insert into t select x from c; "
           "select sum(v) from t")
    yield run(["sqlite3", "a.db", sql], HEALTHY, "bulk")
