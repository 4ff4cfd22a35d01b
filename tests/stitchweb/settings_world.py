"""The states of the pages about notifications, web hooks and tokens, for pictures and for the browser's tests."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from stitchweb.api.models import ApiToken
from stitchweb.api.tokens import make_token
from stitchweb.notify.models import Delivery, Hook, Notification
from stitchweb.teams.models import Team, User

LONG = "https://chat.example.org/hooks/services/T0000000000000000/B00000000000000000/XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX"
TOLD = (
    ("run.finished", "Run 12, layernorm_gelu, has ended: verified. c5 is 1.84× faster than eager.", "/runs/"),
    ("review.requested", "Grace asks you to score candidates in Norms, autumn.", "/review/"),
    ("library.mention", "Grace mentioned you in a comment on fused LayerNorm + GELU v2.", "/"),
    ("library.shared", f"Grace published {'mixture_of_experts_' * 6}v1 in Kernel team.", "/"),
    ("review.adjudication", "3 disputes wait for you in Norms, autumn.", "/review/"),
)


def settings_pages(team: Team, owner: User) -> dict[str, tuple[str, str]]:
    """Name: who looks, and where."""
    now = timezone.now()
    for number, (kind, sentence, place) in enumerate(TOLD):
        Notification.objects.create(
            user=owner, team=team, kind=kind, sentence=sentence, place=place, about=f"told {number}",
            at=now - timedelta(hours=number * 7), read_at=now if number > 2 else None,
        )  # fmt: skip
    hook = Hook.objects.create(
        team=team, name="chat of the team", url=LONG, kinds=["run.finished", "library.shared"], sealed="", created_by=owner
    )
    Hook.objects.create(
        team=team, name="old script", url="http://10.0.0.8:9000/hook", kinds=["run.finished"], sealed="", failures=20,
        stopped="20 messages in a row did not come through. The last answer: The server answered 502.",
    )  # fmt: skip
    sent = (("waiting", "The server answered 503.", 3), ("given up", "No answer: ConnectTimeout.", 8), ("sent", "200", 1))
    for state, answer, tries in sent:
        Delivery.objects.create(
            hook=hook, kind="run.finished", about=f"run {tries}", body="{}", state=state, answer=answer, tries=tries,
            next_at=now + timedelta(days=1),
        )  # fmt: skip
    make_token(owner, "notebook on the cluster", ["read"], 30)
    old, _ = make_token(owner, "nightly benchmark of all that the team has uploaded so far", ["read", "upload", "run"], 90)
    ApiToken.objects.filter(pk=old.pk).update(expires_at=now - timedelta(days=3), last_used_at=now - timedelta(days=5))
    place = f"/settings/hooks/{team.slug}/"
    return {
        "notifications": ("ada", "/notifications/"), "notifications-none": ("vera", "/notifications/"),
        "notification-settings": ("ada", "/settings/notifications/"), "tokens": ("ada", "/settings/tokens/"),
        "tokens-none": ("vera", "/settings/tokens/"), "hooks": ("ada", place), "hook": ("ada", f"{place}{hook.pk}/"),
        "hooks-nowhere": ("vera", "/settings/hooks/"), "api-docs": ("ada", "/api/docs"),
    }  # fmt: skip
