"""Everything this engineer knows how to do to a program, as regions that do not overlap: the specific before the general.

On a GPU there are up to two ways to write a program: with its tensors laid out as they were captured, and with convolutions on
channels-last tensors. Each way has its own graph and its own regions, and a candidate is written in one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.engineers.offline.attention import find_attention
from agents.engineers.offline.costs import Ceilings, eager_s
from agents.engineers.offline.depthwise import find_depthwise
from agents.engineers.offline.fusions import find_fusions
from agents.engineers.offline.graph import View, short
from agents.engineers.offline.layouts import CONVOLUTIONS, with_biases_apart, with_channels_last
from agents.engineers.offline.padding import with_padding_inside
from agents.engineers.offline.products import find_products
from agents.engineers.offline.recurrent import find_recurrent
from agents.engineers.offline.regions import LAYOUT, REPLAY, Region
from agents.engineers.offline.replay import find_replay
from agents.engineers.offline.rewrites import with_biases_after_cuts, with_gates_apart
from agents.engineers.offline.scans import find_scans
from agents.engineers.offline.split_products import find_split_products
from agents.engineers.offline.statistics import with_statistics_apart
from gpu_runner.contracts import Graph

ON_CPU = (find_recurrent, find_products, find_fusions)
ON_GPU = (find_attention, find_split_products, find_depthwise, find_scans, find_fusions, find_replay)
CHANNELS_LAST = "channels-last/"  # begins the keys of that way's regions


@dataclass(frozen=True)
class Way:
    """A graph and what can be done to it, largest gain first."""

    view: View
    regions: tuple[Region, ...]


def find_ways(graph: Graph, ceilings: Ceilings) -> tuple[Way, ...]:
    """As captured, then channels last where that may pay. The replay of the whole is the same region in both."""
    if ceilings.target == "cpu":
        view = View(graph)
        return (Way(view, tuple(find_regions(view, ceilings))),)
    apart = with_padding_inside(with_biases_apart(with_gates_apart(graph)))
    apart = with_statistics_apart(with_biases_after_cuts(apart))
    first = Way(View(apart), tuple(find_regions(View(apart), ceilings)))
    turned = with_channels_last(apart)
    if turned is None:
        return (first,)
    view = View(turned)
    regions = [r for r in find_regions(view, ceilings) if r.kind != REPLAY]
    for region in regions:
        region.way = CHANNELS_LAST
    names = tuple(n.name for n in turned.nodes if short(n.target) in CONVOLUTIONS)
    convolutions = "its convolution" if len(names) == 1 else f"{len(names)} convolutions"
    says = f"{convolutions} on channels-last tensors, with {len(regions)} kernels of the same layout,"
    whole = Region(
        LAYOUT, names, Region.no_kernel, seconds(first.view, (), ceilings), seconds(view, regions, ceilings), says, ("conv",),
        CHANNELS_LAST,
    )  # fmt: skip
    replay = [r for r in first.regions if r.kind == REPLAY]
    return first, Way(view, (whole, *regions, *replay))


def seconds(view: View, regions: tuple[Region, ...] | list[Region], ceilings: Ceilings) -> float:
    """Of the whole program with kernels for `regions`."""
    done = {name for region in regions for name in region.nodes}
    return sum(r.kernel_s for r in regions) + sum(eager_s(view, n, ceilings) for n in view.graph.nodes if n.name not in done)


def find_regions(view: View, ceilings: Ceilings) -> list[Region]:
    """Regions in the order of their gain, largest first. No node is in two; the replay of the whole is over all."""
    regions: list[Region] = []
    taken: set[str] = set()
    for finder in ON_CPU if ceilings.target == "cpu" else ON_GPU:
        found = finder(view, ceilings, taken)
        regions += found
        taken |= {n for region in found for n in region.nodes}
    return sorted(regions, key=lambda r: (-r.gain_s, r.key))
