"""How far a result may lie from eager's, by dtype and by the precision that both sides may use."""

from __future__ import annotations

from gpu_runner.contracts import Precision, Protocol

TF32_TOLERANCE = 2e-3  # its mantissa rounds to 2^-11; products of two such numbers, added up


def tolerances(protocol: Protocol, precision: Precision, tf32: bool = False) -> dict[str, float]:
    """Relative tolerance by dtype. Where both sides may compute in a lower precision, fp32 results get that precision's;
    `tf32`: parts of the program may be computed in it, though it was not asked for."""
    rtol = dict(protocol.rtol)
    floor = {Precision.BF16: rtol.get("bfloat16", 1.6e-2), Precision.TF32: rtol.get("float16", 1e-2)}.get(precision)
    floor = max(floor or 0.0, TF32_TOLERANCE if tf32 else 0.0)
    for name in ("float32", "complex64"):
        if name in rtol:
            rtol[name] = max(rtol[name], floor)
    return rtol
