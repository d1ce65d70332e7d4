"""Figures on the page: written as the text writes them.

figures.json has examples that a test of crates/reason/src/model/figures.rs compares with Rust's; here they are compared with what the page's script
makes of them, in a browser. Must not: hold an example of its own.
"""

import json
import os
import unittest

from playwright.sync_api import sync_playwright

from pages import ROOT


class FiguresOfAPage(unittest.TestCase):
    def test_the_page_writes_figures_as_the_text_does(self):
        examples = json.loads((ROOT / "tests/browser/figures.json").read_text())
        script = (ROOT / "crates/report/src/page/template/figures.js").read_text()
        with sync_playwright() as playwright:
            arguments = ["--no-sandbox"] if os.getuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=arguments)
            page = browser.new_page()
            for function, rows in examples.items():
                values = [value for value, _ in rows]
                written = page.evaluate(f"(values) => {{ {script}\nreturn values.map({function}); }}", values)
                self.assertEqual(written, [text for _, text in rows], function)
            browser.close()
