"""What profiles decide in the loop: when one is made, which item is next, and when nothing is left to gain."""

from __future__ import annotations

import pytest

from agents.blobs import MemoryBlobs
from agents.diagnosis import DiagnosedRow, Diagnosis, diagnosis_of
from agents.events import events_of
from agents.loop import apply
from agents.loop.profiles import left_to_gain, next_open
from agents.state import Status, StopCause, Todo
from agents.steps import outcome_of, task_for
from gpu_runner.contracts import Precision, ProfileReport
from tests.agents.loop_run import Run
from tests.agents.loop_world import new_state, options, todo


def diagnosis(reached: float | None = None, bound: str = "memory", **shares: float) -> Diagnosis:
    rows = tuple(DiagnosedRow(key=key, share=share) for key, share in shares.items())
    return Diagnosis(klass="memory-bound", bound=bound, reached=reached, rows=rows)


def item(name: str, predicted: float, *rows: str, kind: str = "fuse") -> Todo:
    return Todo(id=name, kind=kind, title=name, predicted=predicted, rows=rows)


def planned(*todos: Todo, reference: Diagnosis | None = None) -> Run:
    return Run().analysed().profiled(reference).plan(*todos)


def attempt(run: Run, speedup: float, found: Diagnosis | None = None) -> Run:
    run.coded().built().checked().timed(speedup)
    if run.kind() == "profile":
        run.profiled(found)
    return run.decided()


# (speedups of the attempts, which of them are profiled): the first that verifies, and each new best.
@pytest.mark.parametrize(
    ("speedups", "profiled"),
    [
        ((1.5,), "y"),
        ((1.5, 1.2), "yn"),
        ((1.5, 2.0), "yy"),
        ((0.8, 0.9), "yn"),
        ((0.8, 1.5, 1.45, 3.0), "yyny"),
    ],
)
def test_the_first_that_verifies_and_each_new_best_are_profiled(speedups, profiled):
    run = planned(*(todo(f"t{n}", title=f"t{n}") for n in range(len(speedups))))
    seen = ""
    for speedup in speedups:
        run.coded().built().checked().timed(speedup)
        seen += "y" if run.kind() == "profile" else "n"
        run.profiled_if_due().decided()
    assert seen == profiled


def test_the_reference_is_profiled_before_the_first_plan():
    run = Run().analysed()
    assert (run.kind(), run.due().candidate) == ("profile", None)
    run.profiled(diagnosis(0.2, a=0.5))
    assert run.kind() == "plan"
    assert run.state.reference_diagnosis.share(["a"]) == 0.5


def test_the_item_whose_rows_still_take_most_is_next():
    reference = diagnosis(a=0.5, b=0.3, c=0.2)
    run = planned(item("t1", 1.4, "a"), item("t2", 1.2, "b"), item("t3", 1.15, "c"), reference=reference)
    assert run.due().todo == "t1"
    attempt(run, 1.8, diagnosis(own=0.2, c=0.6, b=0.2))
    assert run.due().todo == "t3", "c takes three times what b does now"


def test_an_item_whose_rows_are_gone_is_dropped_with_the_reason():
    run = planned(item("t1", 1.5, "a"), item("t2", 1.2, "b"), item("t3", 1.1, "c"), reference=diagnosis(a=0.5, b=0.3, c=0.2))
    attempt(run, 2.0, diagnosis(own=0.8, c=0.2))
    assert run.due().todo == "t3"
    assert run.statuses() == ["done", "dropped", "doing"]
    assert run.state.todo("t2").note == "Nothing of it is left: its rows take under 1% of c1."


def test_without_rows_or_profiles_the_plans_own_order_stands():
    run = planned(item("t1", 1.1), item("t2", 1.5), reference=None)
    assert run.due().todo == "t2", "more is promised"
    same = planned(item("t1", 1.2), item("t2", 1.2))
    assert same.due().todo == "t1"


def test_an_order_that_a_person_has_set_is_kept():
    run = planned(item("t1", 1.5), item("t2", 1.4), item("t3", 1.1))
    run.steered("edit_plan", todos=[{"id": "t3"}, {"id": "t2"}])
    attempt(run, 1.5, diagnosis(own=1.0))
    assert run.due().todo == "t3"


