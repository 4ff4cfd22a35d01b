"""Sending work to other processes: by name, after the commit, and never so that a broker that is away undoes what is done."""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction

logger = logging.getLogger(__name__)

ADVANCE = "stitchweb.advance"
ANALYSED = "stitchweb.analysed"
PERFORM = "gpu_runner.perform"
AGENTS_QUEUE = "agents"


def runner_queue(target: str) -> str:
    """The queue of the runners that serve a target."""
    return f"run.{target}"


def send_on_commit(name: str, queue: str, **kwargs: Any) -> None:
    """Send a task once the transaction is committed. A failure is logged; the row it is about brings the sweeper to it."""
    transaction.on_commit(lambda: send(name, queue, **kwargs), robust=True)


def send(name: str, queue: str, **kwargs: Any) -> None:
    """Send a task now. Raises kombu's OperationalError while the broker is away."""
    from stitchweb import celery

    celery.app.send_task(name, kwargs=kwargs, queue=celery.queue(queue))
