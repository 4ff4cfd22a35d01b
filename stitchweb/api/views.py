"""The page about the API, the client to take home, the page of tokens."""

from __future__ import annotations

from pathlib import Path

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from stitchweb.api.access import token_for, tokens_for
from stitchweb.api.describe import sections
from stitchweb.api.main import api
from stitchweb.api.models import Scope
from stitchweb.api.problems import TITLES, problem
from stitchweb.api.tokens import LIVES, TokenRefused, make_token
from stitchweb.programs.uploads import Problem

CLIENT = Path(__file__).with_name("client.py")
DAYS = 90  # what the form begins with


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """What the API is, address by address, out of its own description."""
    schema = api.get_openapi_schema()
    context = {"section": "api", "about": sections(schema), "titles": sorted(TITLES.items()), "scopes": Scope.choices}
    return render(request, "api/docs.html", context)


@require_safe
def client(request: HttpRequest) -> HttpResponse:
    """The client for the command line: one file of Python that needs nothing else."""
    response = HttpResponse(CLIENT.read_bytes(), content_type="text/x-python; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="client.py"'
    return response


@csrf_exempt
def nowhere(request: HttpRequest) -> HttpResponse:
    """Any other address below the API's: a problem, where Django would answer with a page."""
    return problem(request, 404, "The API has no such address. /api/docs lists those that there are.")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """The person's tokens and a form for another, which this page shows once, when it is made."""
    made, secret, problems = None, "", list[Problem]()
    chosen = {"name": "", "scopes": [Scope.READ.value], "days": DAYS}
    if request.method == "POST":
        word = request.POST.get("days", "")
        days = int(word) if word.isascii() and word.isdecimal() and len(word) < 6 else 0
        chosen = {"name": request.POST.get("name", "")[:200], "scopes": request.POST.getlist("scope"), "days": days}
        try:
            made, secret = make_token(request.user, str(chosen["name"]).replace("\0", ""), request.POST.getlist("scope"), days)
        except TokenRefused as refusal:
            problems = [Problem("token", str(refusal))]
    context = {
        "section": "settings", "tokens": list(tokens_for(request.user)), "made": made, "secret": secret, "problems": problems,
        "scopes": Scope.choices, "lives": LIVES, "chosen": chosen,
    }  # fmt: skip
    return render(request, "api/tokens.html", context, status=422 if problems else 200)


@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """End a token at once."""
    token = token_for(request.user, pk)
    token.delete()
    messages.success(request, f"The token {token.name} is revoked. What used it is refused from now on.")
    return redirect("tokens")
