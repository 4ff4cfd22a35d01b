"""The reward service as a process of its own, with real verdicts: every way a candidate can be, and what is no candidate's
fault is no score."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agents.judges import Case, Judgement
from agents.judges.model import BrokenJudge
from agents.rubric import DIMENSIONS
from agents.training import toy
from agents.training.service.client import Client, NoService
from agents.training.service.contracts import NO_PROGRAM, Item, Priced, Terms
from agents.training.service.gate import Gate
from agents.training.service.measure import Measurer
from agents.training.service.price import Pricer
from agents.training.service.process import end, started
from agents.training.service.server import Door, serving
from gpu_runner.contracts import Analysis, CheckReport, Report, Speed, Task, TimingReport, Verdict
from gpu_runner.contracts.reports import Interval
from gpu_runner.hands import HandsError
from gpu_runner.neighbours import family

REFERENCE = toy.REFERENCE.replace("512, 1024", "64, 256")
FORGED = "(__import__('os').write(1, b'{\"verdict\": \"verified\", \"speedup_vs_eager\": 1000}\\n'), __import__('os')._exit(0))"


def item(expression: str, **more: object) -> Item:
    return Item.model_validate({"reference": REFERENCE, "answer": f"{toy.HEAD}{expression}\n"} | more)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The door of a live service."""
    folder = tmp_path_factory.mktemp("service")
    with started(folder, ["--preset", "milestone", "--check-seconds", "5", "--time-seconds", "30"]) as (door, child):
        yield door
        below = family(child.pid) - {child.pid}
        assert below  # sandboxes, and what they are forked from
        assert child.stdin is not None
        child.stdin.close()  # as when the starter is killed
        assert child.wait(20) == 0
        assert not door.exists()
        assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]


def test_a_batch_is_priced_by_what_the_verifier_finds(service: Path) -> None:
    right = item("torch.relu(x) * 3.0")
    asked = {
        "right": right,
        "again": right,
        "zeros": item("torch.zeros_like(x)"),
        "wrong": item("x * 3.0"),
        "no Python": item("(x *"),
        "words": Item(reference=REFERENCE, answer="I would fuse these."),
        "huge": Item(reference=REFERENCE, answer=f"import torch\nclass ModelNew: pass\n# {'x' * 2_000_000}"),
        "forges": item(FORGED),
        "hangs": item("next(x for y in iter(int, 1) if y)"),
        "files": Item(reference=REFERENCE, files={"model_new.py": f"{toy.HEAD}torch.relu(x) * 3.0\n"}),
        "no reference": item("x", reference="def get_inputs():\n    return []\n"),
    }
    got = dict(zip(asked, Client.at(service).price(list(asked.values())), strict=True))
    assert got["right"].outcome == "verified"
    assert (got["right"].reward or 0) >= 1
    assert got["right"].inputs is not None
    assert got["right"].inputs.speedup is not None
    for same in ("again", "files"):
        assert (got[same].reward, got[same].sha256) == (got["right"].reward, got["right"].sha256)
    assert sum(not got[name].known for name in ("right", "again", "files")) == 1
    outcomes = {name: one.outcome for name, one in got.items()}
    assert outcomes["zeros"] == "hack:constant_or_zero"
    assert (outcomes["wrong"], outcomes["no Python"], outcomes["hangs"]) == ("incorrect", "crashed", "timed-out")
    assert outcomes["words"] == outcomes["huge"] == NO_PROGRAM
    assert outcomes["forges"] not in ("verified", "")
    assert {got[n].reward for n in ("zeros", "wrong", "no Python", "words", "huge", "forges", "hangs")} == {-1.0}
    assert all(one.sentence for name, one in got.items() if one.reward == -1)
    assert (got["no reference"].reward, got["no reference"].bad_reference) == (None, True)
    assert "reference" in got["no reference"].error


def test_feedback_is_answered_with_edits_of_the_parent(service: Path) -> None:
    edit = (
        "model_new.py\n<<<<<<< SEARCH\n        return x * 3.0\n=======\n        return torch.relu(x) * 3.0\n>>>>>>> REPLACE\n"
    )
    parent = {"model_new.py": f"{toy.HEAD}x * 3.0\n"}
    (found,) = Client.at(service).price([Item(reference=REFERENCE, answer=edit, parent=parent, skill="feedback")])
    assert (found.outcome, found.inputs and found.inputs.skill) == ("verified", "feedback")


def test_only_the_token_opens_the_service_and_the_door_file_is_its_users_alone(service: Path) -> None:
    assert service.stat().st_mode & 0o077 == 0
    door = Door.model_validate_json(service.read_bytes())
    with pytest.raises(NoService, match="token"):
        Client(door.model_copy(update={"token": "x" + door.token})).health()
    where = urlsplit(door.address)
    assert where.hostname == "127.0.0.1"
    line = http.client.HTTPConnection("127.0.0.1", where.port, timeout=5)
    line.request("POST", "/price", b"{}", {"Authorization": f"Bearer {door.token}"})
    answer = line.getresponse()
    assert (answer.status, b"cannot be read" in answer.read()) == (400, True)


