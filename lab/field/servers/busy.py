"""Servers with one event loop that answer other clients while one waits.

A test bench asks one question at a time; in the field every server has traffic. Each question of others wakes the loop, and
whoever asked it was the last to wake the loop; but he holds nothing up.
"""

import time

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.databases import Redis
from programs.web import PEER, PY, asyncio_server, curl, gunicorn, haproxy, nginx, node_server

CLIENT = """
import http.client, sys, time
port, path, keep = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "keep"
connection = http.client.HTTPConnection("127.0.0.1", port)
while True:
    connection.request("GET", path)
    connection.getresponse().read()
    if not keep:
        connection.close()
    time.sleep(float(sys.argv[4]))
"""


def traffic(s, port, keep):
    """Another client that asks a quick question some fifteen times a second, by one connection or by a new one each time."""
    script = s.file(f"client{port}.py", CLIENT)
    s.spawn([PY, script, port, "/", "keep" if keep else "anew", s.seconds(0.05, 0.09)], log="client.log")


@case("busy-node")
def busy_node(s):
    """A timer of node's, and node behind nginx, with other clients on either."""
    server, port = node_server(s)
    _, _, front = nginx(s, f"proxy_pass http://127.0.0.1:{port};")
    traffic(s, port, keep=True)
    traffic(s, front, keep=False)
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(curl(front), HEALTHY, "twin")
    yield run(curl(port, f"/later={s.seconds(2.4, 3.2)}"), truth, "timer", wall=1)
    yield run(curl(front, f"/later={s.seconds(2.4, 3.2)}"), truth, "timer-behind-nginx", wall=1)
    works = Truth(end=("works",), who=(server.pid,))
    yield run(curl(front, f"/compute={s.seconds(2.4, 3.2)}"), works, "computes-behind-nginx", wall=1)


@case("busy-proxy")
def busy_proxy(s):
    """A proxy at full rate for others, while one answer waits in its upstream's only worker."""
    worker, up, _ = gunicorn(s)
    _, _, of_nginx = nginx(s, f"proxy_pass http://127.0.0.1:{up}; }} location /others {{ return 200 ok;")
    _, of_haproxy = haproxy(s, up, "\n  http-request return status 200 if { path_beg /others }")
    truth = Truth(end=("sleep",), who=(worker,), code=PEER)
    for name, front in (("nginx", of_nginx), ("haproxy", of_haproxy)):
        yield run(curl(front), HEALTHY, f"{name}-twin")
        others = s.spawn([tool("wrk"), "-t1", "-c4", "-d60s", f"http://127.0.0.1:{front}/others"], log="wrk.log")
        time.sleep(0.5)
        yield run(curl(front, f"/sleep={s.seconds(2.4, 3.2)}"), truth, name, wall=2)
        client = s.waiting(curl(front, "/sleep=5"))
        yield pid(client, truth, f"{name}-hang", secs=2, standing=True)
        client.wait(9)
        others.kill()


@case("busy-own-work")
def busy_own_work(s):
    """The same traffic, and the server computes over the answer itself: that it also answers others is no excuse."""
    server, port = node_server(s)
    _, _, front = nginx(s, f"proxy_pass http://127.0.0.1:{port}; }} location /others {{ return 200 ok;")
    others = s.spawn([tool("wrk"), "-t1", "-c4", "-d60s", f"http://127.0.0.1:{front}/others"], log="wrk.log")
    time.sleep(0.5)
    truth = Truth(end=("works",), who=(server.pid,))
    yield run(curl(front, f"/compute={s.seconds(2.4, 3.2)}"), truth, wall=1)
    others.kill()


@case("busy-asyncio")
def busy_asyncio(s):
    """asyncio.sleep and time.sleep, with other clients."""
    server, port = asyncio_server(s)
    traffic(s, port, keep=False)
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(curl(port), HEALTHY, "twin")
    yield run(curl(port, f"/later={s.seconds(2.4, 3.2)}"), truth, "timer", wall=1)
    yield run(curl(port, f"/block={s.seconds(2.4, 3.2)}"), truth, "blocked", wall=1)


@case("redis-late-producer")
def redis_late_producer(s):
    """A worker takes from a list that another program fills late; others use the same server."""
    redis = Redis(s)
    s.load(" ".join(redis.cli + ["incr", "n"]), 0.05)
    produces = f"sleep {s.seconds(2.4, 3.2)}; {' '.join(redis.cli)} lpush jobs one"
    taken = redis.cli + ["blpop", "jobs", "9"]
    producer = s.spawn(["bash", "-c", produces], log="producer.log")
    truth = Truth(end=("sleep",), who=(producer.pid, "sleep"))
    yield run(taken, truth, wall=1)
