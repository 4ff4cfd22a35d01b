"""Notifications and web hooks."""

from __future__ import annotations

from stitchweb.core.permissions import Who
from stitchweb.notify.models import Delivery, Hook, Notification
from tests.stitchweb.matrix import Visit, Visits, whom
from tests.stitchweb.matrix.stage import Stage


def visits(stage: Stage) -> Visits:
    mine = Notification.objects.create(
        user=stage.people[Who.OWNER], team=stage.team, kind="library.mention", sentence="Marmot!", place="/", about="x"
    )
    hook = Hook.objects.create(
        team=stage.team, name="Marmot chat", url="https://example.org/", kinds=["run.finished"], sealed=""
    )
    sent = Delivery.objects.create(hook=hook, kind="test", state="sent")
    team, of_hook = {"slug": stage.team.slug}, {"slug": stage.team.slug, "pk": hook.pk}
    return {
        "notifications": Visit(),
        "bell": Visit(),
        "notification": Visit({"pk": mine.pk}, meets=whom("owner")),
        "notifications-read": Visit(),
        "notification-settings": Visit(data={"want": ["library.mention/page"]}),
        "hooks": Visit(),
        "team-hooks": Visit(team, data={"name": ""}),
        "hook": Visit(of_hook, data={"name": ""}),
        "hook-remove": Visit(of_hook),
        "hook-test": Visit(of_hook),
        "hook-again": Visit(of_hook | {"delivery": sent.pk}),
    }