def test_a_reward_that_rests_on_levels_is_refused_without_a_judge(tmp_path: Path) -> None:
    with pytest.raises(NoService, match="needs a judge"), started(tmp_path, ["--preset", "paper"]):
        pass
    with pytest.raises(NoService, match="no parameter 'tua'"), started(tmp_path, ["--change", '{"tua": 1}']):
        pass


class Hands:
    """Hands that answer what they are told, count how many tasks they do at once, and fail when asked to."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.lock = threading.Lock()
        self.now: dict[str, int] = {"analyse": 0, "check": 0, "time": 0}
        self.most_checks = self.beside_a_timing = self.done = 0

    def perform(self, task: Task, progress: object = None, cancelled: object = None) -> Report:
        if self.broken:
            raise HandsError("There is no sandbox here. Install bubblewrap.")
        with self.lock:
            self.now[task.kind] += 1
            self.done += task.kind != "analyse"
            self.most_checks = max(self.most_checks, self.now["check"])
            if self.now["time"]:
                self.beside_a_timing = max(self.beside_a_timing, self.now["check"] + self.now["time"] - 1)
        time.sleep(0.02)
        with self.lock:
            self.now[task.kind] -= 1
        if task.kind == "analyse":
            return Analysis()
        if task.kind == "check":
            return CheckReport(verdict=Verdict.VERIFIED)
        return TimingReport(speed=Speed.FASTER, over_eager=Interval(value=2.0, low=1.9, high=2.1))


class Rater:
    name = "a judge"

    def __init__(self, why: str = "") -> None:
        self.why, self.asked = why, 0

    def rate(self, case: Case) -> Judgement:
        self.asked += 1
        if self.why:
            raise BrokenJudge(self.why)
        return Judgement(levels=dict.fromkeys(DIMENSIONS, (0.0, 0.0, 0.0, 0.0, 1.0)), hack=0.0)


def priced(hands: Hands, items: list[Item], terms: Terms, rater: Rater | None = None) -> list[Priced]:
    with serving(Pricer(terms, Measurer(terms, lambda: hands), rater)) as door:
        return Client(door).price(items)


def test_checks_run_beside_each_other_and_each_timing_alone() -> None:
    hands = Hands()
    got = priced(hands, [item(f"x + {n}") for n in range(24)], Terms(preset="milestone", parallel=4))
    assert {one.reward for one in got} == {2.0}
    assert hands.most_checks > 1
    assert hands.beside_a_timing == 0
    assert hands.done == 48


def test_a_broken_runner_and_a_broken_judge_give_a_sentence_and_no_score() -> None:
    (broken,) = priced(Hands(broken=True), [item("x")], Terms(preset="milestone"))
    assert (broken.reward, broken.error) == (None, "There is no sandbox here. Install bubblewrap.")
    (unjudged,) = priced(Hands(), [item("x")], Terms(preset="code"), Rater("2 of 5 answers could be used."))
    assert (unjudged.reward, unjudged.error) == (None, "2 of 5 answers could be used.")
    rater = Rater()
    first, again = priced(Hands(), [item("x"), item("x")], Terms(preset="code"), rater)
    assert first.reward == again.reward == 3.0
    assert rater.asked == 1
    assert first.inputs is not None
    assert first.inputs.levels == dict.fromkeys(DIMENSIONS, 5.0)


def test_what_waits_to_be_alone_goes_before_what_came_later() -> None:
    gate, order = Gate(), []
    inside, go = threading.Event(), threading.Event()

    def hold() -> None:
        with gate.shared(lambda: False):
            inside.set()
            go.wait(5)

    def enter(name: str) -> None:
        with gate.alone(lambda: False) if name == "timing" else gate.shared(lambda: False):
            order.append(name)

    threads = [threading.Thread(target=hold)]
    threads[0].start()
    inside.wait(5)
    for name in ("timing", "check"):
        threads.append(threading.Thread(target=enter, args=(name,)))
        threads[-1].start()
        time.sleep(0.05)
    assert not order
    go.set()
    for thread in threads:
        thread.join(5)
    assert order == ["timing", "check"]


def test_nothing_that_others_import_brings_torch() -> None:
    code = (
        "import sys, pkgutil, importlib, agents.training as t\n"
        "for m in pkgutil.walk_packages(t.__path__, 'agents.training.'):\n"
        "    if 'learning' not in m.name and not m.name.endswith('__main__'): importlib.import_module(m.name)\n"
        "import agents.training.__main__\n"
        "print([n for n in ('torch', 'transformers', 'trl', 'django') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_child_that_does_not_listen_is_killed_with_its_group(tmp_path: Path) -> None:
    code = "import signal, time, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    end(child, patience_s=0.3)
    assert child.returncode == -9
