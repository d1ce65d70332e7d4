"""What a case says before anybody looks: the truth, the question, and the case itself.

Owns the vocabulary of the corpus and the registry of cases. It must not know how a question is asked (ask.py) or judged
(lab.py). A truth is part of the question, so that it is written down before any answer exists; a truth that was changed
after an answer was seen says so in its case. Rejected: truths in a table apart from the cases (PIDs, ports and names are
known only when the case runs).

Edit together: README.md, lab/src/judgement/ends.rs.
"""

import dataclasses
from dataclasses import dataclass
from dataclasses import field as default

CASES = {}  # by name


class NotProven(Exception):
    """The fault does not bite, or a set-up step failed: nothing was asked, and the run says so."""


class Skip(Exception):
    """This machine cannot make the case: a program or a kernel feature is missing."""


@dataclass
class Truth:
    """What is known beforehand. An empty tuple means: not judged."""

    # Kinds of the closed list. More than one only where a chain can honestly be cut at more than one place: a lock that
    # an idle client holds ends at the lock or at the person. The first is the strict one; both figures are printed.
    end: tuple = ()
    object: tuple = ()  # of the strict kind: any of these in the object's kind, name or id, or in the last link of the chain
    who: tuple = ()  # any of these names or PIDs is who would have to act
    unseen: bool = False  # nothing outside the program says who holds it: to name nobody is right, another is wrong
    code: tuple = ()  # codes of a finding, also of rules that are still to come; empty: no rule should name it
    culprit: tuple = ()  # of that finding; empty: the same as who
    victim: tuple = ()  # who must be named as losing time
    healthy: bool = False  # nothing above note may be found
    note: str = ""

    def text(self):
        """A few words for a line of the table."""
        if self.healthy:
            return "healthy"
        if not self.end:
            return "measure"
        object_, who = (self.object or ("*",))[0], (self.who or ("*",))[0]
        return f"{self.end[0]}:{object_}@{who}"

    def plus(self, **changes):
        """The same truth but for some fields."""
        return dataclasses.replace(self, **changes)


HEALTHY = Truth(healthy=True)
MEASURE = Truth()  # only whether the wall time is accounted for


@dataclass
class Ask:
    """One question to holdup."""

    mode: str  # run, pid, host
    truth: Truth
    label: str = ""
    argv: list = None  # of run
    inside: list = None  # of run: what brings the command into its namespace; needs root also where holdup has none
    pid: int = None  # of pid
    secs: float = 4
    standing: bool = False  # nothing ends inside the window
    wall: float = None  # of run: the proof that it was slow
    ctrl_c: float = None  # of run: interrupted from a terminal after so many seconds
    tty: object = None  # of run: on a terminal: True, or a list of (seconds, bytes to type)
    during: list = default(default_factory=list)  # (seconds, function) inside the look
    prove: object = None  # called with the result, raises NotProven
    env: dict = None
    cwd: object = None
    quick: bool = False  # part of the short pass
    root: bool = False  # of run: the command itself needs root


def run(argv, truth, label="", **more):
    """`holdup run -- argv`."""
    return Ask("run", truth, label, argv=[str(word) for word in argv], **more)


def pid(pid_, truth, label="", **more):
    """`holdup -p PID`."""
    return Ask("pid", truth, label, pid=getattr(pid_, "pid", pid_), **{"secs": 3, **more})


def host(truth, label="", **more):
    """`holdup` on the whole host."""
    return Ask("host", truth, label, **{"secs": 3, **more})


@dataclass
class Case:
    """A program, and the ways in which it is held up."""

    name: str
    group: str  # the class: the folder of the file
    make: object  # a generator function: Stage -> Asks
    quick: bool = False
    about: str = ""


def case(name, quick=False):
    """Registers a case. Its class is the folder that its file is in."""

    def register(make):
        if name in CASES:
            raise ValueError(f"two cases are named {name}")
        group = make.__module__.split(".")[0]
        CASES[name] = Case(name, group, make, quick, " ".join((make.__doc__ or "").split()))
        return make

    return register
