"""The network: nobody there, filtered, refused, gone, slow on the other side, slow in between.

Each case has namespaces of its own with a veth pair between them, or loopback; nothing outside is asked. A peer that is a
process of this host is named as a process; one that does not answer is an address.
"""

import os
import signal
import socket
import time

from harness.processes import descendants
from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, host, pid, run
from programs.names import Sshd, namespaces
from programs.web import PEER, PY, curl, listening, slow_http
CONNECT = """
import socket, sys
try: socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))
except OSError: pass
"""


def remote(address, *codes):
    """The truth of an address that does not answer."""
    return Truth(end=("remote",), object=(address,), code=codes, culprit=(address,))


@case("connect-filtered")
def connect_filtered(s):
    """A firewall drops what goes to the port."""
    here, there, _, far, _ = namespaces(s)
    tool("iptables")
    port = s.port()
    inside = ["ip", "netns", "exec", here]
    s.sh(f"ip netns exec {there} iptables -A INPUT -p tcp --dport {port} -j DROP")
    # Changed after an answer was seen: the rule is on this host, and has a rule of holdup's own since then.
    truth = remote(far, "net.filter_drop").plus(culprit=(f"tcp dport {port} drop",))
    clients = {
        "curl": ["curl", "-s", "--connect-timeout", s.seconds(2.5, 3.5), f"http://{far}:{port}/"],
        "python": [PY, "-c", CONNECT, far, port, s.seconds(2.5, 3.2)],
        "bash": ["timeout", "3", "bash", "-c", f"echo > /dev/tcp/{far}/{port}"],
        "wget": ["wget", "-q", "-O", "/dev/null", "-t", "1", "-T", "3", f"http://{far}:{port}/"],
    }
    for label, argv in clients.items():
        yield run(argv, truth, label, inside=inside, wall=1)
    yield pid(s.waiting([*inside, "curl", "-s", f"http://{far}:{port}/"]), truth, "hang", secs=2, standing=True)


@case("connect-nobody")
def connect_nobody(s):
    """An address of the local network that nobody has: it is asked for, and nobody answers."""
    here, _, near, _, device = namespaces(s)
    address = near.rpartition(".")[0] + f".{s.random.randrange(9, 200)}"
    truth = Truth(end=("link", "remote"), object=(address, "neigh", "neighbour", device),
                  who=(address, "neigh", "neighbour", "kernel", device),
                  code=("net.neighbour_failed",), culprit=(address, device))
    yield run(["curl", "-s", f"http://{address}/"], truth, inside=["ip", "netns", "exec", here], wall=1)


UDP = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(float(sys.argv[2]))
for _ in range(2):
    s.sendto(b'ask', ('127.0.0.1', int(sys.argv[1])))
    try: print(s.recvfrom(99)); break
    except OSError: pass
"""


@case("udp-nobody-listens")
def udp_nobody_listens(s):
    """Questions by UDP to a port of this host at which nobody listens: the client's socket is not connected and never hears that."""
    port = s.port()
    client = [PY, s.file("udp.py", UDP), port]
    truth = Truth(end=("remote",), object=(f"127.0.0.1:{port}",), code=("net.slow_peer",), culprit=("127.0.0.1", f"127.0.0.1:{port}"))
    yield run([*client, s.seconds(1.6, 2.2)], truth, wall=1)
    yield pid(s.waiting([*client, 2]), truth, "hang", secs=4)


@case("peer-gone")
def peer_gone(s):
    """The server's cable is pulled in the middle of a download."""
    here, there, _, far, _ = namespaces(s)
    server, port = slow_http(s, s.seconds(0.8, 1.2), inside=["ip", "netns", "exec", there], host=far)
    device = s.sh(f"ip -n {there} -o link show type veth").split(": ")[1].split("@")[0]
    inside = ["ip", "netns", "exec", here]
    url = f"http://{far}:{port}/"
    yield run(["curl", "-s", "-o", "/dev/null", f"{url}now"], HEALTHY, "twin", inside=inside)
    client = s.waiting([*inside, "curl", "-s", url], 0.3)
    s.sh(f"ip -n {there} link set {device} down")
    time.sleep(1.5)
    # the server has answered into the void: its kernel sends again and again, and the client knows nothing of it
    yield pid(client,
              Truth(end=("remote", "link"), object=(far,), who=(far, server.pid), code=("net.slow_peer",), culprit=(far,)),
              "hang",
              secs=2, standing=True)


