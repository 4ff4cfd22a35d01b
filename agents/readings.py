"""What the Verifier found of a candidate, as judges and rewards read it.

The same words and numbers from a stored run as from the reward service: a judge knows only those that it was trained on.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu_runner.contracts import CheckRow, TimingReport

SHOWN_ROWS = 12  # of a check


def facts(rows: Iterable[CheckRow], timing: TimingReport | None, coverage: float | None) -> list[str]:
    """Readings as sentences: no verdict, no author, no word of either. `coverage`: the share of time in its own kernels."""
    said = [_row(row) for row in rows if not row.not_run][:SHOWN_ROWS]
    if timing and timing.over_eager:
        ratio = timing.over_eager
        said.append(f"Speed over eager: {ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")
    if timing and timing.over_compile:
        said.append(f"Speed over torch.compile: {timing.over_compile.value:.2f}")
    if coverage is not None:
        said.append(f"Share of time in its own kernels: {100 * coverage:.0f} %")
    return said


def agrees(rows: Iterable[CheckRow], verified: bool) -> bool:
    """Do the outputs agree on the inputs that the program declares? As the verdict says where no such row was judged."""
    declared = [row.passed for row in rows if row.group == "declared" and row.passed is not None]
    return all(declared) if declared else verified


def speeds(timing: TimingReport | None) -> dict[str, float | None]:
    """The speed fields of `agents.reward.Inputs`: ratios with their lower bounds, None where nothing is claimed."""
    eager, compiled = (timing.over_eager, timing.over_compile) if timing else (None, None)
    return {
        "speedup": eager.value if eager else None,
        "speedup_low": eager.low if eager else None,
        "speedup_compile": compiled.value if compiled else None,
        "speedup_compile_low": compiled.low if compiled else None,
    }


def times(timing: TimingReport | None) -> dict[str, float | None]:
    """Medians of candidate and eager, in milliseconds."""
    arms = {arm.arm: arm.median_ms for arm in timing.arms} if timing else {}
    return {"ms": arms.get("candidate"), "eager_ms": arms.get("eager")}


def _row(row: CheckRow) -> str:
    return f"{row.name}: {row.value or row.note or 'no reading'}{f' (limit {row.limit})' if row.limit else ''}"
