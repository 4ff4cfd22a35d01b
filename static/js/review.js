// The review page by key: pick a dimension, set its level, mark lines, find a hack. Every change is saved at once.
// Without this script the same form works with its buttons.
(() => {
  "use strict";
  const typing = () => document.activeElement.matches("textarea, select, input:not([type=radio], [type=checkbox])");

  const begin = (form) => {
    const $ = (id) => document.getElementById(id);
    const dims = [...form.querySelectorAll(".dim")];
    const letters = Object.fromEntries(dims.map((d) => [d.dataset.key, d.dataset.letter]));
    const backup = `review-${form.dataset.pk}`;
    let dim = dims[0];
    let sent = ""; // what the server has, and what it was last asked to keep
    let asked = "";

    // ---------- the dimension that digits go to ----------
    const pick = (wanted, focus = true) => {
      dim = wanted;
      dims.forEach((d) => d.classList.toggle("on", d === dim));
      if (!focus) return;
      (dim.querySelector(".lv input:checked") || dim.querySelector(".lv input")).focus({ preventScroll: true });
      dim.scrollIntoView({ block: "nearest" });
    };
    form.addEventListener("focusin", (event) => {
      const inside = event.target.closest(".dim");
      if (inside) pick(inside, false);
    });

    // ---------- saving ----------
    const say = (text, bad = false) => {
      const line = $("saved");
      line.classList.toggle("warn-t", bad);
      line.querySelector("span").textContent = text;
    };
    const FIELDS = /^(level|sure|reason|check)-|^(mark|hack_level|hack_type|comment)$/;
    const state = () => [...new FormData(form)].filter(([name]) => FIELDS.test(name));
    let active = 0;
    let last = Date.now();
    for (const kind of ["keydown", "pointermove", "scroll", "pointerdown"]) document.addEventListener(kind, () => { last = Date.now(); }, { passive: true, capture: true });
    setInterval(() => { if (document.visibilityState === "visible" && Date.now() - last < 60000) active += 1; }, 1000);

    let waiting = 0;
    let busy = Promise.resolve();
    const post = async (act, keepalive = false, body = new FormData(form)) => {
      const spent = active;
      body.set("draft", form.elements.draft.value);
      body.set("active", String(spent));
      body.set("act", act);
      const answer = await fetch(form.action, { method: "POST", body, keepalive, credentials: "same-origin", headers: { Accept: "application/json" } });
      if (!answer.ok && answer.status !== 409) throw new Error(String(answer.status));
      const told = await answer.json();
      if (told.refused) { say(told.refused, true); return null; }
      active -= spent;
      form.elements.draft.value = told.draft || "";
      $("left").textContent = told.left.length ? `${told.left.length} open` : "complete";
      $("lease").textContent = told.ran_out ? "others have taken this item; your draft is kept" : `yours for ${told.minutes} min more; each change renews it`;
      return told;
    };
    const save = (keepalive = false) => {
      clearTimeout(waiting);
      const mine = JSON.stringify(state());
      if (mine === asked) return;
      asked = mine;
      const body = new FormData(form); // as it is now: what changes while this waits is a draft of its own, for undo
      busy = busy.then(async () => {
        try {
          const told = await post("save", keepalive, body);
          if (!told) return;
          sent = mine;
          if (JSON.stringify(state()) !== mine) return; // more was typed since: saved is said of all that is there, or not at all
          localStorage.removeItem(backup);
          say(told.overtaken ? "Saved. Another page of yours had saved since: U goes back to it" : "Draft saved");
        } catch {
          asked = sent;
          say("Not saved: the site does not answer. Kept in this browser, trying again", true);
          waiting = setTimeout(save, 4000);
        }
      });
    };
    const changed = (soon) => {
      localStorage.setItem(backup, JSON.stringify(state()));
      say("Saving");
      clearTimeout(waiting);
      if (soon) save();
      else waiting = setTimeout(save, 500);
    };
    form.addEventListener("input", (event) => { if (event.target.name) changed(event.target.type !== "textarea"); });
    document.addEventListener("visibilitychange", () => { if (document.visibilityState === "hidden") save(true); });

    // ---------- marks ----------
    const markItem = (word) => {
      const [key, side, first, end, ...path] = word.split("|");
      const span = first === end ? first : `${first}–${end}`;
      const place = `${side === "candidate" ? "" : `${side} `}${path.join("|")}:${span}`;
      const item = document.createElement("li");
      const field = Object.assign(document.createElement("input"), { type: "hidden", name: "mark", value: word });
      const text = Object.assign(document.createElement("span"), { className: "mono", textContent: place });
      const gone = Object.assign(document.createElement("button"), { className: "btn small quiet", type: "submit", name: "act", value: `unmark ${word}` });
      gone.setAttribute("aria-label", `Remove the mark ${place}`);
      gone.textContent = "×";
      item.append(field, text, gone);
      form.querySelector(`.dim[data-key="${key}"] .marks`).append(item);
    };
    const words = () => [...form.querySelectorAll("[name=mark]")].map((m) => m.value);
    const gutter = () => {
      const marks = words().map((w) => w.split("|"));
      for (const row of lines()) {
        const { side, file, line } = row.dataset;
        const keys = marks.filter(([, s, a, b, ...f]) => s === side && f.join("|") === file && Number(a) <= Number(line) && Number(line) <= Number(b)).map(([key]) => key);
        row.querySelector(".eg").replaceChildren(...[...new Set(keys)].map((key) => Object.assign(document.createElement("b"), { textContent: letters[key] })));
      }
    };
    form.addEventListener("click", (event) => {
      const button = event.target.closest("[value^='unmark ']");
      if (!button) return;
      event.preventDefault();
      button.closest("li").remove();
      gutter();
      changed(true);
    });

    // ---------- lines ----------
    let from = -1;
    let to = -1;
    const lines = () => [...document.querySelectorAll("#code tr[data-line]")];
    const chosen = () => lines().slice(Math.min(from, to), Math.max(from, to) + 1);
    const show = () => {
      const rows = lines();
      rows.forEach((row, i) => row.classList.toggle("sel", from >= 0 && i >= Math.min(from, to) && i <= Math.max(from, to)));
      $("pick").hidden = from < 0;
      $("keyhelp").hidden = from >= 0;
      if (from < 0) return;
      const some = chosen();
      $("pick-what").textContent = some.length === 1 ? `line ${some[0].dataset.line}` : `${some.length} lines`;
      rows[to].scrollIntoView({ block: "nearest" });
    };
    const move = (step, grow) => {
      const most = lines().length - 1;
      if (most < 0) return;
      to = to < 0 ? 0 : Math.min(most, Math.max(0, to + step));
      if (!grow || from < 0) from = to;
      show();
    };
    const leave = () => { from = to = -1; show(); };
    const attach = (key) => {
      // A selection over both sides of a diff becomes one mark per side and run of lines.
      const runs = [];
      for (const { dataset: { side, file, line } } of chosen()) {
        const run = runs[runs.length - 1];
        if (run && run.side === side && run.file === file && Number(line) === run.end + 1) run.end += 1;
        else runs.push({ side, file, first: Number(line), end: Number(line) });
      }
      const there = new Set(words());
      for (const { side, file, first, end } of runs) {
        const word = [key, side, first, end, file].join("|");
        if (!there.has(word)) markItem(word);
      }
      pick(dims.find((d) => d.dataset.key === key), false);
      leave();
      gutter();
      changed(true);
    };
    const onCode = (event) => {
      const row = event.target.closest("#code tr[data-line]");
      if (!row || String(getSelection())) return;
      const at = lines().indexOf(row);
      if (event.shiftKey && from >= 0) to = at;
      else from = to = at;
      show();
    };
    document.addEventListener("click", (event) => {
      const button = event.target.closest("[data-attach]");
      if (button) attach(button.dataset.attach);
      else onCode(event);
    });
    const hunk = (step) => {
      const rows = lines();
      const starts = rows.map((r, i) => i).filter((i) => /add|del/.test(rows[i].className) && !(i && /add|del/.test(rows[i - 1].className)));
      const found = step > 0 ? starts.find((i) => i > to) : starts.reverse().find((i) => i < to);
      if (found !== undefined) { from = to = found; show(); }
    };

    // ---------- files and views, in place ----------
    const open = async (link) => {
      const answer = await fetch(link.dataset.code, { credentials: "same-origin" });
      if (!answer.ok) { location.href = link.href; return; }
      const text = await answer.text();
      $("code").outerHTML = text;
      const panel = $("code");
      form.elements["at-file"].value = panel.dataset.file;
      form.elements["at-against"].value = panel.dataset.against;
      leave();
      gutter();
    };
    document.addEventListener("click", (event) => {
      const link = event.target.closest("[data-code]");
      if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      open(link);
    });
    const turn = (selector, step) => {
      const links = [...document.querySelectorAll(`#code ${selector}`)];
      const at = links.findIndex((l) => l.hasAttribute("aria-current"));
      if (links.length > 1) open(links[(at + step + links.length) % links.length]);
    };

    // ---------- hack palette ----------
    const find = $("hack-find");
    const filter = () => {
      const wanted = find.value.trim().toLowerCase();
      for (const label of form.querySelectorAll("[data-find]")) label.hidden = !label.dataset.find.includes(wanted);
    };
    find.addEventListener("input", filter);
    find.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.ctrlKey) return;
      event.preventDefault();
      const said = find.value.trim().toLowerCase();
      const level = [...form.querySelectorAll("[name=hack_level]")].find((i) => i.value === said);
      const first = level || (said && form.querySelector("[data-find]:not([hidden])"));
      if (!first) return;
      first.click();
      find.value = "";
      filter();
    });

    // ---------- undo: what stands on the server goes into the form ----------
    const fill = (content) => {
      for (const d of dims) {
        const { key } = d.dataset;
        const score = content.scores[key] || {};
        d.querySelectorAll(".lv input").forEach((i) => { i.checked = String(score.level ?? "") === i.value; });
        d.querySelectorAll(`[name="sure-${key}"]`).forEach((i) => { i.checked = String(score.sure ?? "") === i.value; });
        d.querySelectorAll("[type=checkbox]").forEach((i) => { i.checked = (score.checks || []).includes(i.value); });
        d.querySelector("textarea").value = score.reason || "";
        d.querySelector(".marks").replaceChildren();
      }
      content.marks.forEach((m) => markItem([m.dimension, m.side, m.first, m.last, m.file].join("|")));
      form.querySelectorAll("[name=hack_level]").forEach((i) => { i.checked = content.hack_level === i.value; });
      form.querySelectorAll("[name=hack_type]").forEach((i) => { i.checked = content.hack_types.includes(i.value); });
      form.elements.comment.value = content.comment || "";
      gutter();
    };
    const undo = () => {
      save();
      busy = busy.then(async () => {
        try {
          const told = await post("undo");
          if (!told) return;
          fill(told.content);
          sent = asked = JSON.stringify(state());
          localStorage.removeItem(backup);
          say(told.draft ? "Went one back" : "Nothing before this");
        } catch { say("Not undone: the site does not answer", true); }
      });
    };
    $("undo").addEventListener("click", (event) => { event.preventDefault(); undo(); });
    const submit = () => busy.then(() => form.requestSubmit($("submit")));
    // What is kept in the browser goes only when the page after it has arrived.
    // What is sent with the form is not saved once more behind it: by then the item may be submitted.
    const sends = () => { clearTimeout(waiting); asked = JSON.stringify(state()); };
    form.addEventListener("submit", () => { form.elements.active.value = String(active); sends(); });
    $("skip").addEventListener("submit", () => { localStorage.removeItem(backup); sends(); });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.ctrlKey && !event.metaKey && event.target.matches("input")) event.preventDefault();
    });

    // ---------- keys ----------
    const on = $("keys-on");
    on.checked = localStorage.getItem("review-keys") !== "off";
    on.addEventListener("change", () => localStorage.setItem("review-keys", on.checked ? "on" : "off"));
    const level = (digit) => {
      const box = dim.querySelector(`.lv input[value="${digit}"]`);
      box.checked = true;
      box.focus({ preventScroll: true });
      changed(true);
    };
    const acts = {
      j: (e) => move(1, e.shiftKey), k: (e) => move(-1, e.shiftKey), "]": () => hunk(1), "[": () => hunk(-1),
      f: (e) => turn("[data-tab]", e.shiftKey ? -1 : 1), d: () => turn("[data-view]", 1),
      h: () => { find.focus(); $("hack").scrollIntoView({ block: "nearest" }); },
      c: () => form.elements.comment.focus(), r: () => dim.querySelector("textarea").focus(), u: undo,
      t: () => { save(); busy.then(() => { location.href = $("hunch").href; }); }, x: () => $("skip").showPopover(), "?": () => $("keys").togglePopover(),
    };
    // ---------- other keys for the same acts: pressed key → the act's own key, kept in this browser ----------
    let map = JSON.parse(localStorage.getItem("review-map") || "{}");
    const fields = [...document.querySelectorAll("[data-act-key]")];
    const shown = () => {
      for (const field of fields) field.value = Object.keys(map).find((k) => map[k] === field.dataset.actKey) || field.dataset.actKey;
    };
    const meant = (key) => map[key] || (Object.values(map).includes(key) ? "" : key);
    for (const field of fields) {
      field.addEventListener("change", () => {
        const own = field.dataset.actKey;
        const key = field.value.toLowerCase();
        const others = fields.filter((f) => f !== field).map((f) => f.value);
        const taken = !/^[^\s\d?]$/.test(key) || others.includes(key) || dims.some((d) => d.dataset.letter.toLowerCase() === key);
        $("map-said").textContent = taken ? `${field.value || "Nothing"} is no free key: take a letter or sign that nothing else uses.` : "";
        if (!taken) {
          map = Object.fromEntries(Object.entries(map).filter(([, act]) => act !== own));
          if (key !== own) map[key] = own;
          localStorage.setItem("review-map", JSON.stringify(map));
        }
        shown();
      });
    }
    $("map-reset").addEventListener("click", () => { map = {}; localStorage.removeItem("review-map"); $("map-said").textContent = ""; shown(); });
    shown();

    document.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); return; }
      if (event.key === "Escape") { if (typing()) document.activeElement.blur(); else leave(); return; }
      if (!on.checked || typing() || event.ctrlKey || event.metaKey || event.altKey || document.querySelector(":popover-open") && event.key !== "?") return;
      const key = meant(event.key.toLowerCase());
      const named = dims.find((d) => d.dataset.letter.toLowerCase() === key);
      if (from >= 0 && dims[Number(key) - 1]) attach(dims[Number(key) - 1].dataset.key);
      else if (from >= 0 && named) attach(named.dataset.key);
      else if (/^[0-5]$/.test(key)) level(key);
      else if (named) pick(named);
      else if (acts[key]) acts[key](event);
      else return;
      event.preventDefault();
    });

    // ---------- what a lost page left behind ----------
    sent = asked = JSON.stringify(state());
    pick(dim, false);
    const kept = localStorage.getItem(backup);
    if (kept && kept !== sent) {
      const content = { scores: {}, marks: [], hack_types: [], hack_level: "", comment: "" };
      const score = (key) => (content.scores[key] ||= { checks: [] });
      for (const [name, value] of JSON.parse(kept)) {
        const [, kind, key] = name.match(/^(level|sure|reason|check)-(.*)$/) || [];
        if (kind === "check") score(key).checks.push(value);
        else if (kind) score(key)[kind] = value;
        else if (name === "hack_type") content.hack_types.push(value);
        else if (name === "mark") { const [dimension, side, first, end, ...file] = value.split("|"); content.marks.push({ dimension, side, first, last: end, file: file.join("|") }); }
        else content[name] = value;
      }
      fill(content);
      changed(true);
    } else {
      localStorage.removeItem(backup);
    }
    performance.mark("listens"); // from now on keys are heard: bench/review.py asks when
  };
  const start = () => { const form = document.getElementById("review"); if (form) begin(form); };
  document.addEventListener("review:item", start); // the next item has come onto the page of the one before: next.js
  start();
  // Back and forward between an item and the one before it, which were one document: what does not stand here is asked for.
  const first = location.pathname;
  addEventListener("popstate", () => {
    const form = document.getElementById("review");
    if (location.pathname !== (form ? new URL(form.action).pathname : first)) location.reload();
  });
})();
