"""Screenshots of every page, light and dark, wide and narrow, of a small told world. `make screens` puts them into out/screens.

python tools/screens.py [--out DIR] [--only NAME …] [--sizes 1280 360] [--themes light dark]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from tests.e2e.site import CHROMIUM, FLAGS, Site, told_site  # noqa: E402


def shoot(browser: Browser, site: Site, size: int, theme: str, args: argparse.Namespace) -> None:
    """All wanted pages in one size and theme, as full-page PNGs."""
    context = browser.new_context(viewport={"width": size, "height": 900}, color_scheme=theme)
    page = context.new_page()
    for name, path in {"login": "/login/", **site.pages}.items():
        if name == "library":
            page.goto(site.base + site.login())
        if not args.only or name in args.only:
            page.goto(site.base + path)
            page.wait_for_timeout(300)
            page.screenshot(path=args.out / f"{name}-{size}-{theme}.png", full_page=True)
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "screens")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", type=int, default=[1280, 360])
    parser.add_argument("--themes", nargs="*", choices=["light", "dark"], default=["light", "dark"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with told_site() as site, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for theme in args.themes:
            for size in args.sizes:
                shoot(browser, site, size, theme, args)
        browser.close()
    print(f"screenshots are in {args.out}")


if __name__ == "__main__":
    main()
