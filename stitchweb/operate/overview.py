"""What operators' pages and measures read: of all teams, so only for them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from django.db.models import Count, Exists, F, Min, OuterRef, Q, QuerySet
from django.utils import timezone

from stitchweb.runs import runners as presence
from stitchweb.runs.jobbook import OPEN
from stitchweb.runs.models import RESTING, Job, JobState, JoinToken, Quota, Run, Runner, RunnerState
from stitchweb.runs.quotas import Used, month_of, used
from stitchweb.teams.models import Team

SHOWN = 200  # rows of a list
LATELY = timedelta(days=30)


def runners() -> list[dict[str, Any]]:
    """All runners with what their jobs of the last day say. Two queries."""
    now = timezone.now()
    day = Q(claimed_at__gte=now - presence.SHOWN)
    did = {
        row.pop("worker"): row
        for row in Job.objects.filter(day).exclude(worker="").values("worker").annotate(
            done=Count("pk", filter=Q(state=JobState.DONE)), failed=Count("pk", filter=Q(state=JobState.FAILED)),
            working=Count("pk", filter=Q(state=JobState.CLAIMED)),
        ).order_by()
    }  # fmt: skip
    rows = []
    for runner in Runner.objects.order_by("name"):
        row = did.get(runner.name, {"done": 0, "failed": 0, "working": 0})
        here = now - runner.heard_at < (presence.STARTING if runner.starting else presence.PRESENT)
        rows.append({"runner": runner, "here": here, "word": _word(runner, here, row["working"]), **row})
    return rows


def _word(runner: Runner, here: bool, working: int) -> str:
    if runner.state == RunnerState.QUARANTINED:
        return "quarantined"
    if not here:
        return "not heard of"
    if runner.state == RunnerState.DRAINING:
        return "draining" if working else "drained"
    if runner.starting:
        return "starting"
    return "unwell" if runner.health else "working" if working else "idle"


def open_tokens() -> QuerySet[JoinToken]:
    """Tokens that would still join a runner. One query."""
    return JoinToken.objects.filter(used_at=None, expires_at__gt=timezone.now()).select_related("created_by")


def queue() -> dict[str, Any]:
    """`queues`: counts of each; `jobs`: the oldest open ones and why they wait; `agents`: runs that wait for agents."""
    now = timezone.now()
    is_open = Job.objects.filter(state__in=OPEN)
    counts = (
        is_open.values("queue")
        .annotate(
            waiting=Count("pk", filter=Q(state=JobState.QUEUED)),
            working=Count("pk", filter=Q(state=JobState.CLAIMED)),
            oldest=Min("created_at", filter=Q(state=JobState.QUEUED)),
        )
        .order_by("queue")
    )
    there = presence.there()
    jobs = list(is_open.select_related("run__team", "revision__program__team").order_by("pk")[:SHOWN])
    ahead: Counter[str] = Counter()
    rows = []
    for job in jobs:
        of = job.run or (job.revision.program if job.revision else None)
        rows.append({"job": job, "of": of, "team": of.team if of else None, "why": _why(job, there, ahead[job.queue])})
        ahead[job.queue] += 1
    due = Job.objects.filter(run=OuterRef("pk"), state__in=OPEN, step=F("run__step"))
    idle = Run.objects.active().free(now).exclude(status__in=RESTING).filter(~Exists(due))
    agents = list(idle.select_related("team").order_by("changed_at")[:SHOWN])
    return {"queues": list(counts), "jobs": rows, "agents": agents, "shown": SHOWN, "there": there}


def _why(job: Job, there: dict[str, bool], ahead: int) -> str:
    if job.state == JobState.CLAIMED:
        return f"{job.worker} is at it"
    if job.queue not in there:
        return presence.resting(job.queue) or f"No runner for {job.queue.removeprefix('run.')} is there"
    if not there[job.queue]:
        return "The runner is starting"
    return f"{ahead} before it" if ahead else "A runner is free and has not taken it yet"


def teams() -> dict[str, Any]:
    """A row per team, those that use most first; `total` of all. Four queries."""
    month = month_of(timezone.now())
    found = list(Team.objects.annotate(people=Count("memberships")))
    now, lately = used([team.pk for team in found]), used([team.pk for team in found], timezone.now() - LATELY)
    quotas = {quota.team_id: quota for quota in Quota.objects.all()}
    rows = [
        {"team": team, "now": now.get(team.pk, Used()), "lately": lately.get(team.pk, Used()), "quota": quotas.get(team.pk)}
        for team in found
    ]
    rows.sort(key=lambda row: (-row["lately"].device_s, -row["lately"].started, row["team"].name))
    total = Used(
        sum(row["now"].runs for row in rows), sum(row["lately"].device_s for row in rows),
        sum(row["lately"].tokens for row in rows), sum(row["lately"].money for row in rows),
        sum(row["lately"].started for row in rows),
    )  # fmt: skip
    return {"rows": rows, "total": total, "month": month}


def use_of(team: Team) -> Used:
    """What one team uses. One query."""
    return used([team.pk]).get(team.pk, Used())
