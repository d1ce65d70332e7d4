"""Servers that most hosts have somewhere: proxies that keep answers, repositories with hooks and locks, files and mail.

Each is started as its manual says, on loopback and in the case's folder. Whoever is late is not the server that was asked, but for those that were told
to send slowly or were stopped.
"""

import os
import signal
import time

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, run
from programs.web import PEER, PY, curl, slow_http

SLEEPS = Truth(end=("sleep",), who=("sleep",))


@case("squid-late-server")
def squid(s):
    """squid asks a late server."""
    server, app = slow_http(s, s.seconds(2.6, 3.2))
    port = s.port()
    conf = s.file("squid.conf", f"http_port 127.0.0.1:{port}\nhttp_access allow all\ncache_mem 8 MB\npid_filename {s.dir}/squid.pid\n"
                                f"access_log none\ncache_log {s.dir}/cache.log\ncache_store_log none\ncoredump_dir {s.dir}\n"
                                f"shutdown_lifetime 1 seconds\n")
    s.dir.chmod(0o777)
    s.spawn([tool("squid"), "-N", "-f", conf], log="squid.log")
    s.wait_port(port)
    c = ["curl", "-s", "-o", "/dev/null", "-x", f"127.0.0.1:{port}"]
    yield run([*c, f"http://127.0.0.1:{app}/now"], HEALTHY, "twin")
    yield run([*c, f"http://127.0.0.1:{app}/x"], Truth(end=("sleep",), who=(server.pid,), code=PEER), wall=2)


@case("tinyproxy-late-server")
def tinyproxy(s):
    """The same behind tinyproxy."""
    server, app = slow_http(s, s.seconds(2.6, 3.2))
    port = s.port()
    conf = s.file("tp.conf", f"Port {port}\nListen 127.0.0.1\nTimeout 60\nLogFile \"{s.dir}/tp.log\"\nMaxClients 20\n")
    s.spawn([tool("tinyproxy"), "-d", "-c", conf], log="tp.out")
    s.wait_port(port)
    c = ["curl", "-s", "-o", "/dev/null", "-x", f"127.0.0.1:{port}"]
    yield run([*c, f"http://127.0.0.1:{app}/now"], HEALTHY, "twin")
    yield run([*c, f"http://127.0.0.1:{app}/x"], Truth(end=("sleep",), who=(server.pid,), code=PEER), wall=2)


@case("varnish-late-application")
def varnish(s):
    """Varnish asks a late application; and two clients want the same, for whom it asks once."""
    server, app = slow_http(s, s.seconds(2.8, 3.4))
    port = s.port()
    vcl = s.file("d.vcl", f'vcl 4.0;\nbackend default {{ .host = "127.0.0.1"; .port = "{app}"; }}\n')
    s.spawn([tool("varnishd"), "-F", "-a", f"127.0.0.1:{port}", "-f", vcl, "-n", f"{s.dir}/vn", "-s", "malloc,16m"], log="vn.log")
    s.wait_port(port)
    s.wait(lambda: "200" in s.sh(f"curl -s -o /dev/null -w '%{{http_code}}' http://127.0.0.1:{port}/now"), "varnish answers")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(curl(port, "/now"), HEALTHY, "twin")
    yield run(curl(port, "/x"), truth, wall=2)
    s.waiting(curl(port, "/y"), 0.2)
    yield run(curl(port, "/y"), truth, "behind-another", wall=2)


@case("svn-hook")
def svn(s):
    """Subversion's pre-commit hook sleeps."""
    s.sh(f"svnadmin create {s.dir}/repo; printf '[general]\\nanon-access = write\\n' > {s.dir}/repo/conf/svnserve.conf")
    port = s.port()
    s.spawn([tool("svnserve"), "-d", "--foreground", "-r", s.dir, "--listen-host", "127.0.0.1", "--listen-port", port], log="svn.log")
    s.wait_port(port)
    s.sh(f"svn co -q svn://127.0.0.1:{port}/repo wc && cd wc && echo a > a && svn add -q a && svn ci -q -m one")
    s.file("repo/hooks/pre-commit", f"#!/bin/sh\nsleep {s.seconds(2.6, 3.2)}\n", 0o755)
    s.sh("echo b >> wc/a")
    yield run(["svn", "ci", "-q", "-m", "two"], SLEEPS, wall=2, cwd=s.dir / "wc")


@case("borg-lock")
def borg(s):
    """A backup waits for the lock of a repository that another command has."""
    s.env["BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK"] = "yes"
    s.env["BORG_BASE_DIR"] = str(s.dir)
    s.sh(f"borg init -e none {s.dir}/b; mkdir src; echo x > src/a")
    create = ["borg", "create", "--lock-wait", "20", f"{s.dir}/b::a{{now:%f}}", "src"]
    yield run(create, HEALTHY, "twin", cwd=s.dir, env=dict(s.env))
    s.spawn(["borg", "with-lock", f"{s.dir}/b", "sleep", s.seconds(4.2, 5)], log="lock.log")
    time.sleep(1.2)
    yield run(create, Truth(end=("lock", "sleep"), who=("borg", "sleep", "python3")), wall=2, cwd=s.dir, env=dict(s.env))


