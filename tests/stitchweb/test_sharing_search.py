"""What is found by which words, the same on both databases."""

from __future__ import annotations

import pytest
from django.db import connection

from stitchweb.core.upkeep import hourly
from stitchweb.sharing import search
from stitchweb.sharing.access import publications_for
from stitchweb.sharing.models import Publication
from stitchweb.sharing.services.indexing import index_missing
from stitchweb.sharing.services.publishing import describe, withdraw
from tests.stitchweb.sharing_world import Shown, make_shown, other_story, publish_told
from tests.stitchweb.world_for_tests import tell_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def shown() -> Shown:
    return make_shown()


FOUND = (
    "layernorm", "LayerNorm", "gelu fused", "rstd", "ln_gelu", "torch nn", "regist", "fused-row", "empty like", "Norm",
    "class ModelNew", "1e-5f",
)  # fmt: skip
NOT_FOUND = ("cuda", "gelu cuda", "egisters", "", "'\"*():&|!", "-- drop table", "a" * 5000, "\u0661")


def test_words_of_name_tags_notes_and_code_are_found_by_their_beginnings(shown: Shown) -> None:
    mine = publications_for(shown.world.owner).filter(newest=True)
    for text in FOUND:
        assert shown.second in mine.search(text), text
    for text in NOT_FOUND:
        assert shown.second not in mine.search(text), text
    assert not publications_for(shown.world.outsider).search("rstd").exists()


def test_the_name_weighs_more_than_the_code(shown: Shown) -> None:
    run = tell_run(shown.world.revision, shown.world.owner, *other_story())
    other = publish_told(shown.world.owner, run, "c5", name="Rstd alone")
    assert publications_for(shown.world.owner).filter(newest=True).search("rstd").first() == other


def test_what_is_described_anew_is_found_by_its_new_words_alone(shown: Shown) -> None:
    mine = publications_for(shown.world.owner).filter(newest=True)
    for word, gone in (("marmots", "registers"), ("badgers", "marmots")):
        describe(shown.world.owner, shown.second.pk, f"Of {word}.", "MIT", [word[:-1]])
        assert [mine.search(text).count() for text in (word, "rstd", gone)] == [1, 1, 0]


def test_what_is_deleted_or_withdrawn_is_not_found(shown: Shown) -> None:
    mine = publications_for(shown.world.owner)
    assert mine.search("rstd").count() == 2
    withdraw(shown.world.owner, shown.second.pk)
    assert mine.search("rstd").count() == 1
    shown.first.delete()
    assert Publication.objects.search("rstd").count() == 1
    shown.world.team.delete()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {search.TABLE}")
        assert cursor.fetchone()[0] == 0


def test_what_the_index_lost_is_found_again(shown: Shown) -> None:
    mine = publications_for(shown.world.owner)
    # Nothing is searched before it is found again: SQLite 3.40 spoils an index that is asked between a row's deletion and its
    # return in the same transaction, which no request does.
    search.forget([shown.second.pk])
    hourly.send_robust(sender=None)
    assert mine.search("rstd fused").count() == 1
    assert mine.search("rstd").count() == 2
    assert index_missing() == 0
