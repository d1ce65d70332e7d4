"""Tests of what is pure in the harness: the figures, what a truth says, and the page that is not its own.

`make test` runs them, without root and without holdup: python3 -m unittest discover -s lab/field/harness -t lab/field. The judge
is the lab's, and tested there (lab/src/judgement); what starts programs is tested by `--quick`, live.
"""

import pathlib
import tempfile
import unittest

from harness import page, score
from harness.truth import HEALTHY, MEASURE, Truth


LOCK = Truth(end=("lock", "person"), object=("postgres",), who=(41, 42), code=("lock.row",))


def row(group, right, mode="run", standing=False):
    """A judged ask."""
    judged = {"right": right, "strict": right, "named": False, "alarm": None, "why": "" if right else "who", "area": True,
              "areas": ["lock", "process"], "busiest": True, "end": "lock:inside postgres@postgres", "finding": "-", "title": "",
              "sum": 1.0, "idle": 0.0, "open": 0.0, "wall": 2.0}
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

    def test_a_simple_rule_is_right_by_area_and_the_busiest_process_by_who(self):
        rows = [row("a", True), row("a", False)]
        self.assertEqual(score.rule_area(rows, "largest pressure"), (2, 2))
        self.assertEqual(score.names_who(rows), ((1, 2), (2, 2)))
        rows[0]["judged"]["areas"] = ["disk"]
        self.assertEqual(score.rule_area(rows, "largest pressure"), (1, 2))

    def test_a_truth_is_said_in_a_few_words(self):
        self.assertEqual(LOCK.text(), "lock:postgres@41")
        self.assertEqual((HEALTHY.text(), MEASURE.text()), ("healthy", "measure"))

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
