"""From judged asks to figures and tables. Pure: rows in, text out.

Averages are macro over classes, so that a class with many cases does not outweigh the others; a class counts where it has
something to judge. Ended and standing variants count separately, because a hang inside the window makes no events.

Edit together: page.py, README.md.
"""

import json

from .truth import Truth

RULES = ("highest utilisation", "largest pressure", "longest await", "longest off-CPU stack")
SUM_TOLERANCE = 0.001  # share of the wall time that the ends of a command may lack
LOST = 0.01  # share of the wall time that may be idle, or open without a reason


def truth_of(row):
    """The truth of a saved row."""
    return Truth(**{key: tuple(value) if isinstance(value, list) else value for key, value in row["truth"].items()})


def share(values):
    """(right, of) without those that were not judged."""
    values = [bool(value) for value in values if value is not None]
    return sum(values), len(values)


def shown(pair):
    """12 of 13 (92 %)."""
    right, of = pair
    return f"{right} of {of} ({100 * right / of:.0f} %)" if of else "-"


def judged(rows, key):
    """A judgement of all rows."""
    return share(row["judged"][key] for row in rows)


def faults(rows):
    """Rows with something wrong."""
    return [row for row in rows if row["truth"]["end"]]


def healthy(rows):
    """Rows with nothing wrong."""
    return [row for row in rows if row["truth"]["healthy"]]


def classes(rows):
    """Their names."""
    return sorted({row["group"] for row in rows})


def macro(rows, key):
    """The average over classes of the share that is right; None without any."""
    pairs = [judged([row for row in rows if row["group"] == group], key) for group in classes(rows)]
    shares = [right / of for right, of in pairs if of]
    return sum(shares) / len(shares) if shares else None


def percent(value):
    """92.3 %, or a dash."""
    return "-" if value is None else f"{100 * value:.1f} %"


def rule_area(rows, rule):
    """How often a simple rule names the area of the truth."""
    return share(row["sayings"].get(rule) in row["judged"]["areas"] for row in faults(rows))


def rule_alarms(rows, rule):
    """How often it says something of a healthy run."""
    return share(row["sayings"].get(rule) is not None for row in healthy(rows))


def names_who(rows):
    """(holdup, the busiest process) where the truth says who: how often it is named."""
    with_who = [row for row in faults(rows) if row["truth"]["who"] and not row["truth"]["unseen"]]
    busiest = share(row["judged"]["busiest"] for row in with_who)
    return share("who" not in row["judged"]["why"].split() for row in with_who), busiest


def names_of(rows):
    """Distinct ways in which something is held up."""
    return len({row["name"] for row in rows})


def line(row):
    """One ask, for a terminal."""
    judgement, truth = row["judged"], truth_of(row)
    if truth.healthy:
        said = "ALARM" if judgement["alarm"] else "quiet"
    elif not truth.end:
        said = "measured"
    else:
        right = "OK" if judgement["strict"] else "ok" if judgement["right"] else "MISS"
        named = {None: "-", True: "OK", False: "MISS"}[judgement["named"]]
        said = f"end {right:<5}named {named}"
    title = judgement["title"][:90] + (f" ({judgement['why']})" if judgement["why"] else "")
    return (f"{row['name']:<36} {row['mode']:<5} {truth.text()[:40]:<40} {said:<20} wall {judgement['wall']:6.2f} "
            f"sum {judgement['sum']:.3f} {judgement['finding'][:40]:<40} {judgement['end'][:48]:<48} | {title}")


def mode_table(rows):
    """The score by class and mode, as Markdown."""
    heads = ["class", "cases", "faults", "healthy runs", "right end", "`run`", "`-p`", "host", "ended", "standing", "strict kind",
             "named", "false alarms"]
    out = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    for group in classes(rows):
        some = [row for row in rows if row["group"] == group]
        bad = faults(some)
        cells = [group.replace("_", " "), len({row["case"] for row in some}), names_of(bad), names_of(healthy(some)),
                 shown(judged(bad, "right"))]
        cells += [shown(judged([row for row in bad if row["mode"] == mode], "right")) for mode in ("run", "pid", "host")]
        cells += [shown(judged([row for row in bad if row["standing"] is hang], "right")) for hang in (False, True)]
        cells += [shown(judged(bad, "strict")), shown(judged(bad, "named")), shown(judged(some, "alarm"))]
        out.append("| " + " | ".join(map(str, cells)) + " |")
    bad = faults(rows)
    cells = ["macro average", len({row["case"] for row in rows}), names_of(bad), names_of(healthy(rows)),
             percent(macro(bad, "right"))]
    cells += [percent(macro([row for row in bad if row["mode"] == mode], "right")) for mode in ("run", "pid", "host")]
    cells += [percent(macro([row for row in bad if row["standing"] is hang], "right")) for hang in (False, True)]
    alarms, of = judged(rows, "alarm")
    cells += [percent(macro(bad, "strict")), percent(macro(bad, "named")), shown((alarms, of))]
    return "\n".join(out + ["| " + " | ".join(map(str, cells)) + " |"])


def rules_table(rows):
    """holdup against the simple rules, as Markdown."""
    out = ["| rule | right area | alarms on healthy runs |", "| --- | --- | --- |",
           f"| holdup | {shown(judged(faults(rows), 'area'))} | {shown(judged(rows, 'alarm'))} |"]
    out += [f"| {rule} | {shown(rule_area(rows, rule))} | {shown(rule_alarms(rows, rule))} |" for rule in RULES]
    own, busiest = names_who(rows)
    return "\n".join(out) + (f"\n\nWhere the truth names a process: holdup names it in {shown(own)}, the busiest process is it "
                             f"in {shown(busiest)}.")


def run_figures(rows):
    """What must hold of every command: its ends add up, and nothing is lost. A list of sentences."""
    runs = [row for row in rows if row["mode"] == "run"]
    if not runs:
        return []
    apart = sum(abs(row["judged"]["sum"] - 1) > SUM_TOLERANCE for row in runs)
    lost = [row["judged"]["idle"] + row["judged"]["open"] for row in runs]
    return [f"ends of a command that do not add up to its wall time within {100 * SUM_TOLERANCE:.1f} %: {apart} of {len(runs)}",
            f"commands of which more than {100 * LOST:.0f} % is idle, or open without a reason: "
            f"{sum(x > LOST for x in lost)} of {len(runs)}, the worst {percent(max(lost))}"]


def summary(rows, failed, skipped):
    """The whole score, for a terminal."""
    out = [mode_table(rows), "", rules_table(rows), ""] + run_figures(rows)
    replays = share(row.get("replay_equal") for row in rows)
    out.append(f"replay equals live: {shown(replays)}")
    out += [f"not proven: {len(failed)}"] + [f"  {what[:300]}" for what in failed]
    out += [f"left out: {len(skipped)}"] + [f"  {what[:200]}" for what in skipped]
    bad = faults(rows)
    cases = len({row["case"] for row in rows})
    out.append(f"{cases} cases, {names_of(bad)} faults, {names_of(healthy(rows))} healthy runs, {len(rows)} asks; "
               f"right end {percent(macro(bad, 'right'))}, named {percent(macro(bad, 'named'))}, "
               f"false alarms {shown(judged(rows, 'alarm'))}")
    return "\n".join(out)


def read(path):
    """Rows of a results.jsonl, the last of each ask."""
    rows = {}
    for text in path.read_text().splitlines():
        row = json.loads(text)
        rows[row["name"], row["mode"], row.get("user")] = row
    return list(rows.values())
