"""Runners come, stay and go: tokens to join with, their own word of themselves, drain, quarantine, removal."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from datetime import timedelta
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from agents.events import storable
from stitchweb.runs import accounts
from stitchweb.runs.models import Job, JobState, JoinToken, Runner, RunnerState
from stitchweb.teams.models import User

logger = logging.getLogger(__name__)

TOKEN_LIFE = timedelta(hours=1)
QUEUE = re.compile(r"^(?:run\.(?:cpu|sm_\d{2,3}a?)|build\.cuda)$")
_NAME = re.compile(r"^[\w.@+-]{1,120}$", re.ASCII)
MAX_ERROR = 2000
MOST_USE = 1e6  # a share of a machine; a load may be above 1, and neither NaN nor this


class Unknown(Exception):
    """No runner of that name and secret is there. The message is for its log."""


class Refused(Exception):
    """What was asked for cannot be. The message is for the person or for the runner's log."""


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


# ---- joining


def make_token(queues: list[str], by: User | None, life: timedelta = TOKEN_LIFE) -> str:
    """A token that joins one runner to these queues, once. It is not stored. Refused for a queue that cannot exist."""
    wrong = [queue for queue in queues if not QUEUE.match(queue)]
    if wrong or not queues:
        said = f"There is no queue {wrong[0]!r}" if wrong else "No queue is named"
        raise Refused(f"{said}: use run.cpu, run.sm_NN of a CUDA device, or build.cuda.")
    token = secrets.token_urlsafe(32)
    row = JoinToken(token_sha256=digest(token), queues=queues, created_by=by, expires_at=timezone.now() + life)
    row.save()
    return token


def join(token: str, name: str) -> dict[str, Any]:
    """Spend a token: the runner's row and its account at the broker, and what it has to know of them.

    Refused with a sentence, and then the token stays good, unless it is itself what is wrong.
    """
    if not _NAME.match(name):
        raise Refused("A runner's name has up to 120 letters, digits, dots, dashes and @. Choose another with --name.")
    try:
        accounts.check()
    except accounts.NoAccounts as why:
        raise Refused(str(why)) from why
    now, secret = timezone.now(), secrets.token_urlsafe(32)
    with transaction.atomic():
        good = JoinToken.objects.filter(token_sha256=digest(token), used_at=None, expires_at__gt=now)
        row = good.select_for_update().first()
        if row is None or not good.filter(pk=row.pk).update(used_at=now, runner=name):
            raise Refused("This token was used, has expired, or is not known here. Ask the site's operator for another.")
        old = Runner.objects.select_for_update().filter(name=name).first()
        if old is not None and old.secret_sha256:
            raise Refused(f"There is a runner {name} already. Choose another --name, or have that one removed first.")
        runner = Runner(
            name=name, queues=row.queues, heard_at=now, starting=True, secret_sha256=digest(secret),
            account=accounts.account_of(name), joined_at=now,
        )  # fmt: skip
        runner.save()
        try:
            accounts.grant(runner)  # inside: a runner without an account is of no use
        except redis.RedisError as error:
            raise Refused(f"The broker could not be given an account for this runner: {error}") from error
    logger.info("runner %s joined, for %s", name, ", ".join(row.queues))
    broker = accounts.address_for(runner.account, secret)
    return {"name": name, "secret": secret, "queues": row.queues, "broker": broker, "user": runner.account}


def admit(name: str, queues: list[str]) -> str:
    """The secret of a runner that this site starts itself, on the site's own broker: it is on its way. Each start is a new one
    and ends a quarantine: who starts the site again has done something about it."""
    secret = secrets.token_urlsafe(32)
    fresh = {"state": RunnerState.ACTIVE, "reason": "", "failures": 0, "starting": True, "heard_at": timezone.now()}
    known = {"queues": queues, "secret_sha256": digest(secret), "account": ""}
    Runner.objects.update_or_create(name=name[:120], defaults=fresh | known)
    return secret


# ---- what a runner says


