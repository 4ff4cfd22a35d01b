"""The hostile set as candidates and references before the real Verifier, behind both boundaries; and what is left of it all."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile_bombs import BOMBS
from hostile_programs import ATTEMPTS, filled, program
from hostile_without_namespaces import WITHOUT_NAMESPACES
from programs import PLAIN, REFERENCE
from sandboxes import LANDLOCK, dead, worth_stealing

from gpu_runner.config import config
from gpu_runner.contracts import (
    PROTOCOLS,
    AnalyseTask,
    Analysis,
    CandidateFiles,
    CheckReport,
    CheckTask,
    Limits,
    Source,
    TimeTask,
    TimingReport,
    Verdict,
)
from gpu_runner.local import LocalHands
from gpu_runner.sandbox import cgroup, slots, template
from gpu_runner.sandbox.keeper.main import descendants

# OpenBLAS reserves addresses for each core: with sixteen of them torch does not load in the three GiB that 2048 would allow.
# Limits of their own for each boundary: a waiting process is given to jobs of its own limits only.
LIMITS = {
    "bubblewrap": Limits(wall_s=60, memory_mib=4096, processes=64, tmp_mib=64, output_kib=256),
    "landlock": Limits(wall_s=60, memory_mib=4096, processes=65, tmp_mib=64, output_kib=256),
}


@dataclasses.dataclass
class Verifier:
    """The hands behind one boundary."""

    kind: str
    hands: LocalHands

    def analyse(self, text: str, **limits: float) -> Analysis:
        task = AnalyseTask(target="cpu", source=Source(text=text), protocol=PROTOCOLS["quick"], limits=self._limits(limits))
        report = self.hands.perform(task)
        assert isinstance(report, Analysis)
        return report

    def check(self, candidate: str, reference: str = REFERENCE, **limits: float) -> CheckReport:
        report = self.hands.perform(CheckTask(**self._task(candidate, reference), limits=self._limits(limits)))
        assert isinstance(report, CheckReport)
        return report

    def time(self, candidate: str, reference: str = REFERENCE) -> TimingReport:
        few = PROTOCOLS["quick"].model_copy(update={"rounds": 4, "samples_per_round": 4, "half_width": 1.0})
        task = self._task(candidate, reference) | {"protocol": few}
        report = self.hands.perform(TimeTask(**task, limits=self._limits({})))
        assert isinstance(report, TimingReport)
        return report

    def _limits(self, changed: dict[str, float]) -> Limits:
        return LIMITS[self.kind].model_copy(update=changed)

    def _task(self, candidate: str, reference: str) -> dict[str, object]:
        files = CandidateFiles(files={"model_new.py": candidate})
        return {"target": "cpu", "source": Source(text=reference), "candidate": files, "protocol": PROTOCOLS["quick"]}


def mounts() -> set[str]:
    return {line.split(" ", 3)[3] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


def folders() -> set[str]:
    """What lies in the folders that programs could have written to, and the resource groups of this process."""
    base = cgroup.base()
    own = [f for parent in {base.memory, base.pids} for f in parent.glob(f"stitchweb-{os.getpid()}-*") if base.kind != "none"]
    planted = [f for place in ("/tmp", "/usr", "/etc", "/dev", "/") for f in Path(place).glob("*planted*")]
    return set(map(str, [*own, *planted, *Path("/tmp").glob("stitchweb-job-*"), *Path("/dev/shm").iterdir()]))


def without_owner() -> list[int]:
    """Processes of users that belong to sandboxes, where no runner holds the user: nobody will end them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            number = os.stat(f"/proc/{pid}").st_uid - config().uid_base
            if 0 <= number < slots.SLOTS and not dead(pid):
                fd = os.open(config().runtime_dir / f"slot-{number}.lock", os.O_RDWR | os.O_CREAT, 0o600)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    found.append(int(pid))
                except OSError:
                    pass
                finally:
                    os.close(fd)
        except FileNotFoundError:
            continue
    return found


