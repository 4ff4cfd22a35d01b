"""How far a result may be off: the protocol's word, widened where both sides may compute in less."""

from __future__ import annotations

from gpu_runner.contracts import PROTOCOLS, Precision
from gpu_runner.tolerances import TF32_TOLERANCE, tolerances

STRICT = PROTOCOLS["strict"]


def test_as_in_the_reference_the_protocols_own_hold() -> None:
    assert tolerances(STRICT, Precision.AS_REFERENCE) == STRICT.rtol


def test_where_the_library_may_use_tf32_only_single_precision_is_widened() -> None:
    allowed = tolerances(STRICT, Precision.AS_REFERENCE, tf32=True)
    assert allowed["float32"] == TF32_TOLERANCE > STRICT.rtol["float32"]
    assert {k: v for k, v in allowed.items() if k not in ("float32", "complex64")} == {
        k: v for k, v in STRICT.rtol.items() if k not in ("float32", "complex64")
    }


def test_a_precision_that_was_asked_for_is_never_narrowed() -> None:
    for precision in (Precision.TF32, Precision.BF16):
        assert tolerances(STRICT, precision, tf32=True) == tolerances(STRICT, precision)
