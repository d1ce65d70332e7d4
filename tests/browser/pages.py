"""A page in a browser: made by the shipped binary, opened over file:// without a network, and watched for what goes wrong.

The ground of test_page.py and test_diff.py. Must not: look into a page's script, or hold a test.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests/recordings"
FIRST_PAINT_MS_MAX = 1_000
PAGE_BYTES_MAX = 300_000
DESKTOP = {"width": 1200, "height": 900}
PHONE = {"width": 360, "height": 740}


def holdup(*arguments):
    return subprocess.run([os.environ["HOLDUP"], *map(str, arguments)], check=True, capture_output=True, text=True)


# The least contrast of any text with what is behind it (WCAG 2.2, 1.4.3).
CONTRAST = """() => {
    const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
    const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const behind = (node) => { for (; node; node = node.parentElement) { const c = getComputedStyle(node).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } return "rgb(255, 255, 255)"; };
    return [...document.querySelectorAll("h1,h2,h3,p,li,td,th,button,summary,span.kind,small,footer p,caption")].filter(it => it.offsetParent && it.textContent.trim())
        .map(it => ratio(light(getComputedStyle(it).color), light(behind(it)))).reduce((a, b) => Math.min(a, b));
}"""


def painted_ms(page):
    """When the page was first painted. Asked again and again from here: the page's own policy lets nobody wait inside of it."""
    first = "performance.getEntriesByType('paint').find(it => it.name === 'first-contentful-paint')?.startTime ?? null"
    for _ in range(500):
        at = page.evaluate(first)
        if at is not None:
            return at
        page.wait_for_timeout(10)
    raise AssertionError("nothing was painted within five seconds")


class Page(unittest.TestCase):
    """One browser for all; a context, and so a fresh page, for each test."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="holdup-page.")
        cls.playwright = sync_playwright().start()
        # Root has no sandbox in Chromium; the pages are our own, and the test is that they do nothing.
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        cls.browser = cls.playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=arguments)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.folder.cleanup()

    def made(self, recording):
        """The page of a recording."""
        path = pathlib.Path(self.folder.name) / (pathlib.Path(recording).stem + ".html")
        if not path.exists():
            holdup("page", recording, "-o", path)
        return path

    def recorded(self, write, **options):
        """A recording that is written here."""
        path = pathlib.Path(self.folder.name) / ("-".join([write.__name__, *map(str, options.values())]) + ".hup")
        if not path.exists():
            write(path, **options)
        return path

    def compared(self, before, after):
        """The page of a comparison, and its JSON."""
        path = pathlib.Path(self.folder.name) / f"{pathlib.Path(before).stem}-{pathlib.Path(after).stem}.html"
        return path, json.loads(holdup("diff", before, after, "--json", "--page", path).stdout)

    def kept(self, name):
        return self.made(KEPT / f"{name}.rec")

    def written(self, write):
        """The page of a recording that is written here."""
        return self.made(self.recorded(write))

    def opened(self, path, viewport=None, **options):
        """A page, of which whatever goes wrong is kept, and whatever is asked of the network."""
        context = self.browser.new_context(viewport=viewport or DESKTOP, offline=True, **options)
        self.addCleanup(context.close)
        page = context.new_page()
        self.wrong, self.asked = [], []
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda message: self.wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: (self.wrong.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("#cost")
        return page

    def is_quiet(self, path):
        """Nothing went wrong, and nothing but the file was asked for."""
        self.assertEqual(self.wrong, [])
        self.assertEqual([url.split("#")[0] for url in self.asked], [path.as_uri()])
