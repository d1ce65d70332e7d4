/* The blockers' tree: an icicle with the causes on top, then what is waited for, then who waits; and a ring for each deadlock.
 *
 * Width is wait-seconds, of a node and of all behind it, so that a convoy is wide where it begins. With an end chosen the tree is of
 * that end alone, on the whole width. Must not: draw a circle as a tree. */

const ROW = 34;
/** Below a cause, what is narrower than this many pixels stands in the table only. */
const NARROWEST = 40;
const tree = { node: null };

function treeRoots() {
  const all = picture.trees.map((node, at) => {
    const name = ends[at].words;
    const [only, more] = node.below || [];
    // A disk is held up by itself: once is enough.
    const below = only && !more && !only.is_who && only.name === name ? only.below : node.below;
    return { ...node, at, name, below };
  });
  const wanted = chosen.end === null ? all : all.filter((root) => root.at === chosen.end);
  return wanted.filter((root) => root.seconds > 0).sort((a, b) => b.seconds - a.seconds);
}
const nameOf = (node) => node.name + (node.count > 1 ? " × " + node.count : "");

function treeSection() {
  if (!picture.trees.some((root) => root.below && root.below.length) && !rings().length) return null;
  const figure = h("div", { class: "figure" });
  const details = h("div", { class: "details", "aria-live": "polite" });
  const tables = h("div", {});
  const refresh = () => {
    tree.node = null;
    details.replaceChildren();
    tables.replaceChildren(folded("As a table", {}, treeTable()));
  };
  onChoice(refresh);
  refresh();
  drawn(figure, (width) => treePicture(width, details));
  return section("tree", "Who costs whom",
    h("p", { class: "hint" }, "On top what holds up, below it what is waited for, below that who waits. Width is wait-seconds, those of others that wait behind it included."),
    rings(), figure, details, tables);
}

function treePicture(width, details) {
  const roots = treeRoots();
  const whole = roots.reduce((sum, root) => sum + root.seconds, 0);
  if (!whole) return h("p", { class: "muted" }, "Nobody waited for this one.");
  const marks = [];
  let deepest = 0;
  const draw = (node, kind, at, depth, x, wide, path) => {
    deepest = Math.max(deepest, depth);
    marks.push(treeNode(node, { kind, at, depth, x, wide, path, details }));
    let inner = x;
    for (const child of node.below || []) {
      const part = wide * (child.seconds / node.seconds);
      if (part >= NARROWEST) draw(child, kind, at, depth + 1, inner, part, [...path, node]);
      inner += part;
    }
  };
  let x = 0;
  for (const root of roots) {
    const wide = (root.seconds / whole) * width;
    if (wide >= 0.7) draw(root, kindOf(ends[root.at]), root.at, 0, x, wide, []);
    x += wide;
  }
  const drawing = canvas(width, (deepest + 1) * ROW + 1, "Tree of who costs whom", marks);
  roving(drawing, () => [...drawing.querySelectorAll("g[role=button]")], treeKeys);
  return drawing;
}
/** Up and down go along a branch, left and right along a level. */
function treeKeys(key, from, all) {
  const place = (node) => ({ depth: Number(node.dataset.depth), x: Number(node.dataset.x), wide: Number(node.dataset.wide) });
  const here = place(all[from]);
  const depth = here.depth + ({ ArrowDown: 1, ArrowUp: -1 }[key] || 0);
  const level = all.map((node, at) => ({ at, ...place(node) })).filter((it) => it.depth === depth).sort((a, b) => a.x - b.x);
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const index = level.findIndex((it) => it.at === from) + (key === "ArrowRight" ? 1 : -1);
    return level[index] ? level[index].at : -1;
  }
  const under = level.find((it) => (key === "ArrowDown" ? it.x >= here.x - 0.5 && it.x < here.x + here.wide : it.x <= here.x + 0.5 && here.x < it.x + it.wide));
  return depth !== here.depth && under ? under.at : -1;
}

function treeNode(node, { kind, at, depth, x, wide, path, details }) {
  const y = depth * ROW;
  const words = nameOf(node) + ", " + seconds(node.seconds);
  const group = s("g", { class: "node", role: "button", tabindex: "-1", "aria-label": clean((node.is_who ? "" : depth ? "waited for: " : "") + words), "data-depth": depth, "data-x": x.toFixed(1), "data-wide": wide.toFixed(1) },
    tip(clean(words)));
  const inside = { x: x + 0.5, y: y + 0.5, width: Math.max(0.5, wide - 1.5), height: ROW - 2 };
  if (depth === 0) group.append(s("rect", { ...inside, fill: "url(#k-" + kind + ")" }));
  else group.append(s("rect", { ...inside, class: (node.is_who ? "tree-who t-" : "tree-what t-") + kind }));
  const style = depth === 0 ? "on-fill" : node.is_who ? "who" : "what";
  const time = seconds(node.seconds);
  const timeRoom = wide > 150 ? time.length * 7 + 14 : 0;
  const text = label(nameOf(node), x + 8, y + 21, wide - 14 - timeRoom, { class: style }, 13, style === "what" ? 400 : 600, cut);
  if (text) group.append(text);
  if (timeRoom) group.append(s("text", { x: x + wide - 9, y: y + 21, "text-anchor": "end", class: depth === 0 ? "on-fill small" : "muted" }, time));
  return pressable(group, () => {
    showNode(node, path, details);
    if (depth === 0) { choose(at); showNode(node, path, details); }
  });
}

