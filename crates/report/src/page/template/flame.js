/* Flame graphs: where was waited and where was worked, by stack. Width is time, the outermost frame stands at the bottom.
 *
 * Colour is what the time was: the page's own kinds. A click on a frame makes it as wide as the drawing, and those below it too; typing
 * marks the frames whose names hold a text, and says how much of the time is in them. Must not: count a frame twice. */

const FLAME_ROW = 20;
const FLAME_TITLES = { waits: "Waits by stack", work: "Work by stack" };
const FLAME_WHO = ["process", "function", "kernel function", "what is waited for", "who would have to act"];

/** The frames of one graph as a tree: parents know their children, and where they begin. */
function flameTree(flame) {
  const root = { name: "all", us: flame.seconds * 1e6, x: 0, depth: -1, below: [], up: null };
  const open = [root];
  for (const [depth, name, sort, kind, us] of flame.frames) {
    open.length = depth + 1;
    const up = open[depth];
    const x = up.below.reduce((sum, it) => sum + it.us, up.x);
    const node = { name: flame.names[name], sort, kind, us, x, depth, below: [], up };
    up.below.push(node);
    open.push(node);
  }
  return root;
}
function flameWalk(node, visit) {
  visit(node);
  node.below.forEach((child) => flameWalk(child, visit));
}
const flameShare = (node, root) => seconds(node.us / 1e6) + ", " + percent(node.us / root.us);

function flamesSection() {
  if (!picture.flames || !picture.flames.length) return null;
  return section("flames", "Where the time was spent, by stack",
    h("p", { class: "hint" }, "Width is time. Below who it is, above it what called what, on top what was waited for and who would have to act. Work has the innermost function alone, unless an interpreter tells more. A click widens."),
    picture.flames.map(oneFlame));
}

function oneFlame(flame) {
  const root = flameTree(flame);
  const state = { at: root, text: "" };
  const figure = h("div", { class: "figure flame" });
  const details = h("div", { class: "details", "aria-live": "polite" });
  const found = h("span", { class: "muted", role: "status" });
  const search = h("input", { type: "search", placeholder: "a function, a file, a process", "aria-label": "Find frames of " + FLAME_TITLES[flame.of] });
  const reset = h("button", { type: "button", hidden: true }, "Show all of it");
  let redraw = () => {};
  const widen = (node) => { state.at = node; reset.hidden = node === root; redraw(); };
  reset.addEventListener("click", () => widen(root));
  search.addEventListener("input", () => {
    state.text = search.value.trim().toLowerCase();
    const us = flameFound(state.at, state.text);
    found.textContent = state.text ? flameShare({ us }, state.at) + " in frames with it" : "";
    redraw();
  });
  drawn(figure, (width) => {
    redraw = () => figure.replaceChildren(flamePicture(flame, root, state, width, details, widen));
    return flamePicture(flame, root, state, width, details, widen);
  });
  return [h("h3", {}, FLAME_TITLES[flame.of] + ", " + seconds(flame.seconds)), h("p", { class: "tools noprint" }, search, " ", reset, " ", found),
    figure, details, folded("As a table", {}, flameTable(root))];
}

/** Time in frames whose names hold a text; one inside another counts once. */
function flameFound(node, text) {
  if (!text) return 0;
  if (node.up && node.name.toLowerCase().includes(text)) return node.us;
  return node.below.reduce((sum, child) => sum + flameFound(child, text), 0);
}

function flamePicture(flame, root, state, width, details, widen) {
  const { at } = state;
  const marks = [];
  let deepest = 0;
  const above = [];
  for (let node = at; node && node.up; node = node.up) above.push(node);
  const draw = (node, x, wide) => {
    if (wide < 0.7) return;
    deepest = Math.max(deepest, node.depth);
    marks.push({ node, x, wide });
    node.below.forEach((child) => draw(child, x + ((child.x - node.x) / node.us) * wide, (child.us / node.us) * wide));
  };
  above.slice(1).forEach((node) => marks.push({ node, x: 0, wide: width }));
  if (at === root) root.below.forEach((child) => draw(child, (child.x / root.us) * width, (child.us / root.us) * width));
  else draw(at, 0, width);
  const height = (deepest + 1) * FLAME_ROW;
  const shapes = marks.map(({ node, x, wide }) => {
    const y = height - (node.depth + 1) * FLAME_ROW;
    const hit = state.text && node.name.toLowerCase().includes(state.text);
    const kind = KINDS[node.kind] ? node.kind : "open";
    const said = clean(node.name) + ": " + flameShare(node, root);
    const shape = s("g", { role: "button", tabindex: "-1", "aria-label": said, "data-depth": node.depth, "data-x": x, "data-wide": wide, class: "frame" + (hit ? " hit" : state.text ? " miss" : "") },
      tip(said),
      s("rect", { x, y, width: Math.max(0.5, wide - 0.6), height: FLAME_ROW - 1, rx: 2, fill: "url(#k-" + kind + ")" }),
      label(node.name, x + 5, y + 14, wide - 9, { class: "on-fill small" }, 12, 500));
    pressable(shape, () => {
      details.replaceChildren(h("p", {}, h("strong", {}, cut(node.name, 300)), " (" + (FLAME_WHO[node.sort] || "frame") + "): " + flameShare(node, root)));
      widen(node === at && node.up ? node.up : node);
    });
    return shape;
  });
  const drawing = canvas(width, height + 1, FLAME_TITLES[flame.of], shapes);
  roving(drawing, () => [...drawing.querySelectorAll("g[role=button]")], (key, from, all) => treeKeys({ ArrowUp: "ArrowDown", ArrowDown: "ArrowUp" }[key] || key, from, all));
  return drawing;
}

/** The frames in which most time was spent themselves. */
function flameTable(root) {
  const own = new Map();
  flameWalk(root, (node) => {
    if (!node.up) return;
    const self = node.us - node.below.reduce((sum, child) => sum + child.us, 0);
    const known = own.get(node.name) || { self: 0, sort: node.sort };
    known.self += self;
    own.set(node.name, known);
  });
  const rows = [...own].filter(([, it]) => it.self > 0).sort((a, b) => b[1].self - a[1].self).slice(0, 30);
  return table("Time in a frame itself", ["frame", "what it is", right("time"), right("share")],
    rows.map(([name, it]) => [cut(name, 120), FLAME_WHO[it.sort] || "", right(seconds(it.self / 1e6)), right(percent(it.self / root.us))]));
}
