"""Commands that wait for others of theirs: wrappers, pools, pipelines, parallel jobs, and children that never end.

Whatever stands between a person and the program that works or sleeps (timeout, sudo, make, a shell) is not responsible. Of
jobs in parallel the longest one counts.
"""

import os

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.web import PEER, PY, curl, slow_http


def wrappers(line, words, url):
    """Ways to start the same client."""
    return {
        "plain": words, "timeout": ["timeout", "9", *words], "env": ["env", "A=1", *words], "nice": ["nice", *words],
        "sh-c": ["sh", "-c", line], "bash-c-true": ["bash", "-c", line + "; true"], "stdbuf": ["stdbuf", "-oL", *words],
        "xargs": ["xargs", "-a", "urls", "-n1", "curl", "-s", "-o", "/dev/null"], "sudo": ["sudo", "-n", *words],
        "setsid": ["setsid", "-w", *words], "make": ["make", "-s"], "time": ["/usr/bin/time", "-o", "/dev/null", *words],
        "python-run": [PY, "-c", f"import subprocess; subprocess.run({words!r})"],
        "python-timeout": [PY, "-c", f"import subprocess; subprocess.run({words!r}, timeout=9)"],
        "perl-system": ["perl", "-e", f"system('{line}')"], "script": ["script", "-qc", line, "/dev/null"],
        "ruby": ["ruby", "-e", f"system('{line}')"], "node-spawn": ["node", "-e", f"require('child_process').execSync('{line}')"],
        "bash-pipe": ["bash", "-c", f"curl -s {url} | cat | wc -c"], "bash-bg-wait": ["bash", "-c", f"{line} & wait"],
        "subst": ["bash", "-c", f"x=$(curl -s {url}); echo $x"], "flock": ["flock", "lockfile", *words],
        "nohup": ["nohup", *words],
        "nested": ["timeout", "9", "nice", "bash", "-c", f"timeout 8 {line}; true"],
        "runuser": ["runuser", "-u", "nobody", "--", *words], "unshare-fork": ["unshare", "-pf", *words],
    }


@case("curl-wrapped")
def curl_wrapped(s):
    """A client of a late server, started in twenty-six ways."""
    server, port = slow_http(s, s.seconds(2.3, 2.8))
    url, words = f"http://127.0.0.1:{port}/", curl(port)
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    s.file("Makefile", f"all:\n\t{' '.join(words)}\n")
    s.file("urls", url + "\n")
    yield run(curl(port, "/now"), HEALTHY, "twin")
    for label, argv in wrappers(" ".join(words), words, url).items():
        yield run(argv, truth, label, wall=2, root=label in ("sudo", "runuser", "unshare-fork"))
    for label, argv in (("of-timeout-hang", ["timeout", "9", *words]), ("of-curl-hang", words)):
        client = s.waiting(argv, 0.2)
        yield pid(client, truth, label, secs=1.5, standing=True)
        client.wait(10)
    s.waiting(words, 0.2)
    yield pid(server, truth, "of-server-hang", secs=1.5, standing=True)


@case("sleep-wrapped", quick=True)
def sleep_wrapped(s):
    """A sleeping child behind wrappers that every host has."""
    time_ = s.seconds(1.5, 2)
    truth = Truth(end=("sleep",), who=("sleep",))
    line = f"sleep {time_}"
    ways = {
        "timeout": ["timeout", "9", "sleep", time_], "bash-wait": ["bash", "-c", f"{line} & wait"], "make": ["make", "-s"],
        "python-run": [PY, "-c", f"import subprocess; subprocess.run(['sleep', '{time_}'])"],
        "subst": ["bash", "-c", f"x=$({line}); true"],
    }
    s.file("Makefile", f"all:\n\t{line}; true\n")
    for label, argv in ways.items():
        yield run(argv, truth, label, wall=1, quick=label in ("timeout", "make", "bash-wait"))


@case("wait-background")
def wait_background(s):
    """Ways to wait for a child, or for what it leaves."""
    time_ = s.seconds(2.2, 2.8)
    code = (f"import os, select, subprocess; p = subprocess.Popen(['sleep', '{time_}']); "
            "f = os.pidfd_open(p.pid); select.select([f], [], []); p.wait()")
    aio = (f"import asyncio\nasync def m():\n    p = await asyncio.create_subprocess_exec('sleep', '{time_}'); await p.wait()\n"
           "asyncio.run(m())")
    ways = {
        "two": ["bash", "-c", f"sleep 1 & sleep {time_} & wait"], "pidfd": [PY, "-c", code], "asyncio-child": [PY, "-c", aio],
        "poll-file": ["bash", "-c", f"(sleep {time_}; touch done) & until [ -e done ]; do sleep 0.1; done"],
        "tail-pid": ["bash", "-c", f"sleep {time_} & tail --pid=$! -f /dev/null"],
    }
    for label, argv in ways.items():
        who = ("sleep", "tail") if label == "tail-pid" else ("sleep",)
        yield run(argv, Truth(end=("sleep",), who=who), label, wall=1)


