"""Commands that wait for the end of a process that is no child of theirs: they ask again and again whether it lives.

kill(2) without a signal is how scripts, tail, start-stop-daemon and pg_ctl do it, so nobody in the kernel waits for anybody. The process that is
asked after is reaped by a parent that waits for it: what has ended and was not reaped still lives by that call.
"""

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.databases import Postgres, postgres_bin
from programs.web import PY

# Ends some seconds after it was asked to, as servers do that have work left.
LATE = """
import signal, sys, time
def end(*_):
    time.sleep(float(sys.argv[1]))
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
while True: signal.pause()
"""
ASKS = """
import os, sys, time
while True:
    try: os.kill(int(sys.argv[1]), 0)
    except ProcessLookupError: break
    time.sleep(0.1)
"""


def reaped(s, words):
    """A process below a parent that waits for it; its number."""
    file = s.dir / f"{s.word()}.pid"
    s.spawn(["bash", "-c", f"{words} & echo $! > {file}; wait"], log="reaped.log")
    return int(s.wait(lambda: file.read_text().strip(), "its number"))


@case("asked-after", quick=True)
def asked_after(s):
    """A script, tail --pid, and a Python program wait for the end of a process that somebody else began."""
    asks = s.file("asks.py", ASKS)
    loop = "while kill -0 {} 2>/dev/null; do sleep 0.2; done"
    ways = {"shell": lambda of: ["bash", "-c", loop.format(of)], "dash": lambda of: ["dash", "-c", loop.format(of)],
            "tail": lambda of: ["tail", f"--pid={of}", "-s", "0.3", "-f", "/dev/null"], "python": lambda of: [PY, asks, of]}
    truth = Truth(end=("sleep",), who=("sleep",), object=("sleep", "timer"))
    for label, of in ways.items():
        yield run(of(reaped(s, f"sleep {s.seconds(2.4, 3)}")), truth, label, wall=1.5)
    yield run(ways["shell"](reaped(s, "sleep 0.1")), HEALTHY, "twin")
    waiter = s.waiting(ways["tail"](reaped(s, "sleep 30")))
    yield pid(waiter, truth, "hang", standing=True)


@case("stopped-late")
def stopped_late(s):
    """start-stop-daemon, and a script that sends the signal itself, wait for a server that takes its time to end."""
    tool("start-stop-daemon")
    late = s.file("late.py", LATE)
    for label, way in {"start-stop-daemon": "start-stop-daemon --stop --retry TERM/9 --pid {} --quiet",
                       "script": "kill {0}; while kill -0 {0} 2>/dev/null; do sleep 0.2; done"}.items():
        server = reaped(s, f"{PY} {late} {s.seconds(2.4, 3)}")
        truth = Truth(end=("sleep",), who=("python3", "python3.11", server))
        yield run(["bash", "-c", way.format(server)], truth, label, wall=1.5)


@case("pg-smart-stop")
def pg_smart_stop(s):
    """pg_ctl stop -m smart waits until all clients have gone, and one is a person at psql."""
    pg = Postgres(s)
    client, write = s.typist(pg.psql)
    backend = int(s.wait(lambda: pg.ask("select pid from pg_stat_activity where state = 'idle'"), "a session"))
    stop = [postgres_bin("pg_ctl"), "-D", pg.data, "stop", "-m", "smart", "-t", "20"]
    s.later(s.seconds(3.2, 4), write, "\\q\n")
    truth = Truth(end=("person",), who=(backend, client.pid, client.tty, "psql"), object=("psql", "postgres", client.tty))
    yield run(["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *stop], truth, wall=2, root=True)
