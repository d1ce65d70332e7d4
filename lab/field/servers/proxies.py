"""nginx and HAProxy: slow, dead, stopped and busy upstreams, a queue for one server, a slow disk, descriptors, handshakes.

A proxy waits in epoll_wait whatever happens, so what it owes must be read off its connections. The responsible one is never
the proxy unless it works itself or has run out of something.
"""

import os
import signal
import time

from harness.truth import HEALTHY, NotProven, Truth, case, host, pid, run
from programs.names import namespaces
from programs.web import PEER, PY, curl, haproxy, nginx, node_server, slow_http

IDLERS = """
import socket, sys, time
held = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print('held', flush=True)
time.sleep(60)
"""


@case("nginx-slow-upstream")
def nginx_slow_upstream(s):
    """An application that sleeps before it answers."""
    server, up = slow_http(s, s.seconds(2.4, 3))
    _, worker, port = nginx(s, f"proxy_pass http://127.0.0.1:{up};")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(curl(port, "/now"), HEALTHY, "twin")
    yield run(curl(port), truth, wall=2.3)
    client = s.waiting(curl(port))
    yield pid(worker, truth, "worker-hang", secs=1.5, standing=True)
    client.wait(9)
    client = s.waiting(curl(port))
    yield pid(client, truth, "client-ends")


@case("nginx-node-stopped")
def nginx_node_stopped(s):
    """Somebody stopped the application with a signal."""
    server, up = node_server(s)
    _, worker, port = nginx(s, f"proxy_pass http://127.0.0.1:{up};")
    truth = Truth(end=("person",), who=(server.pid,), code=("process.stopped",))
    yield run(curl(port), HEALTHY, "twin")
    os.kill(server.pid, signal.SIGSTOP)
    s.later(s.seconds(2.8, 3.5), os.kill, server.pid, signal.SIGCONT)
    yield run(curl(port), truth, wall=1)
    os.kill(server.pid, signal.SIGSTOP)
    s.waiting(curl(port))
    yield host(truth, "hang", secs=2, standing=True)
    yield pid(worker, truth, "worker-hang", secs=2, standing=True)


@case("nginx-limited-disk")
def nginx_limited_disk(s):
    """A file from a disk on which nginx's group may read little."""
    disk, number, where = s.disk(64)
    group = s.group("io")
    s.sh(f"head -c 1500k /dev/urandom > {where}/f; head -c 1k {where}/f > {where}/small")
    _, _, port = nginx(s, f"root {where}; sendfile on;", groups=[group])
    yield run(curl(port, "/small"), HEALTHY, "twin")
    s.forget(disk, where)
    group.io(number, "read_bps", s.random.randrange(300000, 500000))
    truth = Truth(end=("device",), object=(disk, number), code=("disk.own_throttle",), culprit=(group.name,))
    yield run(curl(port, "/f"), truth, wall=1)


@case("nginx-dead-upstream")
def nginx_dead_upstream(s):
    """An upstream whose port a rule of another namespace of this host filters: the proxy connects to nobody."""
    here, there, _, far, _ = namespaces(s)
    s.sh(f"ip netns exec {there} iptables -A INPUT -p tcp --dport 8080 -j DROP")
    inside = ["ip", "netns", "exec", here]
    _, worker, port = nginx(s, f"proxy_pass http://{far}:8080; proxy_connect_timeout {s.random.randrange(3, 5)}s;", inside=inside)
    truth = Truth(end=("remote",), object=(far,), code=("net.filter_drop",), culprit=("tcp dport 8080 drop",))
    yield run(curl(port), truth, inside=inside, wall=2.5)
    s.waiting(inside + curl(port))
    yield pid(worker, truth, "worker-hang", secs=2, standing=True)


@case("haproxy-dead-upstream")
def haproxy_dead_upstream(s):
    """The same behind HAProxy, which tries again."""
    here, there, _, far, _ = namespaces(s)
    s.sh(f"ip netns exec {there} iptables -A INPUT -p tcp --dport 8080 -j DROP")
    inside = ["ip", "netns", "exec", here]
    proxy, port = haproxy(s, 8080, host=far, inside=inside)
    truth = Truth(end=("remote",), object=(far,), code=("net.filter_drop",), culprit=("tcp dport 8080 drop",))
    yield run(["curl", "-s", "-m", "4", *curl(port)[1:]], truth, inside=inside, wall=3)
    s.waiting(inside + curl(port))
    yield pid(proxy, truth, "proxy-hang", secs=2, standing=True)


