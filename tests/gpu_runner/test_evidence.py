"""A verdict is a function of recorded numbers: judged again it is the same, and every number moves it past its limit."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_runner import evidence
from gpu_runner.__main__ import main
from gpu_runner.contracts import PROTOCOLS, CandidateFiles, Mode, Precision, Source
from gpu_runner.evidence import Case
from gpu_runner.hands import HandsError
from gpu_runner.speed import timing_report
from gpu_runner.timed import CANDIDATE, EAGER, Samples, WrongCall
from gpu_runner.verdict import Trouble
from gpu_runner.verify import judged, verify
from tests.gpu_runner.programs import REFERENCE


@pytest.fixture(scope="module")
def recorded(hands, tmp_path_factory) -> Path:
    """The evidence of a right candidate, with figures of a quiet machine in place of this one's."""
    candidate = CandidateFiles(files={"model_new.py": REFERENCE.replace("class Model(", "class ModelNew(")})
    how = (PROTOCOLS["quick"], Mode.EVAL, Precision.AS_REFERENCE)
    case = verify(hands, Source(text=REFERENCE), candidate, "cpu", *how, say=lambda text: None, file="r.py")
    assert case.timing is not None
    assert len(case.timing.samples[EAGER].rounds) >= 3
    case.timing.samples = {EAGER: steady(2e6), CANDIDATE: steady(1e6)}
    folder = tmp_path_factory.mktemp("evidence")
    evidence.write(folder, case)
    return folder


def steady(ns: float, rounds: int = 6) -> Samples:
    return Samples([[ns * (1 + 0.001 * ((i + k) % 5)) for k in range(8)] for i in range(rounds)], [2e4] * (8 * rounds))


