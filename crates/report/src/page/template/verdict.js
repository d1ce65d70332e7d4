/* The verdict as the text report has it: what holds it up, how sure, the way out with its undo, and what limits the answer.
 *
 * Commands can be copied, and only those that a terminal will take as they are read: one with control characters in a name is
 * shown spelled out and not offered. Must not: word what the report does not say. */

const SEVERITY = { critical: "critical", warning: "warning", note: "worth knowing" };

function target() {
  const it = report.target;
  const name = cut(it.name, 120);
  if (it.kind === "host") return name || picture.host.name || "this host";
  if (it.kind === "container") return "container " + name;
  if (it.kind === "process") return name + (it.pid ? " " + it.pid : "");
  return name;
}

function head() {
  const facts = [moment(report.window.begin_unix_ns), "looked " + seconds(report.window.seconds)];
  if (picture.host.name && report.target.kind !== "host") facts.push("on " + cut(picture.host.name, 60));
  if (picture.host.kernel) facts.push("Linux " + cut(picture.host.kernel, 60));
  if (picture.host.cpus) facts.push(plural(picture.host.cpus, "CPU", "CPUs"));
  if (report.target.exit_status !== undefined) facts.push("exit status " + report.target.exit_status);
  return h("header", {},
    h("p", { class: "brand" }, h("strong", {}, "holdup"), " ", h("span", { class: "target" }, target())),
    h("p", { class: "facts" }, facts.filter(Boolean).map((it) => h("span", {}, it))));
}

function waysOut(finding) {
  if (!finding.remedy.length) return null;
  return h("div", { class: "ways" }, h("h3", {}, finding.remedy.length > 1 ? "Ways out, best first" : "The way out"),
    h("ol", { class: finding.remedy.length > 1 ? null : "single" }, finding.remedy.map((way) => h("li", {},
      h("p", {}, way.text), command(way.command, "the command"),
      way.undo ? h("p", { class: "undo" }, "and to take it back") : null, command(way.undo, "its undo")))));
}

function badges(finding) {
  return h("p", { class: "badges" },
    h("span", { class: "badge " + finding.severity }, SEVERITY[finding.severity] || finding.severity),
    h("span", { class: "badge" }, percent(finding.confidence) + " sure"),
    h("span", { class: "badge code" }, finding.code));
}

function victims(list) {
  if (!list.length) return null;
  const byName = new Map();
  for (const victim of list) {
    const whole = victim.comm + "\n" + (victim.workload || "");
    const known = byName.get(whole) || { name: victim.comm, of: victim.workload, pids: [], seconds: 0 };
    known.pids.push(victim.pid);
    known.seconds += victim.wait_seconds;
    byName.set(whole, known);
  }
  const names = [...byName.values()].sort((a, b) => b.seconds - a.seconds).slice(0, 6).map((it) =>
    cut(it.name, 40) + (it.pids.length > 1 ? " × " + it.pids.length : " " + it.pids[0]) +
    (it.of ? " in " + cut(it.of, 60) : "") + " (" + seconds(it.seconds) + ")");
  const more = byName.size - names.length;
  return h("p", { class: "losers" }, h("span", { class: "muted" }, "Who waits: "), names.join(", "), more > 0 ? ", and " + more + " more" : "");
}

function mainVerdict() {
  const answer = report.answer;
  const finding = answer.verdict === "held" ? report.findings[0] : null;
  const first = answer.first === undefined ? null : ends[answer.first];
  const tone = finding ? finding.severity : { held: "warning", waits: "warning", works: "good", idle: "good" }[answer.verdict] || "good";
  const box = h("section", { id: "verdict", class: "verdict " + tone, "aria-labelledby": "verdict-title" },
    finding ? badges(finding) : h("p", { class: "badges" }, h("span", { class: "badge " + tone }, answer.verdict)),
    h("h1", { id: "verdict-title" }, answer.title || "No time was seen."),
    answer.text ? h("p", { class: "lead" }, answer.text) : null,
    finding ? victims(finding.victims) : null,
    finding ? waysOut(finding) : null);
  if (!finding && first && first.ask && answer.verdict !== "idle") {
    box.append(h("div", { class: "ways" }, h("h3", {}, "Only the program itself knows more: ask it"), command(first.ask, "the question")));
  }
  return box;
}

const OTHERS_SHOWN = 4;
function otherFindings() {
  const others = report.findings.filter((_, at) => !(at === 0 && report.answer.verdict === "held"));
  if (!others.length) return null;
  const one = (finding) => h("article", { class: "finding " + finding.severity },
    badges(finding), h("h3", {}, finding.title), h("p", {}, finding.text), victims(finding.victims),
    finding.remedy.length ? folded("The way out", ON_PAPER, waysOut(finding)) : null);
  const [first, rest] = [others.slice(0, OTHERS_SHOWN), others.slice(OTHERS_SHOWN)];
  return section("others", "Also found", first.map(one), rest.length ? folded(number(rest.length) + " more", ON_PAPER, rest.map(one)) : null);
}

function limits() {
  const seen = new Set();
  const caveats = report.caveats.filter((it) => {
    const again = it.code.startsWith("blind.") && seen.has(it.code);
    seen.add(it.code);
    return !again;
  });
  if (!caveats.length) return null;
  const list = h("ul", {}, caveats.map((it) => h("li", {}, it.text)));
  return h("section", { id: "limits", class: "quiet", "aria-labelledby": "limits-title" },
    h("h2", { id: "limits-title" }, "What limits this answer"),
    caveats.length <= 3 ? list : folded(plural(caveats.length, "caveat", "caveats"), ON_PAPER, list));
}