@case("haproxy-node-stuck")
def haproxy_node_stuck(s):
    """The application computes for somebody else."""
    server, up = node_server(s)
    proxy, port = haproxy(s, up)
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("works",), who=(server.pid,))
    busy = s.waiting(curl(up, f"/compute={s.seconds(3, 3.8)}"))
    yield run(curl(port), truth, wall=1)
    busy.wait(9)
    s.waiting(curl(up, "/compute=4.5"))
    s.waiting(curl(port), 0.2)
    yield pid(proxy, truth, "proxy-hang", secs=2, standing=True)


@case("haproxy-queue")
def haproxy_queue(s):
    """maxconn 1: a request waits in the proxy until another's is answered."""
    server, up = slow_http(s, s.seconds(2.4, 2.9))
    proxy, port = haproxy(s, up, "maxconn 1")
    yield run(curl(port, "/now"), HEALTHY, "twin")
    s.waiting(curl(port), 0.3)
    truth = Truth(end=("sleep",), who=(server.pid,), code=("net.proxy_queue",), culprit=(proxy.pid, server.pid))
    yield run(curl(port), truth, wall=3)
    for _ in range(3):
        s.waiting(curl(port), 0.1)
    yield pid(proxy, truth, "proxy", secs=2.4)


@case("nginx-descriptors")
def nginx_descriptors(s):
    """Idle clients have all the descriptors that the worker may open: new ones are not accepted."""
    _, worker, port = nginx(s, "return 200 ok;", main="worker_rlimit_nofile 20;")
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("limit",), who=(worker,), code=("process.descriptor_limit",))

    def exhausted():
        idlers = s.spawn([PY, s.file("idlers.py", IDLERS), port, 40], log="idlers.log")
        s.wait(lambda: len(os.listdir(f"/proc/{worker}/fd")) >= 20, "all descriptors are taken")
        return idlers
    idlers = exhausted()
    s.later(s.seconds(3, 4), idlers.kill)
    yield run(curl(port), truth, wall=1)
    idlers.wait(5)
    time.sleep(1)
    exhausted()
    client = s.waiting(curl(port))
    yield pid(client, truth, "client-hang", secs=2, standing=True)


HANDSHAKES = """
import socket, ssl, sys
c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
for _ in range(int(sys.argv[2])):
    with c.wrap_socket(socket.create_connection(('127.0.0.1', int(sys.argv[1])))) as s:
        s.send(b'GET / HTTP/1.0\\r\\n\\r\\n'); s.recv(100)
"""


@case("tls-handshakes")
def tls_handshakes(s):
    """A new TLS connection for each request, and a server with a long RSA key: the handshakes are the work."""
    s.sh("openssl req -x509 -newkey rsa:4096 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=field 2>/dev/null")
    tls = f"ssl_certificate {s.dir}/cert.pem; ssl_certificate_key {s.dir}/key.pem; ssl_session_cache off;"
    _, worker, port = nginx(s, "return 200 ok;", tls, "ssl")
    script = s.file("handshakes.py", HANDSHAKES)
    yield run([PY, script, port, 1], HEALTHY, "twin")
    before = cpu_of(worker)

    def worked(result):
        spent = cpu_of(worker) - before
        if spent < 0.4 * result.json["accounting"]["wall_seconds"]:
            raise NotProven(f"the server worked {spent:.2f} s only")
    truth = Truth(end=("works",), who=(worker,), code=("process.crypto_bound",), culprit=("nginx", worker))
    yield run([PY, script, port, s.random.randrange(350, 500)], truth, wall=1, prove=worked)


def cpu_of(process):
    """Seconds of CPU time of a process."""
    with open(f"/proc/{process}/stat", encoding="ascii") as stat:
        words = stat.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
