"""Application servers of Python, Ruby, Perl, Java, Erlang and Apache: one that has few workers, one whose event loop is blocked, one whose lock is held.

Who asks waits for the program that sleeps, or for another's request in the only worker; who would have to act is the worker. Each is started
as its manual says, in the smallest pool that it allows.
"""

from harness.processes import children_of
from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.web import PEER, PY, WSGI, curl

BEHIND = PEER + ("net.accept_queue", "net.proxy_queue")

FLASK = """
import sys, threading, time, flask
app, lock = flask.Flask(__name__), threading.Lock()
@app.route('/now')
def now(): return 'ok'
@app.route('/sleep/<float:s>')
def rest(s): time.sleep(s); return 'ok'
@app.route('/hold/<float:s>')
def hold(s):
    with lock: time.sleep(s)
    return 'ok'
app.run('127.0.0.1', int(sys.argv[1]), threaded=True)
"""

TORNADO = """
import asyncio, sys, time, tornado.web
class Block(tornado.web.RequestHandler):
    def get(self, s): time.sleep(float(s)); self.write('ok')
class Later(tornado.web.RequestHandler):
    async def get(self, s): await asyncio.sleep(float(s)); self.write('ok')
async def main():
    tornado.web.Application([('/block/(.*)', Block), ('/later/(.*)', Later)]).listen(int(sys.argv[1]), '127.0.0.1')
    await asyncio.Event().wait()
asyncio.run(main())
"""

TWISTED = """
import sys, time
from twisted.internet import reactor, threads
from twisted.web import resource, server
class Site(resource.Resource):
    isLeaf = True
    def render_GET(self, q):
        what, s = q.path.decode().split('/')[1:3]
        if what == 'block': time.sleep(float(s))
        if what == 'thread':
            def done(_): q.write(b'ok'); q.finish()
            threads.deferToThread(time.sleep, float(s)).addCallback(done)
            return server.NOT_DONE_YET
        return b'ok'
reactor.listenTCP(int(sys.argv[1]), server.Site(Site()), interface='127.0.0.1')
reactor.run()
"""

RACK = """
LOCK = Mutex.new
run lambda { |env|
  what, value = env['PATH_INFO'].split('/')[1, 2]
  sleep value.to_f if what == 'sleep'
  LOCK.synchronize { sleep value.to_f } if what == 'hold'
  if what == 'burn' then e = Time.now + value.to_f; nil while Time.now < e end
  [200, {'content-type' => 'text/plain'}, ['ok']]
}
"""

PSGI = """
my $app = sub { my ($env) = @_; my (undef, $what, $value) = split '/', $env->{PATH_INFO};
  select(undef, undef, undef, $value) if $what eq 'rest'; sleep $value if $what eq 'sleep';
  [200, ['Content-Type' => 'text/plain'], ['ok']] };
"""

ERLANG = """
-module(web).
-export([main/1, now/3, rest/3, call/3, slow/0]).
main([Port]) ->
    register(slow, spawn(fun slow/0)),
    inets:start(),
    {ok, _} = inets:start(httpd, [{port, list_to_integer(atom_to_list(Port))}, {bind_address, {127,0,0,1}}, {server_name, "x"}, {server_root, "."},
        {document_root, "."}, {modules, [mod_esi]}, {erl_script_alias, {"/e", [web]}}]),
    receive stop -> ok end.
slow() -> receive {From, Ms} -> timer:sleep(Ms), From ! done, slow() end.
now(S, _, _) -> mod_esi:deliver(S, ["content-type: text/plain\\r\\n\\r\\n", "ok"]).
rest(S, _, Q) -> timer:sleep(list_to_integer(Q)), now(S, 0, 0).
call(S, _, Q) -> slow ! {self(), list_to_integer(Q)}, receive done -> ok end, now(S, 0, 0).
"""

CGI = "#!/bin/sh\nsleep $QUERY_STRING\nprintf 'Content-Type: text/plain\\r\\n\\r\\nok\\n'\n"


def python_module(s, name, package):
    """Skips where Debian's Python has not got it."""
    if s.sh(f"{PY} -c 'import {name}' 2>&1", check=False):
        tool(f"{name}, of Debian's {package}")


