"""The states that a page can be in beyond the world of the page tests: every moment and end of a run, empty, long, refused.

Runs in a process of a site's own settings, after `make_world`, and prints {name: [who looks, path]} as JSON. `tools/screens.py`
takes their pictures.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

django.setup()

from django.template.loader import render_to_string  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents.events import Event, ReplayView, replay_key  # noqa: E402
from gpu_runner.contracts import Analysis, CheckRow, Refusal  # noqa: E402
from gpu_runner.profile import read_profile  # noqa: E402
from gpu_runner.profile.reading import finished  # noqa: E402
from stitchweb.programs.models import Program, Revision  # noqa: E402
from stitchweb.programs.services import Upload, create_program  # noqa: E402
from stitchweb.runs import hosts  # noqa: E402
from stitchweb.runs.models import ImportedProfile, Job, JobState  # noqa: E402
from stitchweb.teams.models import Team, User  # noqa: E402
from stitchweb.teams.services import create_team, create_user, make_login_link  # noqa: E402
from tests.stitchweb.conveyor import heard  # noqa: E402
from tests.stitchweb.models_world import models_pages  # noqa: E402
from tests.stitchweb.parts_for_tests import (  # noqa: E402
    KERNEL,
    REFERENCE,
    Teller,
    build_facts,
    candidate,
    check_rows,
    quick_timing,
    status_line,
)
from tests.stitchweb.settings_world import settings_pages  # noqa: E402
from tests.stitchweb.sharing_world import states_of  # noqa: E402
from tests.stitchweb.views_for_tests import story  # noqa: E402
from tests.stitchweb.wide_story import wide_story  # noqa: E402
from tests.stitchweb.world_for_tests import ANALYSIS, tell_run  # noqa: E402
from tools.states_of_datasets import datasets_pages  # noqa: E402
from tools.states_of_judges import judges_pages  # noqa: E402
from tools.states_of_operating import operator_pages  # noqa: E402
from tools.states_of_people import people_pages  # noqa: E402
from tools.states_of_reviews import review_pages  # noqa: E402

Pages = dict[str, tuple[str, str]]
ROOT = Path(__file__).resolve().parent.parent
LONG_NAME = "mixture_of_experts_block_with_a_name_that_somebody_generated_from_a_configuration_and_never_shortened_" + "x" * 17
LONG_TITLE = "vectorise the inner loop over the hidden dimension and keep the partial sums in registers"
MOMENTS = {"queued": 2, "analysing": 3, "planning": 7, "coding": 12, "building": 19, "checking": 28}  # events told so far


def _story_until(count: int) -> tuple[list[Event], Any]:
    events, blobs = story()
    return events[:count], blobs


def _ended(told: list[Event], status: str, verdict: str, cause: str, sentence: str, error: str = "") -> list[Event]:
    """These events and the two that end a run."""
    teller = Teller(events=list(told), at=told[-1].at)
    teller.tell("run.status", {"status": status, "step": 9, "stop_cause": cause, "error": error})
    teller.tell("run.finished", {"verdict": verdict, "stop_cause": cause, "sentence": sentence})
    return teller.events


def _place(events: list[Event], kind: str, **payload: Any) -> int:
    return next(e.seq for e in events if e.kind == kind and all(e.payload.get(k) == v for k, v in payload.items()))


def _no_gain(told: list[Event], blobs: Any) -> list[Event]:
    """A right candidate that is not faster, and a run that therefore claims nothing."""
    teller = Teller(blobs=blobs, events=list(told), at=told[-1].at)
    base = candidate(teller, "c1", "fused pass", parent=None, todo="t1", kernel=KERNEL)
    teller.tell("run.status", status_line("coding", "Writing a candidate for t1", 3))
    teller.tell("candidate.changed", base | {
        "status": "done", "verdict": "verified", "labels": ["full-precision"], "build": build_facts(teller),
        "check": {"passed": 13, "failed": 0, "not_run": 1}, "timing": quick_timing(4.36, speed="not-distinguishable"),
    }, "runner")  # fmt: skip
    return _ended(teller.events, "finished", "no-gain", "no-significant-gain", "One candidate is right, none is faster.")


def _long(told: list[Event], blobs: Any) -> list[Event]:
    """Thirty to-dos, forty candidates in a deep tree, a long diff, long names."""
    teller = Teller(blobs=blobs, events=list(told), at=told[-1].at)
    todos = [
        {
            "id": f"t{i}", "kind": "fuse", "predicted": 1 + i / 10, "why": "Each is a pass over memory. " * 8,
            "title": f"Fuse the epilogue of matrix product {i} with the bias, the activation and the residual that follow it",
            "ops": [f"aten.{op}_{n}" for op in ("addmm", "gelu", "native_layer_norm") for n in range(4)],
        }
        for i in range(1, 31)
    ]  # fmt: skip
    teller.tell("plan.made", {"version": 2, "approved": True, "todos": todos, "note": "A long plan."}, "engineer")
    teller.tell("run.status", status_line("coding", "Writing a candidate for t12", 99))
    lines = KERNEL.replace("ln_gelu", "ln_gelu_with_a_very_long_name_that_does_not_fit_into_any_column_of_this_page")
    for i in range(1, 41):
        kernel = lines + "".join(f"// line {j} of attempt {i}\n" for j in range(20 * (i % 40)))
        parent = f"c{i - 1 - i % 3}" if i > 4 else None
        base = candidate(teller, f"c{i}", LONG_TITLE, parent=parent, todo=f"t{i % 30 + 1}", kernel=kernel)
        verdict = ("verified", "incorrect", "timed-out", "hack:output_cache", "input-specialised")[i % 5]
        timing = {"timing": quick_timing(4.38 / (1 + i / 50))} if verdict == "verified" else {}
        ended = {"status": "done", "verdict": verdict, "build": build_facts(teller, ok=i % 7 > 0), **timing}
        teller.tell("candidate.changed", base | ended, "runner")
    teller.tell("best.changed", {"candidate": "c40"})
    return teller.events


def _replayed(told: list[Event], blobs: Any) -> list[Event]:
    """A finished run whose draws were replayed: the same, another one, under way, asked, failed."""
    teller = Teller(blobs=blobs, events=list(told), at=told[-1].at)
    rows = [CheckRow.model_validate(row) for row in check_rows() if row.get("replay")]
    differs = rows[1].model_copy(
        update={"value": "3.4e-3", "passed": False, "note": "17 of 64 elements are wrong", "numbers": "f"}
    )
    states: list[dict[str, Any]] = [
        {"state": "done", "seen": rows[0], "device": "Xeon, 2 cores, torch 2.13.0"},
        {"state": "done", "seen": differs, "device": "Xeon, 2 cores, torch 2.13.0"},
        {"state": "working", "doing": "loading the reference and the candidate"},
        {"state": "asked", "waiting": "Waits for a free cpu runner: 2 steps of other work before it."},
        {"state": "failed", "sentence": "The runner cpu@host fell silent during this step, 3 times in a row."},
    ]
    for number, (row, state) in enumerate(zip(rows, states, strict=True), 1):
        key = replay_key(row.replay) if row.replay else ""
        view = ReplayView(id=str(number), candidate="c5", row=key, name=row.name, by="Ada Byron", **state)
        teller.tell("replay.changed", view.model_dump(mode="json"), "Ada Byron")
    return teller.events


def _caught(told: list[Event], blobs: Any) -> list[Event]:
    """A program that was caught cheating, under a rule that it would have broken anyway."""
    teller = Teller(blobs=blobs, events=list(told), at=told[-1].at)
    header = teller.events[0].payload | {"require_own_kernels": True}
    teller.events[0] = teller.events[0].model_copy(update={"payload": header})
    base = candidate(teller, "c1", "answers from a table", parent=None, todo="t1", kernel=KERNEL)
    teller.tell("run.status", status_line("coding", "Writing a candidate for t1", 3))
    rows = check_rows("draw 2")
    rows[1] |= {"note": "16384 of 16384 elements are wrong by up to 3.1, the first at 0"}
    check = {"passed": 12, "failed": 1, "not_run": 1, "coverage": 0.0, "hack": "output_cache", "suspects": ["library_only"]}
    teller.tell("candidate.changed", base | {
        "status": "done", "verdict": "hack:output_cache", "labels": ["inputs-constant"], "build": build_facts(teller),
        "rows": rows, "check": check,
        "sentence": "On draw 2 it returned the result of an earlier call: 16384 of 16384 elements are wrong by up to 3.1.",
    }, "runner")  # fmt: skip
    return _ended(teller.events, "finished", "no-gain", "no-significant-gain", "Nothing was significantly faster than eager.")


def _h200() -> dict[str, Any]:
    """A summary of the reports that the tests hold, of an H200."""
    reports = [ROOT / "tests" / "profile" / name for name in ("nsys.sqlite", "ncu_raw.csv", "ncu_details.csv")]
    return read_profile(reports, range_name="step", warmup=1)


def _after(summary: dict[str, Any]) -> dict[str, Any]:
    """As if its small kernels had become one of the candidate's own."""
    first, *_, last = summary["kernels"]
    own = last | {"key": "ln_gelu_rows", "name": "void ln_gelu_rows<128, float>(float const*, float*, long)",
                  "short_name": "ln_gelu_rows", "origin": "own", "counters": None, "verdict": None}  # fmt: skip
    summary["target"]["role"] = "candidate"
    return finished(summary | {"kernels": [first | {"total_ns": first["total_ns"] // 2}, own]})


def _gpu(told: list[Event], blobs: Any) -> list[Event]:
    """The finished run with profiles of a GPU."""
    teller = Teller(blobs=blobs)
    for event in told:
        payload = event.payload
        if event.kind == "profile.done":
            role = payload["role"]
            summary = _after(_h200()) if role == "candidate" else _h200()
            report = {"kind": "profile", "role": role, "status": "measured", "summary": summary}
            payload = payload | {"finding": "", "blob": teller.put(json.dumps(report))}
        elif event.kind == "candidate.changed":
            payload = payload | {"finding": ""}
        teller.events.append(event.model_copy(update={"payload": payload}))
    return teller.events


def _profiles(owner: User) -> Pages:
    """Reports that somebody brought: of a GPU, one that is held against it, one of long names."""
    long = json.loads(json.dumps(_h200()).replace("gemm f32", f"gemm_{LONG_NAME}_f32"))
    told = {"gpu": ("resnet_block.sqlite", _h200()), "after": ("fused.sqlite", _after(_h200())), "long": (LONG_NAME, long)}
    same: dict[str, Any] = {"owner": owner, "size": 372_736, "tool": "nsys"}
    rows = {
        name: ImportedProfile.objects.create(
            key=name, name=title, sentence=summary["verdict"]["sentence"], summary=summary, **same
        )
        for name, (title, summary) in told.items()
    }  # fmt: skip
    pages: Pages = {f"profile-{name}": ("ada", f"/profiles/{row.pk}/") for name, row in rows.items()}
    pages["profile-compared"] = ("ada", f"/profiles/{rows['after'].pk}/?before={rows['gpu'].pk}")
    return pages | {"profiles": ("ada", "/profiles/"), "profiles-none": ("vera", "/profiles/")}


def _runs(revision: Revision, owner: User) -> Pages:
    events, _ = story()
    made = {name: _story_until(count) for name, count in MOMENTS.items()}
    for name, place in (
        ("profiling", _place(events, "run.status", status="profiling")),
        ("paused", _place(events, "run.status", status="paused")),
        ("confirming", _place(events, "run.status", doing="Confirming c5 with every baseline")),
    ):
        made[name] = _story_until(place)
    at_c3 = _place(events, "timing.round")
    told, blobs = _story_until(at_c3)
    made["failed"] = (
        _ended(told, "failed", "failed", "failed", "Step 11 got no answer.", "No runner reported in 300 s."),
        blobs,
    )
    told, blobs = _story_until(at_c3)
    made["cancelled"] = (_ended(told, "cancelled", "cancelled", "cancelled", "Cancelled by Ada."), blobs)
    told, blobs = _story_until(10)
    made["no-gain"] = (_no_gain(told, blobs), blobs)
    told, blobs = story()
    made["replayed"] = (_replayed(told, blobs), blobs)
    told, blobs = _story_until(10)
    made["caught"] = (_caught(told, blobs), blobs)
    told, blobs = story()
    made["gpu"] = (_gpu(told, blobs), blobs)
    told, blobs = _story_until(10)
    made["long"] = (_long(told, blobs), blobs)
    made |= {"wide": wide_story(), "wide-live": wide_story("check.row", "c6")}
    return {f"run-{name}": ("ada", f"/runs/{tell_run(revision, owner, *told).pk}/") for name, told in made.items()}


def _programs(team: Team, owner: User) -> Pages:
    """Programs by what their analysis said."""
    ops = [
        {
            "op": f"aten.op_number_{i}_with_a_long_name",
            "count": i,
            "flops": 7 * 10 ** (i % 13),
            "bytes": 10**9,
            "time_ns": 1000 * i,
        }
        for i in range(1, 60)
    ]
    refusal = Refusal(
        code="crash", line=11, sentence="The forward crashes: shapes [8, 3] and [4, 2] cannot be multiplied.",
        way_out="Correct line 11 and upload it again.", log="Traceback (most recent call last):\n  …",
    )  # fmt: skip
    degenerate = ANALYSIS | {
        "nulls": ["zeros"], "null_cause": "The last op multiplies by zero.", "other_batch": None, "deterministic": False,
        "labels": ["degenerate"], "warnings": ["The program draws random numbers in its forward."],
    }  # fmt: skip
    analyses = {
        "refused": Analysis(refusal=refusal),
        "degenerate": Analysis.model_validate(degenerate),
        "long": Analysis.model_validate(ANALYSIS | {"ops": ops, "inputs": ANALYSIS["inputs"] * 12}),
    }
    said: dict[str, dict[str, Any]] = {
        "queued": {"analysis_state": "queued"},
        "failed": {"analysis_state": "failed", "analysis_error": "No runner reported within 300 s."},
    } | {name: {"analysis_state": "done", "analysis": a.model_dump(mode="json")} for name, a in analyses.items()}
    pages: Pages = {}
    for name, fields in said.items():
        title = LONG_NAME if name == "long" else f"{name}_program"
        text = REFERENCE + f"\n# {name} " + "long " * 60 * (name == "long") + "\n"
        revision = create_program(owner, team, Upload(text, "x.py", name=title, tags=tuple("abcdefghij") * (name == "long")))
        Revision.objects.filter(pk=revision.pk).update(**fields)
        pages[f"program-{name}"] = ("ada", f"/programs/{revision.program_id}/")
    return pages


def _jobs(revision: Revision) -> None:
    """What the status page shows of a busy fleet, one of whose runners is idle."""
    heard("runner-3@gpu-host-3.cluster.example.org", ["run.cpu"])
    hosts.admit("runner-4@gpu-host-4.cluster.example.org", ["run.sm_100"])
    now = timezone.now()
    for i, state in enumerate([JobState.QUEUED] * 3 + [JobState.CLAIMED] * 2 + [JobState.DONE] * 9 + [JobState.FAILED]):
        waits = state == JobState.QUEUED
        Job.objects.create(
            revision=revision, kind="analyse", task={}, state=state, queue="run.cpu" if i % 3 else "run.sm_90",
            worker="" if waits else f"runner-{i % 3}@gpu-host-{i % 3}.cluster.example.org",
            created_at=now - timedelta(minutes=4 + i), claimed_at=None if waits else now - timedelta(minutes=3 + i),
            done_at=now - timedelta(minutes=i) if state == JobState.DONE else None,
        )  # fmt: skip


def _people() -> Pages:
    """A team on its first day, a person without a team, a link that was used."""
    nora, _ = create_user("nora@example.org", name="Nora"), create_user("nemo@example.org", name="Nemo")
    create_team(nora, "A team with nothing in it")
    expired = make_login_link(nora, life=timedelta(seconds=-1))
    return {
        "empty-library": ("nora", "/"), "empty-runs": ("nora", "/runs/"), "empty-status": ("nora", "/status/"),
        "no-team": ("nemo", "/"), "upload-viewer": ("vera", "/upload/"), "link-expired": ("", expired),
    }  # fmt: skip


def main() -> None:
    program = Program.objects.get(name="layernorm_gelu")
    revision = program.revisions.get()
    owner = User.objects.get(email="ada@example.org")
    pages = _people() | _programs(program.team, owner) | _runs(revision, owner) | _profiles(owner)
    pages |= review_pages(program.team, owner)
    pages |= models_pages(revision, owner)
    pages |= states_of(revision, owner)
    pages |= people_pages(program.team, owner)
    pages |= operator_pages(program.team)
    pages |= settings_pages(program.team, owner)
    pages |= datasets_pages(program.team)
    pages |= judges_pages()
    _jobs(revision)
    pages["status-busy"] = ("ada", "/status/")
    pages |= {f"error-{name}": ("ada", render_to_string(f"{name}.html")) for name in ("400", "403_csrf", "500")}
    print(json.dumps(pages))


if __name__ == "__main__":
    main()
