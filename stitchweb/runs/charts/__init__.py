"""Charts as server-made SVG: geometry as attributes in percent, text in its own size, classes instead of styles.

Nothing here reads a database or a blob: functions take contracts or plain numbers and return safe markup. Each chart says its
numbers in its label; the page repeats them in a table or a sentence beside it.
"""

from stitchweb.runs.charts.axis import LogAxis
from stitchweb.runs.charts.curve import fast_p_curve
from stitchweb.runs.charts.interval import interval, interval_axis
from stitchweb.runs.charts.lanes import lanes
from stitchweb.runs.charts.timing import TimingTrack, timing_tracks

__all__ = [
    "LogAxis",
    "TimingTrack",
    "fast_p_curve",
    "interval",
    "interval_axis",
    "lanes",
    "timing_tracks",
]
