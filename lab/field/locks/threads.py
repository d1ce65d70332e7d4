"""Locks inside one process: CPython's, Ruby's, Java's and Go's, and those of the interpreters themselves.

From outside such a lock is a futex word, and the holder is a thread of the same process; where the runtime parks its threads in a
place of its own, not even that. The truth names the process; an answer that leads on to the holder's own sleep is right too.
"""

import time

from harness.processes import descendants
from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.web import PEER, PY, curl, java_server

PYTHON = """
import threading, time, sys
lock = threading.Lock()
def hold():
    with lock: time.sleep(float(sys.argv[1]))
t = threading.Thread(target=hold, name='holder'); t.start(); time.sleep(0.1)
with lock: pass
t.join()
"""

FORKED = """
import os, threading, time
lock = threading.Lock()
def hold():
    with lock: time.sleep(1)
t = threading.Thread(target=hold); t.start(); time.sleep(0.1)
child = os.fork()
if child == 0: lock.acquire()
t.join(); os.waitpid(child, 0)
"""

ABBA = """
import threading, time
a, b = threading.Lock(), threading.Lock()
def take(x, y):
    with x:
        time.sleep(0.2)
        with y: pass
t = threading.Thread(target=take, args=(a, b)); t.start(); take(b, a)
"""

JAVA_ABBA = """
public class Abba {
  static final Object a = new Object(), b = new Object();
  static void take(Object first, Object second) {
    synchronized (first) {
      try { Thread.sleep(300); } catch (InterruptedException e) { }
      synchronized (second) { }
    }
  }
  public static void main(String[] args) {
    new Thread(() -> take(a, b), "orders").start();
    new Thread(() -> take(b, a), "stock").start();
  }
}
"""

GIL = """
import re, threading, time
def burn():
    re.match(r'(a+)+$', 'a' * {size} + 'b')   # one call: the interpreter lock is not passed on
t = threading.Thread(target=burn); t.start()
time.sleep(0.05)
sum(range(1000))
t.join()
"""

SERVICE = """
import sys, threading, time
numbers = range(int(sys.argv[1]))
def report():
    while True:
        sum(numbers)      # one call: the interpreter lock is not passed on
        time.sleep(0.01)
def answer():
    while True:
        time.sleep(0.005)
for _ in range(3): threading.Thread(target=answer, daemon=True).start()
report()
"""

RUBY_MUTEX = """
m = Mutex.new
t = Thread.new { m.synchronize { sleep ARGV[0].to_f } }
sleep 0.1
m.synchronize { }
t.join
"""

RUBY_GVL = """
t = Thread.new { e = Time.now + ARGV[0].to_f; x = 0; x += 1 while Time.now < e }
u = Thread.new { e = Time.now + ARGV[0].to_f; x = 0; x += 1 while Time.now < e }
t.join; u.join
"""

GO = """package main

import (
	"os"
	"sync"
	"time"
)

func main() {
	hold, _ := time.ParseDuration(os.Args[2])
	if os.Args[1] == "mutex" {
		var m sync.Mutex
		m.Lock()
		go func() { time.Sleep(hold); m.Unlock() }()
		m.Lock()
		return
	}
	done := make(chan int)
	go func() { time.Sleep(hold); done <- 1 }()
	<-done
}
"""


@case("python-lock", quick=True)
def python_lock(s):
    """threading.Lock, held by a thread that sleeps."""
    script = s.file("threads.py", PYTHON)
    yield run([PY, script, "0.01"], HEALTHY, "twin", quick=True)
    truth = Truth(end=("lock", "sleep"), who=("python3",), code=("lock.futex",))
    yield run([PY, script, s.seconds(2.5, 3.3)], truth, wall=1, quick=True)
    process = s.waiting([PY, script, "60"], 0.5)
    yield pid(process, truth.plus(who=(process.pid,)), "hang", secs=2, standing=True)


@case("python-forked-lock")
def python_forked_lock(s):
    """A process forks while another of its threads has a lock: the child has the lock, and nobody who lets it go."""
    parent = s.waiting([PY, s.file("forked.py", FORKED)], 2)
    child = descendants(parent.pid)[-1]
    yield pid(child, Truth(end=("lock",), unseen=True), "child", secs=2, standing=True)


@case("python-deadlock")
def python_deadlock(s):
    """Two threads, two locks, the wrong order."""
    process = s.waiting([PY, s.file("abba.py", ABBA)], 0.8)
    truth = Truth(end=("lock",), who=(process.pid, "python3"), unseen=True, code=("lock.deadlock",))
    yield pid(process, truth, "hang", secs=2, standing=True)


@case("java-deadlock")
def java_deadlock(s):
    """Two threads of a Java program, two monitors, the wrong order."""
    tool("javac")
    classes = s.once("java-abba", lambda new: ((new / "Abba.java").write_text(JAVA_ABBA), s.sh(f"javac -d {new} {new}/Abba.java")))
    process = s.waiting(["java", "-Xmx64m", "-cp", classes, "Abba"], 2)
    truth = Truth(end=("lock",), who=(process.pid, "java", "orders", "stock"), unseen=True, code=("lock.deadlock",))
    yield pid(process, truth, "hang", secs=2, standing=True)


