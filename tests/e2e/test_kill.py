"""Processes killed in the middle of a run: it ends verified all the same, with every event once and in order."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from tests.e2e.processes import ROOT, Site, descendants, is_alive, whole_site

pytestmark = pytest.mark.e2e

START = """
from agents.state import Budget, Options
from gpu_runner.contracts import PROTOCOLS
from stitchweb.programs.services import Upload, create_program
from stitchweb.runs.first import local_user
from stitchweb.runs.services import start_run
user = local_user()
text = open("examples/elementwise_chain.py").read()
revision = create_program(user, user.teams.get(), Upload(text=text, filename="chain.py"))
protocol = PROTOCOLS["quick"].model_copy(update={"name": "quick"})
print(json.dumps(start_run(user, revision, Options(protocol=protocol, budget=Budget(attempts=3))).pk))
"""


def status(site: Site, run: int) -> str:
    return str(site.rows("select status from runs_run where id = ?", run)[0][0])


def ended(site: Site, run: int) -> bool:
    return status(site, run) in ("finished", "failed", "cancelled")


def job_under_way(site: Site, run: int, *kinds: str) -> bool:
    marks = ", ".join("?" * len(kinds))
    found = site.rows(f"select 1 from runs_job where run_id = ? and state = 'claimed' and kind in ({marks})", run, *kinds)
    return bool(found) or ended(site, run)


def test_a_run_survives_the_death_of_agent_runner_web_and_broker() -> None:
    with whole_site(LEASE_SECONDS="4") as site:
        site.link()
        # The example that a fresh site starts by itself would share the machine with this run.
        run = site.manage(
            "from stitchweb.runs.models import Run\nfrom stitchweb.runs.services import control\n"
            "first = Run.objects.get()\ncontrol(first.owner, first, 'cancel')\n" + START
        )
        site.until(lambda: job_under_way(site, run, "analyse"), 120, "analysis")
        site.kill("agent")
        site.until(lambda: job_under_way(site, run, "check", "time"), 240, "check")
        site.kill("cpu")
        site.until(lambda: job_under_way(site, run, "check", "time", "profile"), 240, "step after the runner's death")
        site.kill("web")
        site.kill("broker")
        assert not ended(site, run), "the run ended before everything was killed"
        site.until(lambda: ended(site, run), 300, "end of the run")

        [(verdict, last, sentence)] = site.rows("select verdict, last_seq, sentence from runs_run where id = ?", run)
        assert verdict == "verified", f"{sentence}\n{site.text}"
        seqs = [seq for (seq,) in site.rows("select seq from runs_event where run_id = ? order by rowid", run)]
        assert seqs == list(range(1, last + 1))
        assert site.rows("select 1 from runs_job where run_id = ? and claims > 1", run), "no step was given out twice"
        assert not site.rows("select 1 from runs_job where run_id = ? and state in ('queued', 'claimed')", run)


def test_the_printed_link_signs_in_once_and_shows_the_example_at_work() -> None:
    with whole_site() as site:
        link = site.link()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(link, timeout=30) as page:
            assert page.url.endswith("/runs/1/")
            assert "LayerNorm + GELU" in page.read().decode()
        assert status(site, 1) not in ("failed", "cancelled")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(link, timeout=30)


def test_a_second_start_says_that_the_site_runs_already_where_and_how_to_get_in() -> None:
    with whole_site() as site:
        site.link()
        done = subprocess.run(
            [sys.executable, "manage.py", "up"], cwd=ROOT, env=site.env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert f"runs already, at http://127.0.0.1:{site.port}." in done.stderr
        assert "manage.py login_link" in done.stderr


def test_a_killed_site_takes_its_processes_with_it() -> None:
    with whole_site(expect_end=False) as site:
        site.link()
        everybody = descendants(site.process.pid)
        assert len(everybody) >= 5
        site.process.kill()
        site.process.wait(10)
        deadline = time.monotonic() + 15
        while left := [pid for pid in everybody if is_alive(pid)]:
            assert time.monotonic() < deadline, f"still there: {left}"
            time.sleep(0.1)
