#!/usr/bin/env python3
"""The field corpus: real programs held up in one known way, and what holdup says about them.

  python3 lab/field --list                              every case, by class
  python3 lab/field [NAME...] [--class locks,names]     ask, as root (NAME* for a beginning)
  python3 lab/field --replay DIR [--holdup BIN]         ask the recordings of an earlier run again, without root
  python3 lab/field --replay DIR --rejudge              judge the saved answers anew
  python3 lab/field --questions [NAME...]               put the questions that holdup prints to the real programs
  python3 lab/field --clean                             undo what a killed run has left

Owns the command line. Cases are found in the folders beside this file: a folder is a class, and every file in it registers
cases. Python's own library only. See README.md.
"""

import argparse
import importlib
import os
import pathlib
import random
import sys
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness import lab, page, play, processes, questioning, score  # noqa: E402
from harness.truth import CASES  # noqa: E402

TREE = HERE.parent.parent
CLASSES = ("databases", "servers", "names", "locks", "processes", "memory_and_disk", "network", "people", "healthy")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="field", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases; NAME* for a beginning")
    parser.add_argument("--class", dest="classes", metavar="CLASS,..", help="only these classes: " + ", ".join(CLASSES))
    parser.add_argument("--mode", help="only these, of run,pid,host")
    parser.add_argument("--quick", action="store_true", help="the short pass: a few cases, packages of `make test` only")
    parser.add_argument("--at-least", type=float, metavar="PERCENT", help="fail below this share of right ends (macro average)")
    parser.add_argument("--user", metavar="NAME", help="ask `run` as this ordinary user")
    parser.add_argument("--seed", type=int, default=None, help="names, ports, times are drawn from it")
    parser.add_argument("--holdup", type=pathlib.Path, default=TREE / "target/holdup", metavar="BIN")
    parser.add_argument("--lab", type=pathlib.Path, metavar="BIN", help="the lab's program; default: the newest that was built")
    parser.add_argument("--save", type=pathlib.Path, metavar="DIR", help="default: target/field/DATE-TIME")
    parser.add_argument("--replay", type=pathlib.Path, metavar="DIR", help="ask the recordings of an earlier run")
    parser.add_argument("--rejudge", action="store_true", help="with --replay: judge its saved answers only")
    parser.add_argument("--write-docs", action="store_true", help="write the field's section of docs/accuracy.md")
    parser.add_argument("--questions", action="store_true", help="put the questions that holdup prints to the programs")
    parser.add_argument("--list", action="store_true", help="every case, by class")
    parser.add_argument("--clean", action="store_true", help="undo what a killed run has left")
    options = parser.parse_args()
    options.holdup = str(options.holdup.resolve())
    options.save = (options.save or TREE / "target/field" / time.strftime("%Y%m%d-%H%M%S")).resolve()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1, 10000)
    return options


def load():
    """Imports every case."""
    for group in CLASSES:
        for path in sorted((HERE / group).glob("*.py")):
            importlib.import_module(f"{group}.{path.stem}")


def listed():
    """Every case with its sentence."""
    for group in CLASSES:
        for case in CASES.values():
            if case.group == group:
                print(f"{group:<16} {case.name:<26} {'quick ' if case.quick else ''}{case.about}")


def ready(options):
    """Faults can be made, and holdup is there."""
    if os.geteuid() != 0:
        sys.exit("field: faults are made as root; --replay and --list need none")
    if not os.access(options.holdup, os.X_OK):
        sys.exit(f"field: no holdup at {options.holdup}: make build, or --holdup BIN")
    for line in lab.clean():
        print(f"of killed runs: {line}")
    processes.become_subreaper()


def put_questions(options):
    """The programs' own answers, as a table; the exit status."""
    importlib.import_module("questions")
    it = questioning.Questioning(options)
    status = it.all()
    print(it.table())
    return status


def asked(options):
    """Asks live; (rows, exit status)."""
    ready(options)
    it = play.Play(options)
    print(f"field: seed {options.seed}, answers and recordings in {options.save}", flush=True)
    it.all(play.chosen(options))
    print(score.summary(it.rows, it.failed, it.skipped))
    if options.write_docs and it.whole:
        # Answers to an ordinary user stand beside those to root if both were saved into one folder.
        write_docs(options, score.read(options.save / "results.jsonl"), it.failed)
    status = 1 if it.left or not it.whole else 0
    if options.quick and not options.names:
        status = max(status, put_questions(options))
    return it.rows, status


def write_docs(options, rows, failed):
    """The field's section of the page, which is of all cases."""
    if options.names or options.classes or options.quick or options.mode:
        sys.exit("field: the page is of all cases: --write-docs goes without names, classes, modes and --quick")
    page.write(TREE / "docs/accuracy.md", page.section(rows, page.origin(options.holdup), failed))


def main():
    """Runs what is asked for."""
    options, status = arguments(), 0
    load()
    if options.list:
        listed()
        return 0
    lab.Program.find(options.lab)
    if options.clean:
        for line in lab.clean():
            print(line)
        return 0
    if options.questions:
        ready(options)
        return put_questions(options)
    if options.replay:
        rows = play.replay(options)
        print(score.summary(rows, [], []))
        if options.write_docs:
            write_docs(options, rows, [])
    else:
        rows, status = asked(options)
    right = score.macro(score.faults(rows), "right")
    if options.at_least is not None and (right is None or 100 * right < options.at_least):
        print(f"field: right end {score.percent(right)}, less than {options.at_least} %")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
