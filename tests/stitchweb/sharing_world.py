"""Publications for the tests of pages and for screenshots: real versions of told runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.blobs import MemoryBlobs
from agents.events import Event
from stitchweb.programs.models import Revision
from stitchweb.runs.models import Run
from stitchweb.sharing.models import Collection, Publication
from stitchweb.sharing.services.collecting import create_collection, put_in
from stitchweb.sharing.services.linking import LinkWish, make_link, revoke
from stitchweb.sharing.services.publishing import Wish, publish
from stitchweb.sharing.services.talk import comment
from stitchweb.teams.models import Role, User
from stitchweb.teams.services import create_user, set_role
from tests.stitchweb.views_for_tests import story
from tests.stitchweb.world_for_tests import World, make_world, tell_run

NOTES = """## What it does

One pass over each row: mean and variance **in registers**, then the result. See [Welford](https://example.org/welford).

- rows of any length
- `float32` only

<script>alert(1)</script>
"""


def other_story(cid: str = "c5", **changes: Any) -> tuple[list[Event], MemoryBlobs]:
    """The story with another end of one candidate: `changes` of its last event, such as labels or verdict."""
    told, blobs = story()
    last = max(i for i, e in enumerate(told) if e.kind == "candidate.changed" and e.payload.get("id") == cid)
    told[last] = told[last].model_copy(update={"payload": told[last].payload | changes})
    return told, blobs


@dataclass
class Shown:
    """`first` is v1 (c3 of `world.done`), `second` its v2 (c5), both ada's; `ben` is a member, `rita` a reviewer."""

    world: World
    ben: User
    rita: User
    first: Publication
    second: Publication
    collection: Collection
    token: str
    locked: str


def publish_told(user: User, run: Run, cid: str, **wish: Any) -> Publication:
    return publish(user, run.pk, cid, Wish(**wish))


def make_shown(world: World | None = None) -> Shown:
    world = world or make_world()
    return _shown(world, world.owner, world.done)


def _shown(world: World | None, owner: User, run: Run) -> Shown:
    ben, rita = create_user("ben.ng@example.org", name="Ben Ng"), create_user("rita.r@example.org", name="Rita")
    set_role(run.team, ben, Role.MEMBER)
    set_role(run.team, rita, Role.REVIEWER)
    first = publish_told(owner, run, "c3", name="LayerNorm + GELU", notes="The first one.", tags=("norm",))
    second = publish_told(owner, run, "c5", version_of=first.pk, notes=NOTES, licence="MIT", tags=("norm", "gelu", "Fused Row"))
    collection = create_collection(owner, run.team.slug, "Feed-forward", "Kernels of the **feed-forward** block.")
    put_in(owner, collection.pk, second.pk)
    comment(ben, second.pk, "It reads twice what it must, @ada. Could `rstd` stay in a register?")
    _, token = make_link(owner, second.pk, LinkWish(True, True, True, True, "month", "", "for the vision team"))
    _, locked = make_link(owner, second.pk, LinkWish(code=True, password="open sesame", life=""))
    return Shown(world, ben, rita, first, second, collection, token, locked)  # type: ignore[arg-type]  states need no world


def shown_pages(shown: Shown) -> dict[str, str]:
    """Every page by name, as the owner sees it; of links as everybody does."""
    at, run = shown.second.get_absolute_url(), shown.second.run_id
    return {
        "published": "/published/", "published-found": "/published/?q=rstd", "published-none": "/published/?q=nothingofit",
        "publish": f"/published/new/?run={run}&candidate=c5", "publish-refused": f"/published/new/?run={run}&candidate=c2",
        "publication": at, "publication-diff": f"{at}?against=before", "publication-old": shown.first.get_absolute_url(),
        "publication-edit": f"{at}edit", "shares": f"{at}shares/", "collections": "/published/collections/",
        "collection": shown.collection.get_absolute_url(), "compare": "/published/compare/",
        "compare-two": f"/published/compare/?a=p{shown.first.pk}&b=p{shown.second.pk}",
        "compare-apart": f"/published/compare/?a=r{run}-c2&b=p{shown.second.pk}",
        "leaderboard": "/published/leaderboard/",
        "leaderboard-reference": f"/published/leaderboard/{shown.second.reference}/{shown.second.target}/",
        "shared": f"/s/{shown.token}/", "shared-locked": f"/s/{shown.locked}/",
    }  # fmt: skip


def states_of(revision: Revision, owner: User) -> dict[str, tuple[str, str]]:
    """The same pages on a site that is told already, for `tools/states.py`: who looks ("" for nobody signed in), and where."""
    shown = _shown(None, owner, tell_run(revision, owner, *story()))
    events, blobs = other_story(labels=["reduced-precision", "no-own-kernels"])
    quick = tell_run(revision, owner, events, blobs)
    publish_told(
        shown.ben, quick, "c3", name="A name that says everything about the program, its shapes and its author", tags=("norm",)
    )
    nobody = ("shared", "shared-locked")
    return {name: ("" if name in nobody else "ada", path) for name, path in shown_pages(shown).items()} | {
        "published-empty": ("oscar", "/published/"), "collections-empty": ("oscar", "/published/collections/"),
        "shared-gone": ("", f"/s/{_ended(owner, shown)}/"),
    }  # fmt: skip


def _ended(owner: User, shown: Shown) -> str:
    link, token = make_link(owner, shown.second.pk, LinkWish())
    revoke(owner, shown.second.pk, link.pk)
    return token


__all__ = ["Shown", "make_shown", "other_story", "publish_told", "shown_pages", "states_of", "tell_run"]
