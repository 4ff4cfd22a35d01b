"""3 × 3 convolutions of stride 1 by Winograd's algorithm, which needs 16 multiplications where the definition has 36."""

from __future__ import annotations

from agents.engineers.offline.emit.convolution import Form
from agents.engineers.offline.emit.epilogue import Epilogue
from agents.engineers.offline.emit.host import Call
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.graph import View
from agents.engineers.offline.ir import Nest
from agents.engineers.offline.regions import Written

# Input channels: below, transforming the tiles costs more than it saves; above, a panel of tiles no longer stays in an L2 cache.
FEWEST, MOST = 16, 256


def emit_winograd(
    view: View,
    name: str,
    nest: Nest,
    nodes: tuple[str, ...],
    source: str,
    weight: str,
    form: Form,
    about: str,
    says: str,
) -> Written:
    """Pointers: x, weight, what `finish` reads, outputs, the transformed weight."""
    x, w = view.tensor(source).shape, view.tensor(weight).shape
    tail = Epilogue(nest, view, {"x", "w", "u"})
    out = Lines()
    launch = "Launch: rows of 2 × 2 tiles of all images, one by one to the threads; winograd.h says how a row is done."
    for line in comment(f"{about}\n{launch}"):
        out(line)
    out('#include "fastmath.h"\n#include "winograd.h"\n')
    out(tail.function())
    sizes = ", ".join(map(str, (*x, w[0], *form[1])))
    with out.block(f'extern "C" void {name}(const float* x, const float* w, {tail.declared}, float* u) {{'):
        out(f"winograd::Convolution<{sizes}>::run(x, w, {tail.accumulator}, u, {tail.function_object()});")
    call = Call(name, nodes, (source, weight, *tail.reads), tail.writes, says, (16 * w[0] * w[1],))
    return Written(out.text(), call, ("fastmath.h", "gemm.h", "winograd.h"))
