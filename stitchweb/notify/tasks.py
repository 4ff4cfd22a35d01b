"""The agent worker's part: one try to deliver."""

from __future__ import annotations

from stitchweb.celery import app
from stitchweb.notify.sending import deliver
from stitchweb.notify.services import DELIVER


@app.task(name=DELIVER)
def deliver_message(delivery_id: int) -> None:
    deliver(delivery_id)
