"""What the run page says of a candidate is what happened to it: its strip of stages, the counts of its checks."""

from __future__ import annotations

import re

from agents.events import View
from agents.events.folding import fold_all
from agents.state import Status
from gpu_runner.contracts import CheckRow
from stitchweb.runs.panels import state
from stitchweb.runs.render import RunRenderer
from tests.stitchweb.parts_for_tests import Teller, status_line
from tests.stitchweb.views_for_tests import refused_story, story

EVENTS, BLOBS = story()


def strip(view: View) -> dict[str, str]:
    return {stage["name"]: stage["state"] for stage in state(view)["stages"]}


def told(until: str, *statuses: dict[str, object]) -> View:
    """The story up to the first event of a kind, then these statuses."""
    count = next(i for i, e in enumerate(EVENTS) if e.kind == until)
    teller = Teller(blobs=BLOBS, events=list(EVENTS[:count]), at=EVENTS[count].at)
    for payload in statuses:
        teller.tell("run.status", payload)
    return fold_all(View(), teller.events)


def test_while_the_reference_is_profiled_nothing_else_is_done() -> None:
    seen = strip(told("plan.made", status_line("profiling", "Profiling the reference", 1)))
    assert seen.pop("profile") == "now"
    assert set(seen.values()) == {"next"}


def test_a_paused_run_has_done_what_it_did_and_no_more() -> None:
    seen = strip(told("todo.changed", status_line("paused", "", 3, waiting="Paused by Ada.")))
    assert seen.pop("plan") == "done"
    assert set(seen.values()) == {"next"}


def test_a_wrong_candidate_is_decided_on_without_a_timing() -> None:
    seen = strip(told("best.changed", status_line("deciding", "Judging c2", 8, "c2")))
    assert [seen[name] for name in ("plan", "code", "build", "check")] == ["done"] * 4
    assert [seen[name] for name in ("time", "profile", "decide")] == ["next", "next", "now"]


def test_every_stage_behind_the_best_has_its_note() -> None:
    for stage in state(fold_all(View(), EVENTS))["stages"]:
        if stage["state"] == "done":
            assert stage.get("text") or stage.get("seconds") is not None, stage["name"]


def test_information_is_counted_neither_as_passed_nor_as_not_run() -> None:
    view = fold_all(View(), EVENTS)
    best = view.candidates["c5"]
    known = CheckRow(group="reach", name="time in its own kernels", value="88 % of the forward")
    informed = view.model_copy(
        update={"candidates": view.candidates | {"c5": best.model_copy(update={"rows": (*best.rows, known)})}}
    )
    before, after = (RunRenderer(41, BLOBS).candidate_panel("checks", v, "c5") for v in (view, informed))
    counted = r"\d+ of \d+ passed(, \d+ not run)?"
    assert re.search(counted, before)[0] == re.search(counted, after)[0]  # type: ignore[index]
    assert "88" in after
    assert after.count("not run<") == before.count("not run<")


def test_an_ended_run_leaves_nothing_to_be_confirmed_or_waited_for() -> None:
    view = fold_all(View(), EVENTS)
    unconfirmed = view.candidates["c5"].model_copy(update={"confirmed": None})
    cancelled = view.model_copy(
        update={
            "candidates": view.candidates | {"c5": unconfirmed},
            "status": view.status.model_copy(update={"status": Status.CANCELLED}),
        }
    )
    panel = RunRenderer(41, BLOBS).run_panel("run-state", cancelled)
    assert "never confirmed" in panel
    assert "to be confirmed" not in panel


def test_a_decided_candidate_without_a_profile_does_not_wait_for_one() -> None:
    panel = RunRenderer(41, BLOBS).candidate_panel("profile", told("best.changed"), "c3")
    assert "Not profiled" in panel
    assert "Waits for its turn" not in panel


def test_a_ratio_that_differs_from_the_medians_says_how_it_was_made() -> None:
    assert "paired by round" in RunRenderer(41, BLOBS).candidate_panel("timing", fold_all(View(), EVENTS), "c5")


def test_a_missing_package_is_named_with_its_line_and_the_command_that_adds_it() -> None:
    events, blobs = refused_story()
    view = fold_all(View(), events)
    assert view.analysis is not None
    assert view.analysis.refusal is not None
    missing = view.analysis.refusal.model_copy(update={"code": "missing_package", "line": 3})
    refused = view.model_copy(update={"analysis": view.analysis.model_copy(update={"refusal": missing})})
    panel = RunRenderer(42, blobs).run_panel("run-state", refused)
    assert "Line 3: " in panel
    assert "RUNNER_PACKAGES=" in panel
    assert "RUNNER_PACKAGES=" not in RunRenderer(42, blobs).run_panel("run-state", view)
