"""The words of a verdict: a class, its share and ceiling, evidence that names the part of a picture where it is seen."""

from __future__ import annotations

from typing import Any

from gpu_runner.profile.advice import ceiling


def fact(
    metric: str, value: float, unit: str, threshold: float | None, shown_in: str = "", status: str = "measured"
) -> dict[str, Any]:
    """One row of evidence. `shown_in`: picture and part, as `causes:sync`; `status`: measured or estimated."""
    return {"metric": metric, "value": value, "unit": unit, "threshold": threshold, "shown_in": shown_in, "status": status}


def verdict(
    scope: str,
    klass: str,
    sentence: str,
    *,
    share: float | None = None,
    confidence: str = "medium",
    evidence: list[dict[str, Any]] | None = None,
    suggestions: tuple[str, ...] | list[str] = (),
    kernel: str = "",
    saved: float | None = None,
) -> dict[str, Any]:
    """`share`: per cent of the wall time that the class is about; `saved`: what of it could go, all by default."""
    found = {
        "scope": scope, "class": klass, "sentence": sentence, "share_pct": share,
        "ceiling": ceiling(share if saved is None else saved), "confidence": confidence, "evidence": evidence or [],
        "suggestions": list(suggestions),
    }  # fmt: skip
    return {**found, "kernel": kernel} if kernel else found
