/* The page's ground: the data, text made harmless, elements, figures, and the one piece of state (which end is chosen).
 *
 * Every string of the data may come from a hostile program. It reaches the document through textContent or an attribute
 * that is no address and no style, and `clean` spells out what would reorder, hide or break a line. Must not: write markup,
 * build an address, or ask the network. */

const data = JSON.parse(document.getElementById("data").textContent);

/** What would act on a line or cannot be seen is spelled out, as the text report does. */
const HOSTILE = /[\p{Cc}\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
function clean(text) {
  return String(text).replace(HOSTILE, (c) => {
    const code = c.codePointAt(0);
    return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u{" + code.toString(16) + "}";
  });
}
const isHarmless = (text) => clean(text) === String(text);

/** Cuts the middle out of what is too long for its place. */
function cut(text, length) {
  const all = [...clean(text)];
  if (all.length <= length) return all.join("");
  const head = Math.max(1, Math.ceil((length - 1) * 0.6));
  return all.slice(0, head).join("") + "…" + all.slice(all.length - Math.max(0, length - 1 - head)).join("");
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
  return node;
}
const h = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const s = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

/** A value in the unit that its field names. */
function inUnit(value, unit) {
  switch (unit) {
    case "s": return seconds(value);
    case "ms": return seconds(value / 1e3);
    case "bytes": return bytes(value);
    case "bytes/s": return bytes(value) + "/s";
    case "share": return percent(value);
    case "%": return percent(value / 100);
    case "1": return number(value);
    case "1/s": return number(value) + " a second";
    default: return number(value) + " " + unit;
  }
}
function moment(unixNs) {
  const date = new Date(unixNs / 1e6);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().replace("T", " ").slice(0, 19) + " UTC";
}
const plural = (count, one, many) => count === 1 ? "1 " + one : number(count) + " " + many;

/** A table with its head; cells that are numbers stand right. */
function table(caption, head, rows, attributes) {
  const cell = (tag, value) => h(tag, { class: value && value.right ? "right" : null, scope: tag === "th" ? "col" : null },
    value && value.right !== undefined ? value.text : value);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", attributes || {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((it) => cell("th", it)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((it) => cell("td", it)))))));
}
const right = (text) => ({ right: true, text });
/** Something folded away behind its name; on paper it is left out, unless its class says `on-paper`. */
const folded = (name, attributes, ...children) => h("details", attributes || {}, h("summary", {}, name), ...children);
const ON_PAPER = { class: "on-paper" };

/** A part of the page, with a heading that says what is seen. */
function section(id, title, ...children) {
  return h("section", { id, "aria-labelledby": id + "-title" }, h("h2", { id: id + "-title" }, title), ...children);
}

/** Kinds of ends and how they are drawn: hue in the style, and here the lines on it, from where to where in a tile. */
const KINDS = {
  works: [], lock: [[0, 8, 8, 0]], device: [[0, 0, 8, 8]], cpu: [[2, 0, 2, 8]], memory: [[0, 2, 8, 2]], link: [[0, 4, 8, 4], [4, 0, 4, 8]],
  remote: [[2, 2, 2.01, 2], [6, 6, 6.01, 6]], sleep: [[4, 4, 4.01, 4]], limit: [[0, 0, 8, 8], [0, 8, 8, 0]], person: [[0, 6, 4, 2], [4, 2, 8, 6]],
  open: [[0, 8, 8, 0], [-2, 2, 2, -2], [6, 10, 10, 6]], idle: [],
};
/** Unknown kinds of a newer answer look like what was not seen. */
const kindOf = (end) => KINDS[end.end] ? end.end : "open";

const TILE = 8;
/** What a shape can be filled with, by the name that its `fill` has: a hue of the style, and lines. */
const FILLS = {
  ...Object.fromEntries(Object.entries(KINDS).map(([kind, lines]) => ["k-" + kind, { hue: "f-" + kind, lines }])),
  "k-residual": { hue: "f-residual", lines: KINDS.limit }, "s-ready": { hue: "f-ready", lines: KINDS.open },
};
const DOTTED = ["k-remote", "k-sleep"];
/** The lines of one fill, in each tile that begins at one of the places. */
function linesOf(name, places) {
  const d = places.flatMap(([x, y]) => FILLS[name].lines.map(([x1, y1, x2, y2]) => "M" + (x + x1) + " " + (y + y1) + "L" + (x + x2) + " " + (y + y2)));
  return d.length ? s("path", { d: d.join(""), class: "over" + (DOTTED.includes(name) ? " dots" : "") }) : null;
}
function patterns() {
  const tiles = Object.entries(FILLS).map(([id, { hue }]) => s("pattern", { id, width: TILE, height: TILE, patternUnits: "userSpaceOnUse" },
    s("rect", { width: TILE, height: TILE, class: hue }), linesOf(id, [[0, 0]])));
  return s("svg", { width: 0, height: 0, class: "patterns", "aria-hidden": "true" }, s("defs", {}, tiles));
}
/** A shape for paper: browsers print each tiled fill as a bitmap of its own, so there the hue is plain and the lines are lines, cut to the shape. */
function withoutTiles(shape, at) {
  const name = shape.getAttribute("fill").slice("url(#".length, -1);
  const { x, y, width, height } = shape.getBBox();
  const places = [];
  for (let top = Math.floor(y / TILE) * TILE; top < y + height; top += TILE) {
    for (let left = Math.floor(x / TILE) * TILE; left < x + width; left += TILE) places.push([left, top]);
  }
  const plain = shape.cloneNode(true);
  plain.removeAttribute("fill");
  plain.classList.add(FILLS[name].hue);
  const edge = shape.cloneNode();
  edge.removeAttribute("class");
  const id = "paper-" + at;
  const lines = linesOf(name, places);
  return s("g", {}, plain, lines && s("clipPath", { id }, edge), lines && s("g", { "clip-path": "url(#" + id + ")" }, lines));
}
const swatch = (kind) => s("svg", { class: "swatch", width: 14, height: 14, "aria-hidden": "true" },
  s("rect", { width: 14, height: 14, rx: 3, fill: "url(#k-" + kind + ")" }));

/** The chosen end, and who wants to know when it changes. Null: all of them. */
const chosen = { end: null, listeners: [] };
function choose(at) {
  chosen.end = chosen.end === at ? null : at;
  history.replaceState(null, "", chosen.end === null ? "#" : "#end=" + chosen.end);
  chosen.listeners.forEach((listener) => listener());
}
const onChoice = (listener) => { chosen.listeners.push(listener); };
/** Moves the focus among a group of elements with the arrow keys: one of them is in the tab order. */
function roving(group, items, keys) {
  const list = items();
  list.forEach((item, at) => item.setAttribute("tabindex", at === 0 ? "0" : "-1"));
  group.addEventListener("keydown", (event) => {
    const all = items();
    const from = all.indexOf(document.activeElement);
    const to = from < 0 ? -1 : keys(event.key, from, all);
    if (to === undefined || to < 0 || to >= all.length || to === from) return;
    event.preventDefault();
    all.forEach((item, at) => item.setAttribute("tabindex", at === to ? "0" : "-1"));
    all[to].focus();
  });
}
const inRow = (key, from, all) => ({ ArrowRight: from + 1, ArrowDown: from + 1, ArrowLeft: from - 1, ArrowUp: from - 1,
  Home: 0, End: all.length - 1 })[key];
/** Enter and space do what a click does, for what is no button. */
function pressable(node, action) {
  node.addEventListener("click", action);
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); action(event); }
  });
  return node;
}

