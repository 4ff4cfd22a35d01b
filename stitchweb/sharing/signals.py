"""What others may want to know of, sent after the commit. Whoever tells people (mail, web hooks) connects to these.

mentioned:  `person`, `by` (users), `publication`, `comment`, `place` (the comment's path). Once per person and comment.
commented:  `comment`, `by`, `publication`, `place`.
published:  `publication`, `by`, `place`.
shared:     `link` (a ShareLink), `by`, `publication`, `place` (of the page that lists links; the link itself is never told).

The sender is the model's class. A receiver that fails is logged and fails nobody else.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction
from django.dispatch import Signal

mentioned = Signal()
commented = Signal()
published = Signal()
shared = Signal()


def tell(signal: Signal, sender: type, **facts: Any) -> None:
    """Send after the commit; never if it does not come to one."""
    transaction.on_commit(partial(signal.send_robust, sender=sender, **facts))
