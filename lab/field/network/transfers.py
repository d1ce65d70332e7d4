"""Transfers of files and packages: over ssh, from a git server, from a package registry that does not answer, through relays; and
clients that take their time themselves.
"""

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.names import Sshd
from programs.web import PEER, PY, curl, listening, slow_http

MUTE = """
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(8)
held = []
while True:
    c, _ = s.accept(); c.recv(65536); held.append(c)
    time.sleep(60)
"""


def mute_registry(s):
    """A server that takes the first question and never answers: (process, port)."""
    port = s.port()
    server = s.spawn([PY, s.file("mute.py", MUTE), port], log="mute.log")
    listening(s, port)
    return server, port


@case("rsync-over-ssh")
def rsync_over_ssh(s):
    """The other side begins late, or is slow to read."""
    tool("rsync")
    sshd = Sshd(s)
    shell = " ".join(map(str, sshd.ssh()[:-1]))
    s.sh(f"mkdir src; head -c 200k /dev/urandom > src/a; printf '#!/bin/sh\\nsleep {s.seconds(2.3, 3)}\\nexec rsync \"$@\"\\n' > late; "
         "chmod +x late")
    argv = ["rsync", "-a", "-e", shell, "src/", f"root@127.0.0.1:{s.dir}/dst/"]
    yield run(argv, HEALTHY, "twin", root=True)
    truth = Truth(end=("sleep",), who=("sleep",), code=PEER)
    late = [*argv[:2], f"--rsync-path={s.dir}/late", *argv[2:]]
    yield run(late, truth, "late", wall=1, root=True)
    s.sh(f"printf '#!/bin/sh\\nsleep 9\\n' > {s.dir}/never; chmod +x {s.dir}/never")
    never = [*argv[:2], f"--rsync-path={s.dir}/never", *argv[2:]]
    yield pid(s.waiting(never, 1), truth, "hang", secs=2, standing=True)


@case("git-daemon")
def git_daemon(s):
    """A git server whose hook takes its time before it packs."""
    hook = s.file("hook", f"#!/bin/sh\nsleep {s.seconds(2.3, 3)}\nexec \"$@\"\n", 0o755)
    s.sh("git init -q r; cd r; echo a > a; git add a; git commit -qm a; touch .git/git-daemon-export-ok")
    s.sh("git clone -q --bare r quick.git; touch quick.git/git-daemon-export-ok")
    port = s.port()
    daemon = ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--base-path={s.dir}", "--export-all"]
    s.spawn([*daemon, f"--port={port}"], log="git.log")
    s.wait_port(port)
    yield run(["git", "clone", "-q", f"git://127.0.0.1:{port}/quick.git", s.dir / "c0"], HEALTHY, "twin", root=True)
    s.file("home2/.gitconfig", f"[uploadpack]\n\tpackObjectsHook = {hook}\n")
    late = s.port()
    s.spawn([*daemon, f"--port={late}"], log="late.log", env={"HOME": str(s.dir / "home2")})
    s.wait_port(late)
    truth = Truth(end=("sleep",), who=("sleep",), code=PEER)
    yield run(["git", "clone", "-q", f"git://127.0.0.1:{late}/quick.git", s.dir / "c1"], truth, wall=1, root=True)


@case("pip-mute-registry")
def pip_mute_registry(s):
    """pip asks a package index that takes the question and never answers."""
    server, port = mute_registry(s)
    tool("pip3")
    argv = ["/usr/bin/python3", "-m", "pip", "download", "--no-deps", "--retries", "0", "--timeout", s.random.choice((3, 4)), "--index-url",
            f"http://127.0.0.1:{port}/simple", "field-corpus-nothing"]
    truth = Truth(end=("sleep", "remote"), who=(server.pid, f"127.0.0.1:{port}"), code=PEER)
    yield run(argv, truth, wall=2)


