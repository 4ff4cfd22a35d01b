"""Sending work to other processes: by name, after the commit, and never so that a broker that is away undoes what is done."""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction
from kombu.exceptions import OperationalError

from gpu_runner import broker

logger = logging.getLogger(__name__)

ADVANCE = "stitchweb.advance"
THINK = "stitchweb.think"  # one step of a round
AGENTS_QUEUE = broker.AGENTS_QUEUE
BUILD_QUEUE = broker.BUILD_QUEUE


def runner_queue(target: str) -> str:
    """The queue of the runners that serve a target."""
    return f"run.{target}"


def send_on_commit(name: str, queue: str, **kwargs: Any) -> None:
    """Send a task once the transaction is committed. A failure is logged; the row it is about brings the sweeper to it."""

    def attempt() -> None:
        try:
            send(name, queue, **kwargs)
        except OperationalError as error:
            logger.warning("%s waits for the sweeper, as the broker cannot be reached (%s)", name, error)

    transaction.on_commit(attempt, robust=True)


def send(name: str, queue: str, **kwargs: Any) -> None:
    """Send a task now. Raises kombu's OperationalError while the broker is away."""
    from stitchweb import celery

    celery.app.send_task(name, kwargs=kwargs, queue=celery.queue(queue))