def known(name: str, secret: str) -> Runner:
    """The runner that proves itself so. Unknown for any other. One query."""
    runner = Runner.objects.filter(name=name).first()
    if runner is None or not runner.secret_sha256 or not constant_time_compare(runner.secret_sha256, digest(secret)):
        raise Unknown("The site does not know this runner: it was removed, or another took its place.")
    return runner


def present(runner: Runner, about: dict[str, Any], health: str, use: dict[str, Any]) -> str:
    """Take in a runner's word of itself; what it is to do. One query."""
    shares = [(storable(key)[:20], value) for key, value in list(use.items())[:8] if isinstance(value, int | float)]
    busy = {key: float(value) for key, value in shares if 0 <= value <= MOST_USE}
    fields = {"about": storable(about), "health": storable(health)[:MAX_ERROR], "use": busy}
    Runner.objects.filter(pk=runner.pk).update(heard_at=timezone.now(), starting=False, **fields)
    return str(runner.state)


# ---- what its jobs say of it


def did_well(name: str) -> None:
    """A job was done on it: what failed before was not the machine's fault, or is over. One query."""
    Runner.objects.filter(name=name, failures__gt=0).update(failures=0)


def failed(name: str, error: str) -> None:
    """A job failed on it through no fault of the program. After QUARANTINE_AFTER in a row it takes no more. Two queries."""
    now = timezone.now()
    rows = Runner.objects.filter(name=name)
    rows.update(failures=F("failures") + 1, last_error=error[:MAX_ERROR], last_error_at=now)
    times = settings.QUARANTINE_AFTER
    reason = f"{times} jobs in a row failed on it. The last error: {error[:200]}"  # the whole of it stands beside
    if rows.filter(state=RunnerState.ACTIVE, failures__gte=times).update(
        state=RunnerState.QUARANTINED, reason=reason, changed_by="the site", changed_at=now
    ):
        logger.warning("runner %s is quarantined: %s", name, reason)


# ---- what operators do


def _change(name: str, state: RunnerState, by: User, reason: str, **also: Any) -> None:
    fields = {"state": state, "reason": reason[:MAX_ERROR], "changed_by": str(by)[:120], "changed_at": timezone.now()}
    if not Runner.objects.filter(name=name).update(**fields | also):
        raise Refused(f"There is no runner {name} any more.")


def drain(name: str, by: User) -> None:
    """It ends what it does and takes nothing new. Refused when it is gone."""
    _change(name, RunnerState.DRAINING, by, "Drained by an operator.")


def quarantine(name: str, by: User, reason: str) -> None:
    """As `drain`, for what is wrong with it."""
    _change(name, RunnerState.QUARANTINED, by, reason or "Quarantined by an operator.")


def resume(name: str, by: User) -> None:
    """It takes jobs again; what failed on it is forgotten."""
    _change(name, RunnerState.ACTIVE, by, "", failures=0)


@transaction.atomic
def remove(name: str, by: User) -> None:
    """End its account and forget it. What it holds is given to another at the next sweep. Refused when it is gone."""
    runner = Runner.objects.select_for_update().filter(name=name).first()
    if runner is None:
        raise Refused(f"There is no runner {name} any more.")
    account = runner.account
    runner.delete()
    past = timezone.now() - timedelta(seconds=1)
    Job.objects.filter(worker=name, state=JobState.CLAIMED).update(lease_expires=past, claim="")
    logger.warning("runner %s was removed by %s", name, by)
    if account:
        transaction.on_commit(lambda: _revoked(account), robust=True)


def _revoked(account: str) -> None:
    try:
        accounts.revoke(account)
    except redis.RedisError as error:  # the sweeper compares accounts and rows, too
        logger.warning("the account %s is ended by the next sweep, as the broker cannot be reached (%s)", account, error)


def forget() -> None:
    """Tokens long past, and runners that never joined and were not heard of for a week."""
    JoinToken.objects.filter(Q(expires_at__lt=timezone.now() - timedelta(days=7))).delete()
