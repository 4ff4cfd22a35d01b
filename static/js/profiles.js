// The page of reports: drag and drop, a word on what was chosen, and one on what is going on. The form works without it.
(() => {
  "use strict";
  const files = document.getElementById("files");
  const drop = document.getElementById("drop");
  const picked = document.getElementById("picked");
  const button = document.getElementById("read");

  const tell = () => {
    const chosen = [...files.files];
    const mb = chosen.reduce((sum, file) => sum + file.size, 0) / (1 << 20);
    const names = chosen.map((file) => file.name).join(", ");
    const over = mb > Number(files.dataset.mostMb);
    picked.textContent = over ? `${names}: ${mb.toFixed(0)}\u00a0MB is more than is taken` : names;
    button.disabled = over;
  };
  files.addEventListener("change", tell);
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files.length) {
        files.files = event.dataTransfer.files;
        tell();
      }
    });
  }
  document.getElementById("report-form").addEventListener("submit", () => {
    button.disabled = true;
    document.getElementById("reading").textContent = "Reading. This page answers when it is done.";
  });
  // Back from the answer, the page may be the old one, with its button still off.
  window.addEventListener("pageshow", () => { button.disabled = false; });
})();
