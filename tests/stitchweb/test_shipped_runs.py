"""The runs that lie in `examples/runs/`, and one as a GPU leaves it, become runs of the site, every page of which opens."""

from __future__ import annotations

import json
import re
from html import unescape
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from agents.engineers.scripted import Scripted
from agents.folder import EVENTS_FILE, RunFolder
from agents.headless import optimize
from gpu_runner.contracts import DeviceInfo, ProfileReport
from gpu_runner.profile import read_profile
from stitchweb.runs.models import Run
from tests.agents.loop_world import FakeHands, analysis, check, options, program, scripted_name, timing, todo
from tests.conftest import REFERENCE, World
from tests.gpu_runner.profile_files import SAMPLES, busy_trace, write
from tests.stitchweb.markup import well_formed

pytestmark = pytest.mark.django_db
SHIPPED = sorted(path.parent for path in (Path(__file__).resolve().parents[2] / "examples" / "runs").glob(f"*/{EVENTS_FILE}"))
GPU = DeviceInfo(
    kind="gpu", name="NVIDIA H200", target="sm_90", memory_mib=143771, torch="2.11.0+cu130", driver="580.159.04",
    compiler="nvcc: NVIDIA (R) Cuda compiler driver", sandbox="bubblewrap", bandwidth_bps=4.0e12, peak_flops=5.1e13,
    float16_flops=7.9e14, bfloat16_flops=7.9e14,
)  # fmt: skip


def imported(folder: Path, world: World) -> Run:
    call_command("import_run", str(folder), team=world.team.slug, stdout=StringIO())
    return Run.objects.get()


def opens(run: Run, world: World) -> str:
    """The run's page; whatever it offers of this run answers, too: sources, differences, logs, profiles, take-home."""
    client = Client()
    client.force_login(world.owner)
    base = f"/runs/{run.pk}/"
    html = client.get(base).content.decode()
    well_formed(html)
    links = {link for link in re.findall(r'(?:href|hx-get|src)="([^"#]+)', html) if link.startswith(base)}
    sources = {f"{base}candidates/{one.id}/files/{path}" for one in run.load().candidates for path in one.files}
    asked = {unescape(link) for link in links} | sources | {base, f"{base}events", f"/programs/{run.revision.program_id}/"}
    assert {path: client.get(path).status_code for path in asked} == dict.fromkeys(asked, 200)
    return html


def test_runs_are_shipped() -> None:
    assert SHIPPED


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_run_is_shown_whole(folder: Path, world: World) -> None:
    result = json.loads((folder / "result.json").read_text())
    run = imported(folder, world)
    html = opens(run, world)
    assert run.verdict == result["verdict"]
    assert f"runs/{run.pk}" in html


def profiled(role: str, brief: bool, folder: Path) -> ProfileReport:
    """As nsys and ncu leave it, or torch.profiler alone."""
    if brief:
        summary = read_profile([write(folder / "trace.json", busy_trace())], range_name="stitchweb_iter", warmup=1)
    else:
        summary = read_profile([SAMPLES / "nsys.sqlite", SAMPLES / "ncu_raw.csv"], range_name="step", warmup=1)
    return ProfileReport(role=role, status="measured", summary=summary, coverage=1.0, finding="Sync-bound.", device=GPU)


@pytest.mark.parametrize("brief", [False, True], ids=["nsys and ncu", "brief"])
def test_a_run_of_a_gpu_is_shown_whole(brief: bool, tmp_path: Path, world: World) -> None:
    on = {"device": GPU}
    hands = FakeHands(
        analyse=analysis().model_copy(update=on), check=check().model_copy(update=on), time=timing(2.0).model_copy(update=on),
        profile=[profiled(role, brief, tmp_path) for role in ("reference", "candidate")],
    )  # fmt: skip
    engineer = scripted_name(Scripted(plans=[(todo(),)], codes=[program("one")]))
    chosen = options(engineer, target="sm_90", brief_profiles=brief)
    folder = RunFolder(tmp_path / "run")
    folder.close(optimize(REFERENCE, chosen, hands, folder.blobs, folder.tell, name="layernorm.py"))
    run = imported(folder.root, world)
    html = opens(run, world)
    assert (run.target, run.verdict) == ("sm_90", "verified")
    for word in ("NVIDIA H200", "580.159.04", "candidates/c1/profile/perfetto.json"):
        assert word in html
