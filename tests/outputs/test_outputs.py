"""A night of `holdup watch`: a file lock with a hostile name holds somebody up, and each output's real receiver says what reached it.

One run for all: the fault begins while the OpenTelemetry collector is down, which then comes up; settings change twice (SIGHUP: syslog by UDP, TCP
and a socket of this host); a second fault begins; SIGTERM. Receivers are of this test alone, on ports and in folders of its own. Must
not: ask holdup what it has sent, but for the line of JSON that the hook got, with which the others are compared.
"""

import email
import email.policy
import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest
import urllib.request

HOLDUP = os.environ["HOLDUP"]
COLLECTOR = pathlib.Path(os.environ["COLLECTOR"])
JOURNALD = pathlib.Path("/lib/systemd/systemd-journald")
PATIENCE = 120
# A quote, a bracket, a newline and an escape code: each ends something in one of the protocols.
HOSTILE = 'lock "]\\ =?\n\x1b[31m\u00e9.of.this.test'
MESSAGE_ID = {"began": "4949c45ddc6b41d3ad697aed935e0c8d", "ended": "91a76342310b407ab894cf91d439e396"}
NOT_HERE = {name: shutil.which(name) is None for name in ("rsyslogd", "msmtp", "prometheus", "promtool", "prometheus-node-exporter", "nagios4")}
try:
    from aiosmtpd.controller import Controller
except ImportError:
    Controller = None


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def until(what, asked):
    begin = time.monotonic()
    while True:
        try:
            answer = asked()
        except (OSError, ValueError):
            answer = None
        if answer:
            return answer
        if time.monotonic() - begin > PATIENCE:
            raise AssertionError(what)
        time.sleep(0.1)


class Sink:
    """Mails as they came."""

    def __init__(self):
        self.mails = []

    async def handle_DATA(self, server, session, envelope):
        self.mails.append((envelope.mail_from, envelope.rcpt_tos, email.message_from_bytes(envelope.content, policy=email.policy.default)))
        return "250 OK"


