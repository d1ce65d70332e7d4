"""A way with a router on it: three namespaces, what can be wrong with the router, and a tunnel over it.

Owns how it is made and what the router's own counters and rules say, which proves that a fault bites. The router says nothing to
those whose packets it drops, as most that are on the way today. Nothing outside of the three namespaces is touched.
"""

import subprocess

from harness.stage import tool


class Way:
    """A client's namespace, the router's, and one with servers behind it."""

    def __init__(self, s):
        self.s, (self.here, self.router, self.behind) = s, (s.netns(), s.netns(), s.netns())
        net = f"10.{s.random.randrange(60, 250)}"
        near, far = s.random.sample(range(250), 2)
        self.near_if, self.out_if = f"wan{s.random.randrange(100)}", f"lan{s.random.randrange(100)}"
        self.here_address, self.address = f"{net}.{near}.2", f"{net}.{far}.2"
        for ends, part, interface in ((self.here, near, self.near_if), (self.behind, far, self.out_if)):
            self.ip(f"link add {interface} netns {self.router} type veth peer name eth0 netns {ends}")
            self.ip(f"-n {self.router} addr add {net}.{part}.1/24 dev {interface}")
            self.ip(f"-n {ends} addr add {net}.{part}.2/24 dev eth0")
            self.ip(f"-n {self.router} link set {interface} up")
            self.ip(f"-n {ends} link set eth0 up")
            self.ip(f"-n {ends} route add default via {net}.{part}.1")
        self.of_router("sysctl -qw net.ipv4.ip_forward=1")
        tool("iptables")
        self.of_router("iptables -A OUTPUT -p icmp -j DROP")

    @property
    def client(self):
        """What brings a command to the client's side."""
        return ["ip", "netns", "exec", self.here]

    @property
    def server(self):
        """What brings a command behind the router."""
        return ["ip", "netns", "exec", self.behind]

    @staticmethod
    def ip(words):
        """One call of ip."""
        subprocess.run(["ip", *words.split()], check=True)

    def of_router(self, command):
        """A command in the router's namespace; its output."""
        return self.s.sh(f"ip netns exec {self.router} {command}")

    def counted(self, name):
        """A counter of the router's IP."""
        names, values = [line.split() for line in self.of_router("cat /proc/net/snmp").splitlines() if line.startswith("Ip: ")]
        return int(values[names.index(name)])

    def narrow(self, mtu):
        """The router's link to the client takes only short packets; who is to blame, as below."""
        self.ip(f"-n {self.router} link set {self.near_if} mtu {mtu}")
        return f"MTU of {self.near_if}"

    def deaf(self):
        """The router passes on nothing that comes from the client."""
        self.of_router(f"sysctl -qw net.ipv4.conf.{self.near_if}.forwarding=0")
        return f"forwarding of {self.near_if}"

    def filtered(self, rule):
        """A rule of the router's drops what matches: iptables' words."""
        self.of_router(f"iptables -A FORWARD {rule} -j DROP")
        return "FORWARD"

    def hole(self):
        """The router's route to the server is a black hole."""
        self.ip(f"-n {self.router} route add blackhole {self.address}/32")
        return f"routes to {self.address}"

    def whole(self):
        """As it was made."""
        self.ip(f"-n {self.router} link set {self.near_if} mtu 1500")
        self.of_router(f"sysctl -qw net.ipv4.conf.{self.near_if}.forwarding=1")
        self.of_router("iptables -F FORWARD")
        subprocess.run(["ip", "-n", self.router, "route", "del", "blackhole", f"{self.address}/32"], check=False,
                       stderr=subprocess.DEVNULL)
        for namespace in (self.here, self.behind):
            subprocess.run(["ip", "-n", namespace, "route", "flush", "cache"], check=False)

    def refuse(self, kind):
        """The client's own routes refuse the server, by a table of its own; what has to be changed."""
        self.ip(f"-n {self.here} route add {kind} {self.address}/32 table 700")
        self.ip(f"-n {self.here} rule add pref 700 lookup 700")
        return f"route {kind} {self.address}/32 table 700"

    def allow(self, kind):
        """Takes that back."""
        self.ip(f"-n {self.here} rule del pref 700")
        self.ip(f"-n {self.here} route del {kind} {self.address}/32 table 700")


class Overlay:
    """A VXLAN tunnel over a way, whose forwarding table says where frames go."""

    ALL = "00:00:00:00:00:00"

    def __init__(self, way):
        self.way, self.address = way, "10.9.7.2"
        for ends, own, last in ((way.here, way.here_address, 1), (way.behind, way.address, 2)):
            way.ip(f"-n {ends} link add vx7 type vxlan id 77 dstport 4789 local {own} nolearning")
            way.ip(f"-n {ends} addr add 10.9.7.{last}/24 dev vx7")
            way.ip(f"-n {ends} link set vx7 up")
        self.fdb(way.behind, "append", way.here_address)
        self.fdb(way.here, "append", way.address)

    def fdb(self, namespace, verb, to):
        """One entry for every frame."""
        subprocess.run(["bridge", "-n", namespace, "fdb", verb, self.ALL, "dev", "vx7", "dst", to], check=True)

    def forget(self):
        """The client's end loses its entry; what has to be changed."""
        self.fdb(self.way.here, "del", self.way.address)
        self.way.ip(f"-n {self.way.here} neigh flush dev vx7")
        return "forwarding table of vx7"

    def learn(self):
        """The entry is there again."""
        self.fdb(self.way.here, "append", self.way.address)
        self.way.ip(f"-n {self.way.here} neigh flush dev vx7")
