"""Workers at rest, and consumers of queues: whoever waits for work is held up by nobody.

A wait for the next job looks like one for a lock, or for a slow answer: the same futex, the same read. Pools of five runtimes, the
workers of two servers, and clients that a producer feeds.
"""

import time

from harness.processes import children_of
from harness.stage import tool
from harness.truth import HEALTHY, case, host, pid
from programs.databases import Redis
from programs.web import PY, WSGI

TIMED_QUEUE = """
import queue, select, socket, threading
one, other = socket.socketpair()
threading.Thread(target=lambda: select.select([one], [], []), daemon=True).start()
jobs = queue.SimpleQueue()
while True:
    try: jobs.get(timeout={seconds})
    except queue.Empty: pass
"""

RUBY_POOL = """
jobs = Queue.new
3.times { Thread.new { loop { jobs.pop } } }
loop { jobs << 1; sleep ARGV[0].to_f }
"""

GO_POOL = """package main

import "time"

func main() {
	jobs := make(chan int)
	for i := 0; i < 3; i++ {
		go func() { for range jobs { } }()
	}
	for { time.Sleep(300 * time.Millisecond); jobs <- 1 }
}
"""

NODE_POOL = """
const { Worker, isMainThread, workerData } = require('worker_threads');
if (isMainThread) {
  const word = new Int32Array(new SharedArrayBuffer(4));
  for (let i = 0; i < 2; i++) new Worker(__filename, { workerData: word });
  setInterval(() => Atomics.notify(word, 0, 1), 300);
} else {
  for (;;) Atomics.wait(workerData, 0, 0, 1000);
}
"""

JAVA_POOL = """
import java.util.concurrent.*;
public class Pool {
  public static void main(String[] a) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(3);
    BlockingQueue<Integer> jobs = new LinkedBlockingQueue<>();
    Thread own = new Thread(() -> { try { for (;;) jobs.poll(1, TimeUnit.SECONDS); } catch (InterruptedException e) { } });
    own.start();
    for (;;) { pool.submit(() -> 1); Thread.sleep(300); }
  }
}
"""

OWN_PAIR = """
import select, socket, threading
listener = socket.create_server(('127.0.0.1', 0))
one = socket.create_connection(listener.getsockname())
other, _ = listener.accept()
listener.close()
threading.Thread(target=lambda: select.select([other], [], []), daemon=True).start()
one.recv(1)
"""

CELERY = """
from celery import Celery
app = Celery('jobs', broker='redis://127.0.0.1:{port}/0')
@app.task
def add(one, other): return one + other
"""

CONSUMER = """
import socket
queue = socket.create_connection(('127.0.0.1', {port}))
while True:
    queue.sendall(b'BRPOP {name} 0\\r\\n')
    queue.recv(4096)
"""


@case("h-timed-queue", quick=True)
def h_timed_queue(s):
    """A thread that looks into a queue for a second at a time, beside one that waits for events."""
    worker = s.spawn([PY, s.file("worker.py", TIMED_QUEUE.format(seconds=s.seconds(0.6, 1.2)))])
    time.sleep(1)
    yield pid(worker, HEALTHY, secs=3, quick=True)
    yield host(HEALTHY, secs=2)


@case("h-own-socket-pair", quick=True)
def h_own_socket_pair(s):
    """A program that can wake itself by a connection of which it has both ends."""
    program = s.spawn([PY, s.file("pair.py", OWN_PAIR)])
    time.sleep(0.5)
    yield pid(program, HEALTHY, secs=2, quick=True)


@case("h-gunicorn-threads")
def h_gunicorn_threads(s):
    """gunicorn's master, and a worker with a pool of threads, at rest."""
    s.file("app.py", WSGI)
    port = s.port()
    master = s.spawn([PY, tool("gunicorn"), "-k", "gthread", "--threads", 4, "-b", f"127.0.0.1:{port}", "app:app"], log="gunicorn.log")
    s.wait_port(port)
    worker = s.wait(lambda: children_of(master.pid), "its worker")[0]
    time.sleep(1)
    yield pid(master, HEALTHY, "master")
    yield pid(worker, HEALTHY, "worker")
    yield host(HEALTHY)


@case("h-celery")
def h_celery(s):
    """Celery behind Redis: its main process, and a worker, at rest."""
    redis = Redis(s)
    s.file("jobs.py", CELERY.format(port=redis.port))
    if s.sh(f"{PY} -c 'import celery, redis' 2>&1", check=False):
        tool("celery, of Debian's python3-celery and python3-redis")
    main = s.spawn([PY, "-m", "celery", "-A", "jobs", "worker", "-c", 2, "-l", "warning"], log="celery.log")
    worker = s.wait(lambda: len(children_of(main.pid)) >= 2 and children_of(main.pid), "its workers", 20)[0]
    time.sleep(2)
    yield pid(main, HEALTHY, "main")
    yield pid(worker, HEALTHY, "worker")
    yield pid(redis.process, HEALTHY, "broker")
    yield host(HEALTHY)


@case("h-queue-consumer")
def h_queue_consumer(s):
    """A client of Redis that waits for the next job, and a producer that brings one now and then."""
    redis, name = Redis(s), s.word()
    consumer = s.spawn([PY, s.file("consumer.py", CONSUMER.format(port=redis.port, name=name))])
    s.load(f"redis-cli -p {redis.port} lpush {name} x", s.seconds(0.2, 0.3))
    time.sleep(1)
    yield pid(consumer, HEALTHY, "consumer", secs=4)
    yield pid(redis.process, HEALTHY, "server")
    yield host(HEALTHY)


@case("h-pools")
def h_pools(s):
    """Pools of Ruby, Go, Node and Java with a job now and then."""
    tool("ruby"), tool("javac"), tool("go")

    def build(new):
        (new / "Pool.java").write_text(JAVA_POOL)
        (new / "pool.go").write_text(GO_POOL)
        s.sh(f"javac -d {new} {new}/Pool.java && cd {new} && GOCACHE={new}/cache go build -o pool pool.go")
    built = s.once("pools", build)
    pools = {
        "ruby": ["ruby", s.file("pool.rb", RUBY_POOL), "0.3"],
        "go": [built / "pool"],
        "node": [tool("node", "nodejs"), s.file("pool.js", NODE_POOL)],
        "java": ["java", "-Xmx64m", "-cp", built, "Pool"],
    }
    started = {label: s.spawn(argv) for label, argv in pools.items()}
    time.sleep(2)
    for label, process in started.items():
        yield pid(process, HEALTHY, label)
    yield host(HEALTHY)
