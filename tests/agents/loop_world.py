"""A run's world for tests: an initial state, reports of every kind, and hands that play what they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from agents.blobs import MemoryBlobs
from agents.engineers import register
from agents.engineers.scripted import Scripted
from agents.state import BlobStore, Budget, Options, State, Todo
from gpu_runner.contracts import (
    PROTOCOLS,
    Analysis,
    ArmTiming,
    BuildReport,
    CheckReport,
    CheckRow,
    DeviceInfo,
    Interval,
    ProfileReport,
    Progress,
    Replay,
    Report,
    Speed,
    Task,
    TensorSpec,
    TimingReport,
    Verdict,
)

SOURCE = "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
_names = count(1)


def scripted_name(engineer: Scripted) -> str:
    """Registers a scripted engineer under a name of its own."""
    name = f"scripted-{next(_names)}"
    register(name, lambda: engineer)
    return name


def options(engineer: str = "scripted", **more: object) -> Options:
    budget = more.pop("budget", Budget(wall_s=None))
    return Options(planner=engineer, coder=engineer, verifier=engineer, protocol=PROTOCOLS["strict"], budget=budget, **more)


def new_state(chosen: Options | None = None, blobs: BlobStore | None = None) -> State:
    blobs = blobs or MemoryBlobs()
    return State(run="r1", name="example.py", source=blobs.put(SOURCE.encode()), options=chosen or options())


def todo(todo_id: str = "", title: str = "Fuse the chain", **more: object) -> Todo:
    return Todo(id=todo_id, kind="fuse", title=title, predicted=1.5, **more)


def program(text: str) -> dict[str, str]:
    return {"model_new.py": f"# {text}\nclass ModelNew:\n    made = {text!r}\n", "kernels/k.cpp": f"// {text}\n"}


def interval(value: float, spread: float = 0.02) -> Interval:
    return Interval(value=value, low=value * (1 - spread), high=value * (1 + spread))


def arm(name: str, ms: float) -> ArmTiming:
    return ArmTiming(
        arm=name, median_ms=ms, low_ms=ms * 0.98, high_ms=ms * 1.02, p10_ms=ms * 0.97, p90_ms=ms * 1.05, samples=48,
        rounds=(ms, ms * 1.01),
    )  # fmt: skip


def timing(speedup: float, spread: float = 0.02, compile_ms: float | None = None, **more: object) -> TimingReport:
    arms = [arm("eager", 10.0), arm("candidate", 10.0 / speedup)]
    if compile_ms is not None:
        arms.append(arm("default", compile_ms))
        more["over_compile"] = interval(compile_ms * speedup / 10.0, spread)
    over = interval(speedup, spread)
    faster = speedup >= 1.05 and over.low > 1
    return TimingReport(
        arms=tuple(arms), over_eager=over, over_baseline=over, noise=0.01, device=DEVICE,
        speed=Speed.FASTER if faster else Speed.NOT_DISTINGUISHABLE, **more,
    )  # fmt: skip


def baselines() -> TimingReport:
    """A timing of the reference alone: eager, and what torch.compile makes of it."""
    arms = arm("eager", 10.0), arm("default", 8.0)
    return TimingReport(arms=arms, baseline="default", speed=Speed.SLOWER, noise=0.01, device=DEVICE)


DEVICE = DeviceInfo(kind="cpu", name="A test machine", target="cpu", cores=2, torch="2.13.0", sandbox="bubblewrap")


def check(verdict: Verdict = Verdict.VERIFIED, **more: object) -> CheckReport:
    row = CheckRow(group="declared", name="draw 1", value="1e-6", limit="1e-4", passed=verdict is Verdict.VERIFIED)
    row = row.model_copy(update={"replay": Replay(name=row.name, group="declared", seed=1)})
    return CheckReport(verdict=verdict, rows=(row,), coverage=0.9, device=DEVICE, **more)


def analysis(**more: object) -> Analysis:
    spec = TensorSpec(shape=(64, 128), dtype="float32", stride=(128, 1))
    return Analysis(entry="Model", inputs=(spec,), outputs=(spec,), eager_ms=10.0, device=DEVICE, **more)


def profile(role: str = "candidate") -> ProfileReport:
    return ProfileReport(role=role, status="measured", summary={}, coverage=0.9, finding="Memory-bound: 80 % of the roof.")


Answer = Report | Exception


class FakeHands:
    """Plays a list of answers per kind of task; the last one again and again. Keeps the tasks it was given."""

    def __init__(self, **answers: Answer | Iterable[Answer]) -> None:
        given: dict[str, Answer | Iterable[Answer]] = {
            "analyse": analysis(),
            "build": BuildReport(ok=True, artifact="a" * 64, log="built\n"),
            "check": check(),
            "time": timing(1.5),
            "profile": profile(),
        }
        given |= answers
        self._answers = {
            kind: [answer] if isinstance(answer, Exception) or hasattr(answer, "kind") else list(answer)
            for kind, answer in given.items()
        }
        self.tasks: list[Task] = []

    def perform(
        self,
        task: Task,
        progress: Callable[[Progress], None] = lambda p: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Report:
        self.tasks.append(task)
        progress(Progress(kind="stage", payload={"text": f"Doing {task.kind}"}))
        progress(Progress(kind="log", payload={"stream": "build", "text": f"{task.kind} line\n"}))
        answers = self._answers[task.kind]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer
