"""Puts the questions that holdup prints to the programs themselves.

Where only a program knows more, an answer ends in a command with the process and its address filled in. Here a program is held
up, holdup is asked, the command is taken out of its answer and run word for word by root, and what it prints must name the
truth. Owns the rows' registry and the table. Must not: repair a command, or give it anything that a person at a prompt has not.

Edit together: ../questions.py, crates/reason/src/rules/ask.rs.
"""

import os
import re
import subprocess
import traceback
from dataclasses import dataclass

from . import ask as asking
from .stage import Run, Stage
from .truth import Ask, NotProven, Skip

ROWS = []
PATIENCE = 30  # seconds for one command
SHOWN = 110  # characters of what a program said


@dataclass
class Row:
    """A program, and how it is held up."""

    name: str
    make: object  # a generator function: Stage -> Questions
    quick: bool
    about: str


@dataclass
class Question:
    """What is asked of holdup, the program that its command must ask, and what the program must say (patterns)."""

    ask: Ask
    tool: str
    says: tuple
    path: str = ""  # of a tool that Debian has not: its folder


def question(name, quick=False):
    """Registers a row of the table."""

    def register(make):
        ROWS.append(Row(name, make, quick, " ".join((make.__doc__ or "").split())))
        return make

    return register


def commands(data):
    """Every command of an answer, those of its ends first."""
    ends = [end.get("ask", "") for end in data["answer"]["ends"]]
    ways = [way.get("command", "") for finding in data["findings"] for way in finding.get("remedy", [])]
    return [command for command in ends + ways if command]


def chosen(data, tool):
    """The first command that begins with a tool, maybe run by another user or in another namespace."""
    found = [command for command in commands(data) if re.search(rf"^(\S+ -+\S* ?\S* -- |ip netns exec \S+ )?{tool}\b", command)]
    return found[0] if found else None


def put(command, path=""):
    """Runs it as it is printed; what it says."""
    env = {"PATH": ":".join([os.environ["PATH"], "/usr/sbin", "/sbin"] + [path] * bool(path)), "HOME": "/root", "TERM": "xterm",
           "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=PATIENCE, env=env, cwd="/", check=False)
    except subprocess.TimeoutExpired:
        return f"(no answer within {PATIENCE} s)"
    return done.stdout


def judged(question, command, said):
    """(what it said, whether it holds)."""
    if command is None:
        return f"no {question.tool} in the answer", False
    found = [re.search(pattern, said) for pattern in question.says]
    if not all(found):
        missing = [pattern for pattern, match in zip(question.says, found) if not match]
        return f"not said: {missing[0]}; but: {' '.join(said.split())[-200:]}", False
    return " ... ".join(" ".join(match.group(0).split()) for match in found), True


class Questioning:
    """One run over the rows; `lines` is the table."""

    def __init__(self, options):
        self.options, self.lines, self.left, self.wrong = options, [], [], 0
        options.save.mkdir(parents=True, exist_ok=True)

    def all(self):
        """Every row, or the named ones."""
        options = self.options
        run = Run(options.seed)
        try:
            for row in ROWS:
                if (not options.names or row.name in options.names) and (not options.quick or row.quick):
                    self.one(run, row)
        finally:
            run.close()
        return 1 if self.wrong or self.left else 0

    def one(self, run, row):
        """Makes the fault, asks holdup, asks the program, and undoes it."""
        stage, questions = Stage(run, f"ask-{row.name}"), None
        try:
            questions = row.make(stage)
            for question in questions:
                self.ask(row, question, stage)
        except Skip as e:
            self.say(row.name, "", f"left out: {e}", None)
        except NotProven as e:
            self.say(row.name, "", f"NOT PROVEN: {' '.join(str(e).split())[:200]}", False)
        except Exception as e:  # one broken row must not end the run
            traceback.print_exc()
            self.say(row.name, "", f"broken: {e!r}", False)
        finally:
            if questions:
                questions.close()
            self.left += stage.close()

    def ask(self, row, question, stage):
        """One question."""
        base = str(self.options.save / f"question-{row.name}.{question.ask.mode}")
        result = asking.perform(question.ask, self.options.holdup, base, stage)
        command = chosen(result.json, question.tool)
        said = put(command, question.path) if command else ""
        with open(f"{base}.said", "w", encoding="utf-8") as file:
            file.write(f"$ {command}\n{said}")
        self.say(row.name, command or "", *judged(question, command, said))

    def say(self, name, command, said, holds):
        """A line of the table."""
        word = {None: "-", True: "yes", False: "NO"}[holds]
        self.wrong += holds is False
        self.lines.append(f"| {name} | `{command}` | {said} | {word} |")
        print(f"{name:<12} {word:<4} {command}\n{'':<17} {said[:3 * SHOWN]}", flush=True)

    def table(self):
        """Program, question, what it said, holds: as Markdown."""
        return "\n".join(["| program | question | what it said | holds |", "| --- | --- | --- | --- |"] + self.lines)
