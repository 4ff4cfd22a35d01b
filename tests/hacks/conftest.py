"""One pair of hands for the gallery."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_runner.local import LocalHands


@pytest.fixture(scope="session")
def hands() -> Iterator[LocalHands]:
    with LocalHands() as made:
        yield made
