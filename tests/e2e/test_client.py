"""The command-line client against a whole site: upload, run, watch as it happens, take the result home."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, Site, whole_site

pytestmark = pytest.mark.e2e

TOKEN = """
from stitchweb.api.tokens import make_token
from stitchweb.runs.first import local_user
from stitchweb.runs.models import Run
from stitchweb.runs.services import control
first = Run.objects.get()
control(first.owner, first, 'cancel')
print(json.dumps(make_token(local_user(), "client", ["read", "upload", "run"], 7)[1]))
"""


def test_a_program_goes_in_and_another_comes_out(tmp_path: Path) -> None:
    with whole_site() as site:
        site.link()
        client = tmp_path / "client.py"
        client.write_bytes(urllib.request.urlopen(f"http://127.0.0.1:{site.port}/api/client.py").read())
        token = site.manage(TOKEN)

        said = ask(client, site, tmp_path, "login", f"http://127.0.0.1:{site.port}", "--token", token)
        assert "Teams: my-team" in said
        assert (tmp_path / "stitchweb.json").stat().st_mode & 0o077 == 0

        example = str(ROOT / "examples" / "rmsnorm.py")
        said = ask(client, site, tmp_path, "run", example, "--protocol", "quick", "--attempts", "1", "--watch", status=None)
        run = int(said.split("Run ")[1].split(" ")[0])
        assert "Plan: " in said
        assert "c1: verified" in said
        assert "finished" in ask(client, site, tmp_path, "runs")

        # Named, for on a busy machine nothing may be significantly faster, and then there is no best one.
        ask(client, site, tmp_path, "download", str(run), "--candidate", "c1", "-o", str(tmp_path / "best.zip"))
        names = zipfile.ZipFile(io.BytesIO((tmp_path / "best.zip").read_bytes())).namelist()
        assert any(name.endswith("model_new.py") for name in names)

        bad = tmp_path / "bad.py"
        bad.write_text("class Model(\n")
        refused = ask(client, site, tmp_path, "upload", str(bad), status=1)
        assert "is not Python: line" in refused
        assert "no such run" in ask(client, site, tmp_path, "watch", "9999", status=1)


def ask(client: Path, site: Site, home: Path, *words: str, status: int | None = 0) -> str:
    """What the client says, in an environment that has Python and nothing of ours. `status` None: 0 or 1."""
    env = {"PATH": os.defpath, "XDG_CONFIG_HOME": str(home)}
    command = [sys.executable, "-I", str(client), *words]
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=180)
    assert done.returncode in ((0, 1) if status is None else (status,)), f"{done.stdout}\n{done.stderr}\n{site.text[-3000:]}"
    return done.stdout + done.stderr
