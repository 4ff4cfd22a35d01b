"""A linear layer and what follows it: panels of the weight are packed once, blocks of the result are finished in cache."""

from __future__ import annotations

from agents.engineers.offline.emit.epilogue import Epilogue
from agents.engineers.offline.emit.host import Call
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.graph import View
from agents.engineers.offline.ir import Nest
from agents.engineers.offline.regions import Written

WIDEST = 32  # columns of a packed panel at most (gemm.h: NR)


def emit_linear(
    view: View,
    name: str,
    nest: Nest,
    nodes: tuple[str, ...],
    source: str,
    weight: str,
    sizes: tuple[int, int, int],
    about: str,
    says: str,
) -> Written:
    """x[M,K] W[N,K]ᵀ and its epilogue. Pointers: x, weight, what `finish` reads, outputs, the packed weight."""
    m, n, k = sizes
    tail = Epilogue(nest, view, {"x", "w", "packed"})
    out = Lines()
    launch = (
        f"Launch: the threads pack the {n} × {k} weight into panels, then take blocks of the {m} × {n} result one by one, so that a "
        "slow thread takes fewer."
    )
    for line in comment(f"{about}\n{launch}"):
        out(line)
    out('#include "fastmath.h"\n#include "linear.h"\n')
    out(tail.function())
    with out.block(f'extern "C" void {name}(const float* x, const float* w, {tail.declared}, float* packed) {{'):
        out(f"linear::product({m}, {n}, {k}, x, w, {tail.accumulator}, packed, {tail.function_object()});")
    call = Call(name, nodes, (source, weight, *tail.reads), tail.writes, says, (-(-n // WIDEST) * WIDEST * k,))
    return Written(out.text(), call, ("fastmath.h", "gemm.h", "linear.h"))
