/* Figures as a person reads them: three digits that mean something, and always a unit.
 *
 * The same as crates/reason/src/model/figures.rs: tests/browser/figures.json has examples that both are held to. Must not: know what
 * a figure is of. */

const together = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
function digits(value) {
  const v = Math.abs(value);
  const sign = value < 0 ? "-" : "";
  if (!Number.isFinite(value)) return "unknown";
  if (Number.isInteger(value) && v < 1e15) return sign + together(v);
  if (v >= 99.95) return sign + together(Math.round(v));
  return value.toFixed(v >= 9.995 ? 1 : v >= 0.995 ? 2 : 3);
}
function pair(value, large, largeUnit, smallUnit, small) {
  const total = Math.round(Math.abs(value) / small), per = large / small;
  const rest = total % per;
  return (value < 0 ? "-" : "") + Math.floor(total / per) + " " + largeUnit + (rest ? " " + rest + " " + smallUnit : "");
}
function seconds(value) {
  const v = Math.abs(value);
  if (!Number.isFinite(value)) return "an unknown time";
  if (v < 0.5e-9) return "0 s";
  if (v < 0.9995e-6) return digits(value * 1e9) + " ns";
  if (v < 0.9995e-3) return digits(value * 1e6) + " us";
  if (v < 0.9995) return digits(value * 1e3) + " ms";
  if (v < 99.95) return digits(value) + " s";
  if (v < 3600) return pair(value, 60, "min", "s", 1);
  return v < 86400 ? pair(value, 3600, "h", "min", 60) : pair(value, 86400, "d", "h", 3600);
}
function percent(share) {
  const p = share * 100;
  if (!Number.isFinite(p)) return "";
  if (p <= 0) return "0 %";
  if (p < 0.05) return "under 0.1 %";
  if (p > 99 && p < 100) return "over 99 %";
  return p.toFixed(p < 9.95 ? 1 : 0) + " %";
}
const number = digits;
function bytes(value) {
  if (Math.abs(value) < 1024) return digits(value) + (value === 1 ? " byte" : " bytes");
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  value /= 1024;
  while (Math.abs(value) >= 999.5 && at + 1 < units.length) { value /= 1024; at += 1; }
  return digits(value) + " " + units[at];
}
