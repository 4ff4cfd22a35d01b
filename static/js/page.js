// Small helps for every page: copy buttons, times in the reader's zone, counters. Nothing on a page needs them.
(() => {
  "use strict";
  document.documentElement.classList.add("js");

  const two = (n) => String(n).padStart(2, "0");
  const span = (s) => (s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${two(s % 60)} s` : `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`);

  const tell = (root) => {
    for (const time of root.querySelectorAll("time[data-local]")) {
      const at = new Date(time.dateTime);
      time.title = time.textContent;
      time.textContent = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
      time.removeAttribute("data-local");
    }
    for (const time of root.querySelectorAll("time[data-since]")) {
      const seconds = Math.max(0, Math.round((Date.now() - new Date(time.dateTime)) / 1000));
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
      label.textContent = " not copied: open the file instead";
    }
    button.setAttribute("aria-live", "polite");
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
