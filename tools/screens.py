"""Screenshots of every page in every state, light and dark, wide and narrow. `make screens` puts them into out/screens.

python tools/screens.py [--out DIR] [--only NAME …] [--sizes 1280 360] [--themes light dark]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402

from tests.e2e.site import CHROMIUM, FLAGS, Site, told_site  # noqa: E402


def _refuse_upload(page: Page) -> None:
    """Send a program with a bracket that never closes."""
    page.fill("#text", "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return (x + 1\n")
    page.fill("input[name=attempts]", "many")
    page.get_by_role("button", name="Only analyse").click()


def _refuse_run(page: Page) -> None:
    page.fill("input[name=attempts]", "many")
    page.get_by_role("button", name="Start the run").click()


def _open_inputs(page: Page) -> None:
    page.get_by_text("Build them from shapes and types").click()


def _refuse_report(page: Page) -> None:
    page.set_input_files("#files", {"name": "report.json", "mimeType": "application/json", "buffer": b'{"traceEvents": 7}'})
    page.get_by_role("button", name="Read").click()
    page.get_by_role("alert").wait_for()


def _refuse_provider(page: Page) -> None:
    page.fill("input[name=name]", "The machine under the desk")
    page.fill("input[name=api_base]", "http://169.254.169.254/v1")
    page.fill("input[name=key]", "sk-told-0123456789abcdef")
    page.get_by_role("button", name="Add it").click()
    page.get_by_role("alert").first.wait_for()


def _preview(page: Page) -> None:
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="As a model would get it").wait_for()


def _submit_too_early(page: Page) -> None:
    page.locator("#submit").click()
    page.get_by_role("alert").wait_for()


def _press(*keys: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        for key in keys:
            page.keyboard.press(key)

    return act


def _next_item(page: Page) -> None:
    """The item as it comes onto the page of the one before."""
    page.keyboard.press("n")
    page.locator("#review").wait_for()


ACTS: dict[str, tuple[str, Callable[[Page], None]]] = {  # pages that come of doing something on another
    "upload-bad": ("upload", _refuse_upload),
    "upload-inputs": ("upload", _open_inputs),
    "program-bad": ("program", _refuse_run),
    "profiles-bad": ("profiles", _refuse_report),
    "provider-bad": ("provider-new", _refuse_provider),
    "prompt-preview": ("prompt", _preview),
    "review-bad": ("review-typed", _submit_too_early),
    "review-lines": ("review-typed", _press("j", "j", "Shift+J", "Shift+J")),
    "review-keys": ("review-item", _press("?")),
    "review-skip": ("review-item", _press("x")),
    "review-next": ("review-done", _next_item),
    "review-revise": ("review-revealed", _press("v", "e", "2")),
}


def pages_of(site: Site) -> dict[str, tuple[str, str]]:
    """Name: who looks ("" for nobody signed in), and at which path, or at which markup where no address leads."""
    command = [sys.executable, str(ROOT / "tools" / "states.py")]
    done = subprocess.run(command, cwd=ROOT, env=site.env, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(done.stderr)
    world = {name: ("ada", path) for name, path in site.pages.items()}
    said = done.stdout.splitlines()[-1]  # mail without a server is printed before it
    return {"login": ("", "/login/")} | world | json.loads(said)


def _opened(browser: Browser, site: Site, who: str, size: int, theme: str) -> Page:
    page = browser.new_context(viewport={"width": size, "height": 900}, color_scheme=theme).new_page()
    page.goto(site.base + (site.login(who) if who else "/login/"))
    return page


def shoot(browser: Browser, site: Site, wanted: dict[str, tuple[str, str]], size: int, theme: str, out: Path) -> None:
    """All wanted pages in one size and theme, as full-page PNGs, one browser context per person."""
    people: dict[str, Page] = {}
    for name, (who, place) in wanted.items():
        page = people.setdefault(who, people.get(who) or _opened(browser, site, who, size, theme))
        if place.startswith("/"):
            page.goto(site.base + place)
        else:
            page.set_content(place)
        if name in ACTS:
            ACTS[name][1](page)
        page.wait_for_timeout(300)
        page.screenshot(path=out / f"{name}-{size}-{theme}.png", full_page=True)
    for page in people.values():
        page.context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "screens")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", type=int, default=[1280, 360])
    parser.add_argument("--themes", nargs="*", choices=["light", "dark"], default=["light", "dark"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with told_site() as site, sync_playwright() as play:
        pages = pages_of(site)
        pages |= {name: pages[start] for name, (start, _) in ACTS.items()}
        wanted = {name: place for name, place in pages.items() if not args.only or name in args.only}
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for theme in args.themes:
            for size in args.sizes:
                shoot(browser, site, wanted, size, theme, args.out)
        browser.close()
    print(f"screenshots are in {args.out}")


if __name__ == "__main__":
    main()
