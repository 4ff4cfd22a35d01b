"""Bytes by content: small ones in the database, large ones in the file storage."""

from __future__ import annotations

import hashlib

import pytest
from django.core.files.storage import default_storage

from stitchweb.runs import blobs, services
from stitchweb.runs.models import Blob, Run
from tests.agents.loop_world import options
from tests.conftest import World


@pytest.fixture
def run(world: World) -> Run:
    return services.start_run(world.owner, world.revision, options())


@pytest.mark.parametrize("size", [0, 10, blobs.INLINE, blobs.INLINE + 1, 3 * blobs.INLINE])
def test_what_is_put_is_got_again(run: Run, size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    ref = blobs.RunBlobs(run.pk).put(data)
    assert (ref.sha256, ref.size) == (hashlib.sha256(data).hexdigest(), size)
    assert blobs.RunBlobs(run.pk).get(ref) == data
    row = Blob.objects.get(pk=ref.sha256)
    assert (row.data is None) == (size > blobs.INLINE)
    assert bool(row.file) == (size > blobs.INLINE)


def test_the_same_bytes_are_stored_once(run: Run, world: World) -> None:
    other = services.start_run(world.owner, world.revision, options())
    data = b"x" * (blobs.INLINE + 1)
    blobs.RunBlobs(run.pk).put(data)
    ref = blobs.RunBlobs(other.pk).put(data)
    assert Blob.objects.get(pk=ref.sha256).runs.count() == 2
    assert len(default_storage.listdir(f"blobs/{ref.sha256[:2]}")[1]) == 1


def test_a_run_may_be_given_what_is_stored_already(run: Run, world: World) -> None:
    other = services.start_run(world.owner, world.revision, options())
    ref = blobs.RunBlobs(run.pk).put(b"shared")
    blobs.link([ref], other)
    assert blobs.RunBlobs(other.pk).get(ref) == b"shared"
