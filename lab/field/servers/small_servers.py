"""Servers that come with a language or a package: one request at a time, a script for each request, a broker, a TLS wrapper.

Whatever stands between the client and the program that takes its time is a link; who sleeps is the end.
"""

import os
import signal

from harness.processes import descendant_named
from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.web import PEER, curl, slow_http

SLOW_PHP = """<?php
if (preg_match('/slow=([0-9.]+)/', $_SERVER['REQUEST_URI'], $m)) usleep((int) (1e6 * $m[1]));
if (preg_match('/burn=([0-9.]+)/', $_SERVER['REQUEST_URI'], $m)) { $e = microtime(true) + $m[1]; while (microtime(true) < $e); }
echo 'ok';
"""

WEBRICK = """
require 'webrick'
server = WEBrick::HTTPServer.new(Port: ARGV[0].to_i, BindAddress: '127.0.0.1', AccessLog: [], Logger: WEBrick::Log.new('/dev/null'))
lock = Mutex.new
server.mount_proc('/now') { |_, r| r.body = 'ok' }
server.mount_proc('/slow') { |q, r| sleep q.query['s'].to_f; r.body = 'ok' }
server.mount_proc('/held') { |q, r| lock.synchronize { sleep q.query['s'].to_f }; r.body = 'ok' }
server.start
"""


@case("php-built-in-server")
def php_built_in_server(s):
    """php -S answers one request at a time."""
    php, port = tool("php", "php8.2"), s.port()
    server = s.spawn([php, "-S", f"127.0.0.1:{port}", s.file("router.php", SLOW_PHP)], log="php.log")
    s.wait_port(port)
    yield run(curl(port), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER + ("net.accept_queue",))
    yield run(curl(port, f"/slow={s.seconds(2.3, 3)}"), truth, "slow", wall=1)
    busy = s.waiting(curl(port, f"/slow={s.seconds(2.8, 3.4)}"), 0.3)
    yield run(curl(port), truth, "behind", wall=1)
    busy.wait(9)
    busy = s.waiting(curl(port, "/slow=4"), 0.3)
    yield pid(s.waiting(curl(port), 0.2), truth, "client-hang", secs=2, standing=True)
    yield pid(server, truth, "server-hang", secs=1, standing=True)
    busy.wait(9)
    yield run(curl(port, f"/burn={s.seconds(2, 2.6)}"), Truth(end=("works",), who=(server.pid,)), "burn", wall=1)


