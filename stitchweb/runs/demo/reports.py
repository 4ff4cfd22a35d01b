"""Invented reports of the hands. The numbers hang together; none was measured."""

from __future__ import annotations

import random
from typing import Any

from gpu_runner.contracts import (
    Analysis,
    ArmTiming,
    BuildReport,
    CheckReport,
    CheckRow,
    DeviceInfo,
    HackClass,
    Interval,
    Label,
    OpCount,
    ProfileReport,
    Refusal,
    Speed,
    TensorSpec,
    TimingReport,
    Verdict,
)
from gpu_runner.profile.cpu import Work
from stitchweb.runs.demo.profiles import Call, summary

DEVICE = DeviceInfo(
    kind="cpu", name="Synthetic 2-core machine", target="cpu", cores=2, memory_mib=24576, torch="2.13.0",
    compiler="g++ 12.2.0", bandwidth_bps=21.4e9, peak_flops=118e9, sandbox="bubblewrap",
)  # fmt: skip
EAGER_MS = 4.4
FLOOR_MS = 1.57
SHAPE = (8, 512, 1024)
_BYTES = 2 * 4 * 8 * 512 * 1024


def analysis(refusal: Refusal | None = None, nulls: tuple[str, ...] = ()) -> Analysis:
    spec = TensorSpec(shape=SHAPE, dtype="float32", stride=(512 * 1024, 1024, 1))
    if refusal:
        return Analysis(refusal=refusal, device=DEVICE, wall_s=2.0)
    return Analysis(
        entry="Model", init_inputs=[1024], inputs=(spec,), input_literals=(None,), outputs=(spec,), parameters=2048,
        parameter_bytes=8192, flops=62_914_560, bytes=_BYTES, eager_ms=EAGER_MS,
        nulls=nulls, null_cause="aten.mul" if nulls else "",
        labels=(Label.DEGENERATE,) if nulls else (), other_batch=True, device=DEVICE, wall_s=3.1,
        ops=(OpCount(op="aten.gelu", count=1, flops=33_554_432, bytes=_BYTES, time_ns=2_410_000),
             OpCount(op="aten.native_layer_norm", count=1, flops=29_360_128, bytes=_BYTES, time_ns=1_930_000)),
    )  # fmt: skip


def build(ok: bool) -> BuildReport:
    command = ("g++", "-O3", "-march=native", "-fopenmp", "-shared", "kernels/fused.cpp")
    if ok:
        log = "kernels/fused.cpp:9: note: loop vectorized using 32 byte vectors\n"
        return BuildReport(ok=True, artifact="0" * 64, command=command, log=log, seconds=1.8, size=16_384, device=DEVICE)
    error = "kernels/fused.cpp:12:35: error: 'rstd' was not declared in this scope"
    return BuildReport(
        ok=False,
        verdict=Verdict.BUILD_FAILED,
        command=command,
        log=error + "\n",
        diagnostics=(error,),
        seconds=0.9,
        device=DEVICE,
    )


def rows(verdict: Verdict) -> tuple[CheckRow, ...]:
    """The check matrix; one row fails when the verdict is a failure."""
    good = verdict is Verdict.VERIFIED
    fails = {Verdict.INCORRECT: "draw 3", Verdict.INPUT_SPECIALISED: "heavy-tailed, 100×", Verdict.HACK: "own share of time"}
    plan: list[tuple[str, str, str, str]] = [
        *(("declared", f"draw {i}", f"2.{i}e-7", "1e-4") for i in range(1, 6)),
        ("structured", "heavy-tailed, 100×", "6.8e-7", "1e-4"),
        ("structured", "piecewise constant", "3.1e-7", "1e-4"),
        ("numerics", "error ratio to fp64", "0.9", "2.0"),
        ("numerics", "NaN and Inf positions", "equal", "equal"),
        ("state", "same buffer, new data", "2.2e-7", "1e-4"),
        ("state", "inputs unchanged", "0 B", "0 B"),
        ("honesty", "null candidates refused", "7", "7"),
        ("honesty", "own share of time", "98.7 %", "≥ 50 %"),
    ]
    made = [CheckRow(group=g, name=n, value=v, limit=limit, passed=True) for g, n, v, limit in plan]  # type: ignore[arg-type]
    if not good and verdict in fails:
        made = [
            row.model_copy(update={"passed": False, "value": "0.31" if row.group != "honesty" else "1.2 %"})
            if row.name == fails[verdict]
            else row
            for row in made
        ]
    made.append(CheckRow(group="reach", name="other batch size", passed=None, note="the reference takes one size only"))
    return tuple(made)


