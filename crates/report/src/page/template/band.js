/* The band of the chosen end: time from left to right, above all where it went, below a lane for each step of the chain.
 *
 * A lane says in words what its thread does: running, ready, or blocked and on what. A line from one lane to another is a wake-up.
 * What is too short to see is drawn together with its neighbours, and says how many it is. At most six lanes; the middle of a longer
 * chain opens with a button. Must not: draw a state that was not seen (it is a thin line), or a wake-up without its time. */

const LANES = 6;
const STATES = ["runs", "is ready", "is blocked", "not seen one by one"];
const band = { piece: null, opened: false };

const wordsOf = (piece) => picture.words[piece[3]] || "";
function lanesOf(at) {
  const all = (ends[at] && ends[at].lanes) || [];
  if (all.length <= LANES || band.opened) return { lanes: all, hidden: 0 };
  const tail = LANES - 2;
  return { lanes: [...all.slice(0, 2), ...all.slice(-tail)], hidden: all.length - LANES };
}
/** Slices of the window with what was lost in them, by end. */
function slices() {
  const { slices: count, ends: all } = picture.over_time;
  const rows = all.map((it) => {
    const values = new Float64Array(count);
    for (const [first, run] of it.runs) run.forEach((value, at) => { values[first + at] = value; });
    return { end: it.end, values };
  });
  const sums = new Float64Array(count);
  rows.forEach((row) => row.values.forEach((value, at) => { sums[at] += value; }));
  return { count, rows, sums, most: Math.max(0, ...sums) };
}
const lost = slices();
const rowOf = (at) => lost.rows.find((row) => row.end === at);

function bandTitle(at) {
  if (at === null) return "Over time";
  return report.target.kind === "command" ? "How it got there" : "Who waited for whom";
}

function bandSection() {
  if (!lost.most && !picture.lines.length) return null;
  const title = h("h2", { id: "band-title" });
  const words = h("p", { class: "hint" });
  const figure = h("div", { class: "figure" });
  const details = h("div", { class: "details", "aria-live": "polite" });
  const tables = h("div", {});
  const refresh = () => {
    const at = shownEnd();
    title.textContent = bandTitle(at);
    words.replaceChildren();
    if (at !== null) fill(words, {}, [swatch(kindOf(ends[at])), " ", h("strong", {}, ends[at].words), ", " + seconds(ends[at].seconds) + ". ",
      ends[at].lanes.length ? null : ends[at].chain.length ? "Lanes were drawn of larger ends only. " : "It is many in one: choose one of the others for its lanes. "]);
    if (picture.over_time.has_untimed) words.append("Work that was counted and not seen is spread evenly over the time. ");
    band.piece = firstPiece(at);
    band.opened = false;
    tables.replaceChildren(folded("As a table", {}, bandTable(at)));
    showPiece(details, at);
  };
  onChoice(refresh);
  refresh();
  drawn(figure, (width) => bandPicture(width, figure, details));
  return h("section", { id: "band", "aria-labelledby": "band-title" }, title, words, legend(), figure, details, tables);
}

function legend() {
  const item = (mark, text) => h("span", {}, mark, " ", text);
  const box = (cls, fillWith) => s("svg", { class: "swatch", width: 18, height: 12, "aria-hidden": "true" }, s("rect", { class: cls, width: 18, height: 12, rx: 2, fill: fillWith }));
  return h("p", { class: "legend" },
    item(box("st0"), "runs"), item(box("st1", "url(#s-ready)"), "ready, no CPU"), item(box("st2"), "blocked"),
    item(s("svg", { class: "swatch", width: 18, height: 12, "aria-hidden": "true" }, s("line", { class: "st3", x1: 0, x2: 18, y1: 6, y2: 6 })), "not seen one by one"),
    item(s("svg", { class: "swatch", width: 12, height: 14, "aria-hidden": "true" }, s("path", { class: "wake", d: "M6 0V10" }), s("path", { class: "wake-head", d: "M3 8L9 8L6 14Z" })), "wakes"));
}

/** The piece to begin with: the victim's longest wait. */
function firstPiece(at) {
  const lane = at === null ? null : ends[at].lanes[0];
  if (!lane) return null;
  const { pieces } = picture.lines[lane.line];
  let best = -1;
  pieces.forEach((piece, index) => {
    const blocked = piece[2] === 2 || piece[2] === 1;
    if (best < 0 || (blocked && (pieces[best][2] !== 2 || piece[1] > pieces[best][1]))) best = index;
  });
  return best < 0 ? null : { lane: 0, piece: best };
}

