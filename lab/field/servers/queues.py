"""Requests that wait for their turn: a task queue behind a broker, a rate that a proxy holds, and an answer that another client is fetching.

Who asks waits at a server that has nothing to do itself; who would have to act is the worker that sleeps, the upstream that is late, or the proxy
that was told to let nobody through faster.
"""

from harness.processes import children_of
from harness.stage import tool
from harness.truth import HEALTHY, MEASURE, Truth, case, pid, run
from programs.databases import Redis
from programs.web import PEER, PY, curl, nginx, slow_http

TASKS = """
import time
from celery import Celery
app = Celery('jobs', broker='redis://127.0.0.1:{port}/0', backend='redis://127.0.0.1:{port}/1')
@app.task
def rest(seconds):
    time.sleep(seconds)
    return 7
"""
ASKS = "import sys, jobs; print(jobs.rest.delay(float(sys.argv[1])).get(timeout=30))"


@case("celery-task")
def celery_task(s):
    """A client waits for the result of a task that sleeps in celery's only worker; and one whose task waits behind another's."""
    redis = Redis(s)
    s.file("jobs.py", TASKS.format(port=redis.port))
    if s.sh(f"{PY} -c 'import celery, redis' 2>&1", check=False):
        tool("celery, of Debian's python3-celery and python3-redis")
    main = s.spawn([PY, "-m", "celery", "-A", "jobs", "worker", "-c", 1, "-l", "warning"], log="celery.log")
    ask = [PY, "-c", ASKS]
    s.sh(f"{PY} -c '{ASKS}' 0")
    worker = children_of(main.pid)[0]
    yield run([*ask, 0], HEALTHY, "twin", cwd=s.dir)
    truth = Truth(end=("sleep",), who=(worker,))
    yield run([*ask, s.seconds(2.6, 3.2)], truth, wall=2, cwd=s.dir)
    s.spawn([*ask, 3.4], log="other.log")
    yield run([*ask, 0.1], truth, "behind-another", wall=1.5, cwd=s.dir)
    client = s.waiting([*ask, 20], 1)
    # Nothing tells who waits for a result from who listens for news: no end is judged.
    yield pid(client, MEASURE, "hang", standing=True)


@case("nginx-limit-req")
def nginx_limit_req(s):
    """nginx lets one request through in some seconds, and holds the next one back."""
    s.file("www/small", "x\n")
    rate = s.random.randrange(17, 22)
    zone = f"limit_req_zone $server_port zone=z:1m rate={rate}r/m;"
    _, worker, port = nginx(s, f"root {s.dir}/www; limit_req zone=z burst=5;", extra=zone)
    yield run(curl(port, "/small"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(worker,), code=PEER)
    yield run(curl(port, "/small"), truth, wall=1)


@case("nginx-cache-lock")
def nginx_cache_lock(s):
    """Two clients want what is not in the cache: nginx asks the late application once, and the second one waits for the first one's answer."""
    server, application = slow_http(s, s.seconds(3, 3.6))
    cache = f"proxy_cache_path {s.dir}/cache keys_zone=c:1m;"
    location = f"proxy_pass http://127.0.0.1:{application}; proxy_cache c; proxy_cache_valid 200 1m; proxy_cache_lock on;"
    _, worker, port = nginx(s, location, extra=cache)
    yield run(curl(port, "/now"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    s.waiting(curl(port, "/late"), 0.2)
    yield run(curl(port, "/late"), truth, wall=2)
