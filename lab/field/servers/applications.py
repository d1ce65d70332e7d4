"""Applications with one worker or one event loop, held up by what that worker does for somebody else.

A blocked event loop and an idle one look alike from outside: the same system call, the same state. What tells them apart is
that somebody is owed an answer. Whoever works is no culprit: nothing is named there, the end alone is judged.
"""

from harness.processes import state_of
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.web import PEER, asyncio_server, curl, gunicorn, java_server, node_server, php_fpm, slow_http

QUEUE = PEER + ("net.accept_queue",)


@case("gunicorn-one-worker")
def gunicorn_one_worker(s):
    """One sync worker: a slow request holds all others up."""
    worker, port, _ = gunicorn(s)
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(worker,), code=QUEUE)
    busy = s.waiting(curl(port, f"/sleep={s.seconds(2.6, 3.3)}"), 0.3)
    yield run(curl(port), truth, "behind-sleep", wall=1)
    busy.wait(9)
    busy = s.waiting(curl(port, "/sleep=3.5"), 0.3)
    yield pid(s.waiting(curl(port), 0.2), truth, "client-hang", secs=2, standing=True)
    busy.wait(9)
    s.waiting(curl(port, f"/burn={s.seconds(3, 3.6)}"), 0.3)
    yield run(curl(port), Truth(end=("works",), who=(worker,)), "behind-burn", wall=1)


@case("php-fpm-one-child")
def php_fpm_one_child(s):
    """pm.max_children = 1."""
    child, port = php_fpm(s)
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(child,), code=QUEUE)
    yield run(curl(port, f"/slow={s.seconds(2.4, 3.2)}"), truth, "slow", wall=1)
    s.waiting(curl(port, "/slow=3.5"), 0.3)
    yield run(curl(port), truth, "behind", wall=1)


@case("java-one-thread")
def java_one_thread(s):
    """Java's HttpServer with a pool of one: a slow request holds all others up."""
    server, port = java_server(s, 1)
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid, "java", "pool"), code=PEER)
    busy = s.waiting(curl(port, f"/sleep={s.seconds(2.6, 3.3)}"), 0.3)
    yield run(curl(port), truth, "behind", wall=1)
    busy.wait(9)
    s.waiting(curl(port, "/sleep=4"), 0.3)
    yield pid(s.waiting(curl(port), 0.2), truth, "client-hang", secs=2, standing=True)


@case("java-computes")
def java_computes(s):
    """A request that computes."""
    server, port = java_server(s)
    yield run(curl(port, f"/burn={s.seconds(2.5, 3.3)}"), Truth(end=("works",), who=(server.pid, "java", "pool")), wall=1)


