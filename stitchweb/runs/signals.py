"""What others may want to know of, sent after the commit. Whoever tells people connects to these.

ended:    `run`, with its verdict and sentence. Once per run.
decided:  `run`: a candidate of it has been decided on, so nothing more is measured of it for now.

A receiver that fails is logged and fails nobody else.
"""

from __future__ import annotations

from functools import partial

from django.db import transaction
from django.dispatch import Signal

from stitchweb.runs.models import Run

ended = Signal()
decided = Signal()


def tell_ended(run: Run) -> None:
    """Send after the commit; never if it does not come to one."""
    transaction.on_commit(partial(ended.send_robust, sender=Run, run=run))


def tell_decided(run: Run) -> None:
    """As `tell_ended`."""
    transaction.on_commit(partial(decided.send_robust, sender=Run, run=run))
