"""The handbook in the questions to a model: which pages go along, within which room, and where they are named."""

from __future__ import annotations

from typing import Any

import pytest

from agents.blobs import MemoryBlobs
from agents.diagnosis import Diagnosis
from agents.engineers.llm.engineer import asked_to_code, asked_to_plan
from agents.engineers.llm.handbook import MOST, SHARE, situation
from agents.engineers.llm.prompts import Composed, Part, composed
from agents.events import View, fold_all
from agents.handbook import pages
from agents.llm.tokens import tokens_in_text
from agents.loop import apply
from agents.state import Budget, Candidate, Decision, State
from agents.steps import context_of, outcome_of, task_for
from gpu_runner.contracts import OpCount
from tests.agents.loop_run import Run
from tests.agents.loop_world import FakeHands, analysis, new_state, options, todo
from tests.agents.model_server import ModelServer, Refuse, Say
from tests.agents.test_llm_engineer import PLAN, answer, asked, at, by_role, chosen, log_of, run

pytestmark = pytest.mark.xdist_group("litellm")
SOFTMAX = analysis(ops=(OpCount(op="aten::_softmax", count=1, time_ns=900), OpCount(op="aten::mul", count=1, time_ns=100)))


def planned(blobs: MemoryBlobs, budget: Budget | None = None, target: str = "cpu", **more: Any) -> State:
    """A state with a plan, of a program that is a softmax and bound by memory."""
    with ModelServer([Say(PLAN)]) as server:
        wanted = options("llm", budget=budget or Budget(wall_s=None), target=target, **chosen(server, **more))
    run, hands = Run(new_state(wanted, blobs)), FakeHands(analyse=SOFTMAX)
    while (step := run.due()).by_hands:
        report = hands.perform(task_for(step, run.state, blobs))
        run.state = apply(run.state, outcome_of(step, run.state, report, blobs, run.at, 1.0))
    state = run.plan(todo("t1", "Fuse scale and softmax")).state
    return state.model_copy(update={"reference_diagnosis": Diagnosis(klass="memory-bound", sentence="Memory.")})


def titles(parts: list[Part]) -> list[str]:
    return [part.title for part in parts if part.title.startswith("Handbook: ")]


def titles_in(question: Composed) -> list[str]:
    return [title for title in question.titles if title.startswith("Handbook: ")]


def test_the_planner_gets_prose_and_the_coder_the_kernel_too() -> None:
    context = context_of(planned(blobs := MemoryBlobs()), blobs)
    _, plan = asked_to_plan(context)
    _, code = asked_to_code(context, context.state.todo("t1"), None)
    assert titles(plan)[0] == titles(code)[0] == "Handbook: cpu-softmax"
    told, written = (next(part.text for part in parts if part.title.startswith("Handbook")) for parts in (plan, code))
    assert "```" not in told
    assert "```cpp" in written
    assert "three sweeps" in told
    assert not any(part.data for part in [*plan, *code] if part.title.startswith("Handbook"))


def test_the_target_decides_which_pages_there_are() -> None:
    context = context_of(planned(blobs := MemoryBlobs(), target="sm_90"), blobs)
    assert titles(asked_to_code(context, context.state.todo("t1"), None)[1])[0] == "Handbook: online-softmax"


def test_the_pages_stay_within_their_number_and_their_room() -> None:
    everything = todo("t1", " ".join(page.title for page in pages()))
    context = context_of(planned(blobs := MemoryBlobs(), target="sm_90"), blobs)
    parts = asked_to_code(context, everything, None)[1]
    shown = [part.shown for part in parts if part.title.startswith("Handbook")]
    most, tokens = MOST["coder"]
    assert 1 <= len(shown) <= most
    assert sum(map(tokens_in_text, shown)) <= tokens
    assert all(text.rstrip().endswith("```") for text in shown), "no page is cut"


