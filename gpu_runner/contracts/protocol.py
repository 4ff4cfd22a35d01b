"""Named, versioned settings of a verification. A number without its protocol is no number."""

from __future__ import annotations

from gpu_runner.contracts.base import Contract
from gpu_runner.contracts.program import Mode


class Protocol(Contract):
    """All settings that a verdict or a time depends on. Times in seconds, tolerances relative unless said."""

    name: str
    version: int = 4  # of all presets: one more whenever one of them asks or measures something else
    mode: Mode = Mode.EVAL  # of the module, where nobody asks for another
    draws: int = 5  # declared draws, OS-random seeds
    seeds: tuple[int, ...] = ()  # instead of those: anybody can know them
    structured_draws: bool = True
    fresh_process: bool = False  # the same draw in a second process of the candidate
    sanitizers: bool = False  # native sources once more under tools that watch memory
    weight_draws: int = 1
    rtol: dict[str, float] = {"float64": 1e-7, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1.6e-2, "complex64": 1e-4}
    allclose: bool = False  # elements against eager alone, within rtol + rtol·|eager|, in place of the rules over fp64
    signal_error: dict[str, float] = {"float64": 0.01, "float32": 0.01, "float16": 0.05, "bfloat16": 0.05}
    ratio_full: float = 2.0  # RMSE against fp64, in units of eager's own
    ratio_reordered: float = 10.0
    null_candidates: bool = True
    arms: tuple[str, ...] = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
    rounds: int = 10
    samples_per_round: int = 5
    half_width: float = 0.03  # of the ratio: measured on, up to three times the rounds or 20, until its interval is this narrow
    warmup_s: float = 0.2
    arm_budget_s: float = 3.0  # measured time per arm at most; rounds shrink their samples to fit
    confidence: float = 0.95
    faster_ratio: float = 1.05
    second_process: bool = True

    @property
    def id(self) -> str:
        return f"{self.name}/{self.version}"


PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        Protocol(name="strict", sanitizers=True, fresh_process=True),
        # Inside the loop, between candidates: eager and candidate only, fewer rounds, one process.
        Protocol(name="quick", draws=3, structured_draws=False, arms=("eager",), rounds=6, samples_per_round=3,
                 arm_budget_s=1.0, warmup_s=0.1, half_width=0.05, second_process=False),
        # KernelBench's published semantics, for comparison only: the module as constructed (in train mode), five trials under
        # seeds that follow from 42, one set of weights, allclose against eager. Integrity checks and copied weights stay.
        Protocol(name="kernelbench", mode=Mode.AS_CONSTRUCTED, structured_draws=False, weight_draws=0,
                 seeds=(734796314, 576165995, 2197670066, 839703249, 2584932063), allclose=True, signal_error={},
                 arms=("eager", "default"), rounds=10, samples_per_round=10, second_process=False,
                 rtol={"float64": 1e-4, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2, "complex64": 1e-4}),
    )
}  # fmt: skip
