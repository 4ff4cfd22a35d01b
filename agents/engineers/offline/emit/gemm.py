"""A linear layer and what follows it: panels of the weight are packed once, blocks of the result are finished in cache."""

from __future__ import annotations

from agents.engineers.offline.emit.epilogue import Epilogue
from agents.engineers.offline.emit.host import Call
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.graph import View
from agents.engineers.offline.ir import Nest
from agents.engineers.offline.regions import Written

ROWS, PANELS = 96, 16  # a block of the result: 96 rows × 256 columns, 96 kB of float32 in an L2 cache of 512 kB


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
    tail = Epilogue(nest, lambda t: _dtype(view, t), {"x", "w", "packed", "M", "N", "K"})
    parameters = tail.parameters()
    out = Lines()
    launch = (
        f"Launch: the threads pack the {n} × {k} weight into panels of 16 columns, then take blocks of up to {ROWS} × {16 * PANELS} "
        "numbers of the result one by one, so that a slow thread takes fewer."
    )
    for line in comment(f"{about}\n{launch}"):
        out(line)
    out('#include "fastmath.h"\n#include "gemm.h"\n')
    out(tail.function())
    pointers = ", ".join(f"{kind} {label}" for _, kind, label in parameters)
    with out.block(f'extern "C" void {name}(const float* x, const float* w, {pointers}, float* packed) {{'):
        out(f"constexpr long M = {m}, N = {n}, K = {k}, PANELS = {-(-n // 16)};")
        out("using namespace gemm;")
        with out.block("#pragma omp parallel\n    {"):
            out("#pragma omp for schedule(static)")
            with out.block("for (long q = 0; q < PANELS; ++q)", ""), out.block("for (long p = 0; p < K; p += KC)", ""):
                out("pack_transposed(w, K, N, q * NR, p, least(K - p, KC), packed + q * NR * K + p * NR);")
            out("#pragma omp for schedule(dynamic) collapse(2)")
            out(f"for (long i = 0; i < M; i += {ROWS}) {{")
            out.depth += 1
            out(f"for (long q0 = 0; q0 < PANELS; q0 += {PANELS}) {{")
            out.depth += 1
            out(f"const long rows = least(M - i, {ROWS}), q1 = least(q0 + {PANELS}, PANELS);")
            with out.block("for (long p = 0; p < K; p += KC)", ""), out.block("for (long q = q0; q < q1; ++q)", ""):
                out("strip(rows, x + i * K + p, K, packed + q * NR * K + p * NR, least(K - p, KC),")
                out(f"      {tail.accumulator} + i * N + q * NR, N, least(N - q * NR, NR), p > 0);")
            arguments = ", ".join(label for _, _, label in parameters)
            out(f"finish(i, i + rows, q0 * NR, least(q1 * NR, N), {arguments});")
            out.depth -= 1
            out("}")
            out.depth -= 1
            out("}")
    inputs = (source, weight, *tail.reads)
    outputs = tuple(s.name for s in nest.stores)
    return Written(out.text(), Call(name, nodes, inputs, outputs, says, (-(-n // 16) * 16 * k,)), ("fastmath.h", "gemm.h"))


def _dtype(view: View, name: str) -> str:
    spec = view.spec(name)
    assert spec is not None
    return spec.dtype
