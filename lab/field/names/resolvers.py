"""Names: servers that stay mute, answer late, or ask others who do; and those who ask without saying so.

The responsible one is the server that owes an answer, at the end of the chain: a local forwarder only passes the question on. An
end of kind remote has an address; who listens there is nobody's business but the case's own mute server's.
"""

from harness.truth import HEALTHY, Truth, case, pid, run
from programs.names import Sshd, asks, dnsmasq, late_dns, mute_dns, namespaces, unbound
from programs.web import PY, curl, node_server

DNS = ("net.dns_timeout",)


def owed_by(address):
    """The truth of a server that does not answer."""
    return Truth(end=("remote",), object=(address,), code=DNS, culprit=(address,))


def lookup(name):
    """A Python program that looks a name up and does not care."""
    return [PY, "-c", f"import socket\ntry: socket.getaddrinfo('{name}', 80)\nexcept OSError: pass"]


@case("mute-dns", quick=True)
def mute(s):
    """The only name server reads every question and answers none, for eight programs."""
    address, name = s.address(), f"{s.word()}.example.net"
    mute_dns(s, address)
    truth = owed_by(address)
    inside = s.resolver(address, options="timeout:1 attempts:2")
    clients = {
        "getent": ["getent", "ahosts", name], "python": lookup(name), "ping": ["ping", "-c1", name],
        "curl": ["curl", "-s", f"http://{name}/"],
        "wget": ["wget", "-q", "-t1", f"http://{name}/"], "node": ["node", "-e", f"require('dns').lookup('{name}', () => {{}})"],
        "git": ["git", "ls-remote", f"http://{name}/x.git"], "ssh": ["ssh", "-F", "none", name, "true"],
    }
    for label, argv in clients.items():
        yield run(argv, truth, label, inside=inside, wall=1, quick=label in ("getent", "python"))
    yield run(["dig", f"@{address}", "+time=2", "+tries=1", name], truth, "dig", wall=1)


@case("first-server-mute")
def first_server_mute(s):
    """The first of two name servers is mute: every question costs its timeout before the second answers."""
    address, second, name = s.address(), s.address(), f"{s.word()}.example.net"
    mute_dns(s, address)
    dnsmasq(s, second, f"--address=/{name}/10.1.2.3")
    yield run(["getent", "ahostsv4", name], HEALTHY, "twin", inside=s.resolver(second))
    inside = s.resolver(address, second, options="timeout:2 attempts:2")
    yield run(["getent", "ahostsv4", name], owed_by(address), inside=inside, wall=1)


@case("late-dns")
def late(s):
    """A name server of this host that answers late: its own process sleeps."""
    address, name = s.address(), f"{s.word()}.example.net"
    server = late_dns(s, address, s.seconds(2, 2.6))
    truth = Truth(end=("sleep", "remote"), who=(server.pid, address), code=DNS, culprit=(address, server.pid))
    inside = s.resolver(address, options="timeout:4 attempts:1")
    yield run(["getent", "ahostsv4", name], truth, inside=inside, wall=1)


@case("search-domains")
def search_domains(s):
    """Four search domains: a name is asked for five times, and each answer is late."""
    address, name = s.address(), s.word()
    server = late_dns(s, address, s.seconds(0.4, 0.6))
    domains = " ".join(f"{s.word()}.example.net" for _ in range(4))
    truth = Truth(end=("sleep", "remote"), who=(server.pid, address), code=DNS, culprit=(address, server.pid))
    inside = s.resolver(address, options="timeout:4 attempts:1 ndots:2", search=domains)
    yield run(["getent", "ahostsv4", f"{name}.lan"], truth, inside=inside, wall=1)


@case("dnsmasq-upstream")
def dnsmasq_upstream(s):
    """dnsmasq forwards to a mute server: it is not the one that is late."""
    upstream, address, name = s.address(), s.address(), f"{s.word()}.example.net"
    mute_dns(s, upstream)
    dnsmasq(s, address, f"--server={upstream}", "--address=/known.example.net/10.1.2.3")
    truth = owed_by(upstream)
    inside = s.resolver(address, options="timeout:1 attempts:2")
    yield run(["getent", "ahostsv4", "known.example.net"], HEALTHY, "twin", inside=inside)
    yield run(["getent", "hosts", name], truth, "getent", inside=inside, wall=2)
    yield run(["dig", f"@{address}", "+time=3", "+tries=1", name], truth, "dig", wall=2.5)
    client = s.waiting(["dig", f"@{address}", "+time=6", "+tries=1", name], 0.2)
    yield pid(client, truth, "dig-hang", standing=True)


@case("unbound-upstream")
def unbound_upstream(s):
    """unbound forwards to a mute server."""
    upstream, address, name = s.address(), s.address(), f"{s.word()}.example.net"
    mute_dns(s, upstream)
    server = unbound(s, address, upstream)
    truth = owed_by(upstream)
    inside = s.resolver(address, options="timeout:1 attempts:2")
    yield run(["getent", "hosts", name], truth, "getent", inside=inside, wall=2)
    yield run(["dig", f"@{address}", "+time=3", "+tries=1", name], truth, "dig", wall=2.5)
    s.waiting(["dig", f"@{address}", "+time=6", "+tries=1", name], 0.2)
    yield pid(server, truth, "of-unbound")


@case("forwarder-in-namespace")
def forwarder_in_namespace(s):
    """The forwarder is in another network namespace, as in a container, and so is the mute server that it asks."""
    here, there, _, far, _ = namespaces(s)
    upstream, name = s.address(), f"{s.word()}.example.net"
    inside = ["ip", "netns", "exec", there]
    mute_dns(s, upstream, inside)
    dnsmasq(s, far, f"--server={upstream}", inside=inside)
    client = ["ip", "netns", "exec", here, "dig", f"@{far}", "+time=3", "+tries=1", name]
    yield run(client[4:], owed_by(upstream), inside=client[:4], wall=2.5)
    yield pid(s.waiting(client[:4] + ["dig", f"@{far}", "+time=6", "+tries=1", name], 0.2), owed_by(upstream), "hang",
              standing=True)


@case("ssh-reverse-name")
def ssh_reverse_name(s):
    """The SSH server looks up who logs in, and its name server is mute."""
    address = s.address()
    mute_dns(s, address)
    sshd = Sshd(s, s.resolver(address, options="timeout:2 attempts:2"))
    truth = owed_by(address)
    source = s.address()
    yield run(sshd.ssh("true", source=source), truth, wall=3, root=True)
    client = s.spawn(sshd.ssh("true", source=source), log="ssh.log")
    asking = s.wait(lambda: asks(address), "sshd asks")[0]
    yield pid(asking, truth, "sshd")
    client.wait(20)
    client = s.spawn(sshd.ssh("true", source=source), log="ssh.log")
    asking = s.wait(lambda: asks(address), "sshd asks")[0]
    yield pid(asking, truth, "sshd-hang", secs=1.2, standing=True)


@case("resolver-in-app")
def resolver_in_app(s):
    """The application behind the port looks a name up: its client sees a slow server."""
    address = s.address()
    mute_dns(s, address)
    _, port = node_server(s, s.resolver(address, options="timeout:1 attempts:2"))
    yield run(curl(port), HEALTHY, "twin")
    yield run(curl(port, f"/lookup={s.word()}.example.net"), owed_by(address), wall=0.9)