function bandPicture(width, figure, details) {
  const at = shownEnd();
  const { lanes, hidden } = at === null ? { lanes: [], hidden: 0 } : lanesOf(at);
  const wide = width >= WIDE;
  const left = wide ? 190 : 0;
  const room = { left, width: width - left, x: (us) => left + (us / picture.us) * (width - left) };
  const top = 22;
  const pathHeight = 34;
  const laneHeight = wide ? 46 : 62;
  const y = (index) => top + pathHeight + 14 + index * laneHeight;
  const height = y(lanes.length) + 2;
  const axisPart = axis(room, top, height);
  const drawing = canvas(width, height, "Chain of waits over time", axisPart, pathRow(room, top, pathHeight, at, wide), wakeUps(lanes, room, y, wide),
    lanes.map((lane, index) => laneRow(lane, index, lanes, room, y(index), { wide, at, figure, details, hidden })));
  bandKeys(drawing);
  const more = hidden ? h("button", { type: "button", class: "more noprint" }, "Show " + plural(hidden, "hop", "hops") + " between") : null;
  if (more) more.addEventListener("click", () => { band.opened = true; figure.replaceChildren(...bandPicture(width, figure, details).filter(Boolean)); });
  return [drawing, more];
}

function axis(room, top, height) {
  const { all, step } = ticks(picture.us / 1e6, room.width / 90);
  const digits = step >= 1 ? 0 : Math.min(6, Math.ceil(-Math.log10(step)));
  return all.map((at) => {
    const x = room.x(at * 1e6);
    const last = x > room.left + room.width - 30;
    return [s("line", { class: "grid", x1: x, x2: x, y1: top - 4, y2: height }),
      s("text", { class: "tick", x: last ? x - 3 : x + 3, y: 12, "text-anchor": last ? "end" : "start" }, at.toFixed(digits) + " s")];
  });
}

/** Where the time went, slice by slice: of a command as high everywhere, since its path has no gap. */
function pathRow(room, top, height, at, wide) {
  const slice = room.width / lost.count;
  const order = [...lost.rows].sort((a, b) => (b.end === at) - (a.end === at));
  const bars = [];
  const below = new Float64Array(lost.count);
  for (const row of order) {
    const kind = row.end === null ? "open" : kindOf(ends[row.end]);
    const dim = at !== null && row.end !== at && chosen.end !== null;
    let d = "";
    for (let index = 0; index < lost.count;) {
      const [value, base] = [row.values[index], below[index]];
      let to = index;
      // Slices of one height are one box: half a thousandth is not seen.
      const same = (it) => Math.abs(row.values[it] - value) < lost.most / 2000 && Math.abs(below[it] - base) < lost.most / 2000;
      while (to < lost.count && same(to)) { below[to] += row.values[to]; to += 1; }
      const high = (value / lost.most) * height;
      const bottom = top + height - (base / lost.most) * height;
      if (value) d += "M" + (room.left + index * slice).toFixed(1) + " " + bottom.toFixed(1) + "v" + (-high).toFixed(1) + "h" + ((to - index) * slice + 0.15).toFixed(2) + "v" + high.toFixed(1) + "z";
      index = to;
    }
    if (d) bars.push(s("path", { d, fill: "url(#k-" + kind + ")", class: dim ? "dim" : null }, tip(row.end === null ? "all others" : ends[row.end].words)));
  }
  const words = report.target.kind === "command" ? "its path" : "lost, all together";
  const named = wide ? [s("text", { class: "who", x: 0, y: top + 15 }, words),
    s("text", { class: "muted", x: 0, y: top + 30 }, report.target.kind === "command" ? "coloured by where it ends" : "at most " + number(lost.most / (picture.us / 1e6 / lost.count)) + " at a time")] : [];
  return s("g", {}, s("rect", { class: "frame", x: room.left, y: top, width: room.width, height }), bars, named, pathLabels(room, top, height, wide));
}
/** Names on the path where one end has a stretch to itself. */
function pathLabels(room, top, height, wide) {
  if (report.target.kind !== "command") return null;
  const best = (index) => lost.rows.reduce((most, row) => (row.values[index] > 0.8 * lost.most ? row.end : most), undefined);
  const labels = [];
  for (let from = 0; from < lost.count;) {
    const end = best(from);
    let to = from + 1;
    while (to < lost.count && best(to) === end) to += 1;
    const span = ((to - from) / lost.count) * room.width;
    if (end !== undefined && end !== null) labels.push(pathLabel(ends[end], room.left + (from / lost.count) * room.width + 8, top + height / 2 + 4, span - 14));
    from = to;
  }
  return labels;
}

