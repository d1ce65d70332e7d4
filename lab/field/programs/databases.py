"""PostgreSQL, MariaDB, Redis, SQLite and PgBouncer, started as their manuals say, on loopback and in a case's own folder.

Owns how they are started and how a test asks them for their own view (pg_stat_activity, innodb_trx): that view proves that a
fault bites, and holdup does not read it. A client that is idle in its transaction sits at a terminal, where a person could
type the commit.
"""

import glob
import os
import subprocess

from harness.stage import tool
from harness.truth import NotProven, Skip


def postgres_bin(program):
    """Debian keeps the server's programs apart, by version."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{program}"))
    if not found:
        raise Skip(f"{program} of postgresql is not installed")
    return found[-1]


class Postgres:
    """A server with one table, named by the seed, of a hundred rows. `inside` brings it into another namespace, where it has an
    address of its own."""

    def __init__(self, s, inside=(), address="127.0.0.1", **settings):
        self.s, self.port, self.table = s, s.port(), s.word()
        self.inside, self.address = inside, address
        tool("psql")
        s.dir.chmod(0o777)
        initdb = postgres_bin("initdb")
        made = s.once("postgres", lambda new: s.sh(f"{initdb} -N -A trust -U postgres -D {new}/d", user="postgres"), "postgres")
        self.data = s.dir / "pgdata"
        s.sh(f"cp -a {made}/d {self.data}; echo 'host all all {address}/16 trust' >> {self.data}/pg_hba.conf")
        self.settings = {
            "port": self.port, "listen_addresses": address, "unix_socket_directories": s.dir, "shared_buffers": "16MB",
            "autovacuum": "off", **settings}
        self.process = self.start()
        self.ask(f"create table {self.table} (id int primary key, v int); "
                 f"insert into {self.table} select g, 0 from generate_series(1, 100) g;")

    def start(self, groups=()):
        """Starts the server and waits until it answers."""
        argv = [*self.inside, postgres_bin("postgres"), "-D", self.data]
        for name, value in self.settings.items():
            argv += ["-c", f"{name}={value}"]
        self.process = self.s.spawn(argv, user="postgres", groups=groups, log="postgres.log")
        self.s.wait(lambda: self.ask("select 1") == "1", "postgres answers", 30)
        return self.process

    def stop(self):
        """A fast shutdown."""
        self.s.sh(f"{postgres_bin('pg_ctl')} -D {self.data} stop -m fast", user="postgres")
        self.process.wait(9)

    @property
    def psql(self):
        """The client's command line."""
        return ["psql", "-X", "-q", "-h", self.address, "-p", str(self.port), "-U", "postgres"]

    def ask(self, sql):
        """A query's plain output."""
        own = [str(self.s.dir) if word == self.address and self.inside else word for word in self.psql]
        return self.s.sh(" ".join(own) + f' -At -c "{sql}"').strip()

    def update(self, row):
        """A client that updates one row."""
        return self.psql + ["-c", f"update {self.table} set v = v + 1 where id = {row}"]

    def idle_in_transaction(self, sql):
        """Somebody at psql did this in a transaction and now thinks: (client, its backend's PID, what types)."""
        before = set(self.idle())
        client, write = self.s.typist(self.psql + ["-n"])
        write(f"begin;\n{sql};\n")
        backend = self.s.wait(lambda: set(self.idle()) - before, "a session is idle in its transaction")
        return client, int(backend.pop()), write

    def idle(self):
        """Backends that are idle in a transaction."""
        return self.ask("select pid from pg_stat_activity where state = 'idle in transaction'").split()

    def blocked(self):
        """A backend that waits for a lock."""
        found = self.ask("select pid from pg_stat_activity where wait_event_type = 'Lock'")
        return int(found.split()[0]) if found else None


