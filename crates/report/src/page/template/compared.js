/* What a page of a comparison draws: both sides, every change, and how its figures are said.
 *
 * Figures are seconds of the run, or seconds in each second of the look, as the comparison's unit says. What is not known is drawn
 * nowhere and never as nothing: it stays in the hatched rest of its side. Must not: decide what is a change. */

const compared = data.comparison;
const ends = compared.ends.map((end, at) => ({ ...end, at }));
const isRun = compared.unit === "s";
/** Own work of what is no command is no loss: it stands in the table, and not in the bars. */
const isCounted = (end) => isRun || end.end !== "works";
const isCalled = (end) => ["new", "gone", "more", "less"].includes(end.change);
const several = Math.min(compared.before.length, compared.after.length) > 1;
const mean = (figure) => (figure ? figure.mean : 0);
const greatest = (it) => Math.max(mean(it.before), mean(it.after));

const amount = (value) => seconds(value) + (isRun ? "" : " a second");
const cell = (figure) => (figure ? seconds(figure.mean) + (isRun ? "" : "/s") : "not known");
const range = (figure) => (figure && figure.max - figure.min > 1e-9 ? " (" + seconds(figure.min) + " to " + seconds(figure.max) + ")" : "");
const sided = (figure) => (figure ? amount(figure.mean) + range(figure) + ", " + percent(figure.share) : "not known");
/** `+1.48 s`, with a minus that is as wide as the plus. */
function difference(it) {
  if (it.difference === null || it.difference === undefined) return "?";
  const sign = it.difference < 0 ? "−" : "+";
  return (it.difference_is_least ? "at least " : "") + sign + seconds(Math.abs(it.difference)) + (isRun ? "" : "/s");
}
const CHANGES = { new: "new", gone: "gone", more: "more", less: "less", same: "as before", unknown: "not known" };
function changeOf(it) {
  if (it.change === "new" && it.difference_is_least) return "not seen before";
  return CHANGES[it.change] || it.change;
}

const OUTCOMES = { worse: "worse", better: "better", shifted: "as much, another way", same: "no change", unknown: "not known" };
function tone() {
  if (compared.verdict === "worse") return compared.is_worse ? "critical" : "warning";
  return compared.verdict === "better" || compared.verdict === "same" ? "good" : "warning";
}

function comparedHead() {
  const last = compared.after[compared.after.length - 1];
  const kinds = { host: "", container: "container ", process: "", command: "" };
  const facts = [["before", compared.before], ["after", compared.after]].map(([word, side]) => {
    const times = side.map((it) => it.window.begin_unix_ns).filter((it) => it > 0);
    return word + " " + (side.length > 1 ? number(side.length) + " recordings" : moment(times[0] || NaN) || cut(side[0].recording, 60));
  });
  return h("header", {},
    h("p", { class: "brand" }, h("strong", {}, "holdup diff"), " ", h("span", { class: "target" }, (kinds[last.target.kind] || "") + cut(last.target.name, 120))),
    h("p", { class: "facts" }, facts.map((it) => h("span", {}, it))));
}

/** What the one side said by itself. */
function sideLine(word, side) {
  const last = side[side.length - 1];
  const more = side.length > 1 ? " and " + number(side.length - 1) + " more" : "";
  return [h("dt", {}, word), h("dd", {}, last.title || "No time was seen.", h("small", {}, cut(last.recording, 120) + more))];
}

function comparedVerdict() {
  const { before, after } = compared.total;
  const badges = [h("span", { class: "badge " + tone() }, OUTCOMES[compared.verdict] || compared.verdict)];
  if (before && after) badges.push(h("span", { class: "badge" }, amount(before.mean) + " → " + amount(after.mean)));
  const ratio = before && after && before.mean > 0 ? after.mean / before.mean : 0;
  if (ratio >= 1.5) badges.push(h("span", { class: "badge" }, number(ratio) + (isRun ? " times as long" : " times as much")));
  return h("section", { id: "verdict", class: "verdict " + tone(), "aria-labelledby": "verdict-title" },
    h("p", { class: "badges" }, badges), h("h1", { id: "verdict-title" }, compared.title),
    h("dl", { class: "sides" }, sideLine("before", compared.before), sideLine("after", compared.after)), cameAndWent(),
    data.next ? h("div", { class: "ways" }, h("h3", {}, "Why it is so on the side after"), command(data.next, "the command")) : null);
}

const CAME = [["new", "New"], ["more", "Worse"], ["less", "Better"], ["gone", "Gone"]];
/** Causes with a name that came, went, or changed how bad they are. */
function cameAndWent() {
  const items = CAME.flatMap(([change, word]) => compared.findings.filter((it) => it.change === change).map((it) => h("li", {},
    h("span", { class: "muted" }, word + ": "), it.title, h("small", {}, it.code + ", " + (SEVERITY[it.severity_after || it.severity_before] || ""), seenIn(it)))));
  return items.length ? [h("h3", {}, "Causes that have a name"), h("ul", { class: "causes" }, items)] : null;
}
const SEVERITY = { critical: "critical", warning: "warning", note: "worth knowing" };
function seenIn(it) {
  const [before, after] = [compared.before.length, compared.after.length];
  return before + after > 2 ? ", in " + it.looks_before + " of " + before + " before and " + it.looks_after + " of " + after + " after" : "";
}
