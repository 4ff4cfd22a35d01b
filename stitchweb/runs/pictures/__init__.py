"""Pictures of a profile as server-made SVG: where the time goes, what the GPU waited for, how near a kernel is to its limits.

Pure functions over summaries (`stitchweb.profile/1`): nothing here reads a database or a blob. Geometry is attributes in percent,
colours and patterns are classes of `pictures.css`, tooltips are titles, zoom and sorting are links. Every picture carries the rows
of a table that says the same, for readers that see no picture. Names are hostile and only ever text.
"""

from stitchweb.runs.pictures.causes import causes
from stitchweb.runs.pictures.changes import changes
from stitchweb.runs.pictures.flame import flame
from stitchweb.runs.pictures.kernels import KernelTable, kernel_table
from stitchweb.runs.pictures.limits import occupancy, speed_of_light, stalls
from stitchweb.runs.pictures.ops import PlainTable, plain_tables
from stitchweb.runs.pictures.part import Picture, anchor
from stitchweb.runs.pictures.roof import Point, points_of, roof
from stitchweb.runs.pictures.timeline import timeline

__all__ = [
    "KernelTable",
    "Picture",
    "PlainTable",
    "Point",
    "anchor",
    "causes",
    "changes",
    "flame",
    "kernel_table",
    "occupancy",
    "plain_tables",
    "points_of",
    "roof",
    "speed_of_light",
    "stalls",
    "timeline",
]
