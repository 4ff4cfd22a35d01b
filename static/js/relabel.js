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

  // ---------- what was typed and not sent: with the site at once, in the browser until the site has it ----------
  const { backup } = form.dataset;
  const state = () => [...new FormData(form)].filter(([name]) => /^level-|^(hack_level|hack_type|reason)$/.test(name));
  const line = document.getElementById("saved");
  const say = (text, bad = false) => { line.textContent = text; line.classList.toggle("warn-t", bad); };
  const start = JSON.stringify(state());
  let sent = ""; // what the site has of this page
  let touched = false;
  let waiting = 0;
  let busy = Promise.resolve();
  const save = (keepalive = false) => {
    clearTimeout(waiting);
    const mine = JSON.stringify(state());
    if (!touched || mine === sent) return;
    const body = new FormData(form);
    busy = busy.then(async () => {
      try {
        const answer = await fetch(form.dataset.draft, { method: "POST", body, keepalive, credentials: "same-origin", headers: { Accept: "application/json" } });
        if (!answer.ok && answer.status !== 409) throw new Error(String(answer.status));
        const told = await answer.json();
        sent = mine;
        if (told.refused) { say(told.refused, true); return; }
        if (JSON.stringify(state()) !== mine) return; // more was typed since
        localStorage.removeItem(backup);
        say("Draft saved");
      } catch {
        say("Not saved: the site does not answer. Kept in this browser, trying again", true);
        waiting = setTimeout(save, 4000);
      }
    });
  };
  const keep = () => {
    touched = true;
    localStorage.setItem(backup, JSON.stringify(state()));
    say("Saving");
    clearTimeout(waiting);
    waiting = setTimeout(save, 500);
  };
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "hidden") save(true); });
  form.addEventListener("submit", () => { clearTimeout(waiting); sent = JSON.stringify(state()); });
  form.addEventListener("input", keep);
  const kept = localStorage.getItem(backup);
  if (document.getElementById("problems") || "refused" in form.dataset) keep();
  else if (kept && kept !== start) {
    const told = JSON.parse(kept);
    const has = (name, value) => told.some(([n, v]) => n === name && v === value);
    form.querySelectorAll("input[type=radio], input[type=checkbox]").forEach((i) => { i.checked = has(i.name, i.value); });
    form.elements.reason.value = (told.find(([n]) => n === "reason") || ["", ""])[1];
    if (fold) fold.open = true;
    keep();
  }

  document.addEventListener("keydown", (event) => {
    if (!form.isConnected) return; // the next item has taken its place
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
