"""Whether an answer is right: the largest end, and the first finding, each against the truth.

Pure: an answer and a truth in, a dict out; saved answers can be judged again. There is one rule for all hosts and moments: a
wrong answer on a busy machine is a wrong answer. The corpus is meant for a machine that does nothing else.

Two judgements, as docs/lab.md has them:
- right end: the largest of `answer.ends` has the kind, the object and the responsible process of the truth, or names
  nobody where nobody can be seen from outside;
- named: the first finding above note has the code, the object and the culprit of the truth.

Edit together: truth.py, score.py.
"""

import re

# What a simple rule could say of each kind of end: they are compared by area only, the kindest rule for them.
AREAS = {
    "works": "cpu", "cpu": "cpu", "device": "disk", "memory": "memory", "lock": "lock", "link": "net", "remote": "net",
    "sleep": "process", "limit": "process", "person": "process",
}


def flat(value):
    """All the text in a piece of JSON, lower case."""
    if isinstance(value, dict):
        return " ".join(flat(v) for v in value.values())
    if isinstance(value, list):
        return " ".join(flat(v) for v in value)
    return str(value).lower()


def any_in(needles, value):
    """Whether one of them is there. A word or a PID is compared whole: sleep is not in clock_nanosleep."""
    text = flat(value)
    for needle in needles:
        needle = str(needle).lower()
        if re.search(rf"\b{needle}\b", text) if re.fullmatch(r"\w+", needle) else needle in text:
            return True
    return not needles


def judge_end(truth, end):
    """(right, right with the strict kind, what is wrong) of the largest end."""
    kind, who = end.get("end") in truth.end, end.get("who")
    # The truth's object is that of the strict kind; a chain that was cut elsewhere is judged by who.
    elsewhere = kind and end["end"] != truth.end[0]
    object_ = elsewhere or any_in(truth.object,
                                  [end.get("object", {}), [link.get("waits_on") for link in end.get("chain", [])[-1:]]])
    by = any_in(truth.who, who or end.get("object", {})) or (truth.unseen and not who) or end.get("end") == "idle"
    victims = any_in(truth.victim, [end.get("victims", []), end.get("chain", [])])
    wrong = [word for word, ok in (("kind", kind), ("object", object_), ("who", by), ("victim", victims)) if not ok]
    return not wrong, not wrong and end["end"] == truth.end[0], " ".join(wrong)


def judge_finding(truth, finding):
    """Whether the first finding names the cause."""
    if not finding or finding["code"] not in truth.code:
        return False
    places = [finding["object"], [link.get("waits_on") for link in finding.get("chain", [])[-1:]]]
    return any_in(truth.object, places) and any_in(truth.culprit or truth.who, finding["culprit"])


def judge(truth, data):
    """What was said, against the truth."""
    pressing = [finding for finding in data.get("findings", []) if finding["severity"] != "note"]
    first = pressing[0] if pressing else None
    answer = data.get("answer") or {}
    ends = answer.get("ends", [])
    wall = data["accounting"]["wall_seconds"] or 1e-9
    largest = ends[0] if ends else {"end": "idle"} if answer.get("verdict") == "idle" else {}
    out = {
        "wall": wall, "verdict": answer.get("verdict"), "title": answer.get("title", ""),
        "finding": f"{first['code']}@{first['culprit'].get('name', '')}" if first else "-",
        "end": f"{largest['end']}:{largest.get('object', {}).get('name', '')}@{largest.get('who', {}).get('name', '')}"
        if largest else "-",
        "sum": sum(end["seconds"] for end in ends) / wall,
        "idle": sum(end["seconds"] for end in ends if end["end"] == "idle") / wall,
        "open": sum(end["seconds"] for end in ends if end["end"] == "open" and not end.get("why_open")) / wall,
        "right": None, "strict": None, "named": None, "alarm": None, "why": "", "area": None,
    }
    if truth.healthy:
        out["alarm"] = bool(pressing)
    elif truth.end:
        out["right"], out["strict"], out["why"] = judge_end(truth, largest)
        out["area"] = AREAS.get(largest.get("end")) in areas_of(truth)
        if truth.code:
            out["named"] = judge_finding(truth, first)
    return out


def areas_of(truth):
    """Areas that are right for a truth."""
    return {AREAS[kind] for kind in truth.end if kind in AREAS}
