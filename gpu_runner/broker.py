"""How both sides of the queue talk to the broker: one set of Celery settings, as plain data, without importing Celery."""

from __future__ import annotations

import socket
from typing import Any

TASK = "gpu_runner.perform"
PRESENT = "stitchweb.runner_present"  # what a runner says into the agents' queue, so that one without a job shows, too
PRESENT_EVERY_S = 30.0
AGENTS_QUEUE = "agents"
SOFT_LIMIT_S = 1080  # above the longest step (a confirmation, 900 s) and what starting and reporting take
HARD_LIMIT_S = 1200
VISIBILITY_S = 3 * HARD_LIMIT_S  # a message unacknowledged for so long comes again; much shorter would run long tasks twice


def celery_url(url: str) -> str:
    """A broker's address as Celery spells it: `unix:///path` becomes `redis+socket:///path`, anything else stays."""
    return f"redis+socket://{url.removeprefix('unix://')}" if url.startswith("unix://") else url


def celery_settings(url: str) -> dict[str, Any]:
    """Celery settings for sender and worker alike."""
    return {
        "broker_url": celery_url(url),
        # Results live in rows of the shop, sent over HTTP; a result backend would only repeat them.
        "task_ignore_result": True,
        "result_backend": None,
        # JSON alone: a message must not be able to carry code.
        "task_serializer": "json",
        "accept_content": ["json"],
        # Acknowledged when done, so a worker that dies does not take the message with it. Steps are claimed by a lease in the
        # database, so one that comes twice is done once.
        "task_acks_late": True,
        # Three runs at most when a task kills its process; `reject_on_worker_lost` would redeliver it for ever.
        "task_retry_on_worker_lost": True,
        "worker_prefetch_multiplier": 1,
        "worker_max_tasks_per_child": 200,
        "task_soft_time_limit": SOFT_LIMIT_S,
        "task_time_limit": HARD_LIMIT_S,
        # The shortest visibility timeout of all applications on a broker wins, so both sides take it from here.
        "visibility_timeout": VISIBILITY_S,
        "broker_transport_options": {
            "visibility_timeout": VISIBILITY_S,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            # A sender inside a web request must learn quickly that the broker is away; the sweeper sends again.
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 25,
        },
        "task_publish_retry_policy": {"max_retries": 1, "interval_start": 0.1, "interval_step": 0, "interval_max": 0.1},
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # A deploy lets running tasks end for a minute, then puts them back.
        "worker_soft_shutdown_timeout": 60.0,
        "worker_enable_soft_shutdown_on_idle": True,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        # A typo in a queue's name must not open a queue that nobody serves.
        "task_create_missing_queues": False,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": False,
    }


def runner_name(name: str) -> str:
    """What a runner of this machine is called to people, and in its jobs."""
    return f"{name}@{socket.gethostname()}"
