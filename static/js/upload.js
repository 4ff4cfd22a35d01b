// Upload page: drag and drop, folders, a file's text into the form, more input rows. The form works without all of it.
(() => {
  "use strict";
  const files = document.getElementById("files");
  const drop = document.getElementById("drop");
  const text = document.getElementById("text");
  const picked = document.getElementById("picked");
  const paths = document.getElementById("paths");
  const count = document.getElementById("line-count");
  const MAX_TEXT = 1 << 20;

  const lines = () => {
    const n = text.value ? text.value.replace(/\n$/, "").split("\n").length : 0;
    count.textContent = n ? `${n} line${n === 1 ? "" : "s"}, kept in this form` : "";
  };

  const take = async (list, names) => {
    paths.value = names ? names.join("\n") : "";
    const chosen = [...list];
    if (!chosen.length) return;
    if (chosen.length === 1 && chosen[0].name.endsWith(".py") && chosen[0].size <= MAX_TEXT) {
      // One file goes into the text box, where it can be read and corrected; bytes that are no text stay a file, and are refused.
      try {
        text.value = new TextDecoder("utf-8", { fatal: true }).decode(await chosen[0].arrayBuffer());
        const name = document.querySelector("input[name=name]");
        if (name && !name.value) name.value = chosen[0].name.replace(/\.py$/, "");
        files.value = "";
        paths.value = "";
        picked.textContent = `${chosen[0].name} is in the form`;
        lines();
        text.focus();
        return;
      } catch { /* falls through */ }
    }
    picked.textContent = chosen.length === 1 ? `${chosen[0].name} will be sent` : `${chosen.length} files will be sent as a suite`;
  };

  files.addEventListener("change", () => take(files.files));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files.length) {
        files.files = event.dataTransfer.files;
        take(files.files);
      }
    });
  }

  document.getElementById("pick-folder").addEventListener("click", () => {
    const folder = document.createElement("input");
    folder.type = "file";
    folder.webkitdirectory = true;
    folder.addEventListener("change", () => {
      const python = [...folder.files].filter((f) => f.name.endsWith(".py"));
      const bag = new DataTransfer();
      python.forEach((f) => bag.items.add(f));
      files.files = bag.files;
      take(python, python.map((f) => f.webkitRelativePath || f.name));
      if (!python.length) picked.textContent = "There is no .py file in that folder";
    });
    folder.click();
  });

  // Paste anywhere outside of a field lands in the text.
  document.addEventListener("paste", (event) => {
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const pasted = event.clipboardData.getData("text/plain");
    if (pasted) { text.value = pasted; lines(); text.focus(); }
  });

  const rows = document.getElementById("input-rows");
  document.getElementById("add-input").addEventListener("click", () => {
    const row = rows.lastElementChild.cloneNode(true);
    const n = rows.childElementCount + 1;
    row.querySelector("th").textContent = n;
    row.querySelectorAll("input").forEach((input) => { input.value = ""; });
    row.querySelectorAll("[aria-label]").forEach((e) => e.setAttribute("aria-label", e.getAttribute("aria-label").replace(/\d+$/, n)));
    if (n <= 8) rows.append(row);
    row.querySelector("input").focus();
  });

  text.addEventListener("input", lines);
  lines();
})();
