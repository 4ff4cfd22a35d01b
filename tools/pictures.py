"""Pictures of a profile as PNGs, light and dark, wide and narrow: what `stitchweb.runs.pictures` draws of given reports.

python tools/pictures.py REPORT … [--range NAME] [--warmup N] [--before REPORT …] [--focus PATH] [--out DIR]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "stitchweb.settings")  # noqa: TID251

import django  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

SHEETS = ("tokens", "base", "parts", "charts", "run", "pages", "code", "pictures", "narrow")


def page(summary: dict[str, Any], before: dict[str, Any] | None, focus: str, media: str = "") -> str:
    """One document with everything that the site shows of the summary."""
    from urllib.parse import urlencode

    from django.template.loader import render_to_string

    from stitchweb.runs.spread import spread

    told = spread(
        summary, prefix="c1", name="candidate" if before else "program", before=before, wishes={"focus": focus},
        address=lambda anchor, **wishes: f"?{urlencode(wishes)}#{anchor}",
    )  # fmt: skip
    css = "".join((ROOT / "static" / "css" / f"{name}.css").read_text() for name in SHEETS)
    shown = render_to_string("runs/panels/spread.html", told)
    return (
        f"<!doctype html><html lang=en><meta name=viewport content='width=device-width'><style>{css}{media}</style><body>"
        f'<main class="page"><section class="panel profile">{shown}</section></main>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--before", nargs="*", type=Path, default=[])
    parser.add_argument("--range", default="")
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--focus", default="")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "pictures")
    parser.add_argument("--sizes", nargs="*", type=int, default=[1280, 360])
    parser.add_argument("--themes", nargs="*", choices=["light", "dark"], default=["light", "dark"])
    args = parser.parse_args()
    django.setup()
    from gpu_runner.profile import read_profile
    from tests.e2e.site import CHROMIUM, FLAGS

    summary = read_profile(args.reports, role="candidate", range_name=args.range, warmup=args.warmup)
    before = read_profile(args.before, range_name=args.range, warmup=args.warmup) if args.before else None
    args.out.mkdir(parents=True, exist_ok=True)
    text = page(summary, before, args.focus)
    (args.out / "pictures.html").write_text(text, encoding="utf-8")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for theme in args.themes:
            for width in args.sizes:
                shown = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme).new_page()
                shown.set_content(text)
                wide = shown.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    print(f"the page is {wide} px wide on {width}")
                shown.screenshot(path=args.out / f"{width}-{theme}.png", full_page=True)
                shown.context.close()
        browser.close()
    print(f"pictures are in {args.out}")


if __name__ == "__main__":
    main()