@case("vsftpd-rate")
def vsftpd(s):
    """An FTP server that was told to send slowly."""
    s.blob("ftp/f", 1)
    s.sh(f"chmod 755 {s.dir}/ftp; mkdir -p {s.dir}/empty")
    port = s.port()
    conf = s.file("v.conf", f"listen=YES\nlisten_port={port}\nlisten_address=127.0.0.1\nanonymous_enable=YES\n"
                            f"anon_root={s.dir}/ftp\nsecure_chroot_dir={s.dir}/empty\nanon_max_rate=300000\n"
                            f"run_as_launching_user=NO\nseccomp_sandbox=NO\nno_anon_password=YES\n")
    s.spawn([tool("vsftpd"), conf], log="v.log")
    s.wait_port(port)
    yield run(["curl", "-s", "-o", "/dev/null", f"ftp://127.0.0.1:{port}/f"], Truth(end=("sleep",), who=("vsftpd",)), wall=2)


@case("parallel-semaphore")
def sem(s):
    """GNU parallel's semaphore is taken."""
    tool("sem")
    s.spawn(["sem", "--fg", "--id", "one", "-j1", "sleep", s.seconds(3.6, 4.2)], log="sem.log")
    time.sleep(1)
    yield run(["sem", "--fg", "--id", "one", "-j1", "true"], Truth(end=("lock", "sleep"), who=("sleep", "perl", "sem")), wall=1.5)


@case("slapd-stopped")
def slapd(s):
    """A directory server that somebody stopped."""
    port = s.port()
    s.sh("mkdir db")
    conf = s.file("slapd.conf", f"include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\ndatabase mdb\n"
                                f"suffix dc=x\ndirectory {s.dir}/db\nrootdn cn=a,dc=x\nrootpw p\n")
    d = s.spawn([tool("slapd"), "-f", conf, "-h", f"ldap://127.0.0.1:{port}/", "-d", "0"], log="slapd.log")
    s.wait_port(port)
    q = ["ldapsearch", "-x", "-LLL", "-H", f"ldap://127.0.0.1:{port}", "-b", "", "-s", "base"]
    yield run(q, HEALTHY, "twin")
    os.kill(d.pid, signal.SIGSTOP)
    s.later(3, os.kill, d.pid, signal.SIGCONT)
    yield run(q, Truth(end=("person",), who=(d.pid,)), wall=2)

BANNER = """
import socket, sys, time
l = socket.create_server(('127.0.0.1', int(sys.argv[1])))
while True:
    c, _ = l.accept()
    time.sleep(float(sys.argv[2]))
    f = c.makefile('rw')
    f.write('220 x ESMTP\\r\\n'); f.flush()
    data = False
    for line in f:
        w = line[:4].upper()
        if data:
            if line.strip() == '.': data = False; f.write('250 ok\\r\\n'); f.flush()
            continue
        if w == 'DATA': data = True; f.write('354 go\\r\\n')
        elif w == 'QUIT': f.write('221 bye\\r\\n'); f.flush(); break
        else: f.write('250 ok\\r\\n')
        f.flush()
    c.close()
"""


@case("smtp-late-greeting")
def smtp(s):
    """A mail server that greets late."""
    port = s.port()
    d = s.spawn([PY, s.file("smtp.py", BANNER), port, s.seconds(2.6, 3.2)], log="smtp.log")
    s.wait_port(port)
    time.sleep(3.5)
    m = ["sh", "-c", f"printf 'Subject: x\\n\\nhi\\n' | msmtp --host=127.0.0.1 --port={port} --from=a@x b@x"]
    yield run(m, Truth(end=("sleep",), who=(d.pid,), code=PEER), wall=2)


@case("git-push-hook")
def git_hook(s):
    """A pre-receive hook sleeps."""
    s.sh("git init -q --bare r.git; git init -q w; cd w; echo a > a; git add a; git commit -qm a; git remote add o ../r.git; git push -q o HEAD:main")
    s.file("r.git/hooks/pre-receive", f"#!/bin/sh\ncat >/dev/null\nsleep {s.seconds(2.6, 3.2)}\n", 0o755)
    s.sh("cd w; echo b > a; git commit -qam b")
    yield run(["git", "push", "-q", "o", "HEAD:main"], SLEEPS, wall=2, cwd=s.dir / "w")


@case("parallel-longest")
def parallel_longest(s):
    """One of several jobs is longer than the others."""
    tool("parallel")
    yield run(["parallel", "-j2", "sleep {}", ":::", "0.2", "0.3", "2.5", "0.1"], SLEEPS, wall=2)


@case("pipeline-late")
def ifne(s):
    """A pipeline whose first program is late."""
    tool("ifne")
    yield run(["bash", "-c", f"(sleep {s.seconds(2.2, 2.8)}; echo x) | ifne cat | ts | chronic cat"], SLEEPS, wall=2)


@case("gpg-lock")
def gpg(s):
    """Another's lock on a key ring."""
    s.sh("mkdir -m700 g; gpg --homedir g --batch --passphrase '' --quick-gen-key a@b default default never 2>/dev/null; gpgconf --homedir g --kill all")
    holder = s.spawn(["sleep", "60"])
    host = s.sh("uname -n").strip()
    s.file("g/pubring.kbx.lock", "%10d\n%s\n" % (holder.pid, host))
    s.later(s.seconds(2.6, 3.4), lambda: os.unlink(s.dir / "g/pubring.kbx.lock"))
    yield run(["gpg", "--homedir", "g", "--batch", "--yes", "--quick-add-uid", "a@b", "c@d"],
              Truth(end=("lock", "sleep"), object=("pubring.kbx.lock",)), wall=2, cwd=s.dir)
