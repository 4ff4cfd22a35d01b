"""Teams, and the models that their runs may ask."""

from typing import Annotated

from django.http import HttpRequest
from ninja import Path, Router

from stitchweb.api.auth import READ
from stitchweb.api.rest.schemas import ModelOut, TeamOut
from stitchweb.llm.access import models_of, team_to_see
from stitchweb.teams.access import memberships_for

router = Router(tags=["Teams"])
Slug = Annotated[str, Path(description="of a team", max_length=60, pattern=r"^[-a-zA-Z0-9_]+$")]


@router.get("/teams", auth=READ, url_name="teams", response=list[TeamOut], summary="Your teams")
def teams(request: HttpRequest):
    """The teams that the token's person is in, with the role that they have there."""
    return [TeamOut(slug=m.team.slug, name=m.team.name, role=m.role) for m in memberships_for(request.user)]


@router.get("/teams/{slug:slug}/models", auth=READ, url_name="team-models", response=list[ModelOut], summary="A team's models")
def team_models(request: HttpRequest, slug: Slug):
    """The models that a run of this team may name as planner, coder and verifier."""
    found = models_of(team_to_see(request.user, slug))
    return [ModelOut(id=m.pk, name=m.name, provider=m.provider.name) for m in found]