/** The end in full, or its kind. */
function pathLabel(end, x, y, width) {
  const text = [end.words, end.kind].find((it) => widthOf(clean(it), 13, 600) <= width);
  return text ? s("text", { x, y, class: "on-fill" }, text) : null;
}

/** Whether the lane above is in the very wait that this lane is about. */
function heldDuring(lane, above, piece) {
  if (!above || lane.while_above === undefined || !lane.relation) return false;
  return picture.lines[above.line].pieces.some((it) => it[3] === lane.while_above && it[0] < piece[0] + piece[1] && piece[0] < it[0] + it[1]);
}
/** Why a piece is waited for: it says so itself, or its lane does for the wait above. */
const why = (lane, above, piece) => (piece[7] >= 0 ? picture.words[piece[7]] : heldDuring(lane, above, piece) ? lane.relation : "");
const joined = (...parts) => parts.filter(Boolean).join(", ");
const said = (lane, above, piece) => joined(why(lane, above, piece), wordsOf(piece));

/** Why a step is waited for, most of the time. */
function mostly(line) {
  const sums = new Map();
  for (const piece of line.pieces) if (piece[7] >= 0) sums.set(piece[7], (sums.get(piece[7]) || 0) + piece[1]);
  const most = [...sums].sort((a, b) => b[1] - a[1])[0];
  return most ? picture.words[most[0]] : "";
}

const ROLES = { victim: "waits", holder: "holds it up", root: "at the root", hop: "between", instead: "instead" };

function laneRow(lane, index, lanes, room, y, { wide, at, figure, details, hidden }) {
  const line = picture.lines[lane.line];
  const above = lanes[index - 1];
  const high = 26;
  const top = wide ? y + 2 : y + 18;
  const under = (lane.relation || mostly(line) || ROLES[lane.role]) + (line.processes > 1 ? ", " + line.processes + " processes" : "");
  const name = wide
    ? [s("text", { class: "who", x: 0, y: y + 14 }, tip(clean(line.who)), fitted(line.who, room.left - 14, 13, 600)),
      s("text", { class: "muted", x: 0, y: y + 30 }, tip(clean(under)), fitted(under, room.left - 14, 12, 400, cutEnd))]
    : [s("text", { class: "who", x: 0, y: y + 12 }, fitted(line.who, room.width * 0.52, 13, 600)),
      s("text", { class: "muted", x: room.width, y: y + 12, "text-anchor": "end" }, fitted(under, room.width * 0.44, 12, 400, cutEnd))];
  const opens = hidden && index === 2 ? s("text", { class: "muted", x: wide ? 0 : room.left, y: y - 3 }, "… " + plural(hidden, "hop", "hops") + " not shown") : null;
  const pieces = line.pieces.map((piece, place) => {
    const active = band.piece && band.piece.lane === index && band.piece.piece === place;
    const reason = why(lane, above, piece);
    const held = reason && wideAt(piece, at) ? kindOf(ends[at]) : null;
    const node = pieceMark(piece, { who: piece[6] >= 0 ? picture.words[piece[6]] + ": " : "", reason, does: wordsOf(piece) }, held, room, top, high);
    node.setAttribute("class", "piece" + (active ? " active" : ""));
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", "-1");
    node.dataset.lane = index;
    node.dataset.piece = place;
    return pressable(node, () => choosePiece(index, place, figure, details));
  });
  return s("g", { role: "group", "aria-label": clean(line.who) }, name, opens, pieces);
}

/** Whether the end is lost to in the time of a piece. */
function wideAt(piece, at) {
  const row = rowOf(at);
  if (!row) return false;
  const first = Math.floor((piece[0] / picture.us) * lost.count);
  const last = Math.min(lost.count - 1, Math.floor(((piece[0] + piece[1] - 1) / picture.us) * lost.count));
  for (let slice = first; slice <= last; slice += 1) if (row.values[slice]) return true;
  return false;
}

