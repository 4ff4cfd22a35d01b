"""3 × 3 convolutions of stride 1 by Winograd's algorithm, which needs 16 multiplications where the definition has 36."""

from __future__ import annotations

from agents.engineers.offline.emit.convolution import Form
from agents.engineers.offline.emit.epilogue import Product
from agents.engineers.offline.regions import Written

# Input channels: below, transforming the tiles costs more than it saves; above, a panel of tiles crowds an L2 cache and the rounding
# error nears twice that of the direct sum.
FEWEST, MOST = 16, 128


def emit_winograd(product: Product, form: Form) -> Written:
    """Pointers: x, weight, what `finish` reads, outputs, the transformed weight."""
    x, w = (product.view.tensor(n).shape for n in (product.source, product.weight))
    launch = "Launch: rows of 2 × 2 tiles of all images, one by one to the threads; winograd.h says how a row is done."
    out, tail = product.begin(launch, {"u"}, '"fastmath.h"', '"winograd.h"')
    sizes = ", ".join(map(str, (*x, w[0], *form[1])))
    with out.block(f'extern "C" void {product.name}(const float* x, const float* w, {tail.declared}, float* u) {{'):
        out(f"winograd::Convolution<{sizes}>::run(x, w, {tail.accumulator}, u, {tail.function_object()});")
    return product.end(out, tail, ("fastmath.h", "gemm.h", "winograd.h"), (16 * w[0] * w[1],))
