// What is typed into a form and not sent yet stays in this browser: neither a reload nor a site that is away loses it.
// data-keep names the form and, last, a number that is another one once it was sent; where there is none, what stands in
// data-sent is what was sent.
(() => {
  "use strict";
  for (const form of document.querySelectorAll("form[data-keep]")) {
    const { keep, sent } = form.dataset;
    const place = keep.slice(0, keep.lastIndexOf("-") + 1);
    const fields = [...form.querySelectorAll("textarea, input[maxlength]")];
    const there = new Set([...document.querySelectorAll(sent || "none")].map((said) => said.textContent.trim()));
    const was = (key) => JSON.parse(localStorage.getItem(key) || "{}");
    const gone = (key) => key !== keep || Object.values(was(key)).some((text) => there.has(text.trim()));
    for (const key of Object.keys(localStorage)) if (key.startsWith(place) && gone(key)) localStorage.removeItem(key);
    const kept = was(keep);
    for (const field of fields) if (field.name in kept) field.value = kept[field.name];
    form.addEventListener("input", () => {
      localStorage.setItem(keep, JSON.stringify(Object.fromEntries(fields.map((field) => [field.name, field.value]))));
    });
  }
})();
