"""From "next" to an item ready for input, and a saved draft, over a long queue.

Usage: python bench/review.py [--items N] [--rounds N] [--browser [--pause MS]]

A synthetic project is filled up to N items in a database of its own. One reviewer takes, opens, saves and submits item after
item, through the whole of Django in this process; the network and daphne are not in these numbers. With --browser they score
by key in Chromium, from a web process of its own: then it is the time from the key N until the page hears the next key, and
until the item is drawn. While the reveal is read the next item is made ready; --pause 0 leaves no time for that.
"""

from __future__ import annotations

import argparse
import io
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from report import ROOT, quantile, show

SCORES = {"anti_hacking": 4, "cuda_engineering": 3, "operator_coverage": 3, "skill_compliance": 4}
IN_PLACE = {"hx-request": "true"}
FORM = {f"level-{key}": str(level) for key, level in SCORES.items()} | {"hack_level": "none"}


def fill(items: int) -> Any:
    """The synthetic project with `items` more items, each of a candidate that is there."""
    from django.core.management import call_command

    from stitchweb.core.databases import refresh_statistics
    from stitchweb.review.demo import seed_review
    from stitchweb.review.models import Item

    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    call_command("seed_demo", stdout=io.StringIO())
    project, reviewer = seed_review()
    some = list(project.items.select_related("run"))
    Item.objects.bulk_create(
        Item(
            project=project, run=(of := some[i % len(some)]).run, candidate=of.candidate, sha256=f"{i:064x}", skill=of.skill,
            why=of.why, rank=i / items, wanted=project.overlap,
        )
        for i in range(items)
    )  # fmt: skip
    refresh_statistics()
    return project, reviewer


def timed(times: list[float], act: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    answer = act()
    times.append(1000 * (time.perf_counter() - began))
    return answer


def rounds(project: Any, reviewer: Any, count: int) -> dict[str, list[float]]:
    """Milliseconds of each act, per round."""
    from django.test import Client

    client = Client()
    client.force_login(reviewer)
    next_: list[float] = []
    opened: list[float] = []
    saved: list[float] = []
    after: list[float] = []
    library: list[float] = []
    for number in range(count):
        place = timed(next_, lambda: client.post(f"/review/projects/{project.pk}/next", headers=IN_PLACE))["Content-Location"]
        timed(opened, lambda: client.get(place))  # noqa: B023  called at once
        form = FORM | {"comment": str(number), "act": "save"}
        timed(saved, lambda: client.post(place, form, headers={"accept": "application/json"}))  # noqa: B023
        if client.post(place, FORM | {"act": "submit"}).status_code != 302:
            raise SystemExit(f"{place} was not taken")
        timed(after, lambda: client.get(place))  # noqa: B023
        timed(library, lambda: client.get("/"))  # without what this reviewer scores blind
    return {"next": next_, "page again": opened, "save": saved, "revealed": after, "library": library}


KEYS = ("a", "4", "e", "3", "o", "3", "s", "4", "h", *"none", "Enter", "Escape")
# Times on the machine's clock, for the next item may come with a document of its own. The item's frame is drawn when a task
# that was queued in its animation frame runs.
WATCH = """
addEventListener("keydown", (e) => {
  if (e.key === "n") { sessionStorage.clear(); sessionStorage.pressed = performance.timeOrigin + e.timeStamp; }
}, true);
new PerformanceObserver((found) => {
  for (const mark of found.getEntriesByName("listens")) sessionStorage.heard = performance.timeOrigin + mark.startTime;
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { sessionStorage.drawn ||= performance.timeOrigin + performance.now(); };
    port2.postMessage(0);
  });
}).observe({ type: "mark" });
"""
READY = """() => {
  const { pressed, heard, drawn } = sessionStorage;
  return pressed && heard && drawn && [heard - pressed, drawn - pressed];
}"""


def in_browser(reviewer: Any, count: int, pause: int) -> dict[str, list[float]]:
    """Milliseconds from the key N until the next item's script listens, and until the item is drawn, per round.

    `pause`: milliseconds between the reveal of one item and the key.
    """
    from playwright.sync_api import sync_playwright

    from stitchweb.teams.services import make_login_link
    from tests.e2e.site import CHROMIUM, FLAGS, wait_until_served, web_process

    login = make_login_link(reviewer)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    base, ready, drawn = f"http://127.0.0.1:{port}", [], []
    with web_process(port, os.environ | {"PORT": str(port), "PYTHONPATH": str(ROOT)}), sync_playwright() as play:
        wait_until_served(base)
        page = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS).new_page(viewport={"width": 1280, "height": 900})
        page.add_init_script(WATCH)
        page.goto(base + login)
        page.goto(f"{base}/review/")
        page.locator(".queue-row button").first.click()
        for _ in range(count):
            page.locator("#review").wait_for()
            for key in KEYS:
                page.keyboard.press(key)
            page.keyboard.press("Control+Enter")
            page.locator("#next").wait_for()
            page.wait_for_timeout(pause)
            page.keyboard.press("n")
            page.locator("#review").wait_for()
            heard, seen = page.wait_for_function(READY).json_value()
            ready.append(heard)
            drawn.append(seen)
    return {"ready for keys": ready, "drawn": drawn}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--pause", type=int, default=1000, help="ms between the reveal and the key; 0: as fast as a machine")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stitchweb-bench-", ignore_cleanup_errors=True) as folder:
        os.environ |= {
            "DATA_DIR": folder,
            "DJANGO_SETTINGS_MODULE": "stitchweb.settings",
            "ALLOWED_HOSTS": "testserver,127.0.0.1",
        }
        sys.path.insert(0, str(ROOT))
        import django

        django.setup()
        project, reviewer = fill(args.items)
        found = in_browser(reviewer, args.rounds, args.pause) if args.browser else rounds(project, reviewer, args.rounds)
    rows = [[name, *(f"{quantile(times, q):.0f}" for q in (0.5, 0.95))] for name, times in found.items()]
    show(f"A queue of {args.items} items, {args.rounds} rounds, ms", ["act", "p50", "p95"], rows, "django")


if __name__ == "__main__":
    main()
