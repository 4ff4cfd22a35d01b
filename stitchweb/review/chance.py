"""Chance that falls the same way each time it is asked."""

from __future__ import annotations

import random

from stitchweb.review.models import Project


def draw(project: Project, sha256: str, purpose: str) -> float:
    """A number in 0..1 that is always the same for this project, content and purpose."""
    return random.Random(f"{project.pk} {purpose} {sha256}").random()  # noqa: S311  a sample, not a secret