function showNode(node, path, details) {
  const own = node.seconds - (node.below || []).reduce((sum, child) => sum + child.seconds, 0);
  const who = nameOf(node);
  const parts = node.is_who
    ? [h("strong", {}, who), " lost " + seconds(node.seconds) + (node.below && node.below.length ? ": " + seconds(Math.max(0, own)) + " itself, the rest those that wait behind it." : ".")]
    : [h("strong", {}, who), " cost " + seconds(node.seconds) + "."];
  const behind = path.length ? h("span", { class: "muted" }, " Behind " + path.map(nameOf).reverse().join(", behind ") + ".") : null;
  details.replaceChildren(h("p", {}, parts.map((it) => (typeof it === "string" ? clean(it) : it)), behind));
}

function treeTable() {
  const rows = [];
  const walk = (node, depth) => {
    rows.push([h("span", { class: "indent" + Math.min(depth, 8) }, nameOf(node)), depth === 0 ? "holds up" : node.is_who ? "waits" : "is waited for", right(seconds(node.seconds))]);
    (node.below || []).forEach((child) => walk(child, depth + 1));
  };
  treeRoots().forEach((root) => walk(root, 0));
  return table("Who costs whom, wait-seconds", ["what or who", "", right("wait-seconds")], rows.slice(0, 400));
}

/** A deadlock: everybody waits for the next, and the last for the first. */
function rings() {
  return report.findings.filter((it) => it.code === "lock.deadlock" && it.chain.length > 1).map((finding) => h("figure", { class: "ring" },
    drawn(h("div", { class: "figure" }), (width) => ringPicture(finding.chain, width)),
    h("figcaption", {}, "A closed ring: each waits for a lock that the next one holds, and none of them can go on."),
    folded("As a table", {}, table("The ring", ["who", "waits for", right("how long")],
      finding.chain.map((link) => [whoOf(link.who), link.waits_on.kind + " " + link.waits_on.name, right(seconds(link.seconds))])))));
}
const whoOf = (who) => (who.program || who.name) + (who.runs ? " " + who.runs : "") + (who.pid ? " " + who.pid + (who.tid ? "/" + who.tid : "") : "") + (who.program ? " (thread " + who.name + ")" : "") +
  (who.runtime && who.workload ? " in " + who.workload : "");
function ringPicture(chain, width) {
  const [height, cy, ry] = [280, 140, 100];
  const cx = width / 2;
  const rx = Math.min(190, width / 2 - 60);
  const shown = chain.slice(0, 12);
  const room = cx - rx - 24;
  const place = (at) => { const angle = (at / shown.length) * 2 * Math.PI - Math.PI / 2; return [cx + rx * Math.cos(angle), cy + ry * Math.sin(angle), angle]; };
  const marks = [s("ellipse", { class: "ring-line", cx, cy, rx, ry })];
  shown.forEach((link, at) => {
    const [x, y, angle] = place(at + 0.5);
    // The tangent in the direction in which somebody waits.
    const turn = (Math.atan2(ry * Math.cos(angle), -rx * Math.sin(angle)) * 180) / Math.PI;
    marks.push(s("path", { class: "ring-head", d: "M-7 -6L7 0L-7 6Z", transform: "translate(" + x + " " + y + ") rotate(" + turn + ")" }));
    if (room < 150 || Math.abs(x - cx) < 30) return;
    const outward = x < cx ? -14 : 14;
    const words = [["waits for", -3], [link.waits_on.name || link.waits_on.kind, 14]];
    words.forEach(([text, dy]) => marks.push(s("text", { class: "muted", x: x + outward, y: y + dy, "text-anchor": x < cx ? "end" : "start" }, tip(clean(text)), fitted(text, room, 12))));
  });
  shown.forEach((link, at) => {
    const [x, y] = place(at);
    const name = fitted(whoOf(link.who), 200, 13, 600);
    const wide = widthOf(name, 13, 600) + 26;
    marks.push(s("rect", { class: "ring-node", x: x - wide / 2, y: y - 15, width: wide, height: 30, rx: 15 }), s("text", { class: "who", x, y: y + 4.5, "text-anchor": "middle" }, tip(clean(whoOf(link.who))), name));
  });
  return s("svg", { class: "canvas", viewBox: "0 0 " + width + " " + height, width, height, role: "img",
    "aria-label": clean("Deadlock: " + shown.map((link) => whoOf(link.who) + " waits for " + link.waits_on.name).join("; ")) }, marks);
}
