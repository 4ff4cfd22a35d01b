"""A linear layer and what follows it: panels of the weight are packed once, blocks of the result are finished in cache."""

from __future__ import annotations

from agents.engineers.offline.emit.epilogue import Product
from agents.engineers.offline.regions import Written

WIDEST = 32  # columns of a packed panel at most (gemm.h: NR)


def emit_linear(product: Product, sizes: tuple[int, int, int]) -> Written:
    """x[M,K] W[N,K]ᵀ and its epilogue. Pointers: x, weight, what `finish` reads, outputs, the packed weight."""
    m, n, k = sizes
    launch = (
        f"Launch: the threads pack the {n} × {k} weight into panels, then take blocks of the {m} × {n} result one by one, so that a "
        "slow thread takes fewer."
    )
    out, tail = product.begin(launch, {"packed"}, '"fastmath.h"', '"linear.h"')
    with out.block(f'extern "C" void {product.name}(const float* x, const float* w, {tail.declared}, float* packed) {{'):
        out(f"linear::product({m}, {n}, {k}, x, w, {tail.accumulator}, packed, {tail.function_object()});")
    return product.end(out, tail, ("fastmath.h", "gemm.h", "linear.h"), (-(-n // WIDEST) * WIDEST * k,))