@pytest.mark.parametrize(
    ("predicted", "rows", "expected"),
    [
        (2.0, ("a",), 0.5),  # half of the reference, which a took all of; a still takes half of what stands
        (1.25, ("a",), 0.2),
        (1.25, (), 0.4),  # of the reference's time, and what stands takes half as long
        (None, ("a",), 0.0),
        (0.5, ("a",), 0.0),
    ],
)
def test_what_an_item_should_save_of_the_program_that_stands(predicted, rows, expected):
    run = planned(item("t0", 3.0, "b"), reference=diagnosis(a=0.5, b=0.5))
    attempt(run, 2.0, diagnosis(a=0.5, own=0.5))
    todo_of = Todo(id="x", kind="fuse", title="x", predicted=predicted, rows=rows)
    assert left_to_gain(run.state, todo_of) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("found", "kind", "stops"),
    [
        (diagnosis(0.97), "fuse", True),
        (diagnosis(0.80), "fuse", False),
        (diagnosis(1.60), "fuse", False),  # what goes beyond a ceiling shows that it is none
        (diagnosis(None), "fuse", False),
        (diagnosis(0.97, "compute"), "fuse", True),
        (diagnosis(0.97, "compute"), "algebra", False),  # less arithmetic may do
        (None, "fuse", False),
    ],
)
def test_at_the_roofline_nothing_more_is_tried(found, kind, stops):
    run = planned(item("t1", 1.5), item("t2", 1.2, kind=kind))
    attempt(run, 2.0, found)
    assert (run.state.stop_cause is StopCause.AT_ROOFLINE) is stops
    assert run.kind() == ("check" if stops else "code"), "what stands is confirmed under the full protocol"


def test_a_reference_at_the_roofline_needs_no_plan():
    run = Run().analysed().profiled(diagnosis(0.98)).baselines_timed()
    assert (run.state.status, run.state.stop_cause) == (Status.FINISHED, StopCause.AT_ROOFLINE)


@pytest.mark.parametrize(("found", "target"), [(diagnosis(0.98, "compute"), "cpu"), (diagnosis(0.98, "compute"), "sm_90")])
def test_arithmetic_ends_no_run_before_a_plan_has_looked_for_less_of_it(found, target):
    assert Run(new_state(options(target=target))).analysed().profiled(found).kind() == "plan"


def test_the_float32_units_are_no_ceiling_of_a_gpu():
    run = Run(new_state(options(target="sm_90"))).analysed().profiled(diagnosis(0.98, "compute")).plan(todo("t1"), todo("t2"))
    attempt(run, 2.0, diagnosis(0.97, "compute"))
    assert (run.state.stop_cause, run.kind()) == (None, "code")


def test_a_lower_precision_has_other_ceilings():
    state = new_state(options(precision=Precision.BF16))
    assert Run(state).analysed().profiled(diagnosis(0.98)).kind() == "plan"


def test_a_person_may_have_any_verified_candidate_profiled_and_the_run_goes_on_where_it_was():
    run = planned(*(todo(f"t{n}", title=f"t{n}") for n in range(4)))
    attempt(run, 1.5)
    attempt(run, 1.2)
    assert run.state.candidate("c2").profile is None
    run.steered("profile", candidate="c2")
    run.coded().built(ok=False).decided()
    assert (run.kind(), run.due().candidate) == ("profile", "c2")
    run.profiled(diagnosis(a=1.0))
    assert run.state.candidate("c2").diagnosis.share(["a"]) == 1.0
    assert (run.kind(), len(run.state.decisions)) == ("code", 3), "nothing is decided anew"


def test_the_reference_may_be_profiled_again():
    run = planned(todo("t1"), todo("t2"))
    run.steered("profile", candidate="reference")
    attempt(run, 1.5)
    assert (run.kind(), run.due().candidate) == ("profile", None)
    run.profiled(diagnosis(b=1.0))
    assert run.state.reference_diagnosis.share(["b"]) == 1.0
    assert run.kind() == "code"


