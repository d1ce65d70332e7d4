"""What does not arrive: a router between client and server drops packets and says nothing. Each fault under ordinary programs, which
know no more than that nothing comes.

The truth is the router's own setting; the proof its counters, or that the same program was quick before.
"""

from harness.stage import tool
from harness.truth import HEALTHY, NotProven, Truth, case, pid, run
from programs.databases import Postgres, Redis
from programs.names import Sshd, dnsmasq
from programs.web import PY, haproxy, nginx, slow_http
from programs.ways import Way


def dropped(way, culprit, code="net.packet_dropped", **more):
    """The truth of packets that a router of this host drops."""
    return Truth(end=("remote", "link"), code=(code,), culprit=(culprit,), **{"object": (way.address,), **more})


def fails(way, counter, before):
    """The proof: the router counts what it did not pass on."""
    def prove(_):
        if way.counted(counter) <= before:
            raise NotProven(f"the router's {counter} did not move")
    return prove


def big(s):
    """A page that fills several packets."""
    return s.file("www/big", "x" * 200_000)


def served(s, way):
    """A server of such a page behind the router: its port, and the page."""
    big(s)
    port = s.port()
    s.spawn([*way.server, PY, "-m", "http.server", port, "-b", way.address, "-d", s.dir / "www"], log="http.log")
    s.wait(lambda: f":{port} " in s.sh(" ".join([*way.server, "ss", "-ltn"])), "the server")
    return port, f"http://{way.address}:{port}/big"


def fetchers(url):
    """Programs that fetch a page, and give up after four seconds."""
    return {
        "curl": ["curl", "-s", "-m", "4", "-o", "/dev/null", url],
        "wget": ["wget", "-q", "-O", "/dev/null", "-t", "1", "-T", "4", url],
    }


@case("narrow-way-web")
def narrow_way_web(s):
    """A link on the way back takes only short packets: connecting is quick, and the page never comes."""
    way = Way(s)
    _, url = served(s, way)
    clients = {
        **fetchers(url),
        "python": [PY, "-c", f"import urllib.request as u; u.urlopen('{url}', timeout=4).read()"],
        "node": [tool("node"), "-e", f"setTimeout(() => process.exit(1), 4000); require('http').get('{url}', r => r.resume())"],
    }
    yield run(clients["curl"], HEALTHY, "twin", inside=way.client)
    truth = dropped(way, way.narrow(s.random.randrange(900, 1300)), "net.mtu")
    for label, argv in clients.items():
        yield run(argv, truth, label, inside=way.client, wall=2, prove=fails(way, "FragFails", way.counted("FragFails")))
    hangs = s.waiting([*way.client, "curl", "-s", "-o", "/dev/null", url])
    yield pid(hangs, truth, "hang", secs=4)


@case("narrow-way-ssh")
def narrow_way_ssh(s):
    """The same under ssh, scp and rsync: the exchange of keys is longer than the link takes."""
    way = Way(s)
    sshd = Sshd(s, inside=way.server, address=way.address)
    blob = s.blob("blob", 1)
    shell = sshd.ssh("true")
    yield run(shell, HEALTHY, "twin", inside=way.client, root=True)
    truth = dropped(way, way.narrow(s.random.randrange(700, 1000)), "net.mtu")
    yield run(["timeout", "4", *shell], truth, "ssh", inside=way.client, wall=2, root=True)
    copy = ["timeout", "4", "scp", "-q", *shell[1:-2], f"root@{way.address}:{blob}", s.dir / "copy"]
    copy = ["-P" if word == "-p" else word for word in copy if word not in ("-b", "0.0.0.0")]
    yield run(copy, truth, "scp", inside=way.client, wall=2, root=True)
    remote = " ".join(map(str, shell[:-2]))
    yield run(["timeout", "4", tool("rsync"), "-a", "-e", remote, f"root@{way.address}:{blob}", f"{s.dir}/copy"], truth, "rsync",
              inside=way.client, wall=2, root=True)


