// A label given with open eyes, by key: a letter picks a dimension, a digit sets its level. What is typed is kept in the
// browser until it is sent. Without this script the same form works with its buttons.
(() => {
  "use strict";
  const form = document.querySelector("form.relabel");
  const next = document.getElementById("next");
  const typing = () => document.activeElement.matches("textarea, select, input:not([type=radio], [type=checkbox])");
  const on = () => localStorage.getItem("review-keys") !== "off";
  const plain = (event) => on() && !typing() && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (next && !next.dataset.pk) {
    document.addEventListener("keydown", (event) => { if (event.key.toLowerCase() === "n" && plain(event)) next.requestSubmit(); });
  }
  for (const { dataset: { forget } } of document.querySelectorAll("[data-forget]")) {
    for (const key of Object.keys(localStorage)) if (key.startsWith(forget) && key !== (form && form.dataset.backup)) localStorage.removeItem(key);
  }
  if (!form) return;

  const fold = form.closest("details");
  const dims = [...form.querySelectorAll(".dim[data-key]")];
  let dim = dims[0];
  const pick = (wanted) => {
    dim = wanted;
    dims.forEach((d) => d.classList.toggle("on", d === dim));
    (dim.querySelector(".lv input:checked") || dim.querySelector(".lv input")).focus({ preventScroll: true });
    dim.scrollIntoView({ block: "nearest" });
  };
  form.addEventListener("focusin", (event) => {
    const inside = event.target.closest(".dim[data-key]");
    if (inside) { dim = inside; dims.forEach((d) => d.classList.toggle("on", d === dim)); }
  });

  // ---------- what was typed and not sent ----------
  const { backup } = form.dataset;
  const state = () => [...new FormData(form)].filter(([name]) => /^level-|^(hack_level|hack_type|reason)$/.test(name));
  const start = JSON.stringify(state());
  const keep = () => localStorage.setItem(backup, JSON.stringify(state()));
  form.addEventListener("input", keep);
  const kept = localStorage.getItem(backup);
  if (document.getElementById("problems")) keep();
  else if (kept && kept !== start) {
    const told = JSON.parse(kept);
    const has = (name, value) => told.some(([n, v]) => n === name && v === value);
    form.querySelectorAll("input[type=radio], input[type=checkbox]").forEach((i) => { i.checked = has(i.name, i.value); });
    form.elements.reason.value = (told.find(([n]) => n === "reason") || ["", ""])[1];
    if (fold) fold.open = true;
  }

  document.addEventListener("keydown", (event) => {
    if (fold && !fold.open) {
      if (event.key.toLowerCase() === "v" && plain(event)) { event.preventDefault(); fold.open = true; pick(dim); }
      return;
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); return; }
    if (event.key === "Escape" && typing()) { document.activeElement.blur(); return; }
    if (!plain(event)) return;
    const key = event.key.toLowerCase();
    const named = dims.find((d) => d.dataset.letter.toLowerCase() === key);
    if (/^[0-5]$/.test(key)) {
      const box = dim.querySelector(`.lv input[value="${key}"]`);
      box.checked = true;
      box.focus({ preventScroll: true });
      keep();
    } else if (named) pick(named);
    else if (key === "h") { (form.querySelector("[name=hack_level]:checked") || form.querySelector("[name=hack_level]")).focus(); form.querySelector("#hack").scrollIntoView({ block: "nearest" }); }
    else if (key === "r") form.elements.reason.focus();
    else return;
    event.preventDefault();
  });
  if (!fold) dims[0].classList.add("on");
})();
