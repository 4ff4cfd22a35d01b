"""Server time and query count of every page, over a small and a large database.

Usage: python bench/pages.py [--sizes small large] [--requests N] [--data-dir DIR]

Each size is filled by `manage.py seed_demo` into a folder of its own; the large one takes minutes, `--data-dir` keeps the
folders and uses them again. Every page is asked for N times through the whole of Django (middleware, view, database, template)
in this process, as a member of the team with the most runs; the network and daphne are not in these numbers. Processor time
stands beside wall clock, since it depends less on what else the machine does. The weight is that of the page itself, gzipped,
without style sheets and scripts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import ROOT, quantile, show

COUNTED = ("programs.Program", "runs.Run", "runs.Event")


def addresses(team: Any) -> dict[str, str]:
    """A name and an address for every page, of the largest row of its kind."""
    from django.db.models import Count
    from django.urls import reverse

    from stitchweb.programs.models import Program, Suite
    from stitchweb.runs.models import Run

    pages = {name: reverse(name) for name in ("library", "runs", "upload", "status")}
    pages["library, search"] = reverse("library") + "?q=norm"
    runs = Run.objects.filter(team=team)
    program = Program.objects.filter(team=team).annotate(n=Count("revisions__runs")).order_by("-n").first()
    suite = Suite.objects.filter(team=team).annotate(n=Count("programs")).order_by("-n").first()
    longest = runs.order_by("-last_seq").first()
    best = runs.exclude(best="").order_by("-last_seq").first()
    if program:
        pages["program with most runs"] = reverse("program", args=[program.pk])
    if suite:
        pages["suite with most programs"] = reverse("suite", args=[suite.pk])
    if longest:
        pages["run with most events"] = reverse("run", args=[longest.pk])
    if best:
        pages["diff of a best candidate"] = reverse("run-diff", args=[best.pk, best.best])
    return pages


def measure(requests: int) -> dict[str, Any]:
    """Of each page: milliseconds of every request, queries, bytes. And how many rows there are."""
    from django.apps import apps
    from django.conf import settings
    from django.db import connection
    from django.db.models import Count
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from stitchweb.teams.models import Membership, Role, Team

    team = Team.objects.annotate(n=Count("runs")).order_by("-n").first()
    if team is None:
        raise RuntimeError("the database has no team; was it seeded?")
    member = Membership.objects.filter(team=team).exclude(role=Role.VIEWER).select_related("user").order_by("pk").first()
    if member is None:
        raise RuntimeError(f"the team {team} has no member who may work")
    client = Client(headers={"host": settings.ALLOWED_HOSTS[0]})
    client.force_login(member.user)
    pages: dict[str, Any] = {}
    for name, address in addresses(team).items():
        answer = client.get(address)  # warms caches of templates and of compiled queries
        if answer.status_code != 200:
            raise RuntimeError(f"{address} answered {answer.status_code}")
        with CaptureQueriesContext(connection) as queries:
            body = client.get(address).getvalue()
        count = len(queries)  # now: the next request empties the log
        times, busy = [], []
        for _ in range(requests):
            began, ran = time.perf_counter(), time.process_time()
            client.get(address).getvalue()
            times.append((time.perf_counter() - began) * 1000)
            busy.append((time.process_time() - ran) * 1000)
        pages[name] = {"ms": times, "cpu": busy, "queries": count, "kb": len(gzip.compress(body)) / 1000}
    return {"pages": pages, "rows": {label: apps.get_model(label).objects.count() for label in COUNTED}}


def seeded(folder: Path, size: str) -> None:
    """Points this process's Django at the folder, and fills its database when that was not done before."""
    os.environ.update(DATA_DIR=str(folder), LOG_LEVEL="ERROR")
    sys.path.insert(0, str(ROOT))
    from stitchweb import use_settings

    use_settings()
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)
    done = folder / f"seeded-{size}"
    if not done.exists():
        with open(os.devnull, "w") as silence:
            call_command("seed_demo", size=size, stdout=silence)
        done.touch()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=("small", "large"), default=["small", "large"])
    parser.add_argument("--requests", type=int, default=100, help="requests per page (default 100)")
    parser.add_argument("--data-dir", type=Path, help="keep the seeded databases below this folder, and use them again")
    parser.add_argument("--one", choices=("small", "large"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        seeded(options.data_dir, options.one)
        print(json.dumps(measure(options.requests)))
        return 0

    results = {}
    with tempfile.TemporaryDirectory(prefix="stitchweb-pages-") as temporary:
        for size in options.sizes:
            folder = (options.data_dir or Path(temporary)).resolve() / size
            folder.mkdir(parents=True, exist_ok=True)
            # One process per size: Django's settings, and with them the database, are read once.
            command = [sys.executable, __file__, "--one", size, "--requests", str(options.requests), "--data-dir", str(folder)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            results[size] = json.loads(output.splitlines()[-1])

    for size, result in results.items():
        rows = []
        for name, page in result["pages"].items():
            others = [other["pages"][name]["queries"] for other in results.values() if name in other["pages"]]
            constant = "" if len(others) < 2 else ("yes" if len(set(others)) == 1 else "no")
            times = [f"{quantile(page['ms'], share):.1f}" for share in (0.5, 0.95)]
            cpu = f"{quantile(page['cpu'], 0.5):.1f}"
            rows.append((name, *times, cpu, page["queries"], constant, f"{page['kb']:.1f}"))
        counted = ", ".join(f"{count:,} {label.rpartition('.')[2].lower()}s" for label, count in result["rows"].items())
        head = ("page", "p50, ms", "p95, ms", "CPU p50, ms", "queries", "same at each size", "kB gzipped")
        show(f"Server time of pages, {size} database ({counted})", head, rows, "Django")
    return 0


if __name__ == "__main__":
    sys.exit(main())