@case("python-interpreter-lock")
def python_interpreter_lock(s):
    """A regular expression that takes forever holds the interpreter lock: whoever holds it works."""
    script = s.file("gil.py", GIL.format(size=s.random.choice((25, 26))))
    yield run([PY, script], Truth(end=("works",), who=("python3",)), wall=0.5)


@case("python-interpreter-lock-service")
def python_interpreter_lock_service(s):
    """A service of several threads, one of which computes in long calls: the others wait for the interpreter lock."""
    script = s.file("service.py", SERVICE)
    yield pid(s.waiting([PY, script, 100], 0.5), HEALTHY, "twin", secs=2)
    process = s.waiting([PY, script, s.random.randrange(12, 25) * 1_000_000], 0.5)
    truth = Truth(end=("lock",), who=(process.pid, "python3"), code=("lock.interpreter",), culprit=(process.pid,))
    yield pid(process, truth, secs=3)


@case("ruby-mutex")
def ruby_mutex(s):
    """Ruby's Mutex, held by a thread that sleeps."""
    tool("ruby")
    # Ruby names a thread by the line that made it.
    truth = Truth(end=("lock", "sleep"), who=("ruby",), code=("lock.futex",), culprit=("m.rb:3",))
    yield run(["ruby", s.file("m.rb", RUBY_MUTEX), s.seconds(2.5, 3.3)], truth, wall=1)


@case("ruby-interpreter-lock")
def ruby_interpreter_lock(s):
    """Two threads compute, and one CPU is used: each waits for the interpreter lock while the other works."""
    tool("ruby")
    yield run(["ruby", s.file("g.rb", RUBY_GVL), s.seconds(2, 2.6)], Truth(end=("works",), who=("ruby",)), wall=1)


@case("java-monitor")
def java_monitor(s):
    """synchronized, held by a thread that sleeps; the client of the second request waits."""
    server, port = java_server(s)
    yield run(curl(port, "/take"), HEALTHY, "twin")
    truth = Truth(end=("lock", "sleep"), who=(server.pid, "java", "pool"), unseen=True,
                  code=("lock.monitor", "lock.futex") + PEER,
                  culprit=(server.pid,))
    busy = s.waiting(curl(port, f"/hold={s.seconds(2.8, 3.5)}"), 0.3)
    yield run(curl(port, "/take"), truth, wall=1)
    busy.wait(9)
    s.waiting(curl(port, "/hold=4"), 0.3)
    yield pid(s.waiting(curl(port, "/take"), 0.2), truth, "client-hang", secs=2, standing=True)
    time.sleep(2)
    s.waiting(curl(port, "/hold=6"), 0.3)
    s.waiting(curl(port, "/take"), 0.2)
    yield pid(server, truth, "server-hang", secs=3, standing=True)


@case("java-park")
def java_park(s):
    """ReentrantLock: its waiters are parked, and the lock word is on the heap."""
    server, port = java_server(s)
    yield run(curl(port, "/unpark"), HEALTHY, "twin")
    truth = Truth(end=("lock", "sleep"), who=(server.pid, "java", "pool"), unseen=True,
                  code=("lock.monitor",),
                  culprit=(server.pid,))
    busy = s.waiting(curl(port, f"/park={s.seconds(2.8, 3.5)}"), 0.3)
    yield run(curl(port, "/unpark"), truth, wall=1)
    busy.wait(9)
    s.waiting(curl(port, "/park=4"), 0.3)
    yield pid(s.waiting(curl(port, "/unpark"), 0.2), truth, "client-hang", secs=2, standing=True)


def go_program(s):
    """The Go program, built once."""
    go = tool("go")

    def build(new):
        (new / "main.go").write_text(GO)
        (new / "go.mod").write_text("module field\n\ngo 1.19\n")
        s.sh(f"cd {new} && GOCACHE={s.dir}/go GOPATH={s.dir}/gopath GOFLAGS=-mod=mod GOTOOLCHAIN=local {go} build -o locks .",
             timeout=240)
    return s.once("go", build) / "locks"


@case("go-mutex")
def go_mutex(s):
    """sync.Mutex: the goroutine is parked, and the threads wait for any work."""
    hold = s.seconds(2.4, 3.2)
    truth = Truth(end=("sleep", "lock"), who=("locks",))
    yield run([go_program(s), "mutex", f"{hold}s"], truth, wall=1)


@case("go-channel")
def go_channel(s):
    """A channel on which something comes late."""
    program = go_program(s)
    yield run([program, "channel", f"{s.seconds(2.4, 3.2)}s"], Truth(end=("sleep", "lock"), who=("locks",)), wall=1)
    process = s.waiting([program, "channel", "60s"], 0.3)
    time.sleep(0.2)
    yield pid(process, Truth(end=("sleep", "idle"), who=(process.pid, "locks")), "hang", secs=2, standing=True)