/** A piece: as much of its words as there is room for, first what it does. */
function pieceMark(piece, { who, reason, does }, heldKind, room, top, high) {
  const [begin, length, state, , count] = piece;
  const words = who + joined(reason, does);
  const x = room.x(begin);
  const wide = Math.max(0.8, room.x(begin + length) - x);
  const about = (count > 1 ? plural(count, "piece", "short pieces") + ", the longest: " : "") + words;
  const title = tip(clean(about) + ", " + seconds(length / 1e6));
  const aria = clean(about) + ", " + seconds(length / 1e6);
  const group = s("g", { "aria-label": aria }, title);
  const middle = top + high / 2;
  group.append(s("rect", { class: "hit", x, y: top, width: wide, height: high }));
  if (state === 3) {
    group.append(s("line", { class: "st3", x1: x, x2: x + wide, y1: middle, y2: middle }));
    if (wide > 190) group.append(label(words, x + 8, top + 9, wide - 16, { class: "muted small" }, 12) || "");
    return group;
  }
  group.append(s("rect", { class: "st" + state + (count > 1 ? " many" : ""), x, y: top, width: wide, height: high, rx: Math.min(3, wide / 3), fill: state === 1 ? "url(#s-ready)" : null }));
  if (heldKind) group.append(s("rect", { class: "held f-" + heldKind, x, y: top + high - 4, width: wide, height: 4 }));
  const many = count > 1 ? count + " × " : "";
  const fits = [many + words, many + joined(reason, does), many + does].find((it) => widthOf(clean(it), 12.5, 400) <= wide - 13);
  const text = label(fits || many + does, x + 7, top + (heldKind ? 15 : 17), wide - 13, { class: "in-piece in" + state }, 12.5, state === 1 ? 600 : 400);
  if (text) group.append(text);
  return group;
}

/** Lines from who woke to who was woken, at most one for every few pixels. */
function wakeUps(lanes, room, y, wide) {
  const place = new Map(lanes.map((lane, index) => [lane.line, index]));
  const marks = [];
  const taken = new Set();
  lanes.forEach((lane, index) => {
    for (const piece of picture.lines[lane.line].pieces) {
      const from = piece[5] >= 0 ? place.get(piece[5]) : undefined;
      if (from === undefined || from === index) continue;
      const x = room.x(piece[0] + piece[1]);
      const key = index + ":" + from + ":" + Math.round(x / 5);
      if (taken.has(key)) continue;
      taken.add(key);
      const offset = wide ? 2 : 18;
      const [a, b] = [y(from) + offset, y(index) + offset];
      const begin = from > index ? a : a + 26;
      const end = from > index ? b + 26 : b;
      const tipY = from > index ? end + 6 : end - 6;
      marks.push(s("path", { class: "wake", d: "M" + x + " " + begin + "V" + tipY }), s("path", { class: "wake-head", d: "M" + (x - 3) + " " + tipY + "h6L" + x + " " + end + "z" }));
    }
  });
  return s("g", { "aria-hidden": "true", class: "wakes" }, marks);
}

/** Left and right go along a lane, up and down to the lane above or below at the same time. */
function bandKeys(drawing) {
  const all = () => [...drawing.querySelectorAll(".piece")];
  const first = drawing.querySelector(".piece.active") || all()[0];
  if (first) first.setAttribute("tabindex", "0");
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    const from = document.activeElement;
    if (!step || !from.classList.contains("piece")) return;
    event.preventDefault();
    const lane = Number(from.dataset.lane) + step[0];
    const here = lanePiece(Number(from.dataset.lane), Number(from.dataset.piece));
    const to = step[0] ? pieceAt(lane, here) : Number(from.dataset.piece) + step[1];
    const target = drawing.querySelector(".piece[data-lane='" + lane + "'][data-piece='" + to + "']");
    if (!target) return;
    all().forEach((it) => it.setAttribute("tabindex", "-1"));
    target.setAttribute("tabindex", "0");
    target.focus();
  });
}
function lanePiece(lane, piece) {
  const at = shownEnd();
  const { lanes } = lanesOf(at);
  return picture.lines[lanes[lane].line].pieces[piece];
}
/** The piece of a lane that overlaps most with a piece of another. */
function pieceAt(lane, piece) {
  const { lanes } = lanesOf(shownEnd());
  if (!lanes[lane] || !piece) return -1;
  const overlap = (it) => Math.min(it[0] + it[1], piece[0] + piece[1]) - Math.max(it[0], piece[0]);
  const { pieces } = picture.lines[lanes[lane].line];
  return pieces.reduce((best, it, index) => (best < 0 || overlap(it) > overlap(pieces[best]) ? index : best), -1);
}