@case("python-http-one-thread", quick=True)
def python_http_one_thread(s):
    """http.server without threads: a slow request holds all others up."""
    server, port = slow_http(s, s.seconds(2.4, 3), "HTTPServer")
    client = ["python3", "-c", f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/now').read()"]
    slow = ["python3", "-c", f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/').read()"]
    yield run(client, HEALTHY, "twin", quick=True)
    truth = Truth(end=("sleep",), who=(server.pid,), code=QUEUE)
    s.waiting(slow, 0.4)
    yield run(client, truth, "behind", wall=1, quick=True)
    s.waiting(slow, 0.4)
    yield pid(s.waiting(client, 0.3), truth, "client-hang", secs=1.5, standing=True)


@case("node-computes")
def node_computes(s):
    """One request computes on node's only thread."""
    server, port = node_server(s)
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("works",), who=(server.pid,))
    yield run(curl(port, f"/compute={s.seconds(3, 3.6)}"), truth, wall=2.5)
    client = s.waiting(curl(port, "/compute=5"))
    s.wait(lambda: state_of(server.pid) == "R", "node computes")
    yield pid(server, truth, standing=True)
    client.wait(10)
    s.waiting(curl(port, "/compute=5"))
    yield pid(s.waiting(curl(port), 0.2), truth, "of-other-client", standing=True)


@case("node-sync-child")
def node_sync_child(s):
    """execSync: the event loop waits for a child."""
    _, port = node_server(s)
    truth = Truth(end=("sleep",), who=("sleep",), code=PEER)
    yield run(curl(port, f"/exec={s.seconds(2.4, 3.2)}"), truth, wall=1)


@case("node-sync-wait")
def node_sync_wait(s):
    """Atomics.wait: the event loop sleeps, and others wait behind it."""
    server, port = node_server(s)
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    busy = s.waiting(curl(port, f"/wait={s.seconds(2.6, 3.3)}"), 0.3)
    yield run(curl(port), truth, "behind", wall=1)
    busy.wait(9)
    s.waiting(curl(port, "/wait=4"), 0.3)
    yield pid(s.waiting(curl(port), 0.2), truth, "client-hang", secs=2, standing=True)


@case("node-later")
def node_later(s):
    """setTimeout: nothing is blocked, the answer is due later."""
    server, port = node_server(s)
    yield run(curl(port, f"/later={s.seconds(2.4, 3.2)}"), Truth(end=("sleep",), who=(server.pid,), code=PEER), wall=1)


@case("node-sync-file")
def node_sync_file(s):
    """readFileSync from a disk on which node's group may read little; another client waits behind it."""
    disk, number, where = s.disk(64)
    s.sh(f"head -c 1500k /dev/urandom > {where}/f")
    s.forget(disk, where)
    group = s.group("io")
    server, port = node_server(s)
    group.add(server.pid)
    yield run(curl(port), HEALTHY, "twin")
    group.io(number, "read_bps", s.random.randrange(330000, 450000))
    truth = Truth(end=("device",), object=(disk, number), code=("disk.own_throttle",), culprit=(group.name,))
    s.waiting(curl(port, f"/file={where}/f"), 0.3)
    yield run(curl(port), truth, "behind", wall=1)


@case("asyncio-blocked")
def asyncio_blocked(s):
    """time.sleep in a coroutine."""
    server, port = asyncio_server(s)
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=QUEUE)
    busy = s.waiting(curl(port, f"/block={s.seconds(2.6, 3.3)}"), 0.3)
    yield run(curl(port), truth, wall=1)
    busy.wait(9)
    s.waiting(curl(port, "/block=4"), 0.3)
    s.waiting(curl(port), 0.2)
    yield pid(server, truth, "server-hang", secs=2, standing=True)


@case("asyncio-computes")
def asyncio_computes(s):
    """A password hash in a coroutine: the event loop works for one client, and another waits."""
    server, port = asyncio_server(s)
    truth = Truth(end=("works",), who=(server.pid,))
    s.waiting(curl(port, f"/compute={s.random.randrange(14, 18)}000000"), 0.3)
    yield run(curl(port), truth, "behind", wall=1)


@case("asyncio-later")
def asyncio_later(s):
    """asyncio.sleep: nothing is blocked, the answer is due later."""
    server, port = asyncio_server(s)
    yield run(curl(port, f"/later={s.seconds(2.4, 3.2)}"), Truth(end=("sleep",), who=(server.pid,), code=PEER), wall=1)


@case("asyncio-sync-file")
def asyncio_sync_file(s):
    """open().read() in a coroutine, from a disk with a limit."""
    disk, number, where = s.disk(64)
    s.sh(f"head -c 1500k /dev/urandom > {where}/f")
    s.forget(disk, where)
    group = s.group("io")
    server, port = asyncio_server(s)
    group.add(server.pid)
    group.io(number, "read_bps", s.random.randrange(330000, 450000))
    truth = Truth(end=("device",), object=(disk, number), code=("disk.own_throttle",), culprit=(group.name,))
    yield run(curl(port, f"/file={where}/f"), truth, wall=1)
