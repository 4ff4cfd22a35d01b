"""The site's measures in Prometheus' words.

What rows tell is counted from them when somebody asks, so every web process says the same and a restart forgets nothing. What
only a process sees, how late events are sent, it keeps in a file of DATA_DIR/metrics, and any of them adds up the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, Min, Q, Sum
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from stitchweb.core.measures import lag_registry
from stitchweb.runs import runners
from stitchweb.runs.jobbook import OPEN
from stitchweb.runs.models import Job, JobState, Run, Runner

WAITS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200)  # seconds
STEPS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200)


def text() -> bytes:
    """All measures, as Prometheus reads them. Nine queries, two of which go through the table of jobs."""
    registry = CollectorRegistry()
    registry.register(_Rows())
    return generate_latest(registry) + lag_registry()


class _Rows(Collector):
    """What the tables say."""

    def collect(self) -> Iterator[Any]:
        yield from self._queues()
        yield self._histogram(
            "stitchweb_queue_wait_seconds", "From a job made to a runner that took it.", "queue", WAITS,
            F("claimed_at") - F("created_at"), Job.objects.filter(claimed_at__isnull=False),
        )  # fmt: skip
        yield self._histogram(
            "stitchweb_step_seconds", "A runner's time for a job, from claim to report.", "kind", STEPS,
            F("done_at") - F("claimed_at"), Job.objects.filter(state=JobState.DONE, claimed_at__isnull=False),
        )  # fmt: skip
        yield from self._jobs()
        yield from self._runs()
        yield from self._runners()

    def _queues(self) -> Iterator[Any]:
        waiting = GaugeMetricFamily("stitchweb_jobs_waiting", "Jobs that wait for a runner.", labels=["queue"])
        working = GaugeMetricFamily("stitchweb_jobs_working", "Jobs that a runner is at.", labels=["queue"])
        oldest = GaugeMetricFamily("stitchweb_queue_oldest_seconds", "How long the oldest waiting job waits.", labels=["queue"])
        rows = (
            Job.objects.filter(state__in=OPEN).values("queue").annotate(
                waiting=Count("pk", filter=Q(state=JobState.QUEUED)), working=Count("pk", filter=Q(state=JobState.CLAIMED)),
                oldest=Min("created_at", filter=Q(state=JobState.QUEUED)),
            ).order_by()
        )  # fmt: skip
        now = timezone.now()
        for row in rows:
            waiting.add_metric([row["queue"]], row["waiting"])
            working.add_metric([row["queue"]], row["working"])
            oldest.add_metric([row["queue"]], (now - row["oldest"]).total_seconds() if row["oldest"] else 0)
        yield from (waiting, working, oldest)

    def _histogram(self, name: str, says: str, label: str, bounds: tuple[float, ...], took: Any, jobs: Any) -> Any:
        """One query that counts, by `label`, the jobs within each bound; their mean gives the sum."""
        spans = jobs.annotate(took=ExpressionWrapper(took, output_field=DurationField()))
        within = {f"b{place}": Count("pk", filter=Q(took__lte=timedelta(seconds=bound))) for place, bound in enumerate(bounds)}
        told = HistogramMetricFamily(name, says, labels=[label])
        for row in spans.values(label).annotate(n=Count("pk"), mean=Avg("took"), **within).order_by():
            buckets = [(str(float(bound)), row[f"b{place}"]) for place, bound in enumerate(bounds)]
            mean = row["mean"].total_seconds() if row["mean"] else 0.0
            told.add_metric([row[label]], [*buckets, ("+Inf", row["n"])], sum_value=mean * row["n"])
        return told

    def _jobs(self) -> Iterator[Any]:
        ended = CounterMetricFamily("stitchweb_jobs_ended", "Jobs by what came of them.", labels=["queue", "state"])
        busy = CounterMetricFamily("stitchweb_device_seconds", "Seconds that runners were busy with jobs.", labels=["queue"])
        rows = Job.objects.exclude(state__in=OPEN).values("queue", "state").annotate(n=Count("pk"), s=Sum("seconds")).order_by()
        seconds: dict[str, float] = {}
        for row in rows:
            ended.add_metric([row["queue"], row["state"]], row["n"])
            seconds[row["queue"]] = seconds.get(row["queue"], 0.0) + (row["s"] or 0.0)
        for queue, value in seconds.items():
            busy.add_metric([queue], value)
        yield from (ended, busy)

    def _runs(self) -> Iterator[Any]:
        active = GaugeMetricFamily("stitchweb_runs", "Runs that have not ended, by status.", labels=["status"])
        for status, count in Run.objects.active().values_list("status").annotate(n=Count("pk")).order_by():
            active.add_metric([status], count)
        verdicts = CounterMetricFamily("stitchweb_verdicts", "Ended runs by verdict.", labels=["verdict", "target"])
        ended = Run.objects.exclude(verdict="").values_list("verdict", "target").annotate(n=Count("pk")).order_by()
        for verdict, target, count in ended:
            verdicts.add_metric([verdict, target], count)
        spent = Run.objects.aggregate(tokens=Sum("tokens"), money=Sum("money"), events=Sum("last_seq"))
        yield from (active, verdicts)
        yield CounterMetricFamily("stitchweb_tokens", "Tokens of models that runs used.", value=spent["tokens"] or 0)
        yield CounterMetricFamily("stitchweb_money_dollars", "What models cost.", value=spent["money"] or 0)
        yield CounterMetricFamily("stitchweb_events", "Events told.", value=spent["events"] or 0)

    def _runners(self) -> Iterator[Any]:
        there = GaugeMetricFamily("stitchweb_runner_up", "1 for a runner that was heard of lately.", labels=["runner", "state"])
        uses = {
            "gpu": GaugeMetricFamily("stitchweb_gpu_use_ratio", "Share of time the GPU was at work.", labels=["runner"]),
            "gpu_memory": GaugeMetricFamily("stitchweb_gpu_memory_ratio", "Share of GPU memory in use.", labels=["runner"]),
            "load": GaugeMetricFamily("stitchweb_runner_load", "Load average of a minute per core.", labels=["runner"]),
        }
        now = timezone.now()
        for runner in Runner.objects.order_by("name"):
            here = now - runner.heard_at < runners.PRESENT
            there.add_metric([runner.name, runner.state], int(here))
            for key, family in uses.items():
                if here and key in runner.use:
                    family.add_metric([runner.name], runner.use[key])
        yield from (there, *uses.values())
