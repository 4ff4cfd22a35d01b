// What the browser says when a passkey cannot be made or used, on the page instead of in the console.
(() => {
  "use strict";
  const words = {
    NotAllowedError: "Nothing was done: it was cancelled, took too long, or this device has no passkey of this site.",
    InvalidStateError: "This device has a passkey of this account already.",
    SecurityError: `A passkey belongs to a name over HTTPS or to localhost, and this page is at ${location.host}. Open the site by its name, on your own machine as localhost.`,
  };
  document.addEventListener("allauth.error", (event) => {
    event.preventDefault();
    const note = document.getElementById("passkey-refused");
    const error = event.detail.exception;
    if (!note) return;
    note.querySelector("p").textContent = words[error.name] || `The browser refused: ${error.message}`;
    note.hidden = false;
  });
})();
