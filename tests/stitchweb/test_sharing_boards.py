"""Numbers side by side only on common ground; leaderboards with the metrics as they are defined, never across grounds."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from django.test import Client

from gpu_runner.contracts import Interval
from stitchweb.runs.models import Run, RunState
from stitchweb.sharing.board import Attempt, boards_of, geomean, score_of
from stitchweb.sharing.curves import Curve, fast_p_curves
from stitchweb.sharing.ground import Ground, apart
from stitchweb.sharing.models import Publication
from stitchweb.sharing.sides import numbers_of, side_of
from tests.stitchweb.markup import well_formed
from tests.stitchweb.sharing_world import Shown, make_shown

ON = ("cpu", "strict/4", "A processor, 2 cores", "eval", "as-reference", False)
GROUND = Ground("cpu", "strict/4", "A processor, 2 cores", "2.13.0", "", "eval", "as-reference", "f" * 64)


def attempt(number: int, low: float | None, value: float | None = None, **more: Any) -> Attempt:
    """Solved with this ratio and lower bound, or not solved."""
    over = Interval(value=value or low, low=low, high=(value or low) * 1.1) if low else None
    facts = {
        "run": number, "reference": f"{number:064x}", "program": number, "name": f"p{number}", "engineer": "offline",
        "ground": ON,
        "verdict": "verified" if low else "no-gain", "speed": "faster" if low else "", "over_eager": over, "over_compile": None,
        "degenerate": False,
    }  # fmt: skip
    return Attempt(**facts | more)


def test_fast_p_counts_all_attempts_strictly_and_the_bound_is_the_headline() -> None:
    rows = [
        attempt(1, 1.5, 1.6),
        attempt(2, 1.9, 2.1),
        attempt(3, 4.0, 4.4),
        attempt(4, None),
        attempt(5, None, verdict="refused"),
    ]
    score = score_of("offline", rows)
    assert score.of == 5
    assert score.solved == 3
    assert score.shares == ((1.0, 0.6, 0.6), (1.2, 0.6, 0.6), (1.5, 0.4, 0.6), (2.0, 0.2, 0.4), (4.0, 0.0, 0.2))
    assert score.solved_mean == pytest.approx((1.6 * 2.1 * 4.4) ** (1 / 3))
    assert score.all_mean == pytest.approx((1.6 * 2.1 * 4.4) ** (1 / 5))
    assert score.ends == (("no-gain", 1), ("refused", 1))
    assert score.compile_mean is None


def test_a_geometric_mean_neither_overflows_nor_exists_of_nothing() -> None:
    assert geomean([1e200] * 400) == pytest.approx(1e200)
    assert geomean([]) is None
    assert score_of("offline", [attempt(1, None)]).all_mean == 1.0


@pytest.mark.parametrize("place", range(6))
def test_nothing_is_ranked_across_target_protocol_device_mode_precision_or_what_is_made_up(place: int) -> None:
    other = tuple(v if i != place else (not v if isinstance(v, bool) else f"{v}x") for i, v in enumerate(ON))
    boards = boards_of([attempt(1, 1.5), attempt(2, 2.5, ground=other)])
    assert len(boards) == 2
    assert all(len(board.attempts) == 1 for board in boards)


def test_an_attempt_that_reached_no_device_counts_on_every_board_of_its_target_and_protocol() -> None:
    away = ("cpu", "strict/4", "", "", "", False)
    second = ("cpu", "strict/4", "Another", "eval", "as-reference", False)
    boards = boards_of([attempt(1, 1.5), attempt(2, 2.5, ground=second), attempt(3, None, verdict="refused", ground=away)])
    assert [len(b.attempts) for b in boards] == [2, 2]
    assert boards_of([attempt(3, None, ground=away)])[0].device == ""


def test_the_leader_of_a_reference_is_its_best_solved_attempt() -> None:
    same = {"reference": "a" * 64}
    board = boards_of([attempt(1, 1.5, **same), attempt(2, 2.5, engineer="llm", **same), attempt(3, None)])[0]
    assert [a.run for a in board.leaders] == [2, 3]
    assert [s.engineer for s in board.scores] == ["offline", "llm"]
    assert board.references == 2


def test_the_curves_share_an_axis_and_are_told_apart_by_line() -> None:
    svg = fast_p_curves([Curve("a", [1.5, 2.5], 4), Curve("b", [9.0], 2)], "said")
    well_formed(svg)
    assert 'class="cur fp-a"' in svg
    assert 'class="cur fp-b"' in svg
    assert 'aria-label="said"' in svg
    assert fast_p_curves([Curve("nothing", [], 0)], "none").count("<line") >= 6


@pytest.mark.parametrize(
    ("field", "word"),
    [("target", "target"), ("protocol", "protocol"), ("device", "device"), ("torch", "PyTorch"), ("driver", "driver"),
     ("mode", "mode"), ("precision", "precision")],
)  # fmt: skip
def test_what_differs_is_said_and_forbids_the_comparison(field: str, word: str) -> None:
    assert apart(GROUND, GROUND) == []
    reasons = apart(GROUND, dataclasses.replace(GROUND, **{field: "other"}))
    assert len(reasons) == 1
    assert word in reasons[0]
    assert apart(dataclasses.replace(GROUND, device=""), GROUND) == ["The device of the left is not known."]
    assert apart(GROUND, dataclasses.replace(GROUND, reference="0" * 64)) == []


@pytest.fixture
def shown(db: None) -> Shown:
    return make_shown()


def client_of(shown: Shown) -> Client:
    client = Client()
    client.force_login(shown.world.owner)
    return client


def test_numbers_of_two_protocols_do_not_stand_side_by_side(shown: Shown) -> None:
    user = shown.world.owner
    quick, strict = side_of(user, f"p{shown.first.pk}"), side_of(user, f"p{shown.second.pk}")
    assert shown.first.protocol != shown.second.protocol
    numbers = numbers_of(quick, strict)
    assert numbers.measures == ()
    assert any("The protocol differs" in reason for reason in numbers.reasons)
    html = client_of(shown).get(f"/published/compare/?a={quick.word}&b={strict.word}").content.decode()
    assert "No numbers stand side by side here." in html
    assert "Over the best" not in html
    assert "table" in html
    assert 'class="add"' in html


def test_the_same_program_twice_is_not_distinguishable(shown: Shown) -> None:
    user = shown.world.owner
    same = numbers_of(side_of(user, f"p{shown.second.pk}"), side_of(user, f"r{shown.world.done.pk}"))
    assert same.reasons == ()
    assert [m.name for m in same.measures][:2] == ["Over eager", "Over the best torch.compile"]
    assert "not distinguishable" in same.sentence


def test_a_program_that_is_wrong_has_no_number_anywhere_on_the_page(shown: Shown) -> None:
    run = shown.world.done.pk
    html = client_of(shown).get(f"/published/compare/?a=r{run}-c4&b=p{shown.second.pk}").content.decode()
    assert "only verified programs have numbers" in html
    assert "2.01" not in html


@pytest.mark.parametrize("query", ["a=x", "a=p0&b=p1", "a=r1-c99&b=r1", "a=p99999999999999999999", "a=%00", "a=r1-"])
def test_an_odd_choice_is_answered_with_what_to_write(shown: Shown, query: str) -> None:
    response = client_of(shown).get(f"/published/compare/?{query}")
    assert response.status_code == 404
    assert 'role="alert"' in response.content.decode()


def test_a_board_of_real_rows_counts_the_ended_and_leaves_the_cancelled_out(shown: Shown) -> None:
    device = {"kind": "cpu", "name": "Told", "cores": 2}
    result = {"device": device, "mode": "eval", "precision": "as-reference", "labels": []}
    RunState.objects.update(result=result)
    Run.objects.filter(pk=shown.world.live.pk).update(status="cancelled", verdict="cancelled")
    html = client_of(shown).get("/published/leaderboard/").content.decode()
    well_formed(html)
    assert "Told, 2 cores" in html
    assert f">run {shown.world.done.pk}<" in html
    assert f">run {shown.world.live.pk}<" not in html
    assert "fast<sub>p</sub>" in html
    page = client_of(shown).get(f"/published/leaderboard/{shown.second.reference}/cpu/").content.decode()
    assert str(Publication.objects.get(pk=shown.second.pk)) in page.replace("&amp;", "&").replace(" +", " +")
    assert re.search(r"50\s%|100\s%", page)
