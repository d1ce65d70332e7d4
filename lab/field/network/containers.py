"""Containers of podman's on a bridge: what holds up those who talk to them, beside the bridge, in another container, and by a
published port.

The truth is what was set; the proof is how long the command took, beside its healthy twin.
"""

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.containers import Podman
from programs.web import PEER, PY, SLOW_HTTP


def web(s, podman, name, seconds=0.01, options=()):
    """A web server in a container that thinks about each answer: (its PID, address, port)."""
    script, port = s.file(f"{name}.py", SLOW_HTTP), s.port()
    process, address = podman.begin(name, PY, script, "0.0.0.0", port, seconds, "ThreadingHTTPServer", options=options)
    s.wait(lambda: f":{port} " in podman.within(process, "ss -ltn"), "the server")
    return process, address, port


def fetch(url, seconds=4):
    """curl, which gives up after a time."""
    return ["curl", "-s", "-m", str(seconds), "-o", "/dev/null", url]


@case("podman-filtered")
def podman_filtered(s):
    """A rule in a container's namespace drops what comes in, under clients beside the bridge and in another container."""
    podman, (name, other) = Podman(s), s.random.sample(["shop", "cart", "stock", "mail"], 2)
    server, address, port = web(s, podman, name)
    client, _ = podman.begin(other, "sleep", "600")
    url = f"http://{address}:{port}/now"
    exec_ = [*podman.words, "exec", other, *fetch(url)]
    yield run(fetch(url), HEALTHY, "twin", inside=podman.client)
    yield run(exec_, HEALTHY, "twin-exec")
    tool("iptables")
    podman.within(server, f"iptables -A INPUT -p tcp --dport {port} -j DROP")
    truth = Truth(end=("remote", "link"), object=(address,), code=("net.filter_drop",), culprit=("INPUT",))
    yield run(fetch(url), truth, inside=podman.client, wall=2)
    yield run(exec_, truth, "exec", wall=2)
    hangs = s.waiting(["nsenter", "-t", client, "-n", "curl", "-s", "-o", "/dev/null", url])
    yield pid(hangs, truth, "hang", secs=4)


@case("podman-paused")
def podman_paused(s):
    """The container that owes an answer is paused."""
    podman, name = Podman(s), s.word()
    server, address, port = web(s, podman, name)
    url = f"http://{address}:{port}/now"
    yield run(fetch(url), HEALTHY, "twin", inside=podman.client)
    podman.call("pause", name)
    truth = Truth(end=("person",), who=(server, "python3", name), code=("process.frozen",))
    yield run(fetch(url), truth, inside=podman.client, wall=2)
    yield pid(s.waiting([*podman.client, "curl", "-s", url]), truth, "hang", secs=4)
    podman.call("unpause", name)


@case("podman-published")
def podman_published(s):
    """A published port leads to a server that sleeps over its answer."""
    podman, name = Podman(s), s.word()
    outside = s.port()
    script, port = s.file(f"{name}.py", SLOW_HTTP), s.port()
    server, _ = podman.begin(name, PY, script, "0.0.0.0", port, s.seconds(2.0, 3.0), "ThreadingHTTPServer",
                             options=("-p", f"{outside}:{port}"))
    s.wait(lambda: f":{port} " in podman.within(server, "ss -ltn"), "the server")
    url = f"http://{podman.gateway}:{outside}"
    yield run(fetch(f"{url}/now"), HEALTHY, "twin", inside=podman.client)
    truth = Truth(end=("sleep",), who=(server, "python3"), code=PEER)
    yield run(fetch(f"{url}/slow"), truth, inside=podman.client, wall=1)
    hangs = s.load(" ".join([*podman.client, "curl", "-s", "-m", "4", f"{url}/slow"]), every=0.01)
    s.wait(lambda: f":{outside}" in podman.s.sh(" ".join([*podman.client, "ss", "-tn"])), "a client")
    client = s.wait(lambda: s.sh(f"pgrep -n -P {hangs.pid} || pgrep -n -f 'curl -s -m 4 {url}'").split(), "the client")
    yield pid(int(client[-1]), truth, "asked", secs=1.5, standing=True)
    podman.call("pause", name)
    frozen = Truth(end=("person",), who=(server, "python3", name), code=("process.frozen",))
    yield pid(s.waiting([*podman.client, "curl", "-s", f"{url}/now"]), frozen, "paused", secs=4)
    podman.call("unpause", name)


@case("podman-narrow")
def podman_narrow(s):
    """The bridge's end of a container's link takes only short packets: connecting is quick, the page never comes."""
    podman, name = Podman(s), s.word()
    s.file("www/big", "x" * 200_000)
    port = s.port()
    server, address = podman.begin(name, PY, "-m", "http.server", port, "-d", s.dir / "www")
    s.wait(lambda: f":{port} " in podman.within(server, "ss -ltn"), "the server")
    url = f"http://{address}:{port}/big"
    yield run(fetch(url), HEALTHY, "twin", inside=podman.client)
    link, mtu = podman.at_bridge(name), s.random.randrange(900, 1300)
    podman.within(server, "ip link set eth0 gso_max_segs 1")
    s.sh(f"ip -n {podman.inside} link set {link} mtu {mtu}; ip -n {podman.inside} link set {podman_bridge(s, podman)} mtu 1500")
    truth = Truth(end=("remote", "link"), object=(address,), code=("net.mtu",), culprit=(f"MTU of {link}",))
    yield run(fetch(url), truth, inside=podman.client, wall=2)


def podman_bridge(s, podman):
    """The name of the bridge."""
    return s.sh(f"ip -n {podman.inside} -o link show type bridge").split()[1].rstrip(":")


@case("podman-slow-link")
def podman_slow_link(s):
    """A rate on the bridge's end of a container's link holds up an upload to it."""
    podman, name = Podman(s), s.word()
    big, port = s.blob("big", 2), s.port()
    server, address = podman.begin(name, "socat", "-u", f"TCP-LISTEN:{port},fork,reuseaddr", "OPEN:/dev/null")
    s.wait(lambda: f":{port} " in podman.within(server, "ss -ltn"), "the server")
    upload = ["socat", "-u", f"OPEN:{big}", f"TCP:{address}:{port}"]
    yield run(upload, HEALTHY, "twin", inside=podman.client)
    link = podman.at_bridge(name)
    s.sh(f"tc -n {podman.inside} qdisc add dev {link} root tbf rate 4mbit burst 5000 limit 60000")
    truth = Truth(end=("link",), object=(link, address, "qdisc", "tcp"), code=("net.local_queue", "net.class_ceiling"),
                  culprit=("tbf", link))
    yield run(upload, truth, inside=podman.client, wall=2)


@case("podman-names")
def podman_names(s):
    """The name server of podman's network stands still, under a container that asks it for another's name."""
    tool("/usr/lib/podman/aardvark-dns")
    podman = Podman(s, dns=True)
    podman.begin("shop", "sleep", "600")
    podman.begin("cart", "sleep", "600")
    asks = [*podman.words, "exec", "cart", PY, "-c", "import socket; socket.getaddrinfo('shop', 80)"]
    yield run(asks, HEALTHY, "twin")
    server = s.wait(lambda: s.sh("pgrep -n -f '^[^ ]*aardvark-dns '").split(), "aardvark-dns")
    s.sh(f"kill -STOP {server[0]}")
    truth = Truth(end=("person",), who=("aardvark-dns", int(server[0])), code=("process.stopped", "net.dns_timeout"))
    yield run([*asks[:-3], "timeout", "4", *asks[-3:]], truth, wall=2)
    s.sh(f"kill -CONT {server[0]}")
