/* Both sides on one scale, and below them what leads from the one to the other, step by step.
 *
 * What stayed stands left in both bars, so that what changed is what sticks out. The steps begin where the bar before ends and
 * end where the bar after does; what is too small to be called a change is the last one, so nothing is missing. Must not: leave
 * out a second, or draw one side on a scale of its own. */

const BAR = 42;
const RIBBON = 46;
const STEP = 25;
const STEPS_MAX = 10;

/** Ends in the order of the bars: what stayed, largest first, then what changed, what became least first. */
function inOrder() {
  const all = ends.filter((end) => isCounted(end) && greatest(end) > 0);
  const rank = (end) => (isCalled(end) ? 2 : end.change === "unknown" ? 1 : 0);
  return all.sort((a, b) => rank(a) - rank(b) || (isCalled(a) ? a.difference - b.difference : greatest(b) - greatest(a)));
}

/** What leads from the one whole to the other. */
function steps() {
  const { before, after } = compared.total;
  const sum = (side) => ends.filter(isCounted).reduce((all, end) => all + mean(end[side]), 0);
  const [from, to] = [before ? before.mean : sum("before"), after ? after.mean : sum("after")];
  const called = ends.filter((end) => isCounted(end) && isCalled(end) && end.difference !== null);
  const shown = called.slice(0, STEPS_MAX);
  let at = from;
  const all = shown.map((end) => ({ end, from: at, to: (at += end.difference) }));
  const rest = called.length > shown.length ? plural(called.length - shown.length, "smaller change", "smaller changes") + ", and what is called none" : several ? "what varies within a side, too" : "what is too small to be called a change";
  if (Math.abs(to - at) > 0.002 * Math.max(from, to)) all.push({ end: null, from: at, to, words: rest });
  return { from, to, all, most: Math.max(from, to, sum("before"), sum("after"), ...all.flatMap((it) => [it.from, it.to])) };
}

function scaleSection() {
  const way = steps();
  if (!way.most) return null;
  const details = h("div", { class: "details", "aria-live": "polite" });
  const say = () => details.replaceChildren(...[chosen.end === null ? null : endSaid(ends[chosen.end])].filter(Boolean));
  onChoice(say);
  say();
  const what = isRun ? "The wall time of each side, by what each second is lost to" : "What is lost to others in each second, on each side";
  return section("scale", "Both sides on one scale",
    h("p", { class: "hint" }, what + ": what stayed stands left, what changed right. Below, each change as a step from the one whole to the other. ",
      h("span", { class: "noprint" }, "Choose a part to see it alone.")),
    drawn(h("div", { class: "figure" }), (width) => scalePicture(way, width)), details);
}

function scalePicture(way, width) {
  const x = (value) => (value / way.most) * width;
  const order = inOrder();
  const tops = { before: 20, after: 20 + BAR + RIBBON };
  const below = tops.after + BAR + 24;
  const height = way.all.length ? below + 12 + way.all.length * STEP + 4 : below;
  const places = { before: placed(order, "before", x), after: placed(order, "after", x) };
  const ribbons = order.map((end) => ribbon(end, places, tops));
  const bars = ["before", "after"].map((side) => barOf(side, way, places[side], order, tops[side], x));
  const drawing = canvas(width, height, "Both sides on one scale, and the steps between them", guides(way, x, tops, height), ribbons, bars,
    way.all.map((step, at) => stepMark(step, below + 12 + at * STEP, x, width)));
  roving(drawing, () => [...drawing.querySelectorAll("g[role=button]")], inRow);
  return drawing;
}

/** Where each end lies in the bar of a side. */
function placed(order, side, x) {
  let at = 0;
  return order.map((end) => { const from = at; at += mean(end[side]); return [x(from), x(at)]; });
}
const isDim = (end) => chosen.end !== null && (!end || chosen.end !== end.at);

function ribbon(end, places, tops) {
  const at = inOrderIndex(end);
  const [[a, b], [c, d]] = [places.before[at], places.after[at]];
  if (Math.max(b - a, d - c) < 1.5) return null;
  const [top, bottom] = [tops.before + BAR, tops.after];
  const middle = (top + bottom) / 2;
  const path = "M" + a + " " + top + "C" + [a, middle, c, middle, c, bottom].join(" ") + "L" + d + " " + bottom + "C" + [d, middle, b, middle, b, top].join(" ") + "Z";
  return s("path", { d: path, class: "ribbon f-" + kindOf(end) + (isCalled(end) ? " called" : "") + (isDim(end) ? " dim" : "") });
}
let indices = null;
function inOrderIndex(end) {
  if (!indices) indices = new Map(inOrder().map((it, at) => [it.at, at]));
  return indices.get(end.at);
}

