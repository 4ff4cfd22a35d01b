"""What a fresh installation finds: somebody to sign in as, a team, and an example that is being optimized."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction

from agents.state import Options
from gpu_runner.contracts import PROTOCOLS
from stitchweb.programs.models import Program
from stitchweb.programs.services import Upload, create_program
from stitchweb.runs.models import Run
from stitchweb.runs.services import start_run
from stitchweb.teams.models import User
from stitchweb.teams.services import create_team, create_user, make_login_link

LOCAL_USER = "you@localhost"
EXAMPLE = Path("examples") / "layernorm_gelu.py"
LINK_LIFE = timedelta(hours=12)


def local_user() -> User:
    """The person of a site on one machine, made with a team on first use."""
    with transaction.atomic():
        user = User.objects.filter(email=LOCAL_USER).first()
        if user is None:
            user = create_user(LOCAL_USER, name="Owner")  # as others read it
            user.is_staff = True  # whose machine it is runs the site
            user.save(update_fields=["is_staff"])
            create_team(user, "My team")
    return user


def example_run(user: User) -> Run | None:
    """The example's first run; started when the team has no program yet, None when it was deleted or there is no example."""
    file = settings.BASE_DIR / EXAMPLE
    team = user.teams.order_by("pk").first()
    if team is None:
        return None
    if not Program.objects.filter(team=team).exists() and file.exists():
        upload = Upload(
            text=file.read_text(),
            filename=EXAMPLE.name,
            name="LayerNorm + GELU",
            description="The example that a fresh installation optimizes by itself.",
            tags=("example",),
        )
        revision = create_program(user, team, upload)
        start_run(user, revision, Options(protocol=PROTOCOLS["strict"]))
    return Run.objects.filter(team=team, revision__program__path=EXAMPLE.name).order_by("pk").first()


def login_address() -> str:
    """A link that signs the local user in once and shows the example's run."""
    user = local_user()
    run = example_run(user)
    path = make_login_link(user, f"/runs/{run.pk}/" if run else "/", LINK_LIFE)
    return f"{settings.SITE_URL}{path}"
