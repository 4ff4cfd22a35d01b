"""A team's prompts: shown, edited, compared with ours, looked at with a run's data before they are used."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe
from pydantic import ValidationError

from agents.engineers.llm.preview import NoPreview, Told, preview
from agents.engineers.llm.prompts import ours, places
from stitchweb.llm.access import prompts_of, team_to_see
from stitchweb.llm.models import TeamPrompt
from stitchweb.llm.services import MOST_PROMPT, Refused, reset_prompt, save_prompt
from stitchweb.runs.access import run_for, runs_for
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.diffs import file_diff
from stitchweb.runs.models import Run
from stitchweb.studio.prompt_names import in_order, named
from stitchweb.studio.views.models import context_of
from stitchweb.teams.access import Person
from stitchweb.teams.models import Team

MOST_RUNS = 30


@require_safe
def prompts(request: HttpRequest, slug: str) -> HttpResponse:
    """All prompts, and which of them are the team's own."""
    team = team_to_see(request.user, slug)
    own = {p.name: p for p in TeamPrompt.objects.filter(team=team).select_related("changed_by")}
    rows = []
    for name in in_order():
        mine, (title, about) = own.get(name), named(name)
        diff = file_diff(f"{name}.md", ours()[name], mine.text) if mine else None
        rows.append({"name": name, "title": title, "about": about, "own": mine, "diff": diff})
    return render(request, "studio/prompts.html", context_of(request.user, team) | {"rows": rows})


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    """One prompt. POST with `action` save, reset or preview: then the text is shown as a model would get it, not stored."""
    team = team_to_see(request.user, slug)
    if name not in ours():
        raise Http404("There is no such prompt.")
    context = context_of(request.user, team)
    text, refused, action = prompts_of(team.pk).get(name, ours()[name]), "", request.POST.get("action", "")
    if request.method == "POST":
        if action != "preview" and not context["may_change"]:
            raise PermissionDenied("Prompts are changed by maintainers and owners of the team. You can preview a text.")
        text = request.POST.get("text", "").replace("\r\n", "\n")[: 2 * MOST_PROMPT]
        try:
            if action == "reset":
                reset_prompt(team, name)
            elif action != "preview":
                save_prompt(request.user, team, name, text)
        except Refused as refusal:
            refused = str(refusal)
        else:
            if action != "preview":
                how = "is the one that comes with StitchWeb again" if action == "reset" else "is saved"
                messages.success(request, f"The prompt {how}. Runs that are started from now on use it.")
                return redirect("prompt", slug, name)
    runs = list(runs_for(request.user).filter(team=team).exclude(status="queued").order_by("-pk")[:MOST_RUNS])
    wanted = request.POST.get("run") or request.GET.get("run", "")
    told, why = _told(request.user, team, name, text, wanted) if action == "preview" and not refused else (None, "")
    context |= {
        "name": name,
        "title": named(name)[0],
        "about": named(name)[1],
        "text": text,
        "diff": file_diff(f"{name}.md", ours()[name], text if text.endswith("\n") else text + "\n"),
        "own": TeamPrompt.objects.filter(team=team, name=name).select_related("changed_by").first(),
        "places": sorted(places(ours()[name])),
        "refused": refused,
        "runs": runs,
        "chosen": wanted,
        "told": told,
        "no_preview": why,
    }
    return render(request, "studio/prompt.html", context, status=422 if refused else 200)


def _told(user: Person, team: Team, name: str, text: str, wanted: str) -> tuple[Told | None, str]:
    """The preview, or why there is none."""
    if not wanted.isdecimal() or len(wanted) > 18:
        return None, "Choose a run whose data are to be filled in."
    run: Run = run_for(user, int(wanted))
    if run.team_id != team.pk:
        raise Http404("There is no such run in this team.")
    own: dict[str, Any] = prompts_of(team.pk) | {name: text}
    if unknown := places(text) - places(ours()[name]):
        return None, f"Nothing fills {', '.join(sorted(unknown))}, so there is nothing to show."
    try:
        return preview(name, own, run.load(), RunBlobs(run.pk)), ""
    except NoPreview as reason:
        return None, str(reason)
    except ValidationError:
        return None, "This version cannot read that run. Choose another."
