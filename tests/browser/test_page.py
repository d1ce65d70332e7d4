"""The page in a browser, as people use it: clicks, keys, paper, a phone, hostile names, a hundred thousand waits.

Pages are made by the shipped binary of kept recordings and of those in recordings.py, and opened over file:// without a network. Each
test opens its page anew. Must not: look into the page's script; what counts is what a reader sees and what a key does.
"""

import json
import time
import unittest

import recordings
from pages import CONTRAST, FIRST_PAINT_MS_MAX, KEPT, PAGE_BYTES_MAX, PHONE, Page, holdup, painted_ms


class AnswerOfAPage(Page):
    def test_it_opens_from_a_file_without_errors_and_asks_for_nothing(self):
        path = self.kept("lock-file-run-4402")
        self.opened(path)
        self.is_quiet(path)

    def test_the_verdict_is_that_of_the_json(self):
        report = json.loads(holdup("--from", KEPT / "lock-file-run-4402.rec", "--json").stdout)
        page = self.opened(self.kept("lock-file-run-4402"))
        self.assertEqual(page.locator("h1").inner_text(), report["answer"]["title"])
        self.assertEqual(page.title(), report["answer"]["title"])
        self.assertIn(report["findings"][0]["code"], page.locator("#verdict .badges").inner_text())
        self.assertIn(report["caveats"][0]["text"], page.locator("#limits").inner_text())

    def test_the_data_in_it_is_the_json(self):
        report = json.loads(holdup("--from", KEPT / "lock-file-run-4402.rec", "--json").stdout)
        page = self.opened(self.kept("lock-file-run-4402"))
        self.assertEqual(json.loads(page.locator("#data").inner_text())["report"], report)

    def test_flame_graphs_widen_and_find(self):
        page = self.opened(self.kept("lock-file-run-4402"))
        flame = page.locator("#flames .flame").first
        frames = flame.locator("g.frame")
        count = frames.count()
        self.assertGreater(count, 2)
        report = json.loads(holdup("--from", KEPT / "lock-file-run-4402.rec", "--json").stdout)
        waits = sum(part["seconds"] for part in report["accounting"]["parts"] if part["class"] not in ("running", "idle"))
        heading = page.locator("#flames h3").first.inner_text()
        self.assertIn("Waits by stack", heading)
        self.assertAlmostEqual(float(heading.split(", ")[1].split()[0]) * (1e-3 if "ms" in heading else 1), waits, delta=0.01 * waits)
        search = page.locator("#flames input").first
        search.fill("waits for the lock")
        self.assertGreater(flame.locator("g.frame.hit").count(), 0)
        self.assertIn("%", page.locator("#flames [role=status]").first.inner_text())
        search.fill("")
        hit = frames.last
        hit.click()
        self.assertEqual(float(hit.get_attribute("data-x") or 0), 0.0)
        page.get_by_role("button", name="Show all of it").first.click()
        self.assertEqual(flame.locator("g.frame").count(), count)

    def test_a_command_and_its_undo_are_copied_as_they_are(self):
        report = json.loads(holdup("--from", KEPT / "lock-file-run-4402.rec", "--json").stdout)
        page = self.opened(self.kept("lock-file-run-4402"), permissions=["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy the command").first.click()
        page.get_by_text("Copied").wait_for()
        self.assertEqual(page.evaluate("navigator.clipboard.readText()"), report["findings"][0]["remedy"][0]["command"])

    def test_the_bar_adds_up(self):
        page = self.opened(self.kept("lock-file-run-4402"))
        data = json.loads(page.locator("#data").inner_text())["report"]
        widths = page.eval_on_selector_all("#bar g.part > rect", "all => all.map(it => it.getBoundingClientRect().width)")
        whole = page.locator("#bar svg.canvas").bounding_box()["width"]
        self.assertAlmostEqual(sum(widths), whole, delta=len(widths) * 1.5)
        for width, end in zip(widths, data["answer"]["ends"]):
            self.assertAlmostEqual(width / whole, end["seconds"] / data["accounting"]["wall_seconds"], delta=0.003)
        self.assertIn("nothing is missing", page.locator("#bar .hint").inner_text())

    def test_every_picture_has_its_table(self):
        page = self.opened(self.kept("chain-five-links-1"))
        for section in ("bar", "band", "tree", "window", "queues", "evidence"):
            self.assertGreater(page.locator(f"#{section} table tbody tr").count(), 0, section)

    def test_without_scripts_it_says_so(self):
        context = self.browser.new_context(java_script_enabled=False)
        self.addCleanup(context.close)
        page = context.new_page()
        page.goto(self.kept("lock-file-run-4402").as_uri())
        self.assertIn("holdup --from FILE", page.locator("noscript").inner_text() or page.inner_text("body"))


class ChoosingAnEnd(Page):
    def test_a_click_on_a_part_filters_all_that_follows_and_a_second_takes_it_back(self):
        page = self.opened(self.kept("lock-file-run-4402"))
        before = page.locator("#tree g.node[data-depth='0']").count()
        self.assertGreater(before, 1)
        page.locator("#bar .end-row").nth(1).click()
        self.assertEqual(page.locator("#bar .end-row").nth(1).get_attribute("aria-pressed"), "true")
        self.assertTrue(page.locator("#filter").is_visible())
        self.assertEqual(page.locator("#tree g.node[data-depth='0']").count(), 1)
        words, without = page.locator("#bar .end-row .words").nth(1).inner_text().split("\n")
        self.assertIn("without it up to ", without)
        self.assertIn(words, page.locator("#band").inner_text())
        self.assertIn("No rule gave the chosen end a name", page.locator("#evidence").inner_text())
        self.assertTrue(page.url.endswith("#end=1"))
        page.locator("#bar .end-row").nth(1).click()
        self.assertFalse(page.locator("#filter").is_visible())
        self.assertEqual(page.locator("#tree g.node[data-depth='0']").count(), before)

    def test_the_bar_itself_can_be_clicked_and_escape_shows_all_again(self):
        page = self.opened(self.kept("lock-file-run-4402"))
        page.locator("#bar g[role=button]").first.click()
        self.assertTrue(page.locator("#filter").is_visible())
        page.keyboard.press("Escape")
        self.assertFalse(page.locator("#filter").is_visible())

    def test_by_keys_alone(self):
        page = self.opened(self.kept("lock-file-run-4402"))
        page.locator("#bar g[role=button]").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        self.assertEqual(page.locator("#bar .end-row").nth(1).get_attribute("aria-pressed"), "true")
        self.assertEqual(page.evaluate("document.activeElement.dataset.end"), "1")
        page.keyboard.press("Space")
        self.assertFalse(page.locator("#filter").is_visible())

    def test_the_address_of_a_choice_opens_it_again(self):
        path = self.kept("lock-file-run-4402")
        page = self.opened(path)
        page.goto(path.as_uri() + "#end=1")
        page.reload()
        page.wait_for_selector("#cost")
        self.assertTrue(page.locator("#filter").is_visible())

    def test_all_can_be_reached_with_tab(self):
        page = self.opened(self.kept("lock-file-run-4402"))
        reached = set()
        for _ in range(80):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("(document.activeElement.closest('section') || {}).id"))
        for section in ("verdict", "bar", "band", "tree", "window", "evidence", "stacks"):
            self.assertIn(section, reached)


