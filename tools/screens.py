"""Screenshots of every page, light and dark, 1280 and 360 px wide, of a small told world. `make screens` puts them into out/screens.

    python tools/screens.py [--out DIR] [--only NAME …] [--sizes 1280 360] [--themes light dark]

A web process of its own serves them from a temporary data folder; the world is the one of the page tests.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
CHROMIUM = "/usr/bin/chromium"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _fill() -> tuple[str, dict[str, str]]:
    """Make the world in the database of this process's settings: a login path, and the pages by name."""
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from stitchweb.teams.services import make_login_link
    from tests.stitchweb.world_for_tests import make_world

    world = make_world()
    run, live = f"/runs/{world.done.pk}/", f"/runs/{world.live.pk}/"
    return make_login_link(world.owner), {
        "library": "/", "library-none": "/?q=nothing-of-that-name", "runs": "/runs/", "upload": "/upload/",
        "upload-example": "/upload/?example=layernorm_gelu", "program": f"/programs/{world.program.pk}/",
        "suite": f"/suites/{world.suite.pk}/", "status": "/status/", "run-done": run, "run-live": live,
        "run-waiting": f"/runs/{world.waiting.pk}/", "run-refused": f"/runs/{world.refused.pk}/",
        "run-pinned": f"{run}?candidate=c2&against=reference", "run-plan": f"/runs/{world.waiting.pk}/plan",
        "run-edit": f"{live}candidates/c3/edit", "not-found": "/runs/999999/",
    }  # fmt: skip


@contextmanager
def _served(env: dict[str, str], port: int) -> Iterator[str]:
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "stitchweb.asgi:application"]
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(150):
            try:
                urllib.request.urlopen(f"{base}/health/", timeout=2).read()  # noqa: S310  our own server
                break
            except OSError:
                time.sleep(0.2)
        yield base
    finally:
        process.terminate()
        process.wait(20)


def _shoot(base: str, login: str, pages: dict[str, str], args: argparse.Namespace) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        signed_out = browser.new_page()
        signed_out.goto(f"{base}/login/")
        context = browser.new_context()
        page = context.new_page()
        page.goto(base + login)
        state = context.storage_state()
        for theme in args.themes:
            for size in args.sizes:
                view = browser.new_context(
                    viewport={"width": size, "height": 900}, color_scheme=theme, storage_state=state, device_scale_factor=1
                )
                page = view.new_page()
                for name, path in pages.items():
                    if args.only and name not in args.only:
                        continue
                    page.goto(base + path)
                    page.wait_for_timeout(150)
                    page.screenshot(path=args.out / f"{name}-{size}-{theme}.png", full_page=True)
                view.clear_cookies()
                page.goto(f"{base}/login/")
                if not args.only or "login" in args.only:
                    page.screenshot(path=args.out / f"login-{size}-{theme}.png", full_page=True)
                view.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "screens")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", type=int, default=[1280, 360])
    parser.add_argument("--themes", nargs="*", choices=["light", "dark"], default=["light", "dark"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory(prefix="stitchweb-screens-") as data:
        # Settings read the environment, and this is the environment of the processes started here.
        changed = {"DATA_DIR": data, "DEBUG": "0", "DJANGO_SETTINGS_MODULE": "stitchweb.settings"}
        os.environ.update(changed)  # noqa: TID251
        env = dict(os.environ)  # noqa: TID251
        login, pages = _fill()
        from django.core.management import call_command

        call_command("collectstatic", interactive=False, verbosity=0)
        with _served(env, _free_port_of(env)) as base:
            _shoot(base, login, pages, args)
    print(f"screenshots are in {args.out}")


def _free_port_of(env: dict[str, str]) -> int:
    port = _free_port()
    env["PORT"] = str(port)
    return port


if __name__ == "__main__":
    main()
