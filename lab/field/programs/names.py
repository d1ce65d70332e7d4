"""Name servers (a mute one, a late one, dnsmasq, unbound) and the SSH server that asks them.

Owns how they are started, and the proof that somebody asks: a UDP socket that is connected to the server's address. Only
names below example.net are asked for, and only of servers on loopback or in a namespace of the case.
"""

import os
import pathlib
import subprocess

from harness.stage import tool

from .web import PY, up

MUTE = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 53))
print('up', flush=True)
while True:
    s.recvfrom(4096)
"""

LATE = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 53))
print('up', flush=True)
while True:
    q, who = s.recvfrom(4096)
    time.sleep(float(sys.argv[2]))
    s.sendto(q[:2] + b'\\x81\\x83' + q[4:6] + bytes(6) + q[12:], who)   # no such name
"""


def mute_dns(s, address, inside=()):
    """A name server that reads every question and answers none."""
    return started(s, MUTE, [address], inside)


def late_dns(s, address, seconds):
    """A name server that says, late, that there is no such name."""
    return started(s, LATE, [address, seconds], ())


def started(s, code, arguments, inside):
    """Starts such a server and waits until it is there."""
    count = len(list(s.dir.glob("dns-*.log")))
    log = f"dns-{count}.log"
    server = s.spawn([*inside, PY, s.file(f"dns-{count}.py", code), *arguments], "root", log=log)
    s.wait(lambda: "up" in (s.dir / log).read_text(), "the name server is up")
    return server


def dnsmasq(s, address, *options, inside=()):
    """dnsmasq on an address of its own."""
    argv = [*inside, tool("dnsmasq"), "-k", "-C", "/dev/null", "-u", "root", "--no-resolv", "--no-hosts", "-p", "53",
            f"--listen-address={address}", "--bind-interfaces", "--pid-file=", *options]
    server = s.spawn(argv, "root", log="dnsmasq.log")
    s.wait(lambda: address in s.sh(" ".join([*inside, "ss", "-lun"])), "dnsmasq listens")
    return server


def unbound(s, address, upstream):
    """unbound that forwards everything."""
    conf = s.file("unbound.conf", f"""server:
  interface: {address}
  do-not-query-localhost: no
  do-daemonize: no
  chroot: ""
  username: ""
  directory: "{s.dir}"
  pidfile: ""
  use-syslog: no
  module-config: "iterator"
  num-threads: 1
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: {upstream}
""")
    server = s.spawn([tool("unbound"), "-d", "-c", conf], "root", log="unbound.log")
    s.wait(lambda: address in s.sh("ss -lun"), "unbound listens")
    return server


def asks(address):
    """PIDs with a UDP socket that is connected to port 53 of an address."""
    mark = "".join(f"{int(part):02X}" for part in reversed(address.split("."))) + ":0035"
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines = pathlib.Path(f"/proc/{entry}/net/udp").read_text().splitlines()[1:]
            nodes = {f"socket:[{line.split()[9]}]" for line in lines if line.split()[2] == mark}
            files = os.listdir(f"/proc/{entry}/fd") if nodes else []
            if any(os.readlink(f"/proc/{entry}/fd/{fd}") in nodes for fd in files):
                found.append(int(entry))
        except OSError:
            continue
    return found


class Sshd:
    """An SSH server of our own; with a resolver it looks up who logs in, as older ones did by default. `inside` brings it into another
    namespace."""

    def __init__(self, s, resolver=(), inside=(), address="127.0.0.1"):
        self.s, self.port, self.address = s, s.port(), address
        tool("sshd")
        os.makedirs("/run/sshd", exist_ok=True)  # sshd wants its folder, which a boot makes
        s.sh("ssh-keygen -q -t ed25519 -N '' -f hostkey; ssh-keygen -q -t ed25519 -N '' -f id; "
             "cp id.pub authorized; chmod 600 authorized")
        config = s.file("sshd_config", f"""Port {self.port}
ListenAddress {address}
HostKey {s.dir}/hostkey
AuthorizedKeysFile {s.dir}/authorized
StrictModes no
UsePAM no
PidFile {s.dir}/pid
UseDNS {'yes' if resolver else 'no'}
PermitRootLogin yes
""")
        self.process = s.spawn([*inside, *resolver, "/usr/sbin/sshd", "-D", "-e", "-f", config], "root", log="sshd.log")
        up(s, self.port, inside)

    def ssh(self, *command, source="", known="no"):
        """The client's command line, from an address that the server may look up."""
        source = source or ("127.0.0.1" if self.address == "127.0.0.1" else "0.0.0.0")
        return ["ssh", "-F", "none", "-o", f"StrictHostKeyChecking={known}", "-o", "UserKnownHostsFile=/dev/null", "-o",
                "LogLevel=ERROR",
                "-o", f"BatchMode={'yes' if known == 'no' else 'no'}", "-i", str(self.s.dir / "id"), "-b", source, "-p",
                str(self.port),
                f"root@{self.address}", *command]


def namespaces(s):
    """Two namespaces with a veth pair between them: (here, there, address here, address there, device here)."""
    here, there = s.netns(), s.netns()
    net = f"10.{s.random.randrange(60, 250)}.{s.random.randrange(250)}"
    a, b = f"fa{s.random.randrange(1000)}", f"fb{s.random.randrange(1000)}"
    for command in (f"link add {a} netns {here} type veth peer name {b} netns {there}",
                    f"-n {here} addr add {net}.1/24 dev {a}", f"-n {there} addr add {net}.2/24 dev {b}",
                    f"-n {here} link set {a} up", f"-n {there} link set {b} up"):
        subprocess.run(["ip", *command.split()], check=True)
    return here, there, f"{net}.1", f"{net}.2", a
