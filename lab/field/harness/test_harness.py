"""Tests of what is pure in the harness: the judge, the figures, and the page that is not its own.

`make test` runs them, without root and without holdup: python3 -m unittest discover -s lab/field/harness -t lab/field. What
starts programs is tested by `--quick`, live.
"""

import pathlib
import tempfile
import unittest

from harness import page, score
from harness.judge import any_in, judge
from harness.truth import HEALTHY, Truth


def answer(kind="lock", object_="inside postgres", who=None, code=None, culprit="postgres", severity="critical", last="timer"):
    """An answer of one end, and of one finding if it has a code."""
    link = {"who": {"kind": "process", "name": "sleep", "pid": 9}, "waits_on": {"kind": last, "name": last}}
    end = {"end": kind, "object": {"kind": "lock", "name": object_, "id": "5"}, "seconds": 2.0, "victims": [], "chain": [link]}
    if who:
        end["who"] = {"kind": "process", "name": "postgres", "pid": who}
    finding = {"code": code, "severity": severity, "object": end["object"], "culprit": {"name": culprit, "pid": who}, "chain": []}
    return {"accounting": {"wall_seconds": 2.0}, "answer": {"verdict": "held", "title": "", "ends": [end]},
            "findings": [finding] if code else []}


LOCK = Truth(end=("lock", "person"), object=("postgres",), who=(41, 42), code=("lock.row",))


class Judging(unittest.TestCase):
    """One answer against one truth."""

    def test_an_end_is_right_with_kind_object_and_who(self):
        self.assertTrue(judge(LOCK, answer(who=42))["strict"])
        self.assertEqual(judge(LOCK, answer(who=43))["why"], "who")
        self.assertEqual(judge(LOCK, answer(who=42, object_="file x"))["why"], "object")
        self.assertEqual(judge(LOCK, answer("sleep", who=42))["why"], "kind")

    def test_another_true_kind_is_right_and_not_strict_and_is_judged_by_who(self):
        judged = judge(LOCK, answer("person", "terminal", who=41))
        self.assertTrue(judged["right"] and not judged["strict"])
        self.assertFalse(judge(LOCK, answer("person", "terminal", who=43))["right"])

    def test_nobody_is_right_only_where_nobody_can_be_seen(self):
        self.assertFalse(judge(LOCK, answer())["right"])
        self.assertTrue(judge(LOCK.plus(unseen=True), answer())["right"])
        self.assertFalse(judge(LOCK.plus(unseen=True), answer(who=43))["right"])

    def test_words_and_pids_are_compared_whole(self):
        self.assertFalse(any_in(("sleep",), {"name": "clock_nanosleep"}) or any_in((4,), {"pid": 42}))
        self.assertTrue(any_in(("index.lock",), {"name": "/a/index.lock.new"}) and any_in((), {}))

    def test_a_finding_is_named_with_code_object_and_culprit(self):
        truth = LOCK.plus(culprit=("postgres",))
        self.assertTrue(judge(truth, answer(who=42, code="lock.row"))["named"])
        self.assertFalse(judge(truth, answer(who=42, code="lock.futex"))["named"])
        self.assertFalse(judge(truth, answer(who=42, code="lock.row", culprit="bash"))["named"])
        self.assertFalse(judge(truth, answer(who=42))["named"])
        self.assertIsNone(judge(truth.plus(code=()), answer(who=42))["named"])

    def test_whatever_is_found_above_note_is_an_alarm(self):
        self.assertTrue(judge(HEALTHY, answer(code="cpu.saturated"))["alarm"])
        self.assertFalse(judge(HEALTHY, answer(code="cpu.saturated", severity="note"))["alarm"])
        self.assertIsNone(judge(HEALTHY, answer())["right"])

    def test_a_look_without_an_end_is_wrong(self):
        empty = answer()
        empty["answer"]["ends"] = []
        self.assertFalse(judge(LOCK, empty)["right"])


def row(group, right, mode="run", standing=False):
    """A judged ask."""
    judged = dict(judge(LOCK, answer(who=42 if right else 43)))
    return {"name": f"{group}-{right}", "case": group, "group": group, "mode": mode, "standing": standing, "user": None,
            "replay_equal": True,
            "sayings": {"largest pressure": "lock", "busiest process": [42, "x"]},
            "truth": {**LOCK.__dict__, "end": list(LOCK.end)}, "judged": judged}


class Scoring(unittest.TestCase):
    """Many answers."""

    def test_averages_are_over_classes(self):
        rows = [row("a", True)] * 3 + [row("a", False)] + [row("b", False)]
        self.assertAlmostEqual(score.macro(rows, "right"), 0.375)
        self.assertIn("| macro average | 2 |", score.mode_table(rows))
        self.assertIn("| largest pressure | 5 of 5 (100 %) |", score.rules_table(rows))

    def test_the_page_keeps_what_is_not_the_fields(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "accuracy.md"
            path.write_text("# Accuracy\n\nthe lab's\n")
            page.write(path, "first")
            page.write(path, "second")
            text = path.read_text()
        self.assertEqual(text, f"# Accuracy\n\nthe lab's\n\n{page.BEGIN}\n\nsecond\n\n{page.END}\n")

    def test_misses_are_listed_with_what_is_wrong(self):
        self.assertIn("wrong: who", page.misses([row("a", False)]))
        self.assertEqual(page.plain("a`|\x1b[1m"), "`a   [1m`")


if __name__ == "__main__":
    unittest.main()
