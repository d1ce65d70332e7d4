/* What stands behind the answer: evidence and what would have refuted it, the queues, the kernel stacks, and the cost of the look.
 *
 * With an end chosen, only its finding's evidence and its threads' stacks are shown. Must not: say that something was ruled out that
 * the rule does not test. */

function evidenceSection() {
  if (!report.findings.length) return null;
  const box = h("div", {});
  const refresh = () => {
    const only = chosen.end === null ? null : ends[chosen.end].finding;
    const list = report.findings.filter((_, at) => chosen.end === null || only === at);
    const one = (finding, at) => (at === 0 ? evidence(finding) : folded(finding.title, {}, evidence(finding)));
    box.replaceChildren(...(list.length ? list.map(one) : [h("p", { class: "muted" }, "No rule gave the chosen end a name: what is known of it is above.")]));
  };
  onChoice(refresh);
  refresh();
  return section("evidence", "Why it is said", box);
}
function evidence(finding) {
  const rule = data.rules[finding.code];
  return h("article", { class: "evidence" }, h("h3", {}, finding.title),
    finding.evidence.length ? table("Evidence", ["what was found", right("value"), "where it was read"],
      finding.evidence.map((it) => [it.fact, right(inUnit(it.value, it.unit)), it.source])) : null,
    rule && rule.needs.length ? [h("h4", {}, "It is said only if, and so it was seen that"), h("ul", {}, rule.needs.map((it) => h("li", {}, it)))] : null,
    rule && rule.refuted_by.length ? [h("h4", {}, "Ruled out: it would not be said if"), h("ul", { class: "ruled-out" }, rule.refuted_by.map((it) => h("li", {}, it)))] : null,
    h("p", { class: "muted small" }, "holdup explain " + finding.code));
}

const QUEUE_KINDS = { disk: "disk", packets: "packet queue", "run queue": "run queue", accept: "accept queue" };
function queuesSection() {
  if (!picture.queues.length) return null;
  const some = (value, show) => right(value === undefined || value === null ? "·" : show(value));
  const little = (row) => {
    if (row.little_residual === undefined || row.little_residual === null) return right("·");
    return right(percent(row.little_residual) + (row.little_residual > 0.05 ? " (unmeasured)" : ""));
  };
  const rows = picture.queues.map((row) => [h("span", {}, row.name, h("small", {}, QUEUE_KINDS[row.kind] || row.kind)),
    some(row.per_second, number), some(row.length, (it) => number(it) + (row.limit !== undefined ? " of " + row.limit : "")), some(row.seconds, seconds),
    some(row.service_seconds, seconds), some(row.service_seconds_max, seconds), some(row.busy, percent), little(row)]);
  return section("queues", "Queues",
    h("p", { class: "hint" }, "Length should be arrivals times time (Little's law). The residual is by how much three independent readings disagree; above 5 % the queue counts as unmeasured. A dot: not measured."),
    table("Queues of the look, longest first", ["queue", right("arrivals a second"), right("mean length"), right("time in it"), right("service time"), right("longest"), right("in use"), right("Little's residual")], rows));
}

function stacksSection() {
  if (!picture.stacks.length) return null;
  const box = h("div", {});
  const refresh = () => {
    const lines = chosen.end === null ? null : new Set(ends[chosen.end].lanes.map((lane) => lane.line));
    const list = picture.stacks.filter((stack) => !lines || lines.has(stack.line));
    box.replaceChildren(...list.map((stack) => folded([h("strong", {}, picture.lines[stack.line].who), " ", stack.words, h("span", { class: "muted" }, ", " + seconds(stack.seconds) + " in " + plural(stack.count, stack.sampled ? "sample" : "wait", stack.sampled ? "samples" : "waits"))], { class: "stack" },
      stack.frames.length ? h("ol", {}, stack.frames.map((frame) => h("li", {}, frame))) : h("p", { class: "muted" }, "In its own code: no frame of the kernel."))));
    if (!list.length) box.replaceChildren(h("p", { class: "muted" }, "No stack was read of the threads of the chosen end."));
  };
  onChoice(refresh);
  refresh();
  return h("section", { id: "stacks", "aria-labelledby": "stacks-title" }, h("h2", { id: "stacks-title" }, "Kernel stacks"),
    folded(plural(picture.stacks.length, "stack", "stacks") + " of the threads above, innermost function first", { class: "all-stacks" }, box));
}

function costSection() {
  const { cost } = report;
  const cpu = cost.cpu_seconds + (cost.bpf_seconds || 0);
  const parts = [seconds(cost.cpu_seconds) + " of CPU" + (cost.bpf_seconds === null ? "" : " and " + seconds(cost.bpf_seconds) + " in its kernel programs") +
    (report.window.seconds > 0 ? " (" + percent(cpu / report.window.seconds) + " of one CPU)" : ""), bytes(cost.rss_bytes) + " of memory",
  cost.events ? plural(cost.events, "kernel event", "kernel events") + ", " + (cost.events_lost ? number(cost.events_lost) + " lost" : "none lost") : "no kernel events"];
  const left = data.left_out.concat(picture.left_out);
  return h("footer", { id: "cost" },
    h("p", {}, "Looking cost " + parts.join(", ") + "."),
    left.length ? folded("What this page leaves out", ON_PAPER, h("ul", {}, left.map(([count, what]) => h("li", {}, number(count) + " " + what))), h("p", {}, "The recording and --json have it all.")) : null,
    h("p", { class: "muted" }, "holdup " + report.tool.version + ". One file, nothing is loaded; the answer is in it as JSON."));
}