class BandAndTree(Page):
    def test_a_piece_says_what_it_is_and_leads_to_the_next_hop(self):
        page = self.opened(self.kept("lock-file-run-4402"))
        blocked = page.locator("#band .piece[data-lane='0']", has=page.locator("rect.st2"))
        wide = [it for it in blocked.all() if it.bounding_box()["width"] > 40]
        wide[1].click()
        self.assertEqual(wide[1].get_attribute("class"), "piece active")
        details = page.locator("#band .details")
        self.assertIn("waits for", details.inner_text())
        lanes = [page.locator("#band .piece.active").get_attribute("data-lane")]
        while details.get_by_role("button").count():
            details.get_by_role("button").click()
            lanes.append(page.locator("#band .piece.active").get_attribute("data-lane"))
        self.assertEqual(lanes, ["0", "1", "2"])
        self.assertIn("holds /run/holdup-lab", details.inner_text())
        self.assertIn("sleeps", details.inner_text())

    def test_a_second_press_on_a_piece_goes_to_the_next_hop(self):
        page = self.opened(self.kept("lock-file-run-4402"))
        page.locator("#band .piece.active").focus()
        for lane in ("1", "2", "2"):
            page.keyboard.press("Enter")
            self.assertEqual(page.evaluate("document.activeElement.dataset.lane"), lane)

    def test_arrows_go_along_lanes_and_between_them(self):
        page = self.opened(self.kept("chain-five-links-1"))
        page.locator("#band .piece.active").focus()
        where = lambda: page.evaluate("[document.activeElement.dataset.lane, document.activeElement.dataset.piece].join()")
        begin = where()
        page.keyboard.press("ArrowDown")
        self.assertTrue(where().startswith("1,"), where())
        page.keyboard.press("ArrowUp")
        self.assertEqual(where(), begin)
        page.keyboard.press("ArrowRight")
        self.assertNotEqual(where(), begin)
        page.keyboard.press("Enter")
        self.assertEqual(page.locator("#band .piece.active").count(), 1)

    def test_lanes_and_wakeups_are_drawn(self):
        page = self.opened(self.kept("chain-five-links-1"))
        self.assertGreaterEqual(page.locator("#band svg g[role=group]").count(), 3)
        self.assertLessEqual(page.locator("#band svg g[role=group]").count(), 6)
        self.assertGreater(page.locator("#band path.wake").count(), 0)
        self.assertIn("holds", page.locator("#band svg").last.text_content())

    def test_the_tree_says_who_costs_whom(self):
        page = self.opened(self.kept("chain-five-links-1"))
        page.locator("#tree g.node", has=page.locator("rect.tree-who")).first.click()
        self.assertIn("lost", page.locator("#tree .details").inner_text())
        parents = page.eval_on_selector_all("#tree g.node", "all => all.map(it => [+it.dataset.depth, +it.dataset.x, +it.dataset.wide])")
        for depth, x, wide in parents:
            if depth:
                inside = [1 for d, px, pw in parents if d == depth - 1 and px - 0.3 <= x and x + wide <= px + pw + 0.3]
                self.assertTrue(inside, (depth, x, wide))

    def test_a_deadlock_is_a_closed_ring(self):
        page = self.opened(self.kept("lock-deadlock-threads-1"))
        self.assertEqual(page.locator("#tree .ring ellipse").count(), 1)
        self.assertGreaterEqual(page.locator("#tree .ring-node").count(), 2)
        self.assertEqual(page.locator("#tree .ring-head").count(), page.locator("#tree .ring-node").count())


