"""Two namespaces that a bridge in a third one joins, as containers of a host are; and what can be wrong with the bridge.

Owns how it is made, what is done to it and how that is taken back. Must not touch anything outside of the three namespaces.
Rejected: containers themselves (podman's bridge is the host's, and its set-up takes longer than a look).
"""

import subprocess


class Bridged:
    """A client's namespace, the bridge's, and one with servers."""

    def __init__(self, s):
        self.here, self.middle, self.there = s.netns(), s.netns(), s.netns()
        net = f"10.{s.random.randrange(60, 250)}.{s.random.randrange(250)}"
        self.bridge = f"br{s.random.randrange(100)}"
        self.address = f"{net}.3"
        self.ip(f"-n {self.middle} link add {self.bridge} type bridge")
        self.ip(f"-n {self.middle} link set {self.bridge} up")
        self.ports = []
        for ends, last in ((self.here, 2), (self.there, 3)):
            port = f"veth{last}{s.random.randrange(1000)}"
            self.ports.append(port)
            self.ip(f"link add {port} netns {self.middle} type veth peer name eth0 netns {ends}")
            self.ip(f"-n {self.middle} link set {port} master {self.bridge} up")
            self.ip(f"-n {ends} addr add {net}.{last}/24 dev eth0")
            self.ip(f"-n {ends} link set eth0 up")

    @property
    def client(self):
        """What brings a command to the client's side."""
        return ["ip", "netns", "exec", self.here]

    @property
    def server(self):
        """What brings a command to the server's side."""
        return ["ip", "netns", "exec", self.there]

    @staticmethod
    def ip(words):
        """One call of ip."""
        subprocess.run(["ip", *words.split()], check=True)

    def port(self, which, *words):
        """Sets something of a port."""
        subprocess.run(["bridge", "-n", self.middle, "link", "set", "dev", self.ports[which], *words], check=True)

    def asks_again(self):
        """Whatever the client knew of the server's hardware address is forgotten."""
        self.ip(f"-n {self.here} neigh flush dev eth0")

    def listen(self):
        """The server's port only listens; what does not pass, as below."""
        self.port(1, "state", "1")
        self.asks_again()
        return f"port {self.ports[1]}"

    def isolate(self):
        """Both ports are isolated."""
        for which in (0, 1):
            self.port(which, "isolated", "on")
        self.asks_again()
        return f"port {self.ports[1]}"

    def leave(self):
        """The server's port is a port of no bridge."""
        self.ip(f"-n {self.middle} link set {self.ports[1]} nomaster")
        self.asks_again()
        return self.ports[1]

    def down(self):
        """The bridge is switched off."""
        self.ip(f"-n {self.middle} link set {self.bridge} down")
        self.asks_again()
        return self.bridge

    def whole(self):
        """As it was made."""
        self.ip(f"-n {self.middle} link set {self.bridge} up")
        self.ip(f"-n {self.middle} link set {self.ports[1]} master {self.bridge}")
        for which in (0, 1):
            self.port(which, "isolated", "off")
            self.port(which, "state", "3")
        self.asks_again()
