"""Compiled references: beside each other where cores allow, from what another mode has left, and each for itself in trouble."""

from __future__ import annotations

import io
import struct
import tarfile
import threading
import time
from typing import Any

import pytest

from gpu_runner import turns
from gpu_runner.compiled import Compiled, Kept
from gpu_runner.contracts import Limits, Mode, Precision, Progress, Refusal, Source
from gpu_runner.hands import Cancelled
from gpu_runner.job import Job
from gpu_runner.peers import CandidatePeer, ReferencePeer
from gpu_runner.sandbox import Memory
from gpu_runner.session import Session
from gpu_runner.values import ProgramEnded, ProgramRefused

PRODUCT = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)
    def forward(self, x):
        return torch.relu(self.linear(x)).softmax(-1)
def get_inputs():
    return [torch.randn(16, 32)]
"""
ALL = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


pytestmark = pytest.mark.usefixtures("own_queue")


def job(device: str = "cpu", cancelled: threading.Event | None = None, said: list[str] | None = None) -> Job:
    def progress(message: Progress) -> None:
        if said is not None:
            said.append(str(message.payload.get("text")))

    stop = cancelled.is_set if cancelled else lambda: False
    return Job(device, Limits(), Mode.EVAL, Precision.AS_REFERENCE, progress, stop)


class FakeArm:
    """Stands for a process of a mode. `found`: the sizes of the archives that it was given."""

    side = "reference"

    def __init__(self, world: World, mode: str) -> None:
        self.world, self.mode, self.found = world, mode, list[int]()

    def ask(self, kind: str, payload: dict[str, Any], memories: Any = ()) -> dict[str, Any]:
        if kind == "found":
            self.found.append(payload["bytes"])
        if kind == "left":
            return {"bytes": self.world.sizes[self.mode, payload["choices"]]}
        return {"graphs": 1} if kind == "compiled" else {}

    def draw(self, seed: int) -> tuple[Memory, None]:
        return Memory.create(1), None

    def call(self, inputs: Any, timeout: float) -> Memory:
        self.world.call(self.mode)
        return Memory.create(1)

    def close(self) -> None:
        self.world.closed.append(self.mode)


class World(Session):
    """A session of fake arms on a machine with sixteen cores. `calls`: what is done while a mode compiles."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.arms: dict[str, FakeArm] = {}
        self.calls: dict[str, Any] = {}
        self.order: list[str] = []
        self.closed: list[str] = []
        self.forgotten: list[str] = []
        self.sizes = {(mode, choices): 100 + 10 * n + choices for n, mode in enumerate(ALL) for choices in (False, True)}
        monkeypatch.setattr(turns, "compilers", lambda: 4)
        monkeypatch.setattr(ReferencePeer, "start", lambda job, source, compile=None, untimed=False: FakeArm(self, compile))

    def reference(self, job: Job, source: Source, arm: str = "") -> Any:
        return self.arms.setdefault(arm, FakeArm(self, arm))

    def forget(self, job: Job, source: Source, arm: str = "") -> None:
        self.forgotten.append(arm)

    def call(self, mode: str) -> None:
        self.order.append(mode)
        self.calls.get(mode, lambda: None)()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def run(session: Session, on: Job | None = None, modes: tuple[str, ...] = ALL) -> Compiled:
    made = Compiled(on or job("cuda"), Source(text=PRODUCT), session)
    made.run(modes)
    return made


def test_pairs_compile_beside_each_other_and_the_second_of_a_pair_from_what_the_first_left(world: World) -> None:
    together = threading.Barrier(2, timeout=20)
    world.calls["default"] = together.wait  # breaks unless the other pair compiles as well
    prepared = iter([together.wait])
    world.calls["max-autotune-no-cudagraphs"] = lambda: next(prepared, lambda: None)()
    said: list[str] = []
    made = run(world, job("cuda", said=said))
    assert list(made.arms) == list(ALL)
    assert made.errors == {}
    assert made.build_s.keys() == set(ALL)
    assert world.arms["reduce-overhead"].found == [world.sizes["default", True]]
    assert world.arms["max-autotune"].found == [world.sizes["max-autotune-no-cudagraphs", True]]
    assert world.order.index("default") < world.order.index("reduce-overhead")
    assert said[0] == f"compiling the reference with torch.compile ({', '.join(ALL)})"


def test_choices_are_made_with_the_device_alone_by_a_process_that_gets_kernels_and_no_choices(world: World) -> None:
    alone: list[bool] = []

    def look() -> None:
        had = threading.Event()

        def other() -> None:
            with turns.beside(job("cuda")):
                had.set()

        threading.Thread(target=other, daemon=True).start()
        alone.append(not had.wait(0.3))

    world.calls["max-autotune-no-cudagraphs"] = world.calls["max-autotune"] = look
    run(world)
    assert alone == [False, True, False], "the kernels, the choices, the other mode of the pair"
    assert world.arms["max-autotune-no-cudagraphs"].found == [world.sizes["max-autotune-no-cudagraphs", False]]
    assert world.closed == ["max-autotune-no-cudagraphs"], "who compiled the kernels is not who is timed"


