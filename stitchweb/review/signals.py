"""What others may want to know of, sent after the commit. Whoever tells people connects to these.

asked:    `project`, `by` and `people` (keys of users): they score in it from now on.
granted:  the same: they settle disputes in it from now on.
labelled: `item`: it has a label more. Nothing of the label itself is told.
settled:  `item`, `by`: it has a final label. Nothing of the label itself is told.

The sender is the model's class. A receiver that fails is logged and fails nobody else.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction
from django.dispatch import Signal

asked = Signal()
granted = Signal()
labelled = Signal()
settled = Signal()


def tell(signal: Signal, sender: type, **facts: Any) -> None:
    """Send after the commit; never if it does not come to one."""
    transaction.on_commit(partial(signal.send_robust, sender=sender, **facts))
