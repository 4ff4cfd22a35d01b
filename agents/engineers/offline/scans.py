"""Running sums and products on a GPU, from either end: one pass over memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from agents.engineers.offline.builder import argument
from agents.engineers.offline.costs import Ceilings, eager_pointwise_s
from agents.engineers.offline.emit.host import Call
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.graph import View, is_contiguous, ref, short
from agents.engineers.offline.products import comment_of
from agents.engineers.offline.regions import Region, Written
from gpu_runner.contracts import GraphNode

OPERATIONS = {"cumsum": "Sum", "cumprod": "Product"}
FEWEST_ROWS, FEWEST_COLUMNS = 264, 8192  # below, most of the device would wait for a few
REACHED = 0.92  # of the bandwidth
WORTHWHILE = 0.9  # of eager's time
MOST_SEGMENTS, WIDEST = 4, 4


@dataclass(frozen=True)
class Scan:
    """`group`: the running operation between what turns its operand and its result around, if anything does."""

    source: str
    group: tuple[str, ...]
    operation: str
    rows: int
    length: int
    inner: int
    backwards: bool


def find_scans(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """One region per running sum or product of float32."""
    regions = []
    for node in view.graph.nodes:
        scan = scan_of(view, node)
        if scan is None or any(name in taken for name in scan.group):
            continue
        nbytes = view.tensor(node.name).nbytes
        ours = ceilings.kernel_s + 2 * nbytes / (REACHED * ceilings.bandwidth)
        eager = sum(eager_pointwise_s(view, view.nodes[n], ceilings) for n in scan.group)
        if ours > WORTHWHILE * eager:
            continue
        what = {"cumsum": "sums", "cumprod": "products"}[short(node.target)]
        says = f"running {what} of {scan.rows * scan.inner} rows of {scan.length} numbers{', from the end' * scan.backwards}"
        ops = tuple(short(view.nodes[n].target) for n in scan.group)
        regions.append(Region("running", scan.group, partial(_write, scan=scan, says=says), eager, ours, says, ops))
    return regions


def scan_of(view: View, node: GraphNode) -> Scan | None:
    """None of other nodes, and where the tensors are not dense, or too few rows would share the device."""
    source, result = (ref(argument(node, 0, "")), view.spec(node.name)) if short(node.target) in OPERATIONS else (None, None)
    x = view.spec(source) if source is not None else None
    if source is None or x is None or result is None or node.kwargs.get("dtype") is not None or not x.shape:
        return None
    if any(s.dtype != "float32" or not is_contiguous(s) for s in (x, result)) or not 0 < x.numel < 2**31:
        return None
    dim = argument(node, 1, "dim") % len(x.shape)
    rows, length, inner = math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])
    if (inner == 1 and rows < FEWEST_ROWS) or (inner > 1 and rows * inner < FEWEST_COLUMNS) or length < 2:
        return None
    group: tuple[str, ...] = (node.name,)
    backwards = False
    before, after = view.nodes.get(source), view.users[node.name]
    if before is not None and len(after) == 1 and node.name not in view.returned and view.users[source] == [node.name]:
        turned, back = _turned(view, before, dim), view.nodes[after[0]]
        if turned is not None and _turned(view, back, dim) == node.name and source not in view.returned:
            source, group, backwards = turned, (source, node.name, back.name), True
    return Scan(source, group, OPERATIONS[short(node.target)], rows, length, inner, backwards)


def _turned(view: View, node: GraphNode, dim: int) -> str | None:
    """What a `flip` along that dimension turns around."""
    source = ref(argument(node, 0, ""))
    spec, out = view.spec(source) if source is not None else None, view.spec(node.name)
    if short(node.target) != "flip" or spec is None or out is None or not is_contiguous(spec) or not is_contiguous(out):
        return None
    return source if [d % len(spec.shape) for d in argument(node, 1, "dims")] == [dim] else None


def _write(view: View, name: str, *, scan: Scan, says: str) -> Written:
    out, backwards = Lines(), str(scan.backwards).lower()
    if scan.inner == 1:
        threads = next((t for t in (32, 128) if scan.length <= t * WIDEST * MOST_SEGMENTS), 256)
        segments = min(MOST_SEGMENTS, -(-scan.length // (threads * WIDEST)))
        launch = f"Launch: {scan.rows} blocks of {threads} threads, one for each row."
        kernel = f"scan::rows<scan::{scan.operation}, {threads}, {segments}, {scan.length}, {backwards}"
        lines = [f"{kernel}, 1><<<{scan.rows}, {threads}, 0, stream>>>(x, y);"]
        if scan.length % WIDEST == 0:
            wide = f"{kernel}, {WIDEST}><<<{scan.rows}, {threads}, 0, stream>>>(x, y);"
            lines = [f"if (vectors::aligned<{WIDEST}>(x, y))", f"    {wide}", "else", f"    {lines[0]}"]
    else:
        count = scan.rows * scan.inner
        launch = f"Launch: {-(-count // 256)} blocks; a thread for each column, neighbours on neighbouring columns."
        kernel = f"scan::columns<scan::{scan.operation}, {count}, {scan.length}, {scan.inner}, {backwards}>"
        lines = [f"{kernel}<<<{-(-count // 256)}, 256, 0, stream>>>(x, y);"]
    for text in comment(f"{comment_of(view, scan.group, says)}\n{launch}"):
        out(text)
    out('#include "scan.cuh"\n')
    with out.block(f'extern "C" int {name}(const float* x, float* y, cudaStream_t stream) {{'):
        for line in [*lines, "return int(cudaPeekAtLastError());"]:
            out(line)
    call = Call(name, scan.group, (scan.source,), (scan.group[-1],), says)
    return Written(out.text(), call, ("vectors.cuh", "scan.cuh"), "\n".join(lines))