def check(verdict: Verdict, hack: HackClass | None, protocol: str) -> CheckReport:
    sentences = {
        Verdict.VERIFIED: "Every draw agrees with the fp64 reference as closely as eager does.",
        Verdict.INCORRECT: "Draw 3 differs by 0.31 where 1e-4 is allowed.",
        Verdict.INPUT_SPECIALISED: "It is right on the declared inputs and wrong on heavy-tailed ones.",
        Verdict.HACK: "The reference's own operators do the work; its kernels take 1.2 % of the time.",
        Verdict.CRASHED: "The candidate ended with signal 11 in draw 1.",
    }
    return CheckReport(
        verdict=verdict, hack=hack, sentence=sentences.get(verdict, ""), rows=rows(verdict),
        error_ratio=0.9, signal_error=2.9e-7, coverage=0.987 if verdict is Verdict.VERIFIED else None,
        labels=(Label.FULL_PRECISION,) if verdict is Verdict.VERIFIED else (), protocol=protocol, device=DEVICE, seconds=4.1,
    )  # fmt: skip


def arm(name: str, ms: float, chance: random.Random) -> ArmTiming:
    rounds = tuple(round(ms * (1 + chance.gauss(0, 0.008)), 4) for _ in range(10))
    return ArmTiming(
        arm=name, median_ms=ms, low_ms=ms * 0.99, high_ms=ms * 1.01, p10_ms=ms * 0.98, p90_ms=ms * 1.04, samples=100,
        rounds=rounds, build_s=None if name in ("eager", "candidate") else 11.3,
    )  # fmt: skip


def timing(speedup: float, full: bool, protocol: str, chance: random.Random) -> TimingReport:
    """`full`: with the compile arms, as a confirmation has them."""
    ms = EAGER_MS / speedup

    def over(value: float) -> Interval:
        return Interval(value=value, low=value * 0.975, high=value * 1.025)

    more: dict[str, Any] = {
        "arms": (arm("eager", EAGER_MS, chance), arm("candidate", ms, chance)),
        "over_baseline": over(speedup),
    }
    if full:
        compiled = EAGER_MS / 1.42
        arms = (arm("eager", EAGER_MS, chance), arm("default", compiled, chance), arm("max-autotune", compiled * 1.04, chance))
        more = {
            "arms": (*arms, arm("candidate", ms, chance)),
            "errors": {"reduce-overhead": "the same as default on a CPU, where there are no CUDA graphs"},
            "baseline": "default",
            "over_compile": over(compiled / ms),
            "over_baseline": over(compiled / ms),
            "second_process_ms": ms * 1.006,
        }
    claim = more["over_baseline"]
    speed = (
        Speed.FASTER if claim.value >= 1.05 and claim.low > 1 else Speed.SLOWER if claim.high < 1 else Speed.NOT_DISTINGUISHABLE
    )
    return TimingReport(
        over_eager=over(speedup), speed=speed, noise=0.011, floor_ms=FLOOR_MS, protocol=protocol, device=DEVICE, seconds=3.1,
        facts={"load_average": 0.4}, **more,
    )  # fmt: skip


def profile(role: str, speedup: float) -> ProfileReport:
    """Of the reference, or of a candidate that is so much faster."""
    total = int(EAGER_MS / speedup * 1e6)
    empty = Call("aten::empty", 6_000)
    if role == "candidate":
        calls = [Call("aten::empty_like", 11_000, (empty,)), Call("own:fused_rows", total - 40_000)]
    else:
        norm = Call("aten::native_layer_norm", 1_926_000, (empty, Call("aten::view", 3_000)))
        calls = [
            Call("aten::layer_norm", 1_934_000, (norm,)),
            Call("aten::gelu", 2_410_000, (Call("aten::empty_like", 11_000, (empty,)),)),
        ]
    told, coverage = summary(role, calls, DEVICE, Work(62_914_560, _BYTES))
    return ProfileReport(
        role="candidate" if role == "candidate" else "reference", status="measured", summary=told,
        finding=told["verdict"]["sentence"], coverage=coverage, device=DEVICE, seconds=2.2,
    )  # fmt: skip
