"""Which team a command speaks of."""

from __future__ import annotations

from stitchweb.datasets.progress import Refused
from stitchweb.teams.models import Team


def team_named(slug: str) -> Team:
    """The team of that slug, by default the demo team. Refused with what there is."""
    rows = Team.objects.filter(slug=slug) if slug else Team.objects.filter(synthetic=True)
    found = rows.order_by("pk").first()
    if found is None:
        if not slug:
            raise Refused("There is no demo team. Make it first: manage.py seed_demo. Or name a team: --team SLUG")
        names = ", ".join(Team.objects.order_by("slug").values_list("slug", flat=True)[:20]) or "none yet"
        raise Refused(f"There is no team {slug!r}. There are: {names}.")
    return found
