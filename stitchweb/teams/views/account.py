"""A person's own account: name, what guards it, everything along as a zip, the end of it."""

from __future__ import annotations

from allauth.account.decorators import reauthentication_required
from allauth.mfa.models import Authenticator
from django import forms
from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from stitchweb.teams.access import memberships_for
from stitchweb.teams.deletion import delete_account
from stitchweb.teams.export import export
from stitchweb.teams.people import Refused
from stitchweb.teams.services import set_name


class NameForm(forms.Form):
    """What the person is called."""

    name = forms.CharField(max_length=120, required=False)


@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """The name as a form, and the way to everything else. POST keeps the name."""
    form = NameForm(request.POST if request.method == "POST" else {"name": request.user.name})
    if request.method == "POST" and form.is_valid():
        set_name(request.user, form.cleaned_data["name"])
        messages.success(request, "Your name is kept.")
        return redirect("account")
    context = {
        "form": form,
        "memberships": list(memberships_for(request.user)),
        "factors": set(Authenticator.objects.filter(user=request.user).values_list("type", flat=True)),
        "section": "account",
    }
    return render(request, "teams/account.html", context, status=200 if form.is_valid() else 422)


@require_POST
def export_account(request: HttpRequest) -> HttpResponse:
    """The zip of everything that refers to the person."""
    response = HttpResponse(export(request.user), content_type="application/zip")
    day = timezone.localdate().isoformat()
    response["Content-Disposition"] = f'attachment; filename="stitchweb-{request.user.pk}-{day}.zip"'
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@reauthentication_required(allow_get=True)
def delete(request: HttpRequest) -> HttpResponse:
    """What goes and what stays; sent with the address typed, it is done."""
    refused = ""
    if request.method == "POST":
        if request.POST.get("email", "").strip().lower() != request.user.email:
            refused = "Type your address as it stands above: then it is meant."
        else:
            try:
                delete_account(request.user)
            except Refused as refusal:
                refused = str(refusal)
            else:
                logout(request)
                messages.success(request, "Your account is deleted.")
                return redirect("account_login")
    context = {"refused": refused, "section": "account", "memberships": list(memberships_for(request.user))}
    return render(request, "teams/account_delete.html", context, status=409 if refused else 200)
