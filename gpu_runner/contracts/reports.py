"""What the hands measured. Numbers only; the words over them are `contracts.words`."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from gpu_runner.contracts.base import Contract
from gpu_runner.contracts.graph import Graph, TensorSpec
from gpu_runner.contracts.words import HackClass, Label, Speed, Verdict


class Interval(Contract):
    """A ratio or time with its two-sided bounds. `value` is the median."""

    value: float
    low: float
    high: float


def _has_logarithm(ratio: Interval) -> Interval:
    if not all(0.0 < bound < math.inf for bound in (ratio.value, ratio.low, ratio.high)):
        raise ValueError("a ratio and its bounds are above zero and finite")
    return ratio


# Whoever sends a report may say what they like, and means over many of them are made of logarithms.
Ratio = Annotated[Interval, AfterValidator(_has_logarithm)]
Milliseconds = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class DeviceInfo(Contract):
    """Where a number was measured. Rates in bytes/s and FLOP/s, measured on this device, None where not."""

    kind: Literal["cpu", "gpu"]
    name: str
    target: str
    cores: int | None = None
    memory_mib: int | None = None
    torch: str = ""
    driver: str = ""
    runtime: str = ""
    compiler: str = ""
    bandwidth_bps: float | None = None
    peak_flops: float | None = None  # of a product in float32
    float16_flops: float | None = None
    bfloat16_flops: float | None = None
    sandbox: str = ""  # bubblewrap | landlock | unsafe


class Refusal(Contract):
    """Why something cannot be worked on: a code for machines, a sentence and a way out for people."""

    code: str
    sentence: str
    way_out: str = ""
    line: int | None = None
    log: str = ""


class OpCount(Contract):
    """One kind of operation of the reference. `time_ns` is its share of one eager forward under the profiler."""

    op: str
    count: int
    flops: int = 0
    bytes: int = 0
    time_ns: int = 0


class Analysis(Contract):
    """What the reference is. `refusal` is set exactly when no run is possible.

    `flops` and `bytes` count one forward (bytes: each input, parameter and result once). `nulls` names the trivial programs
    whose answer already passes; if there are any, the program is degenerate and no speed is claimed on it.
    """

    kind: Literal["analysis"] = "analysis"
    refusal: Refusal | None = None
    entry: str = ""
    init_inputs: Any = None
    inputs: tuple[TensorSpec | None, ...] = ()
    input_literals: tuple[Any, ...] = ()  # positions that are not tensors, as JSON; None for tensors
    outputs: tuple[TensorSpec | None, ...] = ()
    output_tree: Any = "*"
    parameters: int = 0
    parameter_bytes: int = 0
    buffers: int = 0
    ops: tuple[OpCount, ...] = ()
    flops: int = 0
    bytes: int = 0
    eager_ms: float | None = None
    deterministic: bool = True
    inputs_constant: bool = False
    mutates_inputs: bool = False
    nulls: tuple[str, ...] = ()
    null_cause: str = ""  # the op that makes a null pass, where it is known
    other_batch: bool | None = None
    graph: Graph | None = None
    graph_reason: str = ""  # why there is no graph
    labels: tuple[Label, ...] = ()
    warnings: tuple[str, ...] = ()
    device: DeviceInfo | None = None
    wall_s: float = 0.0


class BuildReport(Contract):
    """`artifact` is the content address of the library in this runner's build cache; empty when there was nothing to build."""

    kind: Literal["build"] = "build"
    ok: bool
    verdict: Verdict | None = None  # build-failed or timed-out when not ok
    artifact: str = ""
    cached: bool = False
    command: tuple[str, ...] = ()
    log: str = ""  # at most 16 kB, head and tail
    diagnostics: tuple[str, ...] = ()  # the first errors, one a line, "file:line: message"
    seconds: float = 0.0
    size: int = 0
    kernels: tuple[str, ...] = ()  # of CUDA, as the library registers them
    device: DeviceInfo | None = None


class Library(Contract):
    """A built library that another host may use in place of a build of its own: the digest of its bytes, and the report of its
    build, whose `artifact` says what it was made from and with."""

    sha256: str
    report: BuildReport


class Replay(Contract):
    """What is needed to make one draw of a check again: the same inputs, weights and memory, compared in the same way.

    `weights_seed` None: as constructed. `before`: the seed of the draw before, whose memory the inputs were written into where
    `storage` is "same". `slack`: eager's largest error of each result on other draws, where it stood in for a slow fp64 truth.
    `signals`: what the inputs change in each result, which takes several draws to know; empty where it was not known yet.
    """

    name: str
    group: Literal["declared", "structured"]
    seed: int
    variant: str = ""
    weights_seed: int | None = None
    storage: Literal["fresh", "same"] = "fresh"
    before: int | None = None
    slack: tuple[float, ...] = ()
    signals: tuple[float | None, ...] = ()