@case("webrick")
def webrick(s):
    """Ruby's WEBrick has a thread for each request; one sleeps, or has a lock that the next one wants."""
    tool("ruby")
    port = s.port()
    server = s.spawn(["ruby", s.file("server.rb", WEBRICK), port], log="webrick.log")
    s.wait_port(port)
    yield run(curl(port, "/now"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(curl(port, f"/slow?s={s.seconds(2.3, 3)}"), truth, "slow", wall=1)
    busy = s.waiting(curl(port, f"/held?s={s.seconds(3, 3.6)}"), 0.3)
    yield run(curl(port, "/held?s=0"), truth.plus(end=("sleep", "lock"), code=PEER + ("lock.futex",), unseen=True), "behind-lock",
              wall=1)
    busy.wait(9)
    yield pid(s.waiting(curl(port, "/slow?s=4"), 0.3), truth, "client-hang", secs=2, standing=True)


@case("lighttpd-cgi")
def lighttpd_cgi(s):
    """A CGI script of a web server with one event loop."""
    port = s.port()
    s.file("www/slow.cgi", f"#!/bin/sh\nsleep {s.seconds(2.3, 3)}\nprintf 'Content-Type: text/plain\\r\\n\\r\\nok\\n'\n", 0o755)
    s.file("www/now.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nok\\n'\n", 0o755)
    conf = s.file("lighttpd.conf", f'server.port = {port}\nserver.bind = "127.0.0.1"\nserver.document-root = "{s.dir}/www"\n'
                  'server.modules = ("mod_cgi")\ncgi.assign = (".cgi" => "")\n')
    server = s.spawn([tool("lighttpd"), "-D", "-f", conf], log="lighttpd.log")
    s.wait_port(port)
    yield run(curl(port, "/now.cgi"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=("sleep",), code=PEER)
    yield run(curl(port, "/slow.cgi"), truth, wall=1)
    client = s.waiting(curl(port, "/slow.cgi"), 0.3)
    yield pid(client, truth, "client-hang", secs=1.5, standing=True)
    client.wait(9)
    s.waiting(curl(port, "/slow.cgi"), 0.3)
    yield pid(server, truth, "server-hang", secs=1.5, standing=True)


@case("stunnel")
def stunnel(s):
    """TLS is taken off by stunnel, in front of a late server."""
    tool("stunnel", "stunnel4")
    s.sh("openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=field 2>/dev/null; "
         "cat key.pem cert.pem > both.pem; chmod 600 both.pem")
    server, up = slow_http(s, s.seconds(2.3, 3))
    port = s.port()
    conf = s.file("stunnel.conf", f"foreground = yes\npid =\ncert = {s.dir}/both.pem\n[web]\naccept = 127.0.0.1:{port}\n"
                  f"connect = 127.0.0.1:{up}\n")
    s.spawn([tool("stunnel", "stunnel4"), conf], log="stunnel.log")
    s.wait_port(port)
    client = ["curl", "-sk", "-o", "/dev/null", f"https://127.0.0.1:{port}"]
    yield run([*client[:-1], client[-1] + "/now"], HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(server.pid,), code=PEER)
    yield run(client, truth, wall=2)
    yield pid(s.waiting(client, 0.3), truth, "client-hang", secs=1.5, standing=True)


@case("mosquitto")
def mosquitto(s):
    """An MQTT broker that somebody stopped; and a subscriber that waits for news, which is no fault of the broker's."""
    port = s.port()
    conf = s.file("mosquitto.conf", f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    broker = s.spawn([tool("mosquitto"), "-c", conf], log="mosquitto.log")
    s.wait_port(port)
    publish = ["mosquitto_pub", "-p", port, "-t", "a/b", "-q", "1", "-m", "x"]
    yield run(publish, HEALTHY, "twin")
    truth = Truth(end=("person",), who=(broker.pid,), code=("process.stopped",))
    os.kill(broker.pid, signal.SIGSTOP)
    s.later(s.seconds(2.6, 3.4), os.kill, broker.pid, signal.SIGCONT)
    yield run(publish, truth, "stopped", wall=1)
    os.kill(broker.pid, signal.SIGSTOP)
    yield pid(s.waiting(publish, 0.3), truth, "stopped-hang", secs=2, standing=True)
    os.kill(broker.pid, signal.SIGCONT)
    s.later(s.seconds(2.4, 3), s.sh, " ".join(map(str, publish)))
    quiet = Truth(end=("remote", "open", "idle"), who=(broker.pid, "mosquitto", f"127.0.0.1:{port}"), unseen=True,
                  note="whoever will publish is not there yet")
    yield run(["mosquitto_sub", "-p", port, "-t", "a/b", "-C", "1"], quiet, "subscriber", wall=1)


@case("memcached-stopped")
def memcached_stopped(s):
    """A cache that somebody stopped, and a client that asks it."""
    port = s.port()
    server = s.spawn([tool("memcached"), "-l", "127.0.0.1", "-p", port, "-u", "nobody"], log="memcached.log")
    s.wait_port(port)
    ask = ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'get a\\r\\n' >&3; read -r line <&3"]
    yield run(ask, HEALTHY, "twin")
    truth = Truth(end=("person",), who=(server.pid,), code=("process.stopped",))
    os.kill(server.pid, signal.SIGSTOP)
    s.later(s.seconds(2.4, 3.2), os.kill, server.pid, signal.SIGCONT)
    yield run(ask, truth, wall=1)


@case("nginx-limit-rate")
def nginx_limit_rate(s):
    """nginx sends no faster than it was told to: it sleeps between the pieces."""
    from programs.web import nginx
    s.blob("www/f", 1)
    size = s.random.randrange(330, 420)
    _, worker, port = nginx(s, f"root {s.dir}/www; limit_rate {size}k;")
    s.file("www/small", "x\n")
    yield run(curl(port, "/small"), HEALTHY, "twin")
    truth = Truth(end=("sleep",), who=(worker,), code=PEER)
    yield run(curl(port, "/f"), truth, wall=1)


@case("lighttpd-stopped-script")
def lighttpd_stopped_script(s):
    """The script of a request was stopped with a signal."""
    port = s.port()
    s.file("www/hang.cgi", "#!/bin/sh\nsleep 30\n", 0o755)
    conf = s.file("lighttpd.conf", f'server.port = {port}\nserver.bind = "127.0.0.1"\nserver.document-root = "{s.dir}/www"\n'
                  'server.modules = ("mod_cgi")\ncgi.assign = (".cgi" => "")\n')
    server = s.spawn([tool("lighttpd"), "-D", "-f", conf], log="lighttpd.log")
    s.wait_port(port)
    client = s.waiting(curl(port, "/hang.cgi"), 0.3)
    script = s.wait(lambda: descendant_named(server.pid, "hang.cgi"), "the script")
    os.kill(script, signal.SIGSTOP)
    truth = Truth(end=("person", "sleep"), who=("hang.cgi", "sleep", script))
    yield pid(client, truth, "hang", secs=1.5, standing=True)
