"""Web servers, proxies and applications, started as their manuals say, on loopback.

Owns their configurations and the few lines of each application: an answer that computes, sleeps, blocks the event loop or
takes a lock, by the path that is asked for. Clients are real ones (curl, wget).
"""

from harness.processes import children_of
from harness.stage import tool
from harness.truth import NotProven

PY = "/usr/bin/python3"
PEER = ("process.socket_peer", "net.slow_peer")

SLOW_HTTP = """
import sys, time, http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != '/now':
            time.sleep(float(sys.argv[3]))
        body = b'hello\\n'
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
getattr(http.server, sys.argv[4])((sys.argv[1], int(sys.argv[2])), H).serve_forever()
"""

NODE = """
const http = require('http'), cp = require('child_process'), fs = require('fs');
function compute(seconds) {
  const until = Date.now() + 1000 * seconds;
  let x = 0; while (Date.now() < until) { for (let i = 0; i < 1e6; i++) x = (x * 31 + i) | 0; }
  return x;
}
http.createServer((q, r) => {
  const [path, value] = q.url.split('=');
  if (path == '/compute') r.end('computed ' + compute(Number(value)) + '\\n');
  else if (path == '/exec') { cp.execSync('sleep ' + value); r.end('ok\\n'); }
  else if (path == '/wait') { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000 * Number(value)); r.end('ok\\n'); }
  else if (path == '/later') setTimeout(() => r.end('ok\\n'), 1000 * Number(value));
  else if (path == '/file') { const b = fs.readFileSync(decodeURIComponent(value)); r.end(b.length + '\\n'); }
  else if (path == '/lookup') require('dns').lookup(value, () => r.end('ok\\n'));
  else r.end('hello\\n');
}).listen(Number(process.argv[2]), '127.0.0.1');
"""

ASYNCIO = """
import asyncio, hashlib, sys, time
async def serve(r, w):
    path = (await r.readline()).split()[1].decode()
    while (await r.readline()).strip(): pass
    what, _, value = path.partition('=')
    if what == '/block': time.sleep(float(value))
    if what == '/later': await asyncio.sleep(float(value))
    if what == '/compute': hashlib.pbkdf2_hmac('sha256', b'a', b'b', int(value))
    if what == '/file': open(value, 'rb').read()
    w.write(b'HTTP/1.0 200 OK\\r\\nContent-Length: 3\\r\\n\\r\\nok\\n'); await w.drain(); w.close()
async def main():
    s = await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1]))
    await s.serve_forever()
asyncio.run(main())
"""

WSGI = """
import time
def app(env, start):
    what, _, value = env['PATH_INFO'].partition('=')
    if what == '/sleep': time.sleep(float(value))
    if what == '/burn':
        t = time.time()
        while time.time() < t + float(value): pass
    start('200 OK', [('Content-Type', 'text/plain')]); return [b'ok\\n']
"""

JAVA = """
import com.sun.net.httpserver.*;
import java.net.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.*;
public class Srv {
  static final Object monitor = new Object();
  static final ReentrantLock park = new ReentrantLock();
  static void sleep(double s) { try { Thread.sleep((long) (1000 * s)); } catch (InterruptedException e) { } }
  public static void main(String[] a) throws Exception {
    HttpServer s = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(a[0])), 0);
    s.createContext("/", x -> {
      String[] q = x.getRequestURI().getPath().split("=");
      double v = q.length > 1 ? Double.parseDouble(q[1]) : 0;
      switch (q[0]) {
        case "/hold": synchronized (monitor) { sleep(v); } break;
        case "/take": synchronized (monitor) { } break;
        case "/park": park.lock(); try { sleep(v); } finally { park.unlock(); } break;
        case "/unpark": park.lock(); park.unlock(); break;
        case "/sleep": sleep(v); break;
        case "/burn": long e = System.nanoTime() + (long) (v * 1e9); while (System.nanoTime() < e) ; break;
      }
      byte[] b = "ok".getBytes(); x.sendResponseHeaders(200, b.length); x.getResponseBody().write(b); x.close(); });
    s.setExecutor(Executors.newFixedThreadPool(Integer.parseInt(a[1]))); s.start();
  }
}
"""


def curl(port, path="/"):
    """A client's command line."""
    return ["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{port}{path}"]


def slow_http(s, seconds, kind="ThreadingHTTPServer", inside=(), host="127.0.0.1"):
    """Python's http.server that answers after so many seconds, `/now` at once: (process, port)."""
    port, script = s.port(), s.file("slow_http.py", SLOW_HTTP)
    server = s.spawn([*inside, PY, script, host, port, seconds, kind], log="http.log")
    up(s, port, inside)
    return server, port


