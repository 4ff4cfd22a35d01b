"""Deliveries on their way: signed messages to hooks, letters to people; tried again with growing pauses, then given up.

A try is claimed by moving `next_at` on, so two workers never make the same one, and one that dies makes way for the next.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import time
from datetime import timedelta

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone

from agents.llm.guard import Forbidden
from stitchweb.llm.vault import Unsealable
from stitchweb.notify import hooks
from stitchweb.notify.kinds import KINDS
from stitchweb.notify.models import Delivery, DeliveryState
from stitchweb.notify.services import DELIVER
from stitchweb.runs import dispatch

logger = logging.getLogger(__name__)

PAUSES_S = (10, 60, 300, 1800, 7200, 5 * 3600, 12 * 3600)  # after the first, second … try
TIMEOUT_S = 10.0
CLAIM_S = 60.0  # nobody else tries meanwhile
MAX_AT_ONCE = 100
READ_BYTES = 64 * 1024  # of an answer, which nobody reads


class NotTaken(Exception):
    """The message did not come through this time. `final`: another try would not help."""

    def __init__(self, why: str, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


def deliver(delivery_id: int) -> None:
    """One try, if it is due and nobody else makes it."""
    now = timezone.now()
    due = Delivery.objects.due(now).filter(pk=delivery_id)
    if not due.update(next_at=now + timedelta(seconds=CLAIM_S)):
        return
    row = Delivery.objects.select_related("hook__team", "notification__user", "notification__team").get(pk=delivery_id)
    row.tries += 1
    try:
        said = _post(row) if row.hook is not None else _mail(row)
    except NotTaken as error:
        _failed(row, error)
    else:
        with transaction.atomic():
            hooks.settle(row, DeliveryState.SENT, said)


def _failed(row: Delivery, error: NotTaken) -> None:
    with transaction.atomic():
        if error.final or row.tries > len(PAUSES_S):
            hooks.settle(row, DeliveryState.GIVEN_UP, str(error))
            return
        row.answer = str(error)[:300]
        row.next_at = timezone.now() + timedelta(seconds=PAUSES_S[row.tries - 1])
        row.save(update_fields=["tries", "answer", "next_at"])


def signature(secret: bytes, ident: str, at: int, body: bytes) -> str:
    """As the Standard Webhooks have it: HMAC-SHA256 over id, time and body, in base 64, with the version before it."""
    signed = hmac.new(secret, f"{ident}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def _post(row: Delivery) -> str:
    """The answer's status in words. NotTaken for anything but 2xx."""
    hook = row.hook
    assert hook is not None
    if hook.stopped and row.kind != "test":
        raise NotTaken("The web hook is stopped.", final=True)
    body, at = row.body.encode(), int(time.time())
    try:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "StitchWeb-Webhook/1",
            "webhook-id": str(row.ident),
            "webhook-timestamp": str(at),
            "webhook-signature": signature(hooks.secret_of(hook), str(row.ident), at, body),
        }
        with (
            hooks.guard().client(hook.url, TIMEOUT_S) as client,
            client.stream("POST", hook.url, content=body, headers=headers) as answer,
        ):
            status = answer.status_code
            for read, _ in enumerate(answer.iter_bytes(4096)):
                if read * 4096 > READ_BYTES:
                    break
    except Unsealable:
        raise NotTaken(
            "The secret cannot be read: MODEL_KEYS_SECRET is another now. Make a new web hook.", final=True
        ) from None
    except Forbidden as refusal:
        raise NotTaken(str(refusal)) from refusal
    except Exception as error:  # whatever a stranger's server does to a client of HTTP
        raise NotTaken(f"No answer: {type(error).__name__}.") from error
    if 200 <= status < 300:
        return f"{status}"
    if status == 410:
        raise NotTaken("410: the server says that it is gone for good.", final=True)
    moved = " Redirects are not followed: give the address that it leads to." if 300 <= status < 400 else ""
    raise NotTaken(f"The server answered {status}.{moved}")


def _mail(row: Delivery) -> str:
    told = row.notification
    assert told is not None
    if not told.user.is_active:
        raise NotTaken("The person cannot sign in any more.", final=True)
    text = (
        f"{told.sentence}\n\n{settings.SITE_URL}{told.place}\n\n"
        f"You get this because you chose so, or did not choose: {settings.SITE_URL}/settings/notifications/\n"
    )
    team = f"[{told.team.name}] " if told.team else ""
    title = KINDS[told.kind].title if told.kind in KINDS else "StitchWeb"
    subject = "".join(char for char in f"{team}{title}" if char.isprintable())
    try:
        EmailMessage(subject, text, to=[told.user.email]).send()
    except OSError as error:  # smtplib's own errors are of this kind
        raise NotTaken(f"The mail server did not take it: {type(error).__name__}.") from error
    return "sent"


def send_due(**_: object) -> None:
    """Hand over what should have been tried by now, to whichever worker comes first. One query when there is nothing."""
    for pk in list(Delivery.objects.due(timezone.now()).order_by("next_at").values_list("pk", flat=True)[:MAX_AT_ONCE]):
        try:
            dispatch.send(DELIVER, dispatch.AGENTS_QUEUE, delivery_id=pk)
        except Exception as error:  # whatever the broker's client raises: it is away, and the next sweep tries again
            logger.warning("the broker does not take messages: %s", error)
            return
