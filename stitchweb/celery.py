"""The Celery application of the shop's side: sends to every queue, works on `agents`. Each setting has its reason beside it."""

from __future__ import annotations

from celery import Celery
from kombu import Exchange, Queue

from gpu_runner.broker import AGENTS_QUEUE, celery_settings
from stitchweb import use_settings

use_settings()

from django.conf import settings  # noqa: E402


def queue(name: str) -> Queue:
    """A queue of that name, reached by it. Not declared, as runners may not: it would be bound to an exchange, and who may bind
    could have others' messages."""
    return Queue(name, Exchange("stitchweb"), routing_key=name, no_declare=True)


app = Celery("stitchweb")
app.conf.update(celery_settings(settings.BROKER_URL))
app.conf.task_queues = [queue(AGENTS_QUEUE)]
# Runs resume from their rows, so a message names a run and can come twice; threads, because thinking is waiting.
app.conf.worker_pool = "threads"
app.conf.worker_concurrency = settings.AGENT_THREADS
app.conf.imports = ["stitchweb.runs.tasks", "stitchweb.studio.tasks", "stitchweb.datasets.tasks", "stitchweb.notify.tasks"]