class CheckRow(Contract):
    """One line of the check matrix: what was tried, what was seen, the limit.

    `passed` None with a value: information that decides nothing; without a value: not run, and `note` says why. `replay` is
    there for draws: `CheckTask.replay` takes it. `numbers` is a digest of all that the judge measured on the draw: a replay
    with the same digest has the same errors to the bit, also where the shown value is rounded.
    """

    group: Literal["declared", "structured", "numerics", "state", "honesty", "reach"]
    name: str
    value: str = ""
    limit: str = ""
    passed: bool | None = None
    note: str = ""
    replay: Replay | None = None
    numbers: str = ""

    @property
    def seed(self) -> int | None:
        return self.replay.seed if self.replay else None

    @property
    def not_run(self) -> bool:
        return self.passed is None and not self.value


class CheckReport(Contract):
    """The verdict about correctness, and every row it rests on.

    `error_ratio`: RMSE against an fp64 reference over eager's own, the largest over draws. `signal_error`: the same RMSE over
    what the input changes. `coverage`: share of a forward's time spent in the candidate's own kernels, 0..1, None where not
    measured. `hack`: the kind of cheat that a rejection looks like; only the verdict `hack` calls it proven. `suspects`: kinds
    that something in the text or the process hints at, whatever the verdict; a reason to look, never one to reject.
    """

    kind: Literal["check"] = "check"
    verdict: Verdict
    hack: HackClass | None = None
    suspects: tuple[HackClass, ...] = ()
    sentence: str = ""
    rows: tuple[CheckRow, ...] = ()
    labels: tuple[Label, ...] = ()
    error_ratio: float | None = None
    signal_error: float | None = None
    coverage: float | None = None
    log: str = ""
    protocol: str = ""
    sanitizers_s: float | None = None  # of `seconds`: what the sanitizers took, building included
    evidence: dict[str, Any] | None = None  # where the task asked for it: every number that the verdict is made of
    device: DeviceInfo | None = None
    seconds: float = 0.0


class ArmTiming(Contract):
    """One arm. Times in milliseconds per call; `rounds` holds the median of each round, in the order measured."""

    arm: str  # eager | default | reduce-overhead | max-autotune | max-autotune-no-cudagraphs | candidate
    median_ms: Milliseconds
    low_ms: Milliseconds
    high_ms: Milliseconds
    p10_ms: Milliseconds
    p90_ms: Milliseconds
    samples: int
    rounds: tuple[Milliseconds, ...] = ()
    build_s: float | None = None  # how long torch.compile took


class TimingReport(Contract):
    """Arms measured side by side. `baseline` is the fastest correct arm; `speed` is against it, and so is `over_baseline`."""

    kind: Literal["timing"] = "timing"
    arms: tuple[ArmTiming, ...] = ()
    errors: dict[str, str] = {}  # arm: why it has no number
    baseline: str = "eager"
    speed: Speed = Speed.NOT_CLAIMED
    over_eager: Ratio | None = None
    over_compile: Ratio | None = None
    over_baseline: Ratio | None = None
    noise: float | None = None  # how far eager and candidate lie apart by noise alone, 0.01 = 1 %
    floor_ms: float | None = None
    second_process_ms: float | None = None
    verdict: Verdict | None = None  # set when an output of a timed call was wrong, the time was forged, or a side crashed
    hack: HackClass | None = None
    sentence: str = ""
    labels: tuple[Label, ...] = ()
    facts: dict[str, Any] = {}  # samples, clocks, load: what the page shows as "measured with"
    protocol: str = ""
    evidence: dict[str, Any] | None = None
    device: DeviceInfo | None = None
    seconds: float = 0.0


class ProfileReport(Contract):
    """A ProfileSummary (schema `stitchweb.profile/1`, documented in docs/profiling.md) and the sentence over it.

    `cached`: it was measured before, on the same device under the same versions.
    """

    kind: Literal["profile"] = "profile"
    role: Literal["reference", "candidate"]
    status: Literal["measured", "estimated", "unavailable"]
    reason: str = ""
    summary: dict[str, Any] | None = None
    coverage: float | None = None
    finding: str = ""
    cached: bool = False
    device: DeviceInfo | None = None
    seconds: float = 0.0


Report = Annotated[Analysis | BuildReport | CheckReport | TimingReport | ProfileReport, Field(discriminator="kind")]
