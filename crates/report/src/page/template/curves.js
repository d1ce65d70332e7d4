/* Pressure, CPUs, memory, disks and packet queues over the window, with the times of the chosen end, or of what was found, behind.
 *
 * One row a curve, all on the time axis of the band. A curve that stays at nothing is named in a sentence and not drawn. Must not: draw a
 * line over a gap, or a scale that begins anywhere but at zero. */

const GROUPS = { pressure: "Pressure", CPU: "CPUs", memory: "Memory", disk: "Disks", packets: "Packet queues" };

function figures(curve) {
  const values = curve.points.map(([, value]) => value).filter((value) => value !== null && value !== undefined);
  let weight = 0;
  let sum = 0;
  let from = curve.from_us;
  for (const [to, value] of curve.points) {
    if (value !== null) { sum += value * (to - from); weight += to - from; }
    from = to;
  }
  return { least: Math.min(...values), most: Math.max(...values), mean: weight ? sum / weight : 0, any: values.length > 0 };
}
const curves = picture.curves.map((curve) => ({ ...curve, ...figures(curve) })).filter((curve) => curve.any);
const isFlat = (curve) => curve.most === 0 || (curve.unit === "share" && curve.most < 0.005);
const isSteady = (curve) => !isFlat(curve) && curve.unit === "bytes" && curve.most - curve.least < 0.03 * curve.most;

function curvesSection() {
  if (!curves.length) return null;
  const box = section("window", "Over the window", h("p", { class: "hint" }, spansWords()));
  const hint = box.querySelector(".hint");
  onChoice(() => { hint.textContent = spansWords(); });
  for (const [group, title] of Object.entries(GROUPS)) {
    const mine = curves.filter((curve) => curve.group === group);
    if (!mine.length) continue;
    const [flat, steady] = [mine.filter(isFlat), mine.filter(isSteady)];
    const moving = mine.filter((curve) => !isFlat(curve) && !isSteady(curve));
    box.append(h("h3", {}, title));
    if (moving.length) box.append(drawn(h("div", { class: "figure" }), (width) => curvesPicture(moving, width)));
    if (steady.length) box.append(h("p", { class: "muted small" }, "Steady: " + steady.map((curve) => curve.name + " " + inUnit(curve.mean, curve.unit)).join(", ") + "."));
    if (flat.length) box.append(h("p", { class: "muted small" }, "At nothing all the time: " + flat.map((curve) => curve.name).join(", ") + "."));
  }
  box.append(folded("As a table", {}, table("Curves over the window", ["what", right("least"), right("mean"), right("most")],
    curves.map((curve) => [curve.name, right(inUnit(curve.least, curve.unit)), right(inUnit(curve.mean, curve.unit)), right(inUnit(curve.most, curve.unit))]))));
  return box;
}

/** The ends whose times stand behind the curves: the chosen one, else those that a finding names. */
function marked() {
  if (chosen.end !== null) return [chosen.end];
  return ends.filter((end) => end.finding !== undefined).map((end) => end.at);
}
function spansWords() {
  const at = marked().filter((it) => rowOf(it));
  if (!at.length) return "All on one time axis.";
  const names = at.slice(0, 3).map((it) => ends[it].words).join("; ");
  return clean("Shaded: when somebody lost time to " + names + (at.length > 3 ? " and " + (at.length - 3) + " more" : "") + ".");
}
function spans(room, top, high) {
  const marks = [];
  for (const at of marked()) {
    const row = rowOf(at);
    if (!row) continue;
    for (let from = 0; from < lost.count;) {
      if (!row.values[from]) { from += 1; continue; }
      let to = from;
      while (to < lost.count && row.values[to]) to += 1;
      const x = room.left + (from / lost.count) * room.width;
      marks.push(s("rect", { class: "span f-" + kindOf(ends[at]), x, y: top, width: ((to - from) / lost.count) * room.width, height: high }));
      from = to;
    }
  }
  return marks;
}

function curvesPicture(shown, width) {
  const wide = width >= WIDE;
  const left = wide ? 190 : 0;
  const room = { left, width: width - left, x: (us) => left + (Math.max(0, Math.min(us, picture.us)) / picture.us) * (width - left) };
  const high = shown.length > 8 ? 16 : 30;
  const row = wide ? high + 8 : high + 22;
  const height = shown.length * row;
  const marks = shown.map((curve, index) => {
    const top = index * row + (wide ? 4 : 18);
    const most = curve.unit === "share" ? 1 : curve.most;
    const scale = "mean " + inUnit(curve.mean, curve.unit) + ", most " + inUnit(curve.most, curve.unit);
    const name = wide
      ? [s("text", { class: high > 20 ? "who" : "muted", x: 0, y: top + 12 }, tip(clean(curve.name)), fitted(curve.name, left - 14, 13, 600)),
        high > 20 ? s("text", { class: "muted small", x: 0, y: top + 26 }, scale) : null]
      : [s("text", { class: "muted", x: 0, y: top - 5 }, fitted(curve.name, width * 0.6, 12)), s("text", { class: "muted small", x: width, y: top - 5, "text-anchor": "end" }, inUnit(curve.mean, curve.unit) + " / " + inUnit(curve.most, curve.unit))];
    return s("g", { role: "img", "aria-label": clean(curve.name) + ": " + scale }, tip(clean(curve.name) + ": " + scale), name,
      s("rect", { class: "frame", x: room.left, y: top, width: room.width, height: high }), spans(room, top, high), curvePath(curve, room, top, high, most));
  });
  return canvas(width, height, "Curves over the window", marks);
}
/** Steps, since a value holds for its interval; broken where there is none. */
function curvePath(curve, room, top, high, most) {
  let area = "";
  let edge = "";
  let from = curve.from_us;
  for (const [to, value] of curve.points) {
    if (value !== null && value !== undefined) {
      const [x, wide] = [room.x(from), room.x(to) - room.x(from)];
      const y = top + high - (most ? Math.min(1, value / most) * high : 0);
      area += "M" + x.toFixed(1) + " " + (top + high) + "V" + y.toFixed(1) + "h" + (wide + 0.1).toFixed(2) + "V" + (top + high) + "z";
      edge += (edge ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1) + "h" + wide.toFixed(2);
    } else edge = edge.replace(/$/, edge ? "M" + room.x(to).toFixed(1) + " " + (top + high) : "");
    from = to;
  }
  return [s("path", { class: "area", d: area }), s("path", { class: "edge", d: edge })];
}
