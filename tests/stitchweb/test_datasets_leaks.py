"""Leakage planted in five ways is refused, with the pair named."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from stitchweb.datasets.models import Record, Reference
from stitchweb.datasets.services.collect import collect
from stitchweb.datasets.services.placing import Leaking, drawn, leaks, pin, place, placed
from stitchweb.programs.models import Program, Revision
from stitchweb.programs.services import Upload, create_program
from stitchweb.review.models import Item
from stitchweb.runs.models import Run
from tests.conftest import World
from tests.stitchweb.datasets_world import labelled, released

pytestmark = pytest.mark.django_db


class Two:
    """Two references of a labelled team, which have nothing to do with each other, and their names."""

    def __init__(self, world: World) -> None:
        self.world, self.team = world, labelled(world)
        collect(self.team)
        place(self.team)
        rows = Reference.objects.filter(team=self.team, revision__program__name__startswith="Synthetic chain")
        self.a, self.b = rows.order_by("pk")[:2]

    def text(self, text: str) -> None:
        """Give `b` a text of its own making, as if it had been uploaded so."""
        other = create_program(self.world.owner, self.team, Upload(text, "other.py", name="Planted"))
        Record.objects.filter(reference=self.b).update(reference=self.a)
        Run.objects.filter(revision=self.b.revision).update(revision=other)
        Record.objects.filter(team=self.team).delete()
        collect(self.team)
        place(self.team)
        self.b = Reference.objects.get(team=self.team, sha256=other.sha256)

    def apart(self) -> None:
        pin(self.world.owner, self.team, self.a.pk, split="train")
        pin(self.world.owner, self.team, self.b.pk, split="test")

    def refused(self, because: str) -> None:
        self.apart()
        with pytest.raises(Leaking, match=because) as caught:
            released(self.team)
        assert self.a.sha256[:12] in str(caught.value)
        assert self.b.sha256[:12] in str(caught.value)
        with pytest.raises(CommandError, match=because):
            call_command("create_release", "again", team=self.team.slug)


@pytest.fixture
def two(world: World) -> Two:
    return Two(world)


def test_two_references_of_their_own_may_stand_apart(two: Two) -> None:
    two.apart()
    # Until they share something: the groups of both are alone.
    assert not leaks(placed(two.team))
    released(two.team)


def test_the_same_program_under_other_names_and_constants(two: Two) -> None:
    text = two.a.revision.text.replace("self.first", "self.one").replace("width", "columns")
    two.text(text.replace('"""Synthetic', '"""Another').replace("torch.randn(", "torch.randn(1"))
    assert two.a.sha256 != two.b.sha256
    two.refused("their syntax trees are the same")


def test_a_near_duplicate(two: Two) -> None:
    line = "        return x\n"
    two.text(two.a.revision.text.replace(line, f"        x = x + 0.5\n{line}"))
    assert Reference.objects.get(pk=two.a.pk).ast_sha256 != two.b.ast_sha256
    two.refused("near duplicates")


def test_a_revision_or_fork_of_the_same_program(two: Two) -> None:
    Revision.objects.filter(pk=two.b.revision_id).update(program=Program.objects.get(revisions=two.a.revision_id), number=2)
    two.refused("revisions or forks of one program")


def test_a_candidate_in_common(two: Two) -> None:
    other = Record.objects.filter(reference=two.b).first()
    assert other is not None
    mine = Record.objects.filter(reference=two.a).first()
    assert mine is not None
    Record.objects.filter(pk=other.pk).update(norm_sha256=mine.norm_sha256)
    place(two.team)
    two.refused("they share a candidate")


def test_a_gold_item_that_would_train(two: Two) -> None:
    Item.objects.filter(run__revision=two.a.revision).update(gold=True)
    place(two.team)
    assert Reference.objects.get(pk=two.a.pk).split == "gold"
    pin(two.world.owner, two.team, two.a.pk, split="train")
    with pytest.raises(Leaking, match="a gold item uses it") as caught:
        released(two.team)
    assert two.a.sha256[:12] in str(caught.value)


def test_a_group_keeps_its_split_when_others_come_and_takes_the_more_held_out_one_when_two_are_joined(two: Two) -> None:
    Reference.objects.filter(pk=two.a.pk).update(split="train", group="gone")
    Reference.objects.filter(pk=two.b.pk).update(split="test", group="gtwo")
    place(two.team)
    assert {(r.split, r.group) for r in Reference.objects.filter(pk__in=[two.a.pk, two.b.pk])} == {
        ("train", "gone"),
        ("test", "gtwo"),
    }
    mine = Record.objects.filter(reference=two.a).first()
    assert mine is not None
    Record.objects.filter(reference=two.b).update(norm_sha256=mine.norm_sha256)
    place(two.team)
    assert {(r.split, r.group) for r in Reference.objects.filter(pk__in=[two.a.pk, two.b.pk])} == {("test", "gtwo")}


def test_splits_are_drawn_eight_to_one_to_one() -> None:
    drew = [drawn(f"g{i:016x}") for i in range(4000)]
    for split, share in (("train", 0.8), ("validation", 0.1), ("test", 0.1)):
        assert drew.count(split) / 4000 == pytest.approx(share, abs=0.02)
