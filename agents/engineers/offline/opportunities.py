"""Everything this engineer knows how to do to a graph, as regions that do not overlap: the specific before the general."""

from __future__ import annotations

from agents.engineers.offline.costs import Ceilings
from agents.engineers.offline.fusions import find_fusions
from agents.engineers.offline.graph import View
from agents.engineers.offline.products import find_products
from agents.engineers.offline.recurrent import find_recurrent
from agents.engineers.offline.regions import Region
from agents.engineers.offline.replay import find_replay
from agents.engineers.offline.split_products import find_split_products

ON_CPU = (find_recurrent, find_products, find_fusions)
ON_GPU = (find_split_products, find_fusions, find_replay)


def find_regions(view: View, ceilings: Ceilings) -> list[Region]:
    """Regions in the order of their gain, largest first. No node is in two; the replay of the whole is over all."""
    regions: list[Region] = []
    taken: set[str] = set()
    for finder in ON_CPU if ceilings.target == "cpu" else ON_GPU:
        found = finder(view, ceilings, taken)
        regions += found
        taken |= {n for region in found for n in region.nodes}
    return sorted(regions, key=lambda r: (-r.gain_s, r.key))