@pytest.mark.parametrize(
    ("budget", "model"),
    [
        (Budget(wall_s=None, tokens=5000), {}),
        (Budget(wall_s=None), {"context": 4000}),
        (Budget(wall_s=None, money=0.01), {"price_in": 2.0, "price_out": 2.0}),
    ],
)
def test_a_tight_budget_is_not_spent_on_pages(budget: Budget, model: dict[str, Any]) -> None:
    context = context_of(planned(blobs := MemoryBlobs(), budget, **model), blobs)
    parts = asked_to_code(context, context.state.todo("t1"), None)[1]
    assert 0 < SHARE < 0.5
    assert titles(parts) == []
    assert [part.title for part in parts if "item" in part.title] == ["The item to do"]


def test_pages_are_the_first_to_go_when_a_question_is_too_long_the_best_of_them_last() -> None:
    context = context_of(planned(blobs := MemoryBlobs(), target="sm_90"), blobs)
    parts = asked_to_code(context, todo("t1", "Fuse scale, mask and softmax; online, in one pass over the rows"), None)[1]
    whole, pages_there = composed(parts), titles(parts)
    room = len(whole.text.encode())
    assert len(pages_there) > 1
    assert titles_in(composed(parts, room - 10)) == pages_there[:-1]
    sizes = sum(len(part.shown.encode()) for part in parts if part.title in pages_there)
    without = composed(parts, room - sizes)
    assert without.titles == tuple(title for title in whole.titles if title not in pages_there)
    assert without.cut == len(pages_there)


def test_what_the_verifier_said_of_an_attempt_is_looked_up_with_it() -> None:
    state = planned(blobs := MemoryBlobs(), target="sm_90")
    attempt = Candidate(id="c1", parent=None, todo="t1", title="x", files={}, sha256="a" * 64)
    said = Decision(
        candidate="c1", route="optimise", bottleneck="shared memory bank conflicts", suggestions=("pad or swizzle",)
    )
    state = state.model_copy(update={"candidates": (attempt,), "decisions": (said,)})
    context = context_of(state, blobs)
    assert "Handbook: bank-conflicts" in titles(asked_to_code(context, context.state.todo("t1"), attempt)[1])
    assert "Handbook: bank-conflicts" not in titles(asked_to_code(context, context.state.todo("t1"), None)[1])


def test_what_a_source_calls_its_layers_is_looked_up_and_nothing_else_of_it() -> None:
    state = planned(blobs := MemoryBlobs(), target="sm_90")
    source = (
        b"import torch.nn as nn\n# philox dropout histogram\nclass RMSNorm(nn.Module): ...\nx = nn.Conv2d(8, 8, 3, groups=8)\n"
    )
    found = situation(context_of(state.model_copy(update={"source": blobs.put(source)}), blobs))
    said = " ".join(text for text, _ in found.text)
    assert "RMSNorm" in said
    assert "Conv2d" in said
    assert "groups" in said
    assert "philox" not in said


def test_a_run_names_the_pages_in_its_events_its_log_and_its_view() -> None:
    _, events, server, _ = run(by_role(), FakeHands(analyse=SOFTMAX))
    told = [event.payload for event in events if event.kind == "model.asked"]
    by = {payload["role"]: payload["pages"] for payload in reversed(told)}
    assert "cpu-softmax" in by["planner"]
    assert "cpu-softmax" in by["coder"]
    assert by["verifier"] == []
    for role in ("Planner", "Coder"):
        question = asked(server, role)[0]
        assert all(f"## Handbook: {name}\n" in question for name in by[role.lower()])
    assert "; handbook: cpu-softmax" in log_of(events)
    view = fold_all(View(), events)
    assert view.asked["coder"].pages[0] == "cpu-softmax"
    assert view.asked["verifier"].pages == ()


def test_pages_that_fell_out_of_a_question_are_not_named() -> None:
    blobs, payloads = MemoryBlobs(), list[dict[str, Any]]()
    with ModelServer([Refuse(400, "maximum context length is 100 tokens"), Say(PLAN)]) as server:
        state = at("plan", server, blobs)
        state = state.model_copy(update={"hints": ("online softmax dropout " * 400,) * 6})
        answer(state, blobs, asked=payloads.append)
    assert payloads[0]["pages"]
    assert payloads[0]["error"]
    assert payloads[1]["pages"] == []
    assert "## Handbook" not in asked(server, "Planner")[1]
