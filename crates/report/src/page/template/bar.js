/* The conserved bar: the wall, or the demand, by ends, largest first, what is left over hatched; and its table, which filters.
 *
 * Widths are seconds and nothing else: a thin end stays thin, and is reached by its row. Must not: leave out a second. */

function conserved() {
  const isCommand = report.target.kind === "command";
  const sum = ends.reduce((all, end) => all + end.seconds, 0);
  const whole = isCommand ? Math.max(report.accounting.wall_seconds, sum) : sum;
  return { isCommand, sum, whole, residual: Math.max(0, whole - sum) };
}

function barTitle({ isCommand, whole }) {
  if (!ends.length) return "Nobody lost time to anything";
  if (isCommand) return "Where its " + seconds(whole) + " went";
  return "Where " + seconds(whole) + " of waiting" + (report.target.kind === "host" ? "" : " and work") + " went";
}

function bar() {
  const all = conserved();
  const box = section("bar", barTitle(all));
  if (!ends.length) {
    return fill(box, {}, [h("p", {}, "No wait of this look ends in anything that somebody would have to act on."), parts()]);
  }
  box.append(h("p", { class: "hint" }, conservation(all), " ", h("span", { class: "noprint" }, "Choose a part to see it alone in all that follows.")));
  box.append(drawn(h("div", { class: "figure" }), (width) => barPicture(all, width)));
  return fill(box, {}, [endRows(all), parts()]);
}

function conservation({ isCommand, sum, whole, residual }) {
  const what = isCommand ? "its wall time, each nanosecond once" : "summed over everybody who waited" + (report.target.kind === "host" ? "" : " or worked");
  const rest = residual < whole * 0.0005 ? "nothing is missing" : seconds(residual) + " (" + percent(residual / whole) + ") are missing";
  return plural(ends.length, "part adds up", "parts add up") + " to " + sum.toFixed(3) + " s of " + whole.toFixed(3) + " s: " + what + "; " + rest + ".";
}

function barPicture({ whole, residual }, width) {
  const height = 46;
  const rects = [];
  let x = 0;
  for (const end of ends) {
    const wide = (end.seconds / whole) * width;
    const gap = wide > 4 ? 1 : 0;
    const active = chosen.end === null || chosen.end === end.at;
    const words = end.words + ", " + seconds(end.seconds) + ", " + percent(end.seconds / whole);
    const group = s("g", { class: "part" + (active ? "" : " dim"), role: "button", "aria-pressed": String(chosen.end === end.at), "aria-label": clean(words), "data-end": end.at },
      tip(words), s("rect", { x, y: 0, width: Math.max(0.4, wide - gap), height, fill: "url(#k-" + kindOf(end) + ")" }),
      label(end.words, x + 9, 20, wide - 18, { class: "on-fill" }, 13, 600),
      label(seconds(end.seconds) + " · " + percent(end.seconds / whole), x + 9, 37, wide - 18, { class: "on-fill small" }, 12, 500));
    rects.push(pressable(group, () => { choose(end.at); focusEnd(end.at); }));
    x += wide;
  }
  if (residual > whole * 0.0005) {
    rects.push(s("g", { class: "part" }, tip("not accounted for, " + seconds(residual)),
      s("rect", { x, y: 0, width: width - x, height, fill: "url(#k-residual)" })));
  }
  const picture = canvas(width, height, "Bar of the parts of the time, largest first", rects);
  roving(picture, () => [...picture.querySelectorAll("g[role=button]")], inRow);
  return picture;
}
/** A choice redraws the bar: the focus stays where it was. */
function focusEnd(at) {
  const again = document.querySelector("#bar g[data-end='" + at + "']");
  if (again) again.focus();
}

/** Of a command: what it would save at most without this end, and why not more. */
function without(end) {
  if (end.without_it_seconds_max === undefined) return null;
  return h("small", {}, "without it up to " + seconds(end.without_it_seconds_max) + " less" + (end.without_it_why ? ": " + end.without_it_why : ""));
}

const ROWS_SHOWN = 8;
function endRows({ whole, residual }) {
  const row = (end) => {
    const button = h("button", { type: "button", class: "end-row", "data-row": end.at, "aria-pressed": "false" },
      swatch(kindOf(end)), h("span", { class: "words" }, end.words, end.why_open ? h("small", {}, end.why_open) : null, without(end)),
      h("span", { class: "kind" }, end.kind), h("span", { class: "figure-cell" }, seconds(end.seconds)),
      h("span", { class: "figure-cell" }, percent(end.seconds / whole)));
    button.addEventListener("click", () => choose(end.at));
    return h("li", {}, button);
  };
  const rest = ends.slice(ROWS_SHOWN + 1).length ? ends.slice(ROWS_SHOWN) : [];
  const shown = rest.length ? ends.slice(0, ROWS_SHOWN) : ends;
  const list = h("ul", { class: "end-rows", "aria-label": "The parts, largest first" }, shown.map(row));
  if (residual > whole * 0.0005) {
    list.append(h("li", {}, h("div", { class: "end-row" }, swatch("residual"), h("span", { class: "words" }, "not accounted for"),
      h("span", { class: "kind" }), h("span", { class: "figure-cell" }, seconds(residual)), h("span", { class: "figure-cell" }, percent(residual / whole)))));
  }
  const mark = () => document.querySelectorAll("[data-row]").forEach((it) => it.setAttribute("aria-pressed", String(chosen.end === Number(it.dataset.row))));
  onChoice(mark);
  if (!rest.length) return list;
  const sum = rest.reduce((all, end) => all + end.seconds, 0);
  return [list, folded(rest.length + " smaller parts, " + seconds(sum), ON_PAPER, h("ul", { class: "end-rows" }, rest.map(row)))].reduce((box, it) => { box.append(it); return box; }, h("div", {}));
}

/** The same time by class of wait, which for all but commands holds the idle time too. */
function parts() {
  const { parts: all, wall_seconds: wall, residual_seconds: residual } = report.accounting;
  if (!all.length) return null;
  const name = (part) => {
    const kind = part.class.replaceAll("_", " ");
    const object = part.object.name && part.object.name !== kind ? ": " + cut(part.object.name, 80) : "";
    return kind + object;
  };
  const rows = all.map((part) => [name(part), right(seconds(part.seconds)), right(percent(part.seconds / wall))]);
  rows.push(["left over", right(seconds(residual)), right(percent(Math.abs(residual) / wall))], ["together", right(wall.toFixed(3) + " s"), right("100 %")]);
  const caption = report.target.kind === "command" ? "The wall time by class of wait" : "All thread-seconds of the window by class of wait, idle time included";
  return folded("The whole time by class of wait", {}, table(caption, ["what", right("how long"), right("share")], rows));
}