/** Draws into a box at its width, and again when that changes, when an end is chosen, and for paper. */
const drawings = [];
/** The window's own width means nothing meanwhile. */
let onPaper = false;
function drawn(box, draw) {
  let width = 0;
  const redraw = (to) => { box.replaceChildren(...[draw(to || width || 800)].flat().filter(Boolean)); };
  const again = () => {
    const now = Math.max(280, Math.floor(box.clientWidth));
    if (now !== width && !onPaper) { width = now; redraw(); }
  };
  new ResizeObserver(again).observe(box);
  onChoice(() => redraw());
  drawings.push(redraw);
  again();
  return box;
}
/** From this width on names stand beside what is drawn, else above it. */
const WIDE = 640;
/** An SVG of a width that shrinks with its paper. */
const canvas = (width, height, label, ...children) => s("svg", { class: "canvas", viewBox: "0 0 " + width + " " + height,
  width, height, role: "group", "aria-label": label }, ...children);
/** How wide a text will be, in pixels. */
const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, size, weight) {
  ruler.font = (weight || 400) + " " + size + "px " + getComputedStyle(document.body).fontFamily;
  return ruler.measureText(text).width;
}
/** Cuts a text to a width in pixels: a name in its middle, a clause at its end. */
function fitted(text, width, size, weight, shorten = cut) {
  const whole = clean(text);
  if (widthOf(whole, size, weight) <= width) return whole;
  let [least, most] = [0, whole.length];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (widthOf(shorten(whole, middle), size, weight) <= width) least = middle; else most = middle - 1;
  }
  // Three letters of a name tell less than none.
  return least < 8 ? "" : shorten(whole, least);
}
const cutEnd = (text, length) => ([...text].length <= length ? text : [...text].slice(0, length - 1).join("").trimEnd() + "…");
/** A text cut to a width; none where nothing of it can be read. */
function label(text, x, y, width, attributes, size = 13, weight = 400, shorten = cutEnd) {
  const shown = width < 24 ? "" : fitted(text, width, size, weight, shorten);
  return shown ? s("text", { x, y, ...attributes }, shown) : null;
}
const tip = (text) => s("title", {}, text);

/** Round steps of an axis: about `count` of them up to `to`. */
function ticks(to, count) {
  const raw = to / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= raw) || raw;
  const all = [];
  for (let at = 0; at <= to * 1.0001 && all.length < 50; at += step) all.push(at);
  return { all, step };
}

/** On paper nothing can be opened: what explains is open there, and what only repeats a picture is left out. What undoes it: */
const printing = [];
/** A4 within its margins, pixels. */
const PAPER = 688;
window.addEventListener("beforeprint", () => {
  onPaper = true;
  drawings.forEach((redraw) => redraw(PAPER));
  document.querySelectorAll("details.on-paper").forEach((it) => { if (!it.open) { it.open = true; printing.push(() => { it.open = false; }); } });
  const seen = [...document.querySelectorAll("[fill^='url(#']")].filter((it) => it.getClientRects().length);
  seen.map((shape, at) => [shape, withoutTiles(shape, at)]).forEach(([shape, inked]) => {
    shape.replaceWith(inked);
    printing.push(() => inked.replaceWith(shape));
  });
});
window.addEventListener("afterprint", () => {
  onPaper = false;
  printing.splice(0).forEach((undo) => undo());
  drawings.forEach((redraw) => redraw());
});