@pytest.mark.parametrize("name", ["c9", "c1", "", None])
def test_what_was_not_verified_is_not_profiled(name):
    run = planned(todo("t1"), todo("t2")).failed_attempt()
    before = run.state
    run.steered("profile", candidate=name)
    assert run.state.profiles_asked == before.profiles_asked == ()


def test_a_profile_asked_for_while_a_plan_waits_is_made_at_once_and_the_plan_still_waits():
    run = Run(new_state(options(approve_plan=True))).planned("t1")
    assert run.state.status is Status.AWAITING_APPROVAL
    run.steered("profile", candidate="reference")
    assert run.kind() == "profile"
    run.profiled()
    assert run.state.status is Status.AWAITING_APPROVAL


SUMMARY = {
    "verdict": {"class": "memory-bound", "confidence": "medium", "sentence": "Memory-bound."},
    "roof": {"bound": "memory", "least_ns": 10, "reached_pct": 96.0, "cached": False},
    "kernels": [
        {"key": "aten::mul", "share_pct": 70.0, "total_ns": 70},
        {"key": "aten::add", "share_pct": 20.0, "total_ns": 20},
        {"key": "aten::none", "share_pct": None, "total_ns": 0},
    ],
    "advice": [{"title": "Move fewer bytes."}],
}


def test_a_report_becomes_a_small_diagnosis():
    found = diagnosis_of(ProfileReport(role="reference", status="measured", summary=SUMMARY))
    assert (found.klass, found.bound, found.reached, found.at_roofline) == ("memory-bound", "memory", 0.96, True)
    assert [(row.key, row.share) for row in found.rows] == [("aten::mul", 0.7), ("aten::add", 0.2), ("aten::none", 0.0)]
    assert found.suggestions == ("Move fewer bytes.",)
    cached = SUMMARY | {"roof": SUMMARY["roof"] | {"cached": True}}
    assert diagnosis_of(ProfileReport(role="reference", status="measured", summary=cached)).reached is None


def test_on_a_gpu_operations_and_kernels_are_rows():
    gpu = {"busy_ns": 100}
    summary = SUMMARY | {"gpu": gpu, "ops": [{"name": "aten::mm", "gpu_ns": 60}, {"name": "aten::add", "gpu_ns": 40}]}
    found = diagnosis_of(ProfileReport(role="reference", status="measured", summary=summary))
    assert found.share(["aten::mm"]) == 0.6
    assert found.share(["aten::mul"]) == 0.7


@pytest.mark.parametrize("summary", [None, {}, {"verdict": None}])
def test_a_report_that_says_nothing_is_no_diagnosis(summary):
    assert diagnosis_of(ProfileReport(role="reference", status="measured", summary=summary)) is None


def test_the_next_item_is_none_without_a_plan():
    assert next_open(new_state()) is None


def test_a_profiles_event_carries_its_class_and_what_each_tool_came_to():
    blobs = MemoryBlobs()
    run = Run(new_state(blobs=blobs)).analysed()
    step = {"tool": "nsys", "status": "unavailable", "reason": "not_installed", "sentence": "It was not found.", "seconds": 0.1}
    report = ProfileReport(role="reference", status="measured", summary=SUMMARY | {"collectors": [step]}, cached=True)
    outcome = outcome_of(run.due(), run.state, report, blobs, 110.0, 1.0)
    assert outcome.diagnosis == diagnosis_of(report, 10.0)
    assert outcome.diagnosis.reached == pytest.approx(1e-6), "of the 10 ms that the hands measured, not of its own word"
    said = events_of(run.state, outcome, apply(run.state, outcome), 110.0, 0, blobs)
    [payload] = [event.payload for event in said if event.kind == "profile.done"]
    assert (payload["klass"], payload["reached"], payload["cached"]) == ("memory-bound", outcome.diagnosis.reached, True)
    assert payload["collectors"] == [step]


def test_only_the_first_profile_of_the_reference_may_be_one_that_is_kept():
    blobs = MemoryBlobs()
    run = Run(new_state(blobs=blobs)).analysed()
    assert not task_for(run.due(), run.state, blobs).fresh
    run.profiled().plan(todo("t1"), todo("t2")).steered("profile", candidate="reference")
    attempt(run, 1.5)
    assert task_for(run.due(), run.state, blobs).fresh
