"""What a process itself measures, kept where every process of the site finds it."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.conf import settings

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


@cache
def event_lag() -> Any:
    """Seconds from an event to its batch being ready for who watches, of events that were told while somebody did."""
    settings.METRICS_DIR.mkdir(parents=True, exist_ok=True)
    from prometheus_client import (
        Histogram,
    )  # here: it chooses where to keep values when it is imported, by PROMETHEUS_MULTIPROC_DIR

    return Histogram("stitchweb_event_lag_seconds", "From an event to its batch ready for who watches.", buckets=BOUNDS)


def lag_registry() -> bytes:
    """What all processes of this machine measured, as Prometheus reads it."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    registry = CollectorRegistry()
    settings.METRICS_DIR.mkdir(parents=True, exist_ok=True)
    MultiProcessCollector(registry, path=str(settings.METRICS_DIR))
    return generate_latest(registry)
