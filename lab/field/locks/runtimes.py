"""Locks of runtimes that have few users each (OCaml, SBCL, Mono, Perl's threads, Guile, Elixir), and of programs written in others.

Each program takes its lock in a thread that sleeps with it, and wants it itself, so that no other process has a part in it. Whether the holder
can be seen from outside differs by runtime; whoever cannot be seen is not to be named.
"""

import os
import signal

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run

OCAML = """
let () =
  let m = Mutex.create () in
  let s = float_of_string Sys.argv.(1) in
  let t = Thread.create (fun () -> Mutex.lock m; Thread.delay s; Mutex.unlock m) () in
  Thread.delay 0.1; Mutex.lock m; Mutex.unlock m; Thread.join t
"""

SBCL = """
(defvar *m* (sb-thread:make-mutex :name "shop"))
(defvar *s* (read-from-string (second sb-ext:*posix-argv*)))
(defvar *t* (sb-thread:make-thread (lambda () (sb-thread:with-mutex (*m*) (sleep *s*))) :name "holder"))
(sleep 0.1)
(sb-thread:with-mutex (*m*) nil)
(sb-thread:join-thread *t*)
"""

MONO = """
using System; using System.Threading;
class Shop {
  static object gate = new object();
  static void Main(string[] a) {
    int ms = (int)(1000 * double.Parse(a[0], System.Globalization.CultureInfo.InvariantCulture));
    var t = new Thread(() => { lock (gate) Thread.Sleep(ms); }); t.Start();
    Thread.Sleep(100); lock (gate) { } t.Join();
  }
}
"""

PERL = """
use threads; use threads::shared;
my $gate :shared;
my $t = threads->create(sub { lock($gate); sleep $ARGV[0]; });
select(undef, undef, undef, 0.2);
{ lock($gate); }
$t->join;
"""

GUILE = """
(use-modules (ice-9 threads))
(define m (make-mutex))
(define s (string->number (cadr (command-line))))
(define t (call-with-new-thread (lambda () (with-mutex m (usleep (inexact->exact (round (* 1e6 s))))))))
(usleep 100000)
(with-mutex m #f)
(join-thread t)
"""

ELIXIR = """
[s] = System.argv()
{:ok, shop} = Agent.start_link(fn -> 0 end)
spawn(fn -> Agent.update(shop, fn x -> Process.sleep(trunc(1000 * String.to_float(s))); x end, :infinity) end)
Process.sleep(100)
Agent.get(shop, & &1, :infinity)
"""

# Each starts a thread that sleeps with the lock, and wants the lock itself: its own thread has it.
HELD = Truth(end=("sleep", "lock"), code=("lock.futex",), unseen=True)


def both(s, argv, label):
    """By a command, and while nothing ends."""
    yield run([*argv, s.seconds(2.3, 3)], HELD, label, wall=2)
    yield pid(s.waiting([*argv, "6.5"], 1.2), HELD, f"{label}-hang", secs=2, standing=True)


@case("ocaml-mutex")
def ocaml_mutex(s):
    """OCaml's Mutex, held by a thread that is in Thread.delay."""
    tool("ocamlfind", "ocamlopt")
    s.file("shop.ml", OCAML)
    s.sh("ocamlopt -I +threads unix.cmxa threads.cmxa shop.ml -o shop 2>&1 || ocamlopt -thread unix.cmxa threads.cmxa shop.ml -o shop")
    yield from both(s, [s.dir / "shop"], "held")


@case("sbcl-mutex")
def sbcl_mutex(s):
    """SBCL's mutex, which is a futex of its own."""
    yield from both(s, [tool("sbcl"), "--script", s.file("shop.lisp", SBCL)], "held")


@case("mono-monitor")
def mono_monitor(s):
    """lock of C#'s, held by a thread in Thread.Sleep."""
    tool("mcs")
    s.file("shop.cs", MONO)
    s.sh("mcs shop.cs")
    yield from both(s, [tool("mono"), s.dir / "shop.exe"], "held")


@case("perl-threads")
def perl_threads(s):
    """lock of a shared variable, held by a thread that sleeps."""
    yield from both(s, [tool("perl"), s.file("shop.pl", PERL)], "held")


@case("guile-mutex")
def guile_mutex(s):
    """Guile's mutex, held by a thread in usleep."""
    yield from both(s, [tool("guile"), s.file("shop.scm", GUILE)], "held")


