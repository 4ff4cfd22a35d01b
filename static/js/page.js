// Small helps for every page: copy buttons, times in the reader's zone, counters. Nothing on a page needs them.
(() => {
  "use strict";
  document.documentElement.classList.add("js");

  const two = (n) => String(n).padStart(2, "0");
  const span = (s) => (s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${two(s % 60)} s` : `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`);

  // The server's time, whatever this machine's clock says: the page was made at data-now, and its first byte came right after.
  const [load] = performance.getEntriesByType("navigation");
  const ahead = Number(document.documentElement.dataset.now) * 1000 - (performance.timeOrigin + (load ? load.responseStart : 0));
  const now = () => Date.now() + ahead;

  // As numbers.seconds writes it: "3.6 s", "118 s", "4 min 02 s", "15 min", "2 h 05 min".
  const duration = (s) => {
    if (s < 10) return `${s.toFixed(1)}\u00a0s`;
    const whole = Math.round(s);
    if (whole < 120) return `${whole}\u00a0s`;
    const hours = whole >= 7200;
    const [big, small, unit, part] = hours
      ? [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), "h", "min"] : [Math.floor(whole / 60), whole % 60, "min", "s"];
    return `${big}\u00a0${unit}${small ? `\u00a0${two(small)}\u00a0${part}` : ""}`;
  };

  // What a run has spent of its time: what its last step left, and since when the present one is worked on.
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const tick = (box) => {
    const spent = Number(box.dataset.spent) + Math.max(0, now() / 1000 - Number(box.dataset.from));
    const shown = still.matches ? Math.floor(spent / 10) * 10 : spent;
    if (shown < Number(box.dataset.spent)) return;
    box.querySelector("b").textContent = duration(shown < 10 ? shown : Math.floor(shown));
    const bar = box.parentElement.querySelector(".bar");
    if (!bar || !box.dataset.bound) return;
    const percent = Math.min(100, (100 * shown) / Number(box.dataset.bound));
    bar.querySelector("rect:last-child").setAttribute("width", `${percent.toFixed(1)}%`);
    bar.setAttribute("aria-label", `wall: ${percent.toFixed(0)}\u00a0%`);
  };

  const tell = (root) => {
    root.querySelectorAll("[data-ticks]").forEach(tick);
    for (const time of root.querySelectorAll("time[data-local]")) {
      const at = new Date(time.dateTime);
      time.title = time.textContent;
      time.textContent = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
      time.removeAttribute("data-local");
    }
    for (const time of root.querySelectorAll("time[data-since]")) {
      const seconds = Math.max(0, Math.round((now() - new Date(time.dateTime)) / 1000));
      time.textContent = `for ${span(seconds)}`;
    }
  };
  tell(document);
  setInterval(() => tell(document), 1000);
  document.addEventListener("page:changed", (event) => tell(event.detail));

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const label = button.querySelector("span") || button.appendChild(document.createElement("span"));
    const source = button.dataset.copy;
    try {
      const text = source.startsWith("#")
        ? document.querySelector(source).innerText
        : await fetch(source, { credentials: "same-origin" }).then((answer) => (answer.ok ? answer.text() : Promise.reject(answer.status)));
      await navigator.clipboard.writeText(text);
      label.textContent = " copied";
    } catch {
      label.textContent = source.startsWith("#") ? " not copied: select it and copy by hand" : " not copied: open the file instead";
    }
    button.setAttribute("aria-live", "polite");
  });

  // A profile's pictures zoom and its table sorts in place. The links of a picture are none that htmx follows by itself.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("[data-look] a[href*='?']");
    if (!link || !window.htmx || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    const panel = link.closest(".panel");
    const { id } = link;
    await window.htmx.ajax("GET", link.getAttribute("href"), { source: panel, target: panel, swap: "outerHTML" });
    document.getElementById(id)?.focus({ preventScroll: true });
  });

  // In a flame view the arrow keys go up to the caller, down to the longest callee, and along the siblings: an id is its path.
  document.addEventListener("keydown", (event) => {
    const cell = event.target.closest?.(".flame a");
    if (!cell || !event.key.startsWith("Arrow")) return;
    const [, stem, path] = cell.id.match(/^(.*-n)([\d-]*)$/);
    const parts = path ? path.split("-") : [];
    const cells = [...cell.ownerSVGElement.querySelectorAll("a")];
    const level = cells.filter((c) => c.id.slice(stem.length).split("-").filter(Boolean).length === parts.length);
    const goal = {
      ArrowUp: () => parts.length && document.getElementById(stem + parts.slice(0, -1).join("-")),
      ArrowDown: () => cells.find((c) => c !== cell && c.id.startsWith(parts.length ? `${cell.id}-` : stem)),
      ArrowLeft: () => level[level.indexOf(cell) - 1],
      ArrowRight: () => level[level.indexOf(cell) + 1],
    }[event.key]();
    event.preventDefault();
    if (goal && goal.tagName === "a") goal.focus();
  });

  // A form that asks something of a run is emptied once the request was taken.
  document.addEventListener("htmx:afterRequest", (event) => {
    const form = event.target.closest("form[data-clear]");
    if (form && event.detail.xhr.status === 204) form.reset();
    const answer = document.getElementById("steer-answer");
    if (answer && event.detail.xhr.status === 204) answer.replaceChildren();
  });
  document.addEventListener("htmx:sendError", () => {
    const answer = document.getElementById("steer-answer");
    if (answer) answer.textContent = "The site did not answer. Nothing was changed; try again.";
  });
})();
