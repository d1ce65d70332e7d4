/* Every change as a row, what stayed, what is not known, both sides, and what limits the comparison; and the page put together.
 *
 * Rows are the pictures' table and choose what is shown in them. Must not: call what is below the floor a change. */

const CHANGES_SHOWN = 12;

function changeRow(end) {
  const other = end.who_before && end.who_after && end.who_before.name !== end.who_after.name ? "before: " + end.who_before.name : "";
  const code = end.code_after || (end.code_before ? end.code_before + " before" : "");
  const small = [code, other, isCounted(end) ? "" : "own work, no loss", h("span", { class: "narrow" }, cell(end.before) + " → " + cell(end.after))].filter(Boolean);
  const button = h("button", { type: "button", class: "end-row change-row", "data-row": end.at, "aria-pressed": "false" },
    swatch(kindOf(end)), h("span", { class: "words" }, end.words, h("small", {}, small.flatMap((it, at) => (at ? [" ", it] : [it])))),
    h("span", { class: "kind" }, changeOf(end)), h("span", { class: "figure-cell was" }, cell(end.before)), h("span", { class: "figure-cell was" }, cell(end.after)),
    h("span", { class: "figure-cell delta" }, difference(end)));
  button.addEventListener("click", () => choose(end.at));
  return h("li", {}, button);
}

function endTable(caption, list) {
  return table(caption, ["what", "change", right("before"), right("share"), right("after"), right("share"), right("difference")],
    list.map((end) => [end.words || partName(end), changeOf(end), right(cell(end.before) + range(end.before)), right(end.before ? percent(end.before.share) : "?"),
      right(cell(end.after) + range(end.after)), right(end.after ? percent(end.after.share) : "?"), right(difference(end))]));
}
function partName(part) {
  const kind = part.class.replaceAll("_", " ");
  return kind + (part.object.name && part.object.name !== kind ? ": " + cut(part.object.name, 80) : "");
}

function changesSection() {
  const called = ends.filter(isCalled);
  const same = ends.filter((end) => end.change === "same" && greatest(end) > 0);
  const unknown = ends.filter((end) => end.change === "unknown" && greatest(end) > compared.floor);
  const box = section("changes", called.length ? "What changed" : isCalled(compared.total) ? "No single end changed" : "Nothing changed");
  if (called.length) {
    const [first, rest] = called.length > CHANGES_SHOWN + 1 ? [called.slice(0, CHANGES_SHOWN), called.slice(CHANGES_SHOWN)] : [called, []];
    const head = h("div", { class: "end-row change-row head", "aria-hidden": "true" }, ["", "what", "change", "before", "after", "difference"].map((it, at) => h("span", { class: at > 2 ? "figure-cell" + (at < 5 ? " was" : "") : at === 2 ? "kind" : null }, it)));
    fill(box, {}, [head, h("ul", { class: "end-rows", "aria-label": "Changes, greatest first" }, first.map(changeRow)),
      rest.length ? folded(number(rest.length) + " smaller changes", ON_PAPER, h("ul", { class: "end-rows" }, rest.map(changeRow))) : null,
      folded("As a table", {}, endTable("Changes, greatest first", called))]);
    const mark = () => box.querySelectorAll("[data-row]").forEach((it) => it.setAttribute("aria-pressed", String(chosen.end === Number(it.dataset.row))));
    onChoice(mark);
  } else {
    box.append(h("p", {}, (several ? "No end is larger in every recording of one side than in any of the other, by more than " : "No end differs by more than ") + amount(compared.floor) + "."));
  }
  if (unknown.length) {
    fill(box, {}, [h("h3", {}, "Not known whether it changed"), table("On one side only, and the other may have missed it", ["what", right("before"), right("after"), "why"],
      unknown.map((end) => [end.words, right(cell(end.before)), right(cell(end.after)), end.why_unknown || ""]))]);
  }
  if (same.length) box.append(folded("Did not change: " + plural(same.length, "end", "ends") + ", " + amount(same.reduce((all, end) => all + greatest(end), 0)), {}, endTable("What stayed, greatest first", same)));
  const moved = compared.parts.filter(isCalled);
  if (moved.length) box.append(folded("The same change by class of wait", {}, endTable("Parts of the accounting that changed, idle time included", moved)));
  return box;
}

function sidesSection() {
  const rows = [["before", compared.before], ["after", compared.after]].flatMap(([word, side]) => side.map((it) => [word,
    h("span", {}, it.recording, h("small", {}, it.title)), it.target.name + (it.target.exit_status ? " (exit status " + it.target.exit_status + ")" : ""),
    moment(it.window.begin_unix_ns), right(seconds(it.window.seconds)), right(seconds(it.total_seconds)),
    h("span", {}, it.machine.hostname, h("small", {}, ["Linux " + it.machine.kernel, plural(it.machine.cpus, "CPU", "CPUs"), it.machine.kernel_events ? "" : "/proc alone"].filter(Boolean).join(", ")))]));
  return section("sides", "The recordings", table("Each look by itself", ["side", "recording", "of", "begun", right("looked"), right(isRun ? "wall time" : "lost to others"), "machine"], rows));
}

function comparedLimits() {
  return h("section", { id: "limits", class: "quiet", "aria-labelledby": "limits-title" }, h("h2", { id: "limits-title" }, "What limits this comparison"),
    h("ul", {}, compared.caveats.map((it) => h("li", {}, it.text)), h("li", {}, data.noise)));
}

function comparedFoot() {
  return h("footer", { id: "cost" },
    data.left_out.length ? folded("What this page leaves out", ON_PAPER, h("ul", {}, data.left_out.map(([count, what]) => h("li", {}, number(count) + " " + what))), h("p", {}, "holdup diff --json has it all.")) : null,
    h("p", { class: "muted" }, "holdup " + data.version + ". One file, nothing is loaded; the comparison is in it as JSON."));
}

function start() {
  document.title = clean(compared.title || "holdup diff").slice(0, 120);
  const asked = /^#end=(\d{1,3})$/.exec(location.hash);
  if (asked && ends[Number(asked[1])]) chosen.end = Number(asked[1]);
  document.getElementById("page").append(...[patterns(), comparedHead(), comparedVerdict(), scaleSection(), changesSection(), sidesSection(), comparedLimits(), comparedFoot()].filter(Boolean));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosen.end !== null) choose(null); });
  if (chosen.end !== null) chosen.listeners.forEach((listener) => listener());
}

start();
