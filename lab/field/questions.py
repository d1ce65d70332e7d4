"""The programs that holdup has a question for (crates/reason/src/rules/ask.rs), each held up so that its answer ends in it.

A row makes a fault in which only the program knows who is in the way, and says what the program must print: the session, the
thread, the function or the client that the row itself has put there. harness/questioning.py runs the command. Programs are
those of the cases; what they need beside it (pprof, a lock that is never given back) is here.
"""

import shutil
import time

from harness.questioning import Question, question
from harness.stage import tool
from harness.truth import MEASURE, Skip, pid
from locks.go import shop
from locks.threads import ABBA
from programs.databases import Maria, Postgres, Redis, pgbouncer
from programs.web import PY, curl, java_server, nginx, php_fpm

LEAKS = """
import threading
lock = threading.Lock()
def take_stock():
    lock.acquire()      # and never gives it back
def app(env, start):
    if env['PATH_INFO'] == '/take': take_stock()
    start('200 OK', [('Content-Type', 'text/plain')]); return [b'ok\\n']
"""

C_ABBA = """
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t stock = PTHREAD_MUTEX_INITIALIZER, orders = PTHREAD_MUTEX_INITIALIZER;
static void *take_orders(void *x) { pthread_mutex_lock(&orders); sleep(1); pthread_mutex_lock(&stock); return x; }
static void *take_stock(void *x) { pthread_mutex_lock(&stock); sleep(1); pthread_mutex_lock(&orders); return x; }
int main(void) {
    pthread_t t;
    pthread_create(&t, 0, take_orders, 0);
    take_stock(0);
    pthread_join(t, 0);
}
"""

SEMAPHORE = "<?php $s = sem_get(ftok(__FILE__, 'a')); sem_acquire($s); sleep(30);"

CONNECTS = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))"


def looked(process, seconds=2):
    """A look at a process in which nothing ends; what is right is judged by what the program says."""
    return pid(process, MEASURE, secs=seconds, standing=True)


def py_spy(s):
    """py-spy's folder; Debian has no package of it."""
    found = shutil.which("py-spy")
    if found:
        return found.rsplit("/", 1)[0]

    def install(new):
        # The folder takes its name afterwards, and nothing in a virtual environment may move.
        s.sh(f"pip3 install -q --target {new} py-spy", timeout=120)
    try:
        return str(s.once("py-spy", install) / "bin")
    except Exception as e:
        raise Skip(f"py-spy cannot be had: {e}") from e


@question("postgres")
def postgres(s):
    """A row lock of a client that is idle in its transaction: its session, and what it did last."""
    pg = Postgres(s)
    _, holder, _ = pg.idle_in_transaction(f"update {pg.table} set v = 1 where id = 4")
    s.spawn(pg.update(4), log="blocked.log")
    blocked = s.wait(pg.blocked, "a backend waits for a lock")
    yield Question(looked(blocked), "psql", (rf"{blocked} +\| \{{{holder}\}}", rf"{holder} +\| \{{\}} .*idle in transaction.*update {pg.table}"))


@question("mariadb")
def mariadb(s):
    """The same in MariaDB: the number of the connection that has the lock, and its client's port."""
    my = Maria(s)
    holder, _ = my.idle_in_transaction()
    s.spawn(my.client + ["-e", f"update d.{my.table} set v = 2 where id = 1"], log="blocked.log")
    s.wait(my.row_waits, "a lock wait", every=0.3)
    own = s.sh(f"ss -tnp | grep 'pid={holder.pid},'").split()[3].rpartition(":")[2]
    has, waits = my.ask("select blocking_pid, waiting_pid from sys.innodb_lock_waits").split()
    yield Question(looked(my.process), "mariadb", (rf"\b{has}\troot\t127.0.0.1:{own}\b", rf"\b{waits}\tupdate d.{my.table}[^\n]*\t{has}\t"))


@question("pgbouncer")
def bouncer(s):
    """The pool's only connection belongs to a client that is idle in its transaction."""
    pg = Postgres(s)
    _, psql = pgbouncer(s, pg, auth="trust")
    holder, write = s.typist(psql + ["-n"])
    write("begin;\nselect 1;\n")
    s.wait(pg.idle, "a session is idle in its transaction")
    client = s.waiting(psql + ["-c", "select 2"], 0.6)
    ports = s.sh(f"ss -tnp | grep -E 'pid=({holder.pid}|{client.pid}),'").splitlines()
    port = {process.pid: next(line for line in ports if f"pid={process.pid}," in line).split()[3].rpartition(":")[2]
            for process in (holder, client)}
    says = (rf"active\naddr +\| 127.0.0.1\nport +\| {port[holder.pid]}(\n[^-][^\n]*)*\nlink +\| 0x",
            rf"waiting\naddr +\| 127.0.0.1\nport +\| {port[client.pid]}\b")
    yield Question(looked(client), "psql", says)


