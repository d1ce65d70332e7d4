"""Queues, stores and proxies of other makes: beanstalkd, gearmand, NATS, RabbitMQ, etcd, hitch, nghttpx, twemproxy, pgpool, caddy.

Whoever asks by one of them for an answer waits for the worker that sleeps behind it, or for the broker that somebody stopped. Who takes work from
a queue waits for work, which nobody owes him.
"""

import os
import signal

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.databases import Redis
from programs.web import PEER, PY, curl, slow_http

BEHIND = PEER + ("net.accept_queue", "net.proxy_queue")

BEANSTALK = """
import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
f = s.makefile('rwb')
f.write(sys.argv[2].encode().decode('unicode_escape').encode()); f.flush()
while not f.readline().startswith((b'INSERTED', b'RESERVED')): pass
"""


@case("beanstalkd")
def beanstalkd(s):
    """A client of a work queue that somebody stopped; and a worker that waits for a job, which is owed nothing."""
    port = s.port()
    server = s.spawn([tool("beanstalkd"), "-l", "127.0.0.1", "-p", port], log="beanstalkd.log")
    s.wait_port(port)
    client = [PY, s.file("job.py", BEANSTALK), port]
    yield run([*client, "put 1 0 10 1\\r\\nx\\r\\n"], HEALTHY, "twin")
    truth = Truth(end=("person",), who=(server.pid,), code=("process.stopped",))
    os.kill(server.pid, signal.SIGSTOP)
    s.later(s.seconds(2.4, 3.2), os.kill, server.pid, signal.SIGCONT)
    yield run([*client, "put 1 0 10 1\\r\\nx\\r\\n"], truth, "stopped", wall=1)
    os.kill(server.pid, signal.SIGCONT)
    s.sh(f"{PY} job.py {port} 'reserve\\r\\n'; {PY} job.py {port} 'reserve\\r\\n'")
    yield pid(s.waiting([*client, "watch empty\\r\\nignore default\\r\\nreserve\\r\\n"], 0.3), HEALTHY, "worker")


@case("gearman")
def gearman(s):
    """A client waits for the result of a job that a worker sleeps over; and one behind it in the queue."""
    tool("gearman")
    port = s.port()
    s.spawn([tool("gearmand"), "-L", "127.0.0.1", "-p", port, "-l", "stderr"], log="gearmand.log")
    s.wait_port(port)
    s.spawn(["gearman", "-h", "127.0.0.1", "-p", port, "-w", "-f", "rest", "--", "sh", "-c", "read s; sleep $s; echo done"], log="worker.log")
    ask = lambda seconds: ["sh", "-c", f"echo {seconds} | gearman -h 127.0.0.1 -p {port} -f rest"]
    s.sh(" ".join(ask(0)[2:]))
    yield run(ask(0), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=("sleep", "sh"), code=BEHIND)
    yield run(ask(s.seconds(2.3, 3)), truth, "slow", wall=1)
    s.waiting(ask(s.seconds(3, 3.6)), 0.3)
    yield run(ask(0), truth, "behind", wall=1)
    s.waiting(ask(6), 0.3)
    yield pid(s.waiting(ask(0), 0.3), truth, "behind-hang", secs=2, standing=True)
    idle = s.spawn(["gearman", "-h", "127.0.0.1", "-p", port, "-w", "-f", "other", "--", "cat"], log="idle.log")
    yield pid(idle, HEALTHY, "idle-worker")


NATS = """
import socket, sys, time
def connect(port):
    s = socket.create_connection(('127.0.0.1', int(port))); f = s.makefile('rwb'); f.readline()
    f.write(b'CONNECT {"verbose":false}\\r\\n'); f.flush(); return f
def messages(f):
    while True:
        line = f.readline()
        if line.startswith(b'PING'): f.write(b'PONG\\r\\n'); f.flush()
        if line.startswith(b'MSG'):
            body = f.readline(); yield line.split(), body.strip()
f = connect(sys.argv[1])
if sys.argv[2] == 'serve':
    f.write(b'SUB jobs 1\\r\\n'); f.flush()
    for head, body in messages(f):
        time.sleep(float(body))
        f.write(b'PUB ' + head[3] + b' 2\\r\\nok\\r\\n'); f.flush()
else:
    f.write(b'SUB inbox.7 1\\r\\nPUB jobs inbox.7 %d\\r\\n%s\\r\\n' % (len(sys.argv[2]), sys.argv[2].encode())); f.flush()
    print(next(messages(f)))
"""


@case("nats-request")
def nats_request(s):
    """A request by NATS waits for the service behind it, which sleeps."""
    port = s.port()
    s.spawn([tool("nats-server"), "-a", "127.0.0.1", "-p", port], log="nats.log")
    s.wait_port(port)
    script = s.file("bus.py", NATS)
    service = s.spawn([PY, script, port, "serve"], log="service.log")
    ask = lambda seconds: [PY, script, port, str(seconds)]
    s.wait(lambda: s.sh(f"timeout 2 {PY} {script} {port} 0"), "the service answers")
    yield run(ask(0), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(service.pid,), code=BEHIND)
    yield run(ask(s.seconds(2.3, 3)), truth, "slow", wall=1)
    client = s.waiting(ask(6), 0.3)
    yield pid(client, truth, "client-hang", secs=1, standing=True)
    s.wait(lambda: s.sh(f"timeout 8 {PY} {script} {port} 0"), "the service is free")
    s.waiting(ask(6), 0.3)
    yield pid(service, truth, "service-hang", secs=1, standing=True)