class ScreensAndPaper(Page):
    def test_a_phone_scrolls_in_one_direction(self):
        for name in ("lock-file-run-4402", "chain-five-links-1", "net-local-queue-1", "cpu-saturated-1"):
            page = self.opened(self.kept(name), viewport=PHONE)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), PHONE["width"], name)
            small = page.eval_on_selector_all("main button", "all => all.filter(it => it.offsetParent && it.getBoundingClientRect().height < 34).length")
            self.assertEqual(small, 0, "buttons too small for a finger")

    def test_dark_and_light_can_both_be_read(self):
        for scheme in ("light", "dark"):
            page = self.opened(self.kept("chain-five-links-1"), color_scheme=scheme)
            self.assertGreaterEqual(page.evaluate(CONTRAST), 4.5, scheme)

    def test_it_prints(self):
        page = self.opened(self.kept("chain-five-links-1"), color_scheme="dark")
        paper = page.pdf(format="A4")
        self.assertTrue(paper.startswith(b"%PDF"))
        print(f"\n  on paper: {len(paper)} bytes")
        self.assertLess(len(paper), 2_000_000)
        self.assertGreaterEqual(paper.count(b"/Type /Page\n") or paper.count(b"/Type /Page"), 2)
        self.assertEqual(self.wrong, [])

    def test_on_paper_what_explains_is_open_and_nothing_is_to_be_pressed(self):
        page = self.opened(self.kept("process-crypto-bound-4401"))
        page.emulate_media(media="print")
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        smaller = page.locator("#bar details.on-paper").first
        self.assertTrue(smaller.evaluate("it => it.open"))
        self.assertFalse(page.locator("#stacks").is_visible())
        self.assertFalse(page.locator(".copy").first.is_visible())
        self.assertTrue(page.locator("#band svg.canvas").first.is_visible())
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        self.assertFalse(smaller.evaluate("it => it.open"))

    def test_a_narrower_window_draws_it_again(self):
        page = self.opened(self.kept("chain-five-links-1"))
        wide = page.locator("#band svg.canvas").last.bounding_box()["width"]
        page.set_viewport_size(PHONE)
        page.wait_for_timeout(200)
        narrow = page.locator("#band svg.canvas").last.bounding_box()["width"]
        self.assertLess(narrow, wide)
        self.assertEqual(self.wrong, [])