@question("redis")
def redis(s):
    """A client waits for an element of a list that nobody has pushed yet."""
    server = Redis(s)
    client = s.waiting(server.cli + ["blpop", s.word(), "0"])
    port = s.sh(f"ss -tnp | grep 'pid={client.pid},'").split()[3].rpartition(":")[2]
    yield Question(looked(client), "redis-cli", (rf"addr=127.0.0.1:{port} [^\n]*flags=b [^\n]*cmd=blpop",))


@question("nginx")
def nginx_question(s):
    """A rate holds a client's answer back: the directive that says so, of whatever file nginx was started with."""
    s.file("www/small", "x\n")
    zone = "limit_req_zone $server_port zone=z:1m rate=6r/m;"
    _, worker, port = nginx(s, f"root {s.dir}/www; limit_req zone=z burst=5;", extra=zone)
    s.sh(" ".join(map(str, curl(port, "/small"))))
    s.waiting(curl(port, "/small"), 0.3)
    yield Question(looked(worker), "nginx", (r"limit_req_zone \$server_port zone=z:1m rate=6r/m;", r"limit_req zone=z burst=5;"))


@question("java")
def java(s):
    """One request sleeps in a monitor that another one wants: both threads, and the monitor."""
    server, port = java_server(s)
    s.waiting(curl(port, "/hold=20"), 0.3)
    s.waiting(curl(port, "/take"), 0.3)
    yield Question(looked(server), "jcmd", (r'"pool-1-thread-\d+"[^\n]*waiting for monitor entry', r"at Srv\.sleep[^\n]*\n[^\n]*\n\s+- locked <0x\w+>"))


@question("python")
def python(s):
    """Two threads, two locks, the wrong order."""
    path = py_spy(s)
    process = s.waiting([PY, s.file("abba.py", ABBA)], 0.8)
    yield Question(looked(process), "py-spy", (r'"MainThread"\n\s+take \(abba.py:7\)', r'"Thread-1 \(take\)"\n\s+take \(abba.py:7\)'), path)


@question("gunicorn")
def of_gunicorn(s):
    """A worker waits for a lock that an earlier request never gave back."""
    path, port = py_spy(s), s.port()
    s.file("app.py", LEAKS)
    s.spawn([tool("gunicorn"), "-w", "1", "-b", f"127.0.0.1:{port}", "app:app"], log="gunicorn.log")
    s.wait_port(port)
    s.sh(" ".join(curl(port, "/take")))
    client = s.waiting(curl(port, "/take"))
    yield Question(looked(client), "py-spy", (r"take_stock \(app.py:5\)",), path)


@question("php-fpm")
def of_php(s):
    """A request waits for a semaphore that another one has: the script, and the call."""
    child, port = php_fpm(s)
    s.file("index.php", SEMAPHORE)
    key = s.spawn(["php", "-r", f"$s = sem_get(ftok('{s.dir}/index.php', 'a'), 1, 0666); sem_acquire($s); echo 'has it'; sleep(60);"],
                  log="holder.log")
    s.wait(lambda: "has it" in (s.dir / "holder.log").read_text(), "the semaphore is taken")
    client = s.waiting(curl(port))
    yield Question(looked(client), "ls", (rf"{s.dir}/index.php", r"sysvsem.so"))
    key.kill()


@question("go")
def go(s):
    """A request of a Go server sleeps with the mutex that another one wants; the server has net/http/pprof."""
    server, port = shop(s, pprof=True)
    s.waiting(curl(port, "/order?takes=20s"), 0.3)
    s.waiting(curl(port, "/count"), 0.2)
    yield Question(looked(server, 3), "curl", (r"\[(sync.Mutex.Lock|semacquire)[^\n]*\]:(\n[^\n]+)*\nmain\.\(\*Shop\)\.Count", r"\[sleep[^\n]*\]:(\n[^\n]+)*\nmain\.\(\*Shop\)\.Order"))


@question("other", quick=True)
def any_other(s):
    """Two mutexes of a C program, the wrong order: the functions that took them."""
    tool("gdb")
    s.sh(f"{tool('gcc')} -g -pthread -o abba {s.file('abba.c', C_ABBA)}")
    process = s.waiting([s.dir / "abba"], 1.4)
    yield Question(looked(process), "gdb", (r"in take_orders \(", r"in take_stock \("))


@question("socket", quick=True)
def one_socket(s):
    """A client connects to an address of another host, which says nothing: what this side knows."""
    inside, far = s.netns(), "192.0.2." + str(s.random.randrange(2, 250))
    s.sh(f"ip -n {inside} link add far type veth peer name away && ip -n {inside} link set away up && "
         f"ip -n {inside} addr add 192.0.2.1/24 dev far && ip -n {inside} link set far up")
    s.sh(f"ip -n {inside} neigh add {far} lladdr 02:00:00:00:00:01 dev far")
    port = s.port()
    client = s.waiting(["ip", "netns", "exec", inside, PY, "-c", CONNECTS, far, port], 0.6)
    yield Question(looked(client), "ss", (rf"SYN-SENT[^\n]*192.0.2.1:\d+ +{far}:{port} +users:\(\(\"python3\",pid={client.pid},", r"unacked:1"))
