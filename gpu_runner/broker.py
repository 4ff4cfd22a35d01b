"""How both sides of the queue talk to the broker: one set of Celery settings, as plain data, without importing Celery."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

TASK = "gpu_runner.perform"
PRESENT_EVERY_S = 10.0  # a runner says this often that it is there, and learns whether it is to take jobs
AGENTS_QUEUE = "agents"
BUILD_QUEUE = "build.cuda"  # of hosts that have nvcc and need no device
PRIORITY = b"\x06\x16"  # between a queue's name and a priority, in the names of the lists behind it
# What Celery's worker says to the broker: found by running one with none of them and reading the broker's own log of refusals.
COMMANDS = (
    "auth", "hello", "ping", "select", "client|setinfo", "client|setname", "brpop", "lpush", "rpush", "llen", "multi", "exec",
    "discard", "watch", "unwatch", "zadd", "zrem", "zrange", "hset", "hget", "hdel", "set", "get", "pexpire", "evalsha",
    "script|load", "eval", "del",
)  # fmt: skip
SOFT_LIMIT_S = 1080  # above the longest step (a confirmation, 900 s) and what starting and reporting take
HARD_LIMIT_S = 1200
VISIBILITY_S = 3 * HARD_LIMIT_S  # a message unacknowledged for so long comes again; much shorter would run long tasks twice


def celery_url(url: str) -> str:
    """A broker's address as Celery spells it: `unix:///path` becomes `redis+socket:///path`, anything else stays."""
    return f"redis+socket://{url.removeprefix('unix://')}" if url.startswith("unix://") else url


def unacked_keys(account: str) -> dict[str, str]:
    """Where a runner's deliveries lie until they are acknowledged. By default all workers of a broker share these keys, and
    with them could read what every other one is doing."""
    names = ("unacked", "unacked_index", "unacked_mutex")
    return {f"{name}_key": f"{name}:{account}" for name in names}


def access_rules(account: str, queues: Sequence[str]) -> list[str | bytes]:
    """The rules of `ACL SETUSER` for a runner: its own queues, its own unacknowledged deliveries, no channel, and of the
    commands those that a worker needs.

    It can put messages into its own queues, as one that stops gives back what it took. They are doorbells: what a job is, and
    whether it is to be had, only the site's endpoint says.
    """
    keys: list[str | bytes] = [f"~{key}" for key in unacked_keys(account).values()]
    for queue in queues:
        keys += [f"~{queue}", b"~" + queue.encode() + PRIORITY + b"*"]
    return ["resetkeys", "resetchannels", "-@all", *keys, *(f"+{command}" for command in COMMANDS)]


def celery_settings(url: str, account: str = "") -> dict[str, Any]:
    """Celery settings for sender and worker alike. `account`: of a runner, which keeps its deliveries to itself."""
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
            # A network that is cut sends no farewell: without these a worker would wait for an answer for two hours.
            "socket_keepalive_options": {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3},
            "health_check_interval": 25,
            **(unacked_keys(account) if account else {}),
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
        # Nobody commands a worker through the broker; whoever could, could stop them all.
        "worker_enable_remote_control": False,
    }


def runner_name(name: str) -> str:
    """What a runner of this machine is called to people, and in its jobs."""
    return f"{name}@{socket.gethostname()}"
