"""Publications, collections, boards, and links that show one publication."""

from __future__ import annotations

from django.utils import timezone

from stitchweb.core.permissions import Who
from stitchweb.sharing.models import ShareLink
from stitchweb.sharing.permissions import CHANGE
from stitchweb.sharing.services.collecting import create_collection, put_in
from stitchweb.sharing.services.linking import LinkWish, make_link
from stitchweb.sharing.services.publishing import Wish, publish
from stitchweb.sharing.services.talk import comment
from tests.stitchweb.matrix import Visit, Visits, whom
from tests.stitchweb.matrix.stage import Stage
from tests.stitchweb.test_pages import _give_state


def visits(stage: Stage) -> Visits:
    owner, run = stage.people[Who.OWNER], stage.world.done
    row = publish(owner, run.pk, "c5", Wish(name="Marmot norm", notes="Of marmots.", licence="MIT"))
    _give_state(run)  # its one candidate is c1
    type(row).objects.filter(pk=row.pk).update(candidate="c1")
    held = create_collection(owner, stage.team.slug, "Marmots")
    other = create_collection(owner, stage.team.slug, "More marmots")
    put_in(owner, held.pk, row.pk)
    said = comment(owner, row.pk, "About marmots.")
    link, token = make_link(owner, row.pk, LinkWish(True, True, True, True))
    dead = []
    for ended in ({"revoked_at": timezone.now()}, {"expires_at": timezone.now()}):
        gone, old = make_link(owner, row.pk, LinkWish(True, True, True, True))
        ShareLink.objects.filter(pk=gone.pk).update(**ended)
        dead.append({"token": old})
    managed = whom("maintainer", "owner")  # the owner published, shared and commented
    at, wheel = {"pk": row.pk}, "stitchweb_marmot_norm-1-py3-none-any.whl"

    def by_link(**args: str) -> Visit:
        return Visit(
            {"token": "unknown", **args}, links={Who.LINK: ({"token": token},), Who.DEAD_LINK: tuple(dead)}, refused=(410,)
        )

    chosen = f"run={run.pk}&candidate=c5"
    return {
        "published": Visit(query="q=marm"),  # not the whole word: the page tells back what was typed
        "publish": Visit(query=chosen, data={"run": run.pk, "candidate": "c5", "name": "Second", "licence": "MIT"}),
        "publication": (
            Visit(at, method="GET"),
            Visit(at, data={"notes": "Anew", "licence": "MIT"}, meets=managed, method="POST", action=CHANGE),
        ),
        "publication-edit": Visit(at, meets=managed),
        "publication-file": Visit(at | {"path": "model_new.py"}),
        "publication-zip": Visit(at),
        "publication-wheel": Visit(at | {"name": wheel}),
        "publication-profile-file": Visit(at | {"name": "kernels.csv"}),
        "publication-withdraw": Visit(at, meets=managed),
        "publication-fork": Visit(at, data={"team": stage.team.slug}),
        "publication-comment": Visit(at, data={"text": "A word."}),
        "publication-comment-delete": Visit(at | {"comment_pk": said.pk}, meets=managed),
        "publication-collect": Visit(at, data={"collection": other.pk}),
        "publication-shares": Visit(at, data={"shows_numbers": "on", "life": "week"}),
        "publication-share-revoke": Visit(at | {"link_pk": link.pk}, meets=managed),
        "compare": Visit(query=f"a=p{row.pk}&b=r{run.pk}", refused=(), opens=(404,)),
        "leaderboard": Visit(),
        "leaderboard-reference": Visit({"sha256": row.reference, "target": row.target}),
        "collections": Visit(data={"team": stage.team.slug, "name": "Third"}),
        "collection": Visit({"pk": held.pk}, data={"name": "Marmots again"}),
        "collection-take-out": Visit({"pk": held.pk, "publication_pk": row.pk}),
        "collection-delete": Visit({"pk": held.pk}),
        "shared": by_link(),
        "shared-file": by_link(path="model_new.py"),
        "shared-wheel": by_link(name=wheel),
        "shared-profile-file": by_link(name="kernels.csv"),
        "shared-badge": by_link(),
        "shared-card": by_link(),
        "robots": Visit(),
    }
