"""MariaDB: row, table and metadata locks of an idle client, user locks, and commits on a slow disk.

All of the server's connections are threads of one process, so while nothing ends nothing outside tells which of them holds
the lock; the process is right then, and so is nobody. The proof that it bites is information_schema.
"""

from harness.truth import HEALTHY, Truth, case, host, pid, run
from programs.databases import Maria, on_disk


def held(client, my, standing=False):
    """The truth of a lock that somebody at a terminal holds through this client."""
    who = (client.pid, client.tty, my.process.pid) if standing else (client.pid, client.tty, "mariadbd")
    return Truth(end=("lock", "person"), object=("mariadbd",), who=who, unseen=standing, code=("lock.row",))


@case("mariadb-row")
def mariadb_row(s):
    """A row lock of a client that is idle in its transaction."""
    my = Maria(s)
    update = my.client + ["-e", f"update d.{my.table} set v = 2 where id = 1"]
    yield run(update, HEALTHY, "twin")
    client, write = my.idle_in_transaction()
    s.later(s.seconds(3.4, 4.2), write, "commit;\n")
    yield run(update, held(client, my), wall=2)
    write("begin;\n" + f"update {my.table} set v = 3 where id = 1;\nsystem sleep {s.seconds(3.3, 4)}\ncommit;\n")
    s.wait(lambda: int(my.ask("select count(*) from information_schema.innodb_trx")), "a transaction", every=0.3)
    truth = held(client, my)
    yield run(update, truth.plus(end=("lock", "sleep"), who=truth.who + ("sleep",)), "client-sleeps", wall=1)
    write("begin;\n" + f"update {my.table} set v = 4 where id = 1;\n")
    s.wait(lambda: int(my.ask("select count(*) from information_schema.innodb_trx")), "a transaction", every=0.3)
    s.spawn(update, log="blocked.log")
    s.wait(my.row_waits, "a lock wait", every=0.3)
    yield pid(my.process, held(client, my, True), "hang", standing=True)
    yield host(held(client, my, True), "hang", standing=True)
    yield pid(my.process, held(client, my), "ends", secs=3.5, during=[(2.5, lambda: write("commit;\n"))])


@case("mariadb-metadata")
def mariadb_metadata(s):
    """An ALTER TABLE waits for the metadata lock of a transaction that only read."""
    my = Maria(s)
    alter = my.client + ["-e", f"alter table d.{my.table} add column w int, algorithm=copy"]
    client, write = my.idle_after("begin", f"select * from {my.table}")
    s.later(s.seconds(3.2, 4), write, "commit;\n")
    yield run(alter, held(client, my), wall=1)
    write("begin;\n" + f"select * from {my.table};\n")
    waiting = s.waiting(my.client + ["-e", f"alter table d.{my.table} add column x int"], 0.8)
    s.wait(lambda: my.in_state("metadata lock"), "somebody waits for a metadata lock", every=0.3)
    yield pid(waiting, held(client, my, True), "client-hang", secs=2, standing=True)


@case("mariadb-table-lock")
def mariadb_table_lock(s):
    """LOCK TABLES of somebody who went away from the terminal."""
    my = Maria(s)
    insert = my.client + ["-e", f"insert into d.{my.table} values ({s.random.randrange(10, 9999)}, 1)"]
    yield run(insert, HEALTHY, "twin")
    client, write = my.idle_after(f"lock tables {my.table} write")
    read = my.client + ["-e", f"select * from d.{my.table}"]
    s.later(s.seconds(3, 4), write, "unlock tables;\n")
    yield run(read, held(client, my), wall=1)


@case("mariadb-user-lock")
def mariadb_user_lock(s):
    """GET_LOCK, the way in which applications serialise jobs."""
    my = Maria(s)
    name = s.word()
    client, write = my.idle_after(f"select get_lock('{name}', 5)")
    s.later(s.seconds(3, 4), write, f"select release_lock('{name}');\n")
    yield run(my.client + ["-e", f"select get_lock('{name}', 20)"], held(client, my), wall=1)
    write(f"select get_lock('{name}', 5);\n")
    waiting = s.waiting(my.client + ["-e", f"select get_lock('{name}', 20)"], 0.8)
    s.wait(lambda: my.in_state("user lock"), "somebody waits for the user lock", every=0.3)
    yield pid(waiting, held(client, my, True), "client-hang", secs=2, standing=True)


@case("mariadb-commit-disk")
def mariadb_commit_disk(s):
    """Commits that wait for a disk on which the server's group may write seldom."""
    disk, number, where = s.disk(256)
    my = Maria(s, **{"innodb-flush-log-at-trx-commit": 1, "innodb-log-file-size": "16M"})
    argv = my.client + ["-e", "; ".join(f"update d.{my.table} set v = v + {n + 1} where id = 1" for n in range(6))]
    my.process.terminate()
    my.process.wait(20)
    on_disk(s, s.dir / "data", where, "mysql")
    group = s.group("io")
    my.start(groups=[group])
    yield run(argv, HEALTHY, "twin")
    group.io(number, "write_iops", s.random.randrange(4, 8))
    truth = Truth(end=("device",), object=(disk, number), code=("disk.own_throttle",), culprit=(group.name,))
    yield run(argv, truth, wall=1)


@case("mariadb-read-lock")
def mariadb_read_lock(s):
    """FLUSH TABLES WITH READ LOCK of a client that does something else, with another client at rest beside it."""
    my = Maria(s)
    update = my.client + ["-e", f"update d.{my.table} set v = v + 1 where id = 1"]
    yield run(update, HEALTHY, "twin")
    my.idle_after("select 1")
    client, write = my.idle_after("flush tables with read lock")
    s.later(s.seconds(3.2, 4), write, "unlock tables;\n")
    yield run(update, held(client, my), wall=1)
    write("flush tables with read lock;\n")
    waiting = s.waiting(update, 0.8)
    s.wait(lambda: my.in_state("lock"), "somebody waits for the lock", every=0.3)
    # Which of two sessions at rest has it only the server knows: no culprit is asked for.
    yield pid(waiting, held(client, my, True).plus(code=()), "client-hang", standing=True)


@case("mariadb-semi-sync")
def mariadb_semi_sync(s):
    """Semi-synchronous replication without its replica, until its timeout."""
    my = Maria(s, **{"log-bin": "b", "server-id": 1, "rpl-semi-sync-master-wait-no-slave": 1})
    update = my.client + ["-e", f"update d.{my.table} set v = v + 1 where id = 1"]
    yield run(update, HEALTHY, "twin")
    my.ask(f"set global rpl_semi_sync_master_timeout = {int(1000 * s.seconds(3, 4))}; set global rpl_semi_sync_master_enabled = on")
    truth = Truth(end=("lock",), object=("mariadbd",), code=("lock.replica",),
                  culprit=("mariadbd", "rpl_semi_sync_master_enabled"))
    yield run(update, truth, wall=2)
