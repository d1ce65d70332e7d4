"""The field's section of docs/accuracy.md, between its own markers.

The page is the lab's (lab/src/document.rs): it writes everything else and takes this section over as it stands, and this
file replaces nothing but the section. Rejected: a page of its own (one place should say how often the answer is right).

Edit together: lab/src/document.rs, which knows the markers.
"""

import datetime
import os
import subprocess

from . import score

BEGIN, END = "<!-- field: begin -->", "<!-- field: end -->"


def section(rows, origin, failed=()):
    """The section's text without its markers."""
    parts = [f"## The field: real programs\n\nMeasured on {origin}. Real programs, started as their manuals say and held up in "
             "one known way; what is right was written down before the look ([lab.md](lab.md), the cases in "
             "[lab/field](../lab/field/README.md)). To repeat it, as root:\n\n"
             "```console untested=takes-about-an-hour-as-root\n$ make field ARGS=--write-docs\n```"]
    for user in sorted({row.get("user") or "" for row in rows}):
        some = [row for row in rows if (row.get("user") or "") == user]
        title = "### As an ordinary user, `run`" if user else "### As root"
        parts.append(f"{title}\n\n{score.mode_table(some)}")
        if not user:
            parts.append(f"Simple rules on the same runs, compared by area:\n\n{score.rules_table(some)}")
    figures = score.run_figures(rows)
    figures.append(f"replay equals live: {score.shown(score.share(row.get('replay_equal') for row in rows))}")
    parts.append("\n".join(f"- {figure}" for figure in figures))
    parts.append("### What the field shows to be wrong\n\n" + (misses(rows) or "nothing"))
    if failed:
        parts.append("### Asked nothing, because the fault was not proven\n\n" + "\n".join(f"- {what}" for what in failed))
    return "\n\n".join(parts)


def misses(rows):
    """A line for each wrong end, cause or alarm."""
    out = []
    for row in rows:
        judgement, truth = row["judged"], score.truth_of(row)
        by = f"{row['name']} ({row['mode']}{', ordinary user' if row.get('user') else ''})"
        if judgement["alarm"]:
            out.append(f"- {by}: healthy, said {judgement['finding']}")
        elif judgement["right"] is False:
            out.append(f"- {by}: true {plain(truth.text())}, said {plain(judgement['end'])}; wrong: {judgement['why']}")
        elif judgement["named"] is False:
            out.append(f"- {by}: the end is right; no finding of {' or '.join(truth.code)}, said {plain(judgement['finding'])}")
    return "\n".join(out)


def plain(text):
    """A name that may hold anything, for a line of Markdown."""
    return "`" + "".join(c if c.isprintable() and c not in "`|" else " " for c in text)[:80].strip() + "`"


def origin(holdup):
    """Day, kernel, CPUs and version."""
    version = subprocess.run([holdup, "--version"], capture_output=True, text=True, check=False).stdout.split()
    return (f"{datetime.date.today().isoformat()} with kernel {os.uname().release} on {os.cpu_count()} CPUs, "
            f"holdup {version[1] if len(version) > 1 else '?'}")


def write(path, text):
    """Replaces the section, or adds it at the end."""
    page = path.read_text() if path.exists() else "# Accuracy\n"
    marked = f"{BEGIN}\n\n{text}\n\n{END}\n"
    if BEGIN in page and END in page:
        head, rest = page.split(BEGIN, 1)
        page = head + marked + rest.split(END, 1)[1].lstrip("\n")
    else:
        page = page.rstrip("\n") + "\n\n" + marked
    path.write_text(page)
