// The live run page: apply what the server sends, say what was applied, come back where we were.
//
// A message is {seq, html, status}, or {seq} as a sign of life. `html` holds elements with ids, each replacing the element of that id (elements that this
// page does not show are passed by), and <template data-prepend="list"> with rows that are put on top of a list once.
// The cursor moves only when a message was applied, and travels with every reconnect, so a lost connection loses nothing.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (!live || !("WebSocket" in window)) return;
  const state = document.getElementById("live-state");
  const shown = document.getElementById("live-seq");
  const notice = document.getElementById("live-lost");
  const GONE = { 4401: "signed out: sign in again", 4403: "you may not watch this run any more", 4404: "this run is gone" };
  const SILENCE = 50000; // ms; a quiet run gives a sign of life every 20 s
  let cursor = Number(live.dataset.since);
  let wait = 500;

  const say = (icon, text, hue) => {
    state.className = `state ${hue}`;
    state.querySelector("use").setAttribute("href", `#i-${icon}`);
    state.querySelector("span").textContent = text;
    // The strip lies below the fold: what is shown and no longer true must be said at the top.
    notice.hidden = !["warn-t", "bad-t"].includes(hue);
    notice.querySelector("b").textContent = notice.hidden ? "" : text;
  };

  // An ended run is still watched, since a program written by hand may follow; but nothing about it is live.
  const ENDED = ["finished", "cancelled", "failed"];
  const connected = () => say("dot", ENDED.includes(live.dataset.status) ? "complete" : "live", "ok-t");

  // Where the reader is must survive: focus, open details, scrolled boxes.
  const keep = (old, fresh) => {
    // What is served open stays open, unless these are the same ones and the reader closed it.
    const open = [...old.querySelectorAll("details")].map((d) => d.open);
    const details = fresh.querySelectorAll("details");
    details.forEach((d, i) => { d.open = details.length === open.length ? open[i] : d.open || Boolean(open[i]); });
    const boxes = [...old.querySelectorAll(".scroll")].map((b) => [b.scrollTop, b.scrollLeft]);
    const at = old.contains(document.activeElement)
      ? [...old.querySelectorAll("a, button, input, select, textarea, summary, [tabindex]")].indexOf(document.activeElement) : -1;
    return () => {
      fresh.querySelectorAll(".scroll").forEach((b, i) => { if (boxes[i]) [b.scrollTop, b.scrollLeft] = boxes[i]; });
      const next = fresh.querySelectorAll("a, button, input, select, textarea, summary, [tabindex]")[at];
      if (next) next.focus({ preventScroll: true });
    };
  };

  // A judge's word is no part of what everybody is sent: each page asks for it, of the candidate that it shows.
  const judge = (candidate) => {
    const slot = document.getElementById("judged");
    if (!slot || !window.htmx) return;
    window.htmx.ajax("GET", `${slot.dataset.path}?candidate=${encodeURIComponent(candidate)}`, { target: slot, swap: "outerHTML" });
  };

  const apply = (html) => {
    const batch = document.createElement("template");
    batch.innerHTML = html;
    for (const element of [...batch.content.children]) {
      if (element.dataset.prepend) {
        const list = document.getElementById(element.dataset.prepend);
        for (const row of [...element.content.children].reverse()) {
          if (list && !document.getElementById(row.id)) list.prepend(row);
        }
        while (list && list.childElementCount > Number(list.dataset.max)) list.lastElementChild.remove();
        continue;
      }
      const old = element.id && document.getElementById(element.id);
      if (!old) continue;
      const restore = keep(old, element);
      const known = new Set([...old.querySelectorAll("[data-say]")].map((e) => e.dataset.say));
      const fresh = [...element.querySelectorAll("[data-say]")].map((e) => e.dataset.say).filter((text) => !known.has(text));
      if (fresh.length) document.getElementById("live-say").textContent = fresh.join(". ");
      old.replaceWith(element);
      restore();
      if (window.htmx) window.htmx.process(element);
      document.dispatchEvent(new CustomEvent("page:changed", { detail: element }));
      if (element.id === "focus") judge(element.dataset.candidate);
    }
  };

  const connect = () => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${live.dataset.path}?since=${cursor}`);
    let since = 0;
    let silence = 0;
    // A network that went away closes nothing: the browser's own word may take minutes, so silence and its "offline" count too.
    const lost = (event) => {
      window.removeEventListener("offline", lost);
      clearTimeout(silence);
      if (socket.over) return;
      socket.over = true;
      socket.close();
      if (GONE[event.code]) return say("x", GONE[event.code], "bad-t");
      // A server that takes the socket and closes it at once (too many of them) is not asked twice a second.
      if (since && Date.now() - since > 5000) wait = 500;
      say("warn", `reconnecting, showing up to event ${cursor}`, "warn-t");
      setTimeout(connect, wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, 10000);
    };
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(lost, SILENCE, {});
    };
    heard();
    window.addEventListener("offline", lost);
    socket.addEventListener("close", lost);
    socket.addEventListener("open", () => { since = Date.now(); connected(); });
    socket.addEventListener("message", (event) => {
      if (socket.over) return;
      heard();
      const message = JSON.parse(event.data);
      if (message.seq > cursor) {
        apply(message.html || "");
        cursor = message.seq;
        shown.textContent = cursor;
        live.dataset.since = cursor;
        live.dataset.status = message.status || live.dataset.status;
        connected();
      }
      socket.send(JSON.stringify({ ack: cursor }));
    });
  };
  say("ring", "connecting", "");
  connect();
})();