@case("elixir-agent")
def elixir_agent(s):
    """A call to a process of the virtual machine that sleeps over another's call: what waits is no thread."""
    argv = [tool("elixir"), s.file("shop.exs", ELIXIR)]
    truth = Truth(end=("sleep", "idle", "open"), unseen=True)
    yield run([*argv, f"{s.seconds(2.3, 3)}"], truth, "call", wall=2)


@case("hg-lock")
def hg_lock(s):
    """Mercurial polls the lock of a repository that another of its commands has: a hook of it sleeps."""
    tool("hg")
    s.sh("hg init r; cd r; echo a > a; hg -q commit -A -u x -m a; echo b > b; hg -q add b; cp -r . ../r2")
    yield run(["hg", "-R", "r2", "commit", "-u", "x", "-m", "b"], HEALTHY, "twin", cwd=s.dir)
    first = s.waiting(["hg", "-R", "r", "commit", "-u", "x", "-m", "b", "--config", f"hooks.pretxncommit=sleep {s.seconds(3.4, 4)}"], 0.6)
    truth = Truth(end=("lock", "sleep"), object=("lock", "wlock"), who=(first.pid, "sleep", "hg"))
    yield run(["hg", "-R", "r", "commit", "-u", "x", "-m", "c"], truth, "commit", wall=1, cwd=s.dir)


@case("restic-stdin")
def restic_stdin(s):
    """restic backs up what comes late through a pipe."""
    tool("restic")
    s.env.update({"RESTIC_PASSWORD": "x", "RESTIC_REPOSITORY": str(s.dir / "repo")})
    s.sh("restic init; mkdir d; seq 1000 > d/a")
    env = {"RESTIC_PASSWORD": "x", "RESTIC_REPOSITORY": str(s.dir / "repo")}
    yield run(["restic", "-q", "backup", "d"], HEALTHY, "twin", env=env, cwd=s.dir)
    yield run(["sh", "-c", f"(sleep {s.seconds(2.4, 3)}; echo x) | restic -q backup --stdin"], Truth(end=("sleep",), who=("sleep",)), "stdin", wall=2,
              env=env, cwd=s.dir)


@case("stopped-servers")
def stopped_servers(s):
    """Clients of servers that somebody stopped: FTP, a compile server, and one behind xinetd."""
    port = s.port()
    conf = s.file("proftpd.conf", f"""ServerType standalone
Port {port}
DefaultAddress 127.0.0.1
User root
Group root
UseReverseDNS off
PidFile {s.dir}/proftpd.pid
ScoreboardFile {s.dir}/score
DelayEngine off
WtmpLog off
TransferLog none
SystemLog {s.dir}/proftpd.log
""")
    server = s.spawn([tool("proftpd"), "-n", "-c", conf], log="proftpd.out")
    s.wait_port(port)
    os.kill(server.pid, signal.SIGSTOP)
    truth = Truth(end=("person",), who=(server.pid,), code=("process.stopped",))
    yield pid(s.waiting(["lftp", "-c", f"open -u a,b ftp://127.0.0.1:{port}; ls"], 0.6), truth, "ftp-hang", secs=2, standing=True)
    os.kill(server.pid, signal.SIGCONT)
    inetd = s.port()
    script = s.file("late.sh", "sleep 2.6\necho ok\n")
    conf = s.file("xinetd.conf", f"""service late
{{
type = UNLISTED
port = {inetd}
bind = 127.0.0.1
instances = 9
socket_type = stream
protocol = tcp
wait = no
user = root
server = /bin/sh
server_args = {script}
}}
""")
    s.spawn([tool("xinetd"), "-dontfork", "-f", conf, "-pidfile", s.dir / "xinetd.pid"], log="xinetd.log")
    s.wait_port(inetd)
    yield run(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{inetd}; read -r line <&3"], Truth(end=("sleep",), who=("sleep",), code=(
        "process.socket_peer", "net.slow_peer")), "xinetd", wall=2)


@case("downloads-of-their-own-pace")
def downloads(s):
    """aria2 with a limit of its own; and lftp's."""
    from programs.web import nginx
    s.blob("www/f", 2)
    _, _, port = nginx(s, f"root {s.dir}/www;")
    for label, argv in (("aria2", [tool("aria2c"), "-q", "--max-download-limit=700K", "--allow-overwrite=true", f"http://127.0.0.1:{port}/f", "-o", "aria"]),
                        ("lftp", [tool("lftp"), "-c", f"set net:limit-rate 700000; get http://127.0.0.1:{port}/f -o lftp.out"])):
        yield run(argv, Truth(end=("sleep",), who=(label, argv[0].rsplit("/")[-1])), label, wall=1.5, cwd=s.dir)
