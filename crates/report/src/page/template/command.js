/* Commands of an answer, to be copied as they are read.
 *
 * One with control characters in a name is shown spelled out and not offered: a terminal would act on them. Must not: word one. */

function copyButton(text, what) {
  if (!isHarmless(text)) return h("span", { class: "muted" }, "not offered to copy: it has characters that a terminal acts on");
  const button = h("button", { type: "button", class: "copy", "aria-label": "Copy " + what }, "Copy");
  button.addEventListener("click", async () => {
    let done = false;
    try { await navigator.clipboard.writeText(text); done = true; } catch { done = copyOld(text); }
    button.textContent = done ? "Copied" : "Select it";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
  return button;
}
/** Browsers that give no clipboard to files. */
function copyOld(text) {
  const area = h("textarea", { class: "offscreen", readonly: true });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
function command(text, what) {
  if (!text) return null;
  return h("div", { class: "command" }, h("pre", { tabindex: "0", "aria-label": what }, h("code", {}, text)), copyButton(text, what));
}
