/* What a page of one look draws: its answer, its picture, and which of its ends is shown.
 *
 * Stands before all parts of that page; a page of a comparison has compared.js instead. Must not: draw. */

const report = data.report;
const picture = data.picture;
const ends = report.answer.ends.map((end, at) => ({ ...end, ...picture.ends[at], at }));
/** The end that a picture of one end shows: the chosen one, else what the title is about, else the greatest. */
function shownEnd() {
  if (chosen.end !== null) return chosen.end;
  if (report.answer.first !== undefined) return report.answer.first;
  return ends.length ? 0 : null;
}
