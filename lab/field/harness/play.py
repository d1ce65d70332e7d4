"""Plays cases: sets each up, asks its questions, judges, and goes on whatever happens.

Owns the order of things and the saved rows (results.jsonl). One broken case does not end the run; what was not proven is
listed and not scored. A signal ends the run after the case in hand has been undone.
"""

import dataclasses
import json
import os
import signal
import traceback

from . import ask as asking
from . import score
from .lab import judge
from .stage import Run, Stage
from .truth import CASES, NotProven, Skip


STOLEN = 0.05  # of the CPUs: whoever computes feels more


class Play:
    """One run over some cases."""

    def __init__(self, options):
        self.options = options
        self.rows, self.failed, self.skipped, self.left = [], [], [], []
        self.whole = False  # whether all the cases were played
        options.save.mkdir(parents=True, exist_ok=True)

    def wanted(self, ask):
        """Whether this question is asked in this run."""
        options = self.options
        if options.quick and not ask.quick or options.mode and ask.mode not in options.mode.split(","):
            return False
        return not (options.user and (ask.mode != "run" or ask.root))

    def all(self, chosen):
        """Plays the cases; a signal ends the run in good order."""
        def stop(*_):
            raise KeyboardInterrupt
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        run = Run(self.options.seed, self.options.user)
        try:
            for case in chosen:
                self.one(run, case)
            self.whole = True
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        finally:
            run.close()

    def one(self, run, case):
        """Plays one case and undoes it."""
        stage, questions = Stage(run, case.name), None
        try:
            questions = case.make(stage)
            result = None
            while True:
                result = self.ask(case, questions.send(result), stage)
        except StopIteration:
            pass
        except Skip as e:
            self.say_skipped(case.name, e)
        except NotProven as e:
            self.say_failed(case.name, e)
        except KeyboardInterrupt:
            raise
        except Exception as e:  # one broken case must not end the run
            self.say_failed(case.name, f"broken: {e!r}")
            traceback.print_exc()
        finally:
            if questions:
                questions.close()
            self.left += stage.close()

    def ask(self, case, ask, stage):
        """One question of a case; what the case gets back."""
        name = case.name + ("/" + ask.label if ask.label else "")
        if not self.wanted(ask):
            return None
        suffix = f".{self.options.user}" if self.options.user else ""
        base = str(self.options.save / f"{name.replace('/', '+')}.{ask.mode}{suffix}")
        try:
            result = asking.perform(ask, self.options.holdup, base, stage, self.options.user)
            wall = result.json["accounting"]["wall_seconds"]
            if ask.wall and wall < ask.wall:
                raise NotProven(f"it took {wall:.2f} s, less than {ask.wall}: the fault does not bite")
            if ask.truth.healthy and result.stolen > STOLEN:
                raise NotProven(f"the hypervisor took {result.stolen:.0%} of the CPUs meanwhile: no healthy host")
            if ask.prove:
                ask.prove(result)
        except NotProven as e:
            self.say_failed(f"{name} {ask.mode}", e)
            return None
        row = {"name": name, "case": case.name, "group": case.group, "mode": ask.mode, "user": self.options.user,
               "standing": ask.standing, "base": os.path.basename(base), "seed": self.options.seed,
               "truth": dataclasses.asdict(ask.truth), "seconds": round(result.seconds, 3), "status": result.status,
               "sayings": result.sayings, "replay_equal": result.replay_equal,
               "judged": judge(dataclasses.asdict(ask.truth), result.json, result.sayings)}
        self.rows.append(row)
        with open(self.options.save / "results.jsonl", "a", encoding="utf-8") as results:
            results.write(json.dumps(row) + "\n")
        print(score.line(row), flush=True)
        return result

    def say_failed(self, name, why):
        """A fault that was not proven."""
        why = " ".join(str(why).split())
        self.failed.append(f"{name}: {why}")
        print(f"{name:<36} NOT PROVEN {why[:300]}", flush=True)

    def say_skipped(self, name, why):
        """A case that this machine cannot make."""
        self.skipped.append(f"{name}: {why}")
        print(f"{name:<36} left out: {why}", flush=True)


def chosen(options):
    """The cases that the command line asks for."""
    def named(case):
        return any(case.name == name or name.endswith("*") and case.name.startswith(name[:-1]) for name in options.names)
    groups = options.classes.replace("-", "_").split(",") if options.classes else None
    return [case for case in CASES.values() if (not options.names or named(case)) and
            (not groups or case.group in groups) and (not options.quick or case.quick)]


def replay(options):
    """Asks saved recordings again, or judges saved answers anew; the rows."""
    rows = []
    for row in score.read(options.replay / "results.jsonl"):
        if options.names and row["case"] not in options.names:
            continue
        if options.classes and row["group"] not in options.classes.split(","):
            continue
        base = options.replay / row["base"]
        try:
            if options.rejudge:
                data = json.loads(base.with_name(base.name + ".json").read_text())
            else:
                data = json.loads(asking.replayed(options.holdup, f"{base}.hup", "--json"))
        except (OSError, ValueError) as e:
            print(f"{row['name']:<36} {row['mode']:<5} no answer from the recording: {e}")
            continue
        row["judged"] = judge(row["truth"], data, row["sayings"])
        rows.append(row)
        print(score.line(row), flush=True)
    return rows
