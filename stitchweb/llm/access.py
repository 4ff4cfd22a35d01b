"""Who may see and change a team's models: those who start runs see them, maintainers and owners change them."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import QuerySet
from django.http import Http404

from agents.llm.cassette import AUTO
from agents.model_choice import ModelChoice, Role
from agents.state import Options
from stitchweb.llm.models import Provider, RoleDefault, TeamModel, TeamPrompt
from stitchweb.llm.permissions import CHANGE, SEE
from stitchweb.teams.access import Person, team_for, teams_for
from stitchweb.teams.models import Team


def team_to_see(user: Person, slug: str) -> Team:
    """The team, for those who may see its models. Http404 and PermissionDenied as `team_for`."""
    return team_for(user, slug, SEE)


def team_to_change(user: Person, slug: str) -> Team:
    """The team, for those who may change its models."""
    return team_for(user, slug, CHANGE)


def provider_to_change(user: Person, slug: str, ident: str) -> Provider:
    """A provider of the team with its team, for those who may change it. Http404 where there is none."""
    team = team_to_change(user, slug)
    provider = Provider.objects.filter(team=team, ident=ident).select_related("team", "key_by").first()
    if provider is None:
        raise Http404("This team has no such provider.")
    return provider


def model_of(user: Person, slug: str, pk: int, change: bool = True) -> TeamModel:
    """A model of the team with its provider. Http404 where there is none."""
    team = team_to_change(user, slug) if change else team_to_see(user, slug)
    model = models_of(team).filter(pk=pk).first()
    if model is None:
        raise Http404("This team has no such model.")
    return model


def models_of(team: Team) -> QuerySet[TeamModel]:
    """The models of a team with their providers, by name. The caller has asked who may see the team."""
    return TeamModel.objects.filter(provider__team=team).select_related("provider__team").order_by("provider__name", "name")


def models_to_run(user: Person) -> QuerySet[TeamModel]:
    """The models that the person may start runs with, in all their teams. One query."""
    teams = teams_for(user, SEE)
    found = TeamModel.objects.filter(provider__team__in=teams).select_related("provider__team")
    return found.order_by("provider__team__name", "provider__name", "name")


def defaults_of(team: Team) -> dict[str, int]:
    """Role to the pk of its model, of the roles that have one. One query."""
    return dict(RoleDefault.objects.filter(team=team).values_list("role", "model_id"))


def prompts_of(team_id: int) -> dict[str, str]:
    """Name to text of the prompts that the team has of its own. One query."""
    return dict(TeamPrompt.objects.filter(team=team_id).values_list("name", "text"))


def strangers(team_id: int, options: Options) -> Mapping[Role, ModelChoice]:
    """The roles whose model is none of the team's providers as they are now. One query where a role asks a model."""
    if not options.models:
        return {}
    if {choice.model for choice in options.models.values()} == {AUTO}:
        return {}  # a recording that is shipped: nobody is asked
    known = set(Provider.objects.filter(team=team_id).values_list("ident", "api_base"))
    return {role: choice for role, choice in options.models.items() if (choice.key, choice.api_base) not in known}
