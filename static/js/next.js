// The way from an item that was scored to the next one. It comes in one answer, onto this page, and is made ready meanwhile.
// Without this script the button leads there.
(() => {
  "use strict";
  const next = document.getElementById("next");
  const typing = () => document.activeElement.matches("textarea, select, input:not([type=radio], [type=checkbox])");
  const late = async (panel) => {
    const answer = await fetch(panel.dataset.late, { credentials: "same-origin" }).catch(() => ({ ok: false }));
    if (answer.ok) panel.outerHTML = await answer.text();
    else panel.querySelector("p").textContent = "Not there: the site does not answer. Reload the page.";
  };
  const ask = (ahead) => {
    const body = new FormData(next);
    body.set("ahead", ahead);
    return fetch(next.action, { method: "POST", body, credentials: "same-origin", headers: { "HX-Request": "true" } });
  };
  const show = (place, text) => {
    const main = document.getElementById("main");
    main.innerHTML = text;
    const title = main.querySelector("title");
    document.title = title.textContent;
    title.remove();
    document.dispatchEvent(new CustomEvent("review:item"));
    history.pushState(null, "", place);
    scrollTo({ top: 0, behavior: "instant" });
    main.focus({ preventScroll: true });
    main.querySelectorAll("[data-late]").forEach(late);
  };
  // While somebody reads what was hidden, the site holds the next item for them, for two minutes, and its page is here.
  const prepare = async () => {
    const until = Date.now() + 100000;
    const answer = await ask("take");
    return answer.status === 200 && { place: answer.headers.get("Content-Location"), text: await answer.text(), until };
  };
  let ready = Promise.resolve(false);
  const come = async ({ place, text }) => {
    show(place, text);
    // Now the reservation becomes a whole one. No answer: the page stays, and says so when it cannot save.
    const answer = await ask(place.split("/")[3]).catch(() => ({}));
    if (answer.ok && answer.headers.get("Content-Location") !== place) location.href = answer.headers.get("Content-Location");
  };
  const take = async () => {
    const page = await ready;
    if (page && Date.now() < page.until) { come(page); return; }
    const answer = await ask("");
    if (!answer.ok) throw new Error(String(answer.status));
    const place = answer.headers.get("Content-Location");
    if (answer.status === 204) location.href = place;
    else show(place, await answer.text());
  };
  localStorage.removeItem(`review-${next.dataset.pk}`);
  let asked = false;
  const from = document.referrer && new URL(document.referrer).pathname;
  if (from === location.pathname) ready = prepare().catch(() => false); // it was scored just now
  next.addEventListener("submit", (event) => {
    event.preventDefault();
    if (asked) return;
    asked = true;
    next.querySelector("button").setAttribute("aria-busy", "true");
    take().catch(() => next.submit()); // the browser goes there and tells what is wrong
  });
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "n" || !next.isConnected || localStorage.getItem("review-keys") === "off") return;
    if (!typing() && !event.ctrlKey && !event.metaKey && !event.altKey) next.requestSubmit();
  });
})();