@case("narrow-way-databases")
def narrow_way_databases(s):
    """The same under psql and redis-cli: short answers come, long ones never do."""
    way = Way(s)
    pg = Postgres(s, inside=way.server, address=way.address)
    ask = pg.psql + ["-c", "select repeat('x', 90000)"]
    yield run(ask, HEALTHY, "twin", inside=way.client)
    redis = Redis(s, inside=way.server, address=way.address)
    s.sh(f"{' '.join([*way.server, *redis.cli])} set long {'y' * 60_000}")
    truth = dropped(way, way.narrow(s.random.randrange(700, 1300)), "net.mtu")
    yield run(["timeout", "4", *ask], truth, "psql", inside=way.client, wall=2)
    yield run(["timeout", "4", *redis.cli, "get", "long"], truth, "redis-cli", inside=way.client, wall=2)


@case("narrow-way-git")
def narrow_way_git(s):
    """The same under git: what is to be cloned never comes."""
    way = Way(s)
    s.sh("git init -q r; cd r; head -c 300000 /dev/urandom > a; git add a; git commit -qm a; touch .git/git-daemon-export-ok")
    port = s.port()
    daemon = ["git", "daemon", "--reuseaddr", f"--listen={way.address}", f"--port={port}", f"--base-path={s.dir}", "--export-all"]
    s.spawn([*way.server, *daemon], log="git.log")
    s.wait(lambda: f":{port} " in s.sh(" ".join([*way.server, "ss", "-ltn"])), "the server")
    url = f"git://{way.address}:{port}/r"
    yield run(["git", "clone", "-q", url, s.dir / "c0"], HEALTHY, "twin", inside=way.client, root=True)
    truth = dropped(way, way.narrow(s.random.randrange(900, 1300)), "net.mtu")
    yield run(["timeout", "4", "git", "clone", "-q", url, s.dir / "c1"], truth, inside=way.client, wall=2, root=True)


@case("way-behind-proxies")
def way_behind_proxies(s):
    """A proxy beside its client, and the router drops what goes to the server behind it: the proxy waits as long as its client."""
    way = Way(s)
    _, port = slow_http(s, 0.01, inside=way.server, host=way.address)
    _, through = haproxy(s, port, host=way.address, inside=way.client)
    _, _, passed = nginx(s, f"proxy_pass http://{way.address}:{port};", inside=way.client)
    yield run(["curl", "-s", f"http://127.0.0.1:{through}/now"], HEALTHY, "twin-haproxy", inside=way.client)
    yield run(["curl", "-s", f"http://127.0.0.1:{passed}/now"], HEALTHY, "twin-nginx", inside=way.client)
    truth = dropped(way, way.filtered(f"-p tcp --dport {port}"), "net.filter_drop")
    yield run(["curl", "-s", "-m", "4", f"http://127.0.0.1:{through}/now"], truth, "haproxy", inside=way.client, wall=2)
    yield run(["curl", "-s", "-m", "4", f"http://127.0.0.1:{passed}/now"], truth, "nginx", inside=way.client, wall=2)
    way.whole()
    truth = dropped(way, way.deaf())
    yield run(["curl", "-s", "-m", "4", f"http://127.0.0.1:{passed}/now"], truth, "nginx-deaf", inside=way.client, wall=2)


@case("way-does-not-pass")
def way_does_not_pass(s):
    """A router that passes nothing on, or whose route is a black hole, under clients that connect."""
    way = Way(s)
    server, port = slow_http(s, 0.01, inside=way.server, host=way.address)
    url = f"http://{way.address}:{port}/now"
    fetch = ["curl", "-s", "--connect-timeout", "4", url]
    yield run(fetch, HEALTHY, "twin", inside=way.client)
    clients = {
        "curl": fetch,
        "nc": ["timeout", "4", tool("nc"), "-z", way.address, str(port)],
        "psql": ["timeout", "4", "psql", "-h", way.address, "-p", str(port), "-c", "select 1"],
        "ssh": ["ssh", "-F", "none", "-o", "ConnectTimeout=4", "-o", "BatchMode=yes", "-p", str(port), f"root@{way.address}"],
    }
    truth = dropped(way, way.deaf())
    for label, argv in clients.items():
        yield run(argv, truth, f"{label}-deaf", inside=way.client, wall=2)
    way.whole()
    truth = dropped(way, way.hole())
    for label, argv in clients.items():
        yield run(argv, truth, f"{label}-hole", inside=way.client, wall=2)
    yield pid(s.waiting([*way.client, "curl", "-s", url]), truth, "hang", secs=4)