@case("retry-refused")
def retry_refused(s):
    """Nobody listens, and the client tries again after a rest: its own rests are the time."""
    port = s.port()
    url = f"http://127.0.0.1:{port}/"
    # Where nobody listens was added to the culprits after an answer had named it: nobody else can be named.
    truth = Truth(end=("sleep",), who=("curl",), code=("process.retry",), culprit=("curl", f"127.0.0.1:{port}"))
    yield run(["curl", "-s", "--retry", "3", "--retry-connrefused", "--retry-delay", "1", url], truth, "curl", wall=1)
    loop = f"for i in 1 2 3 4 5; do curl -s {url} && break; sleep {s.seconds(0.4, 0.7)}; done"
    yield run(["bash", "-c", loop], truth.plus(who=("sleep", "bash")), "loop", wall=1)
    wget = ["wget", "-q", "-O", "/dev/null", "--tries=3", "--waitretry=1", "--retry-connrefused", url]
    yield run(wget, truth.plus(who=("wget",)), "wget", wall=1)


DRIBBLE = """
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(5)
while True:
    c, _ = s.accept(); c.recv(4096)
    c.sendall(b'HTTP/1.0 200 OK\\r\\nContent-Length: 30\\r\\n\\r\\n')
    for _ in range(30): time.sleep(float(sys.argv[2])); c.sendall(b'x')
    c.close()
"""


@case("slow-download")
def slow_download(s):
    """A server that answers late, or a byte at a time."""
    server, port = slow_http(s, s.seconds(2.3, 2.9))
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    url = f"http://127.0.0.1:{port}/"
    yield run(["wget", "-q", "-O", "/dev/null", url], truth, "wget", wall=1)
    yield run([PY, "-c", f"import urllib.request as u; u.urlopen('{url}').read()"], truth, "python", wall=1)
    yield run(["node", "-e", f"require('http').get('{url}', r => r.resume())"], truth, "node", wall=1)
    slow = s.port()
    dribbler = s.spawn([PY, s.file("dribble.py", DRIBBLE), slow, s.seconds(0.08, 0.12)])
    listening(s, slow)
    yield run(curl(slow), truth.plus(who=(dribbler.pid,)), "dribble", wall=1)


@case("socat-relay")
def socat_relay(s):
    """A relay between client and server is a link of the chain, not its end."""
    tool("socat")
    server, port = slow_http(s, s.seconds(2.3, 2.9))
    relay = s.port()
    s.spawn(["socat", f"TCP-LISTEN:{relay},fork,reuseaddr,bind=127.0.0.1", f"TCP:127.0.0.1:{port}"])
    listening(s, relay)
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(curl(relay, "/now"), HEALTHY, "twin")
    yield run(curl(relay), truth, wall=1)
    yield pid(s.waiting(curl(relay), 0.3), truth, "client-hang", secs=1.5, standing=True)


@case("server-in-namespace")
def server_in_namespace(s):
    """The server is in another network namespace, as in a container: its process is on this host all the same."""
    here, there, _, far, _ = namespaces(s)
    server, port = slow_http(s, s.seconds(2.3, 2.9), "HTTPServer", ["ip", "netns", "exec", there], far)
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(["curl", "-s", "-o", "/dev/null", f"http://{far}:{port}/"], truth, inside=["ip", "netns", "exec", here], wall=1)


@case("rsync-stopped")
def rsync_stopped(s):
    """Somebody stops the other side in the middle of a transfer."""
    tool("rsync")
    s.blob("src/a", 60)
    port = s.port()
    (s.dir / "dst").mkdir()
    conf = s.file("rsyncd.conf",
                  f"port = {port}\naddress = 127.0.0.1\nuse chroot = no\nuid = root\ngid = root\n"
                  f"[m]\npath = {s.dir}/dst\nread only = no\n")
    daemon = s.spawn(["rsync", "--daemon", "--no-detach", f"--config={conf}"])
    s.wait_port(port)
    def stop():
        """Stops the daemon's children, as soon as they are in the middle of it."""
        s.wait(lambda: descendants(daemon.pid), "the daemon has a child", every=0.02)
        time.sleep(0.3)
        children = descendants(daemon.pid)
        for child in children:
            os.kill(child, signal.SIGSTOP)
        return children

    def stop_and_go(seconds):
        children = stop()
        time.sleep(seconds)
        for child in children:
            os.kill(child, signal.SIGCONT)
    truth = Truth(end=("person",), who=("rsync",), code=("process.stopped",))
    target = f"rsync://127.0.0.1:{port}/m/"
    rest = s.seconds(2.4, 3.2)
    yield run(["rsync", "-a", "--bwlimit=50000", "src/", target], truth, during=[(0, lambda: stop_and_go(rest))], wall=2,
              root=True)
    s.wait(lambda: not descendants(daemon.pid), "the daemon has no child")
    client = s.waiting(["rsync", "-a", "--bwlimit=10000", "src/", target + "b/"], 0.2)
    stop()
    time.sleep(0.5)
    yield pid(client, truth, "hang", secs=2, standing=True)