class Maria:
    """A MariaDB server with one table, named by the seed, of two rows."""

    def __init__(self, s, groups=(), **settings):
        self.s, self.port, self.table = s, s.port(), s.word()
        tool("mariadbd")
        s.dir.chmod(0o777)
        options = "--no-defaults --user=mysql --auth-root-authentication-method=normal --skip-test-db"
        made = s.once("mariadb", lambda new: s.sh(f"mariadb-install-db {options} --datadir={new}"), "mysql")
        s.sh(f"cp -a {made} {s.dir}/data")
        self.settings = {"innodb-flush-log-at-trx-commit": 2, "innodb-buffer-pool-size": "32M", **settings}
        self.process = self.start(groups)
        self.ask(f"create database d; create table d.{self.table} (id int primary key, v int) engine=innodb; "
                 f"insert into d.{self.table} values (1,0),(2,0);")

    def start(self, groups=()):
        """Starts the server and waits until it answers."""
        argv = ["mariadbd", "--no-defaults", "--user=mysql", f"--datadir={self.s.dir}/data", f"--socket={self.s.dir}/s",
                f"--port={self.port}", "--bind-address=127.0.0.1", f"--pid-file={self.s.dir}/pid", "--skip-name-resolve"]
        argv += [f"--{name}={value}" for name, value in self.settings.items()]
        self.process = self.s.spawn(argv, groups=groups, log="mariadb.log")
        self.s.wait(lambda: self.ask("select 1") == "1", "mariadb answers", 30)
        return self.process

    @property
    def client(self):
        """The client's command line."""
        return ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", str(self.port), "-u", "root"]

    def ask(self, sql):
        """A query's plain output."""
        return self.s.sh(" ".join(self.client) + f' -BN -e "{sql}"').strip()

    def idle_after(self, *statements):
        """Somebody at a terminal did these and now thinks: (client, what types)."""
        client, write = self.s.typist(self.client + ["d"])
        write("".join(f"{statement};\n" for statement in statements))
        wanted = "select count(*) from information_schema.processlist where db = 'd' and command = 'Sleep'"
        # information_schema is read anew only after a tenth of a second of rest
        self.s.wait(lambda: int(self.ask(wanted)) > 0, "a session that sleeps", every=0.3)
        return client, write

    def idle_in_transaction(self, row=1):
        """Idle with a row lock."""
        client, write = self.idle_after("begin", f"update {self.table} set v = v + 1 where id = {row}")
        self.s.wait(lambda: int(self.ask("select count(*) from information_schema.innodb_trx")) > 0, "a transaction", every=0.3)
        return client, write

    def in_state(self, words):
        """Whether a session is in a state of these words."""
        return int(self.ask(f"select count(*) from information_schema.processlist where state like '%{words}%'"))

    def row_waits(self):
        """Transactions that wait for a row lock."""
        return int(self.ask("select count(*) from information_schema.innodb_trx where trx_state='LOCK WAIT'"))


class Redis:
    """A Redis server; `inside` brings it into another namespace, where it has an address of its own."""

    def __init__(self, s, *options, where=None, groups=(), inside=(), address="127.0.0.1"):
        self.s, self.port, self.address = s, s.port(), address
        tool("redis-server")
        argv = [*inside, "redis-server", "--port", self.port, "--bind", address, "--save", "", "--enable-debug-command", "yes",
                "--protected-mode", "no", "--dir", where or s.dir, *options]
        self.process = s.spawn(argv, groups=groups, log="redis.log")
        s.wait(lambda: s.sh(" ".join([*inside, *self.cli, "ping"])).strip() == "PONG", "redis answers")

    @property
    def cli(self):
        """The client's command line."""
        return ["redis-cli", "-h", self.address, "-p", str(self.port)]


def pgbouncer(s, pg, mode="transaction", auth="any"):
    """A PgBouncer with a pool of one connection, and a socket for its console: (process, psql's command line through it)."""
    tool("pgbouncer")
    port = s.port()
    s.file("users", '"postgres" ""\n')
    conf = s.file("pgbouncer.ini", f"""[databases]
postgres = host=127.0.0.1 port={pg.port} pool_size=1 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir = {s.dir}
auth_type = {auth}
auth_file = {s.dir}/users
pool_mode = {mode}
default_pool_size = 1
ignore_startup_parameters = extra_float_digits
""")
    bouncer = s.spawn(["pgbouncer", conf], user="postgres", log="bouncer.log")
    s.wait_port(port)
    return bouncer, ["psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]


def sqlite_holder(s, base, begin="begin exclusive"):
    """Somebody at sqlite3's prompt with a write transaction open: (process, what types)."""
    tool("sqlite3")
    client, write = s.typist(["sqlite3", base])
    write(f"{begin};\ninsert into t values (1);\n")
    busy = ["sqlite3", "-cmd", ".timeout 0", base, "begin immediate; rollback"]

    def locked():
        return subprocess.run(busy, cwd=s.dir, env=s.env, capture_output=True, check=False).returncode != 0
    s.wait(locked, "the database is locked")
    return client, write


def on_disk(s, path, where, owner):
    """Moves a folder onto another file system and leaves a link."""
    moved = where / "moved"
    s.sh(f"mv {path} {moved}; ln -s {moved} {path}; chmod 755 {where}; chown -R {owner} {moved}; sync -f {where}")
    if not os.path.islink(path):
        raise NotProven(f"{path} was not moved")
