"""Web servers, proxies, name servers and logins at ordinary load: whatever is found above note is a false alarm.

Long polls, idle keep-alive connections and sessions at a prompt are here because they look like hangs.
"""

import subprocess
import time

from harness.processes import children_of
from harness.stage import tool
from harness.truth import HEALTHY, case, host, pid, run
from programs.names import Sshd, dnsmasq, unbound
from programs.web import PY, asyncio_server, curl, gunicorn, haproxy, java_server, nginx, node_server, php_fpm, slow_http


def visited(s, port, every=0.2, path="/"):
    """A client now and then."""
    s.load(" ".join(curl(port, path)), every)
    time.sleep(0.8)


@case("h-nginx")
def h_nginx(s):
    """nginx before an application that answers at once."""
    _, upstream = slow_http(s, 0)
    _, worker, port = nginx(s, f"proxy_pass http://127.0.0.1:{upstream};")
    visited(s, port, 0.1)
    yield host(HEALTHY)
    yield pid(worker, HEALTHY, secs=2)
    yield run(curl(port), HEALTHY, "curl")


@case("h-haproxy-node")
def h_haproxy_node(s):
    """HAProxy before node, and a client that keeps its connection open and says nothing."""
    server, upstream = node_server(s)
    proxy, port = haproxy(s, upstream)
    code = (f"import http.client, time\nc = http.client.HTTPConnection('127.0.0.1', {port})\n"
            "c.request('GET', '/'); c.getresponse().read(); time.sleep(60)")
    keep = s.spawn([PY, "-c", code])
    visited(s, port, 0.1)
    yield host(HEALTHY)
    yield pid(proxy, HEALTHY, "proxy", secs=2)
    yield pid(server, HEALTHY, "node", secs=2)
    yield pid(keep, HEALTHY, "keep-alive-client", secs=2)


@case("h-gunicorn")
def h_gunicorn(s):
    """Two sync workers and a client now and then."""
    worker, port, master = gunicorn(s, 2)
    visited(s, port)
    yield host(HEALTHY)
    yield pid(master, HEALTHY, "master", secs=2)
    yield pid(worker, HEALTHY, "worker", secs=2)


@case("h-php-fpm")
def h_php_fpm(s):
    """php-fpm behind nginx."""
    child, port = php_fpm(s)
    visited(s, port)
    yield pid(child, HEALTHY, "child", secs=2)
    yield run(curl(port), HEALTHY, "curl")


@case("h-java")
def h_java(s):
    """Java's HttpServer, with a lock that is free."""
    server, port = java_server(s)
    visited(s, port, path="/take")
    yield host(HEALTHY)
    yield pid(server, HEALTHY, secs=2)


@case("h-long-poll")
def h_long_poll(s):
    """Three clients that wait for an answer which is due later, as chats and watches do."""
    server, port = asyncio_server(s)
    for _ in range(3):
        s.spawn(["bash", "-c", f"while :; do {' '.join(curl(port, '/later=3'))}; done"])
    time.sleep(0.6)
    yield host(HEALTHY)
    yield pid(server, HEALTHY, secs=2)


@case("h-dns")
def h_dns(s):
    """dnsmasq that knows the name, and unbound that asks it."""
    address, second = s.address(), s.address()
    dnsmasq(s, address, "--address=/example.net/10.1.2.3")
    server = unbound(s, second, address)
    s.load(f"dig @{second} {s.word()}.example.net")
    time.sleep(0.6)
    yield host(HEALTHY)
    yield pid(server, HEALTHY, "unbound", secs=2)
    yield run(["dig", f"@{address}", f"{s.word()}.example.net"], HEALTHY, "dig")
    yield run(["getent", "hosts", f"{s.word()}.example.net"], HEALTHY, "getent", inside=s.resolver(second))


@case("h-sshd")
def h_sshd(s):
    """A session in which nothing happens, and a login."""
    sshd = Sshd(s)
    session = s.spawn(sshd.ssh("cat"), stdin=subprocess.PIPE)
    time.sleep(1)
    yield host(HEALTHY, secs=2)
    yield pid(session, HEALTHY, "session", secs=2)
    yield pid(sshd.process, HEALTHY, "sshd", secs=2)
    yield run(sshd.ssh("true"), HEALTHY, "login", root=True)


@case("h-idle-daemons")
def h_idle_daemons(s):
    """socat, tmux and a chat in which nobody speaks."""
    port = s.port()
    s.spawn([tool("socat"), f"TCP-LISTEN:{port},fork,bind=127.0.0.1", "EXEC:cat"])
    s.spawn([tool("tmux"), "-S", s.dir / "t", "-D"])
    time.sleep(0.5)
    client = s.spawn(["socat", "-", f"TCP:127.0.0.1:{port}"], stdin=subprocess.PIPE)
    time.sleep(0.3)
    yield host(HEALTHY, secs=2)
    yield pid(client, HEALTHY, "client", secs=2)


@case("h-python-http", quick=True)
def h_python_http(s):
    """http.server with a client now and then, and one that keeps its connection open."""
    server, port = slow_http(s, 0)
    s.spawn([PY, "-c", f"import socket, time; s = socket.create_connection(('127.0.0.1', {port})); time.sleep(60)"])
    client = s.file("client.py", f"import socket\ns = socket.create_connection(('127.0.0.1', {port}))\n"
                    "s.send(b'GET /now HTTP/1.0\\r\\n\\r\\n'); s.recv(99)\n")
    s.load(f"{PY} -S {client}")
    time.sleep(0.5)
    yield host(HEALTHY, quick=True)
    yield pid(server, HEALTHY, secs=2, quick=True)


@case("h-python-pool-idle", quick=True)
def h_python_pool_idle(s):
    """A pool of processes and one of threads, without work."""
    pool = s.spawn([PY, "-c", "import multiprocessing as m, time\np = m.Pool(3)\ntime.sleep(60)"])
    code = ("import queue, threading, time\nq = queue.Queue()\n"
            "[threading.Thread(target=q.get, daemon=True).start() for _ in range(4)]\ntime.sleep(60)")
    threads = s.spawn([PY, "-c", code])
    worker = s.wait(lambda: len(children_of(pool.pid)) == 3 and children_of(pool.pid), "the pool's workers")[0]
    yield host(HEALTHY, secs=2)
    yield pid(pool, HEALTHY, "pool", secs=2)
    yield pid(worker, HEALTHY, "pool-worker", secs=2, quick=True)
    yield pid(threads, HEALTHY, "threads-on-queue", secs=2)
