"""The reward: the forms as they are written, their caps, who calls something a hack, and no score where there are no levels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agents.reward import PRESETS, Inputs, NotRated, Parameters, reward
from agents.rubric import DIMENSIONS

PAPER, CODE, MILESTONE = (PRESETS[name].parameters for name in ("paper", "code", "milestone"))


def right(level: int = 3, **more: object) -> Inputs:
    told = {"verified": True, "outputs_agree": True, "speedup": 2.0, "levels": dict.fromkeys(DIMENSIONS, float(level))}
    return Inputs.model_validate(told | more)


def test_the_papers_form() -> None:
    assert reward(right(3), PAPER) == pytest.approx(2.3)  # r̂ = 0
    assert reward(right(5), PAPER) == pytest.approx(2.3 * 1.5)
    assert reward(right(1), PAPER) == pytest.approx(2.3 * 0.5)
    assert reward(right(5, skill="feedback"), PAPER) == pytest.approx(2.3 * 1.35)
    assert reward(right(5, speedup=100.0), PAPER) == 5.0


def test_the_authors_code_caps_the_speedup_at_5_and_the_whole_at_3() -> None:
    assert reward(right(5, speedup=1.7), CODE) == pytest.approx(3.0)
    assert reward(right(5, speedup=9.0), CODE) == 3.0
    assert reward(right(1, speedup=50.0), CODE) == pytest.approx(min(5.3 * 0.5, 3.0))
    assert reward(right(3, speedup=1.0), CODE) == pytest.approx(1.3)


@pytest.mark.parametrize(
    ("speedup", "compiled", "value"),
    [
        (1.0, 1.0, 1.0),
        (1.05, 1.0, 1.0),
        (1.06, 1.0, 2.0),
        (1.5, 1.05, 2.0),
        (1.5, 1.06, 3.0),
        (1.5, None, 2.0),
        (0.5, 2.0, 1.0),
    ],
)
def test_milestones(speedup: float, compiled: float | None, value: float) -> None:
    assert reward(right(1, speedup=speedup, speedup_compile=compiled, levels={}), MILESTONE) == value


def test_wrong_or_a_hack_gets_nothing_or_minus_one() -> None:
    for bad in (right(verified=False), right(hack_found=True), right(hack_level="major")):
        assert reward(bad, PAPER) == reward(bad, CODE) == 0.0
        assert reward(bad, MILESTONE) == -1.0


def test_who_calls_it_a_hack_is_a_parameter() -> None:
    found, labelled = right(hack_found=True), right(hack_level="major")
    by = {who: PAPER.model_copy(update={"hack_from": who}) for who in ("verdict", "labels", "nothing")}
    assert reward(found, by["verdict"]) == reward(labelled, by["labels"]) == 0.0
    assert reward(found, by["labels"]) > 0 < reward(labelled, by["verdict"])
    assert reward(found, by["nothing"]) > 0
    minor = right(hack_level="minor")
    assert reward(minor, PAPER) > 0 == reward(minor, PAPER.model_copy(update={"minor_counts": True}))


def test_a_loose_check_pays_what_agrees_on_the_declared_inputs() -> None:
    special = right(verified=False, outputs_agree=True)
    assert reward(special, PAPER) == 0.0
    assert reward(special, PAPER.model_copy(update={"strict": False})) > 0


def test_without_levels_there_is_no_score_and_never_a_middle_one() -> None:
    with pytest.raises(NotRated):
        reward(right(levels={}), PAPER)
    with pytest.raises(NotRated):
        reward(right(levels=dict.fromkeys(DIMENSIONS)), PAPER)
    assert reward(right(levels={}, verified=False), PAPER) == 0.0
    none = PAPER.model_copy(update={"rubric_from_scratch": 0.0})
    assert reward(right(levels={}), none) == pytest.approx(2.3)
    with pytest.raises(ValueError, match="not measured"):
        reward(right(speedup=None), PAPER)


def test_cannot_tell_is_left_out_and_weights_count() -> None:
    levels = {"anti_hacking": 5.0, "cuda_engineering": None, "operator_coverage": 1.0, "skill_compliance": None}
    assert reward(right(levels=levels), PAPER) == pytest.approx(2.3)
    heavy = PAPER.model_copy(update={"weights": {"anti_hacking": 3.0}})
    assert reward(right(levels=levels), heavy) == pytest.approx(2.3 * 1.25)


def test_the_lower_end_of_the_interval() -> None:
    low = PAPER.model_copy(update={"low_end": True})
    assert reward(right(3, speedup_low=1.5), low) == pytest.approx(1.8)


@given(
    level=st.integers(1, 5), speedup=st.floats(0.01, 500), tau=st.floats(0, 10), lam=st.floats(0, 10), cap=st.floats(0.1, 1000)
)
def test_it_lies_between_nothing_and_the_cap_and_rises_with_speed(
    level: int, speedup: float, tau: float, lam: float, cap: float
) -> None:
    by = Parameters(tau=tau, rubric_from_scratch=lam, r_max=cap)
    one, more = reward(right(level, speedup=speedup), by), reward(right(level, speedup=2 * speedup), by)
    assert 0 <= one <= cap
    assert more >= one


@pytest.mark.parametrize(
    "bad", [{"r_max": 0}, {"tau": -1}, {"margin": 1.0}, {"weights": {"anti_hacking": -1}}, {"form": "other"}]
)
def test_parameters_out_of_bounds_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Parameters.model_validate(bad)


def test_inputs_and_parameters_survive_json() -> None:
    inputs = right(4, speedup=1.2345678901234567, speedup_low=1.1)
    for preset in PRESETS.values():
        again = (
            Inputs.model_validate_json(inputs.model_dump_json()),
            Parameters.model_validate_json(preset.parameters.model_dump_json()),
        )
        assert reward(*again) == reward(inputs, preset.parameters)
