"""Two ends of one host that a bridge or a tunnel joins, as of containers: a port, a forwarding table or a filter lets nothing pass; and a
host whose own routes refuse.

The truth is how the bridge, the tunnel or the routes are set; the proof that the same program was quick before.
"""

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.bridged import Bridged
from programs.databases import Postgres, Redis
from programs.ways import Overlay, Way
from programs.web import PY, slow_http


def unreached(at, culprit, code):
    """The truth of an address of this host that is not reached."""
    return Truth(end=("remote", "link"), code=(code,), culprit=(culprit,), object=(at,))


def clients(address, port):
    """Programs that connect, each of which gives up by itself or is ended."""
    return {
        "curl": ["curl", "-s", "-m", "4", "-o", "/dev/null", f"http://{address}:{port}/now"],
        "wget": ["timeout", "4", "wget", "-q", "-O", "/dev/null", "-t", "1", f"http://{address}:{port}/now"],
        "nc": ["timeout", "4", tool("nc"), "-z", address, str(port)],
        "psql": ["timeout", "4", "psql", "-h", address, "-p", str(port), "-c", "select 1"],
        "ssh": ["timeout", "4", "ssh", "-F", "none", "-o", "BatchMode=yes", "-p", str(port), f"root@{address}"],
        "git": ["timeout", "4", "git", "ls-remote", f"http://{address}:{port}/r"],
    }


@case("bridge-passes-nothing")
def bridge_passes_nothing(s):
    """A port of the bridge between two namespaces only listens, both are isolated, or the server's was taken away."""
    bridge = Bridged(s)
    _, port = slow_http(s, 0.01, inside=bridge.server, host=bridge.address)
    all_of = clients(bridge.address, port)
    yield run(all_of["curl"], HEALTHY, "twin", inside=bridge.client)
    for label, block in (("state", bridge.listen), ("isolated", bridge.isolate), ("left", bridge.leave), ("down", bridge.down)):
        truth = unreached(bridge.address, block(), "net.bridge_port")
        for name in ("curl", "nc", "psql") if label == "state" else ("wget", "git"):
            yield run(all_of[name], truth, f"{label}-{name}", inside=bridge.client, wall=2)
        if label == "isolated":
            yield pid(s.waiting([*bridge.client, "curl", "-s", f"http://{bridge.address}:{port}/now"]), truth, "hang", secs=2)
        bridge.whole()
    yield run(all_of["curl"], HEALTHY, "twin-after", inside=bridge.client)


@case("overlay-knows-nobody")
def overlay_knows_nobody(s):
    """A VXLAN tunnel without an entry for the other host; then one whose port a filter on the way drops."""
    overlay = Overlay(Way(s))
    _, port = slow_http(s, 0.01, inside=overlay.way.server, host=overlay.address)
    redis = Redis(s, inside=overlay.way.server, address=overlay.address)
    pg = Postgres(s, inside=overlay.way.server, address=overlay.address)
    all_of = clients(overlay.address, port) | {
        "redis-cli": ["timeout", "4", *redis.cli, "ping"],
        "psql-db": ["timeout", "4", *pg.psql, "-c", "select 1"],
    }
    yield run(all_of["curl"], HEALTHY, "twin", inside=overlay.way.client)
    truth = unreached(overlay.address, overlay.forget(), "net.overlay_unknown")
    for name in ("curl", "redis-cli", "ssh"):
        yield run(all_of[name], truth, f"unknown-{name}", inside=overlay.way.client, wall=2)
    overlay.learn()
    truth = unreached(overlay.address, overlay.way.filtered("-p udp --dport 4789"), "net.filter_drop")
    for name in ("curl", "psql-db", "git"):
        yield run(all_of[name], truth, f"filter-{name}", inside=overlay.way.client, wall=2)
    yield pid(s.waiting([*overlay.way.client, "curl", "-s", f"http://{overlay.address}:{port}/now"]), truth, "hang", secs=2)
    overlay.way.whole()
    yield run(all_of["curl"], HEALTHY, "twin-after", inside=overlay.way.client)


@case("own-routes-refuse")
def own_routes_refuse(s):
    """Programs that try again and again to connect to where their own host's routes send nothing."""
    way = Way(s)
    _, port = slow_http(s, 0.01, inside=way.server, host=way.address)
    tries = {
        "curl": f"curl -sf http://{way.address}:{port}/now",
        "psql": f"psql -h {way.address} -p {port} -c 'select 1'",
        "ssh": f"ssh -F none -o BatchMode=yes -p {port} root@{way.address}",
        "redis-cli": f"redis-cli -h {way.address} -p {port} ping | grep -q PONG",
    }
    loop = "i=0; while [ $i -lt 12 ]; do {} >/dev/null 2>&1 && break; sleep 0.3; i=$((i + 1)); done"
    yield run(["sh", "-c", loop.format(tries["curl"])], HEALTHY, "twin", inside=way.client)
    for kind in ("prohibit", "blackhole", "unreachable"):
        culprit = way.refuse(kind)
        truth = Truth(end=("sleep", "remote"), code=("net.no_route",), culprit=(culprit,), object=(way.address,))
        for name in {"prohibit": ("curl", "ssh"), "blackhole": ("psql",), "unreachable": ("redis-cli",)}[kind]:
            yield run(["sh", "-c", loop.format(tries[name])], truth, f"{kind}-{name}", inside=way.client, wall=2)
        way.allow(kind)
    way.ip(f"-n {way.here} route del default")
    truth = Truth(end=("sleep", "remote"), code=("net.no_route",), culprit=(f"route to {way.address}",), object=(way.address,))
    asks = "\n".join((
        "import socket, time",
        "while True:",
        "    try: socket.create_connection(('%s', %d)); break" % (way.address, port),
        "    except OSError: time.sleep(0.2)",
    ))
    yield run(["timeout", "4", PY, "-c", asks], truth, "gone-python", inside=way.client, wall=2)
    yield pid(s.waiting([*way.client, PY, "-c", asks]), truth, "gone-pid", secs=2)