/** Shows a piece; pressed again, a blocked one leads to the next hop. */
function choosePiece(lane, piece, figure, details) {
  if (band.piece && band.piece.lane === lane && band.piece.piece === piece) {
    const next = nextHop();
    if (next) [lane, piece] = next;
  }
  band.piece = { lane, piece };
  figure.querySelectorAll(".piece").forEach((it) => {
    const active = Number(it.dataset.lane) === lane && Number(it.dataset.piece) === piece;
    it.classList.toggle("active", active);
    it.setAttribute("tabindex", active ? "0" : "-1");
    if (active) it.focus();
  });
  showPiece(details, shownEnd());
}

function wakerWords(piece) {
  if (piece[5] >= 0) return "woken by " + whoAt(picture.lines[piece[5]], piece[0] + piece[1]);
  return piece[5] < -1 ? picture.words[-2 - piece[5]] : "";
}

/** Whose a piece is: its own name, or the line's. */
const whose = (line, piece) => (piece && piece[6] >= 0 ? picture.words[piece[6]] : line.who);
const whoAt = (line, us) => whose(line, line.pieces.find((it) => it[0] < us && us <= it[0] + it[1] + 1));

/** What one piece is, in words, and the way to the next hop. */
function showPiece(details, at) {
  details.replaceChildren();
  if (!band.piece || at === null) return;
  const { lanes } = lanesOf(at);
  const lane = lanes[band.piece.lane];
  const line = lane && picture.lines[lane.line];
  const piece = line && line.pieces[band.piece.piece];
  if (!piece) return;
  const [begin, length, state, , count] = piece;
  const when = seconds(begin / 1e6) + " to " + seconds((begin + length) / 1e6) + ", " + seconds(length / 1e6);
  const does = count > 1 ? plural(count, "piece", "short pieces") + ", the longest: " + wordsOf(piece) : said(lane, lanes[band.piece.lane - 1], piece);
  const woken = wakerWords(piece);
  fill(details, {}, [h("p", {}, h("span", { class: "muted" }, when), h("br"), h("strong", {}, whose(line, piece)), " ", does, woken ? "; then " + woken : "", ".",
    state === 3 && line.between ? h("span", { class: "muted" }, " By the scheduler's sums " + between(line.between) + ".") : null)]);
  const next = nextHop();
  if (next) {
    const below = picture.lines[lanes[next[0]].line];
    const button = h("button", { type: "button", class: "noprint" }, "Next hop: ", whose(below, below.pieces[next[1]]));
    button.addEventListener("click", () => choosePiece(...next, document.querySelector("#band .figure"), details));
    details.append(button);
  }
}
/** Lane and piece of whoever the chosen piece waits for, if it is blocked. */
function nextHop() {
  const { lane, piece } = band.piece;
  const here = lanePiece(lane, piece);
  const to = here[2] === 2 ? pieceAt(lane + 1, here) : -1;
  return to >= 0 ? [lane + 1, to] : null;
}
const between = ([runs, ready, short]) => [[runs, "it ran"], [ready, "it was ready"], [short, "it waited briefly"]]
  .filter(([share]) => share >= 0.01).map(([share, words]) => words + " for " + percent(share)).join(", ") + " of that time";

function bandTable(at) {
  if (at === null || !ends[at].lanes.length) return h("p", {}, "No lanes.");
  const rows = [];
  ends[at].lanes.forEach((lane, index) => {
    const line = picture.lines[lane.line];
    const longest = [...line.pieces].sort((a, b) => b[1] - a[1]).slice(0, 6).sort((a, b) => a[0] - b[0]);
    for (const piece of longest) {
      rows.push([whose(line, piece), right(seconds(piece[0] / 1e6)), right(seconds(piece[1] / 1e6)), STATES[piece[2]],
        (piece[4] > 1 ? piece[4] + " × " : "") + said(lane, ends[at].lanes[index - 1], piece), wakerWords(piece)]);
    }
  });
  return table("The longest pieces of each lane", ["who", right("from"), right("how long"), "state", "what", "what ended it"], rows);
}
