"""The load of `load.py`, while its processes are killed at random: every run ends as it should, nothing is lost or done twice.

Usage: python bench/chaos.py [--kills 100] [--seconds 600] [--seed 1] [--viewers 200] [--queued 50] [--reviewers 20]

Every few seconds SIGKILL ends web, agent worker, sweeper, a runner, the broker or the database; it comes back after up to three
seconds. Answers of 500 and more are allowed here, and asked again; what was answered otherwise must be there at the end.
"""

from __future__ import annotations

import random
import sys
import time

from fleet import fleet
from load import RUNNERS, begin, parser, tell
from report import show


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    chance = random.Random(chosen.seed)
    with fleet(RUNNERS, lease_s=6, every_s=2) as site:  # what was lost shows sooner
        load = begin(site, chosen.viewers, chosen.queued, chosen.reviewers, chosen.seconds)
        began = time.monotonic()
        for number in range(chosen.kills):
            due = began + chosen.seconds * (number + chance.random()) / chosen.kills
            time.sleep(max(0.0, due - time.monotonic()))
            site.kill(chance.choice(sorted(site.parts)), chance.uniform(0.1, 3.0))
            if number % 5 == 4:
                load.top_up()
        seen, rows = load.end()
        killed = [(part.name, part.kills, part.starts) for part in site.parts.values()]
    status = tell(f"{chosen.kills} kills in {chosen.seconds:.0f} s", seen, rows, chosen)
    show("Who was killed", ("process", "kills", "starts"), killed)
    return status


if __name__ == "__main__":
    sys.exit(main())