def test_a_mode_that_fails_says_why_and_stops_no_other(world: World) -> None:
    def fails() -> None:
        raise ProgramRefused("reference", Refusal(code="crash_forward", sentence="It does not compile."))

    world.calls["default"] = fails
    world.sizes["max-autotune-no-cudagraphs", True] = -1
    made = run(world)
    assert made.errors["default"] == "It does not compile."
    assert "whose size cannot be" in made.errors["max-autotune-no-cudagraphs"]
    assert list(made.arms) == ["reduce-overhead", "max-autotune"]
    assert world.arms["reduce-overhead"].found == []
    assert sorted(world.forgotten) == ["default", "max-autotune-no-cudagraphs"]


def test_a_mode_has_a_share_of_the_tasks_time_and_none_is_chosen_alone_that_did_not_even_compile(world: World) -> None:
    def late() -> None:
        raise ProgramEnded("reference", "timed_out", "The reference did not finish in time.")

    world.calls["max-autotune-no-cudagraphs"] = world.calls["reduce-overhead"] = late
    on = job("cuda")
    on.limits = on.limits.model_copy(update={"wall_s": 300.0})
    made = run(world, on)
    assert list(made.arms) == ["default"]
    assert set(made.errors.values()) == {"torch.compile did not end within 75 s"}
    assert world.order.count("max-autotune-no-cudagraphs") == 1
    assert "max-autotune" not in world.order


def test_cancelling_ends_all_of_them() -> None:
    endless = PRODUCT.replace("return torch.relu", "while True: pass\n        return torch.relu")
    cancelled = threading.Event()
    with Session() as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "compilers", lambda: 2)
        made = Compiled(job(cancelled=cancelled), Source(text=endless), session)
        threading.Timer(3.0, cancelled.set).start()
        began = time.monotonic()
        with pytest.raises(Cancelled):
            made.run(("default", "no-such-mode"))
        assert time.monotonic() - began < 30


def archive(peer: ReferencePeer) -> Kept:
    made = Compiled(peer.job, Source(text=PRODUCT), Session())
    kept: list[Kept] = []
    made._keep(peer, kept)
    return kept[0]


def call(peer: ReferencePeer) -> float:
    return Compiled(peer.job, Source(text=PRODUCT), Session())._called(peer, [])


@pytest.mark.slow
def test_a_mode_finds_the_kernels_of_another_one_and_nobody_else_has_them() -> None:
    """What lies on disk travels whole; a candidate and the eager reference have none of it."""
    source = Source(text=PRODUCT)
    with ReferencePeer.start(job(), source, compile="default") as first:
        cold = call(first)
        kept = archive(first)
    with ReferencePeer.start(job(), source, compile="max-autotune-no-cudagraphs") as second:
        assert second.ask("found", {"bytes": kept.size}, [kept.memory])["files"] > 0
        warm = call(second)
        assert warm < cold / 1.5, (cold, warm)
    kept.close()
    # Whoever is neither: the folders are not there, and what an archive is nobody knows.
    look = "import os\nassert not [n for n in os.listdir('/tmp') if 'inductor' in n or 'triton' in n], os.listdir('/tmp')\n"
    with ReferencePeer.start(job(), Source(text=look + PRODUCT)) as eager:
        assert eager.facts["entry"] == "Model"
    program = look + PRODUCT.replace("class Model(", "class ModelNew(")
    with CandidatePeer.start(job(), {"model_new.py": program}) as candidate:
        candidate.load([])
        with Memory.create(1) as nothing, pytest.raises(ProgramEnded, match="does not answer"):
            candidate.ask("found", {"bytes": 0}, [nothing])


def test_who_compiles_for_others_times_nothing_and_leaves_the_cores_to_whoever_wants_them() -> None:
    """Inside: whether a kernel would be timed, and how the processes are ranked that compile."""
    look = (
        "import os\n"
        "def looked(x):\n"
        "    from torch._inductor.async_compile import AsyncCompile\n"
        "    from torch._inductor.runtime.benchmarking import benchmarker\n"
        "    nice = os.getpriority(os.PRIO_PROCESS, AsyncCompile.process_pool().process.pid)\n"
        "    return x * 0 + nice * 1000 + benchmarker.benchmark_gpu(lambda: 1 / 0)\n"
    )
    program = look + PRODUCT.replace("torch.relu(self.linear(x)).softmax(-1)", "torch.compiler.disable(looked)(self.linear(x))")
    with ReferencePeer.start(job(), Source(text=program), compile="default", untimed=True) as peer:
        drawn = peer.draw(1)
        assert drawn is not None
        call = peer.call(drawn[0])
        assert call.output is not None
        [leaf] = call.output.manifest["leaves"]
        offset = leaf["offset"]
        [seen] = struct.unpack("<f", call.output.memory.read(offset + 4)[offset:])
        assert seen == 19_001.0


@pytest.mark.slow
def test_an_archive_that_leads_out_of_its_folder_ends_the_mode_alone() -> None:
    """The next process takes only what stays in its folders, so a forged archive is at most a mode that fails."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as made:
        member = tarfile.TarInfo("inductor/../../job/reference.py")
        member.size = 1
        made.addfile(member, io.BytesIO(b"x"))
    data = content.getvalue()
    with (
        ReferencePeer.start(job(), Source(text=PRODUCT), compile="default") as peer,
        Memory.of(data) as forged,
        pytest.raises((ProgramRefused, ProgramEnded)),
    ):
        peer.ask("found", {"bytes": len(data)}, [forged])
