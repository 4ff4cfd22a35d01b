#!/bin/sh
# Finds a Chromium for the browser tests, or installs one. Writes nothing when one is there.
set -eu
cd "$(dirname "$0")/.."

for name in chromium chromium-browser google-chrome google-chrome-stable; do
    path=$(command -v "$name" 2>/dev/null) || continue
    # Ubuntu's chromium package is a stub that asks for a snap: only one that starts counts.
    if "$path" --version >/dev/null 2>&1 </dev/null; then exit 0; fi
done
own=$(.venv/bin/python -c 'from playwright.sync_api import sync_playwright as s
with s() as p: print(p.chromium.executable_path)' 2>/dev/null || true)
if [ -n "$own" ] && [ -x "$own" ]; then exit 0; fi

if grep -qs '^ID=ubuntu' /etc/os-release; then
    echo "Installing Playwright's Chromium and the system libraries it needs (browser tests)."
    exec .venv/bin/python -m playwright install --with-deps chromium </dev/null
fi
exec sh tools/system.sh chromium "the browser tests"
