"""Datasets at size: server time of each page, the making of a release, the export of all configs, a local judge.

Usage: python bench/datasets.py [--candidates N] [--rounds N] [--data-dir DIR]

A synthetic team is filled with N candidates of N / 25 references and three labels each, in a database of its own. Pages go
through the whole of Django in this process; the network and daphne are not in these numbers. Exports are made from the
frozen release, all fifteen configs in each format.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import ROOT, quantile, show

sys.path.insert(0, str(ROOT))


def fill(candidates: int) -> tuple[Any, Any]:
    """The demo team with so many more candidates and labels, and its owner."""
    from django.core.management import call_command

    from stitchweb.core.databases import refresh_statistics
    from stitchweb.datasets.demo import seed_labels
    from stitchweb.runs.demo.store import Size, seed
    from stitchweb.teams.models import Role, Team, User

    call_command("migrate", verbosity=0, skip_checks=True)
    seed(Size(programs=2, runs=3, events=0), lambda line: None)
    team = Team.objects.filter(synthetic=True).order_by("pk")[0]
    seed_labels(team, candidates - 10, candidates // 25)  # ten more are gold
    refresh_statistics()
    return team, User.objects.get(memberships__team=team, memberships__role=Role.OWNER)


def timed(act: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = act()
    return time.perf_counter() - began, answer


def pages(team: Any, owner: Any, release: Any, judge: Any, rounds: int) -> list[list[object]]:
    """Milliseconds of each page: median and 95th percentile."""
    from django.test import Client
    from django.urls import reverse

    client = Client()
    client.force_login(owner)
    slug = team.slug
    paths = {
        "releases": reverse("team-datasets", args=[slug]),
        "release": reverse("release", args=[slug, release.name]),
        "references": reverse("references", args=[slug]),
        "rewards, as stored": reverse("rewards", args=[slug]),
        "rewards, authors' code": reverse("rewards", args=[slug]) + "?preset=code",
        "rewards, milestones": reverse("rewards", args=[slug]) + "?preset=milestone",
        "rewards, no penalty": reverse("rewards", args=[slug]) + "?form=shaped&hack_from=nothing",
        "judges": reverse("judges", args=[slug]),
    }
    if judge is not None:
        paths["judge"] = reverse("judge", args=[slug, judge.pk])
    # What this process made is no part of a web process, whose own collections leave out what was loaded (asgi.py).
    gc.collect()
    gc.freeze()
    rows: list[list[object]] = []
    for name, path in paths.items():
        times = []
        for _ in range(rounds + 1):
            seconds, answer = timed(lambda: client.get(path))  # noqa: B023  called at once
            if answer.status_code != 200:
                raise SystemExit(f"{path} answered {answer.status_code}")
            times.append(1000 * seconds)
        rows.append([name, f"{quantile(times[1:], 0.5):.0f}", f"{quantile(times[1:], 0.95):.0f}", f"{times[0]:.0f}"])
    return rows


def exports(release: Any, folder: Path) -> list[list[object]]:
    from stitchweb.datasets.configs import CONFIGS, Data
    from stitchweb.datasets.services.releases import load
    from stitchweb.datasets.writing import FORMATS, write_config

    rows: list[list[object]] = []
    for form in FORMATS:
        began = time.perf_counter()
        data = Data(load(release))
        slowest = max((timed(lambda c=config: write_config(data, c, form, folder / form / c))[0], config) for config in CONFIGS)  # noqa: B023
        seconds = time.perf_counter() - began
        size = sum(path.stat().st_size for path in (folder / form).rglob("*") if path.is_file())
        rows.append([form, f"{seconds:.1f}", f"{size / 2**20:.0f}", f"{slowest[1]}, {slowest[0]:.1f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--no-judge", action="store_true")
    chosen = parser.parse_args()
    scratch = tempfile.TemporaryDirectory()
    os.environ |= {
        "DATA_DIR": str(chosen.data_dir or scratch.name), "DJANGO_SETTINGS_MODULE": "stitchweb.settings", "DEBUG": "0",
        "ALLOWED_HOSTS": "testserver", "LOG_LEVEL": "ERROR",
    }  # fmt: skip
    import django

    django.setup()
    from django.core.management import call_command

    from stitchweb.datasets.services.judging import make_judge, request_judge
    from stitchweb.datasets.services.releases import make_release, request_release
    from stitchweb.review.models import Rating, Review

    filled, (team, owner) = timed(lambda: fill(chosen.candidates))
    call_command("collectstatic", interactive=False, verbosity=0, skip_checks=True)
    release = request_release(None, team, f"bench-{int(time.time())}", send=False)
    made, _ = timed(lambda: make_release(release, lambda *told: None))
    judge, trained = None, float("nan")
    if not chosen.no_judge:
        judge = request_judge(None, team, "local", {"release": release.name}, send=False)
        trained, _ = timed(lambda: make_judge(judge, lambda *told: None))
    size = [f"{team.records.count()} candidates", f"{Review.objects.count()} labels", f"{Rating.objects.count()} levels"]
    with tempfile.TemporaryDirectory() as folder:
        show(
            "Export of all configs from a release",
            ("format", "s", "MiB", "slowest config, s"),
            exports(release, Path(folder)),
            "pyarrow",
        )
    show(
        "Pages, server time",
        ("page", "median ms", "p95 ms", "first ms"),
        pages(team, owner, release, judge, chosen.rounds),
        "Django",
    )
    show(
        f"In the agent worker, {', '.join(size)}",
        ("work", "s"),
        [
            ["filled", f"{filled:.0f}"],
            ["release made, runs read for the first time", f"{made:.0f}"],
            ["local judge", f"{trained:.0f}"],
        ],
        "scikit-learn",
    )


if __name__ == "__main__":
    main()