function barOf(side, way, places, order, top, x) {
  const whole = side === "before" ? way.from : way.to;
  const total = compared.total[side];
  const parts = order.map((end, at) => {
    const [from, to] = places[at];
    if (!end[side] || end[side].mean <= 0) return null;
    const wide = to - from;
    const words = side + ": " + end.words + ", " + sided(end[side]);
    const group = s("g", { class: "part" + (isDim(end) ? " dim" : ""), role: "button", tabindex: "-1", "aria-pressed": String(chosen.end === end.at), "aria-label": clean(words), "data-end": end.at, "data-side": side },
      tip(words), s("rect", { x: from, y: top, width: Math.max(0.4, wide - (wide > 4 ? 1 : 0)), height: BAR, fill: "url(#k-" + kindOf(end) + ")" }),
      label(end.words, from + 9, top + 18, wide - 18, { class: "on-fill" }, 13, 600),
      label(cell(end[side]), from + 9, top + 34, wide - 18, { class: "on-fill small" }, 12, 500));
    return pressable(group, () => { choose(end.at); focusPart(end.at, side); });
  });
  const last = places.length ? places[places.length - 1][1] : 0;
  if (x(whole) - last > 1) {
    parts.push(s("g", { class: "part" }, tip("not followed to an end that was seen, or not shown, " + amount(whole - (last / x(1)))),
      s("rect", { x: last, y: top, width: x(whole) - last, height: BAR, fill: "url(#k-residual)" })));
  }
  const words = side + ": " + (total ? amount(total.mean) + range(total) : "not known, at least " + amount(whole));
  const y = side === "before" ? top - 7 : top + BAR + 16;
  return [s("text", { class: "who", x: 0, y }, words), parts];
}
/** A choice redraws the picture: the focus stays where it was. */
function focusPart(at, side) {
  const again = document.querySelector("#scale g[data-end='" + at + "'][data-side='" + side + "']");
  if (again) again.focus();
}

/** Where both bars end, through all steps. */
function guides(way, x, tops, height) {
  if (!way.all.length) return null;
  const line = (value, top) => s("line", { class: "guide", x1: x(value), x2: x(value), y1: top, y2: height });
  return [line(way.from, tops.before + BAR), line(way.to, tops.after + BAR)];
}

function stepMark(step, y, x, width) {
  const [from, to] = [x(Math.min(step.from, step.to)), x(Math.max(step.from, step.to))];
  const grows = step.to > step.from;
  const wide = Math.max(1.5, to - from);
  const value = step.end ? difference(step.end) : difference({ difference: step.to - step.from });
  const words = value + " · " + (step.end ? step.end.words : step.words);
  const inside = widthOf(clean(words), 13, 600) <= wide - 18;
  const [leftRoom, rightRoom] = [from - 10, width - from - wide - 10];
  const text = inside ? label(words, from + 9, y + 16, wide - 18, { class: "on-fill" }, 13, 600)
    : rightRoom >= leftRoom ? label(words, from + wide + 7, y + 16, rightRoom, { class: "step" }, 13)
      : label(words, from - 7, y + 16, leftRoom, { class: "step", "text-anchor": "end" }, 13);
  const fillWith = step.end ? "url(#k-" + kindOf(step.end) + ")" : "url(#k-residual)";
  const head = grows ? "M" + (from + wide) + " " + (y + 1) + "v20" : "M" + from + " " + (y + 1) + "v20";
  const marks = [tip(words), s("rect", { x: from, y: y + 2, width: wide, height: 18, fill: fillWith }), s("path", { d: head, class: "step-head" }), text];
  if (!step.end) return s("g", { class: "part" + (isDim(null) ? " dim" : "") }, marks);
  const group = s("g", { class: "part" + (isDim(step.end) ? " dim" : ""), role: "button", tabindex: "-1", "aria-pressed": String(chosen.end === step.end.at), "aria-label": clean(changeOf(step.end) + ": " + words), "data-end": step.end.at, "data-side": "step" }, marks);
  return pressable(group, () => { choose(step.end.at); focusPart(step.end.at, "step"); });
}

/** A chosen end in full. */
function endSaid(end) {
  const who = (it) => (it ? it.name + (it.function ? ", most in " + it.function : "") : "");
  const [was, is] = [who(end.who_before), who(end.who_after)];
  const acts = was && is && was !== is ? "It is up to " + is + "; before to " + was + "." : was || is ? "It is up to " + (is || was) + "." : "";
  return h("p", {}, h("strong", {}, end.words), ": " + changeOf(end) + ", " + difference(end) + ". Before " + sided(end.before) + "; after " + sided(end.after) + ". ",
    acts, end.why_unknown ? " Not known: " + end.why_unknown + "." : null, end.code_after || end.code_before ? h("span", { class: "muted" }, " " + (end.code_after || end.code_before + " before")) : null);
}
