"""Everything this engineer knows how to do to a graph, as regions that do not overlap: the specific before the general."""

from __future__ import annotations

from agents.engineers.offline.costs import Ceilings
from agents.engineers.offline.fusions import find_fusions
from agents.engineers.offline.graph import View
from agents.engineers.offline.products import find_products
from agents.engineers.offline.recurrent import find_recurrent
from agents.engineers.offline.regions import Region


def find_regions(view: View, ceilings: Ceilings) -> list[Region]:
    """Regions in the order of their gain, largest first. No node is in two."""
    regions: list[Region] = []
    taken: set[str] = set()
    for finder in (find_recurrent, find_products, find_fusions):
        found = finder(view, ceilings, taken)
        regions += found
        taken |= {n for region in found for n in region.nodes}
    return sorted(regions, key=lambda r: (-r.gain_s, r.key))
