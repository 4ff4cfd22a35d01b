"""Web hooks of a team: made, changed, taken away, tried out."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.llm.guard import Forbidden, Guard
from stitchweb.llm.vault import seal, unseal
from stitchweb.notify.kinds import KINDS
from stitchweb.notify.models import Delivery, DeliveryState, Hook
from stitchweb.notify.services import hand_over, message
from stitchweb.teams.models import Team, User

MOST = 20  # of one team
SECRET = "whsec_"  # noqa: S105  how the secret begins, as the Standard Webhooks have it


class HookRefused(Exception):
    """No such hook can be made. The message is for the person."""


def guard() -> Guard:
    """Which servers may be told: public ones, and those that whoever runs the site allowed."""
    return Guard(settings.WEBHOOK_SERVERS, "WEBHOOK_SERVERS")


def checked(url: str) -> str:
    """The address. HookRefused with a sentence when nothing is sent there; asks the name service once."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or parts.password or "#" in url:
        raise HookRefused("The address begins with https:// and a host, and has neither a password nor a # in it.")
    if not url.isascii() or any(char.isspace() for char in url):
        raise HookRefused("The address has characters in it that no address has. Write them as %20 and the like.")
    try:
        guard().addresses(url)
    except Forbidden as refusal:
        raise HookRefused(str(refusal)) from refusal
    except ValueError as error:
        raise HookRefused("The address is none: its port is no number from 1 to 65535.") from error
    return url


def add_hook(user: User, team: Team, name: str, url: str, kinds: Collection[str]) -> tuple[Hook, str]:
    """The hook, and its secret, which is shown once."""
    hook = Hook(team=team, created_by=user)
    _put(hook, name, url, kinds)  # before the transaction: whoever waits for the team's row must not wait for a name service
    secret = SECRET + base64.b64encode(secrets.token_bytes(32)).decode()
    hook.sealed = seal(team.pk, str(hook.ident), secret)
    with transaction.atomic():
        Team.objects.select_for_update().get(pk=team.pk)
        if Hook.objects.filter(team=team).count() >= MOST:
            raise HookRefused(f"A team has {MOST} web hooks at most. Remove one that is not used any more.")
        hook.save()
    return hook, secret


def change_hook(hook: Hook, name: str, url: str, kinds: Collection[str]) -> None:
    """Another name, address or choice. One that was stopped works again."""
    _put(hook, name, url, kinds)
    hook.stopped, hook.failures = "", 0
    hook.save()


def _put(hook: Hook, name: str, url: str, kinds: Collection[str]) -> None:
    hook.name = name.strip()[:80]
    hook.kinds = [kind for kind in KINDS if kind in kinds]
    if not hook.name:
        raise HookRefused("Give the web hook a name.")
    if not hook.kinds:
        raise HookRefused("Choose at least one thing that is sent to it.")
    if len(url) > 400:
        raise HookRefused("The address is longer than 400 characters.")
    hook.url = checked(url.strip())


def secret_of(hook: Hook) -> bytes:
    """The bytes that sign. Raises the vault's Unsealable when the site's secret is another now."""
    return base64.b64decode(unseal(hook.team_id, str(hook.ident), hook.sealed).removeprefix(SECRET))


def try_out(hook: Hook) -> Delivery:
    """Send a message that says that it is a test."""
    return hand_over(message(hook, "test", "test", {"sentence": f"A test of the web hook {hook.name}."}))


@transaction.atomic
def send_again(delivery: Delivery) -> Delivery:
    """The same message once more, as a delivery of its own."""
    return hand_over(Delivery(hook=delivery.hook, kind=delivery.kind, about=delivery.about, body=delivery.body))


def settle(delivery: Delivery, state: DeliveryState, answer: str) -> None:
    """A delivery is done. A hook to which nothing came through twenty times in a row is stopped, and says so."""
    delivery.state, delivery.answer, delivery.done_at = state, answer[:300], timezone.now()
    delivery.save(update_fields=["state", "answer", "done_at", "tries"])
    if delivery.hook is None:
        return
    hook = Hook.objects.select_for_update().get(pk=delivery.hook_id)
    hook.failures = hook.failures + 1 if state == DeliveryState.GIVEN_UP else 0
    if hook.failures >= 20 and not hook.stopped:
        hook.stopped = f"{hook.failures} messages in a row did not come through. The last answer: {answer}"[:200]
    hook.save(update_fields=["failures", "stopped"])