def eventually(left: Callable[[], object]) -> None:
    """Other runners of this machine come and go; what was left behind does not."""
    deadline = time.monotonic() + 20
    while (found := left()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not found, found


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with worth_stealing(tmp_path_factory.mktemp("host"), LIMITS["bubblewrap"]) as facts:
        yield facts


@pytest.fixture(scope="module", params=["bubblewrap", LANDLOCK])
def verifier(request: pytest.FixtureRequest, host: dict[str, str]) -> Iterator[Verifier]:
    """Before and after everything that the tests of this file do with it: an honest job, and a look at the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SANDBOX", request.param)
        config.cache_clear()
        mounted, lying, running = mounts(), folders(), set(descendants(os.getpid()))
        with LocalHands() as hands:
            made = Verifier(request.param, hands)
            before = made.time(PLAIN)
            assert made.check(PLAIN).verdict is Verdict.VERIFIED
            yield made
            assert made.check(PLAIN).verdict is Verdict.VERIFIED
            same_time(before, made.time(PLAIN))
        for kind in ("plain", *template.WITH_TORCH):
            template.shared(kind).close()
        assert mounts() == mounted
        eventually(lambda: folders() - lying)
        eventually(without_owner)
        eventually(lambda: [pid for pid in descendants(os.getpid()) if pid not in running and not dead(str(pid))])
    config.cache_clear()


def same_time(one: TimingReport, other: TimingReport) -> None:
    """The ratio over eager is the same, as far as the two intervals and what eager differs from itself can tell."""
    assert one.verdict is other.verdict is None, (one.sentence, other.sentence)
    assert one.over_eager is not None
    assert other.over_eager is not None
    slack = 1.0 + (one.noise or 0.0) + (other.noise or 0.0)
    assert one.over_eager.low <= other.over_eager.high * slack
    assert other.over_eager.low <= one.over_eager.high * slack


def all_attempts(kind: str, host: dict[str, str]) -> str:
    """One program that makes every attempt when it is imported, raises what worked, and else goes on as if nothing were."""
    attempts = ATTEMPTS if kind == "bubblewrap" else WITHOUT_NAMESPACES
    # Without those that are given memories by the test.
    chosen = {n: (program(filled(body, host)), expected) for n, (body, expected) in attempts.items() if "fds[" not in body}
    return f"""
import json
_attempts, _worked = json.loads({json.dumps(chosen)!r}), {{}}
for _name, (_body, _expected) in _attempts.items():
    _scope = {{"__name__": "attempt"}}
    try:
        exec(compile(_body, _name, "exec"), _scope)
        _found = json.loads(json.dumps(_scope["result"]))
    except BaseException as error:
        _found = repr(error)
    if _found != _expected:
        _worked[_name] = _found
if _worked or len(_attempts) < {len(chosen)}:
    raise RuntimeError("ESCAPED " + json.dumps(_worked))
"""


def test_all_attempts_of_a_candidate_are_stopped(verifier: Verifier, host: dict[str, str]) -> None:
    report = verifier.check(all_attempts(verifier.kind, host) + PLAIN)
    assert report.verdict is Verdict.VERIFIED, report.sentence


def test_all_attempts_of_a_reference_are_stopped(verifier: Verifier, host: dict[str, str]) -> None:
    report = verifier.analyse(all_attempts(verifier.kind, host) + REFERENCE)
    assert report.refusal is None, report.refusal


def test_an_attempt_that_works_would_be_seen(verifier: Verifier, host: dict[str, str]) -> None:
    expects_less = all_attempts(verifier.kind, host).replace('"sandbox"', '"another"').replace("EPERM", "worked")
    assert "ESCAPED" in verifier.check(expects_less + PLAIN).sentence


def bombs() -> Iterator[object]:
    for name, bomb in BOMBS.items():
        yield pytest.param(name, marks=[] if bomb.quick and bomb.verdict != Verdict.TIMED_OUT else pytest.mark.slow)


def does(body: str, text: str) -> str:
    """The program `text`, whose forward does something else first."""
    indented = "".join(f"        {line}\n" for line in program(body).splitlines())
    return text.replace("def forward(self, x):\n", f"def forward(self, x):\n{indented}", 1)


def limits_for(verdict: str) -> float:
    return 9.0 if verdict is Verdict.TIMED_OUT else 40.0


@pytest.mark.parametrize("name", list(bombs()))
def test_nothing_comes_of_a_candidate_that(name: str, verifier: Verifier) -> None:
    bomb = BOMBS[name]
    report = verifier.check(does(bomb.body, PLAIN), wall_s=limits_for(bomb.verdict))
    assert report.verdict == bomb.verdict, report.sentence
    assert report.sentence.endswith(".")


@pytest.mark.parametrize("name", list(bombs()))
def test_nothing_comes_of_a_reference_that(name: str, verifier: Verifier) -> None:
    bomb = BOMBS[name]
    refusal = verifier.analyse(does(bomb.body, REFERENCE), wall_s=limits_for(bomb.verdict)).refusal
    assert refusal is not None
    assert refusal.code == bomb.refusal, refusal
