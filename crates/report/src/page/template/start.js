/* Puts the page together, from the verdict to the cost, and says what is chosen.
 *
 * The order is that in which people ask: what, how much, how, who, when, why. On paper what explains is open, and tables of
 * pictures and stacks are left out. Must not: draw anything itself. */

function filterBar() {
  const words = h("span", {});
  const clear = h("button", { type: "button" }, "Show all");
  const box = h("div", { id: "filter", class: "filter noprint", role: "status", hidden: true }, words, clear);
  clear.addEventListener("click", () => choose(null));
  onChoice(() => {
    box.hidden = chosen.end === null;
    words.replaceChildren();
    if (chosen.end !== null) fill(words, {}, [swatch(kindOf(ends[chosen.end])), " Only: ", cut(ends[chosen.end].words, 70), ", " + seconds(ends[chosen.end].seconds)]);
  });
  return box;
}

function start() {
  document.title = clean(report.answer.title || "holdup").slice(0, 120);
  const asked = /^#end=(\d{1,3})$/.exec(location.hash);
  if (asked && ends[Number(asked[1])]) chosen.end = Number(asked[1]);
  const page = document.getElementById("page");
  page.append(...[patterns(), head(), mainVerdict(), filterBar(), bar(), bandSection(), treeSection(), flamesSection(), curvesSection(),
    evidenceSection(), otherFindings(), queuesSection(), stacksSection(), limits(), costSection()].filter(Boolean));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosen.end !== null) choose(null); });
  if (chosen.end !== null) chosen.listeners.forEach((listener) => listener());
}

start();