@case("apache-prefork")
def apache_prefork(s):
    """Apache with one worker process: a CGI script sleeps, and the next request waits for the worker."""
    port = s.port()
    s.file("cgi/slow", CGI, 0o755)
    s.file("www/now", "ok\n")
    modules = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in ("mpm_prefork", "authz_core", "cgi", "alias"))
    conf = s.file("apache.conf", f"""ServerRoot {s.dir}
ServerName x
{modules}
PidFile {s.dir}/apache.pid
ErrorLog {s.dir}/apache.err
Listen 127.0.0.1:{port}
StartServers 1
MinSpareServers 1
MaxSpareServers 1
ServerLimit 1
MaxRequestWorkers 1
KeepAliveTimeout 1
DocumentRoot {s.dir}/www
ScriptAlias /cgi/ {s.dir}/cgi/
<Directory {s.dir}>
Require all granted
</Directory>
""")
    server = s.spawn([tool("apache2"), "-DFOREGROUND", "-f", conf], log="apache.log")
    s.wait_port(port)
    yield run(curl(port, "/now"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=("sleep",), code=BEHIND)
    yield run(curl(port, f"/cgi/slow?{s.seconds(2.3, 3)}"), truth, "cgi", wall=1)
    busy = s.waiting(curl(port, f"/cgi/slow?{s.seconds(3, 3.6)}"), 0.3)
    yield run(curl(port, "/now"), truth, "behind", wall=1)
    busy.wait(9)
    s.waiting(curl(port, "/cgi/slow?12"), 0.3)
    yield pid(s.waiting(curl(port, "/now"), 0.3), truth, "behind-hang", secs=2, standing=True)
    yield pid(server, truth, "server-hang", secs=1, standing=True)


@case("uwsgi-one-worker")
def uwsgi_one_worker(s):
    """uWSGI with one process: a request sleeps in it, and the next one waits."""
    port = s.port()
    s.file("app.py", WSGI)
    server = s.spawn([tool("uwsgi"), "--plugin", "python3", "--http-socket", f"127.0.0.1:{port}", "--module", "app", "--callable", "app", "--master",
                      "--processes", 1], log="uwsgi.log")
    s.wait_port(port)
    s.sh(" ".join(curl(port)))
    worker = children_of(server.pid)[0]
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(worker,), code=BEHIND)
    yield run(curl(port, f"/sleep={s.seconds(2.3, 3)}"), truth, "slow", wall=1)
    s.waiting(curl(port, f"/sleep={s.seconds(3, 3.6)}"), 0.3)
    yield run(curl(port), truth, "behind", wall=1)
    yield run(curl(port, f"/burn={s.seconds(2, 2.6)}"), Truth(end=("works",), who=(worker,)), "burn", wall=1)
    s.waiting(curl(port, "/sleep=5"), 0.3)
    yield pid(s.waiting(curl(port), 0.3), truth, "behind-hang", secs=2, standing=True)