@case("npm-mute-registry")
def npm_mute_registry(s):
    """npm asks a registry that takes the question and never answers."""
    server, port = mute_registry(s)
    argv = [tool("npm"), "view", "field-corpus-nothing", f"--registry=http://127.0.0.1:{port}", "--fetch-retries=0",
            f"--fetch-timeout={s.random.randrange(3000, 4000)}", "--no-update-notifier"]
    truth = Truth(end=("sleep", "remote"), who=(server.pid, f"127.0.0.1:{port}"), code=PEER)
    yield run(argv, truth, wall=2)


@case("socat-unix-relay")
def socat_unix_relay(s):
    """A relay from a unix socket to a late server, as containers have it."""
    tool("socat")
    server, port = slow_http(s, s.seconds(2.3, 2.9))
    path = s.dir / f"{s.word()}.sock"
    s.spawn(["socat", f"UNIX-LISTEN:{path},fork,mode=666", f"TCP:127.0.0.1:{port}"])
    s.wait(path.exists, "the relay's socket")
    client = ["curl", "-s", "-o", "/dev/null", "--unix-socket", path]
    yield run([*client, "http://localhost/now"], HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run([*client, "http://localhost/"], truth, wall=1)
    yield pid(s.waiting([*client, "http://localhost/"], 0.3), truth, "client-hang", secs=1.5, standing=True)


@case("client-paces-itself")
def client_paces_itself(s):
    """A download that its own client slows down, and one that rests between files."""
    s.blob("www/f", 3)
    s.file("www/g", "x\n")
    port = s.port()
    s.spawn([PY, "-m", "http.server", port, "--bind", "127.0.0.1", "--directory", s.dir / "www"], log="http.log")
    s.wait_port(port)
    url = f"http://127.0.0.1:{port}"
    yield run(["curl", "-s", "-o", "/dev/null", f"{url}/f"], HEALTHY, "twin")
    rate = s.random.randrange(900, 1200)
    yield run(["curl", "-s", "-o", "/dev/null", "--limit-rate", f"{rate}k", f"{url}/f"], Truth(end=("sleep",), who=("curl",)),
              "curl-limit-rate", wall=1)
    yield run(["wget", "-q", "-O", "/dev/null", f"--limit-rate={rate}k", f"{url}/f"], Truth(end=("sleep",), who=("wget",)),
              "wget-limit-rate", wall=1)
    yield run(["wget", "-q", "-O", "/dev/null", "--wait=1", f"{url}/g", f"{url}/g", f"{url}/g"],
              Truth(end=("sleep",), who=("wget",)), "wget-wait", wall=1)


@case("listener-waits")
def listener_waits(s):
    """A server that waits for its one client: nobody owes it anything, and nobody is there to be named."""
    port = s.port()
    s.later(s.seconds(2.4, 3), s.sh, f"bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'")
    truth = Truth(end=("open", "remote", "idle"), unseen=True)
    yield run([tool("nc"), "-l", "-p", port, "-q", "0", "-s", "127.0.0.1"], truth, wall=1)


@case("ssh-proxy-jump")
def ssh_proxy_jump(s):
    """ssh by way of another host: a command on the far side sleeps."""
    sshd = Sshd(s)
    inner = " ".join(map(str, sshd.ssh("-W", "127.0.0.1:%p")[:-3]))
    proxy = f"{inner} -W 127.0.0.1:{sshd.port} root@127.0.0.1"
    argv = sshd.ssh("sleep", s.seconds(2.3, 2.9))
    argv = [argv[0], "-o", f"ProxyCommand={proxy}", *argv[1:]]
    yield run(argv, Truth(end=("sleep",), who=("sleep",)), wall=2, root=True)


@case("curl-two-servers")
def curl_two_servers(s):
    """Two downloads at once: the slower one is what the client waits for."""
    server, port = slow_http(s, s.seconds(2.4, 3))
    argv = ["curl", "-s", "-Z", "-o", "/dev/null", f"http://127.0.0.1:{port}/now", "-o", "/dev/null", f"http://127.0.0.1:{port}/"]
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run([*argv[:-1], f"http://127.0.0.1:{port}/now"], HEALTHY, "twin")
    yield run(argv, truth, wall=1)
    yield run(curl(port), truth, "one", wall=1)