def node_server(s, inside=()):
    """A node http server: (process, port)."""
    port, script = s.port(), s.file("server.js", NODE)
    server = s.spawn([*inside, tool("node", "nodejs"), script, port], log="node.log")
    s.wait_port(port)
    return server, port


def asyncio_server(s):
    """An asyncio server: (process, port)."""
    port = s.port()
    server = s.spawn([PY, s.file("aio.py", ASYNCIO), port], log="asyncio.log")
    s.wait_port(port)
    return server, port


def gunicorn(s, workers=1):
    """gunicorn with sync workers: (a worker's PID, port, master)."""
    s.file("app.py", WSGI)
    port = s.port()
    master = s.spawn([PY, tool("gunicorn"), "-w", workers, "-b", f"127.0.0.1:{port}", "app:app"], log="gunicorn.log")
    s.wait_port(port)
    s.wait(lambda: s.sh(" ".join(curl(port))) == "", "gunicorn answers")
    worker = s.wait(lambda: len(children_of(master.pid)) >= workers and children_of(master.pid), "workers")[0]
    return worker, port, master


def java_server(s, threads=4):
    """Java's own HttpServer with a fixed pool: (process, port)."""
    tool("javac")

    def build(new):
        (new / "Srv.java").write_text(JAVA)
        s.sh(f"javac -d {new} {new}/Srv.java")
    classes = s.once("java", build)
    port = s.port()
    server = s.spawn(["java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", classes, "Srv", port, threads], log="java.log")
    s.wait_port(port)
    s.sh(" ".join(curl(port)))
    return server, port


def listening(s, port, inside=()):
    """Waits until somebody listens on a port, without connecting to it; maybe in another namespace."""
    s.wait(lambda: f":{port} " in s.sh(" ".join([*map(str, inside), "ss", "-ltn"])), f"port {port}")


def up(s, port, inside=()):
    """Waits until a server takes connections, as far as that can be tried from here."""
    if inside:
        listening(s, port, inside)
    else:
        s.wait_port(port)


def nginx(s, location, extra="", listen="", main="", groups=(), inside=()):
    """nginx with one worker: (master, worker's PID, port)."""
    port = s.port()
    temps = " ".join(f"{kind}_temp_path {s.dir}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    conf = s.file("nginx.conf",
                  f"""daemon off; worker_processes 1; {main} pid {s.dir}/nginx.pid; error_log {s.dir}/nginx.err; user root;
events {{ worker_connections 64; }}
http {{ access_log off; {temps}
{extra}
server {{ listen 127.0.0.1:{port} {listen}; location / {{ {location} }} }} }}
""")
    argv = [*inside, tool("nginx"), "-c", conf, "-e", f"{s.dir}/nginx.err"]
    master = s.spawn(argv, log="nginx.log", groups=groups)
    up(s, port, inside)
    return master, s.wait(lambda: children_of(master.pid), "nginx's worker")[0], port


def haproxy(s, backend_port, more="", host="127.0.0.1", inside=()):
    """HAProxy before one server: (process, port)."""
    port = s.port()
    conf = s.file("haproxy.cfg", f"""global
  maxconn 100
defaults
  mode http
  timeout connect 9s
  timeout client 30s
  timeout server 30s
listen web
  bind 127.0.0.1:{port}
  server s1 {host}:{backend_port} {more}
""")
    proxy = s.spawn([*inside, tool("haproxy"), "-db", "-f", conf], log="haproxy.log")
    up(s, port, inside)
    return proxy, port


def php_fpm(s):
    """php-fpm with one child behind nginx: (child's PID, port)."""
    sock = s.dir / "php.sock"
    conf = s.file("fpm.conf", f"""[global]
error_log={s.dir}/fpm.err
daemonize=no
[www]
user=nobody
group=nogroup
listen={sock}
listen.mode=0666
pm=static
pm.max_children=1
""")
    s.file("index.php", "<?php if (preg_match('/slow=([0-9.]+)/', $_SERVER['REQUEST_URI'], $m)) usleep(1e6 * $m[1]); echo 'ok';")
    found = s.sh("ls /usr/sbin/php-fpm* 2>/dev/null | tail -n 1", check=False).strip()
    master = s.spawn([found or tool("php-fpm"), "-F", "-y", conf], log="fpm.log")
    s.wait(sock.exists, "php's socket")
    script = f"fastcgi_param SCRIPT_FILENAME {s.dir}/index.php;"
    _, _, port = nginx(s, f"include /etc/nginx/fastcgi_params; {script} fastcgi_pass unix:{sock};")
    if "ok" not in s.sh(f"curl -s http://127.0.0.1:{port}/"):
        raise NotProven("php does not answer")
    return s.wait(lambda: children_of(master.pid), "php's child")[0], port
