"""What teams use, and what they may: runs under way, and runners' seconds, tokens and money in a calendar month (UTC)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Count, Q, Sum
from django.utils import timezone

from stitchweb.runs.models import ENDED, Quota, Run

# What a quota bounds, and how one says so.
WORDS = {
    "runs": "runs under way at once",
    "device_s": "seconds of runners this month",
    "tokens": "tokens of models this month",
    "money": "dollars for models this month",
}


@dataclass(frozen=True)
class Used:
    """What a team has under way now and has spent since the month began, by when its runs were created."""

    runs: int = 0
    device_s: float = 0.0
    tokens: int = 0
    money: float = 0.0
    started: int = 0  # runs created since the month began


def month_of(moment: datetime) -> datetime:
    """When its calendar month began, in UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def used(teams: Iterable[int], since: datetime | None = None) -> dict[int, Used]:
    """By team. One query. What a run spends counts for the month in which it was started."""
    since = since or month_of(timezone.now())
    runs = Run.objects.filter(team__in=list(teams)).filter(Q(created_at__gte=since) | ~Q(status__in=ENDED))
    recent = Q(created_at__gte=since)
    rows = (
        runs.values("team")
        .annotate(
            under_way=Count("pk", filter=~Q(status__in=ENDED)),
            started=Count("pk", filter=recent),
            device=Sum("device_s", filter=recent),
            words=Sum("tokens", filter=recent),
            paid=Sum("money", filter=recent),
        )
        .order_by()
    )
    return {
        row["team"]: Used(row["under_way"], row["device"] or 0.0, row["words"] or 0, row["paid"] or 0.0, row["started"])
        for row in rows
    }


def spent(team_id: int) -> str:
    """Why the team may start no run now, in a sentence with the way out; empty where it may. Two queries at most.

    In a transaction, to whose end nobody else of a team with a quota gets an answer.
    """
    quota = Quota.objects.select_for_update().filter(team=team_id).first()
    if quota is None:
        return ""
    now = used([team_id]).get(team_id, Used())
    for name, words in WORDS.items():
        most = getattr(quota, name)
        if most is not None and getattr(now, name) >= most:
            wait = "Wait for one to end" if name == "runs" else "It begins anew with the next month (UTC)"
            return f"This team has used its quota of {most:g} {words}. {wait}, or ask whoever runs the site to raise it."
    return ""