class Night(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdup-output."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.started = {}
        cls.sink = Sink()
        cls.ports = {name: free_port() for name in ("metrics", "otlp", "prometheus", "node", "smtp", "tcp")}
        cls.ports["udp"] = free_port(socket.SOCK_DGRAM)
        (cls.folder / "text").mkdir()
        cls.prometheus, cls.scraped, cls.node, cls.promtool, cls.nagios = {}, "", "", None, None
        cls.start_journald()
        cls.start_rsyslog()
        cls.start_mail()
        cls.start_prometheus()
        cls.watch_a_night()

    @classmethod
    def start(cls, name, command, **more):
        log = open(cls.folder / f"{name}.log", "w")
        child = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=more.pop("stdout", log), stderr=log, **more)

        def end():
            child.kill()
            child.wait()
            log.close()
        cls.addClassCleanup(end)
        cls.started[name] = child
        return child

    @classmethod
    def start_journald(cls):
        if not JOURNALD.exists():
            return
        # In the mount namespace that tests/outputs/run made: no journal of this host is asked or written to.
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        settings = cls.folder / "journald.conf"
        settings.write_text("[Journal]\nStorage=volatile\nAudit=no\nReadKMsg=no\n")
        subprocess.run(["mount", "--bind", settings, "/etc/systemd/journald.conf"], check=True)
        os.makedirs("/run/systemd/journal")
        cls.start("journald", [JOURNALD])
        until("the journal listens", lambda: os.path.exists("/run/systemd/journal/socket"))

    @classmethod
    def start_rsyslog(cls):
        if NOT_HERE["rsyslogd"]:
            return
        (cls.folder / "rsyslog.conf").write_text(f"""
module(load="imudp")
module(load="imptcp")
module(load="imuxsock" SysSock.Use="off")
template(name="whole" type="list") {{ property(name="jsonmesg") constant(value="\\n") }}
ruleset(name="all") {{ action(type="omfile" file="{cls.folder}/syslog" template="whole") }}
input(type="imudp" address="127.0.0.1" port="{cls.ports['udp']}" ruleset="all")
input(type="imptcp" address="127.0.0.1" port="{cls.ports['tcp']}" ruleset="all")
input(type="imuxsock" Socket="{cls.folder}/devlog" UseSpecialParser="off" ParseHostname="on" ruleset="all")
""")
        cls.start("rsyslog", ["rsyslogd", "-n", "-f", cls.folder / "rsyslog.conf", "-i", cls.folder / "rsyslog.pid"])
        until("rsyslog listens", lambda: (cls.folder / "devlog").exists())

    @classmethod
    def start_mail(cls):
        if Controller is None:
            return
        controller = Controller(cls.sink, hostname="127.0.0.1", port=cls.ports["smtp"])
        controller.start()
        cls.addClassCleanup(controller.stop)
        settings = cls.folder / ".msmtprc"
        settings.write_text(f"account default\nhost 127.0.0.1\nport {cls.ports['smtp']}\nauto_from off\n")
        settings.chmod(0o600)

    @classmethod
    def start_prometheus(cls):
        if not NOT_HERE["prometheus-node-exporter"]:
            cls.start("node", ["prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                               f"--collector.textfile.directory={cls.folder}/text", f"--web.listen-address=127.0.0.1:{cls.ports['node']}"])
        if not NOT_HERE["prometheus"]:
            settings = cls.folder / "prometheus.yml"
            settings.write_text(json.dumps({"scrape_configs": [{"job_name": "holdup", "scrape_interval": "1s", "static_configs": [
                {"targets": [f"127.0.0.1:{cls.ports['metrics']}"]}]}]}))
            cls.start("prometheus", ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={cls.folder}/tsdb",
                                     f"--web.listen-address=127.0.0.1:{cls.ports['prometheus']}"])

    @classmethod
    def start_collector(cls):
        settings = cls.folder / "collector.yaml"
        settings.write_text(json.dumps({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{cls.ports['otlp']}"}}}}, "exporters": {"printer": {}},
            "service": {"telemetry": {"metrics": {"level": "none"}}, "pipelines": {"logs": {"receivers": ["otlp"], "exporters": ["printer"]}}}}))
        out = open(cls.folder / "otlp", "w")
        cls.addClassCleanup(out.close)
        cls.start("collector", [COLLECTOR, "--config", f"file:{settings}"], stdout=out)

    @classmethod
    def settings(cls, syslog):
        hook = cls.folder / "hook"
        (cls.folder / "holdup.toml").write_text(f"""
window = "1s"
hook = ["/usr/bin/tee", "-a", "{hook}"]
[journald]
enabled = true
[syslog]
to = "{syslog}"
facility = "local3"
[mail]
to = ["ops@example.org", "root@example.org"]
from = "holdup@example.org"
sendmail = "/usr/bin/msmtp"
[metrics]
textfile = "{cls.folder}/text/holdup.prom"
listen = "127.0.0.1:{cls.ports['metrics']}"
[otlp]
enabled = true
""")

    @classmethod
    def events(cls):
        """What was written to the findings of the day."""
        lines = [line for day in (cls.folder / "state").glob("findings-*.jsonl") for line in day.read_text().splitlines()]
        return [json.loads(line) for line in lines]

    @classmethod
    def said(cls, event, name):
        return [it for it in cls.events() if it["event"] == event and it.get("finding", {}).get("object", {}).get("name", "").endswith(name)]

    @classmethod
    def fault(cls, name):
        lock = cls.folder / name
        # One process: who holds the lock does not change meanwhile.
        holder = cls.start("holder", ["/usr/bin/python3", "-c", "import fcntl,sys,time; f=open(sys.argv[1],'w'); fcntl.flock(f,2); time.sleep(600)", lock])
        until("it is held", lambda: str(lock.stat().st_ino) in pathlib.Path("/proc/locks").read_text())
        cls.start("waiter", ["flock", lock, "true"])
        until(f"{name!r} is found", lambda: cls.said("began", name))
        return holder

    @classmethod
    def watch_a_night(cls):
        cls.settings(f"udp:127.0.0.1:{cls.ports['udp']}")
        out = open(cls.folder / "said", "w")
        cls.addClassCleanup(out.close)
        environment = {**os.environ, "HOME": str(cls.folder), "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{cls.ports['otlp']}"}
        watch = cls.start("watch", [HOLDUP, "watch", "--config", cls.folder / "holdup.toml", "--state", cls.folder / "state"],
                          stdout=out, env=environment)
        said = lambda word: word in (cls.folder / "said").read_text()  # noqa: E731
        until("it watches", lambda: said("watching:"))
        holder = cls.fault(HOSTILE)
        until("the collector is missed", lambda: said("output otlp fails"))
        if COLLECTOR.exists():
            cls.start_collector()
            until("the collector is reached", lambda: said("output otlp works again"))
        cls.ask_for_figures()
        cls.ask_nagios()
        cls.settings(f"tcp:127.0.0.1:{cls.ports['tcp']}")
        watch.send_signal(signal.SIGHUP)
        until("settings are read", lambda: said("the settings were read again"))
        holder.kill()
        holder.wait()
        until("it has ended", lambda: cls.said("ended", HOSTILE))
        cls.settings(f"unix:{cls.folder}/devlog")
        watch.send_signal(signal.SIGHUP)
        until("settings are read", lambda: (cls.folder / "said").read_text().count("the settings were read again") == 2)
        cls.fault("second.of.this.test")
        watch.send_signal(signal.SIGTERM)
        cls.status = watch.wait(PATIENCE)
        cls.hooked = [json.loads(line) for line in (cls.folder / "hook").read_text().splitlines()]

    @classmethod
    def ask_nagios(cls):
        """What Nagios itself makes of `holdup check`, run by its own scheduler."""
        if NOT_HERE["nagios4"]:
            return
        home = cls.folder / "nagios"
        (home / "results").mkdir(parents=True)
        days = "\n ".join(f"{day} 00:00-24:00" for day in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
        (home / "objects.cfg").write_text(f"""
define command {{
 command_name holdup
 command_line {HOLDUP} check --state {cls.folder}/state
}}
define timeperiod {{
 timeperiod_name always
 alias always
 {days}
}}
define contact {{
 contact_name nobody
 host_notifications_enabled 0
 service_notifications_enabled 0
 host_notification_period always
 service_notification_period always
 host_notification_commands holdup
 service_notification_commands holdup
}}
define host {{
 host_name here
 address 127.0.0.1
 max_check_attempts 1
 check_period always
 contacts nobody
}}
define service {{
 host_name here
 service_description held up
 check_command holdup
 check_interval 1
 retry_interval 1
 max_check_attempts 1
 check_period always
 contacts nobody
}}
""")
        (home / "nagios.cfg").write_text(f"""
cfg_file={home}/objects.cfg
log_file={home}/log
object_cache_file={home}/cache
precached_object_file={home}/precached
status_file={home}/status
status_update_interval=1
interval_length=5
service_inter_check_delay_method=n
nagios_user=root
nagios_group=root
lock_file={home}/pid
temp_file={home}/temp
temp_path={home}
check_result_path={home}/results
command_file={home}/commands
query_socket={home}/query
check_external_commands=0
execute_service_checks=1
use_syslog=0
""")
        cls.start("nagios", ["nagios4", home / "nagios.cfg"])

        def checked():
            block = (home / "status").read_text().partition("servicestatus {")[2].partition("}")[0]
            values = dict(line.strip().split("=", 1) for line in block.splitlines() if "=" in line)
            return values if values.get("has_been_checked") == "1" else None
        cls.nagios = until("Nagios has checked", checked)

    @classmethod
    def ask_for_figures(cls):
        cls.scraped = get(f"http://127.0.0.1:{cls.ports['metrics']}/metrics")
        if not NOT_HERE["promtool"]:
            cls.promtool = subprocess.run(["promtool", "check", "metrics"], input=cls.scraped, capture_output=True, text=True)
        if "node" in cls.started:
            cls.node = until("node_exporter has it", lambda: get(f"http://127.0.0.1:{cls.ports['node']}/metrics"))
        if "prometheus" in cls.started:
            base = f"http://127.0.0.1:{cls.ports['prometheus']}/api/v1"
            ask = lambda what: json.loads(get(f"{base}/{what}"))["data"]  # noqa: E731
            until("Prometheus has it", lambda: ask("query?query=holdup_findings_open")["result"])
            cls.prometheus = {"open": ask("query?query=holdup_findings_open")["result"], "named": ask("query?query=holdup_findings")["result"],
                              "kinds": ask("targets/metadata?metric=holdup_lost_seconds_total"), "targets": ask("targets")["activeTargets"]}

    def hooked_of(self, event, name):
        found = [it for it in self.hooked if it["event"] == event and it["finding"]["object"]["name"].endswith(name)]
        self.assertEqual(len(found), 1, f"{event} of {name!r}, once: {[it['event'] for it in self.hooked]}")
        return found[0]

    def test_it_ends_well_and_everybody_heard_of_it(self):
        self.assertEqual(self.status, 0)
        self.assertNotIn(" not sent", (self.folder / "said").read_text())

    def test_an_output_that_fails_and_comes_back_is_an_event(self):
        kinds = [(it["event"], it["output"]) for it in self.events() if "output" in it]
        self.assertIn(("output_failed", "otlp"), kinds)
        if COLLECTOR.exists():
            self.assertIn(("output_restored", "otlp"), kinds)
            restored = [it for it in self.events() if it["event"] == "output_restored" and it["output"] == "otlp"]
            self.assertEqual(restored[0]["text"], "nothing was lost")
        numbers = sorted(it["sequence"] for it in self.events())
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_journald(self):
        if "journald" not in self.started:
            self.skipTest("no systemd-journald here")
        for event, name in (("began", HOSTILE), ("ended", HOSTILE), ("began", "second.of.this.test")):
            asked = ["journalctl", "--directory=/run/log/journal", "-o", "json", f"MESSAGE_ID={MESSAGE_ID[event]}"]
            entries = [json.loads(line) for line in subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()]
            # What holds an escape code is a list of bytes in journalctl's JSON.
            plain = lambda value: bytes(value).decode() if isinstance(value, list) else value  # noqa: E731
            entries = [{key: plain(value) for key, value in entry.items()} for entry in entries]
            entries = [entry for entry in entries if entry["HOLDUP_OBJECT"].endswith(name)]
            self.assertEqual(len(entries), 1, entries)
            entry, line = entries[0], self.hooked_of(event, name)
            self.assertEqual(entry["HOLDUP_CODE"], line["finding"]["code"])
            self.assertEqual(entry["HOLDUP_KEY"], line["key"])
            self.assertEqual(entry["HOLDUP_CULPRIT"], line["finding"]["culprit"]["name"])
            self.assertEqual(entry["HOLDUP_OBJECT"], line["finding"]["object"]["name"])
            self.assertEqual(json.loads(entry["HOLDUP_JSON"]), line)
            self.assertEqual(entry["SYSLOG_IDENTIFIER"], "holdup")
            wanted = "6" if event == "ended" else {"critical": "2", "warning": "4"}[line["finding"]["severity"]]
            self.assertEqual(entry["PRIORITY"], wanted)

    def test_rsyslog_by_udp_tcp_and_a_socket(self):
        if "rsyslog" not in self.started:
            self.skipTest("no rsyslogd here")
        got = lambda: [json.loads(line) for line in (self.folder / "syslog").read_text().splitlines()]  # noqa: E731
        for event, name, way in (("began", HOSTILE, "imudp"), ("ended", HOSTILE, "imptcp"), ("began", "second.of.this.test", "imuxsock")):
            line = self.hooked_of(event, name)
            ours = lambda: [it for it in got() if f'sequence="{line["sequence"]}"' in it["structured-data"]]  # noqa: E731
            until(f"{event} by {way}", ours)
            self.assertEqual(len(ours()), 1)
            message = ours()[0]
            self.assertEqual((message["app-name"], message["inputname"], message["msgid"]), ("holdup", way, event))
            self.assertEqual(message["syslogfacility-text"] if "syslogfacility-text" in message else int(message["syslogfacility"]), 19)
            self.assertEqual(message["hostname"], socket.gethostname())
            self.assertTrue(message["structured-data"].startswith(f'[holdup@32473 event="{event}" '), message)
            self.assertIn(f'code="{line["finding"]["code"]}"', message["structured-data"])
            self.assertIn("waits for a lock", message["msg"])
            if name == HOSTILE:
                # Spelled out, and escaped as RFC 5424 has it: the data ends where it should.
                self.assertIn('lock \\"\\]\\\\ =?\\\\n\\\\x1b[31m', message["structured-data"])
                self.assertTrue(message["structured-data"].endswith('"]'), message)

    def test_mail(self):
        if Controller is None or NOT_HERE["msmtp"]:
            self.skipTest("no msmtp, or no aiosmtpd here")
        ours = lambda heading: [it for it in self.sink.mails if HOSTILE[-14:] in it[2].get_content() and heading in it[2].get_content()]  # noqa: E731
        loud = self.hooked_of("began", HOSTILE)["finding"]["severity"].upper()
        sender, to, began = until("a mail of its begin", lambda: ours(f"{loud} on "))[0]
        self.assertEqual((sender, to), ("holdup@example.org", ["ops@example.org", "root@example.org"]))
        self.assertRegex(began["Subject"], rf"^\[{socket.gethostname()}\] {loud} flock waits for a lock")
        text = began.get_content()
        self.assertIn("sudo holdup --from ring:", text)
        self.assertFalse("\x1b" in text + began["Subject"])
        self.assertEqual(began.defects, [])
        _, _, ended = until("a mail of its end", lambda: ours("ENDED on "))[0]
        # Others of this host may share a mail: a trouble is one thread all the same.
        self.assertTrue(set(ended["References"].split()) & set(began["References"].split()))

    def test_figures_pass_promtool(self):
        if self.promtool is None:
            self.skipTest("no promtool here")
        self.assertEqual((self.promtool.returncode, self.promtool.stdout + self.promtool.stderr), (0, ""))

    def test_prometheus_scrapes_them(self):
        if "prometheus" not in self.started:
            self.skipTest("no prometheus here")
        self.assertEqual([it["health"] for it in self.prometheus["targets"]], ["up"])
        self.assertGreaterEqual(float(self.prometheus["open"][0]["value"][1]), 1)
        self.assertIn("lock.file", [it["metric"]["code"] for it in self.prometheus["named"]])
        self.assertEqual(self.prometheus["kinds"][0]["type"], "counter")

    def test_node_exporter_reads_the_file(self):
        if "node" not in self.started:
            self.skipTest("no node_exporter here")
        self.assertIn("node_textfile_scrape_error 0", self.node)
        self.assertIn("# TYPE holdup_lost_seconds_total counter", self.node)
        lost = [line for line in self.node.splitlines() if line.startswith('holdup_lost_seconds_total{end="lock"}')]
        self.assertGreater(float(lost[0].split()[-1]), 0)
        mode = stat.S_IMODE((self.folder / "text/holdup.prom").stat().st_mode)
        self.assertEqual(mode, 0o644)

    def test_nagios_reads_the_status_the_line_and_the_figures(self):
        if self.nagios is None:
            self.skipTest("no nagios4 here")
        # The worst that is open is said, and this host may have troubles of its own.
        states = {"WARNING": "1", "CRITICAL": "2"}
        self.assertRegex(self.nagios["plugin_output"], "^HOLDUP (WARNING|CRITICAL) - ")
        self.assertEqual(self.nagios["current_state"], states[self.nagios["plugin_output"].split()[1]])
        ours = self.hooked_of("began", HOSTILE)["finding"]["severity"].upper()
        self.assertGreaterEqual(self.nagios["current_state"], states[ours])
        self.assertRegex(self.nagios["performance_data"], r"^findings=[0-9]+ lost=[0-9.]+s$")

    def test_a_collector_takes_log_records(self):
        if not COLLECTOR.exists():
            self.skipTest("the collector was not built")
        read = lambda: [json.loads(line) for line in (self.folder / "otlp").read_text().splitlines()]  # noqa: E731
        for event, name in (("began", HOSTILE), ("ended", HOSTILE), ("began", "second.of.this.test")):
            line = self.hooked_of(event, name)
            found = until(event, lambda: [it for it in read() if it["attributes"]["holdup.key"] == line["key"] and it["event"] == f"holdup.{event}"])
            self.assertEqual(len(found), 1)
            record = found[0]
            self.assertEqual((record["records"], record["scope"], record["at_ns"]), (1, "holdup", line["at_unix_ns"]))
            self.assertEqual(record["attributes"]["holdup.object.name"], line["finding"]["object"]["name"])
            self.assertEqual(record["attributes"]["holdup.culprit.name"], line["finding"]["culprit"]["name"])
            self.assertEqual(record["resource"]["host.name"], socket.gethostname())
            self.assertEqual(record["severity"], 9 if event == "ended" else {"critical": 17, "warning": 13}[line["finding"]["severity"]])


if __name__ == "__main__":
    unittest.main()