@case("etcd")
def etcd(s):
    """A store that somebody stopped; a lock that another client has; and a watch, which is owed nothing."""
    client, peer = s.port(), s.port()
    url, up = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    server = s.spawn([tool("etcd"), "--data-dir", s.dir / "etcd", "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", up,
                      "--initial-advertise-peer-urls", up, "--initial-cluster", f"default={up}"], log="etcd.log")
    s.wait_port(client)
    ctl = [tool("etcdctl"), "--endpoints", url]
    s.env["ETCDCTL_API"] = "3"
    s.wait(lambda: "OK" in s.sh(f"timeout 2 etcdctl --endpoints {url} put a 1"), "etcd writes")
    yield run([*ctl, "put", "a", "2"], HEALTHY, "twin", env={"ETCDCTL_API": "3"})
    os.kill(server.pid, signal.SIGSTOP)
    s.later(s.seconds(2.4, 3.2), os.kill, server.pid, signal.SIGCONT)
    yield run([*ctl, "get", "a"], Truth(end=("person",), who=(server.pid,), code=("process.stopped",)), "stopped", wall=1)
    name = s.word()
    holder = s.spawn([*ctl, "lock", name, "sleep", str(s.seconds(3.2, 4))], log="holder.log")
    s.wait(lambda: name in s.sh(f"etcdctl --endpoints {url} get --prefix {name} --keys-only"), "the lock is held")
    # Who holds it is a key in the store: nothing outside the program says so.
    waits = Truth(end=("sleep", "remote", "idle", "open"), who=(holder.pid, "sleep", server.pid, "etcd"), unseen=True)
    yield run([*ctl, "lock", name, "true"], waits, "lock", wall=1)
    yield pid(s.spawn([*ctl, "watch", "b"], log="watch.log"), HEALTHY, "watch")


@case("tls-proxies")
def tls_proxies(s):
    """TLS is taken off by hitch and by nghttpx, in front of a late server."""
    s.sh("openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=field 2>/dev/null; cat key.pem cert.pem > both.pem")
    server, up = slow_http(s, s.seconds(2.3, 3))
    truth = Truth(end=("sleep",), who=(server.pid,), code=BEHIND)
    port, other = s.port(), s.port()
    s.spawn([tool("hitch"), f"--frontend=[127.0.0.1]:{port}", f"--backend=[127.0.0.1]:{up}", "--workers=1", "--user=nobody", "both.pem"], log="hitch.log")
    s.wait_port(port)
    s.spawn([tool("nghttpx"), f"--frontend=127.0.0.1,{other}", f"--backend=127.0.0.1,{up}", "--workers=1", "key.pem", "cert.pem"], log="nghttpx.log")
    s.wait_port(other)
    for label, number in (("hitch", port), ("nghttpx", other)):
        ask = ["curl", "-sk", "-o", "/dev/null", f"https://127.0.0.1:{number}/"]
        yield run([*ask[:-1], ask[-1] + "now"], HEALTHY, f"twin-{label}")
        yield run(ask, truth, label, wall=1)
        yield pid(s.waiting(ask, 0.3), truth, f"{label}-hang", secs=1.5, standing=True)


@case("twemproxy")
def twemproxy(s):
    """twemproxy in front of a Redis that sleeps for another client."""
    redis, port = Redis(s), s.port()
    conf = s.file("nutcracker.yml", f"pool:\n  listen: 127.0.0.1:{port}\n  redis: true\n  servers:\n   - 127.0.0.1:{redis.port}:1\n")
    s.spawn([tool("nutcracker"), "-c", conf, "-s", s.port()], log="nutcracker.log")
    s.wait_port(port)
    ask = ["redis-cli", "-p", port, "get", "a"]
    yield run(ask, HEALTHY, "twin")
    s.waiting(["redis-cli", "-p", redis.port, "debug", "sleep", s.seconds(2.6, 3.2)], 0.3)
    yield run(ask, Truth(end=("sleep",), who=(redis.process.pid,), code=BEHIND), "sleep", wall=1)


@case("caddy-proxy")
def caddy_proxy(s):
    """Caddy in front of a late server; and one whose server was stopped."""
    server, up = slow_http(s, s.seconds(2.3, 3))
    port = s.port()
    s.spawn([tool("caddy"), "reverse-proxy", "--from", f":{port}", "--to", f"127.0.0.1:{up}", "--change-host-header"], log="caddy.log")
    s.wait_port(port)
    yield run(curl(port, "/now"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=BEHIND)
    yield run(curl(port, "/late"), truth, "late", wall=1)
    yield pid(s.waiting(curl(port, "/late"), 0.3), truth, "late-hang", secs=1.5, standing=True)
    os.kill(server.pid, signal.SIGSTOP)
    yield pid(s.waiting(curl(port, "/now"), 0.3), Truth(end=("person",), who=(server.pid,), code=("process.stopped",)), "stopped-hang", secs=2,
              standing=True)
    os.kill(server.pid, signal.SIGCONT)