@case("ssh-remote-command")
def ssh_remote_command(s):
    """What the command on the other side does: it sleeps, or it computes."""
    sshd = Sshd(s)
    yield run(sshd.ssh("true"), HEALTHY, "twin", root=True)
    yield run(sshd.ssh("sleep", s.seconds(2.2, 2.8)), Truth(end=("sleep",), who=("sleep",)), "sleeps", wall=1, root=True)
    s.blob("big", 7)
    yield run(sshd.ssh(f"xz -T1 -c {s.dir}/big | wc -c"), Truth(end=("works",), who=("xz",)), "computes", wall=1, root=True)


RECEIVER = """
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(1); c, _ = s.accept()
while c.recv(65536): time.sleep(0.1)
"""


@case("receiver-slow")
def receiver_slow(s):
    """The reader takes its time, and the sender's buffer is full."""
    port = s.port()
    server = s.spawn([PY, s.file("receiver.py", RECEIVER), port])
    listening(s, port)
    truth = Truth(end=("sleep", "link"), who=(server.pid,), code=("net.receiver_limited", "process.socket_peer"))
    yield run(["bash", "-c", f"head -c {s.random.randrange(4, 6)}M /dev/zero > /dev/tcp/127.0.0.1/{port}"], truth, wall=1)


NAGLE_SERVER = """
import socket, sys
s = socket.socket(); s.bind((sys.argv[1], int(sys.argv[2]))); s.listen(1)
c, _ = s.accept(); f = c.makefile('rb')
while True:
    head = f.read(8)
    if not head: break
    f.read(8); c.sendall(b'ok')
"""
NAGLE_CLIENT = """
import socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
if len(sys.argv) > 4: c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range(int(sys.argv[3])):
    c.send(b'header__'); c.send(b'body____'); c.recv(2)
"""


@case("delayed-ack", quick=True)
def delayed_ack(s):
    """Two small writes before each read: the second waits (Nagle) for an acknowledgement that is delayed for 40 ms."""
    here, there, _, far, _ = namespaces(s)
    inside = ["ip", "netns", "exec", here]
    client = [PY, s.file("client.py", NAGLE_CLIENT), far]

    def server():
        port = s.port()
        s.spawn(["ip", "netns", "exec", there, PY, s.file("server.py", NAGLE_SERVER), far, port])
        listening(s, port, ["ip", "netns", "exec", there])
        return port
    yield run([*client, server(), 60, "nodelay"], HEALTHY, "twin", inside=inside, quick=True)
    truth = Truth(end=("link",), object=(far, "tcp", "ack"), code=("net.delayed_ack",),
                  note="both programs wait for the same data, in a buffer")
    yield run([*client, server(), s.random.randrange(50, 70)], truth, inside=inside, wall=1, quick=True)


@case("slow-link")
def slow_link(s):
    """A shaper of a megabit a second between here and there."""
    here, there, _, far, device = namespaces(s)
    inside, port = ["ip", "netns", "exec", here], s.port()
    rate = s.random.randrange(900, 1500)
    s.sh(f"ip netns exec {here} tc qdisc add dev {device} root tbf rate {rate}kbit burst 10kb latency 300ms")
    sink = s.file("sink.py", "import socket, sys\ns = socket.socket(); s.bind((sys.argv[1], int(sys.argv[2]))); s.listen(1)\n"
                  "c, _ = s.accept()\nwhile c.recv(65536): pass\n")
    s.spawn(["ip", "netns", "exec", there, PY, sink, far, port])
    listening(s, port, ["ip", "netns", "exec", there])
    truth = Truth(end=("link",), object=(device, far, "qdisc", "tcp"), code=("net.local_queue", "net.class_ceiling"),
                  culprit=("tbf", device))
    size = s.random.randrange(3600, 4200) * 1000
    send = f"import socket; c = socket.create_connection(('{far}', {port})); c.sendall(bytes({size})); c.close()"
    yield run([PY, "-c", send], truth, inside=inside, wall=1)


@case("accept-queue-full")
def accept_queue_full(s):
    """A server that does not accept: its backlog is full, and connecting hangs."""
    port = s.port()
    code = ("import socket, sys, time\ns = socket.socket(); s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(0)\n"
            "print('up', flush=True); time.sleep(60)\n")
    server = s.spawn([PY, s.file("deaf.py", code), port], log="deaf.log")
    s.wait(lambda: "up" in (s.dir / "deaf.log").read_text(), "the server listens")
    fillers = []
    for _ in range(3):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(("127.0.0.1", port))
        fillers.append(filler)
    s.undo.append(lambda: [filler.close() for filler in fillers])
    time.sleep(0.3)
    truth = Truth(end=("sleep", "remote"), who=(server.pid, f"127.0.0.1:{port}"), code=("net.accept_queue",),
                  culprit=(server.pid,))
    yield run(["curl", "-s", "--connect-timeout", "3", f"http://127.0.0.1:{port}/"], truth, wall=2)
    client = s.waiting(["curl", "-s", f"http://127.0.0.1:{port}/"], 0.5)
    yield pid(client, truth, "hang", secs=2, standing=True)
    yield host(truth.plus(code=()), "hang", secs=2, standing=True)
