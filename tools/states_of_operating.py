"""The states of operators' pages, for `tools/states.py`."""

from __future__ import annotations

from stitchweb.runs import hosts
from stitchweb.runs.models import Quota, Run
from stitchweb.teams.models import Team, User
from stitchweb.teams.services import create_user

Pages = dict[str, tuple[str, str]]
H200 = {"name": "NVIDIA H200", "driver": "580.95.05", "torch": "2.13.0", "memory_mib": 143771, "sandbox": "bubblewrap"}
LONG = "gpu7@rack-12.a-cluster-with-a-long-name.datacenter-north.research.example.org"
ERROR = "The compiler failed: /usr/local/cuda/bin/nvcc: error while loading shared libraries: libcudafe.so: cannot open\n" * 8


def operator_pages(team: Team) -> Pages:
    """Name: who looks and where. One runner in each state, a quota that is nearly used up."""
    opal = create_user("opal@example.org", name="Opal")
    User.objects.filter(pk=opal.pk).update(is_staff=True)
    for name in ("gpu0@h200-1", "gpu1@h200-1", "gpu2@h200-1", LONG):
        secret = hosts.admit(name, ["run.sm_90", "build.cuda"])
        hosts.present(hosts.known(name, secret), H200, "", {"load": 0.4, "gpu": 0.87, "gpu_memory": 0.31})
    hosts.drain("gpu1@h200-1", opal)
    secret = hosts.admit("gpu3@h200-1", ["run.sm_90"])
    unwell = "The target sm_90 needs an NVIDIA GPU, and none is visible here; choose the target cpu."
    hosts.present(hosts.known("gpu3@h200-1", secret), {"torch": "2.13.0"}, unwell, {"load": 0.1})
    for _ in range(5):
        hosts.failed(LONG, ERROR)
    Run.objects.filter(team=team).update(device_s=5230.0, tokens=1_250_000, money=18.4)
    Quota.objects.create(team=team, runs=20, device_s=36_000, tokens=20_000_000, money=200)
    return {
        "operate-runners": ("opal", "/operate/runners/"),
        "operate-queue": ("opal", "/operate/queue/"),
        "operate-teams": ("opal", "/operate/teams/"),
        "operate-quota": ("opal", f"/operate/teams/{team.slug}/"),
    }