@case("way-is-kept-by-programs")
def way_is_kept_by_programs(s):
    """The router's filter hands packets to a program that is not there; the client's IPsec has a policy and no keys; a burst that no packet fits into."""
    way = Way(s)
    port, url = served(s, way)
    clients = fetchers(url)
    yield run(clients["curl"], HEALTHY, "twin", inside=way.client)

    def faults():
        way.of_router(f"iptables -A FORWARD -p tcp --dport {port} -j NFQUEUE --queue-num {s.random.randrange(3, 90)}")
        yield "queue", dropped(way, way.near_if)
        way.whole()
        policy = f"src {way.here_address} dst {way.address}"
        way.ip(f"-n {way.here} xfrm policy add {policy} dir out tmpl {policy} proto esp mode transport")
        yield "ipsec", dropped(way, f"IPsec to {way.address}")
        way.ip(f"-n {way.here} xfrm policy flush")
        way.ip(f"netns exec {way.behind} tc qdisc add dev eth0 root tbf rate 10mbit burst {s.random.randrange(800, 1200)} limit 30000")
        yield "burst", dropped(way, "queue of eth0")

    for fault, truth in faults():
        for label, argv in clients.items():
            yield run(argv, truth, f"{label}-{fault}", inside=way.client, wall=2)
        yield pid(s.waiting([*way.client, "curl", "-s", "-o", "/dev/null", url]), truth, f"hang-{fault}", secs=4)


@case("way-of-names")
def way_of_names(s):
    """Questions to a name server behind a router that drops them."""
    way = Way(s)
    dnsmasq(s, way.address, "--address=/example.net/192.0.2.9", inside=way.server)
    dig = [tool("dig"), "+tries=1", "+time=4", f"@{way.address}", "www.example.net"]
    yield run(dig, HEALTHY, "twin", inside=way.client)
    truth = dropped(way, way.filtered("-p udp --dport 53"), "net.filter_drop")
    yield run(dig, truth, "dig-filter", inside=way.client, wall=2)
    yield run(["timeout", "4", tool("host"), "www.example.net", way.address], truth, "host-filter", inside=way.client, wall=2)
    way.whole()
    truth = dropped(way, way.deaf())
    yield run(dig, truth, "dig-deaf", inside=way.client, wall=2)
    asks = [PY, "-c", "import socket; socket.getaddrinfo('www.example.net', 80)"]
    resolver = s.resolver(way.address, options="timeout:3 attempts:1")
    yield run(asks, truth, "resolver-deaf", inside=[*way.client, *resolver], wall=2)


@case("way-through-vpn")
def way_through_vpn(s):
    """OpenVPN over the router: what is longer than the link takes never comes out of the tunnel."""
    way = Way(s)
    vpn = tool("openvpn")
    port = s.port()
    common = ["--dev-type", "tun", "--proto", "udp", "--port", str(port), "--verb", "3",
              "--cipher", "AES-256-CBC", "--mtu-disc", "yes"]
    s.sh(f"{vpn} --genkey secret key")
    s.spawn([*way.server, vpn, "--dev", "tunb", "--ifconfig", "10.8.7.1", "10.8.7.2", "--secret", s.dir / "key", *common],
            log="vpnb.log")
    s.spawn([*way.client, vpn, "--dev", "tuna", "--remote", way.address, "--ifconfig", "10.8.7.2", "10.8.7.1", "--secret",
             s.dir / "key", *common], log="vpna.log")
    s.wait(lambda: "Initialization Sequence Completed" in (s.dir / "vpna.log").read_text(), "the tunnel", 20)
    big(s)
    web = s.port()
    s.spawn([*way.server, PY, "-m", "http.server", web, "-b", "10.8.7.1", "-d", s.dir / "www"], log="http.log")
    s.wait(lambda: f":{web} " in s.sh(" ".join([*way.server, "ss", "-ltn"])), "the server")
    fetch = ["curl", "-s", "-m", "5", "-o", "/dev/null", f"http://10.8.7.1:{web}/big"]
    yield run(fetch, HEALTHY, "twin", inside=way.client)
    truth = dropped(way, way.narrow(s.random.randrange(900, 1300)), "net.mtu", object=("10.8.7.1",))
    yield run(fetch, truth, inside=way.client, wall=2)
    way.whole()
    truth = dropped(way, way.deaf(), object=("10.8.7.1",))
    yield run(fetch, truth, "deaf", inside=way.client, wall=2)
