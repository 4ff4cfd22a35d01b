"""Runners' accounts at the broker: made from their rows, so that a broker which lost them is given them again.

An account may take the messages of its own queues and nothing else (`gpu_runner.broker.access_rules`). Its password is the
runner's secret, of which row and broker both know the digest alone.
"""

from __future__ import annotations

import hashlib
import logging
from urllib.parse import quote, urlsplit, urlunsplit

import redis
from django.conf import settings

from gpu_runner.broker import access_rules
from stitchweb.runs.models import Runner

logger = logging.getLogger(__name__)

PREFIX = "runner-"


class NoAccounts(Exception):
    """This broker cannot keep runners apart. The message says why and what to do."""


def account_of(name: str) -> str:
    """What the runner of that name is called at the broker."""
    return PREFIX + hashlib.sha256(name.encode()).hexdigest()[:16]


def client() -> redis.Redis:
    """The broker, with the site's own account."""
    return redis.Redis.from_url(settings.BROKER_URL, socket_connect_timeout=3, socket_timeout=10)


def check() -> None:
    """NoAccounts where an account would bind nobody, as the broker lets in whoever reaches it."""
    if settings.BROKER_URL.startswith("unix://") and not settings.RUNNER_BROKER_URL:
        raise NoAccounts(
            "This site's broker listens on a private socket that other machines cannot reach. "
            "Set REDIS_URL to a server with a password that runner hosts reach, and start the site again."
        )
    try:
        with client() as broker:
            default = broker.acl_getuser("default") or {}
    except redis.RedisError as error:
        raise NoAccounts(
            f"The broker cannot be asked for accounts: {error}. It needs Valkey 7.2 or Redis 7 or later."
        ) from error
    flags = default.get("flags", [])
    # By the address that hosts have: the site itself may reach the same server by a socket of its own.
    if "on" in flags and "nopass" in flags and not (settings.RUNNER_BROKER_URL or settings.BROKER_URL).startswith("unix://"):
        raise NoAccounts(
            "The broker lets in whoever reaches it, so an account would bind nobody. Give its default user a password "
            "(requirepass), write it into REDIS_URL, and start the site again."
        )


def grant(runner: Runner) -> None:
    """Make or renew the runner's account. Raises redis.RedisError."""
    with client() as broker:
        _grant(broker, runner)


def _grant(broker: redis.Redis, runner: Runner) -> None:
    rules = access_rules(runner.account, runner.queues)
    broker.execute_command("ACL", "SETUSER", runner.account, "reset", "on", f"#{runner.secret_sha256}", *rules)


def revoke(account: str) -> None:
    """End an account; the broker closes its connections. Raises redis.RedisError."""
    with client() as broker:
        broker.acl_deluser(account)


def sync() -> int:
    """Give the broker the accounts that it lacks, and take those of runners that are gone. How many changed.

    One query and one question where nothing is to do. Raises redis.RedisError.
    """
    wanted = {runner.account: runner for runner in Runner.objects.exclude(account="")}
    with client() as broker:
        there = {name for name in map(_text, broker.acl_users()) if name.startswith(PREFIX)}
        for account in wanted.keys() - there:
            _grant(broker, wanted[account])
        for account in there - wanted.keys():
            broker.acl_deluser(account)
    changed = len(wanted.keys() ^ there)
    if changed:
        logger.info("%d accounts of runners were put right at the broker", changed)
    return changed


def address_for(account: str, secret: str) -> str:
    """The broker's address with a runner's account in it."""
    parts = urlsplit(settings.RUNNER_BROKER_URL or settings.BROKER_URL)
    who = f"{quote(account, safe='')}:{quote(secret, safe='')}@"
    if parts.scheme == "unix":
        return f"unix://{who}{parts.path}"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, who + host, parts.path, parts.query, ""))


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