@case("make-longest", quick=True)
def make_longest(s):
    """The longest job of make -j, and of xargs -P."""
    s.blob("big", s.random.randrange(18, 24))
    truth = Truth(end=("works",), who=("gzip",))
    s.file("Makefile",
           "all: a b c d\na:\n\tsleep 0.1\nb:\n\tgzip -9 -c big big big > big.gz\nc:\n\tsleep 0.2\nd:\n\tsleep 0.1\n")
    yield run(["make", "-s", "-j2"], truth, wall=0.7, quick=True)
    jobs = "printf '%s\\n' 'sleep 0.1' 'gzip -9 -c big big big > /dev/null' 'sleep 0.2' | xargs -P2 -I{} sh -c {}"
    yield run(["bash", "-c", jobs], truth, "xargs-P", wall=0.7)


@case("tar-gzip")
def tar_gzip(s):
    """A backup that compresses: nothing is wrong, gzip works."""
    s.blob("src/a", s.random.randrange(50, 70))
    truth = Truth(end=("works",), who=("gzip",))
    yield run(["bash", "-c", "tar cf - src | gzip > out.gz"], truth, wall=1)
    yield run(["tar", "czf", "out.tgz", "src"], truth, "tar-z", wall=1)
    s.file("slow.sh", "#!/bin/sh\nset -e\necho begin\nfor n in 1 2; do tar cf - src | gzip -9 > out.$n; done\n", 0o755)
    yield run(["./slow.sh"], truth, "in-script", wall=1)


@case("python-pool")
def python_pool(s):
    """One job of a pool is longer than the others."""
    time_ = s.seconds(2.4, 3.2)
    script = s.file("pool.py", f"""
import multiprocessing as m, time, sys
def job(n):
    if n == 3 and sys.argv[1] == 'sleep': time.sleep({time_})
    t = time.time()
    while n == 3 and sys.argv[1] == 'burn' and time.time() < t + {time_}: pass
    return n
if __name__ == '__main__':
    with m.Pool(2) as p: print(p.map(job, range(6)))
""")
    yield run([PY, script, "none"], HEALTHY, "twin")
    yield run([PY, script, "burn"], Truth(end=("works",), who=("python3",)), "burn", wall=1)
    yield run([PY, script, "sleep"], Truth(end=("sleep",), who=("python3",)), "sleep", wall=1)
    code = (f"import concurrent.futures as c, time\ndef job(n): time.sleep({time_} if n == 3 else 0.01)\n"
            "with c.ThreadPoolExecutor(3) as e: list(e.map(job, range(6)))\n")
    yield run([PY, s.file("executor.py", code)], Truth(end=("sleep",), who=("python3",)), "threads", wall=1)


@case("popen-deadlock", quick=True)
def popen_deadlock(s):
    """A parent writes more than a pipe holds before it reads: both wait for ever."""
    size = s.random.randrange(400000, 1200000)
    script = s.file("dead.py", "import subprocess\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
                    f"p.stdin.write(b'x' * {size})\np.stdin.close()\nprint(len(p.stdout.read()))\n")
    truth = Truth(end=("link", "lock"), object=("pipe",), who=("cat", "python3"), code=("process.pipe_peer", "lock.deadlock"))
    yield run([PY, script], truth, ctrl_c=2.5, standing=True, quick=True)
    yield pid(s.waiting([PY, script], 0.5), truth, "hang", secs=2, standing=True, quick=True)


@case("pipe-slow-consumer")
def pipe_slow_consumer(s):
    """The end of a pipeline reads late, or a little at a time."""
    truth = Truth(end=("sleep",), who=("sleep",))
    yield run(["bash", "-c", f"head -c 3M /dev/zero | (sleep {s.seconds(2.4, 3.2)}; cat) | wc -c"], truth, wall=1)
    s.file("consumer.py", "import sys, time\nwhile sys.stdin.buffer.read1(65536): time.sleep(0.1)\n")
    argv = ["bash", "-c", f"head -c {s.random.randrange(1300, 1800)}k /dev/zero | {PY} consumer.py"]
    yield run(argv, Truth(end=("sleep",), who=("python3",)), "each", wall=1)


@case("fifo-nobody", quick=True)
def fifo_nobody(s):
    """A FIFO that nobody writes to, or somebody who comes late."""
    name = s.word()
    os.mkfifo(s.dir / name)
    truth = Truth(end=("open", "link"), object=(name, "fifo", "pipe"))
    yield run(["bash", "-c", f"cat {name}"], truth, ctrl_c=2, standing=True, quick=True)
    holder = s.spawn(["bash", "-c", f"exec 3>{name}; sleep {s.seconds(2.4, 3)}; echo x >&3; sleep 9"])
    yield run(["head", "-n1", name], Truth(end=("sleep",), who=(holder.pid, "sleep")), "writer-sleeps", wall=1)


@case("php-cli-exec")
def php_cli_exec(s):
    """A script's exec()."""
    php = tool("php", "php8.2")
    truth = Truth(end=("sleep",), who=("sleep",))
    yield run([php, "-r", f"exec('sleep {s.seconds(2, 2.8)}');"], truth, wall=1)
