"""Sending the test of a model to the agent worker, which alone speaks to models."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from stitchweb.llm.models import TeamModel
from stitchweb.llm.services import mark_asked
from stitchweb.runs import dispatch

TEST_MODEL = "stitchweb.test_model"
PATIENCE = timedelta(seconds=180)  # longer than a test may take


@transaction.atomic
def send_test(model: TeamModel) -> None:
    """Have the model asked. A test that is under way is not sent again."""
    if asked(model):
        return
    mark_asked(model)
    dispatch.send_on_commit(TEST_MODEL, dispatch.AGENTS_QUEUE, model_id=model.pk)


def asked(model: TeamModel) -> bool:
    """Whether an answer may still come."""
    recent = model.tested_at is not None and timezone.now() - model.tested_at < PATIENCE
    return model.test_state == "asked" and recent