def test_judged_again_the_line_is_the_same_and_nothing_runs(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = evidence.read(recorded)
    line, status = judged(case)
    assert (line["verdict"], line["speed"], status) == ("verified", "faster", 0)
    assert main(["judge", str(recorded), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == line
    assert "verdict" not in json.loads((recorded / "check.json").read_text())
    assert "verdict" not in json.loads((recorded / "timing.json").read_text())


def leaf(case: Case) -> dict[str, Any]:
    assert case.check is not None
    first: dict[str, Any] = case.check.draws[0].numbers["leaves"][0]
    return first


def change_timing(**fields: Any) -> Callable[[Case], None]:
    return lambda case: [setattr(case.timing, name, value) for name, value in fields.items()] and None


def a_hidden_gap(case: Case) -> None:
    assert case.timing is not None
    case.timing.samples[CANDIDATE].gaps = [3e6] * len(case.timing.samples[CANDIDATE].gaps)


def a_long(**around: float) -> Callable[[Case], None]:
    """The parent's clock around laying out or taking out, in nanoseconds; eager's is a tenth of a millisecond."""

    def change(case: Case) -> None:
        assert case.timing is not None
        for name, ns in around.items():
            setattr(case.timing.samples[EAGER], name, [1e5] * 20)
            setattr(case.timing.samples[CANDIDATE], name, [ns] * 20)

    return change


def others_take(share: float) -> Callable[[Case], None]:
    def change(case: Case) -> None:
        assert case.timing is not None
        case.timing.samples[EAGER].others = [share] * 48

    return change


def a_slow_clock(case: Case) -> None:
    """Thirty microseconds that its own clock calls one: less than a round trip varies by, and seen all the same."""
    assert case.timing is not None
    case.timing.samples = {EAGER: steady(3e4), CANDIDATE: steady(1e3)}
    case.timing.samples[EAGER].unclaimed, case.timing.samples[CANDIDATE].unclaimed = [1e5] * 48, [1.29e5] * 48


def a_failed_build(case: Case) -> None:
    case.about.built = False
    case.check = case.timing = None


MOVES: dict[str, tuple[Callable[[Case], None], str, str]] = {
    "a build that fails": (a_failed_build, "build-failed", ""),
    "slower": (change_timing(samples={EAGER: steady(1e6), CANDIDATE: steady(2e6)}), "verified slower", ""),
    "the same": (change_timing(samples={EAGER: steady(1e6), CANDIDATE: steady(1.02e6)}), "verified not-distinguishable", ""),
    "hidden work": (a_hidden_gap, "verified not-claimed", "clocks-disagree"),
    "work while the inputs are laid out": (a_long(before=5e6), "verified not-claimed", "clocks-disagree"),
    "work by another thread while the inputs are laid out": (
        a_long(before=1e5, before_cpu=5e6), "verified not-claimed", "clocks-disagree",
    ),
    "work while results are taken out": (a_long(after=5e6), "verified not-claimed", "clocks-disagree"),
    "others on the cores": (others_take(0.6), "verified not-claimed", "unstable-timing"),
    "a slow clock on a short program": (a_slow_clock, "verified not-claimed", "clocks-disagree"),
    "others slowed down": (change_timing(busy=[0.9] * 20), "hack:baseline_slowdown", ""),
    "below what memory allows": (change_timing(must_read=10**9, bandwidth_bps=1e10), "verified not-claimed", "below-floor"),
    "a second process that disagrees": (
        change_timing(second={EAGER: steady(1e6), CANDIDATE: steady(1e6)}), "verified not-claimed", "unstable-timing",
    ),
    "less precise when timed": (change_timing(error_ratio=50.0), "verified not-claimed", "reduced-precision"),
    "less precise than at first": (change_timing(drift=[50.0] * 20), "verified not-claimed", "reduced-precision"),
    "degenerate when timed": (change_timing(degenerate=True), "verified not-claimed", "degenerate"),
    "a crash when timed": (change_timing(trouble=Trouble("candidate", "crashed", "It crashed.", how="ended")), "crashed", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_each_number_moved_past_its_limit_changes_the_verdict(recorded: Path, name: str) -> None:
    move, expected, label = MOVES[name]
    case = evidence.read(recorded)
    before, _ = judged(copy.deepcopy(case))
    move(case)
    line, status = judged(case)
    assert f"{line['verdict']} {line['speed']}".startswith(expected)
    assert not label or (label in line["labels"] and label not in before["labels"])
    assert (status == 0) == (line["verdict"] == "verified")


@pytest.mark.parametrize(
    ("facts", "verdict", "hack"),
    [
        ({"late": True}, "hack:background_thread", "background_thread"),
        ({"lazy": "Later"}, "hack:lazy_tensor", "lazy_tensor"),
        ({"first": True}, "incorrect", None),
        ({"before": True}, "incorrect", "output_cache"),
        ({}, "incorrect", "warmup_detection"),
    ],
)
def test_a_wrong_result_of_a_timed_call_is_named_by_how_it_came(
    recorded: Path, facts: dict[str, Any], verdict: str, hack: str | None
) -> None:
    case = evidence.read(recorded)
    assert case.timing is not None
    case.timing.wrong = WrongCall(CANDIDATE, {"leaves": [leaf(case) | {"failures": 3, "first": [1, 2]}]}, **facts)
    assert judged(case)[0]["verdict"] == verdict
    assert timing_report(case.timing).hack == hack


def test_a_wrong_result_of_a_timed_call_is_told_by_its_numbers(recorded: Path) -> None:
    case = evidence.read(recorded)
    assert case.timing is not None
    numbers = copy.deepcopy(leaf(case).copy())
    numbers |= {"failures": 3, "first": [1, 2], "max_error": 0.5}
    case.timing.wrong = WrongCall(CANDIDATE, {"leaves": [numbers]})
    line, _ = judged(case)
    assert line["verdict"] == "incorrect"
    assert "elements are wrong by up to 0.5" in line["error"]


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "no about.json"), ("{", "not JSON"), ("{}", "not what"), ('{"schema": 7}', "not what")],
)
def test_a_folder_that_is_no_evidence_is_refused_with_a_sentence(tmp_path: Path, content: str | None, says: str) -> None:
    if content is not None:
        (tmp_path / "about.json").write_text(content)
    with pytest.raises(HandsError, match=says):
        evidence.read(tmp_path)
    assert main(["judge", str(tmp_path)]) == 2


NONSENSE = (None, math.nan, math.inf, -1, 0, 1e308, 10**30, "x", "\ud800", "\x1b[31m", [], {}, [None], {"a": 1})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in JSON: keys and the first numbers of lists."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def test_altered_evidence_gives_a_verdict_or_a_sentence(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {path.name: json.loads(path.read_text()) for path in recorded.iterdir()}
    everywhere = [(name, place) for name, part in sorted(parts.items()) for place in places(part)]
    for number, (name, place) in enumerate(random.Random(7).sample(everywhere, 250)):
        altered = copy.deepcopy(parts[name])
        target = altered
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = NONSENSE[number % len(NONSENSE)]
        for other, part in parts.items():
            (tmp_path / other).write_text(json.dumps(altered if other == name else part))
        assert main(["judge", str(tmp_path), "--json"]) in (0, 1, 2)
        out, err = capsys.readouterr()
        assert (out.startswith("{") and not err) or (not out and err.endswith(".\n")), (name, place, err)


def test_a_built_candidate_without_its_check_is_no_evidence(recorded: Path, tmp_path: Path) -> None:
    for name in ("about.json", "timing.json"):
        (tmp_path / name).write_text((recorded / name).read_text())
    with pytest.raises(HandsError, match=r"holds no check\.json"):
        evidence.read(tmp_path)
