"""The lab's program, which judges, watches and undoes for the field as it does for itself.

What both have exists once, in Rust: whether an answer is right (lab/src/judgement), what simple rules say of the same look
(lab/src/baseline.rs), and how what was made on the host is taken back, by whoever made it or after a kill -9 (lab/src/undo.rs).
The field has what only it can have: real programs and their proofs, and what is drawn and averaged over its classes.

Rejected: a second judge in Python (two rules of when a name is the true one drift apart), and finding what a killed run has
left by its names (a pattern would one day match somebody else's).

Edit together: lab/src/main.rs (the commands), lab/src/undo.rs (the form of a journal).
"""

import json
import os
import pathlib
import subprocess

TREE = pathlib.Path(__file__).resolve().parents[3]
JOURNALS = pathlib.Path("/run/holdup-lab")


class Program:
    """Where it is: built beside holdup, or given by --lab."""

    path = None

    @classmethod
    def find(cls, given=None):
        """The one that was given, or the newest that was built."""
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target"))
        built = [path for kind in ("release", "debug") for path in [target / kind / "holdup-lab"] if path.exists()]
        newest = max(built, key=lambda path: path.stat().st_mtime, default=None)
        cls.path = str(given or newest or "")
        if not os.access(cls.path, os.X_OK):
            raise SystemExit("field: no holdup-lab: cargo build -p holdup-lab, or --lab BIN")


def run(*argv, text=None):
    """Runs it; what it prints. It ends with what is wrong as its message."""
    done = subprocess.run([Program.path, *map(str, argv)], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip().removeprefix("holdup-lab: "))
    return done.stdout


def judge(truth, report, sayings=None):
    """What was said, against the truth: a dict."""
    question = {"truth": truth, "report": report, "sayings": sayings or {}}
    return json.loads(run("judge", text=json.dumps(question)))


def clean():
    """Undoes what killed runs have left; a line for each thing."""
    return run("clean").splitlines()


class Watch:
    """Begins with the look; `end` says what each rule says: an area, a [PID, name], or nothing."""

    def __init__(self):
        self.stolen = 0.0  # what of the CPUs the hypervisor took meanwhile, by the kernel's own count
        pipe = subprocess.PIPE
        self.program = subprocess.Popen([Program.path, "watch"], stdin=pipe, stdout=pipe, text=True)
        self.program.stdout.readline()

    def end(self):
        """The look is over."""
        seen = json.loads(self.program.communicate()[0])
        self.stolen = seen["stolen"]
        return seen["sayings"]


class Journal:
    """What a run makes on the host, written down before it is made; undone by the lab's program."""

    def __init__(self):
        JOURNALS.mkdir(exist_ok=True)
        stat = pathlib.Path("/proc/self/stat").read_text()
        start = stat[stat.rindex(")") + 2:].split()[19]
        self.path = JOURNALS / f"journal-{os.getpid()}-{start}"
        self.path.touch()
        self.number = 0

    def guard(self, undo, **what):
        """Writes down how something is taken back that is about to be made."""
        self.number += 1
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"number": self.number, "undo": undo, **what}) + "\n")

    def undo(self, after):
        """Takes back what was made after that number, last first; what would not go."""
        if self.number == after:
            return []
        try:
            run("undo", self.path, "--after", after)
        except OSError as e:
            return [str(e)]
        return []

    def close(self):
        """Everything is taken back."""
        self.path.unlink(missing_ok=True)