@case("flask-lock")
def flask_lock(s):
    """Flask's own server has a thread for each request; one sleeps with a lock that the next one wants."""
    python_module(s, "flask", "python3-flask")
    port = s.port()
    server = s.spawn([PY, s.file("shop.py", FLASK), port], log="flask.log")
    s.wait_port(port)
    yield run(curl(port, "/now"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(curl(port, f"/sleep/{s.seconds(2.3, 3)}"), truth, "slow", wall=1)
    s.waiting(curl(port, f"/hold/{s.seconds(3, 3.6)}"), 0.3)
    held = truth.plus(end=("sleep", "lock"), code=PEER + ("lock.futex",), unseen=True)
    yield run(curl(port, "/hold/0.0"), held, "behind-lock", wall=1)
    s.waiting(curl(port, "/hold/6.0"), 0.3)
    client = s.waiting(curl(port, "/hold/0.0"), 0.3)
    yield pid(client, held, "client-hang", secs=2, standing=True)
    yield pid(server, held, "server-hang", secs=1, standing=True)


@case("tornado-blocked")
def tornado_blocked(s):
    """A handler of Tornado's sleeps on the event loop, and others wait; and one that is only due later."""
    python_module(s, "tornado", "python3-tornado")
    port = s.port()
    server = s.spawn([PY, s.file("loop.py", TORNADO), port], log="tornado.log")
    s.wait_port(port)
    yield run(curl(port, "/block/0"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(curl(port, f"/block/{s.seconds(2.3, 3)}"), truth, "slow", wall=1)
    s.waiting(curl(port, f"/block/{s.seconds(3, 3.6)}"), 0.3)
    yield run(curl(port, "/block/0"), truth, "behind", wall=1)
    yield run(curl(port, f"/later/{s.seconds(2.3, 3)}"), truth, "later", wall=1)
    client = s.waiting(curl(port, "/later/5"), 0.3)
    yield pid(client, truth, "later-hang", secs=2, standing=True)


@case("twisted-blocked")
def twisted_blocked(s):
    """A handler of Twisted's sleeps in the reactor; and one that sleeps in a thread of its pool."""
    python_module(s, "twisted", "python3-twisted")
    port = s.port()
    server = s.spawn([PY, s.file("site_.py", TWISTED), port], log="twisted.log")
    s.wait_port(port)
    yield run(curl(port, "/now/0"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(curl(port, f"/block/{s.seconds(2.3, 3)}"), truth, "slow", wall=1)
    yield run(curl(port, f"/thread/{s.seconds(2.3, 3)}"), truth, "thread", wall=1)
    client = s.waiting(curl(port, "/thread/5"), 0.3)
    yield pid(client, truth, "thread-hang", secs=2, standing=True)


@case("waitress-threads")
def waitress_threads(s):
    """waitress takes requests on one thread and answers them on another: its pool of one sleeps."""
    python_module(s, "waitress", "python3-waitress")
    s.file("app.py", WSGI)
    port = s.port()
    server = s.spawn([PY, "-c", f"import waitress, app; waitress.serve(app.app, listen='127.0.0.1:{port}', threads=1)"], log="waitress.log")
    s.wait_port(port)
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=BEHIND)
    yield run(curl(port, f"/sleep={s.seconds(2.3, 3)}"), truth, "slow", wall=1)
    s.waiting(curl(port, f"/sleep={s.seconds(3, 3.6)}"), 0.3)
    yield run(curl(port), truth, "behind", wall=1)
    s.waiting(curl(port, "/sleep=6"), 0.3)
    yield pid(s.waiting(curl(port), 0.3), truth, "behind-hang", secs=2, standing=True)


@case("uvicorn-blocked")
def uvicorn_blocked(s):
    """An ASGI application that sleeps on the event loop, and one that waits there for a timer."""
    python_module(s, "uvicorn", "python3-uvicorn")
    port = s.port()
    s.file("asgi.py", """import asyncio, time
async def app(scope, receive, send):
    if scope['type'] != 'http': return
    what, value = scope['path'].split('/')[1:3]
    if what == 'block': time.sleep(float(value))
    if what == 'later': await asyncio.sleep(float(value))
    if what == 'thread': await asyncio.to_thread(time.sleep, float(value))
    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'2')]})
    await send({'type': 'http.response.body', 'body': b'ok'})
""")
    server = s.spawn([PY, "-m", "uvicorn", "--port", port, "asgi:app"], log="uvicorn.log")
    s.wait_port(port)
    yield run(curl(port, "/now/0"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    for what in ("block", "later", "thread"):
        yield run(curl(port, f"/{what}/{s.seconds(2.3, 3)}"), truth, what, wall=1)
    client = s.waiting(curl(port, "/thread/5"), 0.3)
    yield pid(client, truth, "thread-hang", secs=2, standing=True)


@case("puma-one-thread")
def puma_one_thread(s):
    """puma with one thread: its reactor takes the second request, and the pool has nobody free."""
    port = s.port()
    server = s.spawn([tool("puma"), "-t", "1:1", "-b", f"tcp://127.0.0.1:{port}", s.file("config.ru", RACK)], log="puma.log")
    s.wait_port(port)
    yield run(curl(port, "/now/0"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=BEHIND)
    yield run(curl(port, f"/sleep/{s.seconds(2.3, 3)}"), truth, "slow", wall=1)
    s.waiting(curl(port, f"/sleep/{s.seconds(3, 3.6)}"), 0.3)
    yield run(curl(port, "/now/0"), truth, "behind", wall=1)
    s.waiting(curl(port, "/sleep/6"), 0.3)
    yield pid(s.waiting(curl(port, "/now/0"), 0.3), truth, "behind-hang", secs=2, standing=True)


@case("unicorn-one-worker")
def unicorn_one_worker(s):
    """unicorn's only worker sleeps over a request."""
    port = s.port()
    server = s.spawn([tool("unicorn"), "-l", f"127.0.0.1:{port}", s.file("config.ru", RACK)], log="unicorn.log")
    s.wait_port(port)
    s.sh(" ".join(curl(port, "/now/0")))
    worker = children_of(server.pid)[0]
    yield run(curl(port, "/now/0"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(worker,), code=BEHIND)
    s.waiting(curl(port, f"/sleep/{s.seconds(3, 3.6)}"), 0.3)
    yield run(curl(port, "/now/0"), truth, "behind", wall=1)
    yield run(curl(port, f"/burn/{s.seconds(2, 2.6)}"), Truth(end=("works",), who=(worker,)), "burn", wall=1)


@case("starman")
def starman(s):
    """Starman's only worker rests over a request, by select without descriptors."""
    port = s.port()
    server = s.spawn([tool("starman"), "--listen", f"127.0.0.1:{port}", "--workers", 1, s.file("app.psgi", PSGI)], log="starman.log")
    s.wait_port(port)
    s.sh(" ".join(curl(port, "/now/0")))
    worker = children_of(server.pid)[0]
    yield run(curl(port, "/now/0"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(worker,), code=BEHIND)
    yield run(curl(port, f"/rest/{s.seconds(2.3, 3)}"), truth, "rest", wall=1)
    s.waiting(curl(port, "/sleep/3"), 0.3)
    yield run(curl(port, "/now/0"), truth, "behind", wall=1)


@case("erlang-httpd")
def erlang_httpd(s):
    """Erlang's inets: a handler sleeps; and one that asks another process of the virtual machine, which sleeps."""
    tool("erlc")
    port = s.port()
    s.file("web.erl", ERLANG)
    s.sh("erlc web.erl")
    server = s.spawn([tool("erl"), "-noshell", "-s", "web", "main", port], log="erlang.log")
    s.wait_port(port)
    yield run(curl(port, "/e/web:now"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid, "beam.smp"), code=PEER)
    yield run(curl(port, f"/e/web:rest?{int(1000 * s.seconds(2.3, 3))}"), truth, "slow", wall=1)
    yield run(curl(port, f"/e/web:call?{int(1000 * s.seconds(2.3, 3))}"), truth, "behind-process", wall=1)
    client = s.waiting(curl(port, "/e/web:rest?5000"), 0.3)
    yield pid(client, truth, "client-hang", secs=2, standing=True)