class HostileAndHuge(Page):
    def test_hostile_names_are_text(self):
        path = self.written(recordings.hostile)
        page = self.opened(path)
        self.assertIsNone(page.evaluate("window.pwned ?? null"))
        self.assertEqual(page.locator("img, iframe, object, embed, link, a, form").count(), 0)
        self.assertEqual(page.locator("script").count(), 2)
        acts = "[...document.querySelectorAll('*')].flatMap(it => it.getAttributeNames()).filter(it => it.startsWith('on') || it === 'style' || it === 'href')"
        self.assertEqual(page.evaluate(acts), [])
        text = page.locator("main").text_content()
        self.assertIn("<script>window.pwned=1</script>", text)
        for hidden in "\u202e\u2028\x1b":
            self.assertNotIn(hidden, text)
            self.assertNotIn(hidden, page.title())
        self.assertIn("\\u{202e}", text)
        self.is_quiet(path)

    def test_hostile_names_do_not_break_the_page(self):
        page = self.opened(self.written(recordings.hostile), viewport=PHONE)
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), PHONE["width"])
        page.locator("#bar .end-row").first.click()
        page.locator("#tree g.node").first.click()
        page.keyboard.press("Escape")
        self.assertGreater(len(page.pdf()), 10_000)
        self.assertIsNone(page.evaluate("window.pwned ?? null"))
        self.assertEqual(self.wrong, [])

    def test_a_command_with_control_characters_is_not_offered_to_copy(self):
        page = self.opened(self.written(recordings.hostile))
        commands = json.loads(page.locator("#data").inner_text())["report"]["findings"][0]["remedy"]
        hostile = [way for way in commands if any(ord(c) < 32 or c in "\u202e\u2028" for c in way["command"])]
        offered = page.locator("#verdict .copy").count()
        self.assertEqual(offered, sum(bool(way["command"]) + bool(way.get("undo")) for way in commands) - len(hostile))

    def test_the_policy_refuses_a_script_that_is_put_in(self):
        page = self.opened(self.kept("lock-file-run-4402"))
        page.evaluate("""() => { window.refused = 0;
            document.addEventListener("securitypolicyviolation", () => { window.refused += 1; });
            const script = document.createElement("script"); script.textContent = "window.pwned = 3"; document.body.append(script);
            const picture = document.createElement("img"); picture.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw="; document.body.append(picture); }""")
        for _ in range(500):
            if page.evaluate("window.refused") >= 2:
                break
            page.wait_for_timeout(10)
        self.assertIsNone(page.evaluate("window.pwned ?? null"))

    def test_a_hundred_thousand_waits_paint_within_a_second(self):
        path = self.written(recordings.many)
        self.assertLess(path.stat().st_size, 2 * PAGE_BYTES_MAX)
        best = []
        for _ in range(3):
            page = self.opened(path)
            paint = painted_ms(page)
            loaded = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
            best.append((round(paint), round(loaded)))
        print(f"\n  100,000 waits: page of {path.stat().st_size} bytes, first paint and whole page after (ms): {best}")
        self.assertLess(min(paint for paint, _ in best), FIRST_PAINT_MS_MAX)
        self.assertLess(min(loaded for _, loaded in best), FIRST_PAINT_MS_MAX)
        self.assertIn("leaves out", page.locator("#cost").inner_text())
        began = time.monotonic()
        page.locator("#bar .end-row").nth(2).click()
        page.locator("#filter").wait_for()
        self.assertLess(time.monotonic() - began, 1.0)
        self.is_quiet(path)

    def test_every_kept_recording_is_a_page_without_errors(self):
        every = sorted(KEPT.glob("*.rec"))
        self.assertGreater(len(every), 10)
        context = self.browser.new_context(viewport=PHONE, offline=True)
        self.addCleanup(context.close)
        page = context.new_page()
        wrong = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        sizes = []
        for recording in every:
            path = self.made(recording)
            page.goto(path.as_uri())
            page.wait_for_selector("#cost", state="attached")
            sizes.append(path.stat().st_size)
            text = page.locator("main").inner_text().replace("/dev/null", "")  # commands name it
            for word in ("undefined", "NaN", "[object", "null"):
                self.assertNotIn(word, text, recording.name)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), PHONE["width"], recording.name)
            self.assertEqual(wrong, [], recording.name)
        self.assertLess(max(sizes), PAGE_BYTES_MAX)
        print(f"\n  {len(sizes)} recordings: pages of {min(sizes)} to {max(sizes)} bytes")
